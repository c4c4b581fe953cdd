//! Takes from a tape what replays need.

use std::collections::BTreeMap;
use std::path::Path;

use analyzer::input::Input;
use analyzer::messages::Call;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::wire::RawRecord;
use anyhow::{Context, Result, anyhow};

use super::replay::{Consumer, replay as read_tape};
use crate::session::wrapped::{AloneJob, ProbedJob, RecordWishes, RecordedJob};

/// Takes what the wrapper recorded, and follows the calls that probes saw.
struct Gathering {
    job: RecordedJob,
    probed: ProbedJob,
    pipeline: Pipeline,
    damage: Vec<String>,
}

impl Gathering {
    fn new(wishes: RecordWishes) -> Self {
        let pipeline = Pipeline::with_events(Options::default());
        Self { job: RecordedJob::default(), probed: ProbedJob::new(wishes), pipeline, damage: Vec::new() }
    }

    fn learn(&mut self) {
        let events = self.pipeline.take_events();
        let pipeline = &self.pipeline;
        let find = |call: &Call| {
            pipeline.call_place(call).map(|place| (pipeline.path(place.file), place.offset_bytes))
        };
        for event in events {
            self.probed.learn(pipeline.messages(), event, &find);
        }
    }

    fn finish(mut self) -> Result<(RecordedJob, Vec<String>)> {
        if self.job.is_empty() && self.probed.is_of_session() {
            let of_what_is_there = |why| match self.damage.as_slice() {
                [] => anyhow!("{why}"),
                damage => {
                    anyhow!("a replay needs all of a tape; record the job again: {}", damage.join("; "))
                }
            };
            let tape = self.probed.replayable(self.pipeline.messages()).map_err(of_what_is_there)?;
            self.job.take_probed(&tape);
        }
        Ok((self.job, self.damage))
    }
}

impl Consumer for Gathering {
    fn push(&mut self, input: &Input) -> Result<()> {
        match input {
            Input::ReplayableRank(rank) => self.job.learn(rank),
            Input::Answers(answers) => self.job.take(answers),
            Input::Messages(messages) => self.job.take_messages(messages),
            _ => {
                self.probed.push(input);
                self.pipeline.push(input);
                self.learn();
            }
        }
        Ok(())
    }

    fn push_record(&mut self, record: &RawRecord) -> Result<()> {
        self.probed.push_record(record);
        self.pipeline.push_record(record);
        self.learn();
        Ok(())
    }

    fn damage(&mut self, message: &str) {
        self.damage.push(message.to_owned());
    }

    fn is_for_replays(&self) -> bool {
        true
    }
}

/// The job on a tape; `wishes`: what is wanted of it, if probes recorded it; `say`: hears of damage.
///
/// # Errors
/// The file is no tape, or cannot be read.
pub(super) fn read_job(tape: &Path, wishes: RecordWishes, say: &mut dyn FnMut(&str)) -> Result<RecordedJob> {
    let mut gathering = Gathering::new(wishes);
    read_tape(tape, &mut gathering)?;
    let (job, damage) = gathering.finish().with_context(|| tape.display().to_string())?;
    damage.iter().for_each(|message| say(message));
    Ok(job)
}

/// Takes what some ranks need.
struct GatheringRanks {
    jobs: BTreeMap<u32, AloneJob>,
    damage: Vec<String>,
}

impl Consumer for GatheringRanks {
    fn push(&mut self, input: &Input) -> Result<()> {
        let jobs = &mut self.jobs;
        match input {
            Input::ReplayableRank(facts) => {
                jobs.get_mut(&facts.rank).into_iter().for_each(|job| job.learn(facts));
            }
            Input::Answers(answers) => {
                jobs.get_mut(&answers.rank).into_iter().for_each(|job| job.take_answers(answers));
            }
            Input::Contents(contents) => {
                jobs.get_mut(&contents.rank).map_or(Ok(()), |job| job.take_contents(contents))?;
            }
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

/// Some ranks of the job on a tape, each to run alone; `say`: hears of damage.
///
/// # Errors
/// The file is no tape, or cannot be read; there is no room for what the ranks got.
pub(super) fn read_ranks(tape: &Path, ranks: &[u32], say: &mut dyn FnMut(&str)) -> Result<Vec<AloneJob>> {
    let jobs = ranks.iter().map(|rank| (*rank, AloneJob::of_rank(*rank))).collect();
    let mut gathering = GatheringRanks { jobs, damage: Vec::new() };
    read_tape(tape, &mut gathering)?;
    gathering.damage.iter().for_each(|message| say(message));
    Ok(gathering.jobs.into_values().collect())
}

/// What to do about a tape that has no messages.
pub(super) fn no_messages(tape: &Path) -> String {
    let tape = tape.display();
    format!(
        "there are no messages on {tape}: record the job with `dmscope record --messages {tape} -- COMMAND`, or replay this record \
         once with `dmscope replay --messages --record full.dmt {tape} -- COMMAND` and use full.dmt. Messages are of jobs whose ranks have \
         one thread each"
    )
}
