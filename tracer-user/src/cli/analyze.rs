//! `dmscope analyze`: the live pipeline over recorded tapes.

use std::io::{IsTerminal, stdout};
use std::path::Path;

use analyzer::finding::Report;
use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::symbols::SymbolTable;
use analyzer::wire::RawRecord;
use anyhow::Result;

use super::attach::{plain, written_or_not};
use super::nodes::{TapeSummary, check_tapes, jobs_of, names_of, replay_job};
use super::output::{create, keep_apart};
use super::reference;
use super::replay::Consumer;
use super::tape_args::AnalyzeArgs;
use crate::session::{Outcome, Sink};

/// Looks at tapes again.
///
/// # Errors
/// A file is no tape, or nothing can be read of it.
pub fn analyze(args: &AnalyzeArgs) -> Result<Outcome> {
    let mut options = args.analysis.options();
    options.reference = reference::read(&args.analysis.reference)?;
    let mut outcome = Outcome::Nothing;
    let read = [&args.tapes[..], &args.analysis.reference].concat();
    let written: Vec<&Path> = args.output.output.iter().map(AsRef::as_ref).collect();
    keep_apart(&read, &written)?;
    if !written.is_empty() {
        check_tapes(&args.tapes)?;
    }
    let jobs = jobs_of(&args.tapes)?;
    let mut sink = match &args.output.output {
        Some(path) => plain(create(path)?, false, &args.output),
        None => plain(stdout(), stdout().is_terminal(), &args.output),
    };
    for tapes in &jobs {
        if let [tape] = tapes.as_slice()
            && jobs.len() > 1
        {
            sink.notice(&format!("tape {}", tape.path.display()));
        } else if tapes.len() > 1 {
            let of_node = |tape: &TapeSummary| format!("{} ({})", tape.path.display(), tape.start.host);
            let all = tapes.iter().map(of_node).collect::<Vec<_>>().join(", ");
            sink.notice(&format!("one job on {} nodes: {all}", tapes.len()));
        }
        outcome = outcome.and(one(tapes, options.clone(), !args.output.json, sink.as_mut())?);
    }
    written_or_not(sink.as_mut())?;
    Ok(outcome)
}

/// The tapes of one job: one, or one of each of its nodes.
fn one(tapes: &[TapeSummary], options: Options, quiet_alerts: bool, sink: &mut dyn Sink) -> Result<Outcome> {
    // Text has all of it in the report.
    let (pipeline, names) = (Pipeline::new(options), names_of(tapes)?);
    let mut analysis = TapeAnalysis { pipeline, names, quiet_alerts, sink };
    replay_job(tapes, &mut analysis)?;
    Ok(Outcome::of_report(&analysis.finish()))
}

/// Tells what the pipeline finds in a tape.
struct TapeAnalysis<'s> {
    pipeline: Pipeline,
    names: SymbolTable,
    /// Only the report is told.
    quiet_alerts: bool,
    sink: &'s mut dyn Sink,
}

impl TapeAnalysis<'_> {
    fn finish(mut self) -> Report {
        let mut report = self.pipeline.report();
        report.symbolize(&self.names);
        self.sink.report(&report);
        report
    }

    fn tell_alerts(&mut self) {
        for mut alert in self.pipeline.take_alerts() {
            alert.symbolize(&self.names);
            if !self.quiet_alerts {
                self.sink.alert(&alert);
            }
        }
    }
}

impl Consumer for TapeAnalysis<'_> {
    fn push(&mut self, input: &Input) -> Result<()> {
        self.pipeline.push(input);
        if matches!(input, Input::Tick { .. } | Input::End(_)) {
            self.tell_alerts();
        }
        Ok(())
    }

    fn push_record(&mut self, record: &RawRecord) -> Result<()> {
        self.pipeline.push_record(record);
        Ok(())
    }

    fn damage(&mut self, message: &str) {
        self.sink.notice(message);
    }
}

#[cfg(test)]
mod tests {
    use super::super::replay::testing::replay_inputs;
    use super::*;
    use crate::sink::HitSink;

    fn report(cut: bool) -> Report {
        let mut sink = HitSink::default();
        let mut analysis = TapeAnalysis {
            pipeline: Pipeline::new(Options::default()),
            names: SymbolTable::default(),
            quiet_alerts: false,
            sink: &mut sink,
        };
        replay_inputs(cut, &mut analysis);
        analysis.finish()
    }

    #[test]
    fn a_cut_tape_gives_the_report_of_a_session_that_was_cut() {
        assert_eq!(report(true), report(false));
    }
}
