//! `dmscope deterministic`.

use analyzer::visible::visible;
use anyhow::Result;

use super::job_command::check_command;
use super::record_job::{exit_status, wrapper_kind};
use super::replay_args::{DeterministicArgs, Reductions};
use super::signals::stop_on_signals;
use crate::host::sudo::SudoUser;
use crate::session::wrapped::{DeterministicEnd, DeterministicSettings, deterministic};

/// Runs a job by logical time; gives its exit status.
///
/// # Errors
/// See [`crate::session::wrapped::deterministic`].
pub(super) fn deterministic_job(args: &DeterministicArgs) -> Result<u8> {
    check_command(&args.job)?;
    let settings = DeterministicSettings {
        account: SudoUser::of_this_process().filter(|_| !args.as_root).map(SudoUser::account),
        named: args.mpi.map(wrapper_kind),
        orders_reductions: args.reductions == Reductions::Ranks,
        stop: stop_on_signals()?,
    };
    let mut say = |line: &str| eprintln!("dmscope: {}", visible(line));
    let end = deterministic(&args.job, &settings, &mut say)?;
    Ok(match end {
        DeterministicEnd::Ended { status, ranks, forced } => {
            if !args.quiet {
                say(&format!("{ranks} ranks ran by logical time (MPI calls); {forced} waits were broken"));
            }
            exit_status(status)
        }
        DeterministicEnd::Deadlocked => 1,
        DeterministicEnd::Stopped => 2,
    })
}
