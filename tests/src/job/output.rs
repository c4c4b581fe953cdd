//! What the project's own jobs write: JSON lines, and a verdict on the last line.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

/// One call site of a data movement in one rank, and what went through it, as the job itself counted.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct CountedSite {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// File name of the program or shared library that the call site is in.
    pub module: String,
    /// `copy`, `send` or `receive`.
    pub kind: String,
    /// What the movement is for.
    pub label: String,
    /// Function in the source.
    pub function: String,
    /// Source file without its folder.
    pub file: String,
    /// Line of the call.
    pub line: u32,
    /// How often it was called.
    pub calls: u64,
    /// Bytes moved; for `receive` the bytes there was room for.
    pub bytes: u64,
}

/// All JSON lines of one type, in the order written.
pub fn lines_of_type(lines: &[String], wanted: &str) -> Result<Vec<Value>> {
    let json = lines.iter().filter(|line| line.starts_with('{'));
    let mut found = Vec::new();
    for line in json {
        let value: Value = serde_json::from_str(line).with_context(|| format!("a line of a job: {line}"))?;
        if value["type"] == wanted {
            found.push(value);
        }
    }
    Ok(found)
}

/// The counted call sites.
pub fn sites(lines: &[String]) -> Result<Vec<CountedSite>> {
    let values = lines_of_type(lines, "site")?;
    values.into_iter().map(|value| serde_json::from_value(value).context("a site line of a job")).collect()
}

/// Fails unless the job found its data right.
pub fn check_verdict(lines: &[String]) -> Result<()> {
    match lines.iter().rev().find(|line| line.starts_with("ok ") || line.starts_with("wrong ")) {
        Some(line) if line.starts_with("ok ") => Ok(()),
        Some(line) => bail!("the job says: {line}"),
        None => bail!("the job gave no verdict on its data"),
    }
}

/// What stands before ` s,` in the verdict.
pub fn seconds(lines: &[String]) -> Option<f64> {
    let verdict = lines.iter().rev().find(|line| line.starts_with("ok ") || line.starts_with("wrong "))?;
    verdict.split(", ").find_map(|part| part.strip_suffix(" s")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn only_an_ok_line_is_a_good_verdict() {
        assert!(check_verdict(&lines("ready\nok ring: 2 ranks")).is_ok());
        assert!(check_verdict(&lines("ready\nwrong ring: 2 ranks")).is_err());
        assert!(check_verdict(&lines("ready\n")).is_err());
    }

    #[test]
    fn the_verdict_says_how_long_it_took() {
        let text = "ready\nok ring: 2 ranks, 10 iterations, 0.125 s, 0 errors";
        assert_eq!(seconds(&lines(text)), Some(0.125));
        assert_eq!(seconds(&lines("ready")), None);
    }

    #[test]
    fn sites_are_read_and_other_lines_passed_over() {
        let site = r#"{"type":"site","rank":1,"module":"a.so","kind":"copy","label":"x","function":"f","file":"f.c","line":7,"calls":3,"bytes":12}"#;
        let sites = sites(&lines(&format!("ready\n{{\"type\":\"result\",\"rank\":0}}\n{site}\nok"))).unwrap();
        assert_eq!((sites.len(), sites[0].line, sites[0].calls, sites[0].bytes), (1, 7, 3, 12));
    }

    #[test]
    fn a_cut_json_line_is_an_error() {
        assert!(sites(&lines("{\"type\":\"site\",\"rank\"")).is_err());
    }
}
