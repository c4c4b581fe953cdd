//! The code of all hooks of a process, as one piece, and a table in front of it that says which slots lead to it: whoever comes
//! later can take it out again.

use serde::{Deserialize, Serialize};

use crate::heap::{HeapCall, HeapHook};
use crate::layout::{CALLS_SHARE, MARGIN_RECORDS, PAGE_BYTES, data};
use crate::templates::{
    alloc_template, data_at, first_at, free_template, note_template, record_template, whole_template,
};

/// What a hook does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookKind {
    /// Records it: its first three arguments, where it returns to, and the noted call that it is made in.
    Record,
    /// Notes it: calls that are recorded within it say so.
    Note(NotedCall),
    /// Notes it, and records it whole: with its first six arguments and so many of those on the stack
    /// ([`MOST_STACK_ARGUMENTS`](crate::MOST_STACK_ARGUMENTS)).
    Whole {
        /// How it is noted.
        noted: NotedCall,
        /// Arguments on the stack.
        stack_arguments: u8,
        /// It stores a handle, which is recorded with the thread's next whole call.
        made: Option<MadeHandle>,
        /// It completes what such handles stand for.
        completes: Option<CompletedHandles>,
    },
    /// A call of an allocator, if it is worth a record; the kernel's probe is passed by.
    Heap(HeapHook),
}

/// Where a call is told the handles of what it completes: that memory is there, so that what was stored in it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompletedHandles {
    /// Its first argument points to one.
    One,
    /// Its second argument points to as many as the first one says.
    Several,
}

/// A handle that a call stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeHandle {
    /// The argument that points to where, from 0.
    pub argument: u8,
    /// It is half a word.
    pub is_half: bool,
}

/// A call that others are made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedCall {
    /// What others who read the note call it.
    pub name: u32,
    /// The kernel puts an address of its own in the place of its return address.
    pub return_is_hooked: bool,
    /// It does not count if it is made within a call that is noted.
    pub may_be_nested: bool,
}

/// A slot that is to lead to code of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotHook {
    /// What its records call it, from 1.
    pub number: u32,
    /// What is done with calls.
    pub kind: HookKind,
    /// Address of the slot in the process.
    pub slot: u64,
    /// What the slot is set to when the hook is taken out.
    pub original: u64,
    /// Where calls go on.
    pub target: u64,
}

impl SlotHook {
    /// Whether code there has passed the slot on its way to the linker, which will write it: it was not bound yet.
    pub(crate) fn is_unbound_at(&self, address: u64) -> bool {
        /// Of an entry of a table of stubs.
        const ENTRY_BYTES: u64 = 16;
        self.original != self.target && (self.original..self.original + ENTRY_BYTES).contains(&address)
    }
}

/// What the code of a process has in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeFacts {
    pub guard: u64,
    pub shared: u64,
    pub shared_bytes: u64,
    pub thread_id_offset: u64,
    pub process: u32,
    pub main_stack: (u64, u64),
    pub program: (u64, u64),
    /// From the lowest address to the highest.
    pub program_code: (u64, u64),
    pub ring_records: u64,
}

/// How the table in front of the code begins.
pub(crate) const MAGIC: [u8; 8] = *b"dmscope\x01";
/// Words of the table before its entries: magic, number of entries, address and length of the shared memory, address of the
/// guard page.
pub(crate) const TABLE_WORDS: usize = 5;
/// Words of an entry: slot, what it was, and what it is now.
pub(crate) const ENTRY_WORDS: usize = 3;
/// More hooks than any process has.
pub(crate) const MOST_HOOKS: usize = 1 << 14;

fn table_bytes(hooks: usize) -> u64 {
    ((TABLE_WORDS + ENTRY_WORDS * hooks) * 8).next_multiple_of(16) as u64
}

fn template(kind: HookKind) -> &'static [u8] {
    match kind {
        HookKind::Record => record_template(),
        HookKind::Note(_) => note_template(),
        HookKind::Whole { .. } => whole_template(),
        HookKind::Heap(HeapHook { call: HeapCall::Free, .. }) => free_template(),
        HookKind::Heap(_) => alloc_template(),
    }
}

/// So many bytes the table and the code of these hooks take, in whole pages.
pub(crate) fn code_bytes(hooks: &[SlotHook]) -> u64 {
    let code: usize = hooks.iter().map(|hook| template(hook.kind).len()).sum();
    (table_bytes(hooks.len()) + code as u64).next_multiple_of(PAGE_BYTES)
}

/// Addresses of the hooks' code if all of it is at `base`.
pub(crate) fn entries(hooks: &[SlotHook], base: u64) -> Vec<u64> {
    let mut at = base + table_bytes(hooks.len());
    let entry = |hook: &SlotHook| {
        let entry = at;
        at += template(hook.kind).len() as u64;
        entry
    };
    hooks.iter().map(entry).collect()
}

/// FoundTable and code, to be put at `base`.
pub(crate) fn build(hooks: &[SlotHook], base: u64, facts: &CodeFacts) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let mut put = |word: u64| bytes.extend(word.to_le_bytes());
    put(hooks.len() as u64);
    put(facts.shared);
    put(facts.shared_bytes);
    put(facts.guard);
    for (hook, entry) in hooks.iter().zip(entries(hooks, base)) {
        put(hook.slot);
        put(hook.original);
        put(entry);
    }
    bytes.resize(table_bytes(hooks.len()) as usize, 0);
    for hook in hooks {
        let code = template(hook.kind);
        let begin = bytes.len();
        bytes.extend(code);
        put_data(&mut bytes[begin + data_at(code)..], hook, facts);
        if let HookKind::Heap(heap) = hook.kind {
            let first = heap.entry.first();
            bytes[begin + first_at(heap.call)..][..first.len()].copy_from_slice(first);
        }
    }
    bytes
}

/// A ring with so many records is full for calls of this kind.
fn limit_records(kind: HookKind, ring_records: u64) -> u64 {
    let for_others = match kind {
        HookKind::Record => ring_records / CALLS_SHARE,
        HookKind::Note(_) | HookKind::Whole { .. } | HookKind::Heap(_) => 0,
    };
    ring_records - MARGIN_RECORDS - for_others
}

fn put_data(block: &mut [u8], hook: &SlotHook, facts: &CodeFacts) {
    let mut put = |at: usize, word: u64| block[at..at + 8].copy_from_slice(&word.to_le_bytes());
    let noted = match hook.kind {
        HookKind::Record | HookKind::Heap(_) => None,
        HookKind::Note(noted) | HookKind::Whole { noted, .. } => Some(noted),
    };
    let is = |what: fn(NotedCall) -> bool| u64::from(noted.is_some_and(what));
    put(data::TARGET, hook.target);
    put(data::GUARD, facts.guard);
    put(data::SHARED, facts.shared);
    put(data::THREAD_ID, facts.thread_id_offset);
    put(data::HOOK, u64::from(hook.number) | is(|noted| noted.return_is_hooked) << 32);
    put(data::MASK, facts.ring_records - 1);
    put(data::LIMIT, limit_records(hook.kind, facts.ring_records));
    put(data::PROCESS, u64::from(facts.process));
    put(data::STACK_LOW, facts.main_stack.0);
    put(data::STACK_HIGH, facts.main_stack.1);
    put(data::MAY_BE_NESTED, is(|noted| noted.may_be_nested));
    put(data::CALL_NAME, noted.map_or(0, |noted| u64::from(noted.name)));
    if let HookKind::Whole { noted, stack_arguments, made, completes } = hook.kind {
        put(data::STACK_ARGUMENTS, u64::from(stack_arguments));
        if let Some(made) = made {
            put(data::MADE_ARGUMENT, u64::from(made.argument) + 1);
            put(data::MADE_BY, u64::from(noted.name) | if made.is_half { 4 } else { 8 } << 32);
        }
        let requests = match completes {
            None => 0,
            Some(CompletedHandles::One) => 1,
            Some(CompletedHandles::Several) => 2,
        };
        put(data::REQUESTS, requests);
    }
    if let HookKind::Heap(heap) = hook.kind {
        let own = if heap.program_is_own { facts.program_code } else { (0, 0) };
        put(data::HEAP_CALL, heap.call as u64);
        put(data::LEAST_BYTES, heap.least_bytes);
        put(data::OWN_LOW, own.0);
        put(data::OWN_HIGH, own.1);
        put(data::BEHIND, hook.target + u64::from(heap.entry.len));
    }
    put(data::PROGRAM_LOW, facts.program.0);
    put(data::PROGRAM_HIGH, facts.program.1);
}
