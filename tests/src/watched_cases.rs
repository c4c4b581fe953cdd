//! Cases of the catalogue, watched by dmscope, on this machine or on several nodes: what it tells of them, held against what is known.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::catalogue::CASES;
use crate::fault_case::{Ends, FaultCase, FaultClass};
use crate::{Cluster, Dmscope, JobSpec, MpiImplementation, RunningJob, RunningSession};

const TIMEOUT: Duration = Duration::from_secs(120);
/// What is not told of by then is not told of.
pub const LIMIT: Duration = Duration::from_secs(30);
/// The same among many ranks, which have little processor time each.
pub const LIMIT_OF_MANY: Duration = Duration::from_secs(600);
/// Far more ranks than machines for tests have cores.
pub const MANY: u32 = 64;
/// The job has long come to its fault by then.
const HUNG: Duration = Duration::from_secs(2);

/// When dmscope comes to the job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Comes {
    /// The job is held until it is there.
    BeforeTheFault,
    /// The job hangs.
    AfterIt,
}

/// The finding of an alert, as far as it is judged.
struct FaultAlert {
    fault: String,
    ranks: Vec<u64>,
    has_line: bool,
    has_nodes: bool,
    seconds: f64,
    summary: String,
}

/// What a class of faults is called in findings; `None`: nothing is said of those that hang or die this way.
fn fault_of(class: FaultClass) -> Option<&'static str> {
    match class {
        FaultClass::Deadlock => Some("deadlock"),
        FaultClass::MissingMessage => Some("missing_message"),
        FaultClass::MismatchedCollective => Some("mismatched_collective"),
        FaultClass::Crash | FaultClass::CalculationFault => Some("crash"),
        FaultClass::BlockedOutside => Some("outside"),
        FaultClass::Truncated => Some("truncated"),
        FaultClass::InvalidCall => Some("invalid_call"),
        FaultClass::Leak | FaultClass::MismatchedDatatype | FaultClass::Silent => None,
    }
}

fn limit(case: &FaultCase) -> Duration {
    if case.ranks < MANY { LIMIT } else { LIMIT_OF_MANY }
}

/// Where the ranks are.
#[derive(Clone, Copy)]
pub enum Ranks<'a> {
    /// On this machine.
    Here,
    /// On this machine; a shell script has started each, and waits for it.
    ByScript,
    /// On its nodes in turn.
    On(&'a Cluster),
}

impl Ranks<'_> {
    fn place(self, job: JobSpec) -> Result<JobSpec> {
        match self {
            Self::Here => Ok(job),
            Self::ByScript => Ok(job.through(["sh", "-c", "\"$@\"; exit $?", "sh"])),
            Self::On(cluster) => job.on_nodes(&cluster.nodes),
        }
    }

    /// A session that sees all of them.
    fn attach(self, job: &RunningJob, case: &FaultCase) -> Result<RunningSession> {
        let duration = ["--duration".to_owned(), format!("{}s", limit(case).as_secs())];
        let mut dmscope = match self {
            Self::Here | Self::ByScript => Dmscope::attach(job.launcher_pid()).args(duration).spawn()?,
            Self::On(cluster) => cluster.attach(&cluster.job(case.ranks as usize)?).args(duration).spawn()?,
        };
        dmscope.set_patience(2 * limit(case));
        match self {
            Self::Here | Self::ByScript => dmscope.wait_until_attached()?,
            // It has nothing in the kernel itself.
            Self::On(_) => dmscope.wait_for_event("attached")?,
        };
        Ok(dmscope)
    }

    /// The node of each rank; of a job on this machine none.
    fn places(self, job: &RunningJob) -> Result<Vec<String>> {
        let Self::On(cluster) = self else { return Ok(Vec::new()) };
        job.rank_pids()?.into_iter().map(|pid| cluster.nodes.of_process(pid)).collect()
    }
}

fn watch(case: &FaultCase, library: MpiImplementation, comes: Comes, ranks: Ranks<'_>) -> Result<FaultAlert> {
    let job =
        JobSpec::own(library, case.job)?.ranks(case.ranks as usize).args(case.args.iter().copied()).held();
    let job = ranks.place(job)?.spawn()?;
    job.wait_until_ready(TIMEOUT.max(limit(case)))?;
    let places = ranks.places(&job)?;
    let attach = || ranks.attach(&job, case);
    let begin;
    let dmscope;
    match comes {
        Comes::BeforeTheFault => {
            dmscope = attach()?;
            begin = Instant::now();
            job.go()?;
        }
        Comes::AfterIt => {
            job.go()?;
            std::thread::sleep(HUNG);
            begin = Instant::now();
            dmscope = attach()?;
        }
    }
    let finding = dmscope.wait_for_alert(|finding| finding["evidence"]["kind"] == "hang")?;
    let seconds = begin.elapsed().as_secs_f64();
    dmscope.interrupt();
    dmscope.finish()?;
    FaultAlert::of(case, &finding, &places, seconds)
}

impl FaultAlert {
    fn of(case: &FaultCase, finding: &Value, places: &[String], seconds: f64) -> Result<Self> {
        let who = finding["who"].as_array().into_iter().flatten();
        Ok(Self {
            fault: finding["evidence"]["fault"].as_str().unwrap_or_default().to_owned(),
            ranks: who.filter_map(|who| who["rank"].as_u64()).collect(),
            has_line: has_line(case, finding)?,
            has_nodes: has_nodes(finding, places),
            seconds,
            summary: finding["summary"].as_str().unwrap_or_default().to_owned(),
        })
    }
}

/// Whether it says of each rank that it names on which node that is.
fn has_nodes(finding: &Value, places: &[String]) -> bool {
    let told = finding["nodes"].as_array().into_iter().flatten();
    let told: Vec<(Option<u64>, Option<&str>)> =
        told.map(|place| (place["who"]["rank"].as_u64(), place["node"].as_str())).collect();
    let who = finding["who"].as_array().into_iter().flatten();
    let named: Vec<u64> = who.filter_map(|who| who["rank"].as_u64()).filter(|_| !places.is_empty()).collect();
    let right = |rank: &u64| (Some(*rank), places.get(*rank as usize).map(String::as_str));
    told == named.iter().map(right).collect::<Vec<_>>()
}

/// Whether the line at fault is where the first rank at fault is.
fn has_line(case: &FaultCase, finding: &Value) -> Result<bool> {
    // Of the dead only the innermost place is known: where a fault is, but not where raise() was called.
    if case.class == FaultClass::Crash {
        return Ok(true);
    }
    let (Some((file, _)), Some(line)) = (case.place, case.line()?) else { return Ok(true) };
    // Where all crash, any of them is at that line.
    let first = match case.class {
        FaultClass::CalculationFault => finding["who"][0]["rank"].as_u64().unwrap_or_default(),
        _ => u64::from(case.at_fault[0]),
    };
    let mut ranks = finding["evidence"]["ranks"].as_array().into_iter().flatten();
    let Some(rank) = ranks.find(|rank| rank["who"]["rank"] == first) else { return Ok(false) };
    let places = rank["stack"].as_array().into_iter().flatten().chain([&rank["call"]["place"]]);
    let mut frames = places.flat_map(|place| place["frames"].as_array().into_iter().flatten());
    Ok(frames.any(|frame| {
        frame["line"] == line && frame["source"].as_str().is_some_and(|source| source.ends_with(file))
    }))
}

/// A case, how dmscope came to it, and what it told.
struct CaseOutcome<'a> {
    case: &'a FaultCase,
    library: MpiImplementation,
    comes: Comes,
    told: Result<FaultAlert>,
}

impl CaseOutcome<'_> {
    fn class_is_right(&self) -> bool {
        self.told.as_ref().is_ok_and(|told| Some(told.fault.as_str()) == fault_of(self.case.class))
    }

    fn ranks_are_right(&self) -> bool {
        let wanted: BTreeSet<u64> = self.case.at_fault.iter().map(|&rank| rank.into()).collect();
        let Ok(told) = &self.told else { return false };
        let found: BTreeSet<u64> = told.ranks.iter().copied().collect();
        // Where all ranks crash, the alert comes with the first, and the launcher may end some before they do.
        let all_crash = told.fault == "crash" && wanted.len() > 1;
        found == wanted || all_crash && !found.is_empty() && found.is_subset(&wanted)
    }

    fn line_is_right(&self) -> bool {
        self.told.as_ref().is_ok_and(|told| told.has_line)
    }

    fn nodes_are_right(&self) -> bool {
        self.told.as_ref().is_ok_and(|told| told.has_nodes)
    }

    fn is_right(&self) -> bool {
        self.class_is_right() && self.ranks_are_right() && self.line_is_right() && self.nodes_are_right()
    }

    fn text(&self) -> String {
        let mark = |right| if right { "yes" } else { "NO" };
        let (seconds, said) = match &self.told {
            Ok(told) => {
                (format!("{:.1}", told.seconds), format!("{} {:?}: {}", told.fault, told.ranks, told.summary))
            }
            Err(error) => ("–".into(), format!("{error:#}").lines().next().unwrap_or_default().to_owned()),
        };
        let comes = if self.comes == Comes::BeforeTheFault { "before" } else { "after" };
        format!(
            "| {} {} | {} | {} | {comes} | {} | {} | {} | {} | {seconds} | {} |",
            self.case.job,
            self.case.args[1..].join(" "),
            self.case.ranks,
            self.library.name(),
            mark(self.class_is_right()),
            mark(self.ranks_are_right()),
            mark(self.line_is_right()),
            mark(self.nodes_are_right()),
            if self.is_right() { String::new() } else { said },
        )
    }
}

/// What nothing is said of yet, or not all: the fault, with which library (`None`: both), and why.
const NOT_TOLD: [(&str, Option<MpiImplementation>, &str); 4] = [
    ("endless_loop", None, "a rank that computes is left alone"),
    (
        "other_size",
        None,
        "whether the root or the rank that failed has the wrong size is not known: both are named",
    ),
    ("bcast_other_root", None, "all ranks are somewhere else: all are named"),
    ("gather_other_root", None, "the rank with the wrong root went on: the one that still waits is named"),
];

/// What cannot be told without a record of a call that came before: what is not in the library's memory. MPICH's MPI_Bcast
/// does not keep its communicator, calls on windows do not keep the window, and what its requests stand for is not to be seen.
const NOT_IN_MEMORY: [(&str, Option<MpiImplementation>); 11] = [
    ("ibarrier_unstarted", None),
    ("barrier_or_ibarrier", None),
    ("waitall_collective", None),
    ("barrier_or_bcast", Some(MpiImplementation::Mpich)),
    ("waitall_unmatched", Some(MpiImplementation::Mpich)),
    ("waitany_unmatched", Some(MpiImplementation::Mpich)),
    ("persistent_unstarted", Some(MpiImplementation::Mpich)),
    ("test_forever", Some(MpiImplementation::Mpich)),
    ("lock_held", Some(MpiImplementation::Mpich)),
    ("start_without_post", Some(MpiImplementation::Mpich)),
    ("fence_missed", Some(MpiImplementation::Mpich)),
];

/// Whether a job that hangs has all of it in memory, so that it is told of without having been watched before.
pub fn is_in_memory(case: &FaultCase, library: MpiImplementation) -> bool {
    let of_requests = case.job == "layers" && library == MpiImplementation::Mpich;
    let listed = |(fault, only): &(&str, Option<MpiImplementation>)| {
        case.args.contains(fault) && only.is_none_or(|only| only == library)
    };
    !of_requests && !NOT_IN_MEMORY.iter().any(listed)
}

fn is_told(case: &FaultCase, library: MpiImplementation) -> bool {
    let listed = |(fault, only, _): &(&str, Option<MpiImplementation>, &str)| {
        case.args.contains(fault) && only.is_none_or(|only| only == library)
    };
    !NOT_TOLD.iter().any(listed)
}

/// Cases that hang or die: those that a hang or a death is told of.
fn told_cases() -> impl Iterator<Item = &'static FaultCase> {
    CASES
        .iter()
        .filter(|case| fault_of(case.class).is_some() && matches!(case.ends, Ends::Hangs | Ends::Dies))
}

/// What the variable asks for: see the tests of the catalogue.
pub fn chosen() -> Vec<(&'static FaultCase, MpiImplementation)> {
    let wanted = std::env::var("DMSCOPE_TEST_CATALOGUE").unwrap_or_default();
    let both = |case: &'static FaultCase| {
        let libraries = MpiImplementation::ALL.into_iter().filter(move |&library| is_told(case, library));
        libraries.map(move |library| (case, library))
    };
    if wanted == "all" {
        for (fault, library, why) in NOT_TOLD {
            eprintln!(
                "not told: {fault}, {}: {why}",
                library.map_or("both libraries", MpiImplementation::name)
            );
        }
        return told_cases().flat_map(both).collect();
    }
    if !wanted.is_empty() {
        return told_cases()
            .filter(|case| case.job == wanted || case.args.contains(&wanted.as_str()))
            .flat_map(both)
            .collect();
    }
    let mut seen = Vec::new();
    let by_both =
        told_cases().filter(|case| MpiImplementation::ALL.iter().all(|&library| is_told(case, library)));
    let mut is_first = |case: &&FaultCase| {
        !seen.contains(&case.class) && {
            seen.push(case.class);
            true
        }
    };
    by_both.filter(&mut is_first).flat_map(both).collect()
}

/// Watches cases, prints what is told of them, and fails unless all of it is right.
///
/// # Errors
/// What is not as it should be; a case that could not be watched.
pub fn check(
    comes: Comes,
    cases: &[(&FaultCase, MpiImplementation)],
    ranks: Ranks<'_>,
    within: Duration,
) -> Result<()> {
    let mut table = String::from(
        "| case | ranks | library | dmscope comes | class | ranks | line | nodes | s | said |\n",
    );
    let mut rows = Vec::new();
    for &(case, library) in cases {
        let row = CaseOutcome { case, library, comes, told: watch(case, library, comes, ranks) };
        eprintln!("{}", row.text());
        let _ = writeln!(table, "{}", row.text());
        rows.push(row);
    }
    eprintln!("{}", summary(&rows));
    let is_late =
        |row: &CaseOutcome<'_>| row.told.as_ref().is_ok_and(|told| told.seconds > within.as_secs_f64());
    let wrong: Vec<&CaseOutcome> = rows.iter().filter(|row| !row.is_right() || is_late(row)).collect();
    ensure!(wrong.is_empty(), "{} of {} are not as they should be:\n{table}", wrong.len(), rows.len());
    Ok(())
}

/// How many cases were told of, and how many of these rightly: recall, precision, and what of them is exact.
fn summary(rows: &[CaseOutcome<'_>]) -> String {
    let mut by_class: BTreeMap<(String, &str), Vec<&CaseOutcome<'_>>> = BTreeMap::new();
    for row in rows {
        by_class.entry((format!("{:?}", row.case.class), row.library.name())).or_default().push(row);
        by_class.entry(("all".to_owned(), row.library.name())).or_default().push(row);
    }
    let mut text = String::from(
        "| class | library | cases | told of | class right | ranks right | line right | median s |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for ((class, library), rows) in by_class {
        let count = |is: &dyn Fn(&CaseOutcome<'_>) -> bool| rows.iter().filter(|row| is(row)).count();
        let told = count(&|row| row.told.is_ok());
        let (by_class, by_ranks) = (count(&|row| row.class_is_right()), count(&|row| row.ranks_are_right()));
        let by_line = count(&|row| row.line_is_right());
        let mut seconds: Vec<f64> =
            rows.iter().filter_map(|row| Some(row.told.as_ref().ok()?.seconds)).collect();
        seconds.sort_by(f64::total_cmp);
        let median =
            seconds.get(seconds.len() / 2).map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.1}"));
        let cases = rows.len();
        let _ = writeln!(
            text,
            "| {class} | {library} | {cases} | {told} | {by_class} | {by_ranks} | {by_line} | {median} |"
        );
    }
    text
}
