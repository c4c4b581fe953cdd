//! The child that reads stacks: it has no rights, answers as if it had been done here, and may die.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use analyzer::input::ThreadFacts;
use dmscope::host::files::open_mapped;
use dmscope::host::gather::read_maps;
use dmscope::host::mappings::code_files;
use dmscope::host::memory::{ProcessMemory, open_memory};
use dmscope::stacks::{
    Registers, RunningSample, SampledProcess, StackChild, StackReader, Surroundings, ThreadView,
};

const DMSCOPE: &str = env!("CARGO_BIN_EXE_dmscope");
const LIMIT: Duration = Duration::from_secs(10);

/// A process that sleeps in the kernel until the test is over.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().expect("sleep"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Its only thread, as it is in the kernel.
    fn thread(&self) -> ThreadView {
        const CLOCK_NANOSLEEP: &str = "230";
        const RSP: usize = 7;
        let deadline = Instant::now() + LIMIT;
        loop {
            let text = std::fs::read_to_string(format!("/proc/{}/syscall", self.pid())).expect("a process");
            let words: Vec<&str> = text.split_whitespace().collect();
            if words.first() == Some(&CLOCK_NANOSLEEP) {
                let word = |at: usize| u64::from_str_radix(words[at].trim_start_matches("0x"), 16).unwrap();
                let mut values = [0; 16];
                values[RSP] = word(words.len() - 2);
                let registers = Registers::new(values, word(words.len() - 1));
                let (pid, tid) = (self.pid(), self.pid());
                return ThreadView { pid, tid, state: 1, ran_ns: 0, hooked: None, made: None, registers };
            }
            assert!(Instant::now() < deadline, "it does not sleep: {text}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it has ended");
    }
}

fn never(_tid: u32, _patience: Duration) -> Option<RunningSample> {
    None
}

fn child_by(program: &str) -> StackChild {
    StackChild::of(program, never, Duration::from_millis(300))
}

/// This process may open what it likes.
struct Here(u32);

impl Surroundings for Here {
    fn sample(&mut self, _tid: u32) -> io::Result<Option<RunningSample>> {
        Ok(None)
    }

    fn file(&mut self, start: u64) -> io::Result<Option<File>> {
        let mapping = read_maps(self.0).unwrap().into_iter().find(|mapping| mapping.start == start).unwrap();
        let mapped = code_files(&[mapping]).pop().unwrap();
        open_mapped(self.0, &mapped).unwrap().file().try_clone().map(Some)
    }
}

fn read_here(sleeper: &Sleeper, thread: ThreadView) -> Vec<ThreadFacts> {
    let process = SampledProcess {
        mappings: read_maps(sleeper.pid()).unwrap(),
        threads: vec![thread],
        ..SampledProcess::default()
    };
    let memory = ProcessMemory::of(open_memory(sleeper.pid()).unwrap());
    StackReader::default().read(&process, memory, &mut Here(sleeper.pid())).unwrap()
}

/// The only process that the thread of this test has started beside the sleeper.
fn child_of(test: &str, sleeper: &Sleeper) -> u32 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| test.starts_with(name.trim()))
    };
    let task = tasks.into_iter().find(named).expect("a thread that is named as the test");
    let children = std::fs::read_to_string(task.path().join("children")).unwrap();
    let mut pids = children.split_whitespace().map(|pid| pid.parse::<u32>().unwrap());
    pids.find(|pid| *pid != sleeper.pid()).expect("a child")
}

#[test]
fn the_child_reads_a_stack_as_it_is_read_here() {
    let sleeper = Sleeper::start();
    let thread = sleeper.thread();
    let mut child = StackChild::of(DMSCOPE, never, LIMIT);
    let read = child.read(sleeper.pid(), &[thread], &[]).unwrap();
    assert!(read[0].frames.len() > 2 && read[0].cut.is_none(), "{read:?}");
    assert_eq!(read, read_here(&sleeper, thread));
    assert_eq!(read, child.read(sleeper.pid(), &[thread], &[]).unwrap(), "with what it has kept of files");
}

#[test]
fn the_reader_of_stacks_gives_up_its_rights() {
    let sleeper = Sleeper::start();
    let mut child = StackChild::of(DMSCOPE, never, LIMIT);
    child.read(sleeper.pid(), &[sleeper.thread()], &[]).unwrap();
    let pid = child_of("the_reader_of_stacks_gives_up_its_rights", &sleeper);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    for line in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.lines().any(|said| said == line), "{line}: {status}");
    }
}

#[test]
fn a_reader_of_stacks_that_was_ended_is_started_again() {
    let sleeper = Sleeper::start();
    let thread = sleeper.thread();
    let mut child = StackChild::of(DMSCOPE, never, LIMIT);
    let read = child.read(sleeper.pid(), &[thread], &[]).unwrap();
    let pid = child_of("a_reader_of_stacks_that_was_ended_is_started_again", &sleeper);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let error = child.read(sleeper.pid(), &[thread], &[]).unwrap_err();
    assert!(error.contains("signal 9"), "{error}");
    assert_eq!(child.read(sleeper.pid(), &[thread], &[]).unwrap(), read);
}

#[test]
fn one_that_never_answers_is_given_up() {
    let sleeper = Sleeper::start();
    let folder = tempfile::tempdir().unwrap();
    let silent = script(&folder, "exec sleep 1000");
    let error = child_by(&silent).read(sleeper.pid(), &[sleeper.thread()], &[]).unwrap_err();
    assert!(error.contains("it was given up"), "{error}");
    let error = child_by("/nonexistent").read(sleeper.pid(), &[sleeper.thread()], &[]).unwrap_err();
    assert!(error.contains("cannot be started"), "{error}");
}

/// What a reader says that was taken over: that it needs the file of this mapping, again and again.
#[test]
fn one_that_asks_without_end_is_ended() {
    let sleeper = Sleeper::start();
    let folder = tempfile::tempdir().unwrap();
    let asks = script(&folder, r#"while printf '\024\000\000\000{"File":{"start":1}}' >&0; do :; done"#);
    let mut child = StackChild::of(asks, never, LIMIT);
    let error = child.read(sleeper.pid(), &[sleeper.thread()], &[]).unwrap_err();
    assert!(error.contains("asks without end"), "{error}");
}

#[test]
fn one_that_answers_of_other_processes_is_not_believed() {
    let sleeper = Sleeper::start();
    let folder = tempfile::tempdir().unwrap();
    let other = ThreadFacts { pid: 1, tid: 1, ..ThreadFacts::default() };
    let answer = serde_json::json!({ "Threads": [other] }).to_string();
    let path = folder.path().join("answer");
    let len = u32::try_from(answer.len()).unwrap().to_le_bytes();
    std::fs::write(&path, [&len[..], answer.as_bytes()].concat()).unwrap();
    let lies = script(&folder, &format!("cat {} >&0; exec sleep 1000", path.display()));
    let error = child_by(&lies).read(sleeper.pid(), &[sleeper.thread()], &[]).unwrap_err();
    assert!(error.contains("other threads"), "{error}");
}

fn script(folder: &tempfile::TempDir, line: &str) -> String {
    let path = folder.path().join("child.sh");
    let mut file = File::create(&path).unwrap();
    writeln!(file, "#!/bin/sh\n{line}").unwrap();
    file.set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
    drop(file);
    path.display().to_string()
}
