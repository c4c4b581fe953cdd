//! What was measured, as Markdown for people and as JSON for machines.

use std::fmt::Write as _;

use serde::Serialize;

use crate::machine::Machine;
use crate::samples::Samples;

/// Everything that one run measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The form of this document.
    pub schema: u32,
    /// The command that made it.
    pub command: String,
    /// Where.
    pub machine: Machine,
    /// One for each kind that was measured.
    pub sections: Vec<Section>,
}

/// The form of [`Report`] as JSON.
pub const SCHEMA: u32 = 1;

/// What one kind measured.
#[derive(Debug, Default, Serialize)]
pub struct Section {
    /// Name of the kind.
    pub kind: String,
    /// Heading.
    pub title: String,
    /// What a reader must know to read the figures; one sentence or more each.
    pub notes: Vec<String>,
    /// The figures.
    pub tables: Vec<Table>,
    /// What must hold on every machine.
    pub checks: Vec<Check>,
}

/// Figures of one shape.
#[derive(Debug, Default, Serialize)]
pub struct Table {
    /// Headings with units; the first is that of the rows' names.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One thing that was measured.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What.
    pub name: String,
    /// As many as there are columns after the first.
    pub cells: Vec<Cell>,
}

/// One figure.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Measured several times: shown as the median with the smallest and the largest.
    Runs {
        /// All runs.
        runs: Samples,
        /// Digits after the point that are shown.
        digits: usize,
    },
    /// Counted or derived once.
    Value {
        /// The figure.
        value: f64,
        /// Digits after the point that are shown.
        digits: usize,
    },
    /// Words: a place, or why there is no figure.
    Text(String),
}

/// A bound on a ratio: only a gross regression breaks it, on any machine.
#[derive(Debug, Serialize)]
pub struct Check {
    /// What is bounded.
    pub what: String,
    /// What was measured.
    pub value: f64,
    /// What it must not exceed.
    pub at_most: f64,
}

impl Check {
    /// True if the bound holds; what is not a number does not hold.
    pub fn holds(&self) -> bool {
        self.value <= self.at_most
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|&column| column.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, name: impl Into<String>, cells: Vec<Cell>) {
        self.rows.push(Row { name: name.into(), cells });
    }
}

impl Row {
    fn markdown(&self) -> String {
        let cells: Vec<String> = self.cells.iter().map(Cell::markdown).collect();
        line(std::iter::once(self.name.as_str()).chain(cells.iter().map(String::as_str)))
    }
}

impl Cell {
    /// A figure with its runs.
    pub fn runs(runs: &Samples, digits: usize) -> Self {
        Self::Runs { runs: runs.clone(), digits }
    }

    /// A single figure.
    pub fn value(value: f64, digits: usize) -> Self {
        Self::Value { value, digits }
    }

    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    fn markdown(&self) -> String {
        match self {
            Self::Runs { runs, .. } if runs.is_empty() => "–".to_owned(),
            Self::Runs { runs, digits } => {
                let all = format!("{:.digits$}–{:.digits$}", runs.min(), runs.max());
                match runs.median_bounds() {
                    Some((low, high)) => {
                        format!("{:.digits$} [{low:.digits$}–{high:.digits$}] ({all})", runs.median())
                    }
                    None => format!("{:.digits$} ({all})", runs.median()),
                }
            }
            Self::Value { value, digits } => format!("{value:.digits$}"),
            Self::Text(text) => text.replace('|', "\\|"),
        }
    }
}

impl Section {
    /// A section without figures.
    pub fn new(kind: &str, title: &str) -> Self {
        Self { kind: kind.to_owned(), title: title.to_owned(), ..Self::default() }
    }

    /// Adds what a reader must know.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The section as it stands in BENCHMARKS.md.
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}\n", self.title);
        for note in &self.notes {
            let _ = write!(text, "\n{note}\n");
        }
        for table in &self.tables {
            text.push('\n');
            text.push_str(&table.markdown());
        }
        for check in self.checks.iter().filter(|check| !check.holds()) {
            let _ = write!(
                text,
                "\n**{}: {:.3}, at most {:.3} expected**\n",
                check.what, check.value, check.at_most
            );
        }
        text
    }
}

impl Table {
    fn markdown(&self) -> String {
        let mut text = line(self.columns.iter().map(String::as_str));
        text.push_str(&line(self.columns.iter().map(|_| "---")));
        text.extend(self.rows.iter().map(Row::markdown));
        text
    }

    /// Shows the last row on standard error, of measurements that take their time.
    pub fn show_progress(&self) {
        if let Some(row) = self.rows.last() {
            eprint!("{}", row.markdown());
        }
    }
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

impl Report {
    /// One sentence about where it was measured.
    pub fn preamble(&self) -> String {
        let m = &self.machine;
        format!(
            "`{}`: {} ({} cores), {}, {}; load before: {:.2}. {}. Figures are medians with \
             (smallest–largest); of six runs or more also [bounds of the true median, 95%].\n",
            self.command,
            m.processor,
            m.cores,
            m.kernel,
            m.system,
            m.load_before,
            m.versions.join("; ")
        )
    }

    /// The bounds that do not hold.
    pub fn broken(&self) -> impl Iterator<Item = &Check> {
        self.sections.iter().flat_map(|section| &section.checks).filter(|check| !check.holds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown_with_medians_and_spread() {
        let mut table = Table::new(&["job", "ratio", "why"]);
        let runs = [1.0, 3.0, 2.0].into_iter().collect();
        table.row("ring", vec![Cell::runs(&runs, 1), Cell::text("a|b")]);
        assert_eq!(
            table.markdown(),
            "| job | ratio | why |\n| --- | --- | --- |\n| ring | 2.0 (1.0–3.0) | a\\|b |\n"
        );
    }

    #[test]
    fn where_runs_are_enough_the_bounds_of_the_median_are_shown() {
        let runs = (1..=9).map(f64::from).collect();
        assert_eq!(Cell::runs(&runs, 0).markdown(), "5 [2–8] (1–9)");
    }

    #[test]
    fn a_bound_on_what_is_not_a_number_does_not_hold() {
        let check = |value| Check { what: String::new(), value, at_most: 2.0 };
        assert!(check(2.0).holds() && !check(2.1).holds() && !check(f64::NAN).holds());
    }
}
