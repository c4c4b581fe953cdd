//! `peers`: what other tools cost that do the nearest thing, in the same run.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use live::MpiImplementation::OpenMpi;
use tempfile::TempDir;

use crate::alongside::{Alongside, FUNCTIONS, Tool, mount_tracefs};
use crate::kinds::Options;
use crate::report::{Cell, Section, Table};
use crate::samples::Samples;
use crate::watched::Attached;
use crate::workload::{Nobody, Workload};

const ROUNDS: usize = 2;

/// How a tool is put to work.
enum Way {
    /// dmscope, everything on.
    Dmscope,
    /// It attaches to the ranks.
    Alongside(Tool),
    /// It starts the ranks.
    Through(Vec<String>),
}

/// A tool, what it does, and the program without which it is not there.
struct Peer {
    name: &'static str,
    does: &'static str,
    needs: &'static str,
    way: Way,
    /// So slow that only the smallest jobs are run.
    is_slow: bool,
}

/// Where tools that are told to may write.
struct Folders {
    all: TempDir,
}

impl Folders {
    fn of(&self, name: &str) -> Result<PathBuf> {
        let folder = self.all.path().join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Throws away what tools wrote there: a second trace beside the first is an error to some.
    fn empty(&self, name: &str) -> Result<()> {
        fs::remove_dir_all(self.of(name)?)?;
        self.of(name).map(|_| ())
    }

    fn text(&self, name: &str) -> Result<String> {
        Ok(self.of(name)?.display().to_string())
    }
}

fn peers(folders: &Folders) -> Result<Vec<Peer>> {
    let through = |words: &[&str]| Way::Through(words.iter().map(|&word| word.to_owned()).collect());
    let logger = format!("LD_PRELOAD={}/logger.so", folders.text("logger")?);
    let logs = format!("PMPI_LOGGER_FOLDER={}", folders.text("logger")?);
    // Ranks must not share a folder; the program and its arguments come as the shell's own.
    let uftrace = format!(
        "exec uftrace record --force --no-pager -d {}/$OMPI_COMM_WORLD_RANK \"$@\"",
        folders.text("uftrace")?
    );
    let calls = FUNCTIONS.join("+");
    let peer = |name, does, needs, way| Peer { name, does, needs, way, is_slow: false };
    Ok(vec![
        peer("dmscope", "every copy, call and allocation, analysed and recorded", "true", Way::Dmscope),
        peer(
            "PMPI logger (ours, C, preloaded)",
            "a record for each of 12 MPI calls",
            "mpicc.openmpi",
            through(&["env", &logs, &logger]),
        ),
        peer(
            "EZTrace (preloaded, OTF2)",
            "all MPI calls, entry and return",
            "eztrace",
            through(&["eztrace", "-t", "openmpi", "-o", &folders.text("eztrace")?]),
        ),
        peer(
            "bpftrace",
            "a line for each of the same 12 MPI calls, at the entry",
            "bpftrace",
            Way::Alongside(Tool::Bpftrace),
        ),
        peer(
            "perf, uprobes",
            "an event for each of the same 12 MPI calls, at the entry",
            "perf",
            Way::Alongside(Tool::Perf),
        ),
        peer(
            "uftrace",
            "all functions of the program and its calls of libraries",
            "uftrace",
            through(&["sh", "-c", &uftrace, "sh"]),
        ),
        Peer {
            is_slow: true,
            ..peer(
                "ltrace",
                "counts the same 12 MPI calls",
                "ltrace",
                through(&["ltrace", "-c", "-o", "/dev/null", "-e", &calls]),
            )
        },
        Peer {
            is_slow: true,
            ..peer(
                "valgrind --tool=none",
                "nothing: dynamic translation alone, as Pin needs it",
                "valgrind",
                through(&["valgrind", "--tool=none", "-q"]),
            )
        },
    ])
}

/// Jobs by name of their column; the slow tools run the small ones only.
fn jobs(options: Options) -> Result<Vec<(Workload, bool)>> {
    let halo = |iterations| {
        let arguments = ["--halo-bytes", "4096", "--row-bytes", "4096", "--iterations", iterations];
        Workload::own("halo, 4 KiB", OpenMpi, "halo2d", 4, &arguments)
    };
    let pingpong =
        |iterations| Workload::own("ping-pong, 8 B", OpenMpi, "pingpong", 2, &["--iterations", iterations]);
    Ok(if options.quick {
        vec![(halo("500")?, true), (pingpong("50000")?, true)]
    } else {
        vec![
            (Workload::hpcc(200), true),
            (Workload::hpcc(1000), false),
            (halo("3000")?, true),
            (pingpong("50000")?, true),
        ]
    })
}

/// Measures.
///
/// # Errors
/// The jobs without any tool, or dmscope, failed.
pub fn measure(options: Options) -> Result<Section> {
    let folders = Folders { all: TempDir::with_prefix("bench-")? };
    let mut section = Section::new("peers", "Beside other tools");
    section.note(format!(
        "Wall time of the job with the tool / without, {} rounds, all tools in turn in each. Tools that attach are \
         in place before the time begins; of those that start the ranks, their start and end counts with hpcc.",
        options.runs(ROUNDS, 1)
    ));
    let peers = peers(&folders)?;
    let missing: Vec<Option<String>> =
        peers.iter().map(|peer| why_not(peer, options, &folders).err()).collect();
    let jobs = jobs(options)?;
    let mut columns = vec!["tool".to_owned(), "what it does".to_owned()];
    columns.extend(jobs.iter().map(|(job, _)| job.name.clone()));
    let mut table = Table { columns, rows: Vec::new() };
    let mut figures = Vec::new();
    for (job, is_small) in &jobs {
        figures.push(measure_job(job, *is_small, &peers, &missing, &folders, options)?);
    }
    let plain = figures.iter().map(|figure| Cell::runs(&figure.plain, 2));
    table.row("none", [Cell::text("seconds")].into_iter().chain(plain).collect());
    for (index, peer) in peers.iter().enumerate() {
        let cells = figures.iter().map(|figure| match (&missing[index], &figure.ratios[index]) {
            (Some(why), _) => Cell::text(why.clone()),
            (None, Ok(samples)) if samples.is_empty() => Cell::text("too slow for it"),
            (None, Ok(samples)) => Cell::runs(samples, 2),
            (None, Err(why)) => Cell::text(why.clone()),
        });
        table.row(peer.name, [Cell::text(peer.does)].into_iter().chain(cells).collect());
    }
    section.tables.push(table);
    section.tables.push(sizes(&folders, options)?);
    Ok(section)
}

/// Fails with the reason if a tool cannot be used here.
fn why_not(peer: &Peer, options: Options, folders: &Folders) -> Result<(), String> {
    if options.quick && peer.is_slow {
        return Err("not in a quick run".into());
    }
    if !is_installed(peer.needs) {
        return Err(format!("{} is not installed", peer.needs));
    }
    let prepared = match &peer.way {
        Way::Alongside(_) => mount_tracefs(),
        Way::Through(_) if peer.needs == "mpicc.openmpi" => {
            folders.of("logger").and_then(|to| build_logger(&to))
        }
        _ => Ok(()),
    };
    prepared.map_err(|error| format!("{error:#}"))
}

fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

fn build_logger(folder: &Path) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/c/pmpi_logger.c");
    let output = Command::new("mpicc.openmpi")
        .args(["-std=c11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&folder.join("logger.so"), &source])
        .output()?;
    ensure!(
        output.status.success(),
        "the logger cannot be built: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// What the tools made of one job.
struct Figure {
    plain: Samples,
    /// By peer; empty if it was not run.
    ratios: Vec<Result<Samples, String>>,
}

fn measure_job(
    job: &Workload,
    is_small: bool,
    peers: &[Peer],
    missing: &[Option<String>],
    folders: &Folders,
    options: Options,
) -> Result<Figure> {
    let mut plain = Samples::default();
    let mut ratios: Vec<_> = peers.iter().map(|_| Ok(Samples::default())).collect();
    for _ in 0..options.runs(ROUNDS, 1) {
        let base = job.seconds(&mut Nobody)?;
        plain.push(base);
        for (index, peer) in peers.iter().enumerate() {
            if missing[index].is_some() || (peer.is_slow && !is_small) {
                continue;
            }
            let Ok(samples) = &mut ratios[index] else { continue };
            let result = run(job, peer);
            folders.empty("eztrace")?;
            folders.empty("uftrace")?;
            match result {
                Ok(seconds) => {
                    eprintln!("bench: {}: {}: {:.2}", job.name, peer.name, seconds / base);
                    samples.push(seconds / base);
                }
                // A peer that fails is a line in the table; dmscope must not.
                Err(error) if !matches!(peer.way, Way::Dmscope) => {
                    eprintln!("bench: {}: {}: {error:#}", job.name, peer.name);
                    ratios[index] = Err("failed".to_owned());
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Figure { plain, ratios })
}

fn run(job: &Workload, peer: &Peer) -> Result<f64> {
    match &peer.way {
        Way::Dmscope => job.seconds(&mut Attached::new(&[])?),
        Way::Alongside(tool) => job.seconds(&mut Alongside::new(*tool)?),
        Way::Through(wrapper) => job.through(wrapper).seconds(&mut Nobody),
    }
}

/// Bytes on disk for each event, of the tape and of OTF2, of the same jobs.
fn sizes(folders: &Folders, options: Options) -> Result<Table> {
    let mut table = Table::new(&[
        "bytes on disk",
        "our records",
        "bytes a record",
        "OTF2 events (MPI calls only)",
        "bytes an event",
    ]);
    let halo = ["--halo-bytes", "4096", "--row-bytes", "4096", "--iterations", "500"];
    let mut jobs = vec![Workload::own("halo, 4 KiB", OpenMpi, "halo2d", 4, &halo)?];
    if !options.quick {
        jobs.push(Workload::hpcc(400));
    }
    for job in jobs {
        let mut attached = Attached::new(&[])?;
        job.seconds(&mut attached)?;
        let seen = attached.seen;
        let mut cells = vec![
            Cell::value(seen.records as f64, 0),
            Cell::value(seen.tape_bytes as f64 / seen.records as f64, 2),
        ];
        match otf2(&job, folders) {
            Ok((bytes, events)) => {
                cells.extend([Cell::value(events as f64, 0), Cell::value(bytes as f64 / events as f64, 2)]);
            }
            Err(error) => cells.extend([Cell::text(format!("{error:#}")), Cell::text("–")]),
        }
        table.row(job.name, cells);
    }
    Ok(table)
}

/// Bytes and events of a job's OTF2 trace.
fn otf2(job: &Workload, folders: &Folders) -> Result<(u64, u64)> {
    for program in ["eztrace", "otf2-print"] {
        ensure!(is_installed(program), "{program} is not installed");
    }
    folders.empty("eztrace")?;
    let wrapper = ["eztrace", "-t", "openmpi", "-o", &folders.text("eztrace")?].map(str::to_owned);
    job.through(&wrapper).seconds(&mut Nobody)?;
    let folder = folders.of("eztrace")?;
    let anchor = file_below(&folder, "otf2")?.context("EZTrace left no OTF2 trace")?;
    let mut printing = Command::new("otf2-print")
        .arg(anchor)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start otf2-print")?;
    let printed = printing.stdout.take().context("output of otf2-print")?;
    let mut events = 0;
    for line in BufReader::new(printed).lines() {
        events += u64::from(is_event(&line?));
    }
    ensure!(printing.wait()?.success() && events > 0, "otf2-print found no events");
    Ok((folder_bytes(&folder)?, events))
}

fn file_below(folder: &Path, extension: &str) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if let Some(found) = file_below(&path, extension)? {
                return Ok(Some(found));
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Lines of events begin with a name in capitals and have the number of a location next.
fn is_event(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let name = words.next().is_some_and(|word| word.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    name && words.next().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit()))
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { folder_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_and_attributes_of_otf2_print_are_no_events() {
        assert!(is_event(
            "LEAVE                                 1073741823             58906475  Region: \"MPI_Send\""
        ));
        assert!(!is_event("                 ADDITIONAL ATTRIBUTES: (\"x\")"));
        assert!(!is_event("=== Events ==="));
        assert!(!is_event(
            "Event                                   Location            Timestamp  Attributes"
        ));
        assert!(!is_event(""));
    }
}
