//! Times without watching: the job, and the correction that hears of its calls.

use super::session::Pipeline;
use crate::job::messages::{MessageEvent, Messages};
use crate::options::Options;
use crate::tape::input::Input;
use crate::tape::wire::RawRecord;
use crate::timeline::correction::orders::ReceiveOrder;
use crate::timeline::correction::phases::{PhaseMark, PhaseTimes};
use crate::timeline::correction::solver::SolvedCall;
use crate::timeline::correction::{CorrectedTimes, CorrectionPass, Survey};

/// One of the passes over a tape that times without watching take; give it all inputs, in order.
pub struct TimesPipeline {
    pipeline: Pipeline,
    pass: CorrectionPass,
}

impl TimesPipeline {
    /// The first pass. `links`: movements are linked, which tells senders that nothing else tells; whether there are any,
    /// [`Survey::asks_for_senders`] says of a pass without.
    pub fn survey(links: bool) -> Self {
        Self::with(CorrectionPass::survey(), links)
    }

    /// The second pass, with what the first has learnt. `keeps_calls`: for [`TimesPipeline::take_calls`]; `follows_orders`: for
    /// [`TimesPipeline::take_orders`].
    pub fn correct(survey: Survey, keeps_calls: bool, follows_orders: bool) -> Self {
        let links = survey.asks_for_senders;
        let mut pass = CorrectionPass::correct(survey);
        if follows_orders {
            pass.follow_orders();
        }
        if keeps_calls {
            pass.keep_calls();
        }
        Self::with(pass, links)
    }

    fn with(pass: CorrectionPass, links: bool) -> Self {
        Self { pipeline: Pipeline::with_events_alone(Options::default(), links), pass }
    }

    /// Takes the next input.
    pub fn push(&mut self, input: &Input) {
        self.pass.input(input);
        self.pipeline.push(input);
        self.pass_on();
    }

    /// Takes a record: the same as [`Input::Record`], without a copy of it.
    pub fn push_record(&mut self, raw: &RawRecord) {
        self.pass.record(raw);
        self.pipeline.push_record(raw);
        self.pass_on();
    }

    fn pass_on(&mut self) {
        for event in self.pipeline.take_events() {
            let place = match &event {
                MessageEvent::Call { call, .. } if self.pass.wants_places() => self.pipeline.call_place(call),
                _ => None,
            };
            self.pass.event(self.pipeline.messages(), event, place);
        }
    }

    /// Calls that were worked out since the last time.
    pub fn take_calls(&mut self) -> Vec<SolvedCall> {
        self.pass.take_calls()
    }

    /// Receives that could have got another message; when all was pushed.
    pub fn take_orders(&mut self) -> Vec<ReceiveOrder> {
        self.pass.take_orders()
    }

    /// Adds up times by phase as well, for [`TimesPipeline::take_phases`].
    pub fn divide(&mut self, mark: PhaseMark) {
        self.pass.divide(mark);
    }

    /// Times by phase; when all was pushed.
    pub fn take_phases(&mut self) -> Vec<PhaseTimes> {
        self.pass.take_phases()
    }

    /// All was pushed.
    pub fn finish(&mut self) {
        self.pass.finish();
    }

    /// Ends the first pass.
    pub fn into_survey(mut self) -> Survey {
        self.pass.finish();
        let asks_for_senders = self.pipeline.messages().asks_for_senders();
        self.pass.into_survey(self.pipeline.start(), asks_for_senders)
    }

    /// What the second pass has found; `most_share`: where watching cost a rank a larger part of its time, it is refused.
    pub fn result(&self, most_share: f64) -> CorrectedTimes {
        self.pass.result(self.pipeline.messages(), most_share)
    }

    /// What is known of calls and messages.
    pub fn messages(&self) -> &Messages {
        self.pipeline.messages()
    }

    /// The job and its analyses.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
}
