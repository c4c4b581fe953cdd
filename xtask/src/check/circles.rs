//! Files that use each other in a circle.
//!
//! A parent is a file like any other: a `mod.rs` that declares and re-exports its children uses none of them, but one
//! whose own code calls them must not define what they need.

use std::collections::{BTreeMap, VecDeque};

use super::imports::{CrateTree, Import};

/// Groups of files each of which uses all others of its group, by itself or through them; indices in order.
pub fn groups(tree: &CrateTree) -> Vec<Vec<usize>> {
    let graph = graph(tree);
    let reached: Vec<Vec<bool>> = (0..graph.len()).map(|from| reached_from(&graph, from)).collect();
    let mut is_told = vec![false; graph.len()];
    let mut groups = Vec::new();
    for first in 0..graph.len() {
        let group: Vec<usize> =
            (first..graph.len()).filter(|&other| reached[first][other] && reached[other][first]).collect();
        if !is_told[first] && group.len() > 1 {
            group.iter().for_each(|&file| is_told[file] = true);
            groups.push(group);
        }
    }
    groups
}

/// One message for each group: its size, and a shortest circle through its first file.
pub fn circles(tree: &CrateTree) -> Vec<String> {
    let graph = graph(tree);
    let path = |file: usize| tree.path(file);
    let text = |group: Vec<usize>| {
        let steps: Vec<String> = shortest_circle(&graph, group[0])
            .iter()
            .map(|import| {
                format!("{}:{} uses `{}` of {}", path(import.from), import.line, import.path, path(import.to))
            })
            .collect();
        format!("{} files use each other in a circle: {}", group.len(), steps.join(", "))
    };
    groups(tree).into_iter().map(text).collect()
}

/// For each file, the first use of each other one.
type Graph = Vec<BTreeMap<usize, Import>>;

fn graph(tree: &CrateTree) -> Graph {
    let mut graph: Graph = vec![BTreeMap::new(); tree.files.len()];
    for import in tree.imports().into_iter().filter(|import| !import.is_module) {
        graph[import.from].entry(import.to).or_insert(import);
    }
    graph
}

fn reached_from(graph: &Graph, from: usize) -> Vec<bool> {
    let mut reached = vec![false; graph.len()];
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        if !std::mem::replace(&mut reached[file], true) {
            open.extend(graph[file].keys());
        }
    }
    reached
}

/// The shortest way from a file back to itself; there is one.
fn shortest_circle(graph: &Graph, start: usize) -> Vec<&Import> {
    let mut came_by: Vec<Option<&Import>> = vec![None; graph.len()];
    let mut open = VecDeque::from([start]);
    while let Some(file) = open.pop_front() {
        for (&next, import) in &graph[file] {
            if came_by[next].is_none() {
                came_by[next] = Some(import);
                open.push_back(next);
            }
        }
    }
    let mut steps = Vec::new();
    let mut file = start;
    while let Some(import) = came_by[file] {
        steps.push(import);
        file = import.from;
        if file == start {
            break;
        }
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::super::imports::made_up;
    use super::*;

    #[test]
    fn a_circle_is_told_as_a_chain_of_uses() {
        let tree = made_up(&[
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "\nuse crate::c::C; pub struct B;"),
            ("c.rs", "use crate::a::A; pub struct C;"),
            ("d.rs", "use crate::a::A;"),
        ]);
        assert_eq!(
            circles(&tree),
            [
                "3 files use each other in a circle: a.rs:1 uses `b::B` of b.rs, b.rs:2 uses `c::C` of c.rs, c.rs:1 uses `a::A` of a.rs"
            ]
        );
    }

    #[test]
    fn files_that_use_each_other_one_way_only_are_fine() {
        let tree = made_up(&[
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C; pub struct B;"),
            ("c.rs", "pub struct C;"),
        ]);
        assert!(circles(&tree).is_empty());
    }

    #[test]
    fn a_parent_that_lists_its_children_is_in_no_circle() {
        let tree = made_up(&[
            ("a/mod.rs", "mod b; mod c; pub use b::B; pub use c::C; pub struct A;"),
            ("a/b.rs", "use super::{A, C}; pub struct B;"),
            ("a/c.rs", "use crate::a; fn f(_: a::A) {} pub struct C;"),
        ]);
        assert!(circles(&tree).is_empty());
    }

    #[test]
    fn a_parent_that_calls_its_children_must_not_have_what_they_need() {
        let tree = made_up(&[
            ("a/mod.rs", "mod b; pub struct A; fn f() { b::g() }"),
            ("a/b.rs", "use super::A; pub fn g() {}"),
        ]);
        assert_eq!(groups(&tree), [[0, 1]]);
        let apart = made_up(&[
            ("a/mod.rs", "mod b; mod c; pub use c::A; fn f() { b::g() }"),
            ("a/b.rs", "use super::A; pub fn g() {}"),
            ("a/c.rs", "pub struct A;"),
        ]);
        assert!(groups(&apart).is_empty());
    }

    #[test]
    fn to_name_a_module_on_the_way_to_another_is_no_use_of_its_file() {
        let tree = made_up(&[
            ("a/mod.rs", "pub mod b; use crate::c::C; fn f(_: C) {}"),
            ("a/b.rs", "pub fn g() {}"),
            ("c.rs", "use crate::a; pub struct C; fn h() { a::b::g() }"),
        ]);
        assert!(circles(&tree).is_empty());
    }

    #[test]
    fn two_circles_are_two() {
        let tree = made_up(&[
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
            ("c.rs", "use crate::d::D; pub struct C;"),
            ("d.rs", "use crate::c::C; use crate::a::A; pub struct D;"),
        ]);
        assert_eq!(groups(&tree), [[0, 1], [2, 3]]);
    }
}
