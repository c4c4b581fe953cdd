//! `dmscope replay`.

use analyzer::input::Input;
use analyzer::visible::visible;
use analyzer::wire::RawRecord;
use anyhow::Result;

use super::args::ReplayArgs;
use super::record_job::wrapper_kind;
use super::replay::{Consumer, replay as read_tape};
use super::signals::stop_on_signals;
use crate::host::sudo::SudoUser;
use crate::session::wrapped::{RecordedJob, ReplayEnd, ReplaySettings, replay};

/// Takes what a replay needs from a tape.
#[derive(Default)]
struct Gathering {
    job: RecordedJob,
    damage: Vec<String>,
}

impl Consumer for Gathering {
    fn push(&mut self, input: &Input) -> Result<()> {
        match input {
            Input::ReplayableRank(rank) => self.job.learn(rank),
            Input::Answers(answers) => self.job.take(answers),
            _ => {}
        }
        Ok(())
    }

    fn push_record(&mut self, _: &RawRecord) -> Result<()> {
        Ok(())
    }

    fn damage(&mut self, message: &str) {
        self.damage.push(message.to_owned());
    }
}

/// Replays a job.
///
/// # Errors
/// The tape cannot be read, or not be replayed with this command.
pub(super) fn replay_job(args: &ReplayArgs) -> Result<u8> {
    let mut gathering = Gathering::default();
    read_tape(&args.tape, &mut gathering)?;
    let mut say = |line: &str| eprintln!("dmscope: {}", visible(line));
    gathering.damage.iter().for_each(|message| say(message));
    let settings = ReplaySettings {
        account: SudoUser::of_this_process().filter(|_| !args.as_root).map(SudoUser::account),
        named: args.mpi.map(wrapper_kind),
        patience: args.patience,
        holds: args.hold,
        stop: stop_on_signals()?,
    };
    Ok(match replay(&args.job, gathering.job, &settings, &mut say)? {
        ReplayEnd::Ended(status) => {
            if !args.quiet {
                say(&format!("replayed to the end of the record; the job ended: {status}"));
            }
            0
        }
        ReplayEnd::Hangs => 0,
        ReplayEnd::Diverged => 1,
        ReplayEnd::Stopped => 2,
    })
}
