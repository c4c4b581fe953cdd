//! `dmscope attach` and `dmscope run`.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::Path;
use std::sync::Arc;

use analyzer::options::Options;
use analyzer::render::Style;
use anyhow::{Context, Result, anyhow};

use super::args::{AttachArgs, RunArgs};
use super::bus::{self, UserBus};
use super::job_command::{check_command, quoted};
use super::output::{create, keep_apart};
use super::reference;
use super::session_args::{AnalysisArgs, Feature, OutputArgs, WatchArgs};
use super::signals::stop_on_signals;
use crate::cluster::bus::{Bus, NatsSettings};
use crate::cluster::coordinator::{self, CoordinatorSettings, RunOnNodes};
use crate::cluster::find::find;
use crate::cluster::jobs::{job_meant, jobs_of};
use crate::cluster::protocol::{CountingWishes, SessionWishes};
use crate::host;
use crate::host::capabilities::with_own_file_rights;
use crate::host::sudo::SudoUser;
use crate::kernel::{Features, HolderPlace, LoadSettings};
use crate::plan::{PlanOptions, Returns};
use crate::session::{self, Outcome, Outlets, Settings, Sink, Tape};
use crate::sink::{JsonSink, LiveSink, TextSink};

/// Watches a running job.
///
/// # Errors
/// See [`session::attach`].
pub fn attach(args: &AttachArgs) -> Result<Outcome> {
    keep_files_apart(&args.watch, &args.analysis, &args.output)?;
    if let Some(nats) = bus::settings(&args.bus, "dmscope attach")? {
        return attach_over_bus(args, nats);
    }
    let pid = args.job.parse();
    let pid: u32 = pid.map_err(|_| {
        let what = "`dmscope ps` lists jobs with their processes; names are those of jobs on several nodes, with --bus (see --help)";
        anyhow!("{} is no process id: {what}", args.job)
    })?;
    let job = host::job_of(pid)?;
    let settings = settings(&args.watch, &args.analysis)?;
    let mut sink = with_own_file_rights(|| sink(&job.command, &args.output))?;
    let outcome = session::attach(&job, settings, sink.as_mut())?;
    written_or_not(sink.as_mut())?;
    Ok(outcome)
}

/// Fails if something that was said could not be written.
pub(super) fn written_or_not(sink: &mut dyn Sink) -> Result<()> {
    match sink.trouble() {
        Some(error) => Err(error).context("what was found could not be written"),
        None => Ok(()),
    }
}

/// A command whose files are found from any folder.
fn for_nodes(command: &[String]) -> Vec<String> {
    let absolute = |word: &String| {
        let is_relative = word.contains('/') && !word.starts_with('/');
        let path = Path::new(word).canonicalize().ok().filter(|_| is_relative);
        path.map_or_else(|| word.clone(), |path| path.to_string_lossy().into_owned())
    };
    command.iter().map(absolute).collect()
}

/// Watches a job on all of its nodes.
fn attach_over_bus(args: &AttachArgs, nats: NatsSettings) -> Result<Outcome> {
    let UserBus { bus, user } = bus::connect(&args.bus, nats)?;
    let found = find(&*bus, &user, args.watch.bus_patience)?;
    let jobs = jobs_of(&found.answers);
    let job = job_meant(&args.job, &jobs).map_err(|why| anyhow!(why))?;
    let mut sink = sink(&job.command, &args.output)?;
    found.notices.iter().for_each(|notice| sink.notice(notice));
    let settings = coordinator_settings(bus, user, &args.watch, &args.analysis)?;
    let outcome = coordinator::attach(job, settings, sink.as_mut())?;
    written_or_not(sink.as_mut())?;
    Ok(outcome)
}

/// What a session over several nodes is asked for.
pub(super) fn coordinator_settings(
    bus: Arc<dyn Bus>,
    user: String,
    watch: &WatchArgs,
    analysis: &AnalysisArgs,
) -> Result<CoordinatorSettings> {
    let Settings { analysis, outlets, stop, duration, .. } = settings(watch, analysis)?;
    let wishes = SessionWishes {
        budget: watch.budget.0.map(|budget| budget.share),
        returns: watch.returns,
        libraries: watch.library.clone(),
        calls_only: watch.calls_only,
        engine: watch.probes,
        only_job: watch.only_job,
        ring_bytes: watch.ring_size,
        alloc_min_bytes: watch.alloc_size,
        counting: CountingWishes {
            context_window: analysis.context_window,
            max_age_ops: analysis.max_age_ops,
            pack_uniqueness_max: analysis.pack_uniqueness_max,
        },
        whole: false,
        patience_ms: u64::try_from(watch.bus_patience.as_millis()).unwrap_or(u64::MAX),
    };
    Ok(CoordinatorSettings {
        bus,
        user,
        wishes,
        // It does not hear of probes.
        analysis: Options { compares_chains: !watch.calls_only, ..analysis },
        duration,
        tape: outlets.tape,
        page_calls: None,
        stop,
    })
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
    keep_files_apart(&args.watch, &args.analysis, &args.output)?;
    // Before a file is made for it.
    check_command(&args.job)?;
    let user = SudoUser::of_this_process().filter(|_| !args.as_root);
    let account = user.map(SudoUser::account);
    let mut sink: Box<dyn Sink> = match &args.output.output {
        // Standard output is the job's.
        None => plain(stderr(), stderr().is_terminal(), &args.output),
        Some(path) => plain(with_own_file_rights(|| create(path))?, false, &args.output),
    };
    if let Some(nats) = bus::settings(&args.bus, "dmscope run")? {
        let UserBus { bus, user } = bus::connect(&args.bus, nats)?;
        let found = find(&*bus, &user, args.watch.bus_patience)?;
        found.notices.iter().for_each(|notice| sink.notice(notice));
        let mut settings = coordinator_settings(bus, user, &args.watch, &args.analysis)?;
        if args.replayable {
            settings.wishes =
                SessionWishes { returns: Returns::All, budget: None, whole: true, ..settings.wishes };
        }
        let nodes =
            RunOnNodes { command: &args.job, as_nodes_know_it: &for_nodes(&args.job), nodes: &found.answers };
        let outcome = coordinator::run(&nodes, account.as_ref(), settings, sink.as_mut())?;
        written_or_not(sink.as_mut())?;
        tell_how_to_replay(args, "--nodes ", sink.as_mut());
        return Ok(outcome);
    }
    let mut settings = settings(&args.watch, &args.analysis)?;
    if args.replayable {
        settings.plan.returns = Returns::All;
        settings.budget = None;
    }
    let outcome = session::run(&args.job, account.as_ref(), settings, sink.as_mut())?;
    written_or_not(sink.as_mut())?;
    tell_how_to_replay(args, "", sink.as_mut());
    Ok(outcome)
}

/// What runs the job again with the messages that were recorded; `options`: of that command.
fn tell_how_to_replay(args: &RunArgs, options: &str, sink: &mut dyn Sink) {
    if let Some(tape) = args.watch.record.as_ref().filter(|_| args.replayable) {
        sink.notice(&format!(
            "the same messages again: dmscope replay {options}{} -- {}",
            quoted([&*tape.to_string_lossy()]),
            quoted(args.job.iter().map(String::as_str))
        ));
    }
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
            ..LoadSettings::default()
        },
        plan: PlanOptions {
            libraries: watch.library.clone(),
            returns: watch.returns,
            copies: !watch.calls_only,
            allocations: !watch.calls_only,
            engine: watch.probes,
            ..PlanOptions::default()
        },
        analysis: options,
        duration: watch.duration,
        only_job: watch.only_job,
        budget: watch.budget.0,
        outlets: Outlets { tape, ..Outlets::default() },
        part: None,
        page_calls: None,
        stop: stop_on_signals()?,
    })
}

fn keep_files_apart(watch: &WatchArgs, analysis: &AnalysisArgs, output: &OutputArgs) -> Result<()> {
    let written: Vec<&Path> =
        [&watch.record, &output.output].into_iter().flatten().map(AsRef::as_ref).collect();
    keep_apart(&analysis.reference, &written)
}
