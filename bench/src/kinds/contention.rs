//! `contention`: what a hit costs when many processes are hit at once.

use analyzer::plan::ProbeClass;
use anyhow::Result;

use crate::harness::{
    EmptyPrograms, Hook, Offsets, OurProbe, OurPrograms, PROGRAM, Passes, ProbedProcess, function,
};
use crate::options::BenchOptions;
use crate::results::{Cell, RegressionBound, ResultTable, Samples, Section};

const PROCESSES: [usize; 5] = [1, 2, 4, 16, 64];
/// Hits of all processes together in one run.
const HITS: u64 = 64_000;
/// Where the empty program is, and where ours.
const BARE: usize = 0;
const OURS: usize = 1;
/// More than this many times the cost of one process alone is a gross regression. Two hardware
/// threads that share a core slow each other down by more than half.
const GROSS: f64 = 2.5;

/// Hits an empty program and ours in more and more processes at the same time.
///
/// # Errors
/// The kernel's refusal, or a probe that was not hit as often as it was passed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let mut ours = OurPrograms::load(Vec::new())?;
    let empty = EmptyPrograms::load(ours.has_sessions())?;
    let offsets = Offsets::read()?;
    let bare = function("call", BARE);
    let _link = empty.attach(Hook::Entry, PROGRAM.as_ref(), offsets.of(&bare)?)?;
    let copy = OurProbe { class: ProbeClass::Copy, function: "memcpy", argument: 0 };
    ours.attach(&copy, &function("call", OURS), &offsets)?;
    let mut all = Vec::new();
    for slot in 0..PROCESSES[PROCESSES.len() - 1] {
        let process = ProbedProcess::start(None)?;
        ours.watch(process.pid(), slot as u32)?;
        all.push(process);
    }
    let mut figures = vec![(Samples::default(), Samples::default()); PROCESSES.len()];
    for _ in 0..options.runs(21, 5) {
        for (count, (bare_ns, ours_ns)) in PROCESSES.iter().zip(&mut figures) {
            bare_ns.push(run(&mut all[..*count], BARE)?);
            let before: Vec<_> = (0..*count).map(|slot| ours.counted(slot as u32)).collect();
            ours_ns.push(run(&mut all[..*count], OURS)?);
            ours.settle()?;
            for (slot, before) in before.into_iter().enumerate() {
                ours.check_records(slot as u32, before, HITS / *count as u64)?;
            }
        }
    }
    Ok(section(options, &figures))
}

/// Processor time per hit, of processes that are hit at the same time.
fn run(processes: &mut [ProbedProcess], copy: usize) -> Result<f64> {
    let times = HITS / processes.len() as u64;
    let passes =
        Passes { function: function("call", copy), times, arguments: ["4096", "8192", "64"], inside: false };
    let begun: Vec<_> = processes.iter_mut().map(|process| process.begin(&passes)).collect::<Result<_>>()?;
    let mut used_ns = 0;
    for (process, before) in processes.iter_mut().zip(&begun) {
        used_ns += process.end(before)?.task_clock_ns;
    }
    Ok(used_ns as f64 / HITS as f64)
}

fn section(options: BenchOptions, figures: &[(Samples, Samples)]) -> Section {
    let mut section = Section::new("contention", "Many processes at once");
    section.note(format!(
        "A copy probe at a `call`, {HITS} hits in all, shared among so many watched processes that are hit at the same \
         time, each with a ring of its own; processor time per hit, {} runs in turn. Beyond as many processes as there \
         are cores they take turns: what grows there is the cost of switching, which an empty program pays as well.",
        options.runs(21, 5)
    ));
    let mut table = ResultTable::new(&[
        "processes",
        "empty, ns per hit",
        "against one",
        "ours, ns per hit",
        "against one",
        "ours against one / empty against one",
    ]);
    let (bare_one, ours_one) = &figures[0];
    for (count, (bare_ns, ours_ns)) in PROCESSES.iter().zip(figures) {
        let (bare, ours) = (bare_ns.over(bare_one), ours_ns.over(ours_one));
        table.row(
            count.to_string(),
            vec![
                Cell::runs(bare_ns, 0),
                Cell::runs(&bare, 3),
                Cell::runs(ours_ns, 0),
                Cell::runs(&ours, 3),
                Cell::runs(&ours.over(&bare), 3),
            ],
        );
        section.checks.push(RegressionBound {
            what: format!("cost of a hit among {count} processes / alone"),
            value: ours.median(),
            at_most: GROSS,
        });
    }
    section.tables.push(table);
    section
}
