//! Keeping a budget while the session does other things, too: what is decided late cannot keep it.

use std::time::Duration;

use analyzer::input::Input;

use super::{PATIENCE, Session};
use crate::kernel::DrainBatch;
use crate::session::kernel::TracingFailed;

/// Batches that may wait here. More of them stay with the reading thread, which bounds how many there are.
const MOST_WAITING: usize = 64;

impl Session<'_> {
    /// What the job spends counts from now on: what it took to get here is not the job's.
    pub(in crate::session) fn begin_budget(&mut self) {
        if let Some(budget) = &mut self.budget {
            budget.begin(self.host.as_ref());
        }
    }

    /// The next batch, or `None` if none comes for a while. The budget has been kept by then for all that has come, however long it
    /// takes to look into it.
    ///
    /// # Errors
    /// Nothing comes any more.
    pub(super) fn next_batch(&mut self) -> Result<Option<DrainBatch>, TracingFailed> {
        if self.waiting.is_empty() {
            let batch = self.kernel.next_batch(PATIENCE)?;
            self.keep_budget(batch.as_ref());
            self.waiting.extend(batch);
        }
        self.keep_budget_meanwhile();
        Ok(self.waiting.pop_front())
    }

    /// Keeps the budget for what has come since; called while something else takes long. Records are looked into later.
    pub(super) fn keep_budget_meanwhile(&mut self) {
        if self.budget.is_none() {
            return;
        }
        while self.waiting.len() < MOST_WAITING
            // A failure comes again, where it is told.
            && let Ok(Some(batch)) = self.kernel.next_batch(Duration::ZERO)
        {
            self.keep_budget(Some(&batch));
            self.waiting.push_back(batch);
        }
    }

    fn keep_budget(&mut self, batch: Option<&DrainBatch>) {
        let Some(budget) = &mut self.budget else { return };
        for (slot, records) in batch.iter().flat_map(|batch| &batch.records) {
            budget.count(*slot, records);
        }
        let (slots, recorder) = (self.watched.slots(), &self.recorder);
        let joining = || recorder.joining_probes();
        if let Some(coverage) = budget.step(&slots, self.kernel.as_mut(), self.host.as_ref(), &joining) {
            self.sampler.coverage_changed(coverage.time_ns);
            self.order.fact(coverage.time_ns, Input::Coverage(Box::new(coverage)));
        }
    }
}
