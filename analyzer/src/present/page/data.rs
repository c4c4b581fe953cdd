//! The form of a page.

use serde::{Deserialize, Serialize};

use crate::findings::finding::{Place, StuckState};
use crate::findings::report::Report;
use crate::job::process::Who;
use crate::timeline::TimelineGap;
use crate::timeline::correction::bounds::Bounds;

/// Version of the JSON form.
pub const PAGE_SCHEMA: u32 = 2;

/// Everything that is on a page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// [`PAGE_SCHEMA`].
    pub schema: u32,
    /// The most important of it in words.
    pub verdict: PageVerdict,
    /// Findings, thresholds and counts.
    pub report: Report,
    /// What could be said at all, in sentences.
    pub basis: Vec<String>,
    /// Where ranks ended up: those that did so in the same way together.
    pub groups: Vec<RowGroup>,
    /// What processes did, as far as it was kept.
    pub timeline: Timeline,
}

/// What to think of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// Something is wrong.
    Fault,
    /// Something may be wrong.
    Suspicion,
    /// Nothing was found.
    Fine,
}

/// The most important of a page in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageVerdict {
    /// What to think of it.
    pub tone: Tone,
    /// In a few words.
    pub title: String,
    /// In a sentence or two.
    pub text: String,
    /// Who is at fault.
    pub at_fault: Vec<Who>,
    /// Who only waits for them, or ended after that.
    pub affected: Vec<Who>,
}

/// What somebody has to do with a hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HangRole {
    /// It is (one of) the cause.
    AtFault,
    /// It only waits, or ended after the cause.
    Affected,
}

/// Rows that ended up in the same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowGroup {
    /// Who, in words.
    pub who: String,
    /// Their rows.
    pub rows: Vec<u32>,
    /// What they have to do with a hang; none: nothing is said of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<HangRole>,
    /// Where they ended up, in a word or two: the MPI function, if they are in one.
    pub at: String,
    /// The same in full.
    pub doing: String,
    /// Rows that they wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<u32>,
    /// The same in words; empty: nobody.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits_for_text: String,
}

/// What processes did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// When the session began, CLOCK_MONOTONIC; all other times are since then.
    pub begin_ns: u64,
    /// The last moment that is known.
    pub end_ns: u64,
    /// Calls that were seen and are not here.
    pub given_up: u64,
    /// Processes, in order of rank.
    pub rows: Vec<Row>,
    /// Row by row, each in order of time.
    pub events: Vec<PageEvent>,
    /// Functions that were called.
    pub functions: Vec<PageFunction>,
    /// Places in code.
    pub places: Vec<NamedPlace>,
    /// Times in which calls may have been missed.
    pub gaps: Vec<RowGap>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Who it is.
    pub who: Who,
    /// The same in words.
    pub name: String,
    /// Its process id; none: it was not watched.
    pub pid: Option<u32>,
    /// Its node, of a job on several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How far its times may be off beside those of the first node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_error_ns: Option<u64>,
    /// What it has to do with a hang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<HangRole>,
    /// Rows that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<u32>,
    /// Its first event …
    pub first_event: u32,
    /// … and how many there are.
    pub events: u32,
    /// Calls that were seen and are not here.
    pub given_up: u64,
}

/// Sorts of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// An MPI call that was made.
    Call,
    /// An MPI call that the process was in when last looked at.
    InCall,
    /// It was outside of MPI when last looked at.
    Outside,
    /// A signal or a debugger had stopped it.
    Stopped,
    /// It ended well.
    Ended,
    /// It died.
    Died,
}

impl From<StuckState> for EventKind {
    fn from(state: StuckState) -> Self {
        match state {
            StuckState::InCall => Self::InCall,
            StuckState::Outside => Self::Outside,
            StuckState::Stopped => Self::Stopped,
            StuckState::Ended => Self::Ended,
            StuckState::Died => Self::Died,
        }
    }
}

/// Something that a process did, or that it came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageEvent {
    /// Whose.
    pub row: u32,
    /// Thread; 0: not known.
    pub tid: u32,
    /// What it is.
    pub kind: EventKind,
    /// When it began.
    pub begin_ns: u64,
    /// When it ended; none: not known, or not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<u64>,
    /// It began some time before `begin_ns`, which is when it was first seen.
    #[serde(default, skip_serializing_if = "is_false")]
    pub began_earlier: bool,
    /// The MPI function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<u32>,
    /// Name and value of arguments; `?`: not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<(String, String)>,
    /// Where it was called, or where the process was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<u32>,
    /// Where the process was found, the innermost place first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<u32>,
    /// What it means, in a sentence or two; empty: no more than that it happened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What it has to do with a hang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<HangRole>,
    /// What the process came to: the last that is known of it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_last: bool,
    /// The last call before that.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_before_last: bool,
    /// Events that received what it sent, as far as that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent_to: Vec<u32>,
    /// Events that sent what it received, as far as that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub got_from: Vec<u32>,
    /// When it would have been without watching, if that was asked for and is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected: Option<CorrectedSpan>,
    /// Without watching, it would have received another message, or may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<OpenOrder>,
}

/// When an event would have been without watching, within bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CorrectedSpan {
    /// When it would have begun.
    pub begin: Bounds,
    /// When it would have ended; none: as [`PageEvent::end_ns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Bounds>,
}

/// A receive from whoever comes first that could have got another message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenOrder {
    /// It certainly would have, without watching; else it cannot be told.
    pub is_changed: bool,
    /// The same in words.
    pub text: String,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// What MPI functions are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// They send a message.
    Send,
    /// They receive one, or look for one.
    Receive,
    /// They do both.
    Exchange,
    /// They wait for requests, or ask for them.
    Completion,
    /// All ranks of a communicator make them.
    Collective,
    /// Anything else.
    Other,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageFunction {
    /// As in the standard.
    pub name: String,
    /// What it is for.
    pub sort: Sort,
}

/// A place in code, with what it is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedPlace {
    /// Function, file and line, as far as they are known.
    pub text: String,
    /// The place.
    #[serde(flatten)]
    pub place: Place,
}

/// A time in which calls may have been missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowGap {
    /// Of whom; none: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u32>,
    /// When, and why.
    #[serde(flatten)]
    pub gap: TimelineGap,
}
