//! What threads are doing: registers of all, and stacks of those that run.

use std::io::Read;
use std::time::Duration;

use injector::{MadeBefore, NotedBefore, ThreadBefore};
use libbpf_rs::{Iter, Link};
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag};

use super::load::KernelError;
use super::tracer::Tracer;
use crate::stacks::{Registers, RunningSample, ThreadView};

/// Words of `struct thread_view` in `threads.h` before the registers.
const HEAD_WORDS: usize = 13;
const REGISTER_WORDS: usize = 21;
const VIEW_BYTES: usize = 8 * (HEAD_WORDS + REGISTER_WORDS);

/// Where `struct pt_regs` has the registers, in the order of unwind tables (rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 …).
const PT_REGS: [usize; 16] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0];
const PT_REGS_IP: usize = 16;

/// `struct thread_view` in `threads.h`.
fn view(words: &[u64]) -> Option<ThreadView> {
    let (head, registers) = words.split_at_checked(HEAD_WORDS)?;
    let at = |n: usize| registers.get(n).copied();
    let mut values = [0; 16];
    for (value, place) in values.iter_mut().zip(PT_REGS) {
        *value = at(place)?;
    }
    Some(ThreadView {
        pid: head[0] as u32,
        tid: (head[0] >> 32) as u32,
        state: head[1] as u32,
        ran_ns: head[2],
        hooked: (head[3] != 0).then_some((head[3], head[4])),
        made: (head[5] != 0).then_some((head[5], head[6] as u32 == 4)),
        registers: Registers::new(values, at(PT_REGS_IP)?),
    })
}

/// A thread, and what is known of its calls; `words`: the same.
fn calling_thread(words: &[u64]) -> Option<ThreadInView> {
    let head = words.first_chunk::<HEAD_WORDS>()?;
    let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
    let made = MadeBefore { at: head[5], by: high(head[6]), bytes: low(head[6]) };
    let call = NotedBefore {
        stack_pointer: head[8],
        return_address: head[9],
        hook: 0,
        name: low(head[10]),
        hooked_by: (head[11] != 0).then_some(head[12]),
    };
    let thread = ThreadBefore {
        pointer: head[7],
        is_first: low(head[0]) == high(head[0]),
        calls: high(head[10]),
        call: (call.name != 0).then_some(call),
        made: (made.at != 0).then_some(made),
    };
    Some(ThreadInView { process: low(head[0]), trampoline: head[12], thread })
}

struct ThreadInView {
    process: u32,
    /// What it has seen in the place of return addresses; 0: nothing yet.
    trampoline: u64,
    thread: ThreadBefore,
}

/// Threads of which anything is known. The kernel puts one address in the place of all return addresses of a process: where it is
/// not known, or threads have seen different ones, nobody knows whether a thread is in a call whose return is hooked.
fn with_trampoline(threads: &[ThreadInView]) -> Vec<ThreadBefore> {
    let mut seen: Vec<u64> = threads.iter().map(|thread| thread.trampoline).filter(|at| *at != 0).collect();
    seen.dedup();
    let trampoline = if let [only] = seen[..] { Some(only) } else { None };
    let of_process = |call: NotedBefore| match call.hooked_by {
        None => Some(call),
        Some(_) => trampoline.map(|at| NotedBefore { hooked_by: Some(at), ..call }),
    };
    let threads = threads.iter().map(|ThreadInView { thread, .. }| ThreadBefore {
        call: thread.call.and_then(of_process),
        ..*thread
    });
    threads.filter(|thread| thread.calls > 0).collect()
}

/// Lists threads; can be used by any thread, as long as the tracer is there.
pub struct ThreadLister(Link);

impl Tracer {
    /// A way to list the threads of watched processes.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn thread_lister(&self) -> Result<ThreadLister, KernelError> {
        let refused = |source| KernelError::Refused { what: "listing threads".into(), source };
        self.skel.progs.dms_threads.attach().map(ThreadLister).map_err(refused)
    }
}

impl ThreadLister {
    /// All threads of watched processes, as they are now. None is stopped for it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn threads(&self) -> std::io::Result<Vec<ThreadView>> {
        self.list(view)
    }

    /// What is known of the calls of the threads of a process, which stands still.
    ///
    /// # Errors
    /// The kernel's.
    pub fn calls_of(&self, pid: u32) -> std::io::Result<Vec<ThreadBefore>> {
        let mut threads = self.list(calling_thread)?;
        threads.retain(|thread| thread.process == pid);
        Ok(with_trampoline(&threads))
    }

    fn list<T>(&self, read: impl Fn(&[u64]) -> Option<T>) -> std::io::Result<Vec<T>> {
        let mut bytes = Vec::new();
        Iter::new(&self.0).map_err(std::io::Error::other)?.read_to_end(&mut bytes)?;
        let words = |bytes: &[u8]| -> Vec<u64> {
            bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
        };
        Ok(bytes.chunks_exact(VIEW_BYTES).filter_map(|bytes| read(&words(bytes))).collect())
    }
}

/// Registers in the order in which the kernel's perf numbers them, up to the instruction pointer, and r8 to r15.
const PERF_REGISTERS: u64 = 0x1ff | 0xff << 16;
/// Of each of the registers of unwind tables (rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp), where perf has it.
const PERF_ORDER: [usize; 8] = [0, 3, 2, 1, 4, 5, 6, 7];
const PERF_IP: usize = 8;
/// Deep enough for any MPI library's calls below the program's own; perf takes no more than 64 KiB.
const STACK_BYTES: u32 = 48 << 10;
/// Room for one sample: one that does not fit is dropped by the kernel, without a word.
const ROOM_BYTES: usize = 2 * STACK_BYTES as usize;
/// A sample after so much running.
const PERIOD_NS: u64 = 200_000;

/// While it is there, threads can be sampled at once.
///
/// With the first event of a thread the kernel begins to look at each switch of threads, and waits until all processors have come
/// round (an RCU grace period); a second after the last one has gone it stops. Where a job leaves no processor free, each such wait
/// was seen to take more than half a minute, and nothing was known of ranks that hang.
pub struct SamplingKeptReady {
    /// Counts nothing. `None`: it was refused, and samples wait each time.
    _event: Option<perf_event::Counter>,
}

impl SamplingKeptReady {
    /// Waits for the kernel, milliseconds on an idle machine.
    pub fn start() -> Self {
        Self { _event: Builder::new(Software::DUMMY).observe_self().any_cpu().build().ok() }
    }
}

/// Waits until a thread has run a little, and says where it was; `None`: it did not run within `patience`.
pub fn sample_running(tid: u32, patience: Duration) -> Option<RunningSample> {
    let mut sampler = Builder::new(Software::TASK_CLOCK)
        .observe_pid(tid as i32)
        .any_cpu()
        .sample_period(PERIOD_NS)
        .sample(SampleFlag::REGS_USER | SampleFlag::STACK_USER)
        .sample_regs_user(PERF_REGISTERS)
        .sample_stack_user(STACK_BYTES)
        .wakeup_events(1)
        .build()
        .ok()?
        .sampled(ROOM_BYTES)
        .ok()?;
    sampler.enable().ok()?;
    let record = sampler.next_blocking(Some(patience))?;
    let perf_event::data::Record::Sample(sample) = record.parse_record().ok()? else { return None };
    let found = sample.regs_user()?;
    let perf: Vec<u64> = found.regs.iter().copied().collect();
    let mut values = [0; 16];
    for (value, place) in values.iter_mut().zip(PERF_ORDER.into_iter().chain(PERF_IP + 1..)) {
        *value = *perf.get(place)?;
    }
    Some(RunningSample {
        registers: Registers::new(values, *perf.get(PERF_IP)?),
        stack: sample.stack_user()?.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    const RSP: u16 = 7;

    #[test]
    fn calls_whose_return_is_hooked_are_known_where_all_threads_have_seen_the_same_trampoline() {
        let call = |hooked_by| NotedBefore { name: 7, hooked_by, ..NotedBefore::default() };
        let thread = |calls, trampoline, hooked_by| ThreadInView {
            process: 1,
            trampoline,
            thread: ThreadBefore { calls, call: Some(call(hooked_by)), ..ThreadBefore::default() },
        };
        let calls = |threads: &[ThreadInView]| -> Vec<Option<Option<u64>>> {
            with_trampoline(threads).iter().map(|thread| thread.call.map(|call| call.hooked_by)).collect()
        };
        let agreed = [thread(1, 0, Some(0)), thread(2, 9, None), thread(3, 9, Some(9)), thread(0, 0, None)];
        assert_eq!(
            calls(&agreed),
            [Some(Some(9)), Some(None), Some(Some(9))],
            "the last one has made no call"
        );
        assert_eq!(calls(&[thread(1, 8, Some(8)), thread(2, 9, Some(9))]), [None, None]);
        assert_eq!(calls(&[thread(1, 0, Some(0))]), [None]);
    }

    #[test]
    fn a_thread_that_runs_is_sampled_with_its_stack() {
        let (tid, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let marks: [u64; 64] = std::array::from_fn(|n| 0x00dd_5c09_e000_0000 + n as u64);
            let (tid, is_over) = (&tid, &is_over);
            scope.spawn(move || {
                let marks = std::hint::black_box(marks);
                let own = nix::unistd::gettid().as_raw();
                tid.store(own.cast_unsigned(), Ordering::SeqCst);
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::black_box(&marks);
                }
            });
            while tid.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let sample = sample_running(tid.load(Ordering::SeqCst), Duration::from_secs(20));
            is_over.store(true, Ordering::SeqCst);
            let sample = sample.expect("a sample of a thread that runs all the time");
            assert!(sample.registers.get(RSP).is_some() && sample.registers.pc != 0);
            let marks: Vec<u8> = marks.iter().flat_map(|mark| mark.to_ne_bytes()).collect();
            assert!(
                sample.stack.windows(marks.len()).any(|window| window == marks),
                "{} bytes of stack without what is there",
                sample.stack.len()
            );
        });
    }
}
