//! How findings are put into words.

use crate::errors::left_over;
use crate::findings::finding::*;
use crate::job::names::{Kind, SiteName};
use crate::job::process::Who;
use crate::tape::input::Frame;

/// A place without symbols.
pub(crate) fn place(name: &SiteName) -> Place {
    match name {
        SiteName::File { module, offset_bytes, .. } => {
            Place { module: module.clone(), offset_bytes: *offset_bytes, ..Place::default() }
        }
        SiteName::Kernel { call } => Place { module: call.clone(), ..Place::default() },
        SiteName::Unknown => Place::default(),
    }
}

/// `function (file:line)`, or as much of that as is known.
pub(crate) fn place_text(place: &Place) -> String {
    if place.module.is_empty() {
        return "an unknown place".to_owned();
    }
    let Some(frame) = place.frames.first() else {
        return if place.file.is_none() && place.offset_bytes == 0 {
            place.module.clone()
        } else {
            module_text(place)
        };
    };
    match source_text(frame) {
        Some(source) => format!("{} ({source})", frame.function),
        None => format!("{} ({})", frame.function, module_text(place)),
    }
}

fn module_text(place: &Place) -> String {
    format!("{}+{:#x}", file_name(&place.module), place.offset_bytes)
}

fn source_text(frame: &Frame) -> Option<String> {
    let source = file_name(frame.source.as_deref()?);
    Some(frame.line.map_or_else(|| source.to_owned(), |line| format!("{source}:{line}")))
}

/// Last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// What a buffer is.
pub(crate) fn buffer_text(buffer: &BufferView) -> String {
    match buffer.what {
        BufferKind::Heap => match &buffer.allocated {
            Some(place) if !place.module.is_empty() => format!("heap block of {}", place_text(place)),
            _ => "heap block".to_owned(),
        },
        BufferKind::HeapBeforeAttach => "heap (before attach)".to_owned(),
        BufferKind::Shared => format!("shared {}", file_name(&buffer.name)),
        BufferKind::Static => format!("static data of {}", file_name(&buffer.name)),
        BufferKind::Stack => "stack".to_owned(),
        BufferKind::Anonymous => "anonymous memory".to_owned(),
        BufferKind::NotWatched => "memory of a process that is not watched".to_owned(),
        BufferKind::Unknown => "unknown memory".to_owned(),
    }
}

/// How an operation moves data.
pub(crate) fn kind_text(op: &OpView) -> &'static str {
    match (op.kind, op.segments > 1) {
        (Kind::Copy, false) => "copy",
        (Kind::Copy, true) => "copy in pieces",
        (Kind::Pack, _) => "pack",
        (Kind::Unpack, _) => "unpack",
        (Kind::CrossRead, _) => "read from a process",
        (Kind::CrossWrite, _) => "write to a process",
        (Kind::Message, _) => "message",
    }
}

/// `rank 3`, `ranks 0-3, 7`, `process 1234`.
pub fn who_text(whos: &[Who]) -> String {
    let ranks: Vec<u32> =
        whos.iter().filter_map(|w| if let Who::Rank(r) = w { Some(*r) } else { None }).collect();
    let pids: Vec<u32> =
        whos.iter().filter_map(|w| if let Who::Pid(p) = w { Some(*p) } else { None }).collect();
    let named = |what: &str, numbers: &[u32]| match numbers {
        [] => None,
        [one] => Some(format!("{what} {one}")),
        many => Some(format!("{what}{} {}", if what.ends_with('s') { "es" } else { "s" }, ranges(many))),
    };
    let sorted = |mut numbers: Vec<u32>| {
        numbers.sort_unstable();
        numbers
    };
    let (ranks, pids) = (sorted(ranks), sorted(pids));
    let parts: Vec<String> = named("rank", &ranks).into_iter().chain(named("process", &pids)).collect();
    if parts.is_empty() { "nobody".to_owned() } else { parts.join(" and ") }
}

/// `0-3, 7`
fn ranges(sorted: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &n in sorted {
        match parts.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(n) => *end = n,
            _ => parts.push((n, n)),
        }
    }
    let text = |&(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// `once`, `12 times`.
pub(crate) fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// `1 call`, `12 calls`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A time as people say it.
pub fn duration_text(ns: u64) -> String {
    let s = ns as f64 / 1e9;
    match ns {
        0..1_000_000 => format!("{:.0} µs", s * 1e6),
        1_000_000..1_000_000_000 => format!("{:.0} ms", s * 1e3),
        1_000_000_000..120_000_000_000 => format!("{s:.1} s"),
        _ => format!("{:.0} min", s / 60.0),
    }
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// The MPI call that an operation mostly ran in: `MPI_Send called at main (a.c:7)`.
pub(crate) fn call_text(op: &OpView) -> Option<String> {
    let call = op.calls.iter().find(|c| !c.function.is_empty())?;
    let place = if call.place.module.is_empty() {
        String::new()
    } else {
        format!(" called at {}", place_text(&call.place))
    };
    Some(format!("{}{place}", call.function))
}

/// Puts a finding into words.
pub(crate) fn say(finding: &mut Finding) {
    let (summary, mut next_steps) = match &finding.evidence {
        Evidence::OddChain(chain) if finding.severity == Severity::Warning => broken_chain(chain),
        Evidence::OddChain(chain) => unusual_chain(chain),
        Evidence::OddRank(rank) => odd_rank(rank, finding.severity),
        Evidence::Hang(hang) => crate::present::hang::say(hang),
        Evidence::CollectiveMismatch(mismatch) => crate::present::mismatch::say(mismatch),
        Evidence::LeftOver(left) => left_over::say(left),
        Evidence::ErrorReturned(returned) => crate::present::hang::say_returned(returned, &finding.who),
    };
    if finding.verdict == Verdict::Inconclusive {
        let advice =
            "Records were lost, so this may only look odd: run again with larger rings or fewer probes.";
        next_steps.insert(0, advice.to_owned());
    }
    if finding.verdict == Verdict::Sampled {
        let advice =
            "Not everything was watched, to keep the budget: watch with a larger --budget to be sure.";
        next_steps.insert(0, advice.to_owned());
    }
    finding.summary = summary;
    finding.next_steps = next_steps;
}

fn broken_chain(chain: &OddChain) -> (String, Vec<String>) {
    let count = times(chain.odd.chains);
    match (&chain.context.missing_before, &chain.context.missing_after) {
        (Some(lost), _) if chain.context.matched_before >= chain.context.matched_after => {
            let first = &chain.odd.ops[0];
            let summary = format!(
                "The wrong data was passed on {count} by {}: {} took it from a place in {} where nothing had been \
                 put, while the data that {} had just copied was never read.",
                who_text(&first.who),
                place_text(&first.place),
                buffer_text(&first.source),
                place_text(&lost.place),
            );
            (summary, look_before(chain, first, lost))
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
        _ => unusual_chain(chain),
    }
}

fn look_before(chain: &OddChain, first: &OpView, lost: &OpView) -> Vec<String> {
    let mut steps = Vec::new();
    if let Some((written, read)) = addresses_apart(chain) {
        steps.push(format!(
            "The data was written to {written:#x} and read from {read:#x}, {} bytes {}: look for the code that \
             computes the second address from the first.",
            written.abs_diff(read),
            if read < written { "below" } else { "above" },
        ));
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
    let written = example.before.iter().find(|op| op.place.offset_bytes == lost.place.offset_bytes)?;
    (first.pid == written.pid).then_some((written.destination, first.source))
}

fn unusual_chain(chain: &OddChain) -> (String, Vec<String>) {
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

fn odd_rank(rank: &OddRank, severity: Severity) -> (String, Vec<String>) {
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

pub(crate) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_told_as_ranges() {
        let ranks: Vec<Who> = [0, 1, 2, 3, 7].map(Who::Rank).into();
        assert_eq!(who_text(&ranks), "ranks 0-3, 7");
        assert_eq!(who_text(&[Who::Rank(4), Who::Pid(10), Who::Pid(12)]), "rank 4 and processes 10, 12");
        assert_eq!(who_text(&[]), "nobody");
    }

    #[test]
    fn a_place_is_told_as_well_as_it_is_known() {
        let mut place = Place { module: "/usr/lib/libx.so".into(), offset_bytes: 0x1f, ..Place::default() };
        assert_eq!(place_text(&place), "libx.so+0x1f");
        place.frames = vec![Frame { function: "send".into(), source: None, line: None }];
        assert_eq!(place_text(&place), "send (libx.so+0x1f)");
        place.frames[0].source = Some("src/a.c".into());
        place.frames[0].line = Some(7);
        assert_eq!(place_text(&place), "send (a.c:7)");
        assert_eq!(place_text(&Place::default()), "an unknown place");
    }
}
