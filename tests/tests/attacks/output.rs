//! Names and tapes that are shown or read.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use analyzer::input::{Frame, Input, Mapping, ProcessFacts, Symbol};
use analyzer::tape::FileTape;
use analyzer::visible::has_effect;
use analyzer::wire::{Body, CallContext, FileId, Header, Record};
use anyhow::{Context, Result, ensure};
use live::made_up::{MadeUpJob, MadeUpNames};
use serde_json::Value;
use tempfile::TempDir;

/// Clears the screen, sets the title, forges a line, turns the direction of writing, and hides.
const HOSTILE: &str = "x\x1b[2J\x1b]0;owned\x07\r\nWARNING  \u{9b}31m\u{202e}\u{2066}\u{200b}\u{e0041}y";
/// The same, made visible.
const VISIBLE: &str =
    "x\\u{1b}[2J\\u{1b}]0;owned\\u{7}\\r\\nWARNING  \\u{9b}31m\\u{202e}\\u{2066}\\u{200b}\\u{e0041}y";

fn dmscope(arguments: &[&str]) -> Result<Output> {
    Command::new(live::binary()?)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context("cannot start dmscope")
}

/// Fails if anything in it does something to a terminal, but for line ends.
fn check_harmless(text: &[u8]) -> Result<String> {
    let text = String::from_utf8(text.to_vec()).context("not UTF-8")?;
    let bad: Vec<char> = text.chars().filter(|c| *c != '\n' && has_effect(*c)).collect();
    ensure!(bad.is_empty(), "{bad:?} in {text:?}");
    Ok(text)
}

/// A process that ends with its value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process with a hostile name and argument that looks like a rank: it maps a file that is called like MPICH.
fn hostile_rank(directory: &Path) -> Result<Process> {
    let (program, library) = (directory.join(HOSTILE), directory.join("libmpich.so.12"));
    fs::copy("/bin/sleep", &program)?;
    fs::copy(c_library()?, &library)?;
    let mut command = Command::new(&program);
    command.arg0(format!("./{HOSTILE}")).arg("60").env("PMI_RANK", "0").env("PMI_SIZE", "1");
    let process = Process(command.env("LD_PRELOAD", &library).spawn()?);
    let maps = format!("/proc/{}/maps", process.0.id());
    let begin = Instant::now();
    while !fs::read_to_string(&maps)?.contains("libmpich.so.12") {
        ensure!(begin.elapsed() < Duration::from_secs(10), "it does not map the library");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(process)
}

/// Some library that any program may have loaded.
fn c_library() -> Result<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let named = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    let path = named.map(PathBuf::from).find(|path| path.to_string_lossy().contains("libgcc_s"));
    path.context("this program has no libgcc_s")
}

#[test]
fn names_and_arguments_of_processes_are_shown_and_do_nothing() -> Result<()> {
    let directory = TempDir::new()?;
    let rank = hostile_rank(directory.path())?;
    let listed = dmscope(&["ps"])?;
    let text = check_harmless(&listed.stdout)?;
    let pid = rank.0.id().to_string();
    let own: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with(&pid)).collect();
    ensure!(own.len() == 1 && own[0].contains("x\\u{1b}[2J"), "{text}");
    let json = dmscope(&["ps", "--json"])?;
    let document: Value = serde_json::from_str(&check_harmless(&json.stdout)?)?;
    let jobs = document["jobs"].as_array().context("no list of jobs")?;
    let job = jobs.iter().find(|job| job["pid"] == rank.0.id()).context("the job is not there")?;
    ensure!(job["ranks"][0]["exe"].as_str().is_some_and(|exe| exe.ends_with(HOSTILE)), "{job}");
    Ok(())
}

#[test]
fn the_name_of_a_process_in_an_error_is_shown_and_does_nothing() -> Result<()> {
    let directory = TempDir::new()?;
    let program = directory.path().join(HOSTILE);
    fs::copy("/bin/sleep", &program)?;
    let process = Process(Command::new(&program).arg0(HOSTILE).arg("60").spawn()?);
    // Before it is another program its name is ours.
    std::thread::sleep(Duration::from_millis(200));
    let refused = dmscope(&["attach", &process.0.id().to_string()])?;
    let said = check_harmless(&refused.stderr)?;
    ensure!(said.lines().count() == 1 && said.contains("\\u{1b}[2J"), "{said}");
    Ok(())
}

#[test]
fn names_that_a_tape_gives_are_shown_and_do_nothing() -> Result<()> {
    let directory = TempDir::new()?;
    let tape = directory.path().join("hostile.dmt");
    let name = || HOSTILE.to_owned();
    let names = MadeUpNames {
        job: name(),
        host: name(),
        program: name(),
        function: name(),
        source: name(),
        ..MadeUpNames::default()
    };
    MadeUpJob { names, ..MadeUpJob::deadlock(4) }.record(&tape)?;
    let tape = tape.to_str().context("a path of ours")?;
    let page = directory.path().join("page.html");
    let page = page.to_str().context("a path of ours")?;
    let commands: [&[&str]; 5] = [
        &["analyze", "--all", "--statistics", tape],
        &["analyze", "--json", tape],
        &["calls", tape],
        &["calls", "--json", tape],
        &["report", "--output", page, tape],
    ];
    for command in commands {
        let output = dmscope(command)?;
        let text = check_harmless(&output.stdout).with_context(|| format!("{command:?}"))?;
        check_harmless(&output.stderr).with_context(|| format!("{command:?}"))?;
        let is_text = !command.contains(&"--json") && command[0] != "calls";
        ensure!(!is_text || text.contains(VISIBLE), "{command:?}: no function in {text}");
    }
    check_harmless(&fs::read(page)?).context("the page")?;
    Ok(())
}

/// What a command took.
struct Taken {
    seconds: f64,
    peak_mib: u64,
    status: Option<i32>,
    said: String,
}

/// Analyses a tape, and measures.
fn measured(tape: &Path) -> Result<Taken> {
    // Standard output is a file: nobody would read a pipe before the end.
    let said = TempDir::new()?;
    let out = fs::File::create(said.path().join("out"))?;
    let mut command = Command::new(live::binary()?);
    command.arg("analyze").arg(tape).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    // Far beyond what is allowed, so that a machine is not brought down by what this looks for.
    // SAFETY: one system call, between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 8 << 30, rlim_max: 8 << 30 };
            if libc::setrlimit(libc::RLIMIT_AS, &raw const limit) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    let child = command.spawn()?;
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
    let pid = i32::try_from(child.id())?;
    // SAFETY: both places are ours and large enough; the child is waited for here and nowhere else.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
    ensure!(waited == pid, "wait4: {}", std::io::Error::last_os_error());
    // SAFETY: the kernel filled it in; zeroes are good values as well.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(Taken {
        seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak_mib: usage.ru_maxrss as u64 >> 10,
        status: std::process::ExitStatus::from_raw(status).code(),
        said: fs::read_to_string(said.path().join("out"))?,
    })
}

const FILE: FileId = FileId { dev: 1, inode: 7 };
const CODE_AT: u64 = 0x40_0000;

fn process(name: &str) -> Input {
    let code = Mapping {
        start: CODE_AT,
        end: CODE_AT + 0x1000_0000,
        file: FILE,
        exec: true,
        name: name.to_owned(),
        ..Mapping::default()
    };
    let mappings = vec![code];
    Input::Process(Box::new(ProcessFacts { pid: 1, namespace_pid: 1, mappings, ..ProcessFacts::default() }))
}

fn record(time_ns: u64, body: Body) -> Input {
    Input::Record(Record { header: Header { time_ns, pid: 1, tid: 1, probe: 1 }, body }.encode())
}

/// Below 512 MiB and 2 s of processor time, and no panic.
fn check_bounded(inputs: impl Iterator<Item = Input>) -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path().join("bomb.dmt");
    let mut tape = FileTape::to_file(fs::File::create(&path)?);
    for (at, input) in inputs.enumerate() {
        tape.push(&input)?;
        if at % 4096 == 0 {
            tape.flush()?;
        }
    }
    tape.finish()?;
    let tape_kib = fs::metadata(&path)?.len() >> 10;
    let Taken { seconds, peak_mib, status, said } = measured(&path)?;
    eprintln!("{tape_kib} KiB of tape: {seconds:.2} s, {peak_mib} MiB, status {status:?}");
    ensure!(tape_kib < 4 << 10, "{tape_kib} KiB of tape is no bomb");
    ensure!(peak_mib < 512 && seconds < 2.0, "{seconds} s, {peak_mib} MiB, status {status:?}");
    ensure!(status.is_some_and(|status| status != 101) && !said.contains("panicked"), "{status:?}: {said}");
    Ok(())
}

#[test]
fn a_tape_of_symbols_without_end_takes_no_more_memory_than_is_kept() -> Result<()> {
    let frame = Frame { function: "f".repeat(64 << 10), ..Frame::default() };
    let symbol = |offset_bytes| Symbol { file: FILE, offset_bytes, frames: vec![frame.clone()] };
    check_bounded((0..150).map(|list| Input::Symbols((0..100).map(|n| symbol(list * 100 + n)).collect())))
}

#[test]
fn a_tape_that_forks_a_large_process_again_and_again_takes_no_more_memory_than_is_kept() -> Result<()> {
    let block = |n| Body::Alloc { addr: 0x1000 * n, size_bytes: 0x1000, old: 0, caller: CODE_AT + 1 };
    let blocks = (1..=100_000).map(|n| record(n, block(n)));
    let forks = (1..=1000).map(|child| record(200_000, Body::Fork { child: 1000 + child }));
    check_bounded(std::iter::once(process("/bin/app")).chain(blocks).chain(forks))
}

#[test]
fn a_tape_with_a_long_path_and_many_places_in_it_takes_no_more_memory_than_is_kept() -> Result<()> {
    let copy = |n| Body::Copy {
        dst: 0x7000_0000,
        src: 0x7100_0000,
        len_bytes: 64,
        context: CallContext { return_address: CODE_AT + 8 * n, probe: 1, ..CallContext::default() },
    };
    let name = format!("/{}", "d".repeat(1 << 20));
    check_bounded(std::iter::once(process(&name)).chain((1..=4000).map(|n| record(n, copy(n)))))
}
