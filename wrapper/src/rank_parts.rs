//! What a rank is made of when it begins: what dmscope wishes decides it, and what the process is.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use replay::logical::MAX_RANKS;
use replay::shared_page::{FORMAT_BYTES, MAX_RECORD_BYTES, PageText, SharedPage};

use crate::early_clocks;
use crate::files;
use crate::logical::{LogicalRank, dms_orders_reductions};
use crate::mapped_file::RankMapping;
use crate::message_recorder::MessageRecorder;
use crate::mode::{Wish, WishedAction};
use crate::node;
use crate::player::Player;
use crate::rank_order::RankOrder;
use crate::recorder::AnswerRecorder;

/// For dmscope, which does not preload a wrapper of another version.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a name as those of the shim")]
static dmscope_format: [u8; 8] = FORMAT_BYTES;

/// How a process says who it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Introduction {
    pub library: String,
    pub rank: u32,
    pub size: u32,
    pub thread_level: u32,
    pub is_spawned: bool,
    /// Ranks that share memory with this one; only a deterministic run asks.
    pub on_this_node: u32,
    /// MPI_REQUEST_NULL, for deterministic runs.
    pub null_request: u64,
}

/// What is done with a rank's calls.
pub(crate) enum RankWork {
    Record(Box<AnswerRecorder>),
    Replay(Player),
    /// Answers by logical time.
    Logical(Box<LogicalRank>),
}

/// What is done with its calls, what records a replay, and what its messages; the order of all ranks' calls.
pub(crate) struct RankParts {
    pub work: RankWork,
    pub again: Option<Box<AnswerRecorder>>,
    pub messages: Option<Box<MessageRecorder>>,
    pub order: Option<RankOrder>,
}

/// Makes them.
///
/// # Errors
/// Why the rank is not what was wished.
pub(crate) fn parts(wish: &Wish, who: &Introduction) -> Result<RankParts, String> {
    if who.is_spawned {
        return Err("it was spawned by another job".to_owned());
    }
    if wish.action == WishedAction::Deterministic && who.on_this_node != who.size {
        return Err(format!(
            "{} of {} ranks are on this node; all ranks of a deterministic run must be on one",
            who.on_this_node, who.size
        ));
    }
    node::join(&wish.folder)?;
    let path = wish.folder.join(format!("rank-{}", who.rank));
    let record_bytes = if wish.action == WishedAction::Record { MAX_RECORD_BYTES } else { 0 };
    let file = RankMapping::create(&path, record_bytes).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            "another process is that rank; one MPI job is followed at a time".to_owned()
        }
        _ => format!("{}: {error}", path.display()),
    })?;
    introduce(file.page(), who);
    if wish.action == WishedAction::Deterministic {
        let work = logical_rank(wish, who, file)?;
        dms_orders_reductions.store(wish.folder.join("reductions").exists().into(), Ordering::Relaxed);
        return Ok(RankParts { work, again: None, messages: None, order: None });
    }
    // Files of these names say that it is wanted.
    let beside = |name: &str| -> Result<Option<RankMapping>, String> {
        if !wish.folder.join(name).exists() {
            return Ok(None);
        }
        let path = wish.folder.join(format!("{name}-{}", who.rank));
        let file = RankMapping::create(&path, MAX_RECORD_BYTES)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        introduce(file.page(), who);
        Ok(Some(file))
    };
    let messages = beside("messages")?.map(|file| Box::new(MessageRecorder::new(file)));
    let order = RankOrder::find(&wish.folder).map_err(|error| format!("the order of calls: {error}"))?;
    if wish.action == WishedAction::Record {
        let mut recorder = AnswerRecorder::new(file);
        early_clocks::kept().into_iter().for_each(|(clock, shows)| recorder.clock(clock, shows));
        return Ok(RankParts { work: RankWork::Record(Box::new(recorder)), again: None, messages, order });
    }
    let job = files::job(&wish.folder).map_err(|error| format!("its job is not described: {error}"))?;
    if let Some(why) = other_job(&job, who) {
        file.page().set_text(PageText::Message, &why);
        file.page().stopped.store(1, Ordering::Release);
        return Err(why);
    }
    let player = Player::new(file, early_clocks::played(wish, who.rank)?, wish.holds);
    let again = beside("again")?.map(|file| {
        let mut recorder = AnswerRecorder::new(file);
        player.read_early().iter().for_each(|(clock, shows)| recorder.clock(*clock, *shows));
        Box::new(recorder)
    });
    Ok(RankParts { work: RankWork::Replay(player), again, messages, order })
}

fn logical_rank(wish: &Wish, who: &Introduction, file: RankMapping) -> Result<RankWork, String> {
    if who.size as usize > MAX_RANKS {
        return Err(format!("the job has {} ranks; a deterministic run can have {MAX_RANKS}", who.size));
    }
    let path = wish.folder.join("board");
    LogicalRank::new(file, &path, who.rank, who.size, who.null_request)
        .map(|rank| RankWork::Logical(Box::new(rank)))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Why this is not the job that was recorded.
fn other_job(job: &files::OriginalJob, who: &Introduction) -> Option<String> {
    let kind = |library: &str| library.starts_with("Open MPI");
    // MPICH has a tab in its name.
    let words = |library: &str| library.split_whitespace().collect::<Vec<_>>().join(" ");
    if job.size != who.size {
        return Some(format!("the job was recorded with {} ranks and has {}", job.size, who.size));
    }
    (kind(&job.library) != kind(&who.library)).then(|| {
        format!("the job was recorded with {} and runs with {}", words(&job.library), words(&who.library))
    })
}

/// Says on a page who it is.
pub(crate) fn introduce(page: &SharedPage, who: &Introduction) {
    page.pid.store(std::process::id(), Ordering::Relaxed);
    page.rank.store(who.rank, Ordering::Relaxed);
    page.size.store(who.size, Ordering::Relaxed);
    page.thread_level.store(who.thread_level, Ordering::Relaxed);
    page.due_source.store(-1, Ordering::Relaxed);
    page.set_text(PageText::Library, &who.library);
    if let Ok(path) = std::fs::read_link("/proc/self/exe") {
        page.set_text(PageText::Program, &path.to_string_lossy());
    }
    if let Ok((bytes, checksum)) = files::program() {
        page.program_bytes.store(bytes, Ordering::Relaxed);
        page.program_checksum.store(checksum, Ordering::Relaxed);
    }
    page.begin();
}
