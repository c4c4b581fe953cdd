//! `nodes`: jobs on many nodes, over a real bus.

use std::time::Duration;

use anyhow::Result;
use live::{BusServer, Dmscope};
use serde_json::Value;

use crate::generate::{GeneratedJob, InjectedFault, Standstill};
use crate::options::BenchOptions;
use crate::results::{ResultTable, Section};
use crate::simulated::{Fleet, FleetJob};

const RANKS_OF_A_NODE: u32 = 64;

/// Watches made-up jobs on more and more nodes.
///
/// # Errors
/// No server, or a node failed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let mut section = Section::new("nodes", "Jobs on many nodes");
    let nodes: u32 = std::env::var("NODES").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let _ = options;
    run(nodes)?;
    section.tables.push(ResultTable::new(&["x"]));
    Ok(section)
}

fn job(nodes: u32, gap_of_a_rank_ns: u64) -> FleetJob {
    let ranks = nodes * RANKS_OF_A_NODE;
    let generated = GeneratedJob {
        nodes,
        fault: InjectedFault::Seeded { repeats: ranks / 3, misplaced: ranks / 2 + 5 },
        width: Some(RANKS_OF_A_NODE),
        streams: true,
        steps_per_reduction: 4,
        gap_of_a_rank_ns,
        ..GeneratedJob::halo(ranks, u64::MAX)
    };
    FleetJob { generated, standstill: Standstill { cycle: [3, ranks - 7] } }
}

fn run(nodes: u32) -> Result<()> {
    let server = BusServer::on_loopback()?;
    let begun = std::time::Instant::now();
    let fleet = Fleet::start(job(nodes, 50_000_000), &server)?;
    eprintln!("connected {:?}", begun.elapsed());
    let mut session =
        Dmscope::command("attach", [fleet.job()]).args(server.options("root")).json().spawn()?;
    session.set_patience(Duration::from_secs(100));
    fleet.wait_until_open(nodes as usize, Duration::from_secs(60))?;
    eprintln!("open {:?}", begun.elapsed());
    let begins = fleet.begin(Duration::from_secs(4));
    let finding = session.wait_for_alert(|f| f["evidence"]["kind"] == "odd_chain");
    let show = |f: &anyhow::Result<Value>| match f {
        Ok(f) => eprintln!("{}", f.to_string().chars().take(1500).collect::<String>()),
        Err(e) => eprintln!("{e:#}"),
    };
    show(&finding);
    eprintln!("odd chain {:?}", begins.elapsed());
    let finding = session.wait_for_alert(|f| f["evidence"]["kind"] == "odd_rank");
    show(&finding);
    eprintln!("odd rank {:?} pass {:?}", begins.elapsed(), fleet.take_longest_pass());
    let used = fleet.used();
    eprintln!("{used:?} {:?}", server.carried()?);
    let stands = fleet.stand();
    let finding = session.wait_for_alert(|f| f["evidence"]["kind"] == "hang");
    show(&finding);
    eprintln!("hang {:?} pass {:?}", stands.elapsed(), fleet.take_longest_pass());
    session.interrupt();
    let finished = session.finish()?;
    eprintln!("finished {:?} {}", begun.elapsed(), finished.stderr.join("\n"));
    fleet.finish()
}
