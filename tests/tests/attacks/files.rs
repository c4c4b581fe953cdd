//! Paths, links, FIFOs and files that somebody planted.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use analyzer::input::Input;
use analyzer::tape::{FileTape, Item, Reader};
use anyhow::{Context, Result, ensure};
use live::made_up::MadeUpJob;
use live::{Dmscope, FinishedSession};
use rustix::fs::{FileType, Mode, inotify};
use serde_json::Value;
use tempfile::TempDir;

/// How long a command may take that has nothing to wait for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Another user.
const STRANGER: u32 = 65_534;

/// A process that looks like a rank, ended when dropped.
struct FakeRank(Child);

impl FakeRank {
    /// Runs a copy of a program that does nothing, under a path of its own.
    fn start(path: &Path) -> Result<Self> {
        fs::copy("/bin/sleep", path)?;
        let mut command = Command::new(path);
        command.arg("1000").env("PMI_RANK", "0").env("PMI_SIZE", "1").stdin(Stdio::null());
        let rank = Self(command.spawn()?);
        let exe = format!("/proc/{}/exe", rank.0.id());
        let deadline = Instant::now() + PATIENCE;
        while fs::read_link(&exe).ok().as_deref() != Some(path) {
            ensure!(Instant::now() < deadline, "the program does not begin");
        }
        Ok(rank)
    }
}

impl Drop for FakeRank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tells whether a path was opened.
struct OpenWatch(std::os::fd::OwnedFd);

impl OpenWatch {
    fn of(path: &Path) -> Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        inotify::add_watch(&watch, path, inotify::WatchFlags::OPEN)?;
        Ok(Self(watch))
    }

    fn check_untouched(&self) -> Result<()> {
        let mut events = [0; 4096];
        let read = rustix::io::read(&self.0, &mut events);
        ensure!(read == Err(rustix::io::Errno::AGAIN), "what was planted was opened");
        Ok(())
    }
}

fn plant(path: &Path, kind: FileType, device: u64) -> Result<()> {
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, Mode::from_raw_mode(0o666), device)?;
    Ok(())
}

fn finish(dmscope: &Dmscope) -> Result<FinishedSession> {
    let mut session = dmscope.spawn()?;
    session.set_patience(PATIENCE);
    session.finish()
}

/// Under sudo of another user.
fn finish_under_sudo(dmscope: &Dmscope) -> Result<FinishedSession> {
    let ids = ["SUDO_UID", "SUDO_GID"].map(|name| format!("{name}={STRANGER}"));
    let mut session = dmscope.spawn_through(["env".to_owned()].into_iter().chain(ids))?;
    session.set_patience(PATIENCE);
    session.finish()
}

fn words<const N: usize>(words: [&OsStr; N]) -> Vec<OsString> {
    words.map(OsString::from).into()
}

/// A job that ended well, on a tape.
fn tape_in(folder: &Path) -> Result<PathBuf> {
    let tape = folder.join("healthy.dmt");
    MadeUpJob::healthy(2).record(&tape)?;
    Ok(tape)
}

/// What is planted in place of a program that was deleted is neither waited for nor opened.
fn look_at_a_job_with(kind: FileType, device: u64) -> Result<()> {
    let folder = TempDir::new()?;
    let path = folder.path().join("solver");
    let _rank = FakeRank::start(&path)?;
    fs::remove_file(&path)?;
    plant(&path, kind, device)?;
    let watch = OpenWatch::of(&path)?;
    let session = finish(&Dmscope::command("ps", ["--json"]))?;
    ensure!(session.status == Some(0), "{:?}", session.stderr);
    watch.check_untouched()
}

#[test]
fn a_fifo_in_place_of_a_deleted_program_makes_nobody_wait() -> Result<()> {
    look_at_a_job_with(FileType::Fifo, 0)
}

#[test]
fn a_device_in_place_of_a_deleted_program_is_not_opened() -> Result<()> {
    look_at_a_job_with(FileType::CharacterDevice, rustix::fs::makedev(1, 3))
}

/// Commands that write a file, by a name for it.
fn writers(tape: &Path, target: &Path) -> Vec<(&'static str, Dmscope)> {
    let (tape, target) = (tape.as_os_str(), target.as_os_str());
    let page = target.with_suffix(".page");
    let run = Dmscope::command("run", ["--", "true"]).args(words(["--budget".as_ref(), "none".as_ref()]));
    vec![
        ("a page", Dmscope::command("report", [tape]).args(words(["-o".as_ref(), target]))),
        (
            "the data of a page",
            Dmscope::command("report", [tape]).args(words(["-o".as_ref(), &page, "--json".as_ref(), target])),
        ),
        ("findings", Dmscope::command("analyze", [tape]).args(words(["--output".as_ref(), target]))),
        ("a tape", run.args(words(["--record".as_ref(), target]))),
    ]
}

trait WithSuffix {
    fn with_suffix(&self, suffix: &str) -> OsString;
}

impl WithSuffix for OsStr {
    fn with_suffix(&self, suffix: &str) -> OsString {
        let mut name = self.to_owned();
        name.push(suffix);
        name
    }
}

#[test]
fn a_planted_link_is_replaced_and_not_followed() -> Result<()> {
    let folder = TempDir::new()?;
    let tape = tape_in(folder.path())?;
    let (precious, target) = (folder.path().join("precious"), folder.path().join("target"));
    fs::write(&precious, "precious")?;
    for (what, dmscope) in writers(&tape, &target) {
        let _ = fs::remove_file(&target);
        symlink(&precious, &target)?;
        let session = finish(&dmscope)?;
        ensure!(fs::read(&precious)? == b"precious", "{what} was written through a link");
        ensure!(target.symlink_metadata()?.is_file(), "no {what}: {:?}", session.stderr);
        ensure!(fs::metadata(&target)?.len() > 0, "{what} is empty: {:?}", session.stderr);
    }
    Ok(())
}

#[test]
fn what_is_written_is_for_its_owner_alone_who_is_the_user_behind_sudo() -> Result<()> {
    let folder = TempDir::new()?;
    let tape = tape_in(folder.path())?;
    let target = folder.path().join("target");
    for (what, dmscope) in writers(&tape, &target) {
        for behind_sudo in [false, true] {
            // Anybody may read what is there before.
            let _ = fs::remove_file(&target);
            fs::write(&target, "old")?;
            fs::set_permissions(&target, fs::Permissions::from_mode(0o644))?;
            let owner = if behind_sudo { STRANGER } else { 0 };
            if behind_sudo {
                finish_under_sudo(&dmscope)?
            } else {
                finish(&dmscope)?
            };
            let metadata = fs::metadata(&target)?;
            let mode = metadata.mode() & 0o777;
            ensure!(mode == 0o600, "{what} has mode {mode:o}");
            ensure!(
                (metadata.uid(), metadata.gid()) == (owner, owner),
                "{what} is of user {}",
                metadata.uid()
            );
        }
    }
    Ok(())
}

#[test]
fn another_users_fifo_in_place_of_the_output_is_refused() -> Result<()> {
    let folder = TempDir::new()?;
    let tape = tape_in(folder.path())?;
    let target = folder.path().join("target");
    plant(&target, FileType::Fifo, 0)?;
    chown(&target, Some(STRANGER), Some(STRANGER))?;
    for (what, dmscope) in writers(&tape, &target) {
        finish(&dmscope).and_then(|session| session.check_refusal(&["another user"])).context(what)?;
    }
    Ok(())
}

#[test]
fn under_sudo_a_job_is_started_as_the_user_behind_it() -> Result<()> {
    let folder = TempDir::new()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
    let said = folder.path().join("said");
    let script = format!("echo $(id -u) $(id -g) $(id -G) ${{SUDO_UID-none}} $HOME > {}", said.display());
    let run = || Dmscope::command("run", ["--", "sh", "-c", &script]).args(["--budget", "none"]);
    finish_under_sudo(&run())?;
    let stranger = fs::read_to_string(&said)?;
    ensure!(stranger.trim() == "65534 65534 65534 none /nonexistent", "{stranger}");
    fs::remove_file(&said)?;
    finish_under_sudo(&run().args(["--as-root"]))?;
    let root = fs::read_to_string(&said)?;
    ensure!(root.starts_with("0 0 "), "{root}");
    Ok(())
}

/// PIDs of all ranks that `dmscope ps` knows.
fn ranks() -> Result<Vec<u64>> {
    let session = finish(&Dmscope::command("ps", ["--json"]))?;
    let said: Value = serde_json::from_str(&session.stdout.join("\n"))?;
    let jobs = said["jobs"].as_array().context("no jobs")?.iter();
    Ok(jobs
        .flat_map(|job| job["ranks"].as_array().into_iter().flatten())
        .filter_map(|r| r["pid"].as_u64())
        .collect())
}

#[test]
fn a_path_or_name_that_is_no_text_hides_no_rank() -> Result<()> {
    let folder = TempDir::new()?;
    let no_text = folder.path().join(OsStr::from_bytes(b"\xff\xfe"));
    fs::create_dir(&no_text)?;
    // A program that is called like the library is taken for one that has it.
    for name in [no_text.join("libmpi.so.40"), folder.path().join(OsStr::from_bytes(b"libmpi.so.\xff"))] {
        let rank = FakeRank::start(&name)?;
        ensure!(ranks()?.contains(&rank.0.id().into()), "{} hides its process", name.display());
    }
    Ok(())
}

#[test]
fn a_file_that_a_tape_names_is_not_opened_unless_it_is_the_callers_and_the_same() -> Result<()> {
    let folder = TempDir::new()?;
    let (fifo, foreign) = (folder.path().join("fifo"), folder.path().join("foreign"));
    plant(&fifo, FileType::Fifo, 0)?;
    fs::copy("/bin/sleep", &foreign)?;
    chown(&foreign, Some(STRANGER), Some(STRANGER))?;
    for (path, build_id) in [(&fifo, None), (&fifo, Some("ab12cd34")), (&foreign, Some("ab12cd34"))] {
        let tape = tape_without_names(folder.path(), path, build_id)?;
        let watch = OpenWatch::of(path)?;
        let page = folder.path().join("page.html");
        let words = words(["-o".as_ref(), page.as_os_str()]);
        let session = finish(&Dmscope::command("report", [tape]).args(words))?;
        ensure!(session.status == Some(0), "{:?}", session.stderr);
        watch.check_untouched().with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// A tape whose program is to be found at a path.
fn tape_without_names(folder: &Path, program: &Path, build_id: Option<&str>) -> Result<PathBuf> {
    let mut job = MadeUpJob::healthy(2);
    job.names.program = program.display().to_string();
    let (whole, tape) = (folder.join("whole.dmt"), folder.join("nameless.dmt"));
    job.record(&whole)?;
    let mut writer = FileTape::to_file(File::create(&tape)?);
    for item in Reader::new(BufReader::new(File::open(&whole)?))? {
        match item? {
            Item::Input(Input::Symbols(_)) => {}
            Item::Input(Input::Plan(mut plan)) => {
                plan.files.iter_mut().for_each(|file| file.build_id = build_id.map(str::to_owned));
                writer.push(&Input::Plan(plan))?;
            }
            Item::Input(input) => writer.push(&input)?,
            Item::Damage(damage) => anyhow::bail!("{damage}"),
        }
    }
    writer.finish()?;
    Ok(tape)
}

mod debug_files {
    //! Debug files that a program names.

    use analyzer::input::Frame;
    use analyzer::wire::FileId;
    use dmscope::host::files::open_path;
    use dmscope::host::parsing::ParsingChild;
    use dmscope::host::symbols::Symbols;

    use super::*;

    /// The innermost function at the beginning of `main`, looked up in a thread of its own.
    fn name_of_main(program: &Path) -> Result<Frame> {
        let image = fs::read(program)?.into();
        let facts = dmscope::elf::parse(&image)?;
        let main = facts.function("main").context("a program with a main")?;
        let offset = facts.offset_of(main.vaddr).context("code in the file")?;
        let file = FileId { dev: 1, inode: 1 };
        let (_, opened) = open_path(program)?;
        let parser = ParsingChild::of(live::binary()?);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut symbols = Symbols::through(parser);
            symbols.know([(file, Arc::new(opened))]);
            let _ = sender.send(symbols.resolve([(file, offset)]));
        });
        let found = receiver.recv_timeout(PATIENCE).context("somebody waits for what the program named")?;
        Ok(found[0].frames.first().context("no name")?.clone())
    }

    fn run(command: &mut Command) -> Result<()> {
        ensure!(command.status()?.success(), "{command:?}");
        Ok(())
    }

    /// A program that names a file as its debug file; `linked` must be there.
    fn program_with_link(folder: &Path, linked: &Path) -> Result<PathBuf> {
        let (plain, program, source) = (folder.join("plain"), folder.join("solver"), folder.join("solver.c"));
        fs::write(&source, "int main(void) { return 0; }\n")?;
        run(Command::new("gcc").args(["-g", "-Wl,--build-id", "-o"]).arg(&plain).arg(&source))?;
        run(Command::new("objcopy").arg("--only-keep-debug").arg(&plain).arg(folder.join("solver.debug")))?;
        let mut link = OsString::from("--add-gnu-debuglink=");
        link.push(linked);
        run(Command::new("objcopy").arg("--strip-debug").arg(link).arg(&plain).arg(&program))?;
        Ok(program)
    }

    #[test]
    fn a_fifo_that_a_program_names_as_its_debug_file_is_not_waited_for() -> Result<()> {
        let folder = TempDir::new()?;
        let linked = folder.path().join("planted.debug");
        fs::write(&linked, "anything")?;
        let program = program_with_link(folder.path(), &linked)?;
        fs::remove_file(&linked)?;
        plant(&linked, FileType::Fifo, 0)?;
        let watch = OpenWatch::of(&linked)?;
        ensure!(name_of_main(&program)?.function == "main");
        watch.check_untouched()
    }

    #[test]
    fn a_debug_file_beside_its_program_gives_lines() -> Result<()> {
        let folder = TempDir::new()?;
        let linked = folder.path().join("anything");
        fs::write(&linked, "anything")?;
        let program = program_with_link(folder.path(), &linked)?;
        let main = name_of_main(&program)?;
        ensure!(main.function == "main" && main.line == Some(1), "{main:?}");
        fs::remove_file(folder.path().join("solver.debug"))?;
        ensure!(name_of_main(&program)?.line.is_none());
        Ok(())
    }
}

mod probed_files {
    //! Files that are changed between the plan and the probes.

    use std::collections::{BTreeMap, BTreeSet};
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use analyzer::plan::{Plan, Probe, ProbeClass, ProbePlace};
    use analyzer::wire::FileId;
    use dmscope::host::gather::{gather_processes, read_maps};
    use dmscope::host::parsing::InProcess;
    use dmscope::kernel::{Attached, LoadSettings, Scope, Target, Tracer};
    use dmscope::plan::FileImage;
    use dmscope::plan::code::probed_instructions;
    use rustix::mm::{MapFlags, ProtFlags, mmap};

    use super::*;

    /// A big program with other code than the C library at the same places.
    const PROGRAM: &str = "/bin/bash";
    const BREAKPOINT: u8 = 0xcc;

    /// Maps a file as code, as a job does with a library, for as long as this process lives.
    fn map(path: &Path) -> Result<()> {
        let file = File::open(path)?;
        let len = usize::try_from(file.metadata()?.len())?;
        let protection = ProtFlags::READ | ProtFlags::EXEC;
        // SAFETY: the kernel chooses a place where nothing is, and nothing there is read or run.
        unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE, file.as_fd(), 0)? };
        Ok(())
    }

    fn code_of_libc() -> Result<(PathBuf, u64, u64, u64)> {
        let mappings = read_maps(std::process::id())?;
        let libc = mappings.iter().find(|m| m.exec && m.name.contains("/libc.so")).context("no C library")?;
        Ok((PathBuf::from(&libc.name), libc.start, libc.end - libc.start, libc.offset_bytes))
    }

    fn probe(file: FileId, offset_bytes: u64) -> Probe {
        Probe {
            place: ProbePlace::SingleStep,
            ..Probe::at(1, file, offset_bytes, ProbeClass::Call, "MPI_Barrier")
        }
    }

    /// A place with an instruction in both files, but not the same one.
    fn place(program: &[u8], libc: &[u8], code: std::ops::Range<u64>) -> Option<u64> {
        let is_place = |at: &u64| {
            let at = *at as usize;
            let len = |file: &[u8]| file.get(at..).and_then(dmscope::elf::instruction_len);
            // A push of a register: the kernel takes a probe on any of them.
            let is_push = |file: &[u8]| file.get(at).is_some_and(|byte| (0x50..0x58).contains(byte));
            is_push(program) && is_push(libc) && program[at] != libc[at] && len(program) == Some(1)
        };
        code.into_iter().find(is_place)
    }

    /// Makes a plan of a mapped file, has the file changed, and puts the probe in. Gives what became of it, and the C
    /// library's byte at the same place as it is in this process.
    fn attach_after(change: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<(Attached, u8)> {
        let folder = TempDir::new()?;
        let library = folder.path().join("libplanted.so");
        fs::copy(PROGRAM, &library)?;
        map(&library)?;
        let gathered = gather_processes(&[std::process::id()], &BTreeSet::new(), &mut InProcess)?;
        let found = gathered.files.iter().find(|f| Path::new(&f.path) == library).context("not mapped")?;
        let (id, path, is_program) = (found.id, found.path.clone(), found.is_program);
        let image = FileImage { id, path, is_program, contents: found.file.read_image()? };
        let (libc, start, len, offset) = code_of_libc()?;
        let (program, libc_bytes) = (fs::read(PROGRAM)?, fs::read(&libc)?);
        let at = place(&program, &libc_bytes, offset..offset + len).context("no such place")?;
        let plan = Plan { probes: vec![probe(id, at)], ..Plan::default() };
        let target = Target {
            file: Arc::clone(&gathered.attach[&id].file),
            code: probed_instructions(&plan.probes, &[image])[&id].clone(),
            scope: Scope::EveryProcess,
        };
        change(&library, &libc)?;
        let mut tracer = Tracer::load(LoadSettings::default())?;
        let attached = tracer.attach(&plan, &BTreeMap::from([(id, target)]));
        let mut byte = [0];
        File::open("/proc/self/mem")?.read_exact_at(&mut byte, start + at - offset)?;
        tracer.detach_all();
        Ok((attached, byte[0]))
    }

    #[test]
    fn a_library_that_becomes_a_link_to_the_c_library_gives_it_no_probe() -> Result<()> {
        let swap = |library: &Path, libc: &Path| {
            fs::remove_file(library)?;
            Ok(symlink(libc, library)?)
        };
        let (attached, byte) = attach_after(swap)?;
        ensure!(byte != BREAKPOINT, "a probe was put into the C library");
        ensure!(attached.failed.is_empty() && attached.probes == 1, "{attached:?}");
        Ok(())
    }

    #[test]
    fn a_library_that_is_written_anew_after_the_plan_gets_no_probe() -> Result<()> {
        let rewrite = |library: &Path, libc: &Path| {
            let mut file = fs::OpenOptions::new().write(true).truncate(true).open(library)?;
            Ok(file.write_all(&fs::read(libc)?)?)
        };
        let (attached, _) = attach_after(rewrite)?;
        let [(_, why)] = &attached.failed[..] else { anyhow::bail!("{attached:?}") };
        ensure!(attached.probes == 0 && why.contains("changed"), "{why}");
        Ok(())
    }
}
