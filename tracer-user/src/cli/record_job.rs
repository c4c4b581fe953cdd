//! `dmscope record`.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use analyzer::visible::visible;
use anyhow::Result;
use replay::shared_page::UNCOVERED;

use super::job_command::check_command;
use super::replay_args::{MpiFamily, RecordArgs};
use super::signals::stop_on_signals;
use crate::host::sudo::SudoUser;
use crate::session::wrapped::{JobRecorded, RecordSettings, WrapperKind, record};

/// Records a job for replay; gives the exit status of the job.
///
/// # Errors
/// See [`crate::session::wrapped::record`].
pub(super) fn record_job(args: &RecordArgs) -> Result<u8> {
    check_command(&args.job)?;
    let account = SudoUser::of_this_process().filter(|_| !args.as_root).map(SudoUser::account);
    let settings = RecordSettings {
        account,
        named: args.mpi.map(wrapper_kind),
        messages: args.messages,
        order: args.order,
        contents_of: args.payloads.then(|| args.rank.as_ref().map_or(Vec::new(), |list| list.0.clone())),
        nodes: args.nodes,
        stop: stop_on_signals()?,
    };
    let recorded = record(&args.job, &settings, &args.tape)?;
    for line in lines(&recorded, &args.tape.display().to_string(), args.quiet) {
        eprintln!("dmscope: {}", visible(&line));
    }
    Ok(if recorded.ranks.is_empty() && recorded.status.success() { 2 } else { exit_status(recorded.status) })
}

/// As clap has it, and as the session has it.
pub(super) fn wrapper_kind(family: MpiFamily) -> WrapperKind {
    match family {
        MpiFamily::Openmpi => WrapperKind::OpenMpi,
        MpiFamily::Mpich => WrapperKind::Mpich,
    }
}

/// Of a shell.
pub(super) fn exit_status(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// What people hear.
pub(super) fn lines(recorded: &JobRecorded, tape: &str, quiet: bool) -> Vec<String> {
    let mut lines = recorded.trouble.clone();
    let ranks = recorded.ranks.len();
    let size = recorded.ranks.first().map_or(0, |rank| rank.size as usize);
    if ranks == 0 {
        lines.push(format!("no rank was recorded: no MPI_Init was seen; {tape} cannot be replayed"));
        return lines;
    }
    if ranks < size {
        lines.push(format!(
            "{ranks} of {size} ranks were recorded: of the others no MPI_Init was seen, which those on other nodes have with --nodes; {tape} cannot be replayed"
        ));
    }
    for rank in &recorded.ranks {
        if let Some(why) = &rank.stopped {
            lines.push(format!(
                "rank {} is not recorded to its end, and cannot be replayed: {why}",
                rank.rank
            ));
        }
    }
    let used = recorded.ranks.iter().fold(0, |all, rank| all | rank.uncovered);
    let uncovered = UNCOVERED.iter().enumerate().filter(|(bit, _)| used >> bit & 1 == 1);
    lines.extend(uncovered.map(|(_, what)| format!("not covered by a replay: the job uses {what}")));
    for rank in recorded.contents.iter().flatten().filter(|rank| rank.is_stopped) {
        let rank = rank.rank;
        lines.push(format!(
            "rank {rank} does what the contents of its messages do not cover: alone it runs up to there, and says what it is"
        ));
    }
    if let Some(contents) = &recorded.contents
        && !quiet
    {
        let (count, bytes) = (contents.len(), contents.iter().map(|rank| rank.bytes).sum::<u64>());
        lines.push(format!(
            "contents of {count} ranks, {bytes} bytes before compression: dmscope replay --rank RANK {tape} -- PROGRAM"
        ));
    }
    if !quiet {
        let (answers, bytes) = (recorded.answers, recorded.tape_bytes);
        lines.push(format!(
            "{ranks} ranks, {answers} answers, {bytes} bytes: dmscope replay {tape} -- COMMAND"
        ));
    }
    lines
}
