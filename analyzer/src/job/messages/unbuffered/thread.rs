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
        /// How many of its thread's needs are those of this call.
        needs: usize,
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
    /// What its calls wait for, in their order.
    pub needs: VecDeque<Need>,
    /// Threads that wait for it to come to a call.
    pub waiting: Vec<(u32, usize)>,
}

impl ThreadOrder {
    pub fn of_rank(rank: u32) -> Self {
        Self { rank, steps: VecDeque::new(), needs: VecDeque::new(), waiting: Vec::new() }
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

    /// What the call that it waits in waits for.
    pub fn front_needs(&self) -> impl Iterator<Item = Need> {
        let needs = match self.front() {
            Some(OrderStepKind::Wait { needs, .. }) => *needs,
            Some(OrderStepKind::Enter(_)) | None => 0,
        };
        self.needs.iter().take(needs).copied()
    }

    pub fn front_need(&self) -> Option<Need> {
        self.front_needs().next()
    }

    /// The first of these is waited for no more.
    pub fn pop_need(&mut self) -> Option<Need> {
        match self.steps.front_mut().map(|step| &mut step.kind) {
            Some(OrderStepKind::Wait { needs, .. }) if *needs > 0 => *needs -= 1,
            _ => return None,
        }
        self.needs.pop_front()
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
