//! `nodes`: jobs on many nodes, over a real bus.

use std::cell::Cell;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use live::{BusServer, Dmscope, RunningSession};
use serde_json::Value;

use crate::generate::{GeneratedJob, InjectedFault, Standstill};
use crate::options::BenchOptions;
use crate::results::{Cell as Figure, RegressionBound, ResultTable, Section};
use crate::simulated::{Fleet, FleetJob, FleetUse};

const RANKS_OF_A_NODE: u32 = 64;
/// A rank writes a record about so often.
const GAP_NS: u64 = 200_000_000;
/// The same on a busy node: 100,000 records a second.
const BUSY_GAP_NS: u64 = 640_000;
/// What is measured begins so long after the first findings.
const SETTLING: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(10);
/// How long findings are waited for: at this rate a rank makes the 50 chains that it takes to be compared in about 48 seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// From the last call of the job to the verdict over all ranks.
const MOST_VERDICT_S: f64 = 15.0;
/// Of what a node costs among many, to what it costs among few.
const MOST_GROWTH: f64 = 1.2;

/// Watches made-up jobs on more and more nodes.
///
/// # Errors
/// No server, or a node failed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let mut section = Section::new("nodes", "Jobs on many nodes");
    section.note(format!(
        "Made-up halo exchanges, {RANKS_OF_A_NODE} ranks a node, each node's upper and lower neighbours on two other nodes over TCP; \
         each rank writes 5 records a second, so that a thousand nodes share two cores. **Real**: the analysis of every node and its letters, samples by the real schedule, \
         everything that is sent and its form, a connection for each node, `nats-server` with the shipped set-up, `dmscope attach`. \
         **Made up**: records, samples, processes; agent and session of a node share a connection; all nodes, the server and the \
         coordinator share this machine's cores. Rates and settings are the same for each number of nodes: nodes tell their counts \
         as often, and have their turn as often, as they do among 1,024. Processor time is that of the process with all nodes, \
         without making records up, and memory is what that process has more than before it had any, both by the number of nodes. A rank that posts again and again, one that sends from a wrong place to another node, and in the end two \
         ranks of different nodes that wait for each other, and all others for them in MPI_Allreduce."
    ));
    let usual: &[u32] = if options.quick { &[4, 16] } else { &[16, 64, 256, 1024] };
    let counts = if options.nodes.is_empty() { usual } else { options.nodes };
    let mut all = Vec::new();
    for &nodes in counts {
        eprintln!("nodes: {nodes} …");
        all.push(watched(nodes, GAP_NS)?);
    }
    section.tables.push(costs(&all));
    section.tables.push(verdicts(&all));
    if !options.nodes.is_empty() {
        add_bounds(&mut section, &all);
        return Ok(section);
    }
    let busy = watched(if options.quick { 4 } else { 8 }, BUSY_GAP_NS)?;
    section.note("The last table: nodes with 100,000 records a second each.");
    section.tables.push(costs(std::slice::from_ref(&busy)));
    add_bounds(&mut section, &all);
    add_findings(&mut section, &busy);
    Ok(section)
}

/// What was measured of a job.
struct WatchedJob {
    nodes: u32,
    /// Of one node, a second.
    up_messages: f64,
    up_bytes: f64,
    letters: f64,
    letter_bytes: f64,
    node_cpu: f64,
    node_mib: f64,
    /// Processor time of others, of a core.
    coordinator_cpu: f64,
    server_cpu: f64,
    coordinator_peak_mib: f64,
    server_out_messages: f64,
    /// How long a turn of all nodes took at most.
    longest_pass_ms: f64,
    /// From the beginning of the fault to its finding, if that came and names the right rank.
    chain_s: Option<f64>,
    rank_s: Option<f64>,
    hang_s: Option<f64>,
    /// Processor time of the coordinator from the beginning of that fault to then.
    hang_cpu_s: f64,
    /// The coordinator's largest finding as JSON.
    finding_bytes: usize,
}

fn job(nodes: u32, gap_of_a_rank_ns: u64) -> FleetJob {
    let ranks = nodes * RANKS_OF_A_NODE;
    let generated = GeneratedJob {
        nodes,
        fault: InjectedFault::Seeded { repeats: repeating(nodes), misplaced: misplaced(nodes) },
        width: Some(RANKS_OF_A_NODE),
        streams: true,
        steps_per_reduction: 4,
        gap_of_a_rank_ns,
        ..GeneratedJob::halo(ranks, u64::MAX)
    };
    FleetJob { generated, standstill: Standstill { cycle: cycle(nodes) } }
}

fn repeating(nodes: u32) -> u32 {
    nodes * RANKS_OF_A_NODE / 3
}

fn misplaced(nodes: u32) -> u32 {
    nodes * RANKS_OF_A_NODE / 2 + 5
}

fn cycle(nodes: u32) -> [u32; 2] {
    [3, nodes * RANKS_OF_A_NODE - 7]
}

fn watched(nodes: u32, gap_ns: u64) -> Result<WatchedJob> {
    let without_nodes_mib = resident_mib(std::process::id())?;
    let server = BusServer::on_loopback()?;
    let server_pid = server.pid().context("a server without a process")?;
    let fleet = Fleet::start(job(nodes, gap_ns), &server)?;
    // What each listens to is known to the server by then.
    std::thread::sleep(Duration::from_secs(1));
    let attach = Dmscope::command("attach", [fleet.job()]).args(server.options("root"));
    let mut session = attach.json().args(["--quiet", "--budget", "none"]).spawn()?;
    session.set_patience(PATIENCE);
    fleet.wait_until_open(nodes as usize, PATIENCE)?;
    let begins = fleet.begin(Duration::from_secs(4));
    let chain = when(&session, begins, |f| is_chain(f, misplaced(nodes)));
    let rank = when(&session, begins, |f| is_rank(f, repeating(nodes)));
    std::thread::sleep(SETTLING);
    fleet.take_longest_pass();
    let before = (fleet.used(), cpu_s(session.pid())?, cpu_s(server_pid)?, server.carried()?);
    std::thread::sleep(MEASURED);
    let after = (fleet.used(), cpu_s(session.pid())?, cpu_s(server_pid)?, server.carried()?);
    let pass = fleet.take_longest_pass();
    let node_mib = (resident_mib(std::process::id())? - without_nodes_mib) / f64::from(nodes);
    let cpu_before_s = cpu_s(session.pid())?;
    let stands = fleet.stand();
    let finding_bytes = Cell::new(0);
    let hang = when(&session, stands, |f| {
        finding_bytes.set(finding_bytes.get().max(f.to_string().len()));
        is_deadlock(f, cycle(nodes), nodes * RANKS_OF_A_NODE)
    });
    let hang_cpu_s = cpu_s(session.pid())? - cpu_before_s;
    let peak = status_mib(session.pid(), "VmHWM:")?;
    drop(session);
    fleet.finish()?;
    let s = (after.0.at - before.0.at).as_secs_f64();
    let of_a_node =
        |count: fn(&FleetUse) -> u64| (count(&after.0) - count(&before.0)) as f64 / s / f64::from(nodes);
    Ok(WatchedJob {
        nodes,
        up_messages: of_a_node(|used| used.sent.up_messages),
        up_bytes: of_a_node(|used| used.sent.up_bytes),
        letters: of_a_node(|used| used.sent.letters),
        letter_bytes: of_a_node(|used| used.sent.letter_bytes),
        node_cpu: of_a_node(|used| used.cpu_ns) / 1e9,
        node_mib,
        coordinator_cpu: (after.1 - before.1) / s,
        server_cpu: (after.2 - before.2) / s,
        coordinator_peak_mib: peak,
        server_out_messages: (after.3.out_messages - before.3.out_messages) as f64 / s,
        longest_pass_ms: pass.as_secs_f64() * 1e3,
        chain_s: chain,
        rank_s: rank,
        hang_s: hang,
        hang_cpu_s,
        finding_bytes: finding_bytes.get(),
    })
}

/// How long after a time a finding came; none: it did not.
fn when(session: &RunningSession, since: Instant, wanted: impl Fn(&Value) -> bool) -> Option<f64> {
    let found = session.wait_for_alert(wanted).ok();
    let took = found.map(|_| since.elapsed().as_secs_f64());
    eprintln!(
        "nodes: a fault: {}",
        took.map_or_else(|| "not found".to_owned(), |s| format!("found after {s:.1} s"))
    );
    took
}

fn is_chain(finding: &Value, rank: u32) -> bool {
    finding["evidence"]["kind"] == "odd_chain"
        && finding["severity"] == "warning"
        && finding["who"][0]["rank"] == rank
}

fn is_rank(finding: &Value, rank: u32) -> bool {
    finding["evidence"]["kind"] == "odd_rank" && finding["who"][0]["rank"] == rank
}

/// A deadlock of these two, with all others held up.
fn is_deadlock(finding: &Value, cycle: [u32; 2], size: u32) -> bool {
    let evidence = &finding["evidence"];
    let ranks = evidence["ranks"].as_array().map_or(&[][..], Vec::as_slice);
    let at_fault = ranks.iter().filter(|rank| rank["at_fault"] == true);
    let groups = evidence["groups"].as_array().map_or(&[][..], Vec::as_slice);
    let in_groups: u64 =
        groups.iter().flat_map(|group| group["ranks"].as_array()).flatten().map(run_length).sum();
    evidence["fault"] == "deadlock"
        && (ranks.len() as u64).max(in_groups) == u64::from(size)
        && at_fault.map(|rank| rank["who"]["rank"].clone()).eq(cycle.map(Value::from))
}

/// How many ranks an entry of a list stands for.
fn run_length(entry: &Value) -> u64 {
    let bound = |at: usize| entry["ranks"][at].as_u64();
    bound(0).zip(bound(1)).map_or(1, |(first, last)| last - first + 1)
}

fn costs(all: &[WatchedJob]) -> ResultTable {
    let mut table = ResultTable::new(&[
        "nodes",
        "a node: messages/s",
        "bytes/s",
        "letters/s",
        "bytes/s in letters",
        "% of a core",
        "MiB",
        "coordinator: % of a core",
        "peak, MiB",
        "server: % of a core",
        "messages/s out",
        "longest turn, ms",
    ]);
    for one in all {
        table.row(
            one.nodes.to_string(),
            vec![
                Figure::value(one.up_messages, 1),
                Figure::value(one.up_bytes, 0),
                Figure::value(one.letters, 1),
                Figure::value(one.letter_bytes, 0),
                Figure::value(one.node_cpu * 1e2, 3),
                Figure::value(one.node_mib, 2),
                Figure::value(one.coordinator_cpu * 1e2, 1),
                Figure::value(one.coordinator_peak_mib, 0),
                Figure::value(one.server_cpu * 1e2, 1),
                Figure::value(one.server_out_messages, 0),
                Figure::value(one.longest_pass_ms, 0),
            ],
        );
    }
    table
}

fn verdicts(all: &[WatchedJob]) -> ResultTable {
    let mut table = ResultTable::new(&[
        "nodes",
        "ranks",
        "wrong buffer across nodes, s",
        "odd rank, s",
        "deadlock of all ranks, s",
        "coordinator's processor time for that, s",
        "largest finding, KiB of JSON",
    ]);
    let cell = |found: Option<f64>| found.map_or_else(|| Figure::text("not found"), |s| Figure::value(s, 1));
    for one in all {
        let ranks = Figure::value(f64::from(one.nodes * RANKS_OF_A_NODE), 0);
        let (cpu, kib) =
            (Figure::value(one.hang_cpu_s, 1), Figure::value(one.finding_bytes as f64 / 1024.0, 0));
        let found = [cell(one.chain_s), cell(one.rank_s), cell(one.hang_s)];
        table.row(one.nodes.to_string(), std::iter::once(ranks).chain(found).chain([cpu, kib]).collect());
    }
    table
}

/// Each fault is found, and the verdict in time.
fn add_findings(section: &mut Section, one: &WatchedJob) {
    let missing = [one.chain_s, one.rank_s, one.hang_s].iter().filter(|found| found.is_none()).count();
    bound(section, format!("faults not found on {} nodes", one.nodes), missing as f64, 0.0);
    let verdict_s = one.hang_s.unwrap_or(f64::NAN);
    bound(section, format!("seconds to the verdict on {} nodes", one.nodes), verdict_s, MOST_VERDICT_S);
}

fn bound(section: &mut Section, what: String, value: f64, at_most: f64) {
    section.checks.push(RegressionBound { what, value, at_most });
}

fn add_bounds(section: &mut Section, all: &[WatchedJob]) {
    all.iter().for_each(|one| add_findings(section, one));
    let (Some(few), Some(many)) = (all.first(), all.last()) else { return };
    let growth = [
        ("bytes", few.up_bytes + few.letter_bytes, many.up_bytes + many.letter_bytes),
        ("messages", few.up_messages + few.letters, many.up_messages + many.letters),
        ("processor time", few.node_cpu, many.node_cpu),
        ("memory", few.node_mib, many.node_mib),
    ];
    for (what, few_use, many_use) in growth {
        let what = format!("{what} of a node among {}, of what they are among {}", many.nodes, few.nodes);
        bound(section, what, many_use / few_use, MOST_GROWTH);
    }
}

/// Processor time of a process so far.
fn cpu_s(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok());
    let all = ticks(11).zip(ticks(12)).context("/proc/PID/stat is not as expected")?;
    Ok((all.0 + all.1) / rustix::param::clock_ticks_per_second() as f64)
}

fn resident_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmRSS:")
}

fn status_mib(pid: u32, what: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(what)).context("no such line of a status")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}
