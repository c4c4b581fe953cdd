//! From records to calls: what belongs to one call of one thread comes in pieces.
//!
//! What a thread needs is used again for its next call: a call costs no allocation.

use rustc_hash::FxHashMap;

use crate::job::last_calls::CallEntry;
use crate::mpi::calls::{Arg, CallRow, Does};
use crate::tape::wire::{Body, CHANGED_BUFFERS, Header, NO_ARGUMENT, PIECE_WORDS, STACK_ARGUMENTS};

/// Threads that are followed.
const MOST_THREADS: usize = 1 << 16;
/// Bytes of what one argument points to; the kernel part sends no more.
const MOST_BYTES: u32 = 8192;
/// Arguments of a call at most.
const MOST_ARGUMENTS: usize = 16;
/// Arguments of a call that point to something, at most; those of an exchange's entry and return count twice.
const MOST_POINTED: usize = 8;
/// Bytes of values that a thread keeps room for between its calls.
const MOST_KEPT: usize = 4096;

/// A call of a thread, as far as it has been seen.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its row in the call table.
    pub row: &'static CallRow,
    /// Number of the process with whoever follows it.
    pub(super) process: usize,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// How many calls of the table the thread had made, with this one.
    pub number: u32,
    /// When it began, CLOCK_MONOTONIC; of a poll: when its answer was yes.
    pub begin_ns: u64,
    /// Where it returns to, in the process's space.
    pub return_address: u64,
    /// What it returned; `None`: it has not been seen to return.
    pub code: Option<i32>,
    /// Polls of the thread that answered no, between its last call whose return was seen and this one. Only calls whose results are
    /// recorded tell.
    pub polls_before: u32,
    /// Its arguments; those on the stack only if they were recorded.
    args: [u64; MOST_ARGUMENTS],
    known_args: usize,
    values: [Values; MOST_POINTED],
    known_values: usize,
    /// Of all values, one after the other.
    bytes: Vec<u8>,
    serial: Option<u32>,
}

/// What an argument points to, or pointed to at the entry.
#[derive(Clone, Copy, Debug, Default)]
struct Values {
    argument: u32,
    at_return: bool,
    /// All of them there are.
    total_bytes: u32,
    /// Where those that came are in the call's bytes …
    start: u32,
    /// … and how many of them there are.
    len: u32,
}

impl Values {
    fn is_whole(&self) -> bool {
        self.len >= self.total_bytes
    }

    /// Those that came, of all of the call's.
    fn of<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        bytes.get(self.start as usize..)?.get(..self.len as usize)
    }
}

impl Call {
    fn new(row: &'static CallRow, process: usize) -> Self {
        Self {
            row,
            process,
            pid: 0,
            tid: 0,
            number: 0,
            begin_ns: 0,
            return_address: 0,
            code: None,
            polls_before: 0,
            args: [0; MOST_ARGUMENTS],
            known_args: 0,
            values: [Values::default(); MOST_POINTED],
            known_values: 0,
            bytes: Vec::new(),
            serial: None,
        }
    }

    /// Makes it another call.
    fn begin(
        &mut self,
        row: &'static CallRow,
        h: &Header,
        number: u32,
        return_address: u64,
        args: &[u64; 6],
    ) {
        self.row = row;
        (self.pid, self.tid, self.number) = (h.pid, h.tid, number);
        (self.begin_ns, self.return_address) = (h.time_ns, return_address);
        (self.code, self.polls_before) = (None, 0);
        self.args[..6].copy_from_slice(args);
        self.known_args = 6;
        self.known_values = 0;
        self.bytes.clear();
        if self.bytes.capacity() > MOST_KEPT {
            self.bytes = Vec::new();
        }
        self.serial = None;
    }

    /// An argument, if it was recorded.
    pub fn word(&self, at: usize) -> Option<u64> {
        self.args[..self.known_args].get(at).copied()
    }

    /// The same, as an integer.
    pub fn integer(&self, at: usize) -> Option<i32> {
        self.word(at).map(|word| word as i32)
    }

    /// Whether a thread's last call, as it began, may be this one.
    pub(crate) fn may_be(&self, last: &CallEntry) -> bool {
        last.return_address == self.return_address && last.arguments[..] == self.args[..6]
    }

    /// The same, by what it is.
    pub fn argument(&self, arg: Arg) -> Option<u64> {
        self.word(self.row.position(arg)?)
    }

    /// What an argument points to, whole.
    pub(super) fn pointed(&self, arg: Arg, at_return: bool) -> Option<&[u8]> {
        let at = self.row.position(arg)? as u32;
        let found = self.known().iter().find(|v| v.argument == at && v.at_return == at_return)?;
        found.of(&self.bytes)?.get(..found.total_bytes as usize)
    }

    /// Buffers of its requests that have changed since their sends began.
    pub(super) fn changed_buffers(&self) -> impl Iterator<Item = ChangedBuffer> {
        let found = self.known().iter().find(|v| v.argument == CHANGED_BUFFERS);
        let (found, _) = found.and_then(|v| v.of(&self.bytes)).unwrap_or_default().as_chunks::<8>();
        let (found, _) = found.as_chunks::<PIECE_WORDS>();
        found.iter().map(|words| {
            let [request, addr, since_ns, byte, _] = words.map(u64::from_ne_bytes);
            ChangedBuffer { request: request as usize, addr, since_ns, byte }
        })
    }

    /// Whether an argument's values came, but not all of them.
    pub(super) fn is_cut(&self, arg: Arg) -> bool {
        let at = self.row.position(arg).map(|at| at as u32);
        self.known().iter().any(|v| Some(v.argument) == at && !v.is_whole())
    }

    fn known(&self) -> &[Values] {
        &self.values[..self.known_values]
    }

    /// Pieces come in order, those of one argument after those of another; where one is missing, the rest is left out.
    fn piece(
        &mut self,
        argument: u32,
        total_bytes: u32,
        position_bytes: u32,
        at_return: bool,
        words: &[u64],
    ) {
        let last = self.known_values.checked_sub(1);
        let goes_on = |v: &Values| v.argument == argument && v.at_return == at_return;
        let at = match last.filter(|last| goes_on(&self.values[*last])) {
            Some(last) => last,
            None if self.known().iter().any(goes_on) || self.known_values == MOST_POINTED => return,
            None => {
                let start = self.bytes.len() as u32;
                self.values[self.known_values] = Values { argument, at_return, total_bytes, start, len: 0 };
                self.known_values += 1;
                self.known_values - 1
            }
        };
        let values = &mut self.values[at];
        if position_bytes == values.len && values.total_bytes <= MOST_BYTES {
            for word in words {
                self.bytes.extend_from_slice(&word.to_ne_bytes());
            }
            values.len = (self.bytes.len() as u32 - values.start).min(values.total_bytes);
            self.bytes.truncate((values.start + values.len) as usize);
        }
    }

    fn stack(&mut self, total_bytes: u32, words: &[u64]) {
        let count = (total_bytes / 8) as usize;
        let at = self.known_args;
        for (to, word) in self.args[at..].iter_mut().zip(words).take(count.saturating_sub(at - 6)) {
            *to = *word;
            self.known_args += 1;
        }
    }

    /// Whether more must come before it is known what it does.
    fn has_more(&self) -> bool {
        let behind = match self.row.does {
            Does::Start => {
                self.pointed(Arg::Request, false).or_else(|| self.pointed(Arg::Requests, false)).is_none()
            }
            Does::ReceiveMatched => self.pointed(Arg::Message, false).is_none(),
            Does::FreeCommunicator => {
                self.pointed(Arg::Comm, false).or_else(|| self.pointed(Arg::FreedWin, false)).is_none()
            }
            _ => false,
        };
        behind || self.row.arguments_used() > self.known_args
    }
}

/// What the kernel part says of the buffer of a send that is not complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangedBuffer {
    /// Which of the call's requests it is.
    pub request: usize,
    /// Where it is, in the process's space.
    pub addr: u64,
    /// When it was looked at for the first time, CLOCK_MONOTONIC.
    pub since_ns: u64,
    /// The first byte that was not the same any more.
    pub byte: u64,
}

/// What a record makes known.
pub(super) enum CallStep {
    /// The call has begun; all that its entry tells is there.
    Begun,
    /// It has returned, with this code; `None`: it was not seen to return.
    Over(Option<i32>),
}

/// A thread; `T`: what is kept for its call by whoever follows it.
struct CallingThread<T> {
    calls: u32,
    serials: Serials,
    call: Call,
    is_open: bool,
    begun: bool,
    kept: T,
}

/// Numbers that the kernel part gives to all calls of a thread, polls that answer no among them.
#[derive(Default)]
struct Serials {
    /// The last one that a record told, if any.
    told: Option<u32>,
    /// Calls that were recorded since.
    recorded: u32,
}

impl Serials {
    /// A call has this number: how many were made since the last one that is known, and were not recorded.
    fn tell(&mut self, serial: u32) -> u32 {
        let recorded = std::mem::take(&mut self.recorded);
        let told = self.told.replace(serial);
        // Numbers may begin anew, when somebody else counts.
        let since = told.map_or(0, |told| serial.wrapping_sub(told).cast_signed().max(0).cast_unsigned());
        since.saturating_sub(recorded)
    }
}

/// Puts records together, thread by thread.
#[derive(Default)]
pub(super) struct Assembler<T> {
    threads: FxHashMap<(u32, u32), CallingThread<T>>,
}

/// A thread that is not followed.
#[derive(Debug)]
pub(super) struct Unknown;

impl<T: Default> Assembler<T> {
    /// Takes a record; `row`: of its probe's function. Hands on what is known now.
    pub fn record(
        &mut self,
        h: &Header,
        body: &Body,
        row: Option<&'static CallRow>,
        mut step: impl FnMut(&Call, &mut T, CallStep),
    ) -> Result<(), Unknown> {
        let thread = self.threads.get_mut(&(h.pid, h.tid)).ok_or(Unknown)?;
        match body {
            Body::Call { return_address, args, nested: false } => {
                thread.close(None, &mut step);
                thread.serials.recorded = thread.serials.recorded.saturating_add(1);
                let Some(row) = row else { return Ok(()) };
                thread.calls = thread.calls.wrapping_add(1);
                thread.call.begin(row, h, thread.calls, *return_address, args);
                (thread.is_open, thread.begun) = (true, false);
                if !thread.call.has_more() {
                    thread.begin(&mut step);
                }
            }
            Body::Values { serial, argument, total_bytes, position_bytes, at_return, words } => {
                if *at_return {
                    thread.begin(&mut step);
                }
                let Some(call) = thread.open_call(*serial) else { return Ok(()) };
                if *argument == STACK_ARGUMENTS && !at_return {
                    call.stack(*total_bytes, words);
                } else {
                    let bytes = total_bytes.saturating_sub(*position_bytes).min(8 * PIECE_WORDS as u32);
                    let mut words = *words;
                    if *argument == CHANGED_BUFFERS {
                        // Records may come by another clock than the kernel part's.
                        words[2] = h.time_ns.saturating_sub(words[2]);
                    }
                    let words = &words[..bytes.div_ceil(8) as usize];
                    call.piece(*argument, *total_bytes, *position_bytes, *at_return, words);
                }
                if !call.has_more() {
                    thread.begin(&mut step);
                }
            }
            Body::Return { serial, code, argument, bytes, word } => {
                thread.begin(&mut step);
                let Some(call) = thread.open_call(*serial) else { return Ok(()) };
                if *argument != NO_ARGUMENT {
                    call.piece(*argument, *bytes, 0, true, &[*word]);
                }
                thread.close(Some(*code), &mut step);
            }
            _ => {}
        }
        Ok(())
    }

    /// The last call of a thread, and what is kept for it.
    pub fn last(&self, pid: u32, tid: u32) -> Option<(&Call, &T)> {
        let thread = self.threads.get(&(pid, tid)).filter(|thread| thread.is_open)?;
        Some((&thread.call, &thread.kept))
    }

    /// Threads of a process that are not known to have left their last call, with that and what is kept for it.
    pub fn open(&self, pid: u32) -> impl Iterator<Item = (&Call, &T)> {
        let open = self.threads.iter().filter(move |(key, thread)| key.0 == pid && thread.is_open);
        open.map(|(_, thread)| (&thread.call, &thread.kept))
    }

    /// The calls that threads are not known to have left.
    pub fn all_open(&self) -> impl Iterator<Item = &Call> {
        self.threads.values().filter(|thread| thread.is_open).map(|thread| &thread.call)
    }

    /// Follows a thread from now on; `process`: see [`Call`]. Says no if there are too many.
    pub fn admit(&mut self, pid: u32, tid: u32, row: &'static CallRow, process: usize) -> bool {
        if self.threads.len() >= MOST_THREADS {
            return false;
        }
        let call = Call::new(row, process);
        self.threads.insert(
            (pid, tid),
            CallingThread {
                calls: 0,
                serials: Serials::default(),
                call,
                is_open: false,
                begun: false,
                kept: T::default(),
            },
        );
        true
    }

    /// A thread that was just admitted makes its first call now.
    pub fn counts_all(&mut self, pid: u32, tid: u32) {
        if let Some(thread) = self.threads.get_mut(&(pid, tid)) {
            thread.serials.told = Some(0);
        }
    }

    /// Records of a process were lost: what is under way is not known.
    pub fn forget(&mut self, pid: u32) {
        let of_process = self.threads.iter_mut().filter(|(key, _)| key.0 == pid);
        of_process.for_each(|(_, thread)| thread.is_open = false);
    }

    /// The pid is free for another process.
    pub fn end(&mut self, pid: u32) {
        self.threads.retain(|key, _| key.0 != pid);
    }
}

impl<T: Default> CallingThread<T> {
    fn begin(&mut self, step: &mut impl FnMut(&Call, &mut T, CallStep)) {
        if self.is_open && !self.begun {
            self.begun = true;
            self.kept = T::default();
            step(&self.call, &mut self.kept, CallStep::Begun);
        }
    }

    fn close(&mut self, code: Option<i32>, step: &mut impl FnMut(&Call, &mut T, CallStep)) {
        self.begin(step);
        if self.is_open {
            self.is_open = false;
            self.call.code = code;
            step(&self.call, &mut self.kept, CallStep::Over(code));
        }
    }

    /// The call that a record belongs to.
    fn open_call(&mut self, serial: u32) -> Option<&mut Call> {
        if !self.is_open {
            return None;
        }
        let known = match self.call.serial {
            Some(known) => known,
            None => {
                self.call.polls_before = self.serials.tell(serial);
                *self.call.serial.insert(serial)
            }
        };
        (known == serial).then_some(&mut self.call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_what_was_counted_and_not_recorded_and_numbers_that_begin_anew_tell_none() {
        let mut serials = Serials { told: Some(0), recorded: 1 };
        assert_eq!(serials.tell(5), 4);
        serials.recorded = 1;
        assert_eq!(serials.tell(6), 0);
        serials.recorded = 1;
        assert_eq!(serials.tell(2), 0, "somebody else counts");
        serials.recorded = 1;
        assert_eq!(serials.tell(4), 1);
        let mut last = Serials { told: Some(u32::MAX), recorded: 1 };
        assert_eq!(last.tell(1), 1, "they go on from 0 after the greatest");
    }
}
