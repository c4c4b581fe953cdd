//! `dmscope explore`.

use std::path::{Path, PathBuf};

use analyzer::visible::visible;
use anyhow::Result;

use super::job_command::{check_command, quoted};
use super::record_job::wrapper_kind;
use super::recorded_tape::read_job;
use super::replay_args::ExploreArgs;
use super::signals::stop_on_signals;
use crate::host::sudo::SudoUser;
use crate::session::wrapped::{
    ExploreSettings, Explored, ExploredRun, RecordWishes, ReplaySettings, RunVerdict, explore,
};

/// Explores a recorded job.
///
/// # Errors
/// The tape cannot be read, or not be replayed with this command; runs cannot be kept.
pub(super) fn explore_job(args: &ExploreArgs) -> Result<u8> {
    let mut say = |line: &str| eprintln!("dmscope: {}", visible(line));
    check_command(&args.job)?;
    let wishes = RecordWishes { messages: true, order: false };
    let job = read_job(&args.tape, wishes, &mut say)?;
    let folder = args.keep.clone().unwrap_or_else(|| beside(&args.tape));
    let settings = ExploreSettings {
        replay: ReplaySettings {
            account: SudoUser::of_this_process().filter(|_| !args.as_root).map(SudoUser::account),
            named: args.mpi.map(wrapper_kind),
            patience: args.patience,
            holds: false,
            stop: stop_on_signals()?,
            cuts: Vec::new(),
            record: None,
            messages: true,
            order: false,
            identical: false,
            nodes: args.nodes,
            captures: true,
            limit: Some(args.limit),
        },
        tape: args.tape.clone(),
        folder: folder.clone(),
        most: args.most,
        ignores_output: args.ignore_output,
    };
    let command = quoted(args.job.iter().map(String::as_str));
    // Damage of tapes that were cut with their runs is no news.
    let read = |tape: &Path| read_job(tape, wishes, &mut |_| {});
    let mut tell = |run: &ExploredRun| {
        say(&words(run));
        let tape = folder.join(format!("{}.dmt", run.run));
        say(&format!("    dmscope replay {} -- {command}", quoted([&*tape.to_string_lossy()])));
    };
    let explored = explore(&args.job, &job, &settings, &read, &mut tell)?;
    explored.unknown.iter().for_each(|why| say(&format!("races are not known: {why}")));
    let failures = explored.runs.iter().filter(|run| run.verdict.is_failure()).count();
    if !args.quiet {
        say(&summary(&explored, failures, &folder));
    }
    Ok(u8::from(failures > 0))
}

/// `TAPE.explore`.
fn beside(tape: &Path) -> PathBuf {
    let mut name = tape.as_os_str().to_owned();
    name.push(".explore");
    name.into()
}

fn words(run: &ExploredRun) -> String {
    let how = match run.verdict {
        RunVerdict::Same => "ends as it was recorded",
        RunVerdict::OtherOutput => "prints something else",
        RunVerdict::OtherStatus => "ends otherwise",
        RunVerdict::Hang => "hangs",
        RunVerdict::TooLong => "takes too long",
        RunVerdict::Impossible => "cannot go that way",
        RunVerdict::Diverged => "goes another way before",
    };
    let of = if run.of == 0 { String::new() } else { format!(" (of run {})", run.of) };
    format!("run {}: {}{of} {how}: {}", run.run, run.swap, run.ended)
}

fn summary(explored: &Explored, failures: usize, folder: &Path) -> String {
    let count = |verdict: RunVerdict| explored.runs.iter().filter(|run| run.verdict == verdict).count();
    let (made, all) = (explored.made, explored.runs.len());
    let earlier = if all > made { format!(", {} before", all - made) } else { String::new() };
    let left = match explored.left {
        0 => "nothing is left to be tried".to_owned(),
        left => format!("at least {left} more can be tried: the same command goes on"),
    };
    let vain = count(RunVerdict::Impossible) + count(RunVerdict::Diverged);
    let vain = if vain > 0 { format!(", {vain} could not go that way") } else { String::new() };
    format!("{made} runs{earlier}: {failures} fail{vain}; {left}; runs are kept in {}", folder.display())
}
