//! A type has one name and a name one type, in the whole workspace.

use std::collections::BTreeMap;

use super::scan::{ItemKind, Scan};

/// Names that may be there more than once, each with its reason.
pub const EXCEPTIONS: &[(&str, &str)] = &[
    ("Error", "what can go wrong in a module is named by the module: `elf::Error`"),
    ("Result", "the same, for its errors"),
];

/// Where a type is defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypePlace {
    /// From the workspace's root.
    pub path: String,
    pub line: usize,
    /// Its crate holds to the rule: two such places are an error.
    pub is_held: bool,
}

/// Places of types by name.
#[derive(Debug, Default)]
pub struct Types(BTreeMap<String, Vec<TypePlace>>);

impl Types {
    /// Notes the types of a file.
    pub fn add(&mut self, path: &str, scan: &Scan, is_held: bool) {
        for item in scan.items.iter().filter(|item| item.kind == ItemKind::Type) {
            let place = TypePlace { path: path.to_owned(), line: item.line, is_held };
            self.0.entry(item.name.clone()).or_default().push(place);
        }
    }

    /// One message for each name that is there more than once, and whether it is an error.
    pub fn repeated(&self) -> Vec<(String, bool)> {
        let is_exception = |name: &str| EXCEPTIONS.iter().any(|(exception, _)| *exception == name);
        let names = self.0.iter().filter(|(name, places)| places.len() > 1 && !is_exception(name));
        let message = |(name, places): (&String, &Vec<TypePlace>)| {
            let texts: Vec<String> = places.iter().map(|at| format!("{}:{}", at.path, at.line)).collect();
            let is_error = places.iter().filter(|place| place.is_held).count() > 1;
            (format!("type `{name}` is defined {} times: {}", places.len(), texts.join(", ")), is_error)
        };
        names.map(message).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::scan;
    use super::*;

    fn repeated(files: &[(&str, &str, bool)]) -> Vec<(String, bool)> {
        let mut types = Types::default();
        for (path, text, is_held) in files {
            types.add(path, &scan(text), *is_held);
        }
        types.repeated()
    }

    #[test]
    fn a_name_of_two_types_is_told_with_both_places() {
        let found =
            repeated(&[("a.rs", "struct A;\nenum B {}", true), ("b.rs", "type B = u8; struct C;", true)]);
        assert_eq!(found, [("type `B` is defined 2 times: a.rs:2, b.rs:1".to_owned(), true)]);
    }

    #[test]
    fn a_name_that_one_crate_of_two_still_has_is_only_counted() {
        let found = repeated(&[("a.rs", "struct A;", true), ("b.rs", "struct A;", false)]);
        assert_eq!(found.len(), 1);
        assert!(!found[0].1);
    }

    #[test]
    fn exceptions_and_types_of_tests_may_be_there_again() {
        let source = "pub struct Error; #[cfg(test)] mod tests { struct A; }";
        assert!(
            repeated(&[("a.rs", source, true), ("b.rs", source, true), ("c.rs", "struct A;", true)])
                .is_empty()
        );
    }
}
