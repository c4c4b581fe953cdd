//! For which processes a file's probes are attached.
//!
//! A hit runs through every link at its place: one link per process makes every rank pay for
//! all ranks. One link for all costs the same for any number of ranks, but then every other
//! process that maps the file traps as well, and is sent away at once.

use serde::Serialize;

/// Most links at one place: with four, a hit costs about a seventh more than with one.
const MAX_LINKS: usize = 4;

/// How the probes of a file are attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachMode {
    /// One link for whoever maps the file.
    OneLink,
    /// A link for each traced process.
    LinkPerProcess,
}

/// What was decided, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttachDecision {
    /// How.
    pub mode: AttachMode,
    /// Why.
    pub reason: String,
}

/// Decides for one file, from how many traced processes and how many others map it.
pub fn attach_mode(traced: usize, strangers: usize) -> AttachDecision {
    let decide = |mode, reason| AttachDecision { mode, reason };
    if strangers == 0 {
        return decide(AttachMode::OneLink, "only the job maps it".into());
    }
    if traced <= MAX_LINKS {
        let reason = format!("{strangers} other processes map it, and only {traced} of the job");
        return decide(AttachMode::LinkPerProcess, reason);
    }
    let reason = format!(
        "{traced} processes of the job map it: a link for each would cost all of them more than one link costs \
         the {strangers} others"
    );
    decide(AttachMode::OneLink, reason)
}
