//! Attaching: one link per bundle and program, or one for each process that is reached.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::path::Path;

use analyzer::plan::{Probe, ProbeClass};
use analyzer::wire::FileId;
use libbpf_rs::{Link, ProgramMut};
use tracer_ebpf::DmscopeSkel;

use super::holder::{LinkHolder, LinkId, NewLink, ReturnMode};
use super::load::{Features, KernelError};
use super::shapes::Shapes;
use super::types::{Attached, Scope, Target};
use crate::budget::Bundle;

pub(super) fn kernel_events(skel: &DmscopeSkel<'static>) -> Result<Vec<Link>, KernelError> {
    let progs = &skel.progs;
    [
        &progs.dms_fork,
        &progs.dms_exec,
        &progs.dms_exit,
        &progs.dms_signal,
        &progs.dms_sys_exit,
        &progs.dms_sent,
        &progs.dms_received,
    ]
    .into_iter()
    .map(trace)
    .collect()
}

/// When dmscope itself runs, if that is followed.
pub(super) fn switches(skel: &DmscopeSkel<'static>) -> Result<Option<Link>, KernelError> {
    let program = &skel.progs.dms_switch;
    program.autoload().then(|| trace(program)).transpose()
}

fn trace(program: &ProgramMut<'_>) -> Result<Link, KernelError> {
    program.attach_trace().map_err(|source| KernelError::Refused {
        what: format!("attaching {}", program.name().to_string_lossy()),
        source,
    })
}

/// A link that is held.
pub(super) struct AttachedLink {
    /// Whose probes it holds.
    pub bundle: Bundle,
    /// The only process that it is for.
    pub process: Option<u32>,
    /// What its holder calls it.
    pub id: LinkId,
}

/// For whom links are made.
#[derive(Clone, Copy)]
pub(super) enum Reach<'a> {
    /// Everybody where that is a file's scope; else these processes.
    All(&'a BTreeSet<u32>),
    /// This process alone, for files that others have their own links for.
    OneMore(u32),
}

impl Reach<'_> {
    /// A link for each; `None`: for everybody.
    fn processes(self, scope: Scope) -> Vec<Option<u32>> {
        match (scope, self) {
            (Scope::EveryProcess, Self::All(_)) => vec![None],
            (Scope::EveryProcess, Self::OneMore(_)) => Vec::new(),
            (Scope::EachReached, Self::All(reached)) => reached.iter().copied().map(Some).collect(),
            (Scope::EachReached, Self::OneMore(pid)) => vec![Some(pid)],
        }
    }
}

/// What links are made from.
pub(super) struct LinkMaker<'a> {
    pub skel: &'a DmscopeSkel<'static>,
    /// Has the programs for RDMA verbs, if they are needed; or why it has not.
    pub verbs: Result<&'a DmscopeSkel<'static>, &'a str>,
    pub features: Features,
    pub targets: &'a BTreeMap<FileId, Target>,
    pub shapes: &'a Shapes,
    /// Probes whose links are the second ones: see `second_links` in `common.h`.
    pub second: &'a BTreeSet<u32>,
}

impl<'a> LinkMaker<'a> {
    /// Attaches probes in their bundles.
    pub(super) fn attach(
        &self,
        bundles: &BTreeMap<Bundle, Vec<&Probe>>,
        reach: Reach<'_>,
        holder: &mut LinkHolder,
    ) -> (Vec<AttachedLink>, Attached) {
        let mut attached = Attached::default();
        let mut groups = self.groups(bundles, reach, &mut attached);
        let mut links = Vec::new();
        while !groups.is_empty() {
            groups = self.attach_groups(groups, holder, &mut links, &mut attached);
        }
        attached.failed.sort_by_key(|(probe, _)| probe.id);
        attached.failed.dedup_by_key(|(probe, _)| probe.id);
        attached.probes = attached.probes.saturating_sub(attached.failed.len());
        (links, attached)
    }

    fn groups<'p>(
        &self,
        bundles: &'p BTreeMap<Bundle, Vec<&'p Probe>>,
        reach: Reach<'_>,
        attached: &mut Attached,
    ) -> Vec<LinkGroup<'a, 'p>> {
        let mut groups = Vec::new();
        let changed = changed_files(bundles.values().flatten(), self.targets);
        for (&bundle, probes) in bundles {
            let target = match self.targets.get(&bundle.file()) {
                Some(target) if !changed.contains(&bundle.file()) => target,
                Some(_) => {
                    refuse(attached, probes, "the file was changed after it was looked at");
                    continue;
                }
                None => {
                    refuse(attached, probes, "the file cannot be opened");
                    continue;
                }
            };
            let programs = match self.programs(bundle.class()) {
                Ok(programs) => programs,
                Err(why) => {
                    refuse(attached, probes, why);
                    continue;
                }
            };
            for process in reach.processes(target.scope).into_iter().filter(|process| is_there(*process)) {
                let group =
                    |&(program, returns)| LinkGroup { bundle, program, returns, target, process, probes };
                groups.extend(programs.iter().map(group));
            }
            attached.probes += probes.len();
        }
        groups
    }

    fn programs(&self, class: ProbeClass) -> Result<Vec<(&'a ProgramMut<'static>, ReturnMode)>, &'a str> {
        let skel = if class.is_of_verbs() { self.verbs? } else { self.skel };
        Ok(programs(skel, self.features, class))
    }

    /// Makes a link of each. A single bad place refuses a whole link: gives back halves of those to be tried, down to that
    /// place.
    fn attach_groups<'p>(
        &self,
        groups: Vec<LinkGroup<'a, 'p>>,
        holder: &mut LinkHolder,
        links: &mut Vec<AttachedLink>,
        attached: &mut Attached,
    ) -> Vec<LinkGroup<'a, 'p>> {
        let wanted: Vec<NewLink<'_>> = groups.iter().map(|group| group.link(self)).collect();
        let answers = match holder.make(&wanted) {
            Ok(answers) => answers,
            Err(gone) => {
                let probes = groups.iter().flat_map(|group| group.probes);
                attached.failed.extend(probes.map(|&probe| (probe.clone(), gone.to_string())));
                return Vec::new();
            }
        };
        let mut halves = Vec::new();
        for (group, answer) in groups.into_iter().zip(answers) {
            match answer {
                Ok(id) => links.push(AttachedLink { bundle: group.bundle, process: group.process, id }),
                // It has ended just now.
                Err(_) if !is_there(group.process) => {}
                Err(error) if group.probes.len() == 1 => {
                    attached.failed.push((group.probes[0].clone(), error.to_string()));
                }
                Err(_) => {
                    let (left, right) = group.probes.split_at(group.probes.len() / 2);
                    halves.extend([left, right].map(|probes| LinkGroup { probes, ..group }));
                }
            }
        }
        halves
    }
}

/// A process that has ended needs no probes, and the kernel refuses them.
fn is_there(process: Option<u32>) -> bool {
    process.is_none_or(|pid| Path::new(&format!("/proc/{pid}")).exists())
}

fn refuse(attached: &mut Attached, probes: &[&Probe], why: &str) {
    attached.failed.extend(probes.iter().map(|&probe| (probe.clone(), why.to_owned())));
    attached.probes += probes.len();
}

/// Files in which an instruction is another one than the plan saw: no place in them is what it was taken for.
fn changed_files<'p>(
    probes: impl Iterator<Item = &'p &'p Probe>,
    targets: &BTreeMap<FileId, Target>,
) -> BTreeSet<FileId> {
    let is_changed =
        |probe: &&&Probe| targets.get(&probe.file).is_some_and(|target| !target.still_has(probe));
    probes.filter(is_changed).map(|probe| probe.file).collect()
}

fn programs<'a>(
    skel: &'a DmscopeSkel<'static>,
    features: Features,
    class: ProbeClass,
) -> Vec<(&'a ProgramMut<'static>, ReturnMode)> {
    let progs = &skel.progs;
    let entry = |program| vec![(program, ReturnMode::No)];
    match class {
        ProbeClass::Copy => entry(&progs.dms_copy),
        ProbeClass::Pack => entry(&progs.dms_pack),
        ProbeClass::Unpack => entry(&progs.dms_unpack),
        ProbeClass::Call => entry(&progs.dms_call),
        ProbeClass::CallResults if features.sessions => {
            vec![(&progs.dms_result_session, ReturnMode::Session)]
        }
        ProbeClass::CallResults => {
            vec![(&progs.dms_result_entry, ReturnMode::No), (&progs.dms_result_exit, ReturnMode::Only)]
        }
        ProbeClass::PollSuccess => entry(&progs.dms_poll_success),
        ProbeClass::Free => entry(&progs.dms_free),
        ProbeClass::Error => {
            vec![(&progs.dms_error, ReturnMode::No), (&progs.dms_error_returned, ReturnMode::Only)]
        }
        ProbeClass::PollReturn if features.sessions => vec![(&progs.dms_poll_session, ReturnMode::Session)],
        ProbeClass::PollReturn => {
            vec![(&progs.dms_poll_entry, ReturnMode::No), (&progs.dms_poll_exit, ReturnMode::Only)]
        }
        ProbeClass::VerbsQueue => entry(&progs.dms_verbs_queue),
        ProbeClass::VerbsBuild => entry(&progs.dms_verbs_build),
        ProbeClass::VerbsPost if features.sessions => {
            vec![(&progs.dms_verbs_post_session, ReturnMode::Session)]
        }
        ProbeClass::VerbsPost => vec![
            (&progs.dms_verbs_post_entry, ReturnMode::No),
            (&progs.dms_verbs_post_exit, ReturnMode::Only),
        ],
        ProbeClass::VerbsPoll if features.sessions => {
            vec![(&progs.dms_verbs_poll_session, ReturnMode::Session)]
        }
        ProbeClass::VerbsPoll => vec![
            (&progs.dms_verbs_poll_entry, ReturnMode::No),
            (&progs.dms_verbs_poll_exit, ReturnMode::Only),
        ],
        ProbeClass::Alloc if features.sessions => vec![(&progs.dms_alloc_session, ReturnMode::Session)],
        ProbeClass::Alloc => {
            vec![(&progs.dms_alloc_entry, ReturnMode::No), (&progs.dms_alloc_exit, ReturnMode::Only)]
        }
    }
}

/// Probes that one link can hold.
#[derive(Clone, Copy)]
struct LinkGroup<'a, 'p> {
    bundle: Bundle,
    program: &'a ProgramMut<'static>,
    returns: ReturnMode,
    target: &'a Target,
    process: Option<u32>,
    probes: &'p [&'p Probe],
}

impl<'a> LinkGroup<'a, '_> {
    fn link(&self, maker: &LinkMaker<'_>) -> NewLink<'a> {
        NewLink {
            program: self.program.as_fd(),
            file: self.target.file.file().as_fd(),
            process: self.process,
            returns: self.returns,
            offsets_bytes: self.probes.iter().map(|probe| probe.offset_bytes).collect(),
            cookies: self.probes.iter().map(|probe| cookie(probe, maker)).collect(),
        }
    }
}

/// What the kernel part reads back: see `cookie_*` in `common.h`.
fn cookie(probe: &Probe, maker: &LinkMaker<'_>) -> u64 {
    const OF_SECOND_LINK: u64 = 1 << 31;
    let argument = match probe.class {
        ProbeClass::Alloc => allocator(&probe.function),
        ProbeClass::CallResults => maker.shapes.number(probe),
        _ => probe.argument,
    };
    let second = if maker.second.contains(&probe.id) { OF_SECOND_LINK } else { 0 };
    u64::from(probe.id) | second | u64::from(probe.stack_bytes & 0xffff) << 32 | (argument & 0xffff) << 48
}

/// Which arguments say how much is wanted: `ALLOC_*` in `heap.h`.
fn allocator(function: &str) -> u64 {
    match function {
        "calloc" => 1,
        "realloc" => 2,
        "memalign" | "aligned_alloc" => 3,
        "posix_memalign" => 4,
        _ => 0,
    }
}
