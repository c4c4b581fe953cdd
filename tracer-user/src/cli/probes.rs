//! `dmscope probes`: what is probed, where, why there, and at what overhead.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use analyzer::options::Options;
use analyzer::plan::{Plan, Probe, ProbeClass, ProbePlace};
use analyzer::visible::{visible, visible_json};
use analyzer::wire::FileId;
use serde::Serialize;

use super::args::ProbesArgs;
use super::table::columns;
use crate::budget::links_by_file;
use crate::host::gather::AttachPoint;
use crate::host::parsing::ParsingChild;
use crate::host::{self, NodeJob};
use crate::kernel::{LoadSettings, look_at_slots};
use crate::plan::attach::{
    AttachDecision, AttachMode, FileUse, JobSize, MOST_LINKS, OnlyJob, StrangerCount, attach_modes,
};
use crate::plan::engines::{choose_engines, mark_slots};
use crate::plan::slots::NO_SLOTS;
use crate::plan::{EarlierPlans, Engine, FileSlots, PlanOptions, unmatched_libraries};
use crate::session::{self, Outlets, Settings};
use crate::sink::HitSink;

/// The plan of a running job, with the hits of a while if asked for.
///
/// # Errors
/// There is no such job, or it cannot be looked at.
pub fn command(args: &ProbesArgs) -> anyhow::Result<String> {
    let job = host::job_of(args.pid)?;
    let options =
        PlanOptions { libraries: args.library.clone(), engine: args.probes, ..PlanOptions::default() };
    let mut parser = ParsingChild::default();
    let gathered = host::gather(&job, &mut parser)?;
    let planned =
        gathered.plan(&options, &EarlierPlans::default(), &mut parser).map_err(anyhow::Error::msg)?;
    let mut plan = planned.plan;
    let refusal = match args.probes {
        Engine::Kernel => None,
        Engine::Fast => choose_engine(&mut plan, &planned.slots, &job),
    };
    let attach = attachments(&plan, &gathered.attach, job.size());
    let hits = match args.hits {
        Some(duration) => count_hits(&job, options, duration)?,
        None => BTreeMap::new(),
    };
    if args.json {
        return Ok(format!("{}\n", visible_json(&json(&plan, &attach, &hits).to_string())));
    }
    let mut text = text(&plan, &attach, &hits, args.all);
    if let Some(duration) = args.hits {
        text.push_str(&cost_of_hits(&plan, &hits, duration, job.ranks.len()));
    }
    if let Some(why) = refusal {
        text.push_str(&format!("Fast probes are not possible: {}.\n", visible(&why)));
    }
    let paths: Vec<&str> = gathered.files.iter().map(|file| file.path.as_str()).collect();
    if let Some(note) = unmatched_libraries(&args.library, &paths) {
        text.push_str(&format!("Note: {}.\n", visible(&note)));
    }
    Ok(text)
}

/// Says in the plan who would record what; or why only the kernel can.
fn choose_engine(plan: &mut Plan, slots: &[FileSlots], job: &NodeJob) -> Option<String> {
    if slots.is_empty() {
        return Some(NO_SLOTS.to_owned());
    }
    let pids: Vec<u32> = job.ranks.iter().map(|rank| rank.pid).collect();
    let found = look_at_slots(slots, &pids);
    if found.refusal.is_none() {
        let choice = choose_engines(slots, &found.processes);
        mark_slots(plan, &choice.fast, &choice.kernel);
    }
    found.refusal
}

/// Watches a job for a while and counts how often each probe is hit. Probe ids are those of the
/// plan that the same facts give.
fn count_hits(job: &NodeJob, plan: PlanOptions, duration: Duration) -> anyhow::Result<BTreeMap<u32, u64>> {
    let settings = Settings {
        kernel: LoadSettings::default(),
        plan,
        analysis: Options::default(),
        duration: Some(duration),
        only_job: OnlyJob::default(),
        budget: None,
        outlets: Outlets::default(),
        part: None,
        page_calls: None,
        stop: Arc::default(),
    };
    let mut hits = HitSink::default();
    session::attach(job, settings, &mut hits)?;
    Ok(hits.0)
}

/// How the probes of a file are attached, and who else runs it.
#[derive(Clone, Debug, Serialize)]
pub struct FileAttachment {
    /// The file.
    pub file: FileId,
    /// Processes outside the job that map it.
    pub strangers: StrangerCount,
    /// For whom its probes are.
    #[serde(flatten)]
    pub decision: AttachDecision,
}

/// What a session would decide for the files that have probes.
fn attachments(plan: &Plan, files: &BTreeMap<FileId, AttachPoint>, job: JobSize) -> Vec<FileAttachment> {
    let links = links_by_file(plan);
    let facts = links.iter().filter_map(|(id, &links)| {
        let strangers = files.get(id)?.strangers;
        Some((*id, FileUse { strangers, links, is_late: false }))
    });
    let facts: BTreeMap<FileId, FileUse> = facts.collect();
    let decided = attach_modes(&facts, job, MOST_LINKS, OnlyJob::default());
    let attachment = |(file, decision)| FileAttachment { file, strangers: facts[&file].strangers, decision };
    decided.into_iter().map(attachment).collect()
}

/// Form of the JSON output; it changes when a field changes its meaning.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct ProbesDocument<'a> {
    schema: u32,
    plan: &'a Plan,
    attach: &'a [FileAttachment],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    hits: &'a BTreeMap<u32, u64>,
}

/// For programs. `hits`: records by probe id, as far as they are known.
pub fn json(plan: &Plan, attach: &[FileAttachment], hits: &BTreeMap<u32, u64>) -> serde_json::Value {
    serde_json::json!(ProbesDocument { schema: SCHEMA, plan, attach, hits })
}

/// For people: a summary by file, then each probe; `all` lists also what is left out, place by place.
pub fn text(plan: &Plan, attach: &[FileAttachment], hits: &BTreeMap<u32, u64>, all: bool) -> String {
    let mut text = String::new();
    for file in &plan.files {
        let probes: Vec<&Probe> = plan.probes.iter().filter(|p| p.file == file.id).collect();
        let left_out: Vec<_> = plan.left_out.iter().filter(|l| l.file == file.id).collect();
        if probes.is_empty() && left_out.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{} ({})", visible(&file.path), file.role);
        if let Some(attachment) = attach.iter().find(|attachment| attachment.file == file.id) {
            let _ = writeln!(text, "  {}", attachment_text(&attachment.decision));
        }
        let rows: Vec<Vec<String>> = probes.iter().map(|p| row(p, hits)).collect();
        let header: &[&str] = if hits.is_empty() { &HEADER[1..] } else { &HEADER };
        if !rows.is_empty() {
            indent(&mut text, &columns(header, &rows));
        }
        left_out_text(&mut text, &left_out, all);
        text.push('\n');
    }
    for lost in plan.left_out.iter().filter(|l| plan.files.iter().all(|f| f.id != l.file)) {
        let _ = writeln!(text, "{}: {}", visible(&lost.what), visible(&lost.reason));
    }
    text.push_str(&summary(plan));
    text
}

fn attachment_text(decision: &AttachDecision) -> String {
    let mode = match decision.mode {
        AttachMode::OneLink => "for everybody",
        AttachMode::LinkPerProcess => "for processes of the job alone",
    };
    format!("{mode}: {}", decision.reason)
}

const HEADER: [&str; 8] = ["HITS", "PROBE", "WATCHES", "OF", "SITE", "PLACE", "COST", "WHY THERE"];

fn row(probe: &Probe, hits: &BTreeMap<u32, u64>) -> Vec<String> {
    let mut row = Vec::new();
    if !hits.is_empty() {
        row.push(hits.get(&probe.id).copied().unwrap_or(0).to_string());
    }
    let distance = probe.offset_bytes as i64 - probe.site_offset_bytes as i64;
    let place = match distance {
        0 => name_of_place(probe.place).to_owned(),
        _ if probe.place == ProbePlace::Slot => name_of_place(probe.place).to_owned(),
        _ => format!("{} at {distance:+}", name_of_place(probe.place)),
    };
    row.extend([
        probe.id.to_string(),
        name_of_class(probe.class).to_owned(),
        probe.function.clone(),
        format!("+{:#x}", probe.site_offset_bytes),
        place,
        cost(probe),
        probe.reason.clone(),
    ]);
    row
}

/// What is left out: by reason, or place by place.
fn left_out_text(text: &mut String, left_out: &[&analyzer::plan::LeftOut], all: bool) {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for lost in left_out {
        let place = lost.offset_bytes.map(|o| format!(" +{o:#x}")).unwrap_or_default();
        by_reason.entry(&lost.reason).or_default().push(format!("{}{place}", visible(&lost.what)));
    }
    for (reason, what) in by_reason {
        let shown = if all { what.len() } else { what.len().min(3) };
        let more = what.len() - shown;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(text, "  not watched: {}{more}: {}", what[..shown].join(", "), visible(reason));
    }
}

fn summary(plan: &Plan) -> String {
    let mut classes: BTreeMap<ProbeClass, usize> = BTreeMap::new();
    for probe in &plan.probes {
        *classes.entry(probe.class).or_default() += 1;
    }
    let parts: Vec<String> =
        classes.iter().map(|(class, count)| format!("{count} {}", name_of_class(*class))).collect();
    let single_steps = plan.probes.iter().filter(|p| p.place == ProbePlace::SingleStep).count();
    let single_steps = if single_steps > 0 {
        format!("; {single_steps} of them are single-stepped, at about 16 times the overhead")
    } else {
        String::new()
    };
    format!("{} probes: {}{single_steps}\n", plan.probes.len(), parts.join(", "))
}

fn indent(text: &mut String, lines: &str) {
    for line in lines.lines() {
        let _ = writeln!(text, "  {line}");
    }
}

/// What a class watches, in a word.
fn name_of_class(class: ProbeClass) -> &'static str {
    match class {
        ProbeClass::Copy => "copy",
        ProbeClass::Pack => "pack",
        ProbeClass::Unpack => "unpack",
        ProbeClass::Call => "call",
        ProbeClass::CallResults => "call and return",
        ProbeClass::PollSuccess => "answer yes",
        ProbeClass::PollReturn => "answer",
        ProbeClass::Alloc => "allocation",
        ProbeClass::Free => "free",
        ProbeClass::Error => "error",
        ProbeClass::VerbsPost => "work request",
        ProbeClass::VerbsPoll => "completions",
        ProbeClass::VerbsQueue => "queue pair",
        ProbeClass::VerbsBuild => "part of a work request",
    }
}

fn name_of_place(place: ProbePlace) -> &'static str {
    match place {
        ProbePlace::Nop5 => "5-byte nop",
        ProbePlace::Nop => "nop",
        ProbePlace::Push => "push",
        ProbePlace::Call => "call",
        ProbePlace::Jump => "jump",
        ProbePlace::ConditionalJump => "conditional jump",
        ProbePlace::SingleStep => "single step",
        ProbePlace::Slot => "slot",
    }
}

/// What all hits together took from a rank, on average.
fn cost_of_hits(plan: &Plan, hits: &BTreeMap<u32, u64>, duration: Duration, ranks: usize) -> String {
    let hits_of = |probe: &Probe| hits.get(&probe.id).copied().unwrap_or(0);
    let all: u64 = plan.probes.iter().map(hits_of).sum();
    let cost_ns: f64 = plan.probes.iter().map(|p| hits_of(p) as f64 * f64::from(cost_ns(p))).sum();
    let share = cost_ns / duration.as_nanos().max(1) as f64 / ranks.max(1) as f64;
    format!(
        "{all} hits in {:.1} s by {ranks} ranks: an overhead of about {:.2}% of a rank's time (allocations that leave no \
         record are not counted); --budget limits it.\n",
        duration.as_secs_f64(),
        share * 100.0
    )
}

fn cost(probe: &Probe) -> String {
    match cost_ns(probe) {
        few @ ..100 => format!("~{few} ns"),
        more => format!("~{:.1} µs", f64::from(more) / 1_000.0),
    }
}

/// Typical cost of a hit, from measurements in a virtual machine: an order of magnitude.
fn cost_ns(probe: &Probe) -> u32 {
    const RETURN_NS: u32 = 330;
    let entry_ns = match probe.place {
        ProbePlace::Nop5 => 400,
        ProbePlace::Nop
        | ProbePlace::Push
        | ProbePlace::Call
        | ProbePlace::Jump
        | ProbePlace::ConditionalJump => 600,
        ProbePlace::SingleStep => 10_500,
        ProbePlace::Slot if probe.class == ProbeClass::Call => 25,
        ProbePlace::Slot => 15,
    };
    let returns = matches!(
        probe.class,
        ProbeClass::PollReturn
            | ProbeClass::Alloc
            | ProbeClass::Error
            | ProbeClass::VerbsPost
            | ProbeClass::VerbsPoll
    );
    entry_ns + if returns && probe.place != ProbePlace::Slot { RETURN_NS } else { 0 }
}
