//! Tables of figures, as Markdown.

use serde::Serialize;

use super::Samples;

/// Figures of one shape.
#[derive(Debug, Default, Serialize)]
pub struct ResultTable {
    /// Headings with units; the first is that of the rows' names.
    pub columns: Vec<String>,
    /// The rows, in the order in which they were measured.
    pub rows: Vec<ResultRow>,
}

/// One thing that was measured.
#[derive(Debug, Serialize)]
pub struct ResultRow {
    /// What was measured, as the first column says it.
    pub name: String,
    /// As many as there are columns after the first.
    pub cells: Vec<Cell>,
}

/// What stands in one place of a table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Measured several times: shown as the median with the smallest and the largest.
    Runs {
        /// All runs, of which the table shows only some.
        runs: Samples,
        /// Digits after the point that are shown.
        digits: usize,
    },
    /// Counted or derived once.
    Value {
        /// The only figure there is.
        value: f64,
        /// Digits after the point that are shown.
        digits: usize,
    },
    /// Words: a place, or why there is no figure.
    Text(String),
}

impl ResultTable {
    /// A table without rows.
    pub fn new(columns: &[&str]) -> Self {
        Self::of(columns.iter().map(|&column| column.to_owned()).collect())
    }

    /// The same, where headings are put together.
    pub fn of(columns: Vec<String>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row below the others.
    pub fn row(&mut self, name: impl Into<String>, cells: Vec<Cell>) {
        self.rows.push(ResultRow { name: name.into(), cells });
    }

    /// The table, of as many columns as its first line has.
    pub(super) fn markdown(&self) -> String {
        let mut text = line(self.columns.iter().map(String::as_str));
        text.push_str(&line(self.columns.iter().map(|_| "---")));
        text.extend(self.rows.iter().map(ResultRow::markdown));
        text
    }

    /// Shows the last row on standard error, of measurements that take their time.
    pub fn show_progress(&self) {
        if let Some(row) = self.rows.last() {
            eprint!("{}", row.markdown());
        }
    }
}

impl ResultRow {
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

    /// A figure that was counted or derived once.
    pub fn value(value: f64, digits: usize) -> Self {
        Self::Value { value, digits }
    }

    /// Words instead of a figure.
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

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown_with_medians_and_spread() {
        let mut table = ResultTable::new(&["job", "ratio", "why"]);
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
}
