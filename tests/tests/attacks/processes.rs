//! Processes that end, come again under the same PID, or run out of something.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use analyzer::wire::{Body, Record};
use anyhow::{Context, Result, bail, ensure};
use dmscope::host::processes::start_ticks;
use dmscope::kernel::Collector;
use dmscope::kernel::{LoadSettings, ProcessKey, Tracer};
use live::processes::{ChangedCode, changed_code};
use live::{Dmscope, JobSpec, MpiImplementation};
use rustix::process::Signal;

const TIMEOUT: Duration = Duration::from_secs(120);
const DEFAULT_BUDGET: [&str; 2] = ["--budget", "10%"];
/// A killed session and its probes are gone by then, however busy the machine is.
const SOON: Duration = Duration::from_secs(2);

#[test]
fn killed_under_load_with_a_budget_it_and_its_probes_are_gone_at_once() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = JobSpec::own(library, "halo2d")?.ranks(4).held().endless().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let ranks = job.rank_pids()?;
        let own = live::build::jobs_for(library)?.canonicalize()?;
        let all_changed = || -> Result<Vec<ChangedCode>> {
            let places =
                ranks.iter().flat_map(|rank| [Path::new("/usr/lib"), &own].map(|folder| (*rank, folder)));
            places.map(|(rank, folder)| changed_code(rank, folder)).collect()
        };
        let before = all_changed()?;
        job.go()?;
        let mut dmscope = Dmscope::attach(job.launcher_pid()).args(DEFAULT_BUDGET).spawn()?;
        dmscope.wait_until_attached()?;
        let while_watched: Vec<_> =
            all_changed()?.into_iter().zip(&before).map(|(now, before)| now.since(before)).collect();
        ensure!(while_watched.iter().any(|changed| changed.check().is_err()), "no probe was seen");
        std::thread::sleep(Duration::from_millis(300));
        let killed = Instant::now();
        dmscope.signal(Signal::KILL);
        dmscope.finish()?;
        let gone = killed.elapsed();
        for (now, before) in all_changed()?.into_iter().zip(&before) {
            now.since(before).check()?;
        }
        eprintln!("{library:?}: gone after {gone:?}");
        job.stop()?;
        job.finish(TIMEOUT)?.check_verdict()?;
        ensure!(gone < SOON, "gone after {gone:?}");
    }
    Ok(())
}

/// A program that waits for a line, and then runs another.
fn waiting_shell() -> Result<Child> {
    let mut shell = Command::new("sh");
    shell.args(["-c", "read line; exec true"]).stdin(Stdio::piped());
    shell.spawn().context("a shell")
}

/// The same with a PID that was another's. Other processes may get it first.
fn waiting_shell_with_pid(pid: u32) -> Result<Child> {
    for _ in 0..200 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).context("choosing a PID")?;
        let mut shell = waiting_shell()?;
        if shell.id() == pid {
            return Ok(shell);
        }
        end(&mut shell)?;
    }
    bail!("PID {pid} cannot be had again")
}

fn end(shell: &mut Child) -> Result<()> {
    shell.stdin.take().context("its standard input")?.write_all(b"go\n")?;
    shell.wait().context("its end")?;
    Ok(())
}

#[test]
fn a_process_that_gets_the_pid_of_a_watched_one_is_not_watched() -> Result<()> {
    let mut tracer = Tracer::load(LoadSettings { ring_bytes: 1 << 16, ..LoadSettings::default() })?;
    tracer.attach_kernel_events()?;
    let ring = tracer.make_ring(0)?;
    let mut collector = Collector::start(tracer.counters(), Vec::new())?;
    collector.add(ring);
    let mut first = waiting_shell()?;
    let pid = first.id();
    let key = ProcessKey { pid, start_ticks: start_ticks(pid)? };
    tracer.watch(key, 0)?;
    end(&mut first)?;
    let ended_ns = dmscope::host::clock::monotonic_ns();
    std::thread::sleep(Duration::from_millis(50));
    // What a session does that has not heard of the end.
    tracer.tell_own_code(pid, &[])?;
    end(&mut waiting_shell_with_pid(pid)?)?;
    // And one that only now comes to watch what it found a moment ago.
    tracer.watch(key, 0)?;
    end(&mut waiting_shell_with_pid(pid)?)?;
    let batches = collector.finish();
    let times: Vec<u64> =
        batches.iter().flat_map(|b| &b.records).flat_map(|(_, r)| r).map(|r| r.time_ns()).collect();
    ensure!(times.iter().any(|time_ns| *time_ns <= ended_ns), "the first one was not watched at all");
    let later = times.iter().filter(|time_ns| **time_ns > ended_ns).count();
    ensure!(later == 0, "{later} records of processes that nobody asked for");
    Ok(())
}

/// A shell that lowers a limit of open files and becomes what it is told.
fn with_limit(option: &str) -> [String; 3] {
    ["sh".into(), "-c".into(), format!("ulimit {option}; exec \"$0\" \"$@\"")]
}

#[test]
fn with_too_few_descriptors_it_says_so_and_touches_nothing() -> Result<()> {
    let job = JobSpec::own(MpiImplementation::OpenMpi, "halo2d")?.held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let dmscope = Dmscope::attach(job.launcher_pid()).args(DEFAULT_BUDGET);
    let session = dmscope.spawn_through(with_limit("-n 64"))?.finish()?;
    session.check_refusal(&["64 files", "ulimit -Hn"])?;
    job.go()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()
}

#[test]
fn a_low_soft_limit_of_descriptors_costs_no_probe() -> Result<()> {
    for library in MpiImplementation::ALL {
        let job = JobSpec::own(library, "halo2d")?.ranks(4).held().endless().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let dmscope = Dmscope::attach(job.launcher_pid()).args(DEFAULT_BUDGET);
        let mut dmscope = dmscope.spawn_through(with_limit("-Sn 256"))?;
        let attached = dmscope.wait_until_attached()?;
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", dmscope.pid()))?;
        ensure!(!limits.lines().any(|l| l.starts_with("Max open files") && l.contains(" 256 ")), "{limits}");
        ensure!(attached["failed"] == 0 && attached["probes"].as_u64() > Some(300), "{attached}");
        dmscope.interrupt();
        dmscope.finish()?;
        job.go()?;
        job.stop()?;
        job.finish(TIMEOUT)?.check_verdict()?;
    }
    Ok(())
}

#[test]
fn if_memory_runs_out_it_is_killed_before_the_job() -> Result<()> {
    let adjustment = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj"));
    let job = JobSpec::own(MpiImplementation::OpenMpi, "halo2d")?.held().endless().spawn()?;
    job.wait_until_ready(TIMEOUT)?;
    let mut dmscope = Dmscope::attach(job.launcher_pid()).spawn()?;
    dmscope.wait_until_attached()?;
    ensure!(adjustment(dmscope.pid())?.trim() == "1000", "{}", adjustment(dmscope.pid())?);
    ensure!(adjustment(job.rank_pids()?[0])? == adjustment(std::process::id())?);
    dmscope.interrupt();
    dmscope.finish()?;
    job.go()?;
    job.stop()?;
    job.finish(TIMEOUT)?.check_verdict()?;
    let session = Dmscope::command("run", ["--", "cat", "/proc/self/oom_score_adj"]).spawn()?.finish()?;
    ensure!(session.stdout == [adjustment(std::process::id())?.trim()], "{:?}", session.stdout);
    Ok(())
}

/// Makes a system call of the 32-bit table, and leaves a value where calls of the other table have their first argument.
fn compat_call(number: u32, first: u32, second: u32, other: u64) -> i32 {
    let result: u32;
    // SAFETY: rbx, which the compiler keeps for itself, is put back; what the call does is said where it is made.
    unsafe {
        std::arch::asm!(
            "xchg rbx, {first:r}", "int 0x80", "xchg rbx, {first:r}",
            first = inout(reg) u64::from(first) => _,
            inout("eax") number => result,
            in("ecx") second, in("edx") 0, in("esi") 0, in("rdi") other,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    result.cast_signed()
}

/// What a session would be told of this process while `act` runs: its records, and how much was lost.
fn watched(act: impl FnOnce() -> Result<()>) -> Result<(Vec<Body>, u64)> {
    let mut tracer = Tracer::load(LoadSettings { ring_bytes: 1 << 16, ..LoadSettings::default() })?;
    tracer.attach_kernel_events()?;
    let ring = tracer.make_ring(0)?;
    let mut collector = Collector::start(tracer.counters(), Vec::new())?;
    collector.add(ring);
    let pid = std::process::id();
    tracer.watch(ProcessKey { pid, start_ticks: start_ticks(pid)? }, 0)?;
    act()?;
    tracer.unwatch(pid, None);
    let batches = collector.finish();
    let lost = batches.iter().flat_map(|b| &b.counters).map(|(_, counters)| counters.lost_state).max();
    let records = batches.iter().flat_map(|b| &b.records).flat_map(|(_, r)| r);
    Ok((
        records.filter_map(|raw| Record::decode(raw).ok()).map(|record| record.body).collect(),
        lost.unwrap_or(0),
    ))
}

#[test]
fn a_segment_that_is_detached_is_told() -> Result<()> {
    let mut attached_at = 0;
    let (records, lost) = watched(|| {
        // SAFETY: a new segment, attached where the kernel likes, never written, and gone again at the end.
        unsafe {
            let segment = libc::shmget(libc::IPC_PRIVATE, 8192, 0o600);
            ensure!(segment >= 0, "no segment");
            let address = libc::shmat(segment, std::ptr::null(), 0);
            libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut());
            attached_at = address as u64;
            ensure!(libc::shmdt(address) == 0, "not detached");
        }
        Ok(())
    })?;
    let is_attached =
        |body: &&Body| matches!(body, Body::Map { addr, len_bytes: 8192, .. } if *addr == attached_at);
    let is_detached =
        |body: &&Body| matches!(body, Body::Unmap { addr, len_bytes: 0 } if *addr == attached_at);
    ensure!(
        records.iter().any(|r| is_attached(&r)) && records.iter().any(|r| is_detached(&r)),
        "{records:?}"
    );
    ensure!(lost == 0, "{lost} were lost");
    Ok(())
}

#[test]
fn a_system_call_of_the_32_bit_table_is_not_taken_for_another_and_one_that_unmaps_is_a_loss() -> Result<()> {
    /// Asks for what a signal does, and stores nothing. It has the number that shmdt has in the other table.
    const SIGACTION: u32 = 67;
    const MUNMAP: u32 = 91;
    const ELSEWHERE: u64 = 0x1234_5000;
    if !Path::new("/proc/sys/abi/vsyscall32").exists() {
        eprintln!("this kernel has no 32-bit system calls: nothing to attack with");
        return Ok(());
    }
    let told_elsewhere =
        |records: &[Body]| records.iter().any(|body| matches!(body, Body::Unmap { addr: ELSEWHERE, .. }));
    let (records, lost) = watched(|| {
        ensure!(compat_call(SIGACTION, libc::SIGUSR1 as u32, 0, ELSEWHERE) == 0, "refused");
        Ok(())
    })?;
    ensure!(lost == 0 && !told_elsewhere(&records), "{lost} were lost; {records:?}");
    let (_, lost) = watched(|| {
        // SAFETY: a new page that nobody uses, and that the other call unmaps.
        let page = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, flags, -1, 0)
        };
        ensure!(compat_call(MUNMAP, page as u32, 4096, 0) == 0, "not unmapped");
        Ok(())
    })?;
    ensure!(lost == 1, "{lost} were lost");
    Ok(())
}

#[test]
fn a_job_that_it_starts_has_the_limit_of_descriptors_that_it_would_have_had() -> Result<()> {
    let run = Dmscope::command("run", ["--", "sh", "-c", "ulimit -Sn; ulimit -Hn"]);
    let session = run.spawn_through(with_limit("-Sn 300"))?.finish()?;
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let hard = hard.map_or("unlimited".into(), |limit| limit.to_string());
    ensure!(session.stdout == ["300".to_owned(), hard], "{:?}", session.stdout);
    Ok(())
}
