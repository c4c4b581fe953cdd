//! Tapes for other tools: what is in the file is what `dmscope calls` says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use dmscope::sink::export::perfetto::{INSTANT, PerfettoTrace, SLICE_BEGIN, SLICE_END, TrackEvent};
use live::{Dmscope, JobSpec, MpiImplementation, binary};
use prost::Message;
use serde_json::Value;
use tempfile::TempDir;

fn dmscope(words: &[&str], tape: &Path) -> Result<Vec<u8>> {
    let output = Command::new(binary()?).args(words).arg(tape).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

/// Calls of each rank, and messages, as `dmscope calls --json` has them.
fn listed(tape: &Path) -> Result<(BTreeMap<u64, usize>, usize)> {
    let text = String::from_utf8(dmscope(&["calls", "--json"], tape)?)?;
    let (mut calls, mut messages) = (BTreeMap::new(), 0);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line)?;
        if let Some(rank) = line["call"]["rank"].as_u64() {
            *calls.entry(rank).or_default() += 1;
        }
        messages += usize::from(line.get("matched").is_some());
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

#[test]
fn a_timeline_has_all_calls_and_messages_of_the_tape() -> Result<()> {
    for library in MpiImplementation::ALL {
        let folder = TempDir::new()?;
        let (tape, logs) = (folder.path().join("x.dmt"), folder.path().to_string_lossy().into_owned());
        let job = JobSpec::own(library, "random")?.ranks(3).args([
            "--seed",
            "5",
            "--programs",
            "5",
            "--log",
            logs.as_str(),
        ]);
        let run = Dmscope::run(&job).args(["--budget", "none", "--returns", "all"]);
        run.record(&tape).finish()?.findings()?.check_no_warning()?;
        dmscope(&["export", "--to", "perfetto"], &tape)?;
        let bytes = std::fs::read(folder.path().join("x.dmt.pftrace"))?;
        let trace = PerfettoTrace::decode(&bytes[..])?;
        check_slices(&trace)?;
        let (calls, messages) = listed(&tape)?;
        ensure!(calls.len() == 3 && messages > 0, "{library:?}: {calls:?} {messages}");
        let mut drawn: BTreeMap<u64, usize> = BTreeMap::new();
        let mut flows: [BTreeSet<u64>; 2] = Default::default();
        let mut began: BTreeMap<u64, u64> = BTreeMap::new();
        for (time, event) in events(&trace) {
            let rank = event.track_uuid.unwrap_or(0) >> 32;
            let is_arrow = !event.flow_ids.is_empty() || !event.terminating_flow_ids.is_empty();
            let is_call = event.r#type == Some(SLICE_BEGIN) || event.r#type == Some(INSTANT) && !is_arrow;
            *drawn.entry(rank.wrapping_sub(1)).or_default() += usize::from(is_call);
            flows[0].extend(&event.flow_ids);
            flows[1].extend(&event.terminating_flow_ids);
            began.extend(event.flow_ids.iter().map(|flow| (*flow, time)));
        }
        ensure!(drawn == calls, "{library:?}: calls {drawn:?}, not {calls:?}");
        let [from, to] = flows;
        ensure!(from.len() == messages, "{library:?}: {} messages begin, not {messages}", from.len());
        ensure!(to.is_subset(&from), "{library:?}: messages end that do not begin");
        // Requests that are freed or never waited for end nowhere.
        ensure!(to.len() * 2 > from.len(), "{library:?}: {} of {} messages end", to.len(), from.len());
        for (time, event) in events(&trace) {
            let is_right = |flow: &u64| began.get(flow).is_some_and(|begun| *begun <= time);
            ensure!(event.terminating_flow_ids.iter().all(is_right), "a message ends before it is sent");
        }
    }
    Ok(())
}
