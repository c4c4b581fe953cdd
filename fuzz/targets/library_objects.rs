//! What an MPI library keeps in the memory of a hostile process: whatever lies there, looking at it ends.

#![no_main]

use analyzer::calls;
use analyzer::input::{CallInProgress, Mapping, MpiFacts, MpiKind};
use analyzer::pipeline::LastCall;
use analyzer::wire::FileId;
use dmscope::mpi_runtime::{CallSources, RankIdentity, Worlds};
use dmscope_fuzz::bytes::Bytes;
use dmscope_fuzz::limits::within_a_second;
use dmscope_fuzz::memory::RepeatedMemory;
use libfuzzer_sys::fuzz_target;

const FILE: FileId = FileId { dev: 1, inode: 2 };
const CODE: u64 = 0x10_0000;
const TID: u32 = 7;

fn number(bytes: &mut Bytes<'_>) -> u64 {
    let small = u64::from(bytes.next());
    match small % 4 {
        0 => small,
        1 => small << 8 | u64::from(bytes.next()),
        2 => CODE + (small << 3),
        _ => (0..8).fold(0, |word, _| word << 8 | u64::from(bytes.next())),
    }
}

fn mappings(data_bytes: u64) -> Vec<Mapping> {
    let mapping = |start, end, exec| Mapping { start, end, exec, file: FILE, ..Mapping::default() };
    vec![mapping(CODE, CODE + 4096, true), mapping(CODE + 4096, CODE + 4096 + data_bytes, false)]
}

fn run(bytes: &[u8]) {
    let Some((head, memory)) = bytes.split_at_checked(96) else { return };
    let mut head = Bytes(head);
    let memory = RepeatedMemory::of(memory);
    let kind = *head.of(&[MpiKind::OpenMpi, MpiKind::Mpich]);
    let mappings = mappings(number(&mut head) % (1 << 20));
    let place = (number(&mut head) as u32, number(&mut head) as u32);
    let rank = RankIdentity { place: Some(place), mappings: &mappings, memory: &memory };
    let mpi = MpiFacts { kind, comm_world: Some(number(&mut head)) };
    let inner: Vec<u64> = (0..4).map(|_| number(&mut head)).collect();
    let mut worlds = Worlds::default();
    let library = worlds.library(rank, FILE, mpi, &inner);
    if let Some(library) = &library {
        let named: Vec<u64> = inner.iter().copied().chain([number(&mut head)]).collect();
        let _ = library.communicators(&named);
        let _ = (library.window(named[0]), library.group(named[1]));
    }
    let functions: Vec<String> = calls::rows().map(|row| row.name.clone()).collect();
    let function = head.of(&functions).clone();
    let arguments = (0..8).map(|_| Some(number(&mut head)).filter(|word| word % 5 != 0)).collect();
    let mut call =
        CallInProgress { function, mpi: Some(mpi), return_slot: 64, arguments, ..CallInProgress::default() };
    let made_by = head.of(&functions).clone();
    let last = LastCall { tid: TID, function: made_by, return_address: 0, arguments: [3; 6] };
    let made = Some((number(&mut head), kind == MpiKind::Mpich));
    let passed = [Some(number(&mut head)), None, Some(number(&mut head))];
    let sources = CallSources { tid: TID, last_calls: &[last], passed: &passed, made, memory: &memory };
    sources.complete(&mut call, library.as_ref(), &inner);
}

fuzz_target!(|bytes: &[u8]| within_a_second(|| run(bytes)));
