//! Odd chains and odd ranks in words.

use super::text::{buffer_text, call_text, capitalized, percent, place_text, times, who_text};
use crate::findings::finding::*;
use crate::job::names::Kind;
use crate::job::process::Who;

/// A chain with a context match: what is broken about it.
pub(super) fn broken(chain: &OddChain) -> (String, Vec<String>) {
    let count = times(chain.odd.chains);
    match (&chain.context.missing_before, &chain.context.missing_after) {
        (Some(lost), _) if chain.context.matched_before >= chain.context.matched_after => {
            let first = &chain.odd.ops[0];
            let owners = chain.owners_of_unread();
            let way = if owners.is_empty() { "by" } else { "to" };
            let summary = format!(
                "Wrong buffer forwarded {count} {way} {}: {} read from {}, where no observed copy had written; the data \
                 that {} had just copied was never read.",
                who_text(&first.who),
                place_text(&first.place),
                buffer_text(&first.source),
                place_text(&lost.place),
            );
            (summary, look_before(chain, first, lost, &owners))
        }
        (_, Some(lost)) => {
            let last = &chain.odd.ops[chain.odd.ops.len() - 1];
            let summary = format!(
                "Data was left behind {count} by {}: what {} put into {} was never read, and {} went on with \
                 something else instead.",
                who_text(&last.who),
                place_text(&last.place),
                buffer_text(&last.destination),
                place_text(&lost.place),
            );
            (summary, look_after(last, lost))
        }
        _ => unusual(chain),
    }
}

fn look_before(chain: &OddChain, first: &OpView, lost: &OpView, owners: &[Who]) -> Vec<String> {
    let mut steps = Vec::new();
    if let Some((written, read)) = addresses_apart(chain) {
        steps.push(format!(
            "The data was written to {written:#x} and read from {read:#x}, {} bytes {}: look for the code that \
             computes the second address from the first.",
            written.abs_diff(read),
            if read < written { "below" } else { "above" },
        ));
    }
    if !owners.is_empty() {
        steps.push(format!(
            "Look at the code between {} (writes) and the call that sends to {}: on the rare path they do not agree on the buffer. \
             Set a breakpoint there on {}.",
            place_text(&lost.place),
            who_text(&first.who),
            who_text(owners),
        ));
        return steps;
    }
    steps.push(format!(
        "Look at the code between {} (writes) and {} (reads): on the rare path they do not agree on the buffer.",
        place_text(&lost.place),
        place_text(&first.place),
    ));
    if let Some(call) = call_text(first) {
        steps.push(format!("It happens in {call}: set a breakpoint there on {}.", who_text(&first.who)));
    }
    steps
}

fn look_after(last: &OpView, lost: &OpView) -> Vec<String> {
    let mut steps = vec![format!(
        "Look at the code between {} (writes) and {} (reads): on the rare path they do not agree on the buffer.",
        place_text(&last.place),
        place_text(&lost.place),
    )];
    if let Some(call) = call_text(last) {
        steps.push(format!("It happens in {call}: set a breakpoint there on {}.", who_text(&last.who)));
    }
    steps
}

/// Where the lost copy went and where the odd chain read instead, of an example.
fn addresses_apart(chain: &OddChain) -> Option<(u64, u64)> {
    let example = chain.examples.iter().find(|e| e.context_match)?;
    let lost = chain.context.missing_before.as_ref()?;
    let first = example.ops.first()?;
    let written = example.before.iter().find(|op| op.place.is_at(&lost.place))?;
    // A position in a stream is no address.
    let is_memory =
        |buffer: &BufferView| !matches!(buffer.what, BufferKind::TcpStream | BufferKind::QueuePair);
    let both = is_memory(&written.destination_buffer) && is_memory(&chain.odd.ops.first()?.source);
    // What is around an operation that reads another process's memory is that one's.
    let is_of_owner = chain.odd.ops.first()?.kind == Kind::CrossRead;
    (both && (is_of_owner || first.pid == written.pid)).then_some((written.destination, first.source))
}

/// A chain that a score alone speaks for.
pub(super) fn unusual(chain: &OddChain) -> (String, Vec<String>) {
    let usual = if chain.frequent.reference_chains > 0 {
        chain.frequent.reference_chains
    } else {
        chain.frequent.chains
    };
    let first = &chain.odd.ops[0];
    let summary = format!(
        "Data took an unusual way {} on {}: like a way that was taken {}, but {}.",
        times(chain.odd.chains),
        who_text(&first.who),
        times(usual),
        difference(chain),
    );
    let mut steps = vec![
        "Nothing was found beside it that would complete it: this may be a rarely used, but right, path of the \
         library (a fall-back protocol, a control message)."
            .to_owned(),
    ];
    if let Some(call) = call_text(first) {
        steps.push(format!("If the results are wrong, begin with {call} on {}.", who_text(&first.who)));
    }
    steps.push("A reference from a good run leaves out what good runs do too.".to_owned());
    (summary, steps)
}

fn difference(chain: &OddChain) -> String {
    let (odd, usual, c) = (chain.odd.ops.len(), chain.frequent.ops.len(), &chain.common);
    let common = usize::from(c.ops);
    let plural = |n: usize| if n == 1 { "step".to_owned() } else { format!("{n} steps") };
    let count = |n: usize| if n == 1 { "one step".to_owned() } else { plural(n) };
    if common == odd {
        let (first, last) = (usize::from(c.frequent_from), usual - usize::from(c.frequent_from) - common);
        return match (first, last) {
            (0, n) => format!("without the last {}", plural(n)),
            (n, 0) => format!("without the first {}", plural(n)),
            (n, m) => format!("without the first {} and the last {}", plural(n), plural(m)),
        };
    }
    if common == usual {
        let (first, last) = (usize::from(c.odd_from), odd - usize::from(c.odd_from) - common);
        return match (first, last) {
            (0, n) => format!("going on for {} more", count(n)),
            (n, 0) => format!("with {} more before it", count(n)),
            (n, m) => format!("with {} more before it and {} after it", count(n), count(m)),
        };
    }
    format!("only {} of {} the same", count(common), usual)
}

/// A rank with another mix of chains than its peers.
pub(super) fn odd_rank(rank: &OddRank, severity: Severity) -> (String, Vec<String>) {
    let who = who_text(&[rank.who]);
    let when =
        if rank.part == 1 { String::new() } else { format!(" in the last 1/{} of the run", rank.part) };
    let first = &rank.group.ops[0];
    let where_ = call_text(first).map_or_else(String::new, |call| format!(" in {call}"));
    let place = format!("{}{where_}", place_text(&first.place));
    let did = match rank.compared_by {
        ComparedBy::Beginnings => format!("began at {place}"),
        ComparedBy::WholeChains => format!("went one way, from {place}"),
    };
    let summary = format!(
        "{} of what {who} moved{when} {did}; of what its peers moved, {}.",
        percent(rank.share),
        percent(rank.peers_share)
    );
    let summary = capitalized(&summary);
    let mut steps = Vec::new();
    if severity == Severity::Warning {
        steps.push(format!(
            "Look at what {who} does there and its peers do not: stacks of {who} and of {}.",
            who_text(&rank.peers)
        ));
        if rank.part > 1 {
            steps.push("It shows only towards the end: think of a hang or an endless retry.".to_owned());
        }
    } else {
        steps.push(format!(
            "{} may have a part of its own (master, server, boundary): compare its peers alone.",
            capitalized(&who)
        ));
    }
    (summary, steps)
}
