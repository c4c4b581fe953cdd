//! Writes down a rank's messages while it runs.

use std::collections::{HashMap, VecDeque};

use super::row::{CallSite, CollectiveOrder, MessageEnvelope, MessageRow, Pattern};

/// An operation that a persistent request begins each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreparedOperation {
    /// A send.
    Send {
        /// A number of a communicator.
        comm: u32,
        /// Its rank there.
        dest: u32,
        /// Its tag.
        tag: u32,
        /// It is complete when it is received.
        is_synchronous: bool,
    },
    /// A receive.
    Receive {
        /// Where it was made.
        site: u32,
        /// What it takes.
        pattern: Pattern,
    },
}

/// Of one rank. What it writes is appended to the bytes that it is given.
#[derive(Debug, Default)]
pub struct MessageJournal {
    /// Calls begun, and those at the last entry.
    calls: u64,
    written_calls: u64,
    /// Operations that were given numbers.
    operations: u64,
    open: OpenOperations,
    prepared: HashMap<u64, PreparedOperation>,
    comms: HashMap<u64, u32>,
    next_comm: u32,
    sites: HashMap<(u64, u32), u32>,
}

/// Operations that are not complete, by their requests. Libraries give what is complete at once the same request: sends, and
/// what is for MPI_PROC_NULL.
#[derive(Debug, Default)]
struct OpenOperations {
    oldest: HashMap<u64, OpenOperation>,
    /// Of those that share a request, what is behind the oldest.
    others: HashMap<u64, VecDeque<Option<u64>>>,
}

#[derive(Clone, Copy, Debug)]
struct OpenOperation {
    /// None: it is for MPI_PROC_NULL.
    number: Option<u64>,
    may_share: bool,
}

impl OpenOperations {
    fn add(&mut self, request: u64, operation: OpenOperation) {
        match self.oldest.get(&request) {
            Some(oldest) if oldest.may_share && operation.may_share => {
                self.others.entry(request).or_default().push_back(operation.number);
            }
            // One that had the request was completed without our being told.
            _ => {
                self.others.remove(&request);
                self.oldest.insert(request, operation);
            }
        }
    }

    /// The oldest one is open no more.
    fn take(&mut self, request: u64) -> Option<u64> {
        let oldest = self.oldest.remove(&request)?;
        if let Some(others) = self.others.get_mut(&request) {
            match others.pop_front() {
                Some(number) => drop(self.oldest.insert(request, OpenOperation { number, may_share: true })),
                None => drop(self.others.remove(&request)),
            }
        }
        oldest.number
    }

    fn oldest(&self, request: u64) -> Option<u64> {
        self.oldest.get(&request)?.number
    }

    /// What requests of one call stand for: the same one again for the next operation that shares it.
    fn of_all(&self, requests: &[u64]) -> impl Iterator<Item = Option<u64>> {
        let mut times: HashMap<u64, usize> = HashMap::new();
        requests.iter().map(move |request| {
            let Some(others) = self.others.get(request) else { return self.oldest(*request) };
            let time = times.entry(*request).or_default();
            *time += 1;
            match *time {
                1 => self.oldest(*request),
                time => others.get(time - 2).copied().flatten(),
            }
        })
    }
}

impl MessageJournal {
    fn write(&mut self, row: &MessageRow, out: &mut Vec<u8>) {
        row.write(self.calls - self.written_calls, out);
        self.written_calls = self.calls;
    }

    /// The next call begins.
    #[inline]
    pub fn call(&mut self) {
        self.calls += 1;
    }

    /// So many calls begin.
    pub fn calls(&mut self, count: u64) {
        self.calls = self.calls.saturating_add(count);
    }

    fn take_number(&mut self, request: u64) {
        self.open.add(request, OpenOperation { number: Some(self.operations), may_share: false });
        self.operations += 1;
    }

    /// The number of a communicator, by its handle.
    pub fn comm(&mut self, handle: u64, out: &mut Vec<u8>) -> u32 {
        match self.comms.get(&handle) {
            Some(number) => *number,
            None => self.new_comm(handle, &[], &[], out),
        }
    }

    /// A communicator has been made: the ranks of its group, and of the remote one, in MPI_COMM_WORLD.
    pub fn new_comm(&mut self, handle: u64, group: &[u32], remote: &[u32], out: &mut Vec<u8>) -> u32 {
        let number = self.next_comm;
        self.next_comm += 1;
        self.comms.insert(handle, number);
        self.write(&MessageRow::Comm { group: group.to_vec(), remote: remote.to_vec() }, out);
        number
    }

    /// A communicator is there no more: its handle may be another's next.
    pub fn forget_comm(&mut self, handle: u64) {
        self.comms.remove(&handle);
    }

    /// The number of the place where a call is made; `find` says what it is if it is new.
    pub fn site(
        &mut self,
        address: u64,
        call: u32,
        out: &mut Vec<u8>,
        find: impl FnOnce() -> (String, u64),
    ) -> u32 {
        if let Some(number) = self.sites.get(&(address, call)) {
            return *number;
        }
        let number = self.sites.len() as u32;
        self.sites.insert((address, call), number);
        let (module, offset_bytes) = find();
        self.write(&MessageRow::Site(CallSite { call, module, offset_bytes }), out);
        number
    }

    /// A send begins; one that has a request is given it by [`MessageJournal::sent`].
    pub fn send(
        &mut self,
        comm: u32,
        dest: u32,
        tag: u32,
        is_synchronous: bool,
        has_request: bool,
        out: &mut Vec<u8>,
    ) {
        self.write(&MessageRow::Send { comm, dest, tag, is_synchronous, has_request }, out);
        self.operations += u64::from(has_request);
    }

    /// The request of the send that began last.
    pub fn sent(&mut self, request: u64) {
        if let Some(number) = self.operations.checked_sub(1) {
            self.open.add(request, OpenOperation { number: Some(number), may_share: true });
        }
    }

    /// The request of what is for MPI_PROC_NULL.
    pub fn of_nobody(&mut self, request: u64) {
        self.open.add(request, OpenOperation { number: None, may_share: true });
    }

    /// A receive or probe has ended.
    pub fn received(
        &mut self,
        site: u32,
        pattern: Pattern,
        is_probe: bool,
        got: Option<MessageEnvelope>,
        out: &mut Vec<u8>,
    ) {
        self.write(&MessageRow::Receive { site, pattern, is_probe, got }, out);
    }

    /// A receive was posted.
    pub fn posted(&mut self, site: u32, pattern: Pattern, request: u64, out: &mut Vec<u8>) {
        self.write(&MessageRow::Post { site, pattern }, out);
        self.take_number(request);
    }

    /// A persistent request was made.
    pub fn prepare(&mut self, request: u64, operation: PreparedOperation) {
        self.prepared.insert(request, operation);
    }

    /// It is started.
    pub fn start(&mut self, request: u64, out: &mut Vec<u8>) {
        match self.prepared.get(&request).copied() {
            Some(PreparedOperation::Send { comm, dest, tag, is_synchronous }) => {
                self.send(comm, dest, tag, is_synchronous, true, out);
                self.sent(request);
            }
            Some(PreparedOperation::Receive { site, pattern }) => self.posted(site, pattern, request, out),
            None => {}
        }
    }

    /// A request is there no more; what it began may go on.
    pub fn forget(&mut self, request: u64) {
        self.open.take(request);
        self.prepared.remove(&request);
    }

    /// An operation is complete, if its request is known.
    pub fn done(&mut self, request: u64, got: Option<MessageEnvelope>, out: &mut Vec<u8>) {
        if let Some(number) = self.open.take(request) {
            self.write(&MessageRow::Done { back: self.operations - number, got, is_final: true }, out);
        }
    }

    /// The message of a posted receive is known before it is complete.
    pub fn decided(&mut self, request: u64, got: Option<MessageEnvelope>, out: &mut Vec<u8>) {
        if let Some(number) = self.open.oldest(request) {
            self.write(&MessageRow::Done { back: self.operations - number, got, is_final: false }, out);
        }
    }

    /// A call takes some of several requests.
    pub fn choice(&mut self, site: u32, requests: &[u64], taken: &[u32], out: &mut Vec<u8>) {
        let offered = (0..).zip(self.open.of_all(requests));
        let offered = offered.filter_map(|(index, number)| Some((index, self.operations - number?)));
        let row = MessageRow::Choice { site, offered: offered.collect(), taken: taken.to_vec() };
        self.write(&row, out);
    }

    /// A collective call begins.
    pub fn collective(&mut self, order: CollectiveOrder, comm: u32, root: Option<u32>, out: &mut Vec<u8>) {
        self.write(&MessageRow::Collective { order, comm, root }, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(mut bytes: &[u8]) -> Vec<MessageRow> {
        let mut rows = Vec::new();
        while !bytes.is_empty() {
            rows.push(MessageRow::take(&mut bytes).expect("it was written").1);
        }
        rows
    }

    #[test]
    fn sends_that_share_a_request_are_offered_and_completed_one_after_the_other() {
        const SHARED: u64 = 7;
        let (mut journal, mut out) = (MessageJournal::default(), Vec::new());
        for nth in 0..3 {
            journal.send(0, 1, 5, false, true, &mut out);
            journal.sent(SHARED);
            if nth == 0 {
                journal.of_nobody(SHARED);
            }
        }
        let pattern = Pattern { comm: 0, source: None, tag: None };
        journal.posted(0, pattern, 8, &mut out);
        out.clear();
        journal.choice(0, &[SHARED, 8, SHARED, 9, SHARED, SHARED], &[0], &mut out);
        (0..5).for_each(|_| journal.done(SHARED, None, &mut out));
        let done = |back| MessageRow::Done { back, got: None, is_final: true };
        let offered = vec![(0, 4), (1, 1), (4, 3), (5, 2)];
        let choice = MessageRow::Choice { site: 0, offered, taken: vec![0] };
        assert_eq!(rows(&out), [choice, done(4), done(3), done(2)]);
    }

    #[test]
    fn a_receive_whose_request_another_operation_had_is_the_one_that_completes() {
        let (mut journal, mut out) = (MessageJournal::default(), Vec::new());
        let pattern = Pattern { comm: 0, source: None, tag: None };
        (0..2).for_each(|_| journal.posted(0, pattern, 8, &mut out));
        out.clear();
        (0..2).for_each(|_| journal.done(8, None, &mut out));
        assert_eq!(rows(&out), [MessageRow::Done { back: 1, got: None, is_final: true }]);
    }
}
