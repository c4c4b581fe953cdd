//! Training sets: what is normal, from tapes of good runs.

use std::path::PathBuf;

use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::reference::Reference;
use anyhow::{Result, ensure};

use super::analyze::feed;

/// Reads the reference from tapes; `None` if there are no tapes.
///
/// # Errors
/// A tape cannot be read, or is damaged: what is normal cannot be learnt from a part.
pub(super) fn read(tapes: &[PathBuf]) -> Result<Option<Reference>> {
    let mut all: Option<Reference> = None;
    for path in tapes {
        let mut pipeline = Pipeline::new(Options::default());
        let mut damaged = false;
        feed(path, &mut pipeline, |pipeline, damage| {
            damaged |= damage.is_some();
            pipeline.take_alerts();
        })?;
        ensure!(
            !damaged,
            "{}: a damaged tape cannot be a reference; record a good run again",
            path.display()
        );
        let reference = pipeline.into_reference();
        match &mut all {
            Some(all) => all.merge(reference),
            None => all = Some(reference),
        }
    }
    Ok(all)
}
