//! Reports as plain text.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use super::text::{
    buffer_text, call_text, counted, file_name, kind_text, place_text, who_text, who_text_and,
};
use super::visible::visible;
use crate::findings::finding::*;
use crate::findings::report::{Report, Thresholds};
use crate::findings::statistics::{ProcessStatistics, Statistics};
use crate::job::process::Who;
use crate::tape::input::{Loss, StrangerCost};

/// How text looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// With terminal colours.
    pub colour: bool,
    /// With findings that nothing but a score speaks for in full; else in one line.
    pub all: bool,
}

/// Probes, functions and groups listed.
const TOP: usize = 10;
/// Nodes that are told with a finding.
const MOST_NODES: usize = 8;

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn severity(self, finding: &Finding) -> String {
        let (code, text) = match (finding.verdict, finding.severity) {
            (Verdict::Inconclusive, _) => ("35", "INCONCLUSIVE"),
            (Verdict::Sampled, Severity::Warning) => ("1;35", "WARNING (sampled)"),
            (Verdict::Sampled, Severity::Notice) => ("33", "notice (sampled)"),
            (_, Severity::Warning) => ("1;31", "WARNING"),
            (_, Severity::Notice) => ("33", "notice"),
        };
        self.paint(code, text)
    }
}

/// The findings, and what they rest on.
pub fn report(report: &Report, style: Style) -> String {
    report_beyond(report, &HashSet::new(), style)
}

/// The same for a reader who has seen some findings in full: of these the sentence and the counts.
pub fn report_beyond(report: &Report, told: &HashSet<String>, style: Style) -> String {
    let mut out = String::new();
    let (folded, shown): (Vec<&Finding>, Vec<&Finding>) =
        report.findings.iter().partition(|f| f.is_score_alone() && !style.all);
    for (number, f) in shown.iter().enumerate() {
        let _ = write!(out, "{}. ", number + 1);
        let text = finding(f, style);
        if told.contains(&f.id) {
            text.lines().take(2).for_each(|line| {
                let _ = writeln!(out, "{line}");
            });
            let _ = writeln!(out, "   shown in full above; id {}", visible(&f.id));
        } else {
            out.push_str(&text);
        }
        out.push('\n');
    }
    if shown.is_empty() {
        out.push_str(nothing_found(report));
    }
    if !folded.is_empty() {
        let _ = writeln!(out, "{}", folded_text(folded.len()));
    }
    out.push_str(&basis(&report.thresholds, &report.statistics));
    out
}

/// The headline where no finding is shown.
fn nothing_found(report: &Report) -> &'static str {
    if report.thresholds.uncounted > 0 {
        "Inconclusive: records are missing. Nothing odd was found in what there is.\n"
    } else if !report.saw_ranks() {
        "No MPI rank was seen: nothing can be said of the job.\n"
    } else {
        "Nothing odd was found.\n"
    }
}

/// What is said of findings that are not shown.
pub fn folded_text(count: usize) -> String {
    let (paths, more) = if count == 1 { ("path looks", "it") } else { ("paths look", "them") };
    format!("{count} rare {paths} odd by score alone, as rarely used code does; --all shows {more}.")
}

/// What could be said at all.
pub(crate) fn basis(t: &Thresholds, s: &Statistics) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{} data movements, {} chains in {} groups.", s.movements, s.chains, s.groups);
    if t.no_copies_watched {
        out.push_str("Copies of memory were not watched: nothing is said about data.\n");
    } else {
        out.push_str(&comparisons(t));
    }
    if t.sampled {
        let share = |watched_ns: u64| watched_ns as f64 / s.duration_ns.max(1) as f64 * 100.0;
        let calls = match s.calls_watched_ns {
            calls_ns if calls_ns >= s.duration_ns => "MPI calls all of it".to_owned(),
            calls_ns => format!("MPI calls {:.1}%", share(calls_ns)),
        };
        let _ = writeln!(
            out,
            "Budget: data movements were watched {:.1}% of the time ({}), {calls}{}; what is said holds for that.",
            share(s.watched_ns),
            counted(s.pauses as usize, "pause"),
            if s.probes_off.is_empty() {
                String::new()
            } else {
                format!(", without {} of the probes", s.probes_off.len())
            },
        );
    }
    if t.uncounted > 0 {
        let _ = writeln!(
            out,
            "Losses: {} records were lost{} and {} came late; {} operations were left out because of that.",
            count_text(s.lost()),
            if s.lost_calls == 0 { " (none of MPI calls)" } else { "" },
            s.late_records,
            count_text(t.uncounted)
        );
    }
    if let Some(strangers) = s.strangers.as_deref().filter(|cost| matters(cost)) {
        let _ = writeln!(out, "{}", strangers_text(strangers));
    }
    out
}

/// How much was compared.
fn comparisons(t: &Thresholds) -> String {
    let mut out = String::new();
    if t.warm {
        let _ = writeln!(
            out,
            "Chains: {} reach a uniqueness of {}; {} frequent{}.",
            t.chains,
            t.uniqueness,
            if t.frequent_groups == 1 {
                "1 group is".to_owned()
            } else {
                format!("{} groups are", t.frequent_groups)
            },
            if t.referenced { " in the reference" } else { "" },
        );
    } else {
        let _ = writeln!(
            out,
            "Chains: {} long enough to be compared: too few to call any odd.",
            match t.chains {
                0 => "none is".to_owned(),
                1 => "only 1 is".to_owned(),
                many => format!("only {many} are"),
            }
        );
    }
    if t.compared_ranks.len() < 6 {
        let _ = writeln!(
            out,
            "Ranks: {} had enough chains to be compared; with fewer than six none can stand out (docs/chains.md says why).",
            t.compared_ranks.len()
        );
    } else {
        let _ = writeln!(
            out,
            "Ranks: {} were compared, average distance {}.",
            who_text(&t.compared_ranks),
            t.average_distance
        );
    }
    out
}

/// A count of what was lost.
fn count_text(count: u64) -> String {
    match count {
        Loss::UNKNOWN => "an unknown number of".to_owned(),
        count => count.to_string(),
    }
}

/// Less than this part of a processor's time is not worth a line.
const SHARE_WORTH_A_LINE: f64 = 0.001;

fn matters(cost: &StrangerCost) -> bool {
    cost.share() >= SHARE_WORTH_A_LINE
}

fn strangers_text(cost: &StrangerCost) -> String {
    format!(
        "Others: processes outside the job ran into probes {} times (about {} ms of their time, {:.1}% of \
         one processor); see --only-job.",
        cost.all_hits(),
        cost.cost_ns / 1_000_000,
        cost.share() * 100.0
    )
}

/// One finding.
pub fn finding(f: &Finding, style: Style) -> String {
    let mut out = format!("{}  {}\n", style.severity(f), style.bold(&f.summary));
    if !f.nodes.is_empty() {
        let _ = writeln!(out, "   {}", nodes_text(&f.nodes));
    }
    match &f.evidence {
        Evidence::OddChain(chain) => odd_chain(&mut out, chain, style),
        Evidence::OddRank(rank) => odd_rank(&mut out, rank, style),
        Evidence::Hang(hang) => crate::present::hang::render(&mut out, hang),
        Evidence::CollectiveMismatch(mismatch) => crate::present::mismatch::render(&mut out, mismatch),
        Evidence::DatatypeMismatch(found) => super::type_mismatch::render(&mut out, found),
        Evidence::Leak(left) => super::leaks::render(&mut out, left),
        // The sentence says it all.
        Evidence::ErrorReturned(_)
        | Evidence::BufferConflict(_)
        | Evidence::OverlappingBuffers(_)
        | Evidence::HeapMisuse(_)
        | Evidence::OutsideWindow(_)
        | Evidence::AccessConflict(_)
        | Evidence::PotentialDeadlock(_) => {}
    }
    out.push_str(&format!("   {}\n", style.bold("Next")));
    for step in &f.next_steps {
        let _ = writeln!(out, "     - {step}");
    }
    let _ = writeln!(out, "   id {}", visible(&f.id));
    out
}

/// `ranks 0-1 on node1; rank 2 on node2`.
fn nodes_text(nodes: &[WhoOnNode]) -> String {
    let mut by_node: Vec<(&str, Vec<Who>)> = Vec::new();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for WhoOnNode { who, node } in nodes {
        match numbers.get(node.as_str()) {
            Some(&at) => by_node[at].1.push(*who),
            None => {
                numbers.insert(node, by_node.len());
                by_node.push((node, vec![*who]));
            }
        }
    }
    let text = |(node, whos): &(&str, Vec<Who>)| format!("{} on {}", who_text(whos), visible(node));
    let mut told: Vec<String> = by_node.iter().take(MOST_NODES).map(text).collect();
    if by_node.len() > MOST_NODES {
        let more: usize = by_node[MOST_NODES..].iter().map(|(_, whos)| whos.len()).sum();
        told.push(format!("{} on {} more nodes", counted(more, "rank"), by_node.len() - MOST_NODES));
    }
    told.join("; ")
}

fn odd_chain(out: &mut String, chain: &OddChain, style: Style) {
    let usual = if chain.frequent.reference_chains > 0 {
        chain.frequent.reference_chains
    } else {
        chain.frequent.chains
    };
    let _ = writeln!(
        out,
        "   usual: {usual} chains, odd: {} chains; abnormality {} (similarity {}, rareness {})",
        chain.odd.chains, chain.abnormality, chain.similarity, chain.rareness
    );
    let left: Vec<[String; 3]> = chain.frequent.ops.iter().map(cell).collect();
    let right: Vec<[String; 3]> = chain.odd.ops.iter().map(cell).collect();
    let rows = aligned(left.len(), right.len(), &chain.common);
    let width = left.iter().flatten().map(|s| s.chars().count()).max().unwrap_or(0).clamp(20, 60);
    let _ = writeln!(out, "   {}   {}", style.bold(&fitted("usual chain", width)), style.bold("odd chain"));
    for (l, r) in rows {
        side_by_side(out, l.map(|i| &left[i]), r.map(|i| &right[i]), width, style);
    }
    context(out, &chain.context, !chain.owners_of_unread().is_empty());
    calls(out, &chain.odd);
    for example in chain.examples.iter().take(1) {
        example_text(out, example, style);
    }
    if !chain.others.is_empty() {
        let others: Vec<String> =
            chain.others.iter().map(|o| format!("{} chains at {}", o.chains, o.abnormality)).collect();
        let _ = writeln!(out, "   also close to other usual chains: {}", others.join(", "));
    }
}

/// An operation in three lines.
fn cell(op: &OpView) -> [String; 3] {
    let what = match kind_text(op) {
        "copy" => String::new(),
        other => format!("{other}: "),
    };
    let crosses = if op.crosses { " [between processes]" } else { "" };
    [
        format!("{what}{}{crosses}", place_text(&op.place)),
        format!("  {}", buffer_text(&op.source)),
        format!("  -> {}   {}", buffer_text(&op.destination), who_text(&op.who)),
    ]
}

/// Rows of operations with the common ones beside each other.
fn aligned(left: usize, right: usize, common: &CommonView) -> Vec<(Option<usize>, Option<usize>)> {
    let (l0, r0, n) =
        (usize::from(common.frequent_from), usize::from(common.odd_from), usize::from(common.ops));
    let mut rows: Vec<_> = (0..l0).map(|i| (Some(i), None)).collect();
    rows.extend((0..r0).map(|i| (None, Some(i))));
    rows.extend((0..n).map(|i| (Some(l0 + i), Some(r0 + i))));
    rows.extend((l0 + n..left).map(|i| (Some(i), None)));
    rows.extend((r0 + n..right).map(|i| (None, Some(i))));
    rows
}

fn side_by_side(
    out: &mut String,
    left: Option<&[String; 3]>,
    right: Option<&[String; 3]>,
    width: usize,
    style: Style,
) {
    let mark = match (left, right) {
        (Some(_), Some(_)) => "=",
        (Some(_), None) => "-",
        _ => "+",
    };
    for line in 0..3 {
        let mark = if line == 0 { mark } else { " " };
        let l = fitted(left.map_or("", |cell| &cell[line]), width);
        let r = match (right, line, mark) {
            (Some(cell), ..) => cell[line].clone(),
            (None, 0, _) => style.paint("31", "(missing)"),
            _ => String::new(),
        };
        let text = format!("   {l} {mark} {r}");
        let _ = writeln!(out, "{}", text.trim_end());
    }
}

/// Cut or filled to a width.
fn fitted(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return format!("{text}{}", " ".repeat(width - length));
    }
    let keep: String = text.chars().take(width - 1).collect();
    format!("{keep}…")
}

fn context(out: &mut String, c: &ContextView, is_of_owner: bool) {
    if let (Some(op), true) = (&c.missing_before, c.matched_before > 0) {
        let _ = writeln!(
            out,
            "   beside it: in {} of {} instances {} had just run {} from {}, and nobody read what it wrote",
            c.matched_before,
            c.known,
            if is_of_owner { "the process whose memory that was" } else { "the same thread" },
            place_text(&op.place),
            buffer_text(&op.source)
        );
    }
    if let (Some(op), true) = (&c.missing_after, c.matched_after > 0) {
        let _ = writeln!(
            out,
            "   beside it: in {} of {} instances the same thread then ran {} from {}, with data that came from nowhere",
            c.matched_after,
            c.known,
            place_text(&op.place),
            buffer_text(&op.source)
        );
    }
    if c.matched == 0 {
        let _ =
            writeln!(out, "   beside it: nothing that would complete it ({} instances looked at)", c.known);
    }
}

fn calls(out: &mut String, group: &GroupView) {
    for (at, op) in group.ops.iter().enumerate() {
        if let Some(call) = call_text(op) {
            let _ =
                writeln!(out, "   step {} of the odd chain ran in {call} ({})", at + 1, who_text(&op.who));
        }
    }
}

fn example_text(out: &mut String, example: &ExampleView, style: Style) {
    let _ = writeln!(out, "   {}", style.bold("an instance"));
    for op in example.before.iter().rev() {
        let _ = writeln!(
            out,
            "     before  {} {} ({:#x} -> {:#x}, {} bytes, {}): unread",
            who_text(&[op.who]),
            place_text(&op.place),
            op.source,
            op.destination,
            op.len_bytes,
            buffer_text(&op.destination_buffer)
        );
    }
    for (at, op) in example.ops.iter().enumerate() {
        let _ = writeln!(
            out,
            "     step {}  {} {} ({:#x} -> {:#x}, {} bytes), process {} thread {} at {} ns",
            at + 1,
            who_text(&[op.who]),
            place_text(&op.place),
            op.source,
            op.destination,
            op.len_bytes,
            op.pid,
            op.tid,
            op.time_ns
        );
    }
}

fn odd_rank(out: &mut String, rank: &OddRank, style: Style) {
    let part = if rank.part == 1 { "the whole run".to_owned() } else { format!("the last 1/{}", rank.part) };
    let _ = writeln!(
        out,
        "   over {part}: distance to the {}. nearest rank {}, average {}; {} chains",
        rank.nearest, rank.distance, rank.average, rank.chains
    );
    let _ = writeln!(
        out,
        "   {} (share {} here, {} among {}; {} of {} peers ever do it)",
        style.bold("what differs most"),
        rank.share,
        rank.peers_share,
        who_text(&rank.peers),
        rank.peers_running,
        rank.peers.len()
    );
    for op in &rank.group.ops {
        for line in cell(op) {
            let _ = writeln!(out, "     {line}");
        }
        if let Some(call) = call_text(op) {
            let _ = writeln!(out, "       in {call}");
        }
    }
}

/// The counts.
pub fn statistics(s: &Statistics, style: Style) -> String {
    let mut out = format!("{}\n", style.bold("Session"));
    let _ = writeln!(
        out,
        "  {:.3} s, {} records ({} unreadable, {} of unknown probes, {} late)",
        s.duration_ns as f64 / 1e9,
        s.records,
        s.bad_records,
        s.unplanned_records,
        s.late_records
    );
    let _ = writeln!(
        out,
        "  lost: {} of movements, {} of MPI calls, {} of memory and process life",
        count_text(s.lost_movements),
        count_text(s.lost_calls),
        count_text(s.lost_state)
    );
    if let Some(cost) = &s.strangers {
        let _ = writeln!(
            out,
            "  outside the job: {} other processes ({} of other users) ran into probes {} times, about {} ms",
            cost.processes,
            cost.of_other_users,
            cost.all_hits(),
            cost.cost_ns / 1_000_000
        );
    }
    let _ = writeln!(
        out,
        "  {} movements of {} bytes ({} of zero bytes), {} operations, {} pending",
        s.movements, s.bytes, s.empty_movements, s.operations, s.pending_operations
    );
    if let Some(tcp) = &s.tcp {
        let _ = write!(out, "  over TCP: {} bytes sent, {} received", tcp.sent_bytes, tcp.received_bytes);
        for (bytes, which) in [
            (tcp.unread_bytes, "on their way"),
            (tcp.unseen_bytes, "seen at the receiver alone"),
            (tcp.missed_bytes, "seen at the sender alone"),
        ] {
            if bytes > 0 {
                let _ = write!(out, ", {bytes} {which}");
            }
        }
        let _ = writeln!(out, ", {} to or from others", tcp.with_others_bytes);
    }
    if let Some(rdma) = &s.rdma {
        let _ = writeln!(
            out,
            "  RDMA verbs: {} work requests to send, of {} bytes ({} writes, {} reads, {} atomic), {} to receive, {} completions, \
             {} of them failed; {} bytes from one known process to another, {} seen at one end alone",
            rdma.sends,
            rdma.sent_bytes,
            rdma.writes,
            rdma.reads,
            rdma.atomics,
            rdma.receives,
            rdma.completions,
            rdma.failed,
            rdma.linked_bytes,
            rdma.unlinked_bytes
        );
    }
    if s.unseen_messages > 0 {
        let _ = writeln!(out, "  {} of them are messages whose data was not seen to move", s.unseen_messages);
    }
    let _ = writeln!(
        out,
        "  {} chains in {} groups, {} inconclusive, {} not kept",
        s.chains, s.groups, s.inconclusive_chains, s.chains_not_kept
    );
    let _ = writeln!(out, "{}", style.bold("Processes"));
    s.processes.iter().for_each(|p| process(&mut out, p));
    if s.processes_left_out > 0 {
        let _ = writeln!(out, "  and {} more", s.processes_left_out);
    }
    let _ = writeln!(out, "{}", style.bold("MPI calls"));
    for call in &s.calls {
        let name =
            if call.function.is_empty() { "(outside MPI or not known)" } else { &visible(&call.function) };
        let _ = writeln!(
            out,
            "  {name}: {} calls, {} movements, {} bytes",
            call.calls, call.movements, call.bytes
        );
    }
    let _ = writeln!(out, "{}", style.bold("Probes most hit"));
    let mut probes: Vec<_> = s.probes.iter().collect();
    probes.sort_by_key(|p| (std::cmp::Reverse(p.hits), p.probe));
    for p in probes.into_iter().take(TOP) {
        let _ = writeln!(out, "  {:>12}  {} at {}", p.hits, visible(&p.function), place_text(&p.place));
    }
    let _ = writeln!(out, "{}", style.bold("Chains most seen"));
    for group in s.top_groups.iter().take(TOP) {
        group_text(&mut out, group);
    }
    out
}

fn process(out: &mut String, p: &ProcessStatistics) {
    let who = p.rank.map_or(Who::Pid(p.pid), Who::Rank);
    let lost = [p.lost_movements, p.lost_calls, p.lost_state];
    let losses = if lost == [0; 3] && p.late_records == 0 {
        String::new()
    } else {
        format!(", lost {}, late {}", lost.map(count_text).join(" + "), p.late_records)
    };
    let _ = writeln!(
        out,
        "  {}{} (pid {}, {}{}): {} movements, {} bytes, {} MPI calls, {} live buffers{losses}",
        who_text(&[who]),
        p.node.as_ref().map_or_else(String::new, |node| format!(" on {}", visible(node))),
        p.pid,
        visible(file_name(&p.exe)),
        if p.alive { "" } else { ", ended" },
        p.movements,
        p.bytes,
        p.mpi_calls,
        p.live_buffers
    );
}

fn group_text(out: &mut String, group: &GroupView) {
    let whos: Vec<Who> = group.by_who.iter().map(|c| c.who).collect();
    let counts = group.by_who.iter().map(|c| c.count);
    let (low, high) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
    let _ = writeln!(
        out,
        "  {:>12}  from {} ({low} to {high} each), uniqueness {}, id {}",
        group.chains,
        who_text_and(&whos, group.by_who_left_out),
        group.uniqueness,
        group.id
    );
    for op in &group.ops {
        let _ = writeln!(
            out,
            "                {} {}: {} -> {}{}",
            kind_text(op),
            place_text(&op.place),
            buffer_text(&op.source),
            buffer_text(&op.destination),
            if op.crosses { " [between processes]" } else { "" }
        );
    }
}
