//! `dmscope attach` and `dmscope run`.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};

use analyzer::render::Style;
use anyhow::{Context, Result, bail};

use super::args::{AnalysisArgs, AttachArgs, Feature, OutputArgs, RunArgs, WatchArgs};
use super::output::create;
use super::reference;
use super::signals::stop_on_signals;
use crate::host;
use crate::host::capabilities::with_own_file_rights;
use crate::host::sudo::SudoUser;
use crate::kernel::{Features, HolderPlace, LoadSettings};
use crate::plan::PlanOptions;
use crate::session::{self, Outcome, Settings, Sink, Tape};
use crate::sink::{JsonSink, LiveSink, TextSink};

/// Watches a running job.
///
/// # Errors
/// See [`session::attach`].
pub fn attach(args: &AttachArgs) -> Result<Outcome> {
    let job = host::job_of(args.pid)?;
    let settings = settings(&args.watch, &args.analysis)?;
    let mut sink = with_own_file_rights(|| sink(&job.command, &args.output))?;
    session::attach(&job, settings, sink.as_mut())
}

/// On a terminal the live view, else what is written line by line.
pub(super) fn sink(job: &str, output: &OutputArgs) -> Result<Box<dyn Sink>> {
    Ok(match &output.output {
        None if !output.json && !output.quiet && stdout().is_terminal() => {
            Box::new(LiveSink::new(job.to_owned(), output.statistics, output.all))
        }
        None => plain(stdout(), stdout().is_terminal(), output),
        Some(path) => plain(create(path)?, false, output),
    })
}

/// Starts a job and watches it.
///
/// # Errors
/// See [`session::run`].
pub fn run(args: &RunArgs) -> Result<Outcome> {
    let settings = settings(&args.watch, &args.analysis)?;
    let mut sink: Box<dyn Sink> = match &args.output.output {
        // Standard output is the job's.
        None => plain(stderr(), stderr().is_terminal(), &args.output),
        Some(path) => plain(with_own_file_rights(|| create(path))?, false, &args.output),
    };
    let user = SudoUser::of_this_process().filter(|_| !args.as_root);
    session::run(&args.job, user.map(SudoUser::account).as_ref(), settings, sink.as_mut())
}

/// A sink that writes line by line.
pub(super) fn plain<W: Write + 'static>(out: W, colour: bool, output: &OutputArgs) -> Box<dyn Sink> {
    if output.json {
        Box::new(JsonSink::new(out, output.quiet))
    } else {
        Box::new(TextSink::new(out, Style { colour, all: output.all }, output.quiet, output.statistics))
    }
}

/// What a session is asked for. Files that the user names are opened with the user's own rights.
pub(super) fn settings(watch: &WatchArgs, analysis: &AnalysisArgs) -> Result<Settings> {
    with_own_file_rights(|| settings_of(watch, analysis))
}

fn settings_of(watch: &WatchArgs, analysis: &AnalysisArgs) -> Result<Settings> {
    let mut options = analysis.options();
    options.reference = reference::read(&analysis.reference)?;
    if let Some(path) = watch.record.as_ref().filter(|path| is_one_of(path, &analysis.reference)) {
        bail!("{} is a reference and would be recorded over; record to another file", path.display());
    }
    let tape = match &watch.record {
        Some(path) => {
            Some(Tape::create(path.clone()).with_context(|| format!("cannot record to {}", path.display()))?)
        }
        None => None,
    };
    Ok(Settings {
        kernel: LoadSettings {
            ring_bytes: watch.ring_size,
            alloc_min_bytes: watch.alloc_size,
            without: Features {
                sessions: watch.without.contains(&Feature::Sessions),
                process_filter: watch.without.contains(&Feature::ProcessFilter),
            },
            holder: HolderPlace::Process,
        },
        plan: PlanOptions {
            libraries: watch.library.clone(),
            returns: watch.returns,
            ..PlanOptions::default()
        },
        analysis: options,
        duration: watch.duration,
        only_job: watch.only_job,
        budget: watch.budget.0,
        tape,
        page_calls: None,
        stop: stop_on_signals()?,
    })
}

/// By whatever names.
pub(super) fn is_one_of(path: &Path, files: &[PathBuf]) -> bool {
    let real = path.canonicalize();
    real.is_ok_and(|real| files.iter().any(|file| file.canonicalize().is_ok_and(|file| file == real)))
}
