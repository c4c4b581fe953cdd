//! The rule that no file of the project names a place of the machine it was written on.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{output, root};

/// Folders that a file may well name, whoever keeps the project's folder in them.
const COMMON_FOLDERS: &[&str] =
    &["/", "/tmp", "/home", "/root", "/opt", "/src", "/usr/src", "/usr/local/src", "/builds"];

/// Fails if a file of the project names the folder that the project is in.
pub fn check() -> Result<()> {
    let needles = forbidden_paths(&root());
    let mut found = Vec::new();
    for file in files()? {
        let Ok(bytes) = std::fs::read(root().join(&file)) else { continue }; // deleted, not yet committed
        let text = String::from_utf8_lossy(&bytes);
        found.extend(
            lines_naming(&text, &needles).into_iter().map(|line| format!("{}:{line}", file.display())),
        );
    }
    if !found.is_empty() {
        bail!("paths of this machine in {}", found.join(", "));
    }
    Ok(())
}

/// Files of the project, from its root: all that git does not ignore.
pub fn files() -> Result<Vec<PathBuf>> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listing = output(Command::new("git").current_dir(root()).args(list))?;
    Ok(listing.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect())
}

/// The project's folder, and the folder around it unless that is one of the common ones.
fn forbidden_paths(root: &Path) -> Vec<String> {
    let around =
        root.parent().filter(|parent| !COMMON_FOLDERS.iter().any(|common| Path::new(common) == *parent));
    std::iter::once(root).chain(around).map(|path| path.display().to_string()).collect()
}

/// Numbers of the lines that name one of the paths: the whole path, not a part of a longer name.
fn lines_naming(text: &str, paths: &[String]) -> Vec<usize> {
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| paths.iter().any(|path| names(line, path))).map(|(index, _)| index + 1).collect()
}

fn names(line: &str, path: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    line.match_indices(path).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + path.len()..].chars().next();
        !before.is_some_and(|c| part_of_name(c) || c == '/') && !after.is_some_and(part_of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_around_the_project_is_forbidden_unless_it_is_a_common_one() {
        assert_eq!(forbidden_paths(Path::new("/data/ann/scope")), ["/data/ann/scope", "/data/ann"]);
        assert_eq!(forbidden_paths(Path::new("/tmp/scope")), ["/tmp/scope"]);
    }

    #[test]
    fn a_path_is_found_as_a_whole_only() {
        let paths = ["/data/ann".to_owned()];
        let text = "see /data/ann/x\n/data/anna\nfrom=/data/ann\nold/data/ann/x\n";
        assert_eq!(lines_naming(text, &paths), [1, 3]);
    }
}
