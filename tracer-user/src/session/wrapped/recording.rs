//! Records a job with the wrapper: what its ranks write goes to the tape while they run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use replay::total_order::SharedOrder;

use super::content_rings::ContentRings;
use super::job::{JobStart, WrappedJob};
use super::left_ranks::LeftRanks;
use super::nodes::RemoteNodes;
use super::shared_folder::SharedFolder;
use super::tape_of_ranks::{JobRecorded, TapeOfRanks};
use super::wrapper_file::{WrapperKind, contents_wrapper, library_of, wrapper_of};
use crate::host::sudo::Account;

/// What ranks have recorded is on the tape after this time.
const PERIOD: Duration = Duration::from_millis(50);
/// The same where ranks send much.
const SHORT_PERIOD: Duration = Duration::from_millis(1);

/// How a job is recorded.
#[derive(Clone, Debug)]
pub struct RecordSettings {
    /// Whose it is, if not the caller's.
    pub account: Option<Account>,
    /// The MPI library, if the user names it.
    pub named: Option<WrapperKind>,
    /// Envelopes of messages too.
    pub messages: bool,
    /// The order in which calls of all ranks end too.
    pub order: bool,
    /// The ranks of which contents are recorded too; an empty list: of all.
    pub contents_of: Option<Vec<u32>>,
    /// Ranks on other nodes too.
    pub nodes: bool,
    /// Set when the user wants it to end.
    pub stop: Arc<AtomicBool>,
}

/// Starts a job and records it, to its end or until it is told to stop.
///
/// # Errors
/// There is no wrapper for it, the tape cannot be made, the command cannot be run.
pub fn record(command: &[String], settings: &RecordSettings, tape: &Path) -> Result<JobRecorded> {
    let kind = library_of(command, settings.named)?;
    let wrapper = wrapper_of(kind)?;
    let mut tape = TapeOfRanks::create(tape, "rank-", command)?;
    let folder = SharedFolder::create(settings.account.as_ref())?;
    if settings.messages {
        folder.put("messages", b"")?;
    }
    if settings.order {
        ask_for_order(&folder, 0)?;
    }
    let wish = format!("record:{}", folder.path().display());
    let account = settings.account.as_ref();
    let mut objects = vec![wrapper.clone()];
    let mut environment = vec![format!("DMSCOPE_REPLAY={wish}")];
    let mut rings = None;
    if let Some(ranks) = &settings.contents_of {
        rings = Some(ContentRings::prepare(&folder, ranks)?);
        objects.insert(0, contents_wrapper(&wrapper)?);
        environment.push(format!("DMSCOPE_CONTENTS=record:{}", folder.path().display()));
    }
    let mut command = command.to_vec();
    let nodes = settings.nodes.then(|| RemoteNodes::listen(&folder)).transpose()?;
    if let Some(nodes) = &nodes {
        command = nodes.prepare(&command, kind, &mut environment);
    }
    let start = JobStart {
        command: &command,
        account,
        objects: &objects,
        environment: &environment,
        fixes_addresses: false,
        output: None,
    };
    let mut job = WrappedJob::start(&start)?;
    let mut left = LeftRanks::default();
    loop {
        // First whether it has ended: what it wrote before is there.
        let status = job.status()?;
        let has_ended = status.is_some();
        let mut is_filled = nodes.as_ref().is_some_and(|nodes| take_of_nodes(nodes, has_ended, &mut tape));
        tape.take(&folder.pinned());
        if let Some(rings) = &mut rings {
            is_filled |= take_of_rings(rings, &folder, has_ended, &mut tape);
        }
        if let Some(status) = status {
            let contents = rings.map(|rings| {
                let elsewhere = nodes.iter().flat_map(RemoteNodes::recorded_contents);
                rings.recorded().into_iter().chain(elsewhere).collect()
            });
            return Ok(JobRecorded { contents, ..tape.finish(status) });
        }
        let is_left = left.are_left(&tape.pids(), Instant::now());
        if is_left {
            tape.trouble(vec![LeftRanks::WORDS.to_owned()]);
        }
        if is_left || settings.stop.load(Ordering::Relaxed) {
            job.end(&tape.pids())?;
            nodes.iter().for_each(|nodes| nodes.kill_ranks(&mut |contents| tape.push_contents(contents)));
        } else {
            // Ranks may wait for room.
            job.pause(if is_filled { SHORT_PERIOD } else { PERIOD });
        }
    }
}

/// What has come from other nodes, or if the job has ended all of it; whether there may be more of it at once.
fn take_of_nodes(nodes: &RemoteNodes, has_ended: bool, tape: &mut TapeOfRanks) -> bool {
    let mut give = |contents| tape.push_contents(contents);
    if !has_ended {
        return nodes.take_contents(&mut give);
    }
    let trouble = nodes.finish(&mut give);
    tape.trouble(trouble);
    false
}

/// The same of ranks on this node.
fn take_of_rings(
    rings: &mut ContentRings,
    folder: &SharedFolder,
    has_ended: bool,
    tape: &mut TapeOfRanks,
) -> bool {
    let mut trouble = Vec::new();
    let (mut give, mut fail) = (|contents| tape.push_contents(contents), |what| trouble.push(what));
    let is_filled = rings.take(&folder.pinned(), has_ended, &mut give, &mut fail);
    tape.trouble(trouble);
    is_filled
}

/// Gives ranks the order that they share; up to `end` it is one that was recorded, which they keep.
pub(super) fn ask_for_order(folder: &SharedFolder, end: u64) -> Result<()> {
    folder.put("order", &SharedOrder::up_to(end)).map(drop)
}
