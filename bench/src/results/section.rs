//! What one kind of measurement found, as Markdown, and the bounds that its figures must keep.

use std::fmt::Write as _;

use serde::Serialize;

use super::ResultTable;

/// What one kind measured.
#[derive(Debug, Default, Serialize)]
pub struct Section {
    /// Name of the kind.
    pub kind: String,
    /// Heading in Markdown, without its marks.
    pub title: String,
    /// What a reader must know to read the figures; one sentence or more each.
    pub notes: Vec<String>,
    /// The figures, in the order in which they are shown.
    pub tables: Vec<ResultTable>,
    /// What must hold on every machine.
    pub checks: Vec<RegressionBound>,
}

/// A bound on a ratio: only a gross regression breaks it, on any machine.
#[derive(Debug, Serialize)]
pub struct RegressionBound {
    /// The ratio, in words.
    pub what: String,
    /// The ratio as measured.
    pub value: f64,
    /// What it must not exceed.
    pub at_most: f64,
}

impl RegressionBound {
    /// True if the bound holds; what is not a number does not hold.
    pub fn holds(&self) -> bool {
        self.value <= self.at_most
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_on_what_is_not_a_number_does_not_hold() {
        let check = |value| RegressionBound { what: String::new(), value, at_most: 2.0 };
        assert!(check(2.0).holds() && !check(2.1).holds() && !check(f64::NAN).holds());
    }
}
