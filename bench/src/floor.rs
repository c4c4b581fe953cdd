//! `floor`: what a hit costs, of an empty program and of ours at the same place.

use analyzer::plan::ProbeClass;
use anyhow::Result;

use crate::counters::PerHit;
use crate::empty::{EmptyPrograms, Hook};
use crate::kinds::Options;
use crate::ours::{OurProbe, Ours, measured_and_others};
use crate::places::{COPIES, Offsets, PROGRAM, Passes, Places, function};
use crate::report::{Cell, Check, Section, Table};

/// Hits in one run; about fifteen milliseconds.
const HITS: u64 = 20_000;
/// Single-stepped ones take twenty times as long.
const STEPPED_HITS: u64 = 2_000;
/// The one process's ring and counters.
const SLOT: u32 = 0;
/// What a gross regression is: more than this many times the goal.
const GROSS: f64 = 1.5;

/// A kind of place and an empty program there.
struct Kernel {
    name: &'static str,
    place: &'static str,
    hook: Hook,
}

const fn kernel(name: &'static str, place: &'static str, hook: Hook) -> Kernel {
    Kernel { name, place, hook }
}

const KERNEL: [Kernel; 12] = [
    kernel("5-byte `nop`", "nop5", Hook::Entry),
    kernel("`nop`", "nop", Hook::Entry),
    kernel("`push`", "push", Hook::Entry),
    kernel("`call rel32`", "call", Hook::Entry),
    kernel("`jmp rel32`", "jmp", Hook::Entry),
    kernel("conditional jump", "jcc", Hook::Entry),
    kernel("`push`, return only", "push", Hook::Return),
    kernel("`push`, session: entry and return", "push", Hook::Session),
    kernel("`push`, session that declines the return", "push", Hook::SessionDeclined),
    kernel("`sub`, single-stepped", "sub", Hook::Entry),
    kernel("`lea`, single-stepped", "lea", Hook::Entry),
    kernel("`endbr64`, single-stepped", "endbr64", Hook::Entry),
];

/// One of our programs and the empty one that it is compared with.
struct Case {
    name: &'static str,
    place: &'static str,
    hook: Hook,
    probe: OurProbe,
    arguments: [&'static str; 3],
    inside: bool,
    watched: bool,
    records: bool,
    goal: Option<f64>,
}

const COPY: [&str; 3] = ["4096", "8192", "64"];
const COPY_GOAL: Option<f64> = Some(1.25);
const CALL_GOAL: Option<f64> = Some(1.4);

fn cases() -> Vec<Case> {
    let probe = |class, function, argument| OurProbe { class, function, argument };
    let case = |name, place, probe, arguments| Case {
        name,
        place,
        hook: Hook::Entry,
        probe,
        arguments,
        inside: false,
        watched: true,
        records: true,
        goal: None,
    };
    let copy = || probe(ProbeClass::Copy, "memcpy", 0);
    let call = || probe(ProbeClass::Call, "MPI_Send", 0);
    let malloc = || probe(ProbeClass::Alloc, "malloc", 0);
    let free = || probe(ProbeClass::Free, "free", 1);
    vec![
        Case {
            inside: true,
            goal: COPY_GOAL,
            ..case("copy within an MPI call, at its `call`", "call", copy(), COPY)
        },
        Case { inside: true, goal: COPY_GOAL, ..case("the same, tail `jmp`", "jmp", copy(), COPY) },
        Case { inside: true, goal: COPY_GOAL, ..case("the same, conditional jump", "jcc", copy(), COPY) },
        Case { goal: COPY_GOAL, ..case("copy outside of MPI calls, at its `call`", "call", copy(), COPY) },
        Case { goal: CALL_GOAL, ..case("MPI call with six arguments, at its `push`", "push", call(), COPY) },
        Case { inside: true, goal: CALL_GOAL, ..case("MPI call within another", "push", call(), COPY) },
        Case {
            goal: COPY_GOAL,
            ..case(
                "polling call's success, conditional jump",
                "jcc",
                probe(ProbeClass::PollSuccess, "MPI_Test", 0),
                COPY,
            )
        },
        case("`free` of a large block", "push", free(), ["block", "0", "0"]),
        Case {
            hook: Hook::Session,
            ..case("`malloc` of a large block: entry and return", "push", malloc(), ["65536", "0", "0"])
        },
        Case {
            hook: Hook::SessionDeclined,
            records: false,
            ..case("`malloc` of a small block: declined at entry", "push", malloc(), ["100", "0", "0"])
        },
        Case { watched: false, records: false, ..case("copy of a stranger", "call", copy(), COPY) },
        Case {
            hook: Hook::SessionDeclined,
            watched: false,
            records: false,
            ..case("`malloc` of a stranger", "push", malloc(), ["100", "0", "0"])
        },
    ]
}

/// Measures.
///
/// # Errors
/// The kernel's refusal, or a probe that was not hit as often as it was passed.
pub fn measure(options: Options) -> Result<Section> {
    let mut bench = Bench::new()?;
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
    section.tables.push(bench.cases(options, &mut section.checks)?);
    Ok(section)
}

struct Bench {
    offsets: Offsets,
    empty: EmptyPrograms,
    ours: Ours,
    watched: Places,
    stranger: Places,
}

impl Bench {
    fn new() -> Result<Self> {
        let (cpu, others) = measured_and_others()?;
        let mut ours = Ours::load(others)?;
        let empty = EmptyPrograms::load(ours.has_sessions())?;
        let (watched, stranger) = (Places::start(Some(cpu))?, Places::start(Some(cpu))?);
        ours.watch(watched.pid(), SLOT)?;
        Ok(Self { offsets: Offsets::read()?, empty, ours, watched, stranger })
    }

    /// Empty programs, each kind of place in turn, and calls without any.
    fn kernel(&mut self, options: Options) -> Result<Table> {
        let mut links = Vec::new();
        let mut rows =
            vec![("no probe".to_owned(), passes(&function("push", COPIES - 1), HITS), PerHit::default())];
        for (index, kernel) in KERNEL.iter().enumerate() {
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
        let mut table = Table::new(&["an empty program at", "ns per hit"]);
        let names = self.watched.hardware_names();
        table.columns.extend(names.iter().map(|name| format!("{name} per hit")));
        for (name, _, per_hit) in &rows {
            let hardware = names.iter().map(|name| &per_hit.hardware[name]);
            let all = std::iter::once(&per_hit.ns).chain(hardware);
            table.row(name.clone(), all.map(|samples| Cell::runs(samples, 0)).collect());
        }
        Ok(table)
    }

    fn cases(&mut self, options: Options, checks: &mut Vec<Check>) -> Result<Table> {
        let mut table = Table::new(&["our program", "empty, ns", "ours, ns", "ours / empty", "goal"]);
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
            rows.push(Pair { case, bare, ours, empty: PerHit::default(), with_ours: PerHit::default() });
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
            checks.extend(row.case.goal.map(|goal| Check {
                what: format!("{}: ours / empty", row.case.name),
                value: ratios.median(),
                at_most: goal * GROSS,
            }));
        }
        Ok(table)
    }

    fn run_pair(&mut self, row: &mut Pair) -> Result<()> {
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
        self.ours.settle();
        self.ours.check_records(SLOT, before, calls + if case.records { HITS } else { 0 })
    }
}

struct Pair {
    case: Case,
    bare: String,
    ours: String,
    empty: PerHit,
    with_ours: PerHit,
}

fn passes(function: &str, times: u64) -> Passes {
    Passes { function: function.to_owned(), times, arguments: ["0"; 3], inside: false }
}
