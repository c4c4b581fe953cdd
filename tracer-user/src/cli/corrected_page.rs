//! Times without watching, for a page about the same tapes.

use analyzer::input::Input;
use analyzer::page::{Page, PageCorrection};
use analyzer::pipeline::TimesPipeline;
use analyzer::wire::RawRecord;
use anyhow::Result;

use super::nodes::{TapeSummary, replay_job};
use super::replay::Consumer;
use super::times::sentences;

/// A page has no times without watching where that took a rank more than this part of its own time.
const MOST_COST: f64 = 1.0;

/// Puts times without watching on a page, or says there why there are none, which it gives back.
///
/// # Errors
/// A tape cannot be read.
pub(super) fn correct_page(page: &mut Page, tapes: &[TapeSummary]) -> Result<Option<String>> {
    let mut first = PageTimes { pipeline: TimesPipeline::survey(), correction: None, damage: 0 };
    replay_job(tapes, &mut first)?;
    let pipeline = TimesPipeline::correct(first.pipeline.into_survey(), true, true);
    let mut second = PageTimes { pipeline, correction: Some(PageCorrection::new(page)), damage: 0 };
    replay_job(tapes, &mut second)?;
    second.pipeline.finish();
    second.take_calls();
    let times = second.pipeline.result(MOST_COST);
    let told = sentences(tapes, &times, second.damage);
    let refusal = times.refused.and_then(|_| told.first().cloned());
    page.basis.extend(told);
    let Some(mut correction) = second.correction.filter(|_| refusal.is_none()) else { return Ok(refusal) };
    second.pipeline.take_orders().iter().for_each(|order| correction.order(order));
    correction.write(page);
    Ok(None)
}

/// One pass over the tapes.
struct PageTimes {
    pipeline: TimesPipeline,
    /// Of the second pass.
    correction: Option<PageCorrection>,
    damage: u64,
}

impl PageTimes {
    fn take_calls(&mut self) {
        let Some(correction) = &mut self.correction else { return };
        self.pipeline.take_calls().iter().for_each(|call| correction.call(call));
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
