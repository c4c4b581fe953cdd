//! Puts times without watching beside those of a page.

use rustc_hash::FxHashMap;

use super::data::{CorrectedSpan, OpenOrder, Page, PageEvent};
use crate::job::messages::CallId;
use crate::job::process::Who;
use crate::present::text::who_text;
use crate::tape::pid_on_node;
use crate::timeline::correction::bounds::Bounds;
use crate::timeline::correction::orders::{OrderVerdict, ReceiveOrder};
use crate::timeline::correction::solver::SolvedCall;
use crate::timeline::correction::waits::Moment;

/// A call as events of a page know it: rank, thread, and when it began by the page.
type EventKey = (u32, u32, u64);

/// Takes what a correction of the same tape tells, one after the other, and keeps what is of calls that the page has.
pub struct PageCorrection {
    begin_ns: u64,
    is_on_nodes: bool,
    /// By position among the page's events.
    events: FxHashMap<EventKey, u32>,
    calls: FxHashMap<CallId, u32>,
    spans: FxHashMap<u32, CorrectedSpan>,
    orders: FxHashMap<u32, OpenOrder>,
}

impl PageCorrection {
    /// For a page.
    pub fn new(page: &Page) -> Self {
        let timeline = &page.timeline;
        let key = |(at, event): (u32, &PageEvent)| match timeline.rows[event.row as usize].who {
            Who::Rank(rank) if event.function.is_some() => Some(((rank, event.tid, event.begin_ns), at)),
            _ => None,
        };
        Self {
            begin_ns: timeline.begin_ns,
            is_on_nodes: timeline.rows.iter().any(|row| row.node.is_some()),
            events: (0..).zip(&timeline.events).filter_map(key).collect(),
            calls: FxHashMap::default(),
            spans: FxHashMap::default(),
            orders: FxHashMap::default(),
        }
    }

    /// A call that was worked out.
    pub fn call(&mut self, call: &SolvedCall) {
        let CallId { rank, tid, .. } = call.step.id;
        let tid = if self.is_on_nodes { pid_on_node(tid) } else { tid };
        let key = (rank, tid, call.begin.at_ns.saturating_sub(self.begin_ns));
        let Some(&at) = self.events.get(&key) else { return };
        let (begin, end) = (self.corrected(call.begin), self.corrected(call.end));
        self.calls.insert(call.step.id, at);
        self.spans.insert(at, CorrectedSpan { begin, end: call.step.end_ns.map(|_| end) });
    }

    /// A receive that could have got another message; after all calls.
    pub fn order(&mut self, order: &ReceiveOrder) {
        let verdict = order.verdict();
        let Some(&at) = self.calls.get(&order.receive.call).filter(|_| verdict != OrderVerdict::Kept) else {
            return;
        };
        let is_changed = verdict == OrderVerdict::Changed;
        let rivals = order.rivals.iter().filter(|rival| rival.verdict == verdict);
        let others = who_text(&rivals.map(|rival| Who::Rank(rival.rank)).collect::<Vec<Who>>());
        let would = if is_changed { "would have come first" } else { "may have come first" };
        let text =
            format!("It got the message of rank {}; without watching, that of {others} {would}.", order.got);
        self.orders.insert(at, OpenOrder { is_changed, text });
    }

    /// Writes it to the page. What is no call moves with the last call of its row before it.
    pub fn write(mut self, page: &mut Page) {
        let timeline = &mut page.timeline;
        for row in &timeline.rows {
            let mut shift = None;
            for at in row.first_event..row.first_event + row.events {
                let event = &mut timeline.events[at as usize];
                event.order = self.orders.remove(&at);
                event.corrected = self.spans.remove(&at).or_else(|| Some(moved(event, shift?)));
                shift = event.corrected.map(|span| shift_of(event, &span));
            }
        }
    }

    fn corrected(&self, moment: Moment) -> Bounds {
        Bounds::exactly(moment.at_ns.saturating_sub(self.begin_ns) as f64) + moment.shift
    }
}

fn moved(event: &PageEvent, shift: Bounds) -> CorrectedSpan {
    let moved = |ns: u64| Bounds::exactly(ns as f64) + shift;
    CorrectedSpan { begin: moved(event.begin_ns), end: event.end_ns.map(moved) }
}

/// By how much the last that is known of an event is earlier.
fn shift_of(event: &PageEvent, span: &CorrectedSpan) -> Bounds {
    let measured_ns = event.end_ns.unwrap_or(event.begin_ns) as f64;
    event.end_ns.and(span.end).unwrap_or(span.begin) - Bounds::exactly(measured_ns)
}
