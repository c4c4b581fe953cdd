//! Training sets: what is normal, from tapes of good runs.

use std::path::PathBuf;

use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::reference::Reference;
use analyzer::wire::RawRecord;
use anyhow::{Context, Result, ensure};

use super::replay::{Consumer, replay};

/// Reads the reference from tapes; `None` if there are no tapes.
///
/// # Errors
/// A tape cannot be read, or is damaged: what is normal cannot be learnt from a part.
pub(super) fn read(tapes: &[PathBuf]) -> Result<Option<Reference>> {
    let mut all: Option<Reference> = None;
    for path in tapes {
        let mut learner = Learner { pipeline: Pipeline::new(Options::default()), is_damaged: false };
        replay(path, &mut learner)?;
        let reference = learner.reference().with_context(|| path.display().to_string())?;
        match &mut all {
            Some(all) => all.merge(reference),
            None => all = Some(reference),
        }
    }
    Ok(all)
}

/// Learns what is normal from one tape.
struct Learner {
    pipeline: Pipeline,
    is_damaged: bool,
}

impl Learner {
    fn reference(self) -> Result<Reference> {
        ensure!(!self.is_damaged, "a damaged tape cannot be a reference; record a good run again");
        Ok(self.pipeline.into_reference())
    }
}

impl Consumer for Learner {
    fn push(&mut self, input: &Input) -> Result<()> {
        self.pipeline.push(input);
        // Nobody hears of them, and they would add up.
        self.pipeline.take_alerts();
        Ok(())
    }

    fn push_record(&mut self, record: &RawRecord) -> Result<()> {
        self.pipeline.push_record(record);
        Ok(())
    }

    fn damage(&mut self, _message: &str) {
        self.is_damaged = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::replay::testing::replay_inputs;
    use super::*;

    #[test]
    fn a_cut_tape_is_no_reference_and_a_whole_one_is() {
        let learnt = |cut| {
            let mut learner = Learner { pipeline: Pipeline::new(Options::default()), is_damaged: false };
            replay_inputs(cut, &mut learner);
            learner.reference().map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(learnt(false), Ok(()));
        assert!(learnt(true).unwrap_err().starts_with("a damaged tape cannot be a reference"));
    }
}
