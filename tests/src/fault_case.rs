//! What is known of a job with a fault.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::job::build::sources;

/// One job with a fault.
#[derive(Clone, Copy, Debug)]
pub struct FaultCase {
    /// Name of the program.
    pub job: &'static str,
    /// Arguments of the program, which choose the fault.
    pub args: &'static [&'static str],
    /// Number of ranks it is run with.
    pub ranks: u32,
    /// What kind of fault it is.
    pub class: FaultClass,
    /// Ranks that are at fault: in a deadlock, all of its cycle; of a missing, a leftover or a truncated message, both
    /// ends; of a wrong rank in a call whose right partner waits for just that call, the rank that made it; in a
    /// collective, those that do not do what most do; of crashes, the rank that crashed, or all if all do, of which the
    /// launcher may end some before. The first is the one that is at `place`.
    pub at_fault: &'static [u32],
    /// The MPI call, or the function outside MPI, that the first of them is in, or was in last.
    pub function: &'static str,
    /// Source file and a text in its line of that call.
    pub place: Option<(&'static str, &'static str)>,
    /// How the job ends.
    pub ends: Ends,
    /// Arguments for the same communication done right.
    pub twin: Option<&'static [&'static str]>,
}

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// Ranks that wait for each other.
    Deadlock,
    /// A rank waits for a message that nobody sends, or that has another tag, communicator or rank than it waits for.
    MissingMessage,
    /// Some ranks do something else than the others of a collective operation.
    MismatchedCollective,
    /// A message is longer than the buffer for it.
    Truncated,
    /// A rank ends before its time, whatever ends it.
    Crash,
    /// A rank stays outside MPI, and others wait for it.
    BlockedOutside,
    /// A rank crashes by what it computes.
    CalculationFault,
    /// Requests or messages that nobody came back for.
    Leak,
    /// A message is received as numbers of another kind.
    MismatchedDatatype,
    /// A call that MPI forbids.
    InvalidCall,
    /// Wrong results, and no sign of it in the communication.
    Silent,
}

impl FaultClass {
    /// Its name in what the tests print.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deadlock => "deadlock",
            Self::MissingMessage => "missing_message",
            Self::MismatchedCollective => "mismatched_collective",
            Self::Truncated => "truncated",
            Self::Crash => "crash",
            Self::BlockedOutside => "blocked_outside",
            Self::CalculationFault => "calculation_fault",
            Self::Leak => "left_over",
            Self::MismatchedDatatype => "mismatched_datatype",
            Self::InvalidCall => "invalid_call",
            Self::Silent => "silent",
        }
    }
}

/// How a job ends if nobody ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// It does not: its ranks wait without end.
    Hangs,
    /// A rank ends before its time and the launcher ends the others. The launcher's status need not say so.
    Dies,
    /// With a good verdict on its data.
    EndsWell,
    /// With a bad verdict on its data.
    EndsWrong,
}

impl FaultCase {
    /// Line of the place in its source file.
    pub fn line(&self) -> Result<Option<u32>> {
        let Some((file, marker)) = self.place else { return Ok(None) };
        let lines = lines_with(file, marker)?;
        ensure!(lines.len() == 1, "{marker:?} is in {} lines of {file}", lines.len());
        Ok(Some(lines[0]))
    }
}

fn lines_with(file: &str, marker: &str) -> Result<Vec<u32>> {
    let path = sources().join("hangs").join(file);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok((1..).zip(text.lines()).filter(|(_, line)| line.contains(marker)).map(|(number, _)| number).collect())
}
