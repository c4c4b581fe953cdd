//! `dmscope replay`.

use std::path::Path;

use analyzer::visible::visible;
use anyhow::{Result, bail};
use replay::RankCut;

use super::job_command::check_command;
use super::output::keep_apart;
use super::record_job::{lines, wrapper_kind};
use super::recorded_tape::{no_messages, read_job, read_ranks};
use super::replay_args::ReplayArgs;
use super::signals::stop_on_signals;
use crate::host::sudo::SudoUser;
use crate::session::wrapped::{
    AloneEnd, AloneJob, AloneSettings, RecordWishes, RecordedJob, ReplayEnd, ReplaySettings, replay,
    run_alone,
};

/// Replays a job.
///
/// # Errors
/// The tape cannot be read, or not be replayed with this command.
pub(super) fn replay_job(args: &ReplayArgs) -> Result<u8> {
    let written: Vec<&Path> = args.record.iter().map(AsRef::as_ref).collect();
    keep_apart(std::slice::from_ref(&args.tape), &written)?;
    check_command(&args.job)?;
    if let Some(ranks) = &args.rank {
        return replay_ranks_alone(args, &ranks.0);
    }
    let wishes = RecordWishes { messages: args.swap.is_some(), order: args.identical };
    let job = read_job(&args.tape, wishes, &mut say)?;
    let settings = settings(args, cuts(args, &job)?)?;
    let replayed = replay(&args.job, job, &settings, &mut say)?;
    if let (Some(recorded), Some(tape)) = (&replayed.recorded, &args.record) {
        lines(recorded, &tape.display().to_string(), args.quiet).iter().for_each(|line| say(line));
    }
    Ok(match replayed.end {
        ReplayEnd::Ended(status) => {
            if !args.quiet {
                let how = match args.swap {
                    Some(swap) => format!("replayed up to {swap}, and on from there"),
                    None if args.identical => {
                        "replayed to the end of the record, in the order of all ranks' calls".to_owned()
                    }
                    None => "replayed to the end of the record".to_owned(),
                };
                say(&format!("{how}; the job ended: {status}"));
            }
            0
        }
        ReplayEnd::Hangs => 0,
        ReplayEnd::Diverged | ReplayEnd::Impossible => 1,
        ReplayEnd::TooLong | ReplayEnd::Stopped => 2,
    })
}

/// Where the record is left, if it is to be.
fn cuts(args: &ReplayArgs, job: &RecordedJob) -> Result<Vec<RankCut>> {
    let Some(swap) = args.swap else { return Ok(Vec::new()) };
    if !job.has_messages() {
        bail!(no_messages(&args.tape));
    }
    match job.races().and_then(|races| swap.cuts(&races)) {
        Ok(cuts) => Ok(cuts),
        Err(why) => bail!("{}: {why}", args.tape.display()),
    }
}

fn settings(args: &ReplayArgs, cuts: Vec<RankCut>) -> Result<ReplaySettings> {
    Ok(ReplaySettings {
        account: SudoUser::of_this_process().filter(|_| !args.as_root).map(SudoUser::account),
        named: args.mpi.map(wrapper_kind),
        patience: args.patience,
        holds: args.hold,
        stop: stop_on_signals()?,
        cuts,
        record: args.record.clone(),
        messages: args.messages,
        order: args.order,
        identical: args.identical,
        nodes: args.nodes,
        captures: false,
        limit: None,
    })
}

/// Runs ranks alone, side by side. What each gets comes from the tape, also from the others among them.
fn replay_ranks_alone(args: &ReplayArgs, ranks: &[u32]) -> Result<u8> {
    let jobs = read_ranks(&args.tape, ranks, &mut say)?;
    let settings = AloneSettings { replay: settings(args, Vec::new())?, ignores_data: args.ignore_data };
    let ends: Vec<Result<u8>> = std::thread::scope(|scope| {
        let run = |job| scope.spawn(|| replay_rank_alone(args, job, &settings));
        let running: Vec<_> = jobs.into_iter().map(run).collect();
        running
            .into_iter()
            .map(|rank| rank.join().unwrap_or_else(|_| bail!("a thread of dmscope panicked")))
            .collect()
    });
    ends.into_iter().try_fold(0, |worst, end| Ok(worst.max(end?)))
}

fn replay_rank_alone(args: &ReplayArgs, job: AloneJob, settings: &AloneSettings) -> Result<u8> {
    let rank = job.rank();
    Ok(match run_alone(&args.job, job, settings, &mut say)? {
        AloneEnd::Ended(status) => {
            if !args.quiet {
                say(&format!("rank {rank} ran alone to its end: {status}"));
            }
            0
        }
        AloneEnd::RecordEnds => 0,
        AloneEnd::Diverged => 1,
        AloneEnd::Stopped => 2,
    })
}

fn say(line: &str) {
    eprintln!("dmscope: {}", visible(line));
}
