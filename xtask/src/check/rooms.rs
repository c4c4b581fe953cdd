//! The rooms of a crate: the folders and files at its top, in the order in which later ones may use earlier ones.

use super::imports::CrateTree;

/// More rooms than these nobody keeps in mind.
pub const MAX_ROOMS: usize = 12;

/// Uses of a later room by an earlier one, and rooms that the order does not name.
pub fn against_order(tree: &CrateTree, order: &[&str]) -> Vec<String> {
    let place = |room: &str| order.iter().position(|name| *name == room);
    let mut found = Vec::new();
    for room in rooms(tree).into_iter().filter(|room| place(room).is_none()) {
        found.push(format!("room `{room}` is not in the order of rooms"));
    }
    let mut told = std::collections::HashSet::new();
    for import in tree.imports() {
        let (user, used) = (&tree.files[import.from], &tree.files[import.to]);
        let (Some(user_room), Some(used_room)) = (user.room(), used.room()) else { continue };
        let (Some(user_place), Some(used_place)) = (place(user_room), place(used_room)) else { continue };
        if used_place > user_place && told.insert((import.from, import.line, import.to)) {
            found.push(format!(
                "{}:{} uses `crate::{}` ({}): `{user_room}` comes before `{used_room}`, and may only use what comes before itself",
                tree.path(import.from), import.line, import.path, tree.path(import.to)
            ));
        }
    }
    found
}

/// One message if there are too many rooms.
pub fn too_many(tree: &CrateTree) -> Vec<String> {
    let rooms = rooms(tree);
    if rooms.len() <= MAX_ROOMS {
        return Vec::new();
    }
    vec![format!("{} rooms at the top, at most {MAX_ROOMS}: {}", rooms.len(), rooms.join(", "))]
}

/// Names of rooms, in alphabetic order.
fn rooms(tree: &CrateTree) -> Vec<&str> {
    let mut rooms: Vec<&str> = tree.files.iter().filter_map(super::imports::ScannedFile::room).collect();
    rooms.sort_unstable();
    rooms.dedup();
    rooms
}

#[cfg(test)]
mod tests {
    use super::super::imports::made_up;
    use super::*;

    #[test]
    fn a_use_of_a_later_room_is_named_with_its_line_and_reason() {
        let tree = made_up(&[
            ("job/mod.rs", "pub mod graph;"),
            ("job/graph.rs", "\nuse crate::hang::Hang;\npub struct Graph;"),
            ("hang.rs", "use crate::job::graph::Graph;\npub struct Hang;"),
        ]);
        assert_eq!(
            against_order(&tree, &["job", "hang"]),
            [
                "job/graph.rs:2 uses `crate::hang::Hang` (hang.rs): `job` comes before `hang`, and may only use what comes before itself"
            ]
        );
        assert!(against_order(&tree, &["hang", "job"])[0].starts_with("hang.rs:1 "));
    }

    #[test]
    fn a_later_room_cannot_hide_behind_a_re_export() {
        let tree = made_up(&[
            ("lib.rs", "pub use hang::Hang;"),
            ("job.rs", "use crate::Hang;"),
            ("hang.rs", "pub struct Hang;"),
        ]);
        assert_eq!(against_order(&tree, &["job", "hang"]).len(), 1);
    }

    #[test]
    fn a_room_that_has_no_place_is_told() {
        let tree = made_up(&[("lib.rs", ""), ("job.rs", ""), ("words.rs", "")]);
        assert_eq!(against_order(&tree, &["job"]), ["room `words` is not in the order of rooms"]);
    }

    #[test]
    fn twelve_rooms_are_enough() {
        let names: Vec<String> = (0..13).map(|number| format!("room{number}.rs")).collect();
        let sources: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(too_many(&made_up(&sources[..12])).is_empty());
        assert!(too_many(&made_up(&sources))[0].starts_with("13 rooms at the top, at most 12: "));
    }
}
