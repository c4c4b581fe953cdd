//! Hooks in a process that runs: a child of the test, with slots of its own making.

mod common;

use std::time::Duration;

use common::{RunningProgram, drain, record_for_long};
use injector::{
    CompletedHandles, HookKind, HookRequest, Installation, MadeBefore, MadeHandle, NotedCall, RecordedPart,
    SharedRings, SlotHook, ThreadBefore, counter, find_previous, install,
};

/// A program that calls through four slots: `copy` in two threads, `outer` calls `copy` within, `all` takes ten arguments, and it
/// forks on demand.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *copier(void *, const void *, size_t);
static copier *volatile copy_slot = memcpy;
static char from_all[8], to_all[8];
static void outer(int);
static void (*volatile outer_slot)(int) = outer;
typedef long taker(long, long, long, long, long, long, long, long, long, long);
static long all(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) { copy_slot(to_all, from_all, 5); return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j; }
static taker *volatile all_slot = all;
typedef void maker(long, long **);
static void make(long n, long **where) { *where = (long *)(0x700000000 + n); }
static maker *volatile make_slot = make;
static long *fixed;
static void finish(long count, long **where) { where[count] = NULL; }
static void (*volatile finish_slot)(long, long **) = finish;
static char from[256], to[256];

static void __attribute__((noinline)) outer(int n) { for (int i = 0; i < n; i++) { copy_slot(to, from, 8); __asm__ volatile("" ::: "memory"); } }
static void *thread(void *count) { for (long i = 0; i < (long)count; i++) copy_slot(to + 128, from + 128, i & 63); return NULL; }

int main(void)
{
	char line[64];
	printf("%p %p %p %p %p %p\n", (void *)&copy_slot, (void *)copy_slot, (void *)&outer_slot, (void *)outer_slot, (void *)&all_slot, (void *)all_slot);
	printf("%p %p %p %p %p %p\n", (void *)&make_slot, (void *)make_slot, (void *)&finish_slot, (void *)finish_slot, __builtin_thread_pointer(), (void *)&fixed);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		long n = atol(line + 1);
		pthread_t other;
		int status = 0;
		if (line[0] == 'c') for (long i = 0; i < n; i++) copy_slot(to, from, i & 127);
		if (line[0] == 'a') for (long i = 0; i < n; i++) if (all_slot(i, 1, 2, 3, 4, 5, 6, 7, 8, 9) != i + 330) return 3;
		if (line[0] == 'm') for (long i = 0; i < n; i++) {
			long *here, **there;
			make_slot(4 * i, &here);
			there = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			make_slot(4 * i + 1, &fixed);
			make_slot(4 * i + 2, &there[777]);
			make_slot(4 * i + 3, &there[778]);
			munmap(there, 1 << 20);
		}
		if (line[0] == 'w') {
			long **there = calloc(1024, sizeof *there);
			for (long i = 0; i < n; i++) { make_slot(i, &there[9]); finish_slot(i & 1, there); }
			free(there);
		}
		if (line[0] == 'o') { outer_slot(n); copy_slot(to, from, 99); }
		if (line[0] == 't') { pthread_create(&other, NULL, thread, (void *)n); thread((void *)n); pthread_join(other, NULL); }
		if (line[0] == 'f') { if (!fork()) { outer_slot(n); thread((void *)n); _exit(7); } wait(&status); }
		printf("done %d\n", status >> 8);
		fflush(stdout);
	}
	return 0;
}
"#;

struct Program {
    running: RunningProgram,
    copy: (u64, u64),
    outer: (u64, u64),
    all: (u64, u64),
    make: (u64, u64),
    finish: (u64, u64),
    /// Of its first thread.
    thread_pointer: u64,
    /// Address of a variable.
    fixed: u64,
}

impl Program {
    fn start() -> Self {
        let mut running = RunningProgram::start(PROGRAM);
        let slots = [running.pairs(), running.pairs()].concat();
        let [copy, outer, all, make, finish, (thread_pointer, fixed)] = slots[..] else {
            panic!("{slots:?}")
        };
        Self { running, copy, outer, all, make, finish, thread_pointer, fixed }
    }

    fn pid(&self) -> u32 {
        self.running.pid()
    }

    fn ask(&mut self, what: &str) -> String {
        self.running.ask(what)
    }

    fn request(&self) -> HookRequest {
        let noted = NotedCall { name: 7, return_is_hooked: false, may_be_nested: false };
        let note = HookKind::Note(noted);
        let hook =
            |number, kind, (slot, original)| SlotHook { number, kind, slot, original, target: original };
        let hooks = vec![hook(1, HookKind::Record, self.copy), hook(2, note, self.outer)];
        HookRequest { pid: self.pid(), hooks, ring_bytes: 1 << 20 }
    }
}

/// Puts hooks in, and maps what the process shares.
fn put_in(program: &Program) -> (Installation, SharedRings) {
    let request = program.request();
    let installation = install(&request, |_| Ok(())).expect("ours to change");
    let shared = SharedRings::open(installation.file(), request.ring_bytes).expect("it was made so");
    (installation, shared)
}

/// Copies are recorded, and calls of `all` whole.
fn put_in_both(program: &Program) -> SharedRings {
    let hook = WholeHook { may_be_nested: true, ..WholeHook::default() };
    put_in_whole(program, &[(program.all, hook)])
}

/// The same, with calls through other slots recorded whole.
fn put_in_whole(program: &Program, slots: &[((u64, u64), WholeHook)]) -> SharedRings {
    put_in_whole_with(program, slots, |_, _| {})
}

/// The same; `ready` is called while the program stands still.
fn put_in_whole_with(
    program: &Program,
    slots: &[((u64, u64), WholeHook)],
    ready: impl Fn(&SharedRings, (u64, u64)) + Sync,
) -> SharedRings {
    let mut request = program.request();
    for (number, ((slot, original), WholeHook { may_be_nested, stack_arguments, made, completes })) in
        (3..).zip(slots.iter().copied())
    {
        let noted = NotedCall { name: 10 * number, return_is_hooked: false, may_be_nested };
        let kind = HookKind::Whole { noted, stack_arguments, made, completes };
        request.hooks.retain(|hook| hook.slot != slot);
        request.hooks.push(SlotHook { number, kind, slot, original, target: original });
    }
    let installation = install(&request, |installation| {
        let shared = SharedRings::open(installation.file(), request.ring_bytes)?;
        ready(&shared, installation.places().main_stack);
        Ok(())
    });
    let installation = installation.expect("ours to change");
    SharedRings::open(installation.file(), request.ring_bytes).expect("it was made so")
}

#[derive(Clone, Copy, Default)]
struct WholeHook {
    may_be_nested: bool,
    stack_arguments: u8,
    made: Option<MadeHandle>,
    completes: Option<CompletedHandles>,
}

#[test]
fn every_call_is_recorded_once_with_its_arguments_thread_and_the_noted_call_around_it() {
    let mut program = Program::start();
    program.ask("c10");
    let (installation, mut shared) = put_in(&program);
    program.ask("c10");
    assert_eq!(drain(&mut shared), [], "not before it is wanted");
    record_for_long(&shared);
    program.ask("c1000");
    let records = drain(&mut shared);
    assert_eq!(records.len(), 1000);
    for (n, record) in records.iter().enumerate() {
        assert_eq!((record.hook, record.thread, record.arguments[2]), (1, program.pid(), n as u64 & 127));
        assert_eq!((record.call_hook, record.call_return), (0, 0));
    }
    assert!(records.windows(2).all(|two| two[0].counter < two[1].counter), "in order of time");
    program.ask("o5");
    let records = drain(&mut shared);
    let calls: Vec<u32> = records.iter().map(|record| record.call_hook).collect();
    assert_eq!(calls, [2, 2, 2, 2, 2, 0], "the last one is made after the call");
    assert_ne!(records[0].call_return, 0);
    program.ask("t5000");
    let records = drain(&mut shared);
    let first = records.iter().filter(|record| record.thread == program.pid()).count();
    assert_eq!((records.len(), first), (10_000, 5000));
    assert_eq!(shared.lost().all(), 0);
    let taken = installation.take_out().expect("it runs");
    assert_eq!((taken.restored, taken.changed), (2, 0));
    program.ask("o10");
    assert_eq!(drain(&mut shared), []);
}

#[test]
fn a_whole_call_comes_with_all_its_arguments_and_what_is_made_in_it_says_so() {
    for stack_arguments in 0..=3 {
        let mut program = Program::start();
        let hook = WholeHook { may_be_nested: true, stack_arguments, ..WholeHook::default() };
        let mut shared = put_in_whole(&program, &[(program.all, hook)]);
        program.ask("a5");
        record_for_long(&shared);
        assert_eq!(program.ask("a1000"), "done 0\n", "what it returns is right");
        let records = drain(&mut shared);
        assert_eq!((records.len(), shared.lost().all()), (2000, 0));
        for (n, pair) in records.chunks(2).enumerate() {
            let whole = pair[0].whole.expect("a whole call");
            assert_eq!(
                (pair[0].hook, pair[0].thread, pair[0].arguments),
                (3, program.pid(), [n as u64, 1, 2])
            );
            assert_eq!((whole.arguments, whole.is_nested, whole.calls), ([3, 4, 5], false, n as u32 + 6));
            let stack = usize::from(stack_arguments);
            assert_eq!(
                (&whole.stack[..stack], &whole.stack[stack..]),
                (&[6, 7, 8][..stack], &[0; 3][stack..])
            );
            assert_eq!((pair[1].call_hook, pair[1].call_return), (3, pair[0].return_address));
        }
    }
}

#[test]
fn a_thread_goes_on_from_what_others_have_counted_and_from_a_handle_that_nobody_has_read() {
    let mut program = Program::start();
    let (pointer, fixed) = (program.thread_pointer, program.fixed);
    program.ask("m1");
    let made = Some(MadeBefore { at: fixed, by: 77, bytes: 8 });
    let before = ThreadBefore { pointer, is_first: true, calls: 41, call: None, made };
    let hook = WholeHook { may_be_nested: true, ..WholeHook::default() };
    let mut shared = put_in_whole_with(&program, &[(program.all, hook)], |shared, main_stack| {
        shared.take_over(&[before], main_stack);
        record_for_long(shared);
    });
    program.ask("a2");
    let records = drain(&mut shared);
    let calls: Vec<_> = records.iter().filter_map(|call| call.whole).collect();
    let told: Vec<_> = calls.iter().map(|whole| (whole.calls, whole.made)).collect();
    assert_eq!(told, [(42, Some((77, 0x7_0000_0001))), (43, None)], "the fourth of that: 4 · 0 + 1");
    assert_eq!((records[1].call_hook, records[1].call_return), (3, records[0].return_address));
}

#[test]
fn when_nobody_reads_any_more_no_call_looks_at_the_clock_until_somebody_does_and_all_are_counted() {
    for (letter, part) in [("c", RecordedPart::Copies), ("a", RecordedPart::Calls)] {
        let mut program = Program::start();
        let hook = WholeHook { may_be_nested: true, ..WholeHook::default() };
        let mut shared = put_in_whole(&program, &[(program.all, hook)]);
        program.ask("a1");
        shared.switch().record_until(counter() + 1);
        assert!(shared.switch().is_asked(part), "nobody has called anything since");
        program.ask(&format!("{letter}3"));
        assert!(!shared.switch().is_asked(part), "{letter}");
        assert_eq!(drain(&mut shared), []);
        program.ask("a3");
        assert!(!shared.switch().is_asked(part), "{letter}");
        record_for_long(&shared);
        program.ask("a1");
        let records = drain(&mut shared);
        let calls: Vec<_> = records.iter().filter_map(|call| call.whole).map(|whole| whole.calls).collect();
        assert_eq!(calls, [if letter == "c" { 5 } else { 8 }], "{letter}");
        assert_eq!((records.len(), shared.lost().all()), (2, 0));
    }
}

#[test]
fn if_nobody_is_ready_for_it_slots_stay_as_they_are() {
    let mut program = Program::start();
    let refused = install(&program.request(), |_| Err(injector::InjectError::GivenUp("too late".into())));
    assert_eq!(refused.expect_err("it was given up").to_string(), "too late");
    assert_eq!(find_previous(program.pid()).expect("ours").hooks.len(), 2, "the table is there");
    assert_eq!(program.ask("o10"), "done 0\n");
    let (_, mut shared) = put_in(&program);
    record_for_long(&shared);
    program.ask("o10");
    assert_eq!(drain(&mut shared).len(), 11);
}

#[test]
fn nothing_is_put_in_while_a_thread_is_on_its_way_to_the_linker_or_if_slots_have_changed() {
    let mut program = Program::start();
    let refusal = |program: &Program, original: u64| {
        let mut request = program.request();
        (request.hooks[0].original, request.hooks[0].target) = (original, original + 64);
        install(&request, |_| Ok(())).expect_err("it is not as it was").to_string()
    };
    // As soon as it waits for input, /proc says: number, arguments, stack pointer, and where it goes on.
    let at = loop {
        let stands = std::fs::read_to_string(format!("/proc/{}/syscall", program.pid())).expect("ours");
        let at = stands.split_whitespace().last().and_then(|word| word.strip_prefix("0x"));
        if let Some(at) = at {
            break u64::from_str_radix(at, 16).expect("an address");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let linking = refusal(&program, at - 8);
    assert!(linking.contains("dynamic linker"), "{linking}");
    let changed = refusal(&program, at + 4096);
    assert!(changed.contains("slots have changed"), "{changed}");
    assert_eq!(find_previous(program.pid()).expect("ours").hooks, [], "nothing was written");
    assert_eq!(program.ask("o10"), "done 0\n");
}

#[test]
fn what_a_call_has_stored_comes_with_the_next_one_wherever_it_lies() {
    for is_half in [false, true] {
        let mut program = Program::start();
        let made = Some(MadeHandle { argument: 1, is_half });
        let mut shared =
            put_in_whole(&program, &[(program.make, WholeHook { made, ..WholeHook::default() })]);
        record_for_long(&shared);
        program.ask("m500");
        let wholes: Vec<_> = drain(&mut shared).iter().filter_map(|call| call.whole).collect();
        assert_eq!((wholes.len(), wholes[0].made), (2000, None));
        for (n, whole) in (0..).zip(&wholes[1..]) {
            // Memory that was given back to the system is not there any more.
            let handle = if is_half { n } else { 0x7_0000_0000 + n };
            let expected = if n % 4 == 3 { None } else { Some((30, handle)) };
            assert_eq!(whole.made, expected, "call {n}");
        }
        shared.switch().turn_off(RecordedPart::Calls);
        program.ask("m10");
        record_for_long(&shared);
        shared.switch().turn_on(RecordedPart::Calls);
        record_for_long(&shared);
        program.ask("m1");
        let first = drain(&mut shared)[0].whole.expect("a whole call");
        assert_eq!(first.made, None, "nobody has looked meanwhile");
    }
}

#[test]
fn what_a_call_has_stored_is_read_before_the_call_that_completes_it() {
    for completes in [None, Some(CompletedHandles::Several)] {
        let mut program = Program::start();
        let made = Some(MadeHandle { argument: 1, is_half: false });
        let hooks = [
            (program.make, WholeHook { made, ..WholeHook::default() }),
            (program.finish, WholeHook { completes, ..WholeHook::default() }),
        ];
        let mut shared = put_in_whole(&program, &hooks);
        record_for_long(&shared);
        program.ask("w500");
        let wholes: Vec<_> = drain(&mut shared).iter().filter_map(|call| call.whole).collect();
        assert_eq!(wholes.len(), 1000);
        for (n, pair) in (0..).zip(wholes.as_chunks::<2>().0) {
            // The first one completes none, so that its second argument need not be memory.
            assert_eq!((pair[0].made, pair[1].made), (None, Some((30, 0x7_0000_0000 + n))), "call {n}");
        }
    }
}

#[test]
fn a_whole_call_that_is_made_in_a_noted_one_says_so_and_is_not_noted() {
    let mut program = Program::start();
    let hook = WholeHook { may_be_nested: true, ..WholeHook::default() };
    let mut shared = put_in_whole(&program, &[(program.copy, hook)]);
    record_for_long(&shared);
    program.ask("o5");
    let wholes: Vec<_> = drain(&mut shared).iter().filter_map(|call| call.whole).collect();
    let nested: Vec<bool> = wholes.iter().map(|whole| whole.is_nested).collect();
    assert_eq!(nested, [true, true, true, true, true, false], "the last one is made after the call");
    // The call around them is the first that was noted.
    assert_eq!(wholes.iter().map(|whole| whole.calls).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 2]);
}

#[test]
fn children_of_fork_record_nothing_and_run_on() {
    let mut program = Program::start();
    let (installation, mut shared) = put_in(&program);
    record_for_long(&shared);
    assert_eq!(program.ask("f1000"), "done 7\n");
    assert_eq!(drain(&mut shared), []);
    program.ask("c3");
    assert_eq!(drain(&mut shared).len(), 3);
    installation.take_out().expect("it runs");
    assert_eq!(program.ask("f1000"), "done 7\n");
}

#[test]
fn a_full_ring_counts_what_it_loses_and_goes_on_when_there_is_room() {
    let mut program = Program::start();
    let (_installation, mut shared) = put_in(&program);
    record_for_long(&shared);
    program.ask("c50000");
    let seen = drain(&mut shared).len() as u64;
    assert!(seen < 50_000 && seen + shared.lost().all() == 50_000, "{seen} and {}", shared.lost().all());
    program.ask("c7");
    assert_eq!(drain(&mut shared).len(), 7);
}

/// Copies that nobody reads leave room for calls, and lost ones are counted by what they are of.
#[test]
fn a_ring_that_is_full_of_copies_has_room_for_calls() {
    let mut program = Program::start();
    let mut shared = put_in_both(&program);
    record_for_long(&shared);
    program.ask("c50000");
    program.ask("a100");
    let lost = shared.lost();
    let records = drain(&mut shared);
    let calls = records.iter().filter(|record| record.whole.is_some()).count();
    assert!(lost.movements > 0 && lost.calls == 0, "{lost:?}");
    // Each of the calls copies once itself.
    assert_eq!((calls, (records.len() - calls) as u64 + lost.movements), (100, 50_100));
    // As many calls as there is room for, and more.
    program.ask("a50000");
    let calls = drain(&mut shared).iter().filter(|record| record.whole.is_some()).count() as u64;
    let lost = shared.lost();
    assert!(lost.calls > 0 && calls + lost.calls == 50_000, "{calls} and {lost:?}");
}

#[test]
fn calls_are_recorded_while_copies_are_not_and_the_other_way_round() {
    let mut program = Program::start();
    let mut shared = put_in_both(&program);
    record_for_long(&shared);
    for off in [RecordedPart::Copies, RecordedPart::Calls] {
        shared.switch().turn_off(off);
        record_for_long(&shared);
        program.ask("c3");
        program.ask("a5");
        let records = drain(&mut shared);
        let calls = records.iter().filter(|record| record.whole.is_some()).count();
        let expected = if off == RecordedPart::Copies { (0, 5) } else { (3 + 5, 0) };
        assert_eq!((records.len() - calls, calls), expected, "{off:?}");
        shared.switch().turn_on(off);
        record_for_long(&shared);
    }
}

#[test]
fn what_was_left_behind_is_found_and_whether_it_is_read() {
    let mut program = Program::start();
    assert!(find_previous(program.pid()).expect("it runs").hooks.is_empty());
    let (installation, shared) = put_in(&program);
    record_for_long(&shared);
    let left = find_previous(program.pid()).expect("it runs");
    assert!(left.are_read);
    let now: Vec<(u64, u64)> = installation.slots().collect();
    let originals: Vec<Option<u64>> = now.iter().map(|(slot, value)| left.original(*slot, *value)).collect();
    assert_eq!(originals, [Some(program.copy.1), Some(program.outer.1)]);
    for part in [RecordedPart::Copies, RecordedPart::Calls] {
        shared.switch().turn_off(part);
    }
    assert!(find_previous(program.pid()).expect("it runs").are_read, "in a pause the heap is");
    shared.switch().end();
    assert!(!find_previous(program.pid()).expect("it runs").are_read);
    program.ask("c10");
}

#[test]
fn what_is_forbidden_is_refused_and_the_process_runs_on() {
    let mut program = Program::start();
    let mut request = program.request();
    request.hooks[1].slot = 8;
    assert!(install(&request, |_| Ok(())).is_err(), "nothing is mapped there");
    program.ask("c10");
    let pid = i32::try_from(program.pid()).expect("a PID");
    // SAFETY: a signal for a child of ours.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    std::thread::sleep(Duration::from_millis(50));
    assert!(matches!(install(&program.request(), |_| Ok(())), Err(injector::InjectError::Stopped)));
    // SAFETY: as above.
    unsafe { libc::kill(pid, libc::SIGCONT) };
    program.ask("c10");
    install(&program.request(), |_| Ok(())).expect("it runs again");
    program.ask("c10");
}
