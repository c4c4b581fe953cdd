//! The calls of one thread that would not be over if nothing were buffered.

use std::collections::VecDeque;

use crate::job::messages::ids::{CollectiveId, MessageId};
use crate::job::messages::leaks::Origin;

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The other side of a message of its own.
    Message(MessageId),
    /// All members of the communicator.
    Collective(CollectiveId),
}

/// Something of a thread that has its place among its calls.
#[derive(Debug)]
pub(super) struct OrderStep {
    /// Of the call.
    pub number: u32,
    pub kind: OrderStepKind,
}

#[derive(Debug)]
pub(super) enum OrderStepKind {
    /// It comes to a collective call.
    Enter(CollectiveId),
    /// A call that waits.
    Wait {
        needs: Vec<Need>,
        origin: Origin,
        /// It could not have been something else.
        is_certain: bool,
    },
}

/// A thread, and the calls that it has made in the job and not here.
#[derive(Debug)]
pub(super) struct ThreadOrder {
    pub rank: u32,
    /// The first one is what it waits in.
    pub steps: VecDeque<OrderStep>,
    /// Threads that wait for it to come to a call.
    pub waiting: Vec<(u32, usize)>,
}

impl ThreadOrder {
    pub fn of_rank(rank: u32) -> Self {
        Self { rank, steps: VecDeque::new(), waiting: Vec::new() }
    }

    pub fn is_stuck(&self) -> bool {
        !self.steps.is_empty()
    }

    pub fn has_reached(&self, number: u32) -> bool {
        self.steps.front().is_none_or(|step| number <= step.number)
    }

    pub fn front(&self) -> Option<&OrderStepKind> {
        self.steps.front().map(|step| &step.kind)
    }

    pub fn front_kind(&mut self) -> Option<&mut OrderStepKind> {
        self.steps.front_mut().map(|step| &mut step.kind)
    }

    /// Threads that wait for a call that has been reached.
    pub fn take_woken(&mut self, woken: &mut Vec<usize>) {
        let at = self.steps.front().map_or(u32::MAX, |step| step.number);
        self.waiting.retain(|(number, thread)| {
            let is_reached = *number <= at;
            if is_reached {
                woken.push(*thread);
            }
            !is_reached
        });
    }
}
