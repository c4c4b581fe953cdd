//! Writes down a rank's messages while it runs.

use std::collections::HashMap;

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
    /// Those that are not complete, by their requests.
    open: HashMap<u64, u64>,
    prepared: HashMap<u64, PreparedOperation>,
    comms: HashMap<u64, u32>,
    next_comm: u32,
    sites: HashMap<(u64, u32), u32>,
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

    fn take_number(&mut self, request: u64) {
        self.open.insert(request, self.operations);
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
            self.open.insert(request, number);
        }
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
        self.open.remove(&request);
        self.prepared.remove(&request);
    }

    /// An operation is complete, if its request is known.
    pub fn done(&mut self, request: u64, got: Option<MessageEnvelope>, out: &mut Vec<u8>) {
        if let Some(number) = self.open.remove(&request) {
            self.write(&MessageRow::Done { back: self.operations - number, got, is_final: true }, out);
        }
    }

    /// The message of a posted receive is known before it is complete.
    pub fn decided(&mut self, request: u64, got: Option<MessageEnvelope>, out: &mut Vec<u8>) {
        if let Some(number) = self.open.get(&request) {
            self.write(&MessageRow::Done { back: self.operations - number, got, is_final: false }, out);
        }
    }

    /// A call takes some of several requests.
    pub fn choice(&mut self, site: u32, requests: &[u64], taken: &[u32], out: &mut Vec<u8>) {
        let offered = requests.iter().zip(0..).filter_map(|(request, index)| {
            self.open.get(request).map(|number| (index, self.operations - number))
        });
        let row = MessageRow::Choice { site, offered: offered.collect(), taken: taken.to_vec() };
        self.write(&row, out);
    }

    /// A collective call begins.
    pub fn collective(&mut self, order: CollectiveOrder, comm: u32, root: Option<u32>, out: &mut Vec<u8>) {
        self.write(&MessageRow::Collective { order, comm, root }, out);
    }
}
