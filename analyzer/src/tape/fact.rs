//! What facts frames are made of.

use serde::{Deserialize, Serialize};

use super::answers::ReplayableRank;
use super::costs::{ProbeCosts, UnrecordedHits};
use super::input::{ClockReading, Coverage, End, Input, ProcessFacts, Start, Threads};
use super::plan::Plan;

/// A fact on its way to the tape.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fact<'a> {
    Start(&'a Start),
    Process(&'a ProcessFacts),
    Plan(&'a Plan),
    Coverage(&'a Coverage),
    Threads(&'a Threads),
    Clock(&'a ClockReading),
    ReplayableRank(&'a ReplayableRank),
    ProbeCosts(&'a ProbeCosts),
    Unrecorded(&'a UnrecordedHits),
    End(&'a End),
}

/// The same, read back.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReadFact {
    Start(Box<Start>),
    Process(Box<ProcessFacts>),
    Plan(Box<Plan>),
    Coverage(Box<Coverage>),
    Threads(Box<Threads>),
    Clock(ClockReading),
    ReplayableRank(Box<ReplayableRank>),
    ProbeCosts(Box<ProbeCosts>),
    Unrecorded(UnrecordedHits),
    End(End),
}

/// Reads the payload of a facts frame.
pub(super) fn read(json: &[u8]) -> serde_json::Result<Vec<Input>> {
    let facts: Vec<ReadFact> = serde_json::from_slice(json)?;
    let input = |fact| match fact {
        ReadFact::Start(start) => Input::Start(start),
        ReadFact::Process(process) => Input::Process(process),
        ReadFact::Plan(plan) => Input::Plan(plan),
        ReadFact::Coverage(coverage) => Input::Coverage(coverage),
        ReadFact::Threads(threads) => Input::Threads(threads),
        ReadFact::Clock(reading) => Input::Clock(reading),
        ReadFact::ReplayableRank(rank) => Input::ReplayableRank(rank),
        ReadFact::ProbeCosts(costs) => Input::ProbeCosts(costs),
        ReadFact::Unrecorded(hits) => Input::Unrecorded(hits),
        ReadFact::End(end) => Input::End(end),
    };
    Ok(facts.into_iter().map(input).collect())
}
