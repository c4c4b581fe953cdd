//! What was found that a call may have waited for.

use super::super::bounds::Bounds;
use super::super::call_step::TimedCall;
use super::super::transfers::{TransferKind, TransferTimes};
use super::super::waits::{Moment, WaitCause, held_up_on_the_way};
use super::solved::ReceivedMessage;

/// What a call may have waited for.
#[derive(Debug, Default)]
pub(super) struct FoundDependencies {
    pub(super) dependencies: Vec<WaitCause>,
    pub(super) kinds: Vec<TransferKind>,
    pub(super) messages: Vec<ReceivedMessage>,
    /// Some of it is not known.
    pub(super) is_open: bool,
    /// dmscope ran in the place of one of both: how long it took says nothing.
    pub(super) is_held_up: bool,
    /// A send of this class ended before its receive began.
    pub(super) eager: Option<u8>,
    /// When the last of the calls ended that sent what is received.
    pub(super) sender_ended_ns: u64,
}

impl FoundDependencies {
    /// All that watching cost from there to the end of a call: `cost`, what hits did; `held_up`: what dmscope held up in both.
    pub(super) fn hold_up(
        &mut self,
        from: Moment,
        step: &TimedCall,
        held_up: Bounds,
        cost: Bounds,
        transfer: Option<TransferTimes>,
    ) -> Bounds {
        self.is_held_up |= held_up.most_ns > 0.0;
        let end_ns = step.end_ns.unwrap_or(step.begin_ns);
        let took_ns = end_ns.wrapping_sub(from.at_ns).cast_signed() as f64;
        cost + held_up_on_the_way(held_up, took_ns, cost, transfer)
    }

    pub(super) fn add(&mut self, dependency: WaitCause, kind: TransferKind) {
        self.dependencies.push(dependency);
        self.kinds.push(kind);
    }

    pub(super) fn with_kinds(&self) -> impl Iterator<Item = (&WaitCause, &TransferKind)> {
        self.dependencies.iter().zip(&self.kinds)
    }
}
