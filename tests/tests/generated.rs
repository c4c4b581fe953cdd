//! Programs made from an operation and a fault in its use: what is said of them, and that nothing is said of their right twins.
//!
//! The usual run takes a small sample of the half that is looked at, as dmscope sees it that starts the job. Variables
//! change that, all with the prefix `DMSCOPE_TEST_GENERATED`:
//!
//! | variable | meaning |
//! | --- | --- |
//! | (none) | how many cases, of both halves, or `all`; or a text that the cases' names have in them |
//! | `_LIBRARY` | `openmpi` or `mpich`, else both |
//! | `_MODE` | `start`, `returns` (results of calls are recorded), `after` (dmscope comes when the job hangs), or `alone` (it does not come: do the programs do what is said to be true of them?) |
//! | `_TWINS` | `no`: without the right twins; `only`: nothing else |
//! | `_SECONDS` | how long to wait for something to be said (15) |
//! | `_SIDE_BY_SIDE` | how many programs at once (3) |
//! | `_RESULTS` | a file that each result is added to; what is in it already is not run again |
//! | `_LIST` | any value: names only |

use std::collections::{HashSet, VecDeque};
use std::env::{VarError, var};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use live::MpiImplementation;
use live::findings::summary;
use live::generated::{
    Case, ExpectedOutcome, Half, JudgedRun, ResultsFile, Seen, TableRow, WatchMode, cases, watch,
};

/// Cases of the usual run, with each library: half a minute.
const SAMPLE: usize = 3;

/// What the variables ask for.
struct Wanted {
    cases: Vec<Case>,
    libraries: Vec<MpiImplementation>,
    mode: WatchMode,
    twins: Vec<bool>,
    limit: Duration,
    side_by_side: usize,
    results: Option<PathBuf>,
}

fn variable(name: &str) -> Result<Option<String>> {
    match var(format!("DMSCOPE_TEST_GENERATED{name}")) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(error) => bail!("DMSCOPE_TEST_GENERATED{name}: {error}"),
    }
}

fn number(name: &str, default: u64) -> Result<u64> {
    let text = variable(name)?;
    text.map_or(Ok(default), |text| text.parse()).with_context(|| format!("DMSCOPE_TEST_GENERATED{name}"))
}

fn wanted_cases() -> Result<Vec<Case>> {
    let all = cases();
    let Some(text) = variable("")? else {
        let looked_at = all.into_iter().filter(|case| case.half() == Half::LookedAt);
        return Ok(looked_at.take(SAMPLE).collect());
    };
    let count = if text == "all" { Ok(all.len()) } else { text.parse() };
    let is_whole_name = all.iter().any(|case| case.name() == text);
    let named = |case: &Case| case.name() == text || !is_whole_name && case.name().contains(&text);
    Ok(match count {
        Ok(count) => all.into_iter().take(count).collect(),
        Err(_) => all.into_iter().filter(named).collect(),
    })
}

fn wanted() -> Result<Wanted> {
    let library = variable("_LIBRARY")?;
    let is_wanted = |one: &MpiImplementation| library.as_ref().is_none_or(|name| name == one.name());
    let libraries: Vec<_> = MpiImplementation::ALL.into_iter().filter(is_wanted).collect();
    ensure!(!libraries.is_empty(), "DMSCOPE_TEST_GENERATED_LIBRARY: no such library");
    let mode = variable("_MODE")?.unwrap_or_else(|| "start".to_owned());
    let twins = match variable("_TWINS")?.as_deref() {
        Some("no") => vec![false],
        Some("only") => vec![true],
        _ => vec![false, true],
    };
    Ok(Wanted {
        cases: wanted_cases()?,
        libraries,
        mode: WatchMode::ALL
            .into_iter()
            .find(|one| one.name() == mode)
            .context("DMSCOPE_TEST_GENERATED_MODE")?,
        twins,
        limit: Duration::from_secs(number("_SECONDS", 15)?),
        side_by_side: usize::try_from(number("_SIDE_BY_SIDE", 3)?)?,
        results: variable("_RESULTS")?.map(PathBuf::from),
    })
}

/// One program to run.
struct Turn<'a> {
    case: &'a Case,
    library: MpiImplementation,
    mode: WatchMode,
    is_right: bool,
}

impl Turn<'_> {
    fn run(&self, limit: Duration) -> TableRow {
        let seen = watch(self.case, self.is_right, self.library, self.mode, limit);
        let mut row = TableRow {
            case: self.case.name(),
            library: self.library.name().to_owned(),
            mode: self.mode.name().to_owned(),
            is_right: self.is_right,
            is_through: None,
            seconds: 0.0,
            verdict: JudgedRun::default(),
            said: Vec::new(),
            has_warning: false,
            error: None,
        };
        match seen {
            Ok(seen) => fill(&mut row, self.case, &seen),
            Err(error) => row.error = Some(format!("{error:#}")),
        }
        row
    }
}

fn fill(row: &mut TableRow, case: &Case, seen: &Seen) {
    let is_warning = |finding: &serde_json::Value| finding["severity"] == "warning";
    row.is_through = seen.is_through;
    row.seconds = seen.seconds;
    row.verdict = JudgedRun::of(case, &seen.findings);
    row.has_warning = seen.findings.iter().any(is_warning);
    let told = seen.findings.iter().filter(|finding| {
        is_warning(finding)
            || ["hang", "collective_mismatch"].iter().any(|kind| finding["evidence"]["kind"] == *kind)
    });
    row.said = told.map(summary).collect();
}

/// All programs that are wanted and of which nothing is known yet, taken by several threads in turn.
fn run_all(wanted: &Wanted, results: ResultsFile) -> Result<ResultsFile> {
    let mut turns = VecDeque::new();
    for case in &wanted.cases {
        for &library in &wanted.libraries {
            for &is_right in &wanted.twins {
                if !results.has(&case.name(), library.name(), wanted.mode.name(), is_right) {
                    turns.push_back(Turn { case, library, mode: wanted.mode, is_right });
                }
            }
        }
    }
    // A twin ends by itself, so that there is nothing to come to later.
    turns.retain(|turn: &Turn| !turn.is_right || turn.mode != WatchMode::After);
    let (turns, results) = (Mutex::new(turns), Mutex::new(Ok(results)));
    let next = || turns.lock().expect("turns").pop_front();
    let work = || {
        while let Some(turn) = next() {
            let row = turn.run(wanted.limit);
            eprintln!("{}", line_of(&row));
            let mut results = results.lock().expect("results");
            if let Ok(all) = results.as_mut()
                && let Err(error) = all.add(row)
            {
                *results = Err(error);
                break;
            }
        }
    };
    std::thread::scope(|scope| (0..wanted.side_by_side.max(1)).for_each(|_| drop(scope.spawn(work))));
    results.into_inner().expect("results")
}

fn line_of(row: &TableRow) -> String {
    let what = match row.is_through {
        None => "hangs",
        Some(true) => "ends",
        Some(false) => "dies",
    };
    let mark = |is_right| if is_right { "right" } else { "NOT RIGHT" };
    let said = match (&row.error, row.verdict.class) {
        (Some(error), _) => format!("the test failed: {error}"),
        (None, None) => "nothing is said".to_owned(),
        (None, Some(class)) => format!(
            "{class:?} of {:?}: class {}, ranks {}, line {}: {}",
            row.verdict.named,
            mark(row.verdict.class_is_right),
            mark(row.verdict.ranks_are_right),
            mark(row.verdict.line_is_right),
            row.verdict.summary
        ),
    };
    format!("{}: {what}, {:.1} s: {said}", row.key(), row.seconds)
}

#[test]
fn no_program_that_hangs_is_called_fine_and_no_right_one_is_warned_of() -> Result<()> {
    let wanted = wanted()?;
    if variable("_LIST")?.is_some() {
        wanted.cases.iter().for_each(|case| println!("{} ({})", case.name(), case.half().name()));
        return Ok(());
    }
    let begin = Instant::now();
    let results = run_all(&wanted, ResultsFile::of(wanted.results.clone())?)?;
    println!("{}", results.table());
    println!("{} programs known after {:.0} s", results.rows().count(), begin.elapsed().as_secs_f64());
    let lines = |is_bad: fn(&TableRow) -> bool| -> Vec<String> {
        results.rows().filter(|row| is_bad(row)).map(line_of).collect()
    };
    let failed = lines(|row| row.error.is_some());
    ensure!(failed.is_empty(), "tests failed:\n{}", failed.join("\n"));
    let must_hang: HashSet<String> = cases()
        .iter()
        .filter(|case| case.truth().outcome == ExpectedOutcome::Hangs)
        .map(Case::name)
        .collect();
    let ended: Vec<String> = results
        .rows()
        .filter(|row| !row.is_right && row.is_through.is_some() && must_hang.contains(&row.case))
        .map(line_of)
        .collect();
    ensure!(ended.is_empty(), "programs that must hang ended:\n{}", ended.join("\n"));
    let fine = lines(|row| row.mode != WatchMode::Alone.name() && row.is_called_fine());
    ensure!(fine.is_empty(), "programs that hang are called fine:\n{}", fine.join("\n"));
    let alarms = lines(TableRow::is_false_alarm);
    ensure!(alarms.is_empty(), "right programs are warned of, or do not end:\n{}", alarms.join("\n"));
    Ok(())
}
