//! Which file of a crate uses which other, by the paths that its code names. What macros make, and methods, are not seen.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::scan::{ItemKind, Scan, Use, scan, test_modules};

/// Re-exports are followed so far, so that a circle of them ends.
const MAX_REEXPORTS: usize = 8;

/// A file's path below `src`, with `/`, and its text.
pub type SourceFile = (String, String);

/// A crate's files, without those that are for tests only.
#[derive(Debug)]
pub struct CrateTree {
    /// By path below `src`.
    pub files: Vec<ScannedFile>,
    /// The file of each module, by the module's path.
    modules: HashMap<Vec<String>, usize>,
    macros: HashMap<String, usize>,
    /// What comes before the paths of files in messages.
    prefix: String,
    /// Name by which the crate's own binary knows its library.
    library: String,
}

/// A file of a crate.
#[derive(Debug)]
pub struct ScannedFile {
    /// Below `src`.
    pub path: String,
    /// Its module; empty for the root.
    pub module: Vec<String>,
    /// What is in it.
    pub scan: Scan,
}

/// A file uses another.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// Index of the file that uses.
    pub from: usize,
    pub line: usize,
    /// What it names, from the crate's root.
    pub path: String,
    /// Index of the file in which that is defined.
    pub to: usize,
    /// Only a module is named, and nothing in it.
    pub is_module: bool,
}

impl ScannedFile {
    /// The folder or file at the crate's top that it belongs to; `None` for the roots.
    pub fn room(&self) -> Option<&str> {
        self.module.first().map(String::as_str)
    }

    /// It is the root of a library or of a binary.
    fn is_root(&self) -> bool {
        self.module.is_empty()
    }
}

impl CrateTree {
    /// Scans the files of a crate's `src`; `prefix` is where that is.
    pub fn new(sources: &[SourceFile], library: &str, prefix: &str) -> Self {
        let scans: BTreeMap<&str, Scan> =
            sources.iter().map(|(path, text)| (path.as_str(), scan(text))).collect();
        let for_tests = modules_for_tests(&scans);
        let mut files: Vec<ScannedFile> = Vec::new();
        for (path, scan) in scans {
            let module = module_of(path);
            let is_test = (1..=module.len()).any(|length| for_tests.contains(&module[..length]));
            if !is_test && !scan.is_test {
                files.push(ScannedFile { path: path.to_owned(), module, scan });
            }
        }
        let mut tree = Self {
            files,
            modules: HashMap::new(),
            macros: HashMap::new(),
            prefix: prefix.to_owned(),
            library: library.to_owned(),
        };
        tree.list_modules();
        tree
    }

    /// A file's path as messages tell it.
    pub fn path(&self, file: usize) -> String {
        format!("{}{}", self.prefix, self.files[file].path)
    }

    fn list_modules(&mut self) {
        for (index, file) in self.files.iter().enumerate() {
            if file.path != "main.rs" {
                self.modules.insert(file.module.clone(), index);
            }
            let own = file.scan.modules.iter().filter(|module| !module.has_file);
            for module in own {
                let path = [file.module.as_slice(), &module.inside, std::slice::from_ref(&module.name)];
                self.modules.insert(path.concat(), index);
            }
            let macros = file.scan.items.iter().filter(|item| item.kind == ItemKind::Macro);
            self.macros.extend(macros.map(|item| (item.name.clone(), index)));
        }
    }

    /// All uses of one file by another, in the order of files and lines.
    pub fn imports(&self) -> Vec<Import> {
        let mut all = Vec::new();
        for from in 0..self.files.len() {
            let mut own = self.imports_of(from);
            own.sort_by(|a, b| (a.line, &a.path).cmp(&(b.line, &b.path)));
            all.extend(own);
        }
        all
    }

    fn imports_of(&self, from: usize) -> Vec<Import> {
        let file = &self.files[from];
        let mut found = Vec::new();
        for one in &file.scan.uses {
            let Some(path) = self.absolute(file, &one.inside, &one.path, 0) else { continue };
            match &one.name {
                None => self.import_all(from, &path, one.line, &mut found),
                Some(name) if one.is_public && is_below(&path, &file.module) => {
                    // A table of contents is no use; what the file itself takes from it is.
                    if file.scan.words.contains(name) {
                        found.extend(self.import(from, &path, one.line));
                    }
                }
                Some(_) => found.extend(self.import(from, &path, one.line)),
            }
        }
        for one in &file.scan.paths {
            if let Some(path) = self.absolute(file, &one.inside, &one.path, 0) {
                found.extend(self.import(from, &path, one.line));
            }
        }
        found.retain(|import| import.to != from);
        found
    }

    fn import(&self, from: usize, path: &[String], line: usize) -> Option<Import> {
        let (to, is_module) = self.locate(path, 0)?;
        Some(Import { from, line, path: path.join("::"), to, is_module })
    }

    /// `use module::*`: what of the module the file names.
    fn import_all(&self, from: usize, module: &[String], line: usize, found: &mut Vec<Import>) {
        let Some(&to) = self.modules.get(module) else {
            found.extend(self.import(from, module, line)); // the variants of an enum
            return;
        };
        found.push(Import { from, line, path: module.join("::"), to, is_module: true });
        let named = &self.files[from].scan.words;
        for name in self.names_in(module).into_iter().filter(|name| named.contains(name)) {
            let path = [module, &[name]].concat();
            found.extend(self.import(from, &path, line).filter(|import| !import.is_module));
        }
    }

    /// Names of items in a module, and of what it re-exports.
    fn names_in(&self, module: &[String]) -> HashSet<String> {
        let Some(&index) = self.modules.get(module) else { return HashSet::new() };
        let file = &self.files[index];
        let inside = &module[file.module.len()..];
        let items = file.scan.items.iter().filter(|item| item.inside == inside).map(|item| item.name.clone());
        let uses = file.scan.uses.iter().filter(|one| one.inside == inside && one.is_public);
        items.chain(uses.filter_map(|one| one.name.clone())).collect()
    }

    /// A path from the crate's root; `None` for paths into other crates and for local names.
    fn absolute(
        &self,
        file: &ScannedFile,
        inside: &[String],
        path: &[String],
        depth: usize,
    ) -> Option<Vec<String>> {
        let here = [file.module.as_slice(), inside].concat();
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([here.as_slice(), rest].concat()),
            "super" => {
                let up = path.iter().take_while(|segment| *segment == "super").count();
                let parent = &here[..here.len().checked_sub(up)?];
                Some([parent, &path[up..]].concat())
            }
            name if file.is_root() && name == self.library => Some(rest.to_vec()),
            name => {
                let child = [here.as_slice(), std::slice::from_ref(first)].concat();
                if self.modules.contains_key(&child) {
                    return Some([child.as_slice(), rest].concat());
                }
                let brings = |one: &&Use| one.inside == inside && one.name.as_deref() == Some(name);
                let brought = file.scan.uses.iter().find(brings).filter(|_| depth < MAX_REEXPORTS)?;
                // `use x::{self}` of another crate has the name of its own first segment.
                let target = self.absolute(file, inside, &brought.path, depth + 1)?;
                Some([target.as_slice(), rest].concat())
            }
        }
    }

    /// The file in which a path from the root is defined, and whether it is a module. `None`: in another crate.
    fn locate(&self, path: &[String], depth: usize) -> Option<(usize, bool)> {
        let known = (0..=path.len()).rev().find(|&length| self.modules.contains_key(&path[..length]))?;
        let (module, rest) = path.split_at(known);
        let index = self.modules[module];
        let Some((name, below)) = rest.split_first() else { return Some((index, true)) };
        let file = &self.files[index];
        let inside = &module[file.module.len()..];
        if file.scan.items.iter().any(|item| item.inside == inside && item.name == *name) {
            return Some((index, false));
        }
        let uses = || file.scan.uses.iter().filter(|one| one.inside == inside);
        if depth < MAX_REEXPORTS {
            if let Some(one) = uses().find(|one| one.name.as_deref() == Some(name)) {
                let target = self.absolute(file, inside, &one.path, 0)?;
                return self.locate(&[target.as_slice(), below].concat(), depth + 1);
            }
            for one in uses().filter(|one| one.name.is_none()) {
                let Some(target) = self.absolute(file, inside, &one.path, 0) else { continue };
                if target != module && self.names_in(&target).contains(name) {
                    return self.locate(&[target.as_slice(), rest].concat(), depth + 1);
                }
            }
        }
        Some((self.macros.get(name).copied().unwrap_or(index), false))
    }
}

fn is_below(path: &[String], module: &[String]) -> bool {
    path.len() > module.len() && path.starts_with(module)
}

/// `a/b.rs` and `a/b/mod.rs` are `a::b`; `lib.rs` and `main.rs` are the root.
fn module_of(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if matches!(path, "lib" | "main") { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

fn modules_for_tests(scans: &BTreeMap<&str, Scan>) -> HashSet<Vec<String>> {
    let mut all = HashSet::new();
    for (path, scan) in scans {
        for (inside, names) in test_modules(scan) {
            let module = [module_of(path), inside].concat();
            all.extend(names.into_iter().map(|name| [module.as_slice(), &[name]].concat()));
        }
    }
    all
}

/// A tree made up by a test: pairs of path and text.
#[cfg(test)]
pub fn made_up(sources: &[(&str, &str)]) -> CrateTree {
    let sources: Vec<SourceFile> =
        sources.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    CrateTree::new(&sources, "made_up", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses of items as `file:line path file`.
    fn uses(sources: &[(&str, &str)]) -> Vec<String> {
        let tree = made_up(sources);
        let path = |index: usize| tree.files[index].path.as_str();
        let imports = tree.imports();
        let items = imports.iter().filter(|import| !import.is_module);
        items.map(|one| format!("{}:{} {} {}", path(one.from), one.line, one.path, path(one.to))).collect()
    }

    #[test]
    fn paths_are_followed_from_the_root_the_parent_and_the_module_itself() {
        let found = uses(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod c; mod d; pub struct A;"),
            ("a/c.rs", "use super::A;\nuse super::d::D;\nuse crate::b::B;\nuse std::fmt;"),
            ("a/d.rs", "pub struct D;"),
            ("b.rs", "pub struct B; fn f() { self::B; serde::x() }"),
        ]);
        assert_eq!(found, ["a/c.rs:1 a::A a/mod.rs", "a/c.rs:2 a::d::D a/d.rs", "a/c.rs:3 b::B b.rs"]);
    }

    #[test]
    fn a_re_export_leads_to_where_the_item_is_and_is_no_use_itself() {
        let found = uses(&[
            ("a/mod.rs", "mod c; mod d;\npub use c::C;\npub use d::*;"),
            ("a/c.rs", "pub struct C;"),
            ("a/d.rs", "pub struct D;"),
            ("b.rs", "use crate::a::{C, D};"),
        ]);
        assert_eq!(found, ["b.rs:1 a::C a/c.rs", "b.rs:1 a::D a/d.rs"]);
    }

    #[test]
    fn a_re_export_that_its_own_file_takes_from_is_a_use() {
        let found =
            uses(&[("a/mod.rs", "mod c;\npub use c::C;\npub struct A(C);"), ("a/c.rs", "pub struct C;")]);
        assert_eq!(found, ["a/mod.rs:2 a::c::C a/c.rs"]);
    }

    #[test]
    fn a_module_that_was_brought_in_leads_on() {
        let found = uses(&[
            ("a/mod.rs", "pub mod c; fn f() { c::g() }"),
            ("a/c.rs", "pub fn g() {}"),
            ("b.rs", "use crate::a as other;\nfn h() { other::c::g() }"),
        ]);
        assert_eq!(found, ["a/mod.rs:1 a::c::g a/c.rs", "b.rs:2 a::c::g a/c.rs"]);
    }

    #[test]
    fn of_all_names_of_a_module_only_those_that_are_named_count() {
        let found = uses(&[
            ("a.rs", "pub use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B;"),
            ("c.rs", "use crate::a::*; fn f(_: B) {}"),
            ("d.rs", "use crate::a::*; mod e { use super::super::a::A; fn f(_: A) {} }"),
        ]);
        assert_eq!(found, ["a.rs:1 b::B b.rs", "c.rs:1 a::B b.rs", "d.rs:1 a::A a.rs", "d.rs:1 a::A a.rs"]);
    }

    #[test]
    fn files_that_only_tests_have_are_left_out() {
        let found = uses(&[
            ("lib.rs", "mod a; #[cfg(test)] mod testing; mod b;"),
            ("a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("testing.rs", "use crate::a::A;"),
            ("testing/more.rs", "use crate::a::A;"),
            ("b.rs", "pub struct B;"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn the_binary_uses_its_library_by_name() {
        let found = uses(&[
            ("lib.rs", "pub mod a;"),
            ("a.rs", "pub fn f() {}"),
            ("main.rs", "fn main() { made_up::a::f() }"),
        ]);
        assert_eq!(found, ["main.rs:1 a::f a.rs"]);
    }

    #[test]
    fn re_exports_in_a_circle_come_to_an_end() {
        let found = uses(&[
            ("a.rs", "pub use crate::b::X;"),
            ("b.rs", "pub use crate::a::X;"),
            ("c.rs", "use crate::a::X;"),
        ]);
        assert_eq!(found.last().unwrap(), "c.rs:1 a::X a.rs");
    }
}
