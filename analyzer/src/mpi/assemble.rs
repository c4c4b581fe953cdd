//! From records to calls: what belongs to one call of one thread comes in pieces.

use rustc_hash::FxHashMap;

use crate::calls::{self, Arg, CallRow, Does};
use crate::wire::{Body, NO_ARGUMENT, PIECE_WORDS, STACK_ARGUMENTS};

/// Threads that are followed.
const MOST_THREADS: usize = 1 << 16;
/// Bytes of what one argument points to; the kernel part sends no more.
const MOST_BYTES: u32 = 8192;
/// Arguments of a call at most.
const MOST_ARGUMENTS: usize = 16;

/// A call of a thread, as far as it has been seen.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its row in the call table.
    pub row: &'static CallRow,
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
    /// Its arguments; those on the stack only if they were recorded.
    args: [u64; MOST_ARGUMENTS],
    known_args: usize,
    values: Vec<Values>,
    serial: Option<u32>,
}

/// What an argument points to, or pointed to at the entry.
#[derive(Clone, Debug)]
struct Values {
    argument: u32,
    at_return: bool,
    /// All of them there are.
    total_bytes: u32,
    /// Those that came.
    bytes: Vec<u8>,
}

impl Call {
    /// An argument, if it was recorded.
    pub fn word(&self, at: usize) -> Option<u64> {
        self.args[..self.known_args].get(at).copied()
    }

    /// The same, as an integer.
    pub fn integer(&self, at: usize) -> Option<i32> {
        self.word(at).map(|word| word as i32)
    }

    /// What an argument points to, whole.
    pub(super) fn pointed(&self, arg: Arg, at_return: bool) -> Option<&[u8]> {
        let at = self.row.position(arg)? as u32;
        let found = self.values.iter().find(|v| v.argument == at && v.at_return == at_return)?;
        (found.bytes.len() >= found.total_bytes as usize)
            .then_some(&found.bytes[..found.total_bytes as usize])
    }

    /// Whether an argument's values came, but not all of them.
    pub(super) fn is_cut(&self, arg: Arg) -> bool {
        let at = self.row.position(arg).map(|at| at as u32);
        self.values.iter().any(|v| Some(v.argument) == at && v.bytes.len() < v.total_bytes as usize)
    }

    fn piece(
        &mut self,
        argument: u32,
        total_bytes: u32,
        position_bytes: u32,
        at_return: bool,
        words: &[u64],
    ) {
        let same = |v: &&mut Values| v.argument == argument && v.at_return == at_return;
        let values = match self.values.iter_mut().find(same) {
            Some(values) => values,
            None => {
                self.values.push(Values { argument, at_return, total_bytes, bytes: Vec::new() });
                self.values.last_mut().expect("it was pushed")
            }
        };
        // Pieces come in order; one that is missing leaves the rest out.
        if position_bytes as usize == values.bytes.len() && total_bytes <= MOST_BYTES {
            values.bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            values.bytes.truncate(total_bytes.max(position_bytes) as usize);
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
            _ => false,
        };
        behind || self.row.arguments_used() > self.known_args
    }
}

/// What a record makes known.
#[derive(Debug)]
pub(super) enum Step {
    /// A call has begun; all that its entry tells is there.
    Begun(Call),
    /// It has returned, with this code; `None`: it was not seen to return.
    Over(Call, Option<i32>),
}

#[derive(Default)]
struct Thread {
    calls: u32,
    open: Option<Call>,
    begun: bool,
}

/// Puts records together, thread by thread.
#[derive(Default)]
pub(super) struct Assembler {
    threads: FxHashMap<(u32, u32), Thread>,
}

impl Assembler {
    /// Takes a record; `function`: of its probe. Hands on what is known now.
    pub fn record(
        &mut self,
        (pid, tid, time_ns): (u32, u32, u64),
        body: &Body,
        function: &str,
        mut step: impl FnMut(Step),
    ) {
        match *body {
            Body::Call { return_address, args, nested: false } => {
                let Some(thread) = self.thread(pid, tid) else { return };
                thread.close(None, &mut step);
                let Some(row) = calls::row(function) else { return };
                thread.calls += 1;
                let mut all = [0; MOST_ARGUMENTS];
                all[..6].copy_from_slice(&args);
                let call = Call {
                    row,
                    pid,
                    tid,
                    number: thread.calls,
                    begin_ns: time_ns,
                    return_address,
                    args: all,
                    known_args: 6,
                    values: Vec::new(),
                    serial: None,
                };
                thread.begun = false;
                let has_more = call.has_more();
                thread.open = Some(call);
                if !has_more {
                    thread.begin(&mut step);
                }
            }
            Body::Values { serial, argument, total_bytes, position_bytes, at_return, words } => {
                let Some(thread) = self.threads.get_mut(&(pid, tid)) else { return };
                if at_return {
                    thread.begin(&mut step);
                }
                let Some(call) = thread.open_call(serial) else { return };
                if argument == STACK_ARGUMENTS && !at_return {
                    call.stack(total_bytes, &words);
                } else {
                    let bytes = total_bytes.saturating_sub(position_bytes).min(8 * PIECE_WORDS as u32);
                    let words = &words[..bytes.div_ceil(8) as usize];
                    call.piece(argument, total_bytes, position_bytes, at_return, words);
                }
                if !call.has_more() {
                    thread.begin(&mut step);
                }
            }
            Body::Return { serial, code, argument, bytes, word } => {
                let Some(thread) = self.threads.get_mut(&(pid, tid)) else { return };
                thread.begin(&mut step);
                let Some(call) = thread.open_call(serial) else { return };
                if argument != NO_ARGUMENT {
                    call.piece(argument, bytes, 0, true, &[word]);
                }
                thread.close(Some(code), &mut step);
            }
            _ => {}
        }
    }

    fn thread(&mut self, pid: u32, tid: u32) -> Option<&mut Thread> {
        let known = self.threads.len();
        match self.threads.entry((pid, tid)) {
            std::collections::hash_map::Entry::Occupied(thread) => Some(thread.into_mut()),
            std::collections::hash_map::Entry::Vacant(free) => {
                (known < MOST_THREADS).then(|| free.insert(Thread::default()))
            }
        }
    }

    /// Records of a process were lost: what is under way is not known.
    pub fn forget(&mut self, pid: u32) {
        self.threads.iter_mut().filter(|(key, _)| key.0 == pid).for_each(|(_, thread)| thread.open = None);
    }

    /// The pid is free for another process.
    pub fn end(&mut self, pid: u32) {
        self.threads.retain(|key, _| key.0 != pid);
    }
}

impl Thread {
    fn begin(&mut self, step: &mut impl FnMut(Step)) {
        if self.begun {
            return;
        }
        self.begun = true;
        if let Some(call) = &self.open {
            step(Step::Begun(call.clone()));
        }
    }

    fn close(&mut self, code: Option<i32>, step: &mut impl FnMut(Step)) {
        self.begin(step);
        if let Some(call) = self.open.take() {
            step(Step::Over(call, code));
        }
    }

    /// The call that a record belongs to.
    fn open_call(&mut self, serial: u32) -> Option<&mut Call> {
        let call = self.open.as_mut()?;
        let known = *call.serial.get_or_insert(serial);
        (known == serial).then_some(call)
    }
}
