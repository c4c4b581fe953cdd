//! Results of cases: a line of JSON each, so that a run can be resumed, and a table of all.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{FindingClass, Half, JudgedRun, cases};

/// What came of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// Name of the case.
    pub case: String,
    /// Name of the library.
    pub library: String,
    /// Name of the mode.
    pub mode: String,
    /// Whether it is the program without the fault.
    pub is_right: bool,
    /// Whether it came to its end; `None`: it hung.
    pub is_through: Option<bool>,
    /// Until what was said was said, or else how long it was watched.
    pub seconds: f64,
    /// What was said.
    pub verdict: JudgedRun,
    /// Sentences of all warnings, and of notices of ranks that do not go on.
    pub said: Vec<String>,
    /// Whether one of them is a warning.
    pub has_warning: bool,
    /// Why nothing is known: the test itself failed.
    pub error: Option<String>,
}

impl TableRow {
    /// What it is the result of.
    pub fn key(&self) -> String {
        key(&self.case, &self.library, &self.mode, self.is_right)
    }

    fn hangs(&self) -> bool {
        !self.is_right && self.error.is_none() && self.is_through.is_none()
    }

    /// A program that hangs, and nothing was said of that.
    pub fn is_called_fine(&self) -> bool {
        self.hangs() && self.verdict.says_fine()
    }

    /// A right program that was warned of, or did not come to its end.
    pub fn is_false_alarm(&self) -> bool {
        self.is_right && self.error.is_none() && (self.has_warning || self.is_through != Some(true))
    }

    fn is_told_right(&self) -> bool {
        self.hangs() && self.verdict.class_is_right
    }
}

fn key(case: &str, library: &str, mode: &str, is_right: bool) -> String {
    format!("{case} {library} {mode} {}", if is_right { "right" } else { "wrong" })
}

/// Results so far, and the file that they are kept in.
#[derive(Default)]
pub struct ResultsFile {
    rows: BTreeMap<String, TableRow>,
    file: Option<PathBuf>,
}

impl ResultsFile {
    /// Those of a file, which new ones are added to; of no file, none.
    pub fn of(file: Option<PathBuf>) -> Result<Self> {
        let text = match &file {
            Some(path) if path.exists() => {
                fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
            }
            _ => String::new(),
        };
        let mut rows = BTreeMap::new();
        for line in text.lines() {
            // The last line may have been cut; a test that failed is made again.
            if let Ok(row) = serde_json::from_str::<TableRow>(line)
                && row.error.is_none()
            {
                rows.insert(row.key(), row);
            }
        }
        Ok(Self { rows, file })
    }

    /// Whether this is known already.
    pub fn has(&self, case: &str, library: &str, mode: &str, is_right: bool) -> bool {
        self.rows.contains_key(&key(case, library, mode, is_right))
    }

    /// Adds one.
    pub fn add(&mut self, row: TableRow) -> Result<()> {
        if let Some(path) = &self.file {
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            writeln!(file, "{}", serde_json::to_string(&row)?)?;
        }
        self.rows.insert(row.key(), row);
        Ok(())
    }

    /// All of them.
    pub fn rows(&self) -> impl Iterator<Item = &TableRow> {
        self.rows.values()
    }

    /// A table by operation and fault, the halves apart, with totals.
    pub fn table(&self) -> String {
        let halves: BTreeMap<String, (Half, String)> =
            cases().into_iter().map(|case| (case.name(), (case.half(), case.pair()))).collect();
        let mut counts: BTreeMap<(Half, String, String), Counts> = BTreeMap::new();
        for row in self.rows.values() {
            let Some((half, pair)) = halves.get(&row.case) else { continue };
            let setting = format!("{} {}", row.library, row.mode);
            for group in [pair.as_str(), ALL_TOGETHER] {
                counts.entry((*half, setting.clone(), group.to_owned())).or_default().count(row);
            }
        }
        let mut table = String::from(HEAD);
        for ((half, setting, group), counts) in &counts {
            let _ = writeln!(table, "| {} | {setting} | {group} | {} |", half.name(), counts.cells());
        }
        table
    }
}

/// Sorts behind the names of operations.
const ALL_TOGETHER: &str = "~ all";
const HEAD: &str = "| half | library, mode | operation/fault | programs | hang | right class | right ranks | right line \
                    | unknown hang | other | called fine | survive | told | die | twins | silent | failed tests |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

/// How often which. What is told is what has the right class; ranks and lines count where all before is right.
#[derive(Clone, Copy, Default)]
struct Counts {
    programs: u32,
    hang: u32,
    class: u32,
    ranks: u32,
    line: u32,
    unknown: u32,
    fine: u32,
    survive: u32,
    told: u32,
    die: u32,
    twins: u32,
    silent: u32,
    failed: u32,
}

impl Counts {
    fn count(&mut self, row: &TableRow) {
        let add = |count: &mut u32, is: bool| *count += u32::from(is);
        add(&mut self.failed, row.error.is_some());
        if row.error.is_some() {
            return;
        }
        if row.is_right {
            add(&mut self.twins, true);
            add(&mut self.silent, !row.is_false_alarm());
            return;
        }
        add(&mut self.programs, true);
        add(&mut self.hang, row.hangs());
        add(&mut self.class, row.is_told_right());
        add(&mut self.ranks, row.is_told_right() && row.verdict.ranks_are_right);
        add(&mut self.line, row.is_told_right() && row.verdict.ranks_are_right && row.verdict.line_is_right);
        add(&mut self.unknown, row.hangs() && row.verdict.class == Some(FindingClass::UnknownHang));
        add(&mut self.fine, row.is_called_fine());
        add(&mut self.survive, row.is_through == Some(true));
        add(&mut self.told, row.is_through == Some(true) && row.verdict.class_is_right);
        add(&mut self.die, row.is_through == Some(false));
    }

    fn cells(&self) -> String {
        let other = self.hang - self.class - self.unknown - self.fine;
        let cells =
            [self.programs, self.hang, self.class, self.ranks, self.line, self.unknown, other, self.fine];
        let more = [self.survive, self.told, self.die, self.twins, self.silent, self.failed];
        let text: Vec<String> = cells.iter().chain(&more).map(u32::to_string).collect();
        text.join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, class: Option<FindingClass>) -> TableRow {
        TableRow {
            case: case.to_owned(),
            library: "openmpi".to_owned(),
            mode: "start".to_owned(),
            is_right: false,
            is_through: None,
            seconds: 1.0,
            verdict: JudgedRun { class, class_is_right: class.is_some(), ..JudgedRun::default() },
            said: Vec::new(),
            has_warning: class.is_some(),
            error: None,
        }
    }

    #[test]
    fn results_are_known_after_a_restart_and_failed_tests_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = Some(folder.path().join("results"));
        let mut results = ResultsFile::of(file.clone()).unwrap();
        results.add(row("bcast/other_root/3/1", None)).unwrap();
        results.add(TableRow { error: Some("e".into()), ..row("bcast/other_root/3/2", None) }).unwrap();
        let again = ResultsFile::of(file).unwrap();
        assert!(again.has("bcast/other_root/3/1", "openmpi", "start", false));
        assert!(!again.has("bcast/other_root/3/1", "openmpi", "start", true));
        assert!(!again.has("bcast/other_root/3/2", "openmpi", "start", false));
    }

    #[test]
    fn a_program_that_hangs_and_of_which_nothing_is_said_is_called_fine() {
        assert!(row("bcast/other_root/3/1", None).is_called_fine());
        assert!(!row("bcast/other_root/3/1", Some(FindingClass::Deadlock)).is_called_fine());
        assert!(!TableRow { is_through: Some(true), ..row("bcast/other_root/3/1", None) }.is_called_fine());
    }

    #[test]
    fn a_twin_must_end_and_without_a_warning() {
        let right = TableRow { is_right: true, is_through: Some(true), ..row("bcast/other_root/3/1", None) };
        assert!(!right.is_false_alarm());
        assert!(TableRow { has_warning: true, ..right.clone() }.is_false_alarm());
        assert!(TableRow { is_through: None, ..right.clone() }.is_false_alarm());
        assert!(TableRow { is_through: Some(false), ..right }.is_false_alarm());
    }

    #[test]
    fn the_table_counts_what_hangs_by_what_was_said() {
        let mut results = ResultsFile::default();
        results.add(row("bcast/other_root/3/0", Some(FindingClass::MismatchedCollective))).unwrap();
        results.add(row("bcast/other_root/4/0", None)).unwrap();
        let table = results.table();
        let line = table.lines().find(|line| line.contains("bcast/other_root")).unwrap();
        assert!(line.ends_with("| 2 | 2 | 1 | 0 | 0 | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 0 | 0 |"), "{line}");
    }
}
