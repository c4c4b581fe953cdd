//! What a call may have waited for, as far as it is known.

use super::super::bounds::Bounds;
use super::super::call_step::{CallKind, CollectiveShape, TimedCall};
use super::super::ledger::CallCosts;
use super::super::transfers::{TransferKind, size_class};
use super::super::waits::WaitCause;
use super::found::FoundDependencies;
use super::{AwaitedFact, PostedCall, ReceivedMessage, Solver};
use crate::job::messages::{AwaitedCall, CallId, CollectiveId, MessageId};

impl Solver {
    /// All that a call may have waited for.
    pub(super) fn dependencies(
        &self,
        step: &TimedCall,
        gives_up: bool,
    ) -> Result<FoundDependencies, AwaitedFact> {
        let mut found = FoundDependencies::default();
        if step.end_ns.is_none() {
            return Ok(found);
        }
        let share = 1.0 / step.completed.len().max(1) as f64;
        for message in &step.completed {
            match self.of_message(step, *message, share, &mut found) {
                Err(awaited) if !gives_up => return Err(awaited),
                Err(_) => found.is_open = true,
                Ok(()) => {}
            }
        }
        for awaited in &step.awaited {
            match self.of_epoch(step, *awaited, &mut found) {
                Err(awaited) if !gives_up => return Err(awaited),
                Err(_) => found.is_open = true,
                Ok(()) => {}
            }
        }
        let own = step.entered.iter().map(|entered| entered.collective);
        for collective in step.left.iter().copied().chain(own.filter(|_| step.ends_what_it_enters)) {
            match self.of_collective(step, collective, &mut found) {
                Err(awaited) if !gives_up => return Err(awaited),
                Err(_) => found.is_open = true,
                Ok(()) => {}
            }
        }
        found.is_open |= step.kind == CallKind::WaitsForUnknown;
        Ok(found)
    }

    fn of_message(
        &self,
        step: &TimedCall,
        message: MessageId,
        share: f64,
        found: &mut FoundDependencies,
    ) -> Result<(), AwaitedFact> {
        let &(other, receives) = self.matches.get(message).ok_or(AwaitedFact::Match(message))?;
        let posted = self.posted.get(other.call).ok_or(AwaitedFact::Told(other.call))?;
        let middle = Bounds { least_ns: 0.0, ..step.costs.middle.times(share) };
        let rest = middle + step.costs.exit;
        if !receives {
            return self.of_send(step, message, *posted, other.call, rest, found);
        }
        let from = posted.begin.ok_or(AwaitedFact::Begin(other.call))?;
        let sender = Bounds { least_ns: 0.0, ..posted.costs.middle };
        let kind = TransferKind::Message(posted.class);
        let (class, transfer) = (posted.class, self.transfers.times(kind));
        found.messages.push(ReceivedMessage { receive: message, send: other, sent: from, class });
        found.sender_ended_ns = found.sender_ended_ns.max(posted.end_ns.unwrap_or(u64::MAX));
        let cost = posted.costs.entry + sender + rest;
        let held_up = posted.costs.held_up + step.costs.held_up;
        let cost = found.hold_up(from, step, held_up, cost, transfer);
        found.add(WaitCause { from, cost, is_certain: true, transfer }, kind);
        Ok(())
    }

    /// A send may have waited for a receive that began after it.
    fn of_send(
        &self,
        step: &TimedCall,
        message: MessageId,
        receive: PostedCall,
        receive_call: CallId,
        rest: Bounds,
        found: &mut FoundDependencies,
    ) -> Result<(), AwaitedFact> {
        let own = self.posted.get(message.call).ok_or(AwaitedFact::Told(message.call))?;
        let end_ns = step.end_ns.unwrap_or(step.begin_ns);
        if receive.begin_ns >= end_ns {
            found.eager = Some(own.class);
            return Ok(());
        }
        let is_certain = step.kind == CallKind::WaitsForReceive;
        if receive.begin_ns <= own.begin_ns || (!is_certain && self.transfers.is_eager(own.class)) {
            return Ok(());
        }
        let from = receive.begin.ok_or(AwaitedFact::Begin(receive_call))?;
        let kind = TransferKind::Release(own.class);
        let transfer = self.transfers.times(kind);
        let cost = receive.costs.entry + rest;
        let held_up = receive.costs.held_up + step.costs.held_up;
        let cost = found.hold_up(from, step, held_up, cost, transfer);
        found.add(WaitCause { from, cost, is_certain, transfer }, kind);
        Ok(())
    }

    /// A call of another rank for the same epoch.
    fn of_epoch(
        &self,
        step: &TimedCall,
        awaited: AwaitedCall,
        found: &mut FoundDependencies,
    ) -> Result<(), AwaitedFact> {
        let AwaitedCall { call, is_certain } = awaited;
        let posted = self.posted.get(call).ok_or(AwaitedFact::Told(call))?;
        if step.end_ns.is_some_and(|end_ns| posted.begin_ns >= end_ns) {
            return Ok(());
        }
        let from = posted.begin.ok_or(AwaitedFact::Begin(call))?;
        let kind = TransferKind::Epoch(step.name);
        let transfer = self.transfers.times(kind);
        let middle = |costs: &CallCosts| Bounds { least_ns: 0.0, ..costs.middle };
        let cost = posted.costs.entry + middle(&posted.costs) + middle(&step.costs) + step.costs.exit;
        let held_up = posted.costs.held_up + step.costs.held_up;
        let cost = found.hold_up(from, step, held_up, cost, transfer);
        found.add(WaitCause { from, cost, is_certain, transfer }, kind);
        Ok(())
    }

    fn of_collective(
        &self,
        step: &TimedCall,
        collective: CollectiveId,
        found: &mut FoundDependencies,
    ) -> Result<(), AwaitedFact> {
        let awaited = AwaitedFact::Members(collective);
        let gathering = self.gatherings.get(collective).ok_or(awaited)?;
        if gathering.told.len() < gathering.members as usize {
            return Err(awaited);
        }
        let end_ns = step.end_ns.unwrap_or(step.begin_ns);
        let is_there = |rank: u32| gathering.entered.iter().any(|member| member.rank == rank);
        if gathering.entered.len() < gathering.told.len() {
            let mut earlier = gathering.told.iter().filter(|(_, begin_ns)| *begin_ns < end_ns);
            if let Some((rank, _)) = earlier.find(|(rank, _)| !is_there(*rank)) {
                return Err(AwaitedFact::Member(collective, *rank));
            }
        }
        let kind = TransferKind::Collective(gathering.name, size_class(Some(u64::from(gathering.members))));
        let transfer = self.transfers.times(kind);
        let shape = gathering.shape.unwrap_or(CollectiveShape::Some);
        let rank = step.id.rank;
        let others = gathering.entered.iter().filter(|member| member.rank != rank);
        for member in others.filter(|member| member.begin.at_ns < end_ns) {
            let is_certain = match shape {
                CollectiveShape::AllToAll => true,
                CollectiveShape::FromRoot => gathering.root == Some(member.rank),
                CollectiveShape::ToRoot => gathering.root == Some(rank),
                CollectiveShape::Some => false,
            };
            let middle = Bounds { least_ns: 0.0, ..step.costs.middle };
            let cost = member.entry + middle + step.costs.exit;
            let held_up = member.held_up + step.costs.held_up;
            let cost = found.hold_up(member.begin, step, held_up, cost, transfer);
            found.add(WaitCause { from: member.begin, cost, is_certain, transfer }, kind);
        }
        Ok(())
    }
}
