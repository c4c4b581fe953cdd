//! The engine behind a message library of another shape than MPI, the Multicore Communications API's (MCAPI): endpoints, receives from
//! anybody only, `wait_any` and `test`.
//!
//! The program is that of figure 8 in M. Elwakil, Z. Yang, "Deterministic replay for message-passing based concurrent programs", 2011.

mod front_end;
mod library;
mod perturb;

use std::collections::HashSet;
use std::thread;

use front_end::{Node, NodeRecord, Stop};
use library::{Endpoint, Network, NodeId};
use perturb::Perturbation;

const NODES: u32 = 5;

/// What a node's program got, in order.
type Log = Vec<(&'static str, i64)>;
type Program = fn(NodeId, &mut Node<'_>, &mut Log) -> Result<(), Stop>;

/// Nodes 1 to 5 are 0 to 4 here.
fn figure_8(node: NodeId, at: &mut Node<'_>, log: &mut Log) -> Result<(), Stop> {
    match node {
        0 | 2 => {
            let value = if node == 0 { 1 } else { 10 };
            [1, 3, 4].into_iter().for_each(|to| at.send(to, value));
        }
        1 => {
            let requests = [at.receive_i(), at.receive_i()];
            let (first, value) = at.wait_any(&requests)?;
            log.push(("index", first as i64));
            let other = at.wait(requests[1 - first])?;
            let (a, b) = if first == 0 { (value, other) } else { (other, value) };
            log.extend([("a", a), ("b", b)]);
            // The assertion that holds in one order of arrival only.
            if a <= b {
                return Err(Stop::Failed);
            }
            [3, 4].into_iter().for_each(|to| at.send(to, a * 100 + b));
        }
        3 => {
            let requests = [at.receive_i(), at.receive_i()];
            log.push(("f", at.receive()?));
            let mut in_vain = 0;
            let d = loop {
                match at.test(requests[0])? {
                    Some(value) => break value,
                    None => in_vain += 1,
                }
            };
            log.extend([("in vain", in_vain), ("d", d)]);
            log.push(("e", at.wait(requests[1])?));
        }
        _ => {
            for _ in 0..3 {
                log.push(("received", at.receive()?));
            }
        }
    }
    Ok(())
}

/// The same, but that node 4 first asks for a message before it posts a receive.
fn another_program(node: NodeId, at: &mut Node<'_>, log: &mut Log) -> Result<(), Stop> {
    if node != 3 {
        return figure_8(node, at, log);
    }
    for _ in 0..3 {
        log.push(("received", at.receive()?));
    }
    Ok(())
}

/// How a run went, by node.
struct Run {
    logs: Vec<Log>,
    stops: Vec<Option<Stop>>,
    records: Vec<NodeRecord>,
}

fn run(program: Program, records: Option<&[NodeRecord]>, seed: u64) -> Run {
    let network = Network::new(NODES as usize);
    let one = |number: NodeId| {
        let seed = seed * u64::from(NODES) + u64::from(number);
        let endpoint = Endpoint::open(&network, number, Perturbation::new(seed));
        let mut node = match records {
            None => Node::recorded(endpoint),
            Some(records) => Node::replayed(endpoint, records[number as usize].clone()),
        };
        let mut log = Log::new();
        let stop = program(number, &mut node, &mut log).err();
        if stop.is_some() {
            network.abort();
        }
        let (record, stop) = match (node.end(stop.is_none()), stop) {
            (Ok(record), stop) => (record, stop),
            (Err(end), None) => (NodeRecord::default(), Some(end)),
            (Err(_), stop) => (NodeRecord::default(), stop),
        };
        (log, stop, record)
    };
    let results: Vec<_> = thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..NODES).map(|node| scope.spawn(move || one(node))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no node panics")).collect()
    });
    let mut run = Run { logs: Vec::new(), stops: Vec::new(), records: Vec::new() };
    for (log, stop, record) in results {
        run.logs.push(log);
        run.stops.push(stop);
        run.records.push(record);
    }
    run
}

#[test]
fn the_published_program_gets_the_same_messages_in_every_replay() {
    let (mut seen, mut failed) = (HashSet::new(), 0);
    for seed in 0..60 {
        let recorded = run(figure_8, None, seed);
        let has_failed = recorded.stops[1] == Some(Stop::Failed);
        failed += usize::from(has_failed);
        for replay in 0..5 {
            let replayed = run(figure_8, Some(&recorded.records), 1000 + seed * 5 + replay);
            assert_eq!(replayed.stops[1], recorded.stops[1], "seed {seed}, replay {replay}");
            for (node, (own, other)) in replayed.logs.iter().zip(&recorded.logs).enumerate() {
                // Nodes that were told to stop in the middle may have come farther in one of both.
                let shared = if has_failed { own.len().min(other.len()) } else { other.len() };
                assert_eq!(own[..shared], other[..shared], "node {node}, seed {seed}, replay {replay}");
            }
        }
        seen.insert(recorded.logs);
    }
    assert!(seen.len() > 5 && failed > 0 && failed < 60, "{} outcomes, {failed} failed", seen.len());
}

#[test]
fn another_program_than_the_recorded_one_is_a_divergence() {
    let recorded = (0..).map(|seed| run(figure_8, None, seed)).find(|run| run.stops == vec![None; 5]);
    let records = recorded.expect("it goes on until one ends well").records;
    let replayed = run(another_program, Some(&records), 7);
    assert!(matches!(replayed.stops[3], Some(Stop::Diverged(_))), "{:?}", replayed.stops);
}

#[test]
fn an_outcome_takes_two_bytes_at_most() {
    let recorded = (0..).map(|seed| run(figure_8, None, seed)).find(|run| run.stops == vec![None; 5]);
    let bytes: usize =
        recorded.expect("it goes on until one ends well").records.iter().map(|r| r.bytes.len()).sum();
    // Eight messages, an index and a test; marks of five ends, and how many polls answered no, which takes more bytes if it is large.
    assert!(bytes <= 2 * 10 + 5 + 4, "{bytes} bytes");
}
