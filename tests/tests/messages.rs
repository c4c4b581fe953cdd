//! Which receive got which send, and what each call completed: as the programs themselves saw it.
//!
//! `DMSCOPE_TEST_PROGRAMS=N` runs so many random programs with each library.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use live::{Dmscope, JobSpec, MpiImplementation};
use serde_json::Value;
use tempfile::TempDir;

/// Programs in one job.
const PROGRAMS_PER_JOB: u64 = 20;
const PROGRAMS: u64 = 40;
const RANKS: usize = 4;
/// How communicators are made: see `communicators.h`.
const KINDS: [&str; 5] = ["others", "parts of grids", "shared memory", "between two groups", "merged"];

/// A message at one of its ends: rank, thread, number of the call, and which of its messages.
type MessageKey = [u64; 4];

/// What became of messages, as the programs logged it or as dmscope tells it.
#[derive(Debug, Default, PartialEq)]
struct MessageLog {
    /// The send that a receive got.
    received: BTreeMap<MessageKey, MessageKey>,
    /// The call that completed a message.
    completed: BTreeMap<MessageKey, MessageKey>,
    /// Messages received, by the kind of their communicator, where that was logged.
    of_kind: [usize; KINDS.len()],
}

/// The log of a rank: see `random.c`.
fn read_log(text: &str, log: &mut MessageLog) -> Result<()> {
    for line in text.lines() {
        let mut words = line.split(' ');
        let is_received = words.next() == Some("R");
        let to = if is_received { &mut log.received } else { &mut log.completed };
        let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().context("a log's line")?;
        let (first, second) = numbers.split_at_checked(4).context("a log's line")?;
        let (second, kind) = second.split_at_checked(4).context("a log's line")?;
        to.insert(first.try_into()?, second.try_into()?);
        let of_kind = kind.first().and_then(|kind| log.of_kind.get_mut(*kind as usize));
        *of_kind.context("a kind of communicators")? += usize::from(is_received);
    }
    Ok(())
}

fn call_of(value: &Value) -> Result<[u64; 3]> {
    let number = |name: &str| value[name].as_u64().with_context(|| format!("{name} in {value}"));
    Ok([number("rank")?, number("tid")?, number("number")?])
}

fn message_of(value: &Value) -> Result<MessageKey> {
    let [rank, tid, number] = call_of(&value["call"])?;
    Ok([rank, tid, number, value["part"].as_u64().context("a part")?])
}

/// What `dmscope calls --json` says.
fn read_calls(text: &str) -> Result<MessageLog> {
    let mut log = MessageLog::default();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line)?;
        if let Some(matched) = value.get("matched") {
            let before = log.received.insert(message_of(&matched["receive"])?, message_of(&matched["send"])?);
            ensure!(before.is_none(), "a message is received twice: {line}");
        } else if value.get("completed").is_some() {
            let [rank, tid, number] = call_of(&value["by"])?;
            let before = log.completed.insert(message_of(&value["completed"])?, [rank, tid, number, 0]);
            ensure!(before.is_none(), "a message is complete twice: {line}");
        } else if let Some(end) = value.get("end") {
            let is_whole = end["not_followed"] == serde_json::json!([]) && end["strangers"] == 0;
            ensure!(is_whole, "not everything was followed: {line}");
        }
    }
    Ok(log)
}

fn calls(tape: &Path) -> Result<String> {
    let output = Command::new(live::binary()?).arg("calls").arg(tape).arg("--json").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a job of random programs; gives what they logged, and what dmscope says.
/// `options`: of dmscope; `untold`: some calls ask for no status.
fn job(
    library: MpiImplementation,
    seed: u64,
    programs: u64,
    options: &[&str],
    untold: bool,
) -> Result<(MessageLog, MessageLog)> {
    let directory = TempDir::new()?;
    let tape = directory.path().join("x.dmt");
    let (seed, programs) = (seed.to_string(), programs.to_string());
    let folder = directory.path().to_string_lossy().into_owned();
    let spec = JobSpec::own(library, "random")?.ranks(RANKS).args([
        "--seed",
        seed.as_str(),
        "--programs",
        programs.as_str(),
        "--log",
        folder.as_str(),
        "--untold",
        if untold { "1" } else { "0" },
    ]);
    let run =
        Dmscope::run(&spec).args(["--budget", "none", "--returns", "all"]).args(options.iter().copied());
    run.record(&tape).finish()?.findings()?.check_no_warning()?;
    let mut logged = MessageLog::default();
    for rank in 0..RANKS {
        read_log(&std::fs::read_to_string(directory.path().join(format!("rank{rank}.log")))?, &mut logged)?;
    }
    Ok((logged, read_calls(&calls(&tape)?)?))
}

/// Both say the same; but a send that was complete when it began is known to be so before the program asks.
fn compare(logged: &MessageLog, found: &MessageLog, name: &str) -> Result<()> {
    let differs = |(message, send): (&MessageKey, &MessageKey)| {
        (found.received.get(message) != Some(send)).then_some(*message)
    };
    let wrong: Vec<MessageKey> = logged.received.iter().filter_map(differs).collect();
    ensure!(wrong.is_empty(), "{name}: whose message they got is not told, or not right: {wrong:?}");
    let extra: Vec<&MessageKey> =
        found.received.keys().filter(|id| !logged.received.contains_key(*id)).collect();
    ensure!(extra.is_empty(), "{name}: nothing was received here: {extra:?}");
    let is_same = |message: &MessageKey, by: &MessageKey| {
        let found = found.completed.get(message);
        let at_once =
            found.is_some_and(|by| by[..3] == message[..3]) && !logged.received.contains_key(message);
        found == Some(by) || at_once
    };
    let wrong: Vec<&MessageKey> =
        logged.completed.iter().filter(|(m, by)| !is_same(m, by)).map(|(m, _)| m).collect();
    ensure!(wrong.is_empty(), "{name}: when they were complete is not told, or not right: {wrong:?}");
    let logged: BTreeSet<&MessageKey> = logged.completed.keys().collect();
    let extra: Vec<&MessageKey> = found.completed.keys().filter(|id| !logged.contains(id)).collect();
    ensure!(extra.is_empty(), "{name}: nothing was completed here: {extra:?}");
    Ok(())
}

#[test]
fn each_receive_of_random_programs_gets_the_send_that_it_got() -> Result<()> {
    let programs = match std::env::var("DMSCOPE_TEST_PROGRAMS") {
        Ok(text) => text.parse().context("DMSCOPE_TEST_PROGRAMS is a number")?,
        Err(_) => PROGRAMS,
    };
    for library in MpiImplementation::ALL {
        let (mut received, mut completed, mut of_kind) = (0, 0, [0; KINDS.len()]);
        for seed in (0..programs).step_by(PROGRAMS_PER_JOB as usize) {
            let count = PROGRAMS_PER_JOB.min(programs - seed);
            let (logged, found) = job(library, seed, count, &[], false)?;
            compare(&logged, &found, &format!("{library:?}, programs from {seed} on"))?;
            received += logged.received.len();
            completed += logged.completed.len();
            of_kind.iter_mut().zip(logged.of_kind).for_each(|(all, some)| *all += some);
        }
        let of_kinds: Vec<String> =
            KINDS.iter().zip(of_kind).map(|(kind, count)| format!("{kind} {count}")).collect();
        println!(
            "{library:?}: {programs} programs, {received} messages received ({}), {completed} completed: all as logged",
            of_kinds.join(", ")
        );
        ensure!(received > 0 && completed > received, "the programs did nothing");
        let is_all = programs < PROGRAMS || of_kind.iter().all(|count| *count > 0);
        ensure!(is_all, "not all kinds of communicators were used: {of_kinds:?}");
    }
    Ok(())
}

#[test]
fn without_session_probes_it_is_the_same() -> Result<()> {
    for library in MpiImplementation::ALL {
        let (logged, found) = job(library, 1, PROGRAMS_PER_JOB, &["--without", "sessions"], false)?;
        compare(&logged, &found, &format!("{library:?}"))?;
    }
    Ok(())
}

#[test]
fn whose_message_it_was_is_told_by_the_data_where_no_status_tells_it() -> Result<()> {
    for library in MpiImplementation::ALL {
        let (logged, found) = job(library, 0, PROGRAMS_PER_JOB, &[], true)?;
        let is_wrong =
            |(message, send): &(&MessageKey, &MessageKey)| logged.received.get(*message) != Some(*send);
        let wrong: Vec<_> = found.received.iter().filter(is_wrong).collect();
        ensure!(wrong.is_empty(), "{library:?}: {wrong:?}");
        let (told, all) = (found.received.len(), logged.received.len());
        println!("{library:?}: {told} of {all} messages are told");
        // Short messages are moved by code that calls nothing, those of MPICH mostly; what comes after one of those is not known.
        let least = if library == MpiImplementation::OpenMpi { all / 2 } else { all / 5 };
        ensure!(told >= least, "{library:?}: of {all} messages only {told} are told");
    }
    Ok(())
}

#[test]
fn where_records_are_lost_nothing_wrong_is_said() -> Result<()> {
    for library in MpiImplementation::ALL {
        let directory = TempDir::new()?;
        let tape = directory.path().join("x.dmt");
        let folder = directory.path().to_string_lossy().into_owned();
        let arguments = ["--seed", "1", "--programs", "20", "--log", folder.as_str()];
        let spec = JobSpec::own(library, "random")?.ranks(RANKS).args(arguments);
        let options = ["--budget", "none", "--returns", "all", "--ring-size", "4096"];
        Dmscope::run(&spec).args(options).record(&tape).finish()?;
        let mut logged = MessageLog::default();
        for rank in 0..RANKS {
            read_log(
                &std::fs::read_to_string(directory.path().join(format!("rank{rank}.log")))?,
                &mut logged,
            )?;
        }
        let text = calls(&tape)?;
        let end = text.lines().last().context("an end")?;
        let end = &serde_json::from_str::<Value>(end)?["end"];
        let is_whole = end["not_followed"] == serde_json::json!([]) && end["strangers"] == 0;
        ensure!(!is_whole, "{library:?}: nothing was lost, so that nothing was tested: {end}");
        // Numbers of calls are those of calls that were seen: ids cannot be compared, but how many there are can.
        let received = text.lines().filter(|line| line.starts_with("{\"matched\"")).count();
        ensure!(received < logged.received.len(), "{library:?}: {received} of {}", logged.received.len());
    }
    Ok(())
}
