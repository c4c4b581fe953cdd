//! `peers`: what other tools cost that do the nearest thing, in the same run.

mod alongside;
mod otf2;
mod peer;

use anyhow::Result;
use live::MpiImplementation::OpenMpi;

use crate::harness::{AttachedDmscope, Nobody, Workload};
use crate::options::BenchOptions;
use crate::results::{Cell, ResultTable, Samples, Section};

use alongside::Alongside;
use peer::{Folders, PeerTool, Way, peers, why_not};

const ROUNDS: usize = 2;

/// Jobs by name of their column; the slow tools run the small ones only.
fn jobs(options: BenchOptions) -> Result<Vec<(Workload, bool)>> {
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

/// Runs each job without any tool and with each of them, in turn.
///
/// # Errors
/// The jobs without any tool, or dmscope, failed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let folders = Folders::new()?;
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
    let mut table = ResultTable { columns, rows: Vec::new() };
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

/// What the tools made of one job.
struct PeerFigures {
    plain: Samples,
    /// By peer; empty if it was not run.
    ratios: Vec<Result<Samples, String>>,
}

fn measure_job(
    job: &Workload,
    is_small: bool,
    peers: &[PeerTool],
    missing: &[Option<String>],
    folders: &Folders,
    options: BenchOptions,
) -> Result<PeerFigures> {
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
    Ok(PeerFigures { plain, ratios })
}

fn run(job: &Workload, peer: &PeerTool) -> Result<f64> {
    match &peer.way {
        Way::Dmscope => job.seconds(&mut AttachedDmscope::new(&[])?),
        Way::Alongside(tool) => job.seconds(&mut Alongside::new(*tool)?),
        Way::Through(wrapper) => job.through(wrapper).seconds(&mut Nobody),
    }
}

/// Bytes on disk for each event, of the tape and of OTF2, of the same jobs.
fn sizes(folders: &Folders, options: BenchOptions) -> Result<ResultTable> {
    let mut table = ResultTable::new(&[
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
        let mut attached = AttachedDmscope::new(&[])?;
        job.seconds(&mut attached)?;
        let seen = attached.seen;
        let mut cells = vec![
            Cell::value(seen.records as f64, 0),
            Cell::value(seen.tape_bytes as f64 / seen.records as f64, 2),
        ];
        match otf2::bytes_and_events(&job, folders) {
            Ok((bytes, events)) => {
                cells.extend([Cell::value(events as f64, 0), Cell::value(bytes as f64 / events as f64, 2)]);
            }
            Err(error) => cells.extend([Cell::text(format!("{error:#}")), Cell::text("–")]),
        }
        table.row(job.name, cells);
    }
    Ok(table)
}
