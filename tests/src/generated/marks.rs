//! Source lines of the generated programs, by their marks.

use std::collections::HashMap;
use std::fs;
use std::sync::OnceLock;

use anyhow::{Context, Result};

use crate::job::build::sources;

/// File and line of each mark (`// call: NAME`).
type SourceMarks = HashMap<String, (String, u64)>;

fn marks() -> Result<SourceMarks> {
    let folder = sources().join("generated");
    let mut marks = HashMap::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (number, line) in (1..).zip(text.lines()) {
            if let Some((_, mark)) = line.split_once("// call: ") {
                let before = marks.insert(mark.to_owned(), (file.clone(), number));
                anyhow::ensure!(before.is_none(), "{mark:?} is in two lines: {before:?}, {file}:{number}");
            }
        }
    }
    Ok(marks)
}

/// File and line that have a mark.
pub fn line_of_mark(mark: &str) -> Result<&'static (String, u64)> {
    static MARKS: OnceLock<Result<SourceMarks, String>> = OnceLock::new();
    let marks = MARKS.get_or_init(|| marks().map_err(|error| format!("{error:#}")));
    let marks = marks.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    marks.get(mark).with_context(|| format!("no line has the mark {mark:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::cases;

    #[test]
    fn every_operation_and_every_line_of_a_truth_has_a_mark() {
        for case in cases() {
            for mark in case.truth().lines.iter().flat_map(|(_, marks)| marks) {
                line_of_mark(mark).unwrap();
            }
            line_of_mark(&case.operation.name).unwrap();
        }
    }

    #[test]
    fn no_mark_is_unknown_to_the_cases() {
        let all = cases();
        let mut known: Vec<String> = all.iter().map(|case| case.operation.name.clone()).collect();
        known.extend(all.iter().flat_map(|case| case.truth().lines).flat_map(|(_, marks)| marks));
        for mark in marks().unwrap().keys() {
            assert!(known.contains(mark), "{mark}");
        }
    }
}
