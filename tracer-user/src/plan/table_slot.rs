//! Slots of linkage tables, and what is known of them: data.

use analyzer::wire::FileId;
use injector::{CompletedHandles, HeapCall, PassedEntry};
use serde::{Deserialize, Serialize};

use super::calls::WantedOfCall;

/// Slots of one file. Positions are counted from where the file's first byte would be if all of it were mapped as its code is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSlots {
    /// The file.
    pub file: FileId,
    /// Its slots, each with what it is for.
    pub slots: Vec<TableSlot>,
    /// Copies through them.
    pub sites: Vec<SlotSite>,
    /// It is a program that runs programs: these may call MPI by addresses that are in no slot.
    pub is_interpreter: bool,
}

/// One slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSlot {
    /// Where it is.
    pub position: u64,
    /// The symbol that it leads to.
    pub symbol: String,
    /// What for.
    pub purpose: SlotPurpose,
    /// The only function of that name in the job, where it is one whose place its file says.
    pub definition: Option<FilePlace>,
}

/// Code of a file, wherever a process maps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FilePlace {
    /// The file.
    pub file: FileId,
    /// Counted as positions of slots are.
    pub position: u64,
}

/// What a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotPurpose {
    /// Copies go through it.
    Copies,
    /// An MPI call, which has a probe as well: copies are to say that they are made in it.
    Call {
        /// That probe.
        probe: u32,
        /// The file that it is in. A slot of the name may lead to a tool instead, which calls that one in turn.
        file: FileId,
        /// It hooks the return of the call.
        return_is_hooked: bool,
        /// The file is a messaging library, which may make it within another one.
        may_be_nested: bool,
        /// It can be recorded there as well.
        recorded: Option<WantedOfCall>,
        /// It is told which requests it completes.
        completes: Option<CompletedHandles>,
    },
    /// Heap blocks are given out or taken back through it.
    Heap(HeapSlot),
    /// It only shows which function the C library has chosen.
    Tells,
}

/// A copy through a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotSite {
    /// Its probe.
    pub probe: u32,
    /// Where it returns to.
    pub return_position: u64,
    /// The symbol that it calls.
    pub symbol: String,
}

/// A call of an allocator through a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapSlot {
    /// What records are told to come from.
    pub probe: u32,
    /// The function.
    pub function: HeapFunction,
    /// All blocks are recorded, since the program asks for them itself.
    pub is_own: bool,
    /// Calls from the program's own code count as its own, whatever file's slot they go through.
    pub program_is_own: bool,
}

/// A function of the allocator with a probe of the kernel at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapFunction {
    /// Which.
    pub call: HeapCall,
    /// Where it is.
    pub place: FilePlace,
    /// How it is entered behind the probe.
    pub entry: PassedEntry,
}
