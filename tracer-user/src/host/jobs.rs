//! MPI jobs of this machine: ranks that one launcher started.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use globset::GlobSet;
use serde::{Deserialize, Serialize};

use super::cpus;
use super::error::JobError;
use super::job_name;
use super::processes::{
    MpiLibrary, ProcessView, RankProcess, all_pids, children, mpi_library, only_network, parent, start_ticks,
};
use crate::plan::attach::JobSize;
use crate::plan::compiled;
use crate::plan::tables::LAUNCHERS;

/// Ranks of one job on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeJob {
    /// The launcher; the rank itself if it was started without one.
    pub pid: u32,
    /// What it is called on all of its nodes, if anything tells.
    pub name: Option<String>,
    /// The scheduler's number of what it is a part of, beside jobs of other launchers perhaps.
    #[serde(default)]
    pub allocation: Option<String>,
    /// The launcher's command line.
    pub command: String,
    /// User name, or number where there is no name.
    pub user: String,
    /// Seconds since it was started.
    pub age_s: u64,
    /// The ranks that are here, in order.
    pub ranks: Vec<RankProcess>,
}

impl NodeJob {
    /// Processors that any of its ranks may run on.
    pub fn cpus(&self) -> BTreeSet<u32> {
        self.ranks.iter().flat_map(|r| cpus::of_process(r.pid)).collect()
    }

    /// How many ranks are here or about to come, as far as its launcher says.
    pub fn size(&self) -> JobSize {
        let local_sizes = self.ranks.iter().filter_map(|rank| rank.local_size);
        let processes = local_sizes.max().map_or(0, |size| size as usize).max(self.ranks.len());
        JobSize { processes, is_starting: processes > self.ranks.len() }
    }

    /// Its MPI library (of the first rank; a job has one).
    pub fn library(&self) -> Option<&MpiLibrary> {
        self.ranks.first().map(|r| &r.library)
    }
}

/// A process, and its MPI library if it has one.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The process.
    pub view: ProcessView,
    /// Its library.
    pub library: Option<MpiLibrary>,
}

/// The launcher and what it started that is no rank and no rank's child: from these, more ranks may come.
pub fn starters(job: &NodeJob) -> Vec<u32> {
    let parents: BTreeMap<u32, u32> =
        all_pids().into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let ranks: BTreeSet<u32> = job.ranks.iter().map(|r| r.pid).collect();
    starters_among(job.pid, &ranks, &parents)
}

/// What these processes have started, and what that has.
pub fn descendants(ancestors: &[u32]) -> Vec<u32> {
    let parents: BTreeMap<u32, u32> =
        all_pids().into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let is_below = |pid: u32| {
        let line = std::iter::successors(parents.get(&pid).copied(), |pid| parents.get(pid).copied());
        line.take(parents.len()).any(|parent| ancestors.contains(&parent))
    };
    parents.keys().copied().filter(|pid| is_below(*pid)).collect()
}

/// What a job is called on all of its nodes whose launcher has just been started, as soon as anything tells.
pub fn name_below(launcher: u32) -> Option<String> {
    let mut below = vec![launcher];
    let mut at = 0;
    // Of all processes a launcher has few.
    while let Some(&pid) = below.get(at) {
        below.extend(children(pid).into_iter().filter(|child| !below.contains(child)).collect::<Vec<_>>());
        at += 1;
    }
    below.into_iter().filter_map(|pid| ProcessView::read(pid).ok()).find_map(|view| {
        let named = job_name::of_daemon(&view.command);
        named.or_else(|| view.rank.and_then(|_| job_name::of_rank(&view.job_names, std::iter::empty())))
    })
}

/// Processes that start ranks of a job which has begun since.
pub struct NewDaemons {
    /// Was there before, or is something else, each with its start.
    others: HashMap<u32, u64>,
    /// Those of them that were there when it was last looked. None of their numbers is another's so soon.
    known: BTreeSet<u32>,
    network: Option<u64>,
}

impl NewDaemons {
    /// What runs now is none of them.
    pub fn since_now() -> Self {
        let others = all_pids().into_iter().filter_map(|pid| Some((pid, start_ticks(pid).ok()?))).collect();
        Self { others, known: BTreeSet::new(), network: only_network() }
    }

    /// Those of the job of a name that are a user's (or, with none, anybody's). To be asked again and again, without a pause.
    pub fn of_job(&mut self, name: &str, uid: Option<u32>) -> Vec<u32> {
        let mut found = Vec::new();
        let before = std::mem::take(&mut self.known);
        for pid in all_pids() {
            if before.contains(&pid) {
                self.known.insert(pid);
                continue;
            }
            let Ok(started) = start_ticks(pid) else { continue };
            if self.others.get(&pid) == Some(&started) {
                self.known.insert(pid);
                continue;
            }
            let Ok(view) = ProcessView::read(pid) else { continue };
            let is_ours = self.network.is_none_or(|network| view.network_namespace == network)
                && uid.is_none_or(|uid| view.uid == uid);
            if is_ours && job_name::of_daemon(&view.command).as_deref() == Some(name) {
                found.push(pid);
            } else if age_s(started) >= 2 {
                // A process may still become another program in its first moments.
                self.others.insert(pid, started);
            }
        }
        found
    }
}

/// `parents`: the parent of each process.
fn starters_among(launcher: u32, ranks: &BTreeSet<u32>, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let leads_to_launcher = |pid: u32| {
        let line = std::iter::successors(Some(pid), |pid| parents.get(pid).copied());
        // A loop cannot be, but processes come and go while they are read.
        let mut line = line.take(parents.len() + 1).take_while(|pid| !ranks.contains(pid));
        line.any(|pid| pid == launcher)
    };
    parents.keys().copied().filter(|pid| leads_to_launcher(*pid)).collect()
}

/// A name of a program that starts ranks.
pub fn is_launcher(name: &str) -> bool {
    static NAMES: LazyLock<GlobSet> = LazyLock::new(|| compiled(LAUNCHERS));
    NAMES.is_match(name)
}

/// Groups processes to jobs, by launcher: (launcher's or lone rank's pid, ranks).
///
/// A rank's own children are no ranks, even if they still run the rank's program.
pub fn group(candidates: &[Candidate]) -> BTreeMap<u32, Vec<RankProcess>> {
    let by_pid: HashMap<u32, &Candidate> = candidates.iter().map(|c| (c.view.pid, c)).collect();
    let mut jobs: BTreeMap<u32, Vec<RankProcess>> = BTreeMap::new();
    for candidate in candidates {
        let Some(library) = &candidate.library else { continue };
        let Some(job) = job_pid(candidate, &by_pid) else { continue };
        jobs.entry(job).or_default().push(rank_process(&candidate.view, library));
    }
    for ranks in jobs.values_mut() {
        ranks.sort_by_key(|r| (r.rank, r.pid));
    }
    jobs
}

/// The launcher of a rank (its own pid if there is none); `None` if it is a child of another
/// rank, or a launcher itself.
fn job_pid(candidate: &Candidate, by_pid: &HashMap<u32, &Candidate>) -> Option<u32> {
    if is_launcher(&candidate.view.name) {
        return None;
    }
    let mut launcher = None;
    let mut parent = candidate.view.parent;
    // A loop cannot be, but processes come and go while they are read.
    for _ in 0..by_pid.len() {
        let Some(ancestor) = by_pid.get(&parent) else { break };
        match (is_launcher(&ancestor.view.name), launcher) {
            // Launchers start launchers (one per node): the outermost is the job.
            (true, _) => launcher = Some(ancestor.view.pid),
            (false, Some(_)) => break,
            (false, None) if ancestor.library.is_some() => return None,
            (false, None) => {}
        }
        parent = ancestor.view.parent;
    }
    Some(launcher.unwrap_or(candidate.view.pid))
}

fn rank_process(view: &ProcessView, library: &MpiLibrary) -> RankProcess {
    RankProcess {
        pid: view.pid,
        namespace_pid: view.namespace_pid,
        pid_namespace: view.pid_namespace,
        mount_namespace: view.mount_namespace,
        rank: view.rank,
        size: view.size,
        local_size: view.local_size,
        exe: view.exe.clone(),
        command: view.command.clone(),
        uid: view.uid,
        start_ticks: view.start_ticks,
        library: library.clone(),
    }
}

/// Those of the processes that can be read, and are on our node. Those that end meanwhile, or may not be looked at, are not
/// among them, or have no library.
fn candidates(pids: impl IntoIterator<Item = u32>) -> Vec<Candidate> {
    let network = only_network();
    pids.into_iter()
        .filter_map(|pid| ProcessView::read(pid).ok())
        .filter(|view| network.is_none_or(|network| view.network_namespace == network))
        // Kernel threads have no program.
        .filter(|view| !view.exe.is_empty() || !view.command.is_empty())
        .map(|view| {
            let library = mpi_library(view.pid, &view.exe, view.rank.is_some()).ok().flatten();
            Candidate { view, library }
        })
        .collect()
}

/// All MPI jobs of this machine that the caller may look at.
pub fn find_jobs() -> Vec<NodeJob> {
    jobs_of(&candidates(all_pids()))
}

/// Ranks that were started since the job was looked at.
pub fn late_ranks(job: &NodeJob) -> Vec<RankProcess> {
    let known: BTreeSet<u32> = job.ranks.iter().map(|r| r.pid).collect();
    let others = all_pids().into_iter().filter(|pid| !known.contains(pid));
    group(&candidates(others)).remove(&job.pid).unwrap_or_default()
}

fn jobs_of(candidates: &[Candidate]) -> Vec<NodeJob> {
    let views: HashMap<u32, &ProcessView> = candidates.iter().map(|c| (c.view.pid, &c.view)).collect();
    let view_of = |pid| views.get(&pid).copied();
    group(candidates)
        .into_iter()
        .map(|(pid, ranks)| {
            let view = view_of(pid);
            NodeJob {
                pid,
                name: ranks.iter().find_map(|rank| job_name(rank.pid, &views)),
                allocation: ranks.iter().find_map(|rank| allocation(view_of(rank.pid)?)),
                command: view.map(|v| v.command.clone()).unwrap_or_default(),
                user: user_name(ranks.first().map_or(0, |r| r.uid)),
                age_s: age_s(view.map_or(0, |v| v.start_ticks)),
                ranks,
            }
        })
        .collect()
}

fn allocation(rank: &ProcessView) -> Option<String> {
    rank.job_names.allocation().map(str::to_owned)
}

/// What the job of a rank is called on all of its nodes.
fn job_name(rank: u32, views: &HashMap<u32, &ProcessView>) -> Option<String> {
    let own = views.get(&rank)?;
    let parents = std::iter::successors(Some(*own), |view| views.get(&view.parent).copied());
    // A loop cannot be, but processes come and go while they are read.
    let ancestors = parents.skip(1).take(views.len());
    job_name::of_rank(&own.job_names, ancestors.map(|view| view.command.as_str()))
}

/// The job that a process belongs to: its launcher, or any of its ranks.
///
/// # Errors
/// No such process, not of an MPI job, or not to be looked at.
pub fn job_of(pid: u32) -> Result<NodeJob, JobError> {
    let view = ProcessView::read(pid)?;
    let candidates = candidates(all_pids());
    let jobs = jobs_of(&candidates);
    if let Some(job) = jobs.into_iter().find(|j| j.pid == pid || j.ranks.iter().any(|r| r.pid == pid)) {
        return Ok(job);
    }
    // First: who may not look at a launcher does not see its ranks either.
    mpi_library(pid, &view.exe, view.rank.is_some())?;
    if is_launcher(&view.name) {
        return Err(JobError::NoRanks(pid));
    }
    if only_network().is_some_and(|network| view.network_namespace != network) {
        return Err(JobError::OtherNetwork(pid));
    }
    let known = candidates.iter().find(|c| c.view.pid == pid);
    let what = match known {
        Some(Candidate { library: Some(_), .. }) => format!("{}, a child of a rank", view.name),
        Some(_) => format!("{}, which has no MPI library loaded", view.name),
        None => format!("{}, a part of the kernel", view.name),
    };
    Err(JobError::NotMpi { pid, what })
}

fn user_name(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| uid.to_string())
}

fn age_s(start_ticks: u64) -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime_s: f64 = uptime.split(' ').next().and_then(|t| t.parse().ok()).unwrap_or(0.0);
    (uptime_s as u64).saturating_sub(start_ticks / procfs::ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, name: &str, rank: Option<u32>, mpi: bool) -> Candidate {
        let library =
            mpi.then(|| MpiLibrary { kind: "MPI".into(), path: "/libmpi.so".into(), is_static: false });
        Candidate {
            view: ProcessView { pid, parent, name: name.into(), rank, ..ProcessView::default() },
            library,
        }
    }

    fn pids(candidates: &[Candidate]) -> Vec<(u32, Vec<u32>)> {
        group(candidates)
            .into_iter()
            .map(|(job, ranks)| (job, ranks.iter().map(|r| r.pid).collect()))
            .collect()
    }

    #[test]
    fn ranks_are_grouped_by_the_launcher_and_sorted_by_rank() {
        let all = [
            process(10, 1, "mpirun.openmpi", None, false),
            process(12, 10, "stencil", Some(1), true),
            process(11, 10, "stencil", Some(0), true),
            process(20, 1, "mpirun", None, false),
            process(21, 20, "stencil", Some(0), true),
        ];
        assert_eq!(pids(&all), [(10, vec![11, 12]), (20, vec![21])]);
    }

    #[test]
    fn a_proxy_and_a_script_between_launcher_and_rank_change_nothing() {
        let all = [
            process(10, 1, "mpiexec.hydra", None, false),
            process(11, 10, "hydra_pmi_proxy", None, false),
            process(12, 11, "sh", Some(0), false),
            process(13, 12, "stencil", Some(0), true),
        ];
        assert_eq!(pids(&all), [(10, vec![13])]);
    }

    #[test]
    fn a_child_of_a_rank_is_no_rank() {
        let all = [
            process(10, 1, "mpirun", None, false),
            process(11, 10, "stencil", Some(0), true),
            process(12, 11, "stencil", Some(0), true),
            process(13, 12, "sh", Some(0), false),
            process(14, 13, "stencil", Some(0), true),
        ];
        assert_eq!(pids(&all), [(10, vec![11])]);
    }

    #[test]
    fn among_those_that_came_later_a_child_of_a_rank_is_no_rank_of_the_job() {
        let later = [
            process(10, 1, "mpirun", None, false),
            process(12, 11, "stencil", Some(0), true),
            process(13, 10, "stencil", Some(1), true),
        ];
        assert_eq!(pids(&later), [(10, vec![13]), (12, vec![12])]);
    }

    #[test]
    fn a_job_within_a_job_is_its_own() {
        let all = [
            process(10, 1, "mpirun", None, false),
            process(11, 10, "driver", Some(0), true),
            process(12, 11, "mpirun", Some(0), false),
            process(13, 12, "stencil", Some(0), true),
        ];
        assert_eq!(pids(&all), [(10, vec![11]), (12, vec![13])]);
    }

    #[test]
    fn more_ranks_may_come_from_the_launcher_and_its_helpers_but_not_from_ranks() {
        let parents = BTreeMap::from([(10, 1), (11, 10), (12, 11), (13, 12), (14, 11), (20, 1)]);
        assert_eq!(starters_among(10, &BTreeSet::from([12]), &parents), [10, 11, 14]);
        assert!(starters_among(12, &BTreeSet::from([12]), &parents).is_empty());
    }

    #[test]
    fn a_rank_without_a_launcher_is_a_job_of_its_own() {
        assert_eq!(pids(&[process(11, 1, "stencil", None, true)]), [(11, vec![11])]);
    }
}
