//! Puts times without watching beside those of a page.

use rustc_hash::FxHashMap;

use super::data::{CorrectedSpan, OpenOrder, Page};
use crate::job::messages::CallId;
use crate::job::process::Who;
use crate::present::text::who_text;
use crate::tape::{node_of, pid_on_node};
use crate::timeline::correction::bounds::Bounds;
use crate::timeline::correction::orders::{OrderVerdict, ReceiveOrder};
use crate::timeline::correction::solver::SolvedCall;
use crate::timeline::correction::waits::Moment;

/// A call as events of a page know it: rank, thread, and when it began by the page.
type EventKey = (u32, u32, u64);

/// Takes what a correction of the same tape tells, one after the other, and keeps what is of calls that the page has.
pub struct PageCorrection<'p> {
    page: &'p mut Page,
    /// By position among the page's events.
    events: FxHashMap<EventKey, u32>,
    calls: FxHashMap<CallId, u32>,
}

impl<'p> PageCorrection<'p> {
    /// Of a page that was just made.
    pub fn new(page: &'p mut Page) -> Self {
        let timeline = &page.timeline;
        let key = |(at, event): (u32, &super::data::PageEvent)| match timeline.rows[event.row as usize].who {
            Who::Rank(rank) if event.function.is_some() => Some(((rank, event.tid, event.begin_ns), at)),
            _ => None,
        };
        let events = (0..).zip(&timeline.events).filter_map(key).collect();
        Self { page, events, calls: FxHashMap::default() }
    }

    /// A call that was worked out.
    pub fn call(&mut self, call: &SolvedCall) {
        let begin_ns = self.since_begin(call.begin.at_ns);
        let tid = if self.page.report.nodes.is_empty() { call.step.id.tid } else { pid_on_node(call.step.id.tid) };
        let Some(&at) = self.events.get(&(call.step.id.rank, tid, begin_ns)) else { return };
        self.calls.insert(call.step.id, at);
        let (begin, end) = (self.corrected(call.begin), self.corrected(call.end));
        let event = &mut self.page.timeline.events[at as usize];
        event.corrected = Some(CorrectedSpan { begin, end: event.end_ns.map(|_| end) });
    }

    /// A receive that could have got another message; after all calls.
    pub fn order(&mut self, order: &ReceiveOrder) {
        let is_changed = match order.verdict() {
            OrderVerdict::Kept => return,
            OrderVerdict::Undecided => false,
            OrderVerdict::Changed => true,
        };
        let Some(&at) = self.calls.get(&order.receive.call) else { return };
        let wanted = order.verdict();
        let rivals = order.rivals.iter().filter(|rival| rival.verdict == wanted);
        let rivals: Vec<Who> = rivals.map(|rival| Who::Rank(rival.rank)).collect();
        let others = who_text(&rivals);
        let text = match is_changed {
            true => format!("It got the message of rank {}; without watching, that of {others} would have come first.", order.got),
            false => format!("It got the message of rank {}; without watching, that of {others} may have come first.", order.got),
        };
        self.page.timeline.events[at as usize].order = Some(OpenOrder { is_changed, text });
    }

    /// What is no call moves with the last call of its row before it.
    pub fn finish(self) {
        let timeline = &mut self.page.timeline;
        for row in &timeline.rows {
            let from = row.first_event as usize;
            let mut shift = None;
            for event in &mut timeline.events[from..from + row.events as usize] {
                match (event.corrected, shift) {
                    (Some(span), _) => {
                        let measured_ns = event.end_ns.unwrap_or(event.begin_ns) as f64;
                        shift = Some(span.end.unwrap_or(span.begin) - Bounds::exactly(measured_ns));
                    }
                    (None, Some(shift)) => {
                        let moved = |ns: u64| Bounds::exactly(ns as f64) + shift;
                        event.corrected =
                            Some(CorrectedSpan { begin: moved(event.begin_ns), end: event.end_ns.map(moved) });
                    }
                    (None, None) => {}
                }
            }
        }
    }

    fn since_begin(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.page.timeline.begin_ns)
    }

    fn corrected(&self, moment: Moment) -> Bounds {
        Bounds::exactly(self.since_begin(moment.at_ns) as f64) + moment.shift
    }
}
