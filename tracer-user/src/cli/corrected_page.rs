//! Times without watching, for a page about the same tapes.

use analyzer::input::Input;
use analyzer::page::{Page, PageCorrection};
use analyzer::pipeline::TimesPipeline;
use analyzer::wire::RawRecord;
use anyhow::Result;

use super::nodes::{TapeSummary, replay_job};
use super::replay::Consumer;
use super::times::{sentences, survey};

/// A page has no times without watching where that took a rank more than this part of its own time.
const MOST_COST: f64 = 1.0;

/// Puts times without watching on a page, or says there why there are none, which it gives back.
///
/// # Errors
/// A tape cannot be read.
pub(super) fn correct_page(page: &mut Page, tapes: &[TapeSummary]) -> Result<Option<String>> {
    let pipeline = TimesPipeline::correct(survey(tapes, false)?, true, true);
    let mut times = PageTimes { pipeline, correction: PageCorrection::new(page), damage: 0 };
    replay_job(tapes, &mut times)?;
    times.pipeline.finish();
    times.take_calls();
    let PageTimes { mut pipeline, mut correction, damage } = times;
    let result = pipeline.result(MOST_COST);
    let told = sentences(tapes, &result, damage);
    let refusal = result.refused.and_then(|_| told.first().cloned());
    page.basis.extend(told);
    if refusal.is_some() {
        return Ok(refusal);
    }
    pipeline.take_orders().iter().for_each(|order| correction.order(order));
    correction.write(page);
    Ok(None)
}

/// The pass over the tapes that corrects.
struct PageTimes {
    pipeline: TimesPipeline,
    correction: PageCorrection,
    damage: u64,
}

impl PageTimes {
    fn take_calls(&mut self) {
        self.pipeline.take_calls().iter().for_each(|call| self.correction.call(call));
    }
}

impl Consumer for PageTimes {
    fn push(&mut self, input: &Input) -> Result<()> {
        self.pipeline.push(input);
        self.take_calls();
        Ok(())
    }

    fn push_record(&mut self, record: &RawRecord) -> Result<()> {
        self.pipeline.push_record(record);
        self.take_calls();
        Ok(())
    }

    fn damage(&mut self, _: &str) {
        self.damage += 1;
    }
}
