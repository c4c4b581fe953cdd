//! The catalogue: jobs with one known fault each, and what is said of them.
//!
//! The usual run takes one case of each class and library. `DMSCOPE_TEST_CATALOGUE=all` takes all of them;
//! a name takes the cases of that program, or with that argument. `DMSCOPE_TEST_MANY_RANKS=openmpi` (or `mpich`) takes some
//! with 64 ranks.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use live::catalogue::CASES;
use live::fault_case::{Ends, FaultCase};
use live::watched_cases::{Comes, LIMIT, LIMIT_OF_MANY, MANY, Ranks, check, chosen, is_in_memory};
use live::{Dmscope, JobSpec, MpiImplementation};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(120);

#[test]
fn each_fault_is_told_by_class_ranks_and_line() -> Result<()> {
    check(Comes::BeforeTheFault, &chosen(), Ranks::Here, LIMIT)
}

#[test]
fn a_job_that_hangs_already_is_told_of_just_so() -> Result<()> {
    let mut cases = chosen();
    cases.retain(|(case, library)| case.ends == Ends::Hangs && is_in_memory(case, *library));
    check(Comes::AfterIt, &cases, Ranks::Here, LIMIT)
}

/// The scripts have the ranks in their environment too.
#[test]
fn ranks_that_hang_are_told_though_scripts_have_started_them() -> Result<()> {
    for comes in [Comes::BeforeTheFault, Comes::AfterIt] {
        let hangs = chosen()
            .into_iter()
            .filter(|(case, library)| case.ends == Ends::Hangs && is_in_memory(case, *library));
        let first = MpiImplementation::ALL.map(|library| hangs.clone().find(|(_, of)| *of == library));
        let first: Vec<_> = first.into_iter().flatten().collect();
        check(comes, &first, Ranks::ByScript, LIMIT)?;
    }
    Ok(())
}

/// Cases of the catalogue with many ranks: an argument of each, and who is at fault then.
const OF_MANY: [(&str, &[u32]); 3] = [
    ("recv_cycle", &{
        let mut all = [0; MANY as usize];
        let mut rank = 0;
        while rank < MANY {
            all[rank as usize] = rank;
            rank += 1;
        }
        all
    }),
    ("missing_break", &[48, 32, 0]),
    ("barrier_or_bcast", &[1]),
];

#[test]
fn faults_among_many_ranks_are_told_of_just_so() -> Result<()> {
    let Ok(wanted) = std::env::var("DMSCOPE_TEST_MANY_RANKS") else {
        eprintln!("not run: it takes minutes; see DMSCOPE_TEST_MANY_RANKS");
        return Ok(());
    };
    let library = MpiImplementation::ALL.into_iter().find(|library| library.name() == wanted);
    let library = library.with_context(|| format!("{wanted}: no library of that name"))?;
    let of_many = |(fault, at_fault): (&str, &'static [u32])| {
        let case = CASES.iter().find(|case| case.args.contains(&fault)).context("no such case")?;
        Ok(FaultCase { ranks: MANY, at_fault, ..*case })
    };
    let cases: Vec<FaultCase> = OF_MANY.into_iter().map(of_many).collect::<Result<_>>()?;
    let cases: Vec<(&FaultCase, MpiImplementation)> = cases.iter().map(|case| (case, library)).collect();
    check(Comes::BeforeTheFault, &cases, Ranks::Here, LIMIT_OF_MANY)
}

/// How often each error was told of that the program went on after: call, class and line (0: not known).
fn errors_told(report: &Value) -> BTreeMap<(String, String, u64), u64> {
    let mut told = BTreeMap::new();
    let findings = report["findings"].as_array().into_iter().flatten();
    let is_error = |evidence: &&Value| evidence["kind"] == "error_returned";
    for evidence in findings.map(|finding| &finding["evidence"]).filter(is_error) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let line = evidence["call"]["place"]["frames"][0]["line"].as_u64().unwrap_or(0);
        let key = (text(&evidence["call"]["function"]), text(&evidence["error"]["class"]), line);
        // The compiler may have made several calls of one line.
        *told.entry(key).or_default() += evidence["count"].as_u64().unwrap_or(0);
    }
    told
}

#[test]
fn errors_that_a_program_handles_are_notices_with_call_class_line_and_count() -> Result<()> {
    const RANKS: u64 = 2;
    let source = std::fs::read_to_string(live::build::sources().join("clean").join("handled.c"))?;
    let line = |marker: &str| {
        let mut lines = (1..).zip(source.lines()).filter(|(_, line)| line.contains(marker));
        lines.next().map_or(0, |(number, _)| number)
    };
    for library in MpiImplementation::ALL {
        let job = JobSpec::own(library, "handled")?.ranks(RANKS as usize).args(["--iterations", "40"]);
        let job = job.held().spawn()?;
        job.wait_until_ready(TIMEOUT)?;
        let mut dmscope = Dmscope::attach(job.launcher_pid()).args(["--budget", "none"]).spawn()?;
        dmscope.wait_until_attached()?;
        job.go()?;
        job.finish(TIMEOUT)?.check_verdict()?;
        let session = dmscope.finish()?;
        session.findings()?.check_no_warning()?;
        let mut told = errors_told(session.report()?);
        // MPICH does not report errors of files through the function of all others.
        told.retain(|(function, ..), _| function != "MPI_File_open");
        let error = |function: &str, class: &str, line, count| {
            ((function.to_owned(), class.to_owned(), line), count * RANKS)
        };
        let expected = BTreeMap::from([
            error("MPI_Send", "MPI_ERR_RANK", line("fails: rank"), 10),
            error("MPI_Recv", "MPI_ERR_TRUNCATE", line("fails: truncated"), 20),
            // Polling calls are not seen to begin.
            error("MPI_Test", "MPI_ERR_TRUNCATE", 0, 10),
        ]);
        ensure!(told == expected, "{}: {told:#?}, not {expected:#?}", library.name());
    }
    Ok(())
}
