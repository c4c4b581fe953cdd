//! Columns of text.

use analyzer::visible::visible;

/// Rows in columns as wide as their widest cell, two spaces apart; numbers to the right. Cells are made visible.
pub(super) fn columns(header: &[&str], rows: &[Vec<String>]) -> String {
    let shown = |row: &Vec<String>| row.iter().map(|cell| visible(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(shown).collect();
    let mut widths: Vec<usize> = header.iter().map(|h| h.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let is_numeric = |n: usize| {
        let cells = || rows.iter().filter_map(|row| row.get(n)).filter(|cell| !cell.is_empty());
        cells().next().is_some() && cells().all(|cell| is_number(cell))
    };
    let numeric: Vec<bool> = (0..header.len()).map(is_numeric).collect();
    let mut text = String::new();
    let header: Vec<String> = header.iter().map(|h| (*h).to_owned()).collect();
    for row in std::iter::once(&header).chain(&rows) {
        let mut line = String::new();
        for ((cell, width), right) in row.iter().zip(&widths).zip(&numeric) {
            let padding = " ".repeat(width - cell.chars().count());
            let cell = if *right { format!("{padding}{cell}") } else { format!("{cell}{padding}") };
            line.push_str(&cell);
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn is_number(cell: &str) -> bool {
    !cell.is_empty() && cell.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_lines_have_no_trailing_space() {
        let rows = [vec!["7".into(), "a".into()], vec!["123".into(), "bcd".into()]];
        assert_eq!(columns(&["PID", "X"], &rows), "PID  X\n  7  a\n123  bcd\n");
    }

    #[test]
    fn numbers_stand_to_the_right_also_where_one_is_missing() {
        let rows = [vec!["7".into(), "a".into()], vec![String::new(), "b".into()]];
        assert_eq!(columns(&["PID", "X"], &rows), "PID  X\n  7  a\n     b\n");
    }

    #[test]
    fn a_cell_is_one_line_whatever_is_in_it() {
        let rows = [vec!["7".into(), "a\n8  \x1b[2Jb".into()]];
        assert_eq!(columns(&["PID", "X"], &rows), "PID  X\n  7  a\\n8  \\u{1b}[2Jb\n");
    }
}
