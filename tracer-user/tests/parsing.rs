//! The child that reads files: it has no rights, answers as if it had been done here, and may die.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use analyzer::plan::Probe;
use analyzer::wire::FileId;
use dmscope::host::files::open_path;
use dmscope::host::parsing::{FileParser, FoundFile, InProcess, ParsingChild, PlanRequest};

const DMSCOPE: &str = env!("CARGO_BIN_EXE_dmscope");

fn found(path: &Path, inode: u64) -> FoundFile {
    let file = Arc::new(open_path(path).unwrap().1);
    FoundFile { id: FileId { dev: 1, inode }, path: path.display().to_string(), is_program: true, file }
}

fn own_program() -> FoundFile {
    found(&std::env::current_exe().unwrap(), 1)
}

fn request() -> PlanRequest {
    PlanRequest::default()
}

/// The only process that this test has started.
fn child_of(test: &str) -> u32 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = |task: &std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| test.starts_with(name.trim()))
    };
    let task = tasks.into_iter().find(named).expect("a thread that is named as the test");
    let children = std::fs::read_to_string(task.path().join("children")).unwrap();
    children.split_whitespace().next().expect("a child").parse().unwrap()
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn the_child_says_what_is_said_here() {
    let file = own_program();
    let mut child = ParsingChild::of(DMSCOPE);
    let summary = child.summary(&file.file).unwrap();
    assert!(summary.needed.iter().any(|name| name.starts_with("libc.so")), "{summary:?}");
    assert_eq!(summary, InProcess.summary(&file.file).unwrap());
    let files = [file];
    let planned = child.plan(&files, request()).unwrap();
    // Which call sites have a cheap place is up to the compiler.
    assert!(planned.plan.probes.len() + planned.plan.left_out.len() > 1);
    let is_read = |probe: &Probe| {
        planned.code.iter().any(|(id, code)| *id == probe.file && code.contains_key(&probe.offset_bytes))
    };
    assert!(planned.plan.probes.iter().all(is_read), "{planned:?}");
    assert_eq!(planned, InProcess.plan(&files, request()).unwrap());
}

#[test]
fn the_child_names_places_as_it_is_done_here() {
    let file = own_program().file;
    let places: Vec<u64> = (0..1024).map(|n| 0x1000 * n).collect();
    let names = ParsingChild::of(DMSCOPE).names(&file, None, &places).unwrap();
    assert!(names.frames.iter().flatten().any(|frame| frame.line.is_some()), "{names:?}");
    assert_eq!(names, InProcess.names(&file, None, &places).unwrap());
}

#[test]
fn rights_are_given_up_before_any_file_is_read() {
    let mut child = ParsingChild::of(DMSCOPE);
    child.summary(&own_program().file).unwrap();
    let pid = child_of("rights_are_given_up_before_any_file_is_read");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let says = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.trim_start_matches(':').split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!((says("CapEff").as_str(), says("CapPrm").as_str()), ("0000000000000000", "0000000000000000"));
    assert_eq!((says("NoNewPrivs").as_str(), says("Seccomp").as_str()), ("1", "2"));
    if rustix::process::geteuid().is_root() {
        assert_eq!((says("Uid").as_str(), says("Groups").as_str()), ("65534 65534 65534 65534", ""));
    }
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let data = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
    assert!(data.contains("1073741824"), "{data}");
}

#[test]
fn a_child_that_was_ended_is_started_again() {
    let mut child = ParsingChild::of(DMSCOPE);
    let file = own_program();
    let summary = child.summary(&file.file).unwrap();
    kill(child_of("a_child_that_was_ended_is_started_again"));
    let error = child.summary(&file.file).unwrap_err();
    assert!(error.contains("signal 9"), "{error}");
    assert_eq!(child.summary(&file.file).unwrap(), summary);
}

#[test]
fn a_file_that_takes_for_ever_is_left_out_and_the_others_are_planned() {
    let folder = tempfile::tempdir().unwrap();
    let bomb = folder.path().join("bomb");
    write_huge_program(&bomb);
    let limit = Duration::from_millis(300);
    let mut child = ParsingChild::of(DMSCOPE).with_limits(limit, limit);
    let small = found(&std::fs::canonicalize("/bin/true").unwrap(), 3);
    let files = [found(&bomb, 2), small];
    let plan = child.plan(&files, request()).unwrap().plan;
    assert_eq!(plan.files.iter().map(|file| file.id.inode).collect::<Vec<_>>(), [3]);
    let said: Vec<_> = plan.left_out.iter().filter(|l| l.what == bomb.display().to_string()).collect();
    assert!(matches!(said[..], [one] if one.reason.contains("it was given up")), "{said:?}");
}

/// Nearly as many holes as are read of a file, that says it is code.
fn write_huge_program(path: &Path) {
    const LEN: u64 = 383 << 20;
    let mut file = File::create(path).unwrap();
    let mut head = b"\x7fELF\x02\x01\x01".to_vec();
    head.resize(16, 0);
    [3_u16, 62, 1, 0].iter().for_each(|half| head.extend(half.to_le_bytes()));
    [0_u64, 64, 0].iter().for_each(|word| head.extend(word.to_le_bytes()));
    [0_u16, 0, 64, 56, 1, 64, 0, 0].iter().for_each(|half| head.extend(half.to_le_bytes()));
    head.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    [0, 0x40_0000, 0x40_0000, LEN, LEN, 4096].iter().for_each(|word| head.extend(word.to_le_bytes()));
    file.write_all(&head).unwrap();
    file.set_len(LEN).unwrap();
}

#[test]
fn a_child_that_cannot_be_started_or_says_nothing_is_an_error_and_no_more() {
    let file = own_program();
    let error = ParsingChild::of("/nonexistent").summary(&file.file).unwrap_err();
    assert!(error.contains("cannot be started"), "{error}");
    let error = ParsingChild::of("/bin/false").summary(&file.file).unwrap_err();
    assert!(error.contains("status 1"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let silent = folder.path().join("silent");
    std::fs::write(&silent, "#!/bin/sh\nexec /bin/sleep 60\n").unwrap();
    std::fs::set_permissions(&silent, PermissionsExt::from_mode(0o755)).unwrap();
    let limit = Duration::from_millis(200);
    let error = ParsingChild::of(&silent).with_limits(limit, limit).summary(&file.file).unwrap_err();
    assert!(error.contains("it was given up"), "{error}");
}
