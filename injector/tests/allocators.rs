//! Hooks of an allocator in a process that runs: a child of the test, whose allocator begins as those of C libraries do.

mod common;

use std::os::unix::fs::FileExt;

use common::{RunningProgram, drain, record_for_long};
use injector::{
    HeapCall, HeapHook, HookKind, HookRequest, Installation, PassedEntry, RecordedCall, RecordedPart,
    SharedRings, SlotHook, install,
};

/// A program that asks for blocks through four slots and gives them back, itself or in a child of fork.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__asm__("my_malloc: push %r12\n pop %r12\n jmp malloc@PLT\n"
	"my_calloc: endbr64\n push %rbp\n pop %rbp\n jmp calloc@PLT\n"
	"my_realloc: push %rbx\n pop %rbx\n jmp realloc@PLT\n"
	"my_free: test %rdi, %rdi\n je 1f\n jmp free@PLT\n 1: ret\n");
void *my_malloc(size_t), *my_calloc(size_t, size_t), *my_realloc(void *, size_t);
void my_free(void *);
static void *(*volatile malloc_slot)(size_t) = my_malloc;
static void *(*volatile calloc_slot)(size_t, size_t) = my_calloc;
static void *(*volatile realloc_slot)(void *, size_t) = my_realloc;
static void (*volatile free_slot)(void *) = my_free;

/* Says which blocks it was given. */
static int blocks(long n)
{
	for (long i = 0; i < n; i++) {
		char *small = malloc_slot(40), *first = malloc_slot(5000 + i), *again = realloc_slot(first, 9000 + i), *zeros = calloc_slot(1000, 5);
		if (!small || !again || !zeros)
			return 9;
		for (int at = 0; at < 5000; at++)
			if (zeros[at])
				return 8;
		memset(small, 1, 40), memset(again, 2, 9000 + i), memset(zeros, 3, 5000);
		printf("%p %p %p %p ", (void *)small, (void *)first, (void *)again, (void *)zeros);
		free_slot(small), free_slot(again), free_slot(zeros), free_slot(NULL);
	}
	return 0;
}

int main(void)
{
	char line[64];
	printf("%p %p %p %p %p %p %p %p\n", (void *)&malloc_slot, (void *)malloc_slot, (void *)&calloc_slot, (void *)calloc_slot, (void *)&realloc_slot, (void *)realloc_slot, (void *)&free_slot, (void *)free_slot);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		long n = atol(line + 1);
		int status = 0;
		if (line[0] == 'b') status = blocks(n) << 8;
		if (line[0] == 'f') { if (!fork()) { freopen("/dev/null", "w", stdout); _exit(blocks(n)); } wait(&status); }
		printf("done %d\n", status >> 8);
		fflush(stdout);
	}
	return 0;
}
"#;

/// How the functions of the program's allocator begin: instructions to be run, behind where they are, and where a probe is.
const ENTRIES: [(HeapCall, &[u8], &[u8], u8); 4] = [
    (HeapCall::Malloc, &[0x41, 0x54], &[0x41, 0x54], 0),
    (HeapCall::Calloc, &[0xf3, 0x0f, 0x1e, 0xfa, 0x55], &[0x55], 4),
    (HeapCall::Realloc, &[0x53], &[0x53], 0),
    (HeapCall::Free, &[0x48, 0x85, 0xff, 0x74, 0x05], &[0x48, 0x85, 0xff], 3),
];

/// The program, with its slots in the order of [`ENTRIES`].
struct Allocating {
    running: RunningProgram,
    slots: Vec<(u64, u64)>,
}

impl Allocating {
    fn start() -> Self {
        let mut running = RunningProgram::start(PROGRAM);
        let slots = running.pairs();
        Self { running, slots }
    }

    /// All of its slots, numbered from 1 on.
    fn request(&self, program_is_own: bool) -> HookRequest {
        let mut hooks = Vec::new();
        for (number, ((slot, target), (call, code, first, probed_at))) in
            (1..).zip(self.slots.iter().copied().zip(ENTRIES))
        {
            let mut entry = PassedEntry { len: code.len() as u8, probed_at, ..PassedEntry::default() };
            entry.code[..code.len()].copy_from_slice(code);
            entry.first[..first.len()].copy_from_slice(first);
            entry.first_len = first.len() as u8;
            let kind = HookKind::Heap(HeapHook { call, least_bytes: 4096, program_is_own, entry });
            hooks.push(SlotHook { number, kind, slot, original: target, target });
        }
        HookRequest { pid: self.running.pid(), hooks, ring_bytes: 1 << 20 }
    }

    /// What the kernel does where it puts a probe, but that nobody takes the trap.
    fn break_at_probes(&self, are_there: bool) {
        let memory = std::fs::File::options().write(true).open(format!("/proc/{}/mem", self.running.pid()));
        let memory = memory.expect("ours to change");
        for ((_, target), (_, code, _, probed_at)) in self.slots.iter().zip(ENTRIES) {
            let byte = if are_there { 0xcc } else { code[usize::from(probed_at)] };
            memory.write_all_at(&[byte], target + u64::from(probed_at)).expect("code is there");
        }
    }

    /// The blocks of so many rounds: a small one, a large one, what that has become, and zeros.
    fn blocks(&mut self, rounds: u32) -> Vec<[u64; 4]> {
        let answer = self.running.ask(&format!("b{rounds}"));
        assert!(answer.ends_with("done 0\n"), "{answer}");
        let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let words: Vec<u64> = answer.split_whitespace().filter_map(hex).collect();
        assert_eq!(words.len(), 4 * rounds as usize, "{answer}");
        words.as_chunks::<4>().0.to_vec()
    }
}

/// Puts hooks in, and maps what the process shares.
fn put_in(request: &HookRequest) -> (Installation, SharedRings) {
    let installation = install(request, |_| Ok(())).expect("ours to change");
    let shared = SharedRings::open(installation.file(), request.ring_bytes).expect("it was made so");
    (installation, shared)
}

#[test]
fn large_blocks_are_recorded_when_they_are_given_out_and_back_and_no_probe_of_the_kernel_is_passed() {
    let mut program = Allocating::start();
    let (installation, mut shared) = put_in(&program.request(false));
    program.blocks(10);
    // Nobody reads: the functions do all of it.
    assert_eq!(drain(&mut shared), []);
    record_for_long(&shared);
    program.break_at_probes(true);
    // The heap goes on in a pause.
    for is_paused in [false, true] {
        if is_paused {
            for part in [RecordedPart::Copies, RecordedPart::Calls] {
                shared.switch().turn_off(part);
            }
            record_for_long(&shared);
        }
        let blocks = program.blocks(50);
        let expected: Vec<(u32, u64, u64, u64)> = (0..)
            .zip(blocks)
            .flat_map(|(n, [_, first, again, zeros])| {
                let given = [(1, first, 5000 + n, 0), (3, again, 9000 + n, first), (2, zeros, 5000, 0)];
                let back = [again, zeros].map(|block| (4, block, 0, 0));
                given.into_iter().chain(back).collect::<Vec<_>>()
            })
            .collect();
        let of = |call: &RecordedCall| match call.hook {
            4 => (4, call.arguments[0], 0, 0),
            hook => (hook, call.arguments[0], call.arguments[1], call.arguments[2]),
        };
        let records = drain(&mut shared);
        assert_eq!(records.iter().map(of).collect::<Vec<_>>(), expected);
        assert!(records.iter().all(|record| record.thread == program.running.pid()));
        assert!(records.windows(2).all(|two| two[0].counter < two[1].counter), "in order of time");
    }
    program.break_at_probes(false);
    shared.switch().end();
    program.blocks(10);
    assert_eq!(drain(&mut shared), []);
    assert_eq!(installation.take_out().expect("it stops").restored, 4);
    program.blocks(10);
}

#[test]
fn small_blocks_are_recorded_too_if_the_program_asks_for_them_itself() {
    let mut program = Allocating::start();
    let (_installation, mut shared) = put_in(&program.request(true));
    record_for_long(&shared);
    program.break_at_probes(true);
    let given = program.blocks(3);
    let records = drain(&mut shared);
    let small: Vec<(u32, u64)> = records
        .iter()
        .filter(|record| given.iter().any(|blocks| record.arguments[0] == blocks[0]))
        .map(|record| (record.hook, record.arguments[1]))
        .collect();
    assert_eq!((records.len(), small), (21, [(1, 40), (4, 0)].repeat(3)));
    program.break_at_probes(false);
}

#[test]
fn an_allocator_that_somebody_has_changed_stays_as_it_is() {
    let mut program = Allocating::start();
    let mut request = program.request(true);
    if let HookKind::Heap(heap) = &mut request.hooks[0].kind {
        heap.entry.code[1] = 0x55;
    }
    let (installation, mut shared) = put_in(&request);
    assert_eq!(installation.slots().count(), 3, "all but malloc");
    record_for_long(&shared);
    program.blocks(1);
    assert!(drain(&mut shared).iter().all(|record| record.hook != 1));
}

#[test]
fn a_child_of_fork_gets_its_blocks_and_records_nothing() {
    let mut program = Allocating::start();
    let (_installation, mut shared) = put_in(&program.request(true));
    record_for_long(&shared);
    assert_eq!(program.running.ask("f5"), "done 0\n");
    assert_eq!(drain(&mut shared), []);
}
