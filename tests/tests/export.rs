//! Tapes for other tools: what these read is what `dmscope calls` and `analyze` say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use dmscope::sink::export::perfetto::{INSTANT, PerfettoTrace, SLICE_BEGIN, SLICE_END, TrackEvent};
use live::exported::{archive_events, export, export_with, perfetto, query, try_export};
use live::{Dmscope, JobSpec, MpiImplementation, SmallDisk, binary};
use prost::Message;
use serde_json::{Value, json};
use tempfile::TempDir;

const FORMATS: [&str; 3] = ["perfetto", "parquet", "otf2"];
const RANKS: usize = 3;

/// A job that is recorded with all that exports have a place for, and what other commands say of its tape.
struct Recorded {
    folder: TempDir,
    tapes: [PathBuf; 1],
    /// Calls of each rank.
    calls: BTreeMap<u64, u64>,
    messages: u64,
    movements: u64,
}

impl Recorded {
    fn new(library: MpiImplementation) -> Result<Self> {
        let folder = TempDir::new()?;
        let (tape, logs) = (folder.path().join("x.dmt"), folder.path().to_string_lossy().into_owned());
        let arguments = ["--seed", "5", "--programs", "5", "--log", logs.as_str()];
        let job = JobSpec::own(library, "random")?.ranks(RANKS).args(arguments);
        let run = Dmscope::run(&job).args(["--budget", "none", "--returns", "all"]);
        run.record(&tape).finish()?.findings()?.check_no_warning()?;
        let analyzed = Dmscope::command("analyze", std::slice::from_ref(&tape)).json().finish()?;
        let movements = analyzed.report()?["statistics"]["movements"].as_u64().context("no count")?;
        let (calls, messages) = listed(&tape)?;
        ensure!(calls.len() == RANKS && messages > 0 && movements > 0, "{calls:?} {messages} {movements}");
        Ok(Self { folder, tapes: [tape], calls, messages, movements })
    }

    fn all_calls(&self) -> u64 {
        self.calls.values().sum()
    }

    fn export(&self, format: &str) -> Result<PathBuf> {
        export(&self.tapes, format, self.folder.path())
    }
}

/// Calls of each rank, and messages, as `dmscope calls --json` has them.
fn listed(tape: &Path) -> Result<(BTreeMap<u64, u64>, u64)> {
    let output = Command::new(binary()?).args(["calls", "--json"]).arg(tape).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut calls, mut messages) = (BTreeMap::new(), 0);
    for line in String::from_utf8(output.stdout)?.lines() {
        let line: Value = serde_json::from_str(line)?;
        if let Some(rank) = line["call"]["rank"].as_u64() {
            *calls.entry(rank).or_default() += 1;
        }
        messages += u64::from(line.get("matched").is_some());
    }
    Ok((calls, messages))
}

fn events(trace: &PerfettoTrace) -> impl Iterator<Item = (u64, &TrackEvent)> {
    trace.packet.iter().filter_map(|packet| Some((packet.timestamp?, packet.track_event.as_ref()?)))
}

/// Slices of each track begin and end in turn.
fn check_slices(trace: &PerfettoTrace) -> Result<()> {
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    for (time, event) in events(trace) {
        let track = event.track_uuid.context("an event without a track")?;
        match event.r#type {
            Some(SLICE_BEGIN) => {
                ensure!(open.insert(track, time).is_none(), "a slice begins in another one, at {time}");
            }
            Some(SLICE_END) => {
                let begun = open.remove(&track).context("a slice ends that has not begun")?;
                ensure!(begun <= time, "a slice ends before it begins, at {time}");
            }
            _ => {}
        }
    }
    ensure!(open.is_empty(), "slices do not end");
    Ok(())
}

/// Every arrow has one end at most, which is not before its beginning.
fn check_arrows(trace: &PerfettoTrace) -> Result<()> {
    let begun: BTreeMap<u64, u64> = events(trace)
        .flat_map(|(time, event)| event.flow_ids.iter().map(move |arrow| (*arrow, time)))
        .collect();
    let mut ended = BTreeSet::new();
    for (time, event) in events(trace) {
        for arrow in &event.terminating_flow_ids {
            let begin = begun.get(arrow).context("an arrow ends that has not begun")?;
            ensure!(*begin <= time, "an arrow ends before it begins, at {time}");
            ensure!(ended.insert(*arrow) || event.r#type == Some(INSTANT), "an arrow ends twice");
        }
    }
    ensure!(!ended.is_empty(), "there are no arrows");
    Ok(())
}

#[test]
fn what_is_exported_is_what_is_on_the_tape_as_the_tools_read_it() -> Result<()> {
    for library in MpiImplementation::ALL {
        let recorded = Recorded::new(library)?;
        check_timeline(&recorded).with_context(|| format!("{library:?}: perfetto"))?;
        check_tables(&recorded).with_context(|| format!("{library:?}: parquet"))?;
        check_archive(&recorded).with_context(|| format!("{library:?}: otf2"))?;
        check_cut(&recorded).with_context(|| format!("{library:?}: cut"))?;
        check_corrected(&recorded).with_context(|| format!("{library:?}: corrected"))?;
        check_refused(&recorded).with_context(|| format!("{library:?}: refused"))?;
    }
    Ok(())
}

/// Random programs do little but send: watching may take them more than their own time.
const CORRECTED: [&str; 2] = ["--corrected", "--most-cost=10000%"];

/// Corrected times are those that `dmscope times` says, in each format as many as measured ones.
fn check_corrected(recorded: &Recorded) -> Result<()> {
    let said = times_of_calls(&recorded.tapes[0])?;
    let folder = recorded.folder.path();
    let tables = export_with(&recorded.tapes, "parquet", folder, &CORRECTED)?;
    let columns = "SELECT rank, call, begin_ns, end_ns, begin_error_ns, end_error_ns, thread FROM {calls}";
    // Each says when it was sent, also where its send is worked out after the receive.
    let messages = "SELECT count(*), count(sent_ns), count(*) FILTER (received_ns < sent_ns) FROM {messages}";
    let answers = query(&tables, &[columns, "SELECT count(*) FROM {movements}", messages])?;
    let rows = answers[0].as_array().context("no calls")?;
    ensure!(rows.len() == said.len() && answers[1] == json!([[0]]), "{} of {}", rows.len(), said.len());
    let all = recorded.messages;
    ensure!(answers[2] == json!([[all, all, 0]]), "messages {}", answers[2]);
    let mut begins = None;
    for row in rows {
        let number = |at: usize| row[at].as_f64();
        let call = [0, 6, 1].map(|at| row[at].as_u64());
        let [begin_ns, end_ns] = said.get(&call).with_context(|| format!("{row} is not said"))?;
        let session_ns = *begins.get_or_insert(begin_ns - number(2).context("no time")?);
        // Nothing of a thread is written before what it did before, which times within bounds may be.
        let is_near = |written: f64, said: f64| (written + session_ns - said).abs() < 1000.0;
        ensure!(number(2).is_some_and(|written| is_near(written, *begin_ns)), "{row}: {begin_ns}");
        if let Some(end_ns) = end_ns.is_finite().then_some(*end_ns) {
            ensure!(number(3).is_some_and(|written| is_near(written, end_ns)), "{row}: {end_ns}");
        }
        ensure!(number(4) >= Some(0.0) && number(5) >= Some(0.0), "{row} has no bounds");
    }
    let trace = perfetto(&export_with(&recorded.tapes, "perfetto", folder, &CORRECTED)?)?;
    let count = |what: &str| trace["events"][what].as_u64().unwrap_or(0);
    let calls = count("TYPE_SLICE_BEGIN MPI") + count("TYPE_INSTANT MPI");
    ensure!(calls == recorded.all_calls(), "{calls} calls, not {}: {trace}", recorded.all_calls());
    let archive = export_with(&recorded.tapes, "otf2", folder, &CORRECTED)?;
    let (events, complaints) = archive_events(&archive)?;
    ensure!(complaints.is_empty() && !events.is_empty(), "{complaints:?}");
    Ok(())
}

/// Where watching took too much of a rank's time nothing is written, or left half written.
fn check_refused(recorded: &Recorded) -> Result<()> {
    for format in FORMATS {
        let output = recorded.folder.path().join(format!("refused.{format}"));
        let exported = try_export(&recorded.tapes, format, &output, &["--corrected", "--most-cost=0%"])?;
        let said = String::from_utf8_lossy(&exported.stderr);
        ensure!(exported.status.code() == Some(3), "{format}: {:?}: {said}", exported.status);
        ensure!(said.contains("--most-cost"), "{format}: {said}");
        ensure!(!output.exists(), "{format}: {} is left", output.display());
    }
    Ok(())
}

/// When calls would have begun and ended (infinite: it was not seen), by rank, thread and number, as `dmscope times --calls` has
/// it.
fn times_of_calls(tape: &Path) -> Result<BTreeMap<[Option<u64>; 3], [f64; 2]>> {
    let output = Command::new(binary()?).args(["times", "--calls", CORRECTED[1]]).arg(tape).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut calls = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let line: Value = serde_json::from_str(line)?;
        let time = |at: &str, shift: &str| Some(line[at].as_f64()? + line[shift]["likely_ns"].as_f64()?);
        // The last line has all else.
        let Some(begin_ns) = time("begin_ns", "begin_shift") else { continue };
        let call = ["rank", "tid", "number"].map(|name| line[name].as_u64());
        calls.insert(call, [begin_ns, time("end_ns", "end_shift").unwrap_or(f64::INFINITY)]);
    }
    Ok(calls)
}

fn check_timeline(recorded: &Recorded) -> Result<()> {
    let path = recorded.export("perfetto")?;
    let trace = PerfettoTrace::decode(&std::fs::read(&path)?[..])?;
    check_slices(&trace)?;
    check_arrows(&trace)?;
    let read = perfetto(&path)?;
    let count = |what: &str| read["events"][what].as_u64().unwrap_or(0);
    let calls = count("TYPE_SLICE_BEGIN MPI") + count("TYPE_INSTANT MPI");
    ensure!(calls == recorded.all_calls(), "{calls} calls, not {}: {read}", recorded.all_calls());
    ensure!(count("end") == count("TYPE_SLICE_BEGIN MPI"), "{read}");
    // Movements, ends of messages, and who reads what others have read.
    let marks = count("TYPE_INSTANT other");
    ensure!(marks >= recorded.movements + recorded.messages, "{marks}: {read}");
    // CLOCK_MONOTONIC beside CLOCK_REALTIME.
    ensure!(read["clocks"][0] == json!([3, 1]), "{read}");
    for rank in 0..RANKS {
        let name = json!(format!("rank {rank}"));
        ensure!(read["processes"].as_array().is_some_and(|names| names.contains(&name)), "{read}");
    }
    Ok(())
}

fn check_tables(recorded: &Recorded) -> Result<()> {
    let folder = recorded.export("parquet")?;
    let answers = query(
        &folder,
        &[
            "SELECT rank, count(*) FROM {calls} GROUP BY rank ORDER BY rank",
            "SELECT count(*), count(received_ns), count(*) FILTER (received_ns < sent_ns) FROM {messages}",
            "SELECT count(*) FROM {movements}",
            // Both ends of a message are calls of the table, and at the same times.
            "SELECT count(*) FROM {messages} m JOIN {calls} s ON (s.rank, s.thread, s.call) = (send_rank, send_thread, send_call) \
             JOIN {calls} r ON (r.rank, r.thread, r.call) = (receive_rank, completed_thread, completed_call) \
             WHERE s.begin_ns = sent_ns AND r.end_ns = received_ns",
            // What wrote what was read is there, and came before.
            "SELECT count(*), count(*) FILTER (w.time_ns > r.time_ns) FROM {movements} r \
             JOIN (SELECT operation, min(time_ns) time_ns FROM {movements} GROUP BY operation) w ON r.written_by = w.operation",
            "SELECT count(*) FROM {movements} WHERE written_by IS NOT NULL",
            "SELECT count(*) FROM {calls} WHERE place LIKE '%(random.c:%)'",
        ],
    )?;
    let calls: Vec<Value> = recorded.calls.iter().map(|(rank, count)| json!([rank, count])).collect();
    ensure!(answers[0] == json!(calls), "calls {}, not {calls:?}", answers[0]);
    let [messages, received] = [0, 1].map(|at| answers[1][0][at].as_u64().unwrap_or(0));
    ensure!(messages == recorded.messages, "{} messages, not {}", messages, recorded.messages);
    ensure!(answers[1][0][2] == 0, "{} are received before they are sent", answers[1][0][2]);
    ensure!(answers[2] == json!([[recorded.movements]]), "movements {}", answers[2]);
    ensure!(received * 2 > messages && answers[3] == json!([[received]]), "{} of {received}", answers[3]);
    ensure!(answers[4] == json!([[answers[5][0][0], 0]]), "{}, of {}", answers[4], answers[5]);
    ensure!(answers[6][0][0].as_u64() > Some(messages), "{} calls have a line", answers[6]);
    Ok(())
}

fn check_archive(recorded: &Recorded) -> Result<()> {
    let folder = recorded.export("otf2")?;
    let (events, complaints) = archive_events(&folder)?;
    ensure!(complaints.is_empty(), "{complaints}");
    let count = |names: &[&str]| names.iter().filter_map(|name| events.get(*name)).sum::<u64>();
    ensure!(
        count(&["ENTER"]) == recorded.all_calls() && count(&["LEAVE"]) == recorded.all_calls(),
        "{events:?}"
    );
    ensure!(
        count(&["MPI_SEND", "MPI_ISEND"]) == recorded.messages,
        "{} messages: {events:?}",
        recorded.messages
    );
    let received = query(
        &recorded.folder.path().join("exported.parquet"),
        &["SELECT count(received_ns) FROM {messages}"],
    )?;
    let received = received[0][0][0].as_u64().context("no count")?;
    // Events of a thread are in the order of time: of a few receives it becomes known only later whose message they got.
    let written = count(&["MPI_RECV", "MPI_IRECV"]);
    ensure!(written <= received && written * 10 >= received * 9, "{received} were received: {events:?}");
    ensure!(count(&["MPI_COLLECTIVE_BEGIN"]) == count(&["MPI_COLLECTIVE_END"]), "{events:?}");
    ensure!(count(&["MPI_COLLECTIVE_END"]) > 0, "{events:?}");
    let begun = count(&["NON_BLOCKING_COLLECTIVE_REQUEST"]);
    ensure!(count(&["NON_BLOCKING_COLLECTIVE_COMPLETE"]) == begun, "{events:?}");
    Ok(())
}

/// What a tape lacks is said, and the rest is exported.
fn check_cut(recorded: &Recorded) -> Result<()> {
    let cut = recorded.folder.path().join("cut.dmt");
    let bytes = std::fs::read(&recorded.tapes[0])?;
    std::fs::write(&cut, &bytes[..bytes.len() * 3 / 4])?;
    for format in FORMATS {
        let output = recorded.folder.path().join(format!("cut.{format}"));
        let exported = try_export(std::slice::from_ref(&cut), format, &output, &[])?;
        let said = String::from_utf8_lossy(&exported.stderr);
        ensure!(exported.status.success() && said.contains("cut inside a frame"), "{format}: {said}");
        ensure!(output.exists(), "{format}: nothing was written");
    }
    let wanted = ["SELECT count(*) FROM {movements}", "SELECT count(*) FROM {calls}"];
    let counted = query(&recorded.folder.path().join("cut.parquet"), &wanted)?;
    ensure!(counted[0][0][0].as_u64().is_some_and(|count| count > 0 && count < recorded.movements));
    // otf2-print takes no archive in which nobody has done anything.
    if counted[1][0][0].as_u64() > Some(0) {
        ensure!(archive_events(&recorded.folder.path().join("cut.otf2"))?.1.is_empty());
    }
    Ok(())
}

#[test]
fn what_cannot_be_written_is_an_error_that_says_why() -> Result<()> {
    let recorded = Recorded::new(MpiImplementation::Mpich)?;
    let disk = SmallDisk::mount(16)?;
    for format in FORMATS {
        let refusal = |output: &Path, why: &str| -> Result<()> {
            let exported = try_export(&recorded.tapes, format, output, &[])?;
            let said = String::from_utf8_lossy(&exported.stderr);
            ensure!(exported.status.code() == Some(2), "{format}: {:?}: {said}", exported.status);
            ensure!(said.to_lowercase().contains(why), "{format}: {said}");
            Ok(())
        };
        refusal(&disk.path().join(format!("full.{format}")), "no space left")?;
        std::fs::remove_dir_all(disk.path().join(format!("full.{format}")))
            .or_else(|_| std::fs::remove_file(disk.path().join(format!("full.{format}"))))?;
        refusal(Path::new("/nonexistent/x"), "no such file or directory")?;
        let other = recorded.folder.path().join("not-a-tape");
        std::fs::write(&other, "x")?;
        let exported = try_export(&[other], format, &recorded.folder.path().join("nothing"), &[])?;
        ensure!(exported.status.code() == Some(2), "{format}: a file that is no tape");
        ensure!(!recorded.folder.path().join("nothing").exists(), "{format}: something was made for it");
    }
    for format in ["parquet", "otf2"] {
        let full = recorded.folder.path().join(format!("mine.{format}"));
        std::fs::create_dir(&full)?;
        std::fs::write(full.join("mine"), "mine")?;
        let exported = try_export(&recorded.tapes, format, &full, &[])?;
        let said = String::from_utf8_lossy(&exported.stderr);
        ensure!(exported.status.code() == Some(2) && said.contains("not empty"), "{format}: {said}");
        ensure!(std::fs::read_dir(&full)?.count() == 1, "{format}: something was put there");
    }
    Ok(())
}
