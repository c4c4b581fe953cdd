//! `dmscope analyze`: the live pipeline over recorded tapes.

use std::fs::File;
use std::io::{BufReader, IsTerminal, stdout};
use std::path::Path;

use analyzer::input::{End, Input};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::symbols::SymbolTable;
use analyzer::tape::{self, ItemRef, Reader};
use analyzer::wire::RawRecord;
use anyhow::{Context, Result};

use super::args::AnalyzeArgs;
use super::attach::plain;
use super::reference;
use crate::session::Outcome;
use crate::sink::Sink;

/// Looks at tapes again.
///
/// # Errors
/// A file is no tape, or nothing can be read of it.
pub fn analyze(args: &AnalyzeArgs) -> Result<Outcome> {
    let mut options = args.analysis.options();
    options.reference = reference::read(&args.analysis.reference)?;
    let mut outcome = Outcome::Nothing;
    let mut sink = match &args.output.output {
        Some(path) => {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            plain(file, false, &args.output)
        }
        None => plain(stdout(), stdout().is_terminal(), &args.output),
    };
    for path in &args.tapes {
        if args.tapes.len() > 1 {
            sink.notice(&format!("tape {}", path.display()));
        }
        outcome = outcome.and(one(path, options.clone(), !args.output.json, sink.as_mut())?);
    }
    Ok(outcome)
}

fn one(path: &Path, options: Options, quiet_alerts: bool, sink: &mut dyn Sink) -> Result<Outcome> {
    // Text has all of it in the report.
    let names = names(path)?;
    let mut pipeline = Pipeline::new(options);
    feed(path, &mut pipeline, |pipeline, damage| {
        if let Some(damage) = damage {
            sink.notice(&format!("{}: {damage}", path.display()));
        }
        for mut alert in pipeline.take_alerts() {
            alert.symbolize(&names);
            if !quiet_alerts {
                sink.alert(&alert);
            };
        }
    })?;
    let mut report = pipeline.report();
    report.symbolize(&names);
    sink.report(&report);
    Ok(Outcome::of_report(&report))
}

/// The names that are on a tape. They are behind the alerts that they are for.
pub(super) fn names(path: &Path) -> Result<SymbolTable> {
    let mut names = SymbolTable::default();
    names.extend(&tape::symbols(open(path)?).with_context(|| path.display().to_string())?);
    Ok(names)
}

pub(super) fn open(path: &Path) -> Result<BufReader<File>> {
    Ok(BufReader::with_capacity(
        1 << 20,
        File::open(path).with_context(|| format!("cannot open {}", path.display()))?,
    ))
}

/// Whoever takes the inputs of a tape.
pub(super) trait Consumer {
    /// The next input.
    fn push(&mut self, input: &Input);
    /// The next record.
    fn push_record(&mut self, record: &RawRecord);
}

impl Consumer for Pipeline {
    fn push(&mut self, input: &Input) {
        Pipeline::push(self, input);
    }

    fn push_record(&mut self, record: &RawRecord) {
        Pipeline::push_record(self, record);
    }
}

/// Gives all inputs of a tape to a consumer; `seen` is called where something may be told.
///
/// # Errors
/// The file is no tape, or cannot be read.
pub(super) fn feed<C: Consumer>(
    path: &Path,
    consumer: &mut C,
    mut seen: impl FnMut(&mut C, Option<&tape::Damage>),
) -> Result<()> {
    let mut reader = Reader::new(open(path)?).with_context(|| path.display().to_string())?;
    let (mut last_ns, mut ended) = (0, false);
    while let Some(item) = reader.next_ref() {
        match item.map_err(|error| anyhow::Error::new(error).context(path.display().to_string()))? {
            ItemRef::Record(record) => consumer.push_record(record),
            ItemRef::Damage(damage) => seen(consumer, Some(&damage)),
            ItemRef::Input(input) => {
                if let Input::Tick { time_ns } = *input {
                    last_ns = time_ns;
                }
                ended |= matches!(*input, Input::End(_));
                consumer.push(&input);
                if matches!(*input, Input::Tick { .. } | Input::End(_)) {
                    seen(consumer, None);
                }
            }
        }
    }
    if !ended {
        let reason = "the tape ends before the session did".to_owned();
        consumer.push(&Input::End(End { time_ns: last_ns, reason, failed_probes: Vec::new() }));
        seen(consumer, None);
    }
    Ok(())
}
