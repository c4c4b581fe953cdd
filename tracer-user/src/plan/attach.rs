//! For which processes a file's probes are attached.
//!
//! A hit runs through every link at its place: one link per process makes every rank pay for
//! all ranks. One link for all costs the same for any number of ranks, but then every other
//! process that maps the file traps as well, and is sent away at once. And the kernel takes its
//! time to close a link: a session that is killed must be gone at once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use analyzer::wire::FileId;
use serde::Serialize;

/// Most links at one place for the sake of other processes of whoever runs the job: with four, a hit costs about a
/// seventh more than with one.
const MOST_AT_PLACE: usize = 4;
/// The same for the sake of other users, who have not asked for any of it: with eight, two fifths more.
const MOST_AT_PLACE_FOR_OTHER_USERS: usize = 8;
/// Most links for single processes in a session: so many are gone soon enough when it is killed.
pub const MOST_LINKS: usize = 512;

/// Whether other processes are kept free of probes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
pub enum OnlyJob {
    /// In files that other users run as well, while the job has few processes on this node
    #[default]
    Auto,
    /// In all files; hits cost the job more, the more processes it has here
    Always,
    /// Nowhere: hits cost the job least, and other processes pay for theirs
    Never,
}

/// What can be done of what is wanted. `sees_all_threads`: the kernel's filter for one process does.
///
/// # Errors
/// Just that was asked for which cannot be done.
pub fn possible(
    wanted: OnlyJob,
    sees_all_threads: impl FnOnce() -> bool,
) -> Result<OnlyJob, FilterIsPartial> {
    match wanted {
        OnlyJob::Never => Ok(OnlyJob::Never),
        wanted if sees_all_threads() => Ok(wanted),
        OnlyJob::Auto => Ok(OnlyJob::Never),
        OnlyJob::Always => Err(FilterIsPartial),
    }
}

/// The kernel's filter for one process misses threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--only-job always: on this kernel probes for one process miss hits of its other threads (mended in Linux 6.10), so \
     that the job would be watched in part; without the option processes outside the job run into its probes, and what \
     that costs them is told (dmscope doctor says more)"
)]
pub struct FilterIsPartial;

/// How the probes of a file are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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

/// Processes that are not traced and run code of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StrangerCount {
    /// All of them.
    pub all: usize,
    /// Those that are other users' than the traced ones.
    pub of_other_users: usize,
}

/// Who runs a file, and what it takes to attach to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileUse {
    /// Processes outside the job.
    pub strangers: StrangerCount,
    /// Links that its probes take for one process.
    pub links: usize,
    /// It was loaded while the job ran.
    pub is_late: bool,
}

/// The processes of a job that would have links of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobSize {
    /// How many there are (0: it has not begun), or will be.
    pub processes: usize,
    /// More are about to come: what these do before they have links is not seen.
    pub is_starting: bool,
}

/// Decides for the files of a plan. `links_left`: so many more may be made.
pub fn attach_modes(
    files: &BTreeMap<FileId, FileUse>,
    job: JobSize,
    mut links_left: usize,
    only_job: OnlyJob,
) -> BTreeMap<FileId, AttachDecision> {
    let mut order: Vec<(&FileId, &FileUse)> = files.iter().collect();
    // Where most strangers are first: there links are worth most.
    order.sort_by_key(|(id, file)| Reverse((file.strangers.of_other_users, file.strangers.all, **id)));
    let decided = order.into_iter().map(|(id, file)| {
        let processes = job.processes;
        let links = processes * file.links;
        let decision = match wanted(file, job, only_job) {
            Ok(reason) if links <= links_left => {
                links_left -= links;
                AttachDecision { mode: AttachMode::LinkPerProcess, reason }
            }
            Ok(_) => one_link(format!(
                "{}, but {processes} processes of the job would take {links} links more, and {links_left} are left of \
                 {MOST_LINKS}",
                others(file.strangers)
            )),
            Err(reason) => one_link(reason),
        };
        (*id, decision)
    });
    decided.collect()
}

fn one_link(reason: String) -> AttachDecision {
    AttachDecision { mode: AttachMode::OneLink, reason }
}

/// Why each process is to have a link of its own, or why not.
fn wanted(file: &FileUse, job: JobSize, only_job: OnlyJob) -> Result<String, String> {
    let JobSize { processes, is_starting } = job;
    let strangers = file.strangers;
    match only_job {
        OnlyJob::Never => Err(others(strangers)),
        OnlyJob::Always => Ok(format!("{}, and no other process is to run into probes", others(strangers))),
        OnlyJob::Auto if strangers.all == 0 => Err(others(strangers)),
        OnlyJob::Auto if file.is_late => {
            Err("loaded while the job runs: other ranks may load it next".to_owned())
        }
        OnlyJob::Auto if processes == 0 => Err("the job has not begun".to_owned()),
        OnlyJob::Auto if is_starting => Err("more ranks are about to begin".to_owned()),
        OnlyJob::Auto if processes <= MOST_AT_PLACE => {
            Ok(format!("{}, and only {processes} of the job", others(strangers)))
        }
        OnlyJob::Auto if strangers.of_other_users > 0 && processes <= MOST_AT_PLACE_FOR_OTHER_USERS => {
            Ok(format!("{}, who have not asked for it, and {processes} of the job", others(strangers)))
        }
        OnlyJob::Auto => Err(format!(
            "{}, and {processes} of the job: a link for each would cost all of them more than one link costs the others",
            others(strangers)
        )),
    }
}

/// What people should know who asked for something else than was decided.
pub fn shortfall(only_job: OnlyJob, decided: &BTreeMap<FileId, AttachDecision>) -> Option<String> {
    let shared = decided.values().filter(|decision| decision.mode == AttachMode::OneLink).count();
    (only_job == OnlyJob::Always && shared > 0).then(|| {
        format!(
            "processes outside the job run into probes in {shared} files in spite of --only-job always: for so many ranks \
             it would take more than {MOST_LINKS} links, and then nothing would be gone at once if dmscope were killed"
        )
    })
}

/// Who else maps it.
fn others(strangers: StrangerCount) -> String {
    match strangers {
        StrangerCount { all: 0, .. } => "only the job maps it".to_owned(),
        StrangerCount { all: 1, of_other_users: 0 } => "1 other process maps it".to_owned(),
        StrangerCount { all: 1, .. } => "1 other process, of another user, maps it".to_owned(),
        StrangerCount { all, of_other_users: 0 } => format!("{all} other processes map it"),
        StrangerCount { all, of_other_users } => {
            format!("{all} other processes map it, {of_other_users} of them other users'")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(all: usize, of_other_users: usize) -> FileUse {
        FileUse { strangers: StrangerCount { all, of_other_users }, links: 2, is_late: false }
    }

    fn begun(processes: usize) -> JobSize {
        JobSize { processes, is_starting: false }
    }

    fn decide(file: FileUse, processes: usize, only_job: OnlyJob) -> AttachDecision {
        let files = BTreeMap::from([(FileId::default(), file)]);
        attach_modes(&files, begun(processes), MOST_LINKS, only_job)
            .remove(&FileId::default())
            .expect("each is decided")
    }

    fn mode(file: FileUse, processes: usize, only_job: OnlyJob) -> AttachMode {
        decide(file, processes, only_job).mode
    }

    #[test]
    fn by_itself_few_processes_among_others_have_links_of_their_own_and_more_for_the_sake_of_other_users() {
        use AttachMode::{LinkPerProcess, OneLink};
        let modes = |file| [1, 4, 5, 8, 9].map(|processes| mode(file, processes, OnlyJob::Auto));
        assert_eq!(modes(file(0, 0)), [OneLink; 5]);
        assert_eq!(modes(file(3, 0)), [LinkPerProcess, LinkPerProcess, OneLink, OneLink, OneLink]);
        let of_others = [LinkPerProcess, LinkPerProcess, LinkPerProcess, LinkPerProcess, OneLink];
        assert_eq!(modes(file(3, 1)), of_others);
        let decision = decide(file(3, 1), 8, OnlyJob::Auto);
        let reason =
            "3 other processes map it, 1 of them other users', who have not asked for it, and 8 of the job";
        assert_eq!(decision.reason, reason);
    }

    #[test]
    fn what_is_loaded_later_and_a_job_that_has_not_begun_have_one_link_unless_asked_otherwise() {
        let late = FileUse { is_late: true, ..file(3, 3) };
        assert_eq!(mode(late, 2, OnlyJob::Auto), AttachMode::OneLink);
        assert_eq!(mode(late, 2, OnlyJob::Always), AttachMode::LinkPerProcess);
        assert_eq!(mode(file(3, 3), 0, OnlyJob::Auto), AttachMode::OneLink);
        assert_eq!(mode(file(0, 0), 0, OnlyJob::Always), AttachMode::LinkPerProcess);
    }

    #[test]
    fn a_job_that_is_still_starting_has_one_link_unless_asked_otherwise() {
        let files = BTreeMap::from([(FileId::default(), file(3, 3))]);
        let starting = JobSize { processes: 2, is_starting: true };
        let mode = |only_job| attach_modes(&files, starting, MOST_LINKS, only_job)[&FileId::default()].mode;
        assert_eq!(mode(OnlyJob::Auto), AttachMode::OneLink);
        assert_eq!(mode(OnlyJob::Always), AttachMode::LinkPerProcess);
    }

    #[test]
    fn asked_for_it_is_done_or_not_done_whoever_maps_the_file() {
        for strangers in [file(0, 0), file(9, 9)] {
            assert_eq!(mode(strangers, 64, OnlyJob::Always), AttachMode::LinkPerProcess);
            assert_eq!(mode(strangers, 1, OnlyJob::Never), AttachMode::OneLink);
        }
    }

    #[test]
    fn there_are_no_more_links_than_go_soon_and_files_with_most_strangers_have_them_first() {
        let id = |inode| FileId { dev: 1, inode };
        let of_job = FileUse { links: 10, ..file(0, 0) };
        let files = BTreeMap::from([
            (id(1), of_job),
            (id(2), file(90, 80)),
            (id(3), FileUse { links: 3, ..file(90, 0) }),
        ]);
        let decided = attach_modes(&files, begun(100), MOST_LINKS, OnlyJob::Always);
        let modes: Vec<AttachMode> = decided.values().map(|decision| decision.mode).collect();
        assert_eq!(modes, [AttachMode::OneLink, AttachMode::LinkPerProcess, AttachMode::LinkPerProcess]);
        let why = "only the job maps it, but 100 processes of the job would take 1000 links more, and 12 are left of 512";
        assert_eq!(decided[&id(1)].reason, why);
        let said = shortfall(OnlyJob::Always, &decided).expect("a file has one link");
        assert!(said.contains("in 1 files in spite of"), "{said}");
        assert_eq!(shortfall(OnlyJob::Auto, &decided), None);
        let none_shared = attach_modes(&files, begun(2), MOST_LINKS, OnlyJob::Always);
        assert_eq!(shortfall(OnlyJob::Always, &none_shared), None);
    }

    #[test]
    fn a_filter_that_misses_threads_is_never_used_and_refused_if_it_was_asked_for() {
        assert_eq!(possible(OnlyJob::Auto, || false), Ok(OnlyJob::Never));
        assert_eq!(possible(OnlyJob::Always, || false), Err(FilterIsPartial));
        assert_eq!(possible(OnlyJob::Auto, || true), Ok(OnlyJob::Auto));
        assert_eq!(possible(OnlyJob::Always, || true), Ok(OnlyJob::Always));
        assert_eq!(possible(OnlyJob::Never, || panic!("nobody needs to know")), Ok(OnlyJob::Never));
    }
}
