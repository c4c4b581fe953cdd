//! Binaries, libraries and debug data that were made to hurt whoever reads them.
//!
//! Each is mapped by a process that has the environment of a rank: who runs a job can do that.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use live::binary;
use serde_json::Value;
use tempfile::TempDir;

/// Memory that may be written: whoever wants more is gone.
const MOST_BYTES: u64 = 512 << 20;
/// On a machine that does other things too; before, each of these took longer or was never done.
const LONGEST: Duration = Duration::from_secs(8);

/// Maps the first page of each of its arguments as code, says so and waits.
const RANK: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(argv[i], O_RDONLY), 0) == MAP_FAILED) return 1;
    puts("mapped"); fflush(stdout);
    pause();
}"#;

/// A folder with what a hostile user makes.
struct PlantedFiles {
    folder: TempDir,
}

/// A process that maps it.
struct HostileRank(Child);

impl Drop for HostileRank {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What became of dmscope.
struct AnsweredPlan {
    plan: Value,
    took: Duration,
}

impl PlantedFiles {
    fn new() -> Result<Self> {
        // Holes of any length are allowed there.
        Ok(Self { folder: TempDir::new_in("/dev/shm")? })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self, name: &str, source: &str, options: &[&str]) -> Result<PathBuf> {
        let (from, to) = (self.path(name).with_extension("c"), self.path(name));
        fs::write(&from, source)?;
        let done = Command::new("cc").args(options).arg("-o").arg(&to).arg(from).status()?;
        ensure!(done.success(), "cc cannot make {name}");
        Ok(to)
    }

    /// Starts a rank that maps these files.
    fn rank(&self, files: &[&Path]) -> Result<HostileRank> {
        let mut command = Command::new(self.compile("rank", RANK, &["-O1"])?);
        command.env("PMI_RANK", "0").env("PMI_SIZE", "1").args(files).stdout(Stdio::piped());
        let mut rank = HostileRank(command.spawn()?);
        let mut line = String::new();
        BufReader::new(rank.0.stdout.take().context("no output")?).read_line(&mut line)?;
        ensure!(line == "mapped\n", "the rank cannot map its files");
        Ok(rank)
    }

    /// What dmscope says of a rank. On a machine that has just read or written gigabytes, the first run may wait for dmscope
    /// itself to be read: the shortest of a few counts.
    fn plan(rank: &HostileRank) -> Result<AnsweredPlan> {
        let mut answered = Self::plan_once(rank)?;
        for _ in 0..2 {
            if answered.took < LONGEST {
                break;
            }
            answered = Self::plan_once(rank)?;
        }
        Ok(answered)
    }

    fn plan_once(rank: &HostileRank) -> Result<AnsweredPlan> {
        let begin = Instant::now();
        // SAFETY: only asks for a limit of the new process, between fork and exec: nothing is allocated or locked.
        let mut command = Command::new("prlimit");
        command.arg(format!("--data={MOST_BYTES}")).arg(binary()?);
        let output = command.args(["probes", "--json", &rank.0.id().to_string()]).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{}: {said}", output.status);
        Ok(AnsweredPlan { plan: serde_json::from_slice(&output.stdout)?, took: begin.elapsed() })
    }
}

impl AnsweredPlan {
    /// The one message about a file.
    fn says(&self, file: &Path) -> Result<String> {
        let left_out = self.plan["plan"]["left_out"].as_array().context("no list of what is left out")?;
        let name = file.display().to_string();
        let said: Vec<&str> =
            left_out.iter().filter(|l| l["what"] == name).filter_map(|l| l["reason"].as_str()).collect();
        ensure!(said.len() == 1, "{} messages about {name}: {said:?}", said.len());
        Ok(said[0].to_owned())
    }

    /// The rank's own program is planned all the same.
    fn check_the_rest(&self) -> Result<()> {
        let files = self.plan["plan"]["files"].as_array().context("no files")?;
        let is_rank = |file: &&Value| file["path"].as_str().is_some_and(|path| path.ends_with("/rank"));
        ensure!(files.iter().any(|file| is_rank(&file)), "the program is not in the plan");
        ensure!(self.took < LONGEST, "it took {:?}", self.took);
        Ok(())
    }
}

/// The headers of a file with these executable segments: place in the file, address, length.
fn headers(segments: &[(u64, u64, u64)]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    [3_u16, 62, 1, 0].iter().for_each(|half| file.extend(half.to_le_bytes()));
    [0_u64, 64, 0].iter().for_each(|word| file.extend(word.to_le_bytes()));
    let count = segments.len() as u16;
    [0_u16, 0, 64, 56, count, 64, 0, 0].iter().for_each(|half| file.extend(half.to_le_bytes()));
    for (offset, vaddr, len) in segments {
        file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
        [*offset, *vaddr, *vaddr, *len, *len, 4096].iter().for_each(|word| file.extend(word.to_le_bytes()));
    }
    file
}

/// Writes headers, and holes up to a length.
fn write(path: &Path, headers: &[u8], len_bytes: u64) -> Result<File> {
    let mut file = File::options().create(true).truncate(true).read(true).write(true).open(path)?;
    file.write_all(headers)?;
    file.set_len(len_bytes)?;
    Ok(file)
}

#[test]
fn a_file_of_holes_that_is_longer_than_all_memory_is_read_as_far_as_it_is_one() -> Result<()> {
    let attack = PlantedFiles::new()?;
    let library = attack.path("libmpi.so.40");
    write(&library, &headers(&[(0, 0x40_0000, 4096)]), 1 << 62)?;
    let rank = attack.rank(&[&library])?;
    PlantedFiles::plan(&rank)?.check_the_rest()
}

#[test]
fn a_segment_that_is_longer_than_all_memory_is_left_out() -> Result<()> {
    let attack = PlantedFiles::new()?;
    let library = attack.path("libmpi.so.40");
    write(&library, &headers(&[(0, 0x40_0000, 1 << 61)]), 1 << 62)?;
    let rank = attack.rank(&[&library])?;
    let answered = PlantedFiles::plan(&rank)?;
    let said = answered.says(&library)?;
    ensure!(said.contains("no more than 384 are read"), "{said}");
    answered.check_the_rest()
}

#[test]
fn segments_that_overlap_are_looked_at_once() -> Result<()> {
    const LEN: u64 = 16 << 20;
    let attack = PlantedFiles::new()?;
    let library = attack.path("libmpi.so.40");
    let segments: Vec<_> = (0..1000).map(|n| (0, 0x40_0000 + n * LEN, LEN)).collect();
    write(&library, &headers(&segments), LEN)?;
    let rank = attack.rank(&[&library])?;
    PlantedFiles::plan(&rank)?.check_the_rest()
}

/// What MPI_Test hands its answer on to, and that to others: each function of a level calls all of the next.
fn polling_bomb(a_level: usize) -> String {
    let mut code = String::from(".globl PMPI_Init, PMPI_Send, PMPI_Test\nPMPI_Init: ret\nPMPI_Send: ret\n");
    for name in ["PMPI_Init", "PMPI_Send", "PMPI_Test"] {
        code += &format!(".type {name}, @function\n");
    }
    let calls = |level: usize| -> String {
        (0..a_level).map(|n| format!("mov %rbx,%rsi\ncall f{level}_{n}\n")).collect()
    };
    code += &format!("PMPI_Test: push %rbx\nmov %rsi,%rbx\n{}pop %rbx\nret\n", calls(1));
    for level in 1..4 {
        for n in 0..a_level {
            let body = if level == 3 { "movl $1,(%rbx)\nnop\n".to_owned() } else { calls(level + 1) };
            let name = format!("f{level}_{n}");
            code +=
                &format!(".type {name}, @function\n{name}: push %rbx\nmov %rsi,%rbx\n{body}pop %rbx\nret\n");
        }
    }
    format!("__asm__({:?});", code)
}

#[test]
fn functions_that_hand_an_answer_on_to_each_other_are_analysed_once() -> Result<()> {
    let attack = PlantedFiles::new()?;
    let options = ["-shared", "-nostdlib", "-O1"];
    let library = attack.compile("libmpi.so.40", &polling_bomb(250), &options)?;
    let rank = attack.rank(&[&library])?;
    PlantedFiles::plan(&rank)?.check_the_rest()
}

#[test]
fn a_file_that_is_cut_off_after_it_was_mapped_is_left_out() -> Result<()> {
    let attack = PlantedFiles::new()?;
    let library = attack.path("libmpi.so.40");
    let file = write(&library, &headers(&[(0, 0x40_0000, 1 << 20)]), 1 << 20)?;
    // The section table that it says it has.
    file.write_all_at(&0x8_0000_u64.to_le_bytes(), 0x28)?;
    file.write_all_at(&[8, 0, 7, 0], 0x3c)?;
    let rank = attack.rank(&[&library])?;
    file.set_len(100)?;
    let answered = PlantedFiles::plan(&rank)?;
    let said = answered.says(&library)?;
    ensure!(said.contains("damaged"), "{said}");
    answered.check_the_rest()
}

#[test]
fn a_file_that_changes_all_the_time_does_no_harm() -> Result<()> {
    use std::sync::atomic::{AtomicBool, Ordering};
    let attack = PlantedFiles::new()?;
    let library = attack.path("libmpi.so.40");
    let file = write(&library, &headers(&[(0, 0x40_0000, 8 << 20)]), 8 << 20)?;
    let rank = attack.rank(&[&library])?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for len in (0_u64..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                // Some of them fail: nothing is promised to the attacker.
                let _ = file.set_len(if len % 2 == 0 { 5000 } else { 8 << 20 });
            }
        });
        let answered: Result<Vec<AnsweredPlan>> = (0..10).map(|_| PlantedFiles::plan(&rank)).collect();
        stop.store(true, Ordering::Relaxed);
        answered?.iter().try_for_each(AnsweredPlan::check_the_rest)
    })
}

#[test]
fn a_file_that_is_none_is_left_out_and_said_so() -> Result<()> {
    let attack = PlantedFiles::new()?;
    let library = attack.path("libmpi.so.40");
    write(&library, b"UPX! packed as nobody knows", 1 << 20)?;
    let rank = attack.rank(&[&library])?;
    let answered = PlantedFiles::plan(&rank)?;
    let said = answered.says(&library)?;
    ensure!(said.contains("not an x86-64 ELF file"), "{said}");
    answered.check_the_rest()
}
