//! The rules of documents: every link between them leads somewhere, and those that are read first stay short.

use std::collections::HashMap;

use anyhow::{Result, bail};

use crate::process::root;
use crate::project_files;

/// Documents that must stay short: lines, and characters in a line.
const LIMITS: &[(&str, usize, usize)] = &[("README.md", 150, usize::MAX), ("ARCHITECTURE.md", 120, 120)];

/// Fails if a link is dead or a document too long.
pub fn check() -> Result<()> {
    let broken = broken()?;
    if !broken.is_empty() {
        bail!("documents:\n  {}", broken.join("\n  "));
    }
    Ok(())
}

fn broken() -> Result<Vec<String>> {
    let files: Vec<String> = project_files::files()?.iter().map(|path| path.display().to_string()).collect();
    let documents: HashMap<String, String> = files
        .iter()
        .filter(|path| path.ends_with(".md"))
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(root().join(path)).ok()?)))
        .collect();
    let is_there = |path: &str| {
        let folder = format!("{path}/");
        files.iter().any(|file| file == path || file.starts_with(&folder)) && root().join(path).exists()
    };
    let mut broken = dead_links(&documents, is_there);
    broken.extend(too_long(&documents, LIMITS));
    Ok(broken)
}

/// Links of documents (text by path) that lead to no file, or to no heading of a document.
fn dead_links(documents: &HashMap<String, String>, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let mut dead = Vec::new();
    for (document, text) in documents {
        for (line, target) in links(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
            let path = if path.is_empty() { Some(document.clone()) } else { resolve(document, path) };
            let leads_to_heading = |path: &String| {
                heading.is_empty()
                    || documents.get(path).is_none_or(|text| headings(text).contains(&heading.to_owned()))
            };
            if !path.is_some_and(|path| is_there(&path) && leads_to_heading(&path)) {
                dead.push(format!("{document}:{line}: dead link `{target}`"));
            }
        }
    }
    dead.sort();
    dead
}

/// A relative link of a document, from the root; `None`: it leads out of the project.
fn resolve(document: &str, link: &str) -> Option<String> {
    let mut path: Vec<&str> = document.split('/').collect();
    path.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                path.pop()?;
            }
            _ => path.push(part),
        }
    }
    Some(path.join("/"))
}

/// Targets of links with their lines: `[text](target)`, pictures, and `[name]: target`. Code and comments have none.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line.as_str();
        while let Some(start) = rest.find("](") {
            rest = &rest[start + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or(rest);
            all.push((number, target.to_owned()));
        }
        let definition = line.strip_prefix('[').and_then(|line| line.split_once("]: "));
        all.extend(definition.map(|(_, target)| (number, target.trim().to_owned())));
    }
    all
}

/// Headings as links name them.
fn headings(text: &str) -> Vec<String> {
    let fold = |line: &str| -> String {
        let kept = line.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    let lines = outside_of_fences(text).filter(|(_, line)| line.starts_with('#'));
    lines.map(|(_, line)| fold(line)).collect()
}

fn outside_of_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            return None;
        }
        (!is_fenced).then_some((index + 1, line))
    })
}

/// Numbered lines without fenced blocks, code spans and comments of one line.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    outside_of_fences(text).filter(|(_, line)| !line.trim_start().starts_with("<!--")).map(
        |(number, line)| {
            let without_code: Vec<&str> = line.split('`').step_by(2).collect();
            (number, without_code.join(""))
        },
    )
}

fn too_long(documents: &HashMap<String, String>, limits: &[(&str, usize, usize)]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, most_lines, most_characters) in limits {
        let Some(text) = documents.get(*path) else { continue };
        let lines = text.lines().count();
        if lines > *most_lines {
            found.push(format!("{path} has {lines} lines, at most {most_lines}"));
        }
        let wide = text.lines().enumerate().filter(|(_, line)| line.chars().count() > *most_characters);
        found.extend(
            wide.map(|(index, _)| format!("{path}:{}: more than {most_characters} characters", index + 1)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(files: &[(&str, &str)]) -> HashMap<String, String> {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn documents_of_the_project_have_no_dead_links_and_are_short_enough() {
        let broken = broken().unwrap();
        assert!(broken.is_empty(), "{broken:#?}");
    }

    #[test]
    fn a_link_to_nothing_is_named_with_its_line() {
        let all = documents(&[
            ("README.md", "# A\n[a](docs/a.md) [gone](docs/b.md)\n![picture](p.png)"),
            (
                "docs/a.md",
                "[up](../README.md#a) [b](#the-b-of-c) [d](#d) [out](../../x)\n## The `b` of c!\n[e]: ../src",
            ),
        ]);
        let dead = dead_links(&all, |path| matches!(path, "README.md" | "docs/a.md" | "src" | "x"));
        assert_eq!(
            dead,
            [
                "README.md:2: dead link `docs/b.md`",
                "README.md:3: dead link `p.png`",
                "docs/a.md:1: dead link `#d`",
                "docs/a.md:1: dead link `../../x`",
            ]
        );
    }

    #[test]
    fn addresses_code_and_comments_are_no_links_to_files() {
        let text = "[a](https://example.org/x) `[b](c)`\n```\n[d](e)\n# f\n```\n<!-- ![g](h) -->\n[i](#f)";
        assert_eq!(
            dead_links(&documents(&[("a.md", text)]), |path| path == "a.md"),
            ["a.md:7: dead link `#f`"]
        );
    }

    #[test]
    fn documents_that_are_read_first_stay_short() {
        let all = documents(&[("a.md", "one\ntwo and more\nthree")]);
        assert_eq!(
            too_long(&all, &[("a.md", 2, 5)]),
            ["a.md has 3 lines, at most 2", "a.md:2: more than 5 characters"]
        );
    }
}
