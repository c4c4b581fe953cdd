//! `floor`: what a hit costs, of an empty program and of ours at the same place.

mod cases;

use analyzer::plan::ProbeClass;
use anyhow::Result;
use injector::{HeapCall, HeapHook, HookKind, MOST_BEHIND_BYTES, MOST_FIRST_BYTES, NotedCall, PassedEntry};

use crate::harness::{
    COPIES, EmptyPrograms, FastHook, Hook, Offsets, OurProbe, OurPrograms, PROGRAM, Passes, PerHit,
    ProbedProcess, THROUGH, function, measured_and_others,
};
use crate::options::BenchOptions;
use crate::results::{Cell, RegressionBound, ResultTable, Section};

use cases::{EMPTY_CASES, HitCase, cases};

/// Hits in one run; about fifteen milliseconds.
const HITS: u64 = 20_000;
/// Single-stepped ones take twenty times as long.
const STEPPED_HITS: u64 = 2_000;
/// Those of a fast probe are few nanoseconds each, and fit into its ring.
const FAST_HITS: u64 = 25_000;
/// So often all of that is run before it is measured: then the ring was once round.
const FAST_ROUNDS: u64 = 4;
/// What one of them may take.
const FAST_COPY_GOAL_NS: f64 = 15.0;
const FAST_CALL_GOAL_NS: f64 = 25.0;
/// Of a block the result is recorded, so that the function is called.
const FAST_BLOCK_GOAL_NS: f64 = 25.0;
/// How the function begins that the slot leads to.
const PUSH_AT_ENTRY: PassedEntry = {
    const PUSH: u8 = 0x55;
    let (mut code, mut first) = ([0; MOST_BEHIND_BYTES], [0; MOST_FIRST_BYTES]);
    (code[0], first[0]) = (PUSH, PUSH);
    PassedEntry { code, len: 1, probed_at: 0, first, first_len: 1 }
};
/// The one process's ring and counters.
const SLOT: u32 = 0;
/// What a gross regression is: more than this many times the goal.
const GROSS: f64 = 1.5;

/// Hits empty programs and ours at places of the same kind, in turn.
///
/// # Errors
/// The kernel's refusal, or a probe that was not hit as often as it was passed.
pub fn measure(options: BenchOptions) -> Result<Section> {
    let mut bench = FloorBench::new()?;
    let mut section = Section::new("floor", "What one hit costs");
    section.note(format!(
        "Processor time per hit of one process on a core of its own, {} runs of {HITS} hits ({STEPPED_HITS} where \
         single-stepped), in turn. Each ratio is that of two runs one after the other, at two places of the same kind, \
         one with an empty program and one with ours, whose ring is read by the real reader on another core. \
         Every hit left its record: a run in which one is missing is an error.",
        options.runs(41, 5)
    ));
    if bench.watched.hardware_names().is_empty() {
        section.note(
            "The machine has no counters of its own (as most virtual machines): no instructions, cycles or cache misses.",
        );
    }
    section.tables.push(bench.kernel(options)?);
    section.tables.push(bench.fast(options, &mut section.checks)?);
    section.tables.push(bench.cases(options, &mut section.checks)?);
    Ok(section)
}

struct FloorBench {
    offsets: Offsets,
    empty: EmptyPrograms,
    ours: OurPrograms,
    watched: ProbedProcess,
    stranger: ProbedProcess,
}

impl FloorBench {
    fn new() -> Result<Self> {
        let (cpu, others) = measured_and_others()?;
        let mut ours = OurPrograms::load(others)?;
        let empty = EmptyPrograms::load(ours.has_sessions())?;
        let (watched, stranger) = (ProbedProcess::start(Some(cpu))?, ProbedProcess::start(Some(cpu))?);
        ours.watch(watched.pid(), SLOT)?;
        Ok(Self { offsets: Offsets::read()?, empty, ours, watched, stranger })
    }

    /// Empty programs, each kind of place in turn, and calls without any.
    fn kernel(&mut self, options: BenchOptions) -> Result<ResultTable> {
        let mut links = Vec::new();
        let mut rows =
            vec![("no probe".to_owned(), passes(&function("push", COPIES - 1), HITS), PerHit::default())];
        for (index, kernel) in EMPTY_CASES.iter().enumerate() {
            if matches!(kernel.hook, Hook::Session | Hook::SessionDeclined) && !self.ours.has_sessions() {
                continue;
            }
            let function = function(kernel.place, index);
            links.push(self.empty.attach(kernel.hook, PROGRAM.as_ref(), self.offsets.of(&function)?)?);
            let is_stepped = kernel.name.contains("single-stepped");
            let hits = if is_stepped { STEPPED_HITS } else { HITS };
            rows.push((kernel.name.to_owned(), passes(&function, hits), PerHit::default()));
        }
        for _ in 0..options.runs(41, 5) {
            for (_, passes, per_hit) in &mut rows {
                per_hit.push(&self.watched.run(passes)?, passes.times);
            }
        }
        let mut table = ResultTable::new(&["an empty program at", "ns per hit"]);
        let names = self.watched.hardware_names();
        table.columns.extend(names.iter().map(|name| format!("{name} per hit")));
        for (name, _, per_hit) in &rows {
            let hardware = names.iter().map(|name| &per_hit.hardware[name]);
            let all = std::iter::once(&per_hit.ns).chain(hardware);
            table.row(name.clone(), all.map(|samples| Cell::runs(samples, 0)).collect());
        }
        Ok(table)
    }

    /// Fast probes, beside the same calls without them, and while they do not record.
    fn fast(&mut self, options: BenchOptions, checks: &mut Vec<RegressionBound>) -> Result<ResultTable> {
        let mut process = ProbedProcess::start(Some(measured_and_others()?.0))?;
        // What is returned is as much as was asked for, which is no null pointer.
        let passes = Passes { arguments: ["64"; 3], ..passes(THROUGH, FAST_HITS) };
        process.run(&passes)?;
        let noted = NotedCall { name: 1, return_is_hooked: false, may_be_nested: false };
        let whole = HookKind::Whole { noted, stack_arguments: 1, made: None, completes: None };
        let block = |least_bytes| {
            let (call, program_is_own) = (HeapCall::Malloc, false);
            HookKind::Heap(HeapHook { call, least_bytes, program_is_own, entry: PUSH_AT_ENTRY })
        };
        let kinds = [
            ("a copy", HookKind::Record, FAST_COPY_GOAL_NS),
            ("a heap block, at its return", block(0), FAST_BLOCK_GOAL_NS),
            ("an MPI call with seven arguments", whole, FAST_CALL_GOAL_NS),
        ];
        let (mut plain, mut small) = (PerHit::default(), PerHit::default());
        let mut by_kind = kinds.map(|_| [(); 2].map(|()| PerHit::default()));
        for _ in 0..options.runs(41, 5) {
            plain.push(&process.run(&passes)?, FAST_HITS);
            let hook = FastHook::put_into(process.pid(), block(u64::MAX))?;
            hook.record(true);
            process.run(&passes)?;
            small.push(&process.run(&passes)?, FAST_HITS);
            hook.check_records(0)?;
            drop(hook);
            for ((_, kind, _), [recorded, idle]) in kinds.into_iter().zip(&mut by_kind) {
                let hook = FastHook::put_into(process.pid(), kind)?;
                idle.push(&process.run(&passes)?, FAST_HITS);
                hook.record(true);
                // The first records of a ring pay for its memory.
                for round in 1..=FAST_ROUNDS {
                    process.run(&passes)?;
                    hook.check_records(round * FAST_HITS)?;
                }
                recorded.push(&process.run(&passes)?, FAST_HITS);
                hook.check_records((FAST_ROUNDS + 1) * FAST_HITS)?;
            }
        }
        let mut table = ResultTable::new(&["a call through a slot", "ns per call"]);
        table.row("as it is".to_owned(), vec![Cell::runs(&plain.ns, 1)]);
        table
            .row("as a heap block that is too small for a record".to_owned(), vec![Cell::runs(&small.ns, 1)]);
        for ((what, _, goal_ns), [recorded, idle]) in kinds.into_iter().zip(&by_kind) {
            table.row(format!("recorded as {what}"), vec![Cell::runs(&recorded.ns, 1)]);
            table.row(format!("the same, its reader gone ({what})"), vec![Cell::runs(&idle.ns, 1)]);
            checks.push(RegressionBound {
                what: format!("{what} that a fast probe records, ns"),
                value: recorded.ns.median() - plain.ns.median(),
                at_most: goal_ns,
            });
        }
        Ok(table)
    }

    fn cases(&mut self, options: BenchOptions, checks: &mut Vec<RegressionBound>) -> Result<ResultTable> {
        let mut table = ResultTable::new(&["our program", "empty, ns", "ours, ns", "ours / empty", "goal"]);
        let names = self.watched.hardware_names();
        table.columns.extend(names.iter().map(|name| format!("{name}, ours / empty")));
        let mut links = Vec::new();
        let outer = OurProbe { class: ProbeClass::Call, function: "MPI_Send", argument: 0 };
        self.ours.attach(&outer, "outer", &self.offsets)?;
        let mut rows = Vec::new();
        for (index, case) in cases().into_iter().enumerate() {
            if case.hook != Hook::Entry && !self.ours.has_sessions() {
                continue;
            }
            let (bare, ours) = (function(case.place, 2 * index), function(case.place, 2 * index + 1));
            links.push(self.empty.attach(case.hook, PROGRAM.as_ref(), self.offsets.of(&bare)?)?);
            self.ours.attach(&case.probe, &ours, &self.offsets)?;
            rows.push(ComparedHits {
                case,
                bare,
                ours,
                empty: PerHit::default(),
                with_ours: PerHit::default(),
            });
        }
        for _ in 0..options.runs(41, 5) {
            for row in &mut rows {
                self.run_pair(row)?;
            }
        }
        for row in &rows {
            let ratios = row.with_ours.ns.over(&row.empty.ns);
            let goal = row.case.goal.map_or("–".to_owned(), |goal| format!("≤ {goal}"));
            let mut cells = vec![
                Cell::runs(&row.empty.ns, 0),
                Cell::runs(&row.with_ours.ns, 0),
                Cell::runs(&ratios, 3),
                Cell::text(goal),
            ];
            let ratio = |name: &&str| row.with_ours.hardware[name].over(&row.empty.hardware[name]);
            cells.extend(names.iter().map(|name| Cell::runs(&ratio(name), 3)));
            table.row(row.case.name, cells);
            checks.extend(row.case.goal.map(|goal| RegressionBound {
                what: format!("{}: ours / empty", row.case.name),
                value: ratios.median(),
                at_most: goal * GROSS,
            }));
        }
        Ok(table)
    }

    fn run_pair(&mut self, row: &mut ComparedHits) -> Result<()> {
        let case = &row.case;
        let process = if case.watched { &mut self.watched } else { &mut self.stranger };
        let with = |function: &str| Passes {
            arguments: case.arguments,
            inside: case.inside,
            ..passes(function, HITS)
        };
        let before = self.ours.counted(SLOT);
        row.empty.push(&process.run(&with(&row.bare))?, HITS);
        row.with_ours.push(&process.run(&with(&row.ours))?, HITS);
        // Both runs are inside the function that stands for an MPI call: a record each.
        let calls = if case.inside && case.watched { 2 } else { 0 };
        self.ours.settle()?;
        self.ours.check_records(SLOT, before, calls + if case.records { HITS } else { 0 })
    }
}

struct ComparedHits {
    case: HitCase,
    bare: String,
    ours: String,
    empty: PerHit,
    with_ours: PerHit,
}

fn passes(function: &str, times: u64) -> Passes {
    Passes { function: function.to_owned(), times, arguments: ["0"; 3], inside: false }
}
