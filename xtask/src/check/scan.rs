//! What one source file declares and names, tests left out.

use std::collections::{HashMap, HashSet};

use super::tokens::{Token, tokens};

/// What is in a file.
#[derive(Debug, Default)]
pub struct Scan {
    /// Modules: those of other files (`mod a;`) and those in this one.
    pub modules: Vec<DeclaredModule>,
    /// What `use` brings in, one for each name.
    pub uses: Vec<Use>,
    /// Paths of two segments or more outside of `use`.
    pub paths: Vec<PathInCode>,
    /// Items of modules, not of functions or blocks.
    pub items: Vec<DeclaredItem>,
    /// How many functions there are, anywhere.
    pub functions: usize,
    /// Lines that hold code.
    pub code_lines: usize,
    /// Words outside of `use`.
    pub words: HashSet<String>,
    /// All of it is for tests.
    pub is_test: bool,
}

/// A module.
#[derive(Debug, PartialEq)]
pub struct DeclaredModule {
    /// Modules of this file around it.
    pub inside: Vec<String>,
    pub name: String,
    /// It has a file of its own.
    pub has_file: bool,
    /// It is for tests only.
    pub is_test: bool,
}

/// One name that a `use` brings in.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// Modules of this file around it.
    pub inside: Vec<String>,
    /// As written, without groups.
    pub path: Vec<String>,
    /// The name here; `None`: all names (`*`).
    pub name: Option<String>,
    /// Others may use it from here.
    pub is_public: bool,
    pub line: usize,
}

/// A path in code.
#[derive(Clone, Debug, PartialEq)]
pub struct PathInCode {
    /// Modules of this file around it.
    pub inside: Vec<String>,
    pub path: Vec<String>,
    pub line: usize,
}

/// Kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// struct, enum, union, trait or a type alias.
    Type,
    Macro,
    /// Function, constant, static.
    Other,
}

/// An item of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredItem {
    /// Modules of this file around it.
    pub inside: Vec<String>,
    pub kind: ItemKind,
    pub name: String,
    pub line: usize,
}

/// Scans a file.
pub fn scan(source: &str) -> Scan {
    let all = tokens(source);
    if starts_with_test_attribute(&all) {
        return Scan { is_test: true, ..Scan::default() };
    }
    let mut scanner = Scanner { tokens: &all, at: 0, blocks: Vec::new(), found: Scan::default() };
    let mut lines = HashSet::new();
    while let Some(token) = scanner.token(0) {
        if let Some((inside_tests, end)) = scanner.test_item() {
            scanner.note_test_module(inside_tests, end);
            scanner.at = end;
            continue;
        }
        let from = scanner.at;
        scanner.step(token);
        for token in &all[from..scanner.at] {
            lines.extend(token.line..=token.end_line);
        }
    }
    scanner.found.code_lines = lines.len();
    scanner.found
}

/// Words that begin an item. What begins with another word is a field, an arm or a statement.
const ITEM_WORDS: &[&str] = &[
    "pub",
    "fn",
    "struct",
    "enum",
    "union",
    "trait",
    "type",
    "impl",
    "mod",
    "use",
    "const",
    "static",
    "unsafe",
    "async",
    "extern",
    "macro_rules",
];

enum OpenBrace {
    Module(String),
    Other,
}

struct Scanner<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    /// Braces that are open here.
    blocks: Vec<OpenBrace>,
    found: Scan,
}

impl<'a> Scanner<'a> {
    fn token(&self, ahead: usize) -> Option<Token<'a>> {
        self.tokens.get(self.at + ahead).copied()
    }

    fn text(&self, ahead: usize) -> &'a str {
        self.token(ahead).map_or("", |token| token.text)
    }

    fn before(&self, back: usize) -> &'a str {
        self.at.checked_sub(back).map_or("", |index| self.tokens[index].text)
    }

    fn word(&self, ahead: usize) -> Option<String> {
        self.token(ahead).filter(Token::is_word).map(|token| token.text.to_owned())
    }

    fn inside(&self) -> Vec<String> {
        let names = self.blocks.iter().filter_map(|block| match block {
            OpenBrace::Module(name) => Some(name.clone()),
            OpenBrace::Other => None,
        });
        names.collect()
    }

    fn is_at_module_level(&self) -> bool {
        self.blocks.iter().all(|block| matches!(block, OpenBrace::Module(_)))
    }

    /// Takes in what begins at `token`, and goes on behind it.
    fn step(&mut self, token: Token<'a>) {
        match token.text {
            "use" if self.text(1) != "<" => return self.declare_use(),
            "mod" if self.word(1).is_some() => return self.declare_module(),
            "{" => self.blocks.push(OpenBrace::Other),
            "}" => {
                self.blocks.pop();
            }
            "fn" if self.word(1).is_some() => {
                self.found.functions += 1;
                self.declare_item(1, ItemKind::Other, token.line);
            }
            "struct" | "enum" | "trait" | "type" => self.declare_item(1, ItemKind::Type, token.line),
            "union" if matches!(self.text(2), "{" | "<") => self.declare_item(1, ItemKind::Type, token.line),
            "const" | "static" => {
                let ahead = if self.text(1) == "mut" { 2 } else { 1 };
                if self.text(ahead + 1) == ":" {
                    self.declare_item(ahead, ItemKind::Other, token.line);
                }
            }
            "macro_rules" => self.declare_item(2, ItemKind::Macro, token.line),
            _ => {}
        }
        if token.is_word() {
            self.found.words.insert(token.text.to_owned());
            if self.note_path(token.line) {
                return;
            }
        }
        self.at += 1;
    }

    fn declare_item(&mut self, ahead: usize, kind: ItemKind, line: usize) {
        if let Some(name) = self.word(ahead).filter(|_| self.is_at_module_level()) {
            self.found.items.push(DeclaredItem { inside: self.inside(), kind, name, line });
        }
    }

    fn declare_module(&mut self) {
        let name = self.word(1).unwrap_or_default();
        let has_file = self.text(2) == ";";
        self.found.modules.push(DeclaredModule {
            inside: self.inside(),
            name: name.clone(),
            has_file,
            is_test: false,
        });
        if self.text(2) == "{" {
            self.blocks.push(OpenBrace::Module(name));
        }
        self.at += 3;
    }

    fn declare_use(&mut self) {
        let is_public = self.before(1) == "pub" || (self.before(1) == ")" && self.is_after_visibility());
        let mut found = Vec::new();
        self.at += 1;
        self.use_tree(&mut Vec::new(), &mut found);
        while self.token(0).is_some_and(|token| token.text != ";") {
            self.at += 1;
        }
        self.at += 1;
        let inside = self.inside();
        self.found.uses.extend(found.into_iter().map(|(path, name, line)| Use {
            inside: inside.clone(),
            path,
            name,
            is_public,
            line,
        }));
    }

    /// Behind `pub(…)`.
    fn is_after_visibility(&self) -> bool {
        let open = (1..self.at).rev().find(|&index| self.tokens[index].text == "(");
        open.is_some_and(|open| self.tokens[open - 1].text == "pub")
    }

    /// Takes in `a::b::{c, d as e, self, f::*}`; what comes from other crates (`::a`) is left out.
    fn use_tree(&mut self, prefix: &mut Vec<String>, found: &mut Vec<(Vec<String>, Option<String>, usize)>) {
        let depth = prefix.len();
        while let Some(token) = self.token(0) {
            match token.text {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(0), "}" | ";" | "") {
                        self.use_tree(prefix, found);
                        self.at += usize::from(self.text(0) == ",");
                    }
                    self.at += 1;
                    break;
                }
                "*" => {
                    self.at += 1;
                    found.push((prefix.clone(), None, token.line));
                    break;
                }
                _ if token.is_word() => {
                    self.at += 1;
                    if token.text != "self" || depth == 0 {
                        prefix.push(token.text.to_owned());
                    }
                    if self.text(0) != "::" {
                        let name = if self.text(0) == "as" { self.word(1) } else { prefix.last().cloned() };
                        self.at += if self.text(0) == "as" { 2 } else { 0 };
                        found.push((prefix.clone(), name, token.line));
                        break;
                    }
                }
                _ => {
                    self.at += 1;
                    break;
                }
            }
        }
        prefix.truncate(depth);
    }

    /// Notes the path that begins here, if one does, and goes on behind it.
    fn note_path(&mut self, line: usize) -> bool {
        let is_visibility = self.before(1) == "in" && self.before(3) == "pub";
        if matches!(self.before(1), "::" | ".") || is_visibility || self.text(1) != "::" {
            return false;
        }
        let mut path = vec![self.text(0).to_owned()];
        self.at += 1;
        while let Some(word) = self.word(1).filter(|_| self.text(0) == "::") {
            self.found.words.insert(word.clone());
            path.push(word);
            self.at += 2;
        }
        if path.len() > 1 {
            self.found.paths.push(PathInCode { inside: self.inside(), path, line });
        }
        true
    }

    /// If an item for tests only begins here: where the item behind its attributes begins, and where it ends.
    fn test_item(&self) -> Option<(usize, usize)> {
        let mut at = self.at;
        let mut is_test = false;
        while self.tokens.get(at)?.text == "#" && self.tokens.get(at + 1)?.text == "[" {
            let end = closing(self.tokens, at + 1);
            is_test |= is_test_attribute(&self.tokens[at + 2..end]);
            at = end + 1;
        }
        is_test.then(|| (at, end_of_item(self.tokens, at)))
    }

    fn note_test_module(&mut self, from: usize, end: usize) {
        let words: Vec<&str> = self.tokens[from..end].iter().map(|token| token.text).take(4).collect();
        let name = match words[..] {
            ["mod", name, ";", ..] | ["pub", "mod", name, ";", ..] => name,
            _ => return,
        };
        let inside = self.inside();
        self.found.modules.push(DeclaredModule {
            inside,
            name: name.to_owned(),
            has_file: true,
            is_test: true,
        });
    }
}

/// Index of what closes the bracket at `open`, or the last one.
fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        depth += i32::from(matches!(token.text, "(" | "[" | "{"));
        depth -= i32::from(matches!(token.text, ")" | "]" | "}"));
        if depth == 0 {
            return index;
        }
    }
    tokens.len() - 1
}

/// The index behind the item, field, arm or statement that begins at `from`.
fn end_of_item(tokens: &[Token<'_>], from: usize) -> usize {
    let first = tokens.get(from).map_or("", |token| token.text);
    let is_item = ITEM_WORDS.contains(&first);
    let is_use = tokens[from.min(tokens.len())..]
        .iter()
        .take_while(|token| token.text != "{" && token.text != ";")
        .any(|token| token.text == "use");
    let mut at = from;
    while at < tokens.len() {
        match tokens[at].text {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            // What closes the block around it: the last field or arm has no comma.
            ")" | "]" | "}" => return at,
            "{" if !is_use => return closing(tokens, at) + 1,
            "(" | "[" | "{" => at = closing(tokens, at) + 1,
            _ => at += 1,
        }
    }
    at
}

/// Whether the words of an attribute say: for tests only.
fn is_test_attribute(attribute: &[Token<'_>]) -> bool {
    let texts: Vec<&str> = attribute.iter().map(|token| token.text).collect();
    match texts[..] {
        ["test"] => true,
        ["cfg", "(", "test", ")"] => true,
        ["cfg", "(", "all", "(", ..] => {
            texts.iter().enumerate().any(|(index, text)| {
                *text == "test" && matches!(texts[index - 1], "(" | ",") && texts[index - 2] != "not"
            }) && !texts.contains(&"any")
        }
        _ => false,
    }
}

/// Whether the file begins with `#![cfg(test)]`, maybe among others of its kind.
fn starts_with_test_attribute(tokens: &[Token<'_>]) -> bool {
    let mut at = 0;
    while tokens.len() > at + 2 && tokens[at].text == "#" && tokens[at + 1].text == "!" {
        let end = closing(tokens, at + 2);
        if is_test_attribute(&tokens[at + 3..end]) {
            return true;
        }
        at = end + 1;
    }
    false
}

/// Names of modules that are for tests only, by the module of this file around them.
pub fn test_modules(scan: &Scan) -> HashMap<Vec<String>, Vec<String>> {
    let mut all: HashMap<Vec<String>, Vec<String>> = HashMap::new();
    for module in scan.modules.iter().filter(|module| module.is_test) {
        all.entry(module.inside.clone()).or_default().push(module.name.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(scan: &Scan) -> Vec<String> {
        scan.paths.iter().map(|path| path.path.join("::")).collect()
    }

    fn uses(scan: &Scan) -> Vec<String> {
        let text = |one: &Use| format!("{} as {}", one.path.join("::"), one.name.as_deref().unwrap_or("*"));
        scan.uses.iter().map(text).collect()
    }

    #[test]
    fn groups_of_imports_are_told_one_by_one() {
        let found =
            scan("use crate::{a::{self, B, c as d}, e::*};\npub(crate) use super::f;\nuse ::std::io;");
        assert_eq!(
            uses(&found),
            [
                "crate::a as a",
                "crate::a::B as B",
                "crate::a::c as d",
                "crate::e as *",
                "super::f as f",
                "std::io as io",
            ]
        );
        assert_eq!(
            found.uses.iter().map(|one| one.is_public).collect::<Vec<_>>(),
            [false, false, false, false, true, false]
        );
        assert_eq!(found.uses[4].line, 2);
    }

    #[test]
    fn paths_in_code_are_seen_and_methods_are_not() {
        let found = scan(
            "fn f() -> crate::a::B { x.collect::<Vec<super::C>>(); d::e::<u8>() } pub(in crate::g) fn h() {}",
        );
        assert_eq!(paths(&found), ["crate::a::B", "super::C", "d::e"]);
        assert_eq!(found.functions, 2);
    }

    #[test]
    fn what_is_for_tests_is_passed_over() {
        let found = scan(
            "#[cfg(test)] mod tests { use crate::a::B; }\n#[cfg(test)] pub mod testing;\nstruct S {\n#[cfg(test)] x: crate::c::D,\n y: u8 }\n\
             #[test] fn t() { crate::e::f(); }\n#[cfg(test)] use crate::{g::H};\n#[cfg(all(test, unix))] impl S { fn i() {} }\n\
             #[cfg(not(test))] fn j() { crate::k::l() }\n#[derive(Debug)] #[cfg(test)] struct M;\nfn n() {}",
        );
        assert_eq!(paths(&found), ["crate::k::l"]);
        assert!(found.uses.is_empty(), "{:?}", found.uses);
        assert_eq!(found.functions, 2);
        assert_eq!(test_modules(&found)[&vec![]], ["testing"]);
        assert_eq!(found.items.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["S", "j", "n"]);
        assert!(scan("#![allow(x)]\n#![cfg(test)]\nfn f() {}").is_test);
    }

    #[test]
    fn an_item_for_tests_ends_where_it_ends() {
        let all_of_it = scan(
            "#[cfg(test)] fn a<B, C>() { crate::d::e() }\n#[cfg(test)] use crate::{f::G};\n#[cfg(test)] struct H(u8, crate::i::J);",
        );
        assert_eq!((all_of_it.paths.len(), all_of_it.code_lines), (0, 0));
    }

    #[test]
    fn types_are_those_of_modules_not_of_functions_or_traits() {
        let found = scan(
            "struct A; enum B {} trait C { type D; } impl C for A { type D = u8; } type E = u8; union F { a: u8 }\n\
             fn f() { struct G; } mod h { pub struct I; fn j() { let union = 1; } }",
        );
        let types = found.items.iter().filter(|item| item.kind == ItemKind::Type);
        let names: Vec<String> =
            types.map(|item| format!("{}{}", item.inside.join("::"), item.name)).collect();
        assert_eq!(names, ["A", "B", "C", "E", "F", "hI"]);
    }

    #[test]
    fn lines_with_code_are_counted_without_comments_and_tests() {
        let found = scan("//! a\n\nfn f() {\n    // b\n    g(\"\n\n\")\n}\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!(found.code_lines, 5);
    }
}
