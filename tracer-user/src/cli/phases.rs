//! Times without watching by phase, for people and programs.

use analyzer::calls;
use analyzer::pipeline::Pipeline;
use analyzer::timeline::correction::phases::{PhaseMark, PhaseTimes};
use serde_json::{Value, json};

use super::place_names::PlaceLookup;
use super::table::columns;
use super::time_cells::{milliseconds, time_cells};

/// A function of which calls are on tapes with their ends.
pub(super) fn parse_phase_mark(text: &str) -> Result<PhaseMark, String> {
    let name = calls::row(text).map(|row| PhaseMark::Function(row.name.to_string()));
    name.ok_or_else(|| "write a function that communicates, such as MPI_Barrier".to_owned())
}

/// A phase with its name: the call that begins it.
pub(super) struct NamedPhase {
    name: String,
    times: PhaseTimes,
}

impl NamedPhase {
    /// Looks up where calls are.
    pub(super) fn of(times: PhaseTimes, pipeline: &Pipeline, names: &mut PlaceLookup) -> Self {
        let name = match times.begin {
            None => "before the first".to_owned(),
            Some(begin) => match begin.place {
                Some(place) => format!("{} at {}", begin.function, names.call_text(pipeline, place)),
                None => begin.function.to_owned(),
            },
        };
        Self { name, times }
    }

    fn row(&self) -> Option<Vec<String>> {
        let longest = self.times.longest()?;
        let mut row = vec![self.name.clone(), longest.times.to_string(), longest.rank.to_string()];
        row.extend(time_cells(&longest.time));
        row.push(milliseconds(longest.cost.likely_ns));
        Some(row)
    }
}

/// A row for each, of the rank that it takes longest.
pub(super) fn text(phases: &[NamedPhase]) -> String {
    let rows: Vec<Vec<String>> = phases.iter().filter_map(NamedPhase::row).collect();
    let header = ["PHASE", "TIMES", "LONGEST RANK", "MEASURED ms", "WITHOUT ms", "FROM", "TO", "COST ms"];
    columns(&header, &rows)
}

/// All ranks of each.
pub(super) fn json(phases: &[NamedPhase]) -> Value {
    let phase = |phase: &NamedPhase| json!({ "phase": phase.name, "ranks": phase.times.ranks });
    phases.iter().map(phase).collect()
}

#[cfg(test)]
mod tests {
    use analyzer::timeline::correction::phases::PhaseOfRank;

    use super::*;

    #[test]
    fn a_phase_begins_with_a_function_that_is_on_tapes() {
        assert_eq!(parse_phase_mark("MPI_Barrier"), Ok(PhaseMark::Function("MPI_Barrier".to_owned())));
        for other in ["barrier", "MPI_Pcontrol", ""] {
            assert!(parse_phase_mark(other).unwrap_err().contains("MPI_Barrier"), "{other}");
        }
    }

    #[test]
    fn a_row_is_of_the_rank_that_a_phase_takes_longest() {
        let rank = |rank, measured_ns| {
            let mut of_rank = PhaseOfRank { rank, times: 3, ..PhaseOfRank::default() };
            of_rank.time.measured_ns = measured_ns;
            of_rank
        };
        let ranks = vec![rank(0, 1_000_000), rank(1, 2_500_000), rank(2, 2_500_000)];
        let phase = NamedPhase { name: "before the first".into(), times: PhaseTimes { begin: None, ranks } };
        let text = text(&[phase]);
        let row: Vec<&str> =
            text.lines().nth(1).unwrap_or_default().split("  ").filter(|c| !c.is_empty()).collect();
        assert_eq!(row[0], "before the first");
        let numbers: Vec<&str> = row[1..4].iter().map(|cell| cell.trim()).collect();
        assert_eq!(numbers, ["3", "1", "2.500"], "{text}");
    }
}
