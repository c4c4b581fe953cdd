//! Takes from a tape what replays need.

use std::path::Path;

use analyzer::input::Input;
use analyzer::wire::RawRecord;
use anyhow::Result;

use super::replay::{Consumer, replay as read_tape};
use crate::session::wrapped::{AloneJob, RecordedJob};

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
            Input::Messages(messages) => self.job.take_messages(messages),
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

    fn is_for_replays(&self) -> bool {
        true
    }
}

/// The job on a tape; `say`: hears of damage.
///
/// # Errors
/// The file is no tape, or cannot be read.
pub(super) fn read_job(tape: &Path, say: &mut dyn FnMut(&str)) -> Result<RecordedJob> {
    let mut gathering = Gathering::default();
    read_tape(tape, &mut gathering)?;
    gathering.damage.iter().for_each(|message| say(message));
    Ok(gathering.job)
}

/// Takes what one rank needs.
struct GatheringRank {
    job: AloneJob,
    damage: Vec<String>,
}

impl Consumer for GatheringRank {
    fn push(&mut self, input: &Input) -> Result<()> {
        match input {
            Input::ReplayableRank(rank) => self.job.learn(rank),
            Input::Answers(answers) => self.job.take_answers(answers),
            Input::Contents(contents) => self.job.take_contents(contents)?,
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

    fn is_for_replays(&self) -> bool {
        true
    }
}

/// One rank of the job on a tape, to run alone; `say`: hears of damage.
///
/// # Errors
/// The file is no tape, or cannot be read; there is no room for what the rank got.
pub(super) fn read_rank(tape: &Path, rank: u32, say: &mut dyn FnMut(&str)) -> Result<AloneJob> {
    let mut gathering = GatheringRank { job: AloneJob::of_rank(rank)?, damage: Vec::new() };
    read_tape(tape, &mut gathering)?;
    gathering.damage.iter().for_each(|message| say(message));
    Ok(gathering.job)
}

/// What to do about a tape that has no messages.
pub(super) fn no_messages(tape: &Path) -> String {
    let tape = tape.display();
    format!(
        "there are no messages on {tape}: record the job with `dmscope record --messages {tape} -- COMMAND`, or replay this record \
         once with `dmscope replay --messages --record full.dmt {tape} -- COMMAND` and use full.dmt"
    )
}
