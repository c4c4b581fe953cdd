//! Attaching: one link per bundle and program, or one for each process that is reached.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use analyzer::plan::{Probe, ProbeClass};
use analyzer::wire::FileId;
use libbpf_rs::{Link, ProgramMut, UprobeMultiOpts};
use tracer_ebpf::DmscopeSkel;

use super::keeper::{Keeper, Moving};
use super::load::{Features, KernelError};
use super::shapes::Shapes;
use super::types::{Attached, Scope, Target};
use crate::budget::Bundle;

pub(super) fn kernel_events(skel: &DmscopeSkel<'static>) -> Result<Vec<Link>, KernelError> {
    let progs = &skel.progs;
    [&progs.dms_fork, &progs.dms_exec, &progs.dms_exit, &progs.dms_signal, &progs.dms_sys_exit]
        .into_iter()
        .map(trace)
        .collect()
}

fn trace(program: &ProgramMut<'_>) -> Result<Link, KernelError> {
    program.attach_trace().map_err(|source| KernelError::Refused {
        what: format!("attaching {}", program.name().to_string_lossy()),
        source,
    })
}

/// A link.
pub(super) struct AttachedLink {
    /// Whose probes it holds.
    pub bundle: Bundle,
    /// The only process that it is for.
    pub process: Option<u32>,
    /// Has it open.
    pub keeper: Keeper,
}

/// A link that nobody keeps yet.
struct NewLink {
    bundle: Bundle,
    process: Option<u32>,
    moving: Moving,
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
    pub features: Features,
    pub targets: &'a BTreeMap<FileId, Target>,
    pub shapes: &'a Shapes,
}

impl LinkMaker<'_> {
    /// Attaches probes in their bundles.
    pub(super) fn attach(
        &self,
        bundles: &BTreeMap<Bundle, Vec<&Probe>>,
        reach: Reach<'_>,
    ) -> (Vec<AttachedLink>, Attached) {
        let mut links = Vec::new();
        let mut attached = Attached::default();
        let changed = changed_files(bundles.values().flatten(), self.targets);
        for (&bundle, probes) in bundles {
            let target = match self.targets.get(&bundle.file()) {
                Some(target) if !changed.contains(&bundle.file()) => target,
                Some(_) => {
                    refuse(&mut attached, probes, "the file was changed after it was looked at");
                    continue;
                }
                None => {
                    refuse(&mut attached, probes, "the file cannot be opened");
                    continue;
                }
            };
            let path = target.file.link();
            for process in reach.processes(target.scope).into_iter().filter(|process| is_there(*process)) {
                for (program, returns) in programs(self.skel, self.features, bundle.class()) {
                    let group =
                        LinkGroup { bundle, program, returns, path: &path, process, shapes: self.shapes };
                    group.attach(probes, &mut links, &mut attached);
                }
            }
            attached.probes += probes.len();
        }
        attached.failed.sort_by_key(|(probe, _)| probe.id);
        attached.failed.dedup_by_key(|(probe, _)| probe.id);
        attached.probes = attached.probes.saturating_sub(attached.failed.len());
        (links.into_iter().map(NewLink::keep).collect(), attached)
    }
}

impl NewLink {
    fn keep(self) -> AttachedLink {
        AttachedLink { bundle: self.bundle, process: self.process, keeper: self.moving.finish() }
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

/// How a program is attached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReturnMode {
    No,
    Only,
    Session,
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
        ProbeClass::Alloc if features.sessions => vec![(&progs.dms_alloc_session, ReturnMode::Session)],
        ProbeClass::Alloc => {
            vec![(&progs.dms_alloc_entry, ReturnMode::No), (&progs.dms_alloc_exit, ReturnMode::Only)]
        }
    }
}

/// Probes that one link can hold.
struct LinkGroup<'a> {
    bundle: Bundle,
    program: &'a ProgramMut<'static>,
    returns: ReturnMode,
    path: &'a Path,
    process: Option<u32>,
    shapes: &'a Shapes,
}

impl LinkGroup<'_> {
    /// A single bad place refuses a whole link: then halves are tried, down to that place.
    fn attach(&self, probes: &[&Probe], links: &mut Vec<NewLink>, attached: &mut Attached) {
        match self.link(probes) {
            Ok(link) => links.push(NewLink {
                bundle: self.bundle,
                process: self.process,
                moving: Moving::begin(link),
            }),
            // It has ended just now.
            Err(_) if !is_there(self.process) => {}
            Err(error) if probes.len() == 1 => attached.failed.push((probes[0].clone(), error.to_string())),
            Err(_) => {
                let (left, right) = probes.split_at(probes.len() / 2);
                self.attach(left, links, attached);
                self.attach(right, links, attached);
            }
        }
    }

    fn link(&self, probes: &[&Probe]) -> Result<Link, libbpf_rs::Error> {
        let options = UprobeMultiOpts {
            offsets: probes.iter().map(|p| p.offset_bytes as usize).collect(),
            cookies: probes.iter().map(|p| cookie(p, self.shapes)).collect(),
            retprobe: self.returns == ReturnMode::Only,
            session: self.returns == ReturnMode::Session,
            ..UprobeMultiOpts::default()
        };
        let pid = self.process.map_or(-1, |pid| pid as i32);
        self.program.attach_uprobe_multi_with_opts(pid, self.path, "", options)
    }
}

/// What the kernel part reads back: see `cookie_*` in `common.h`.
fn cookie(probe: &Probe, shapes: &Shapes) -> u64 {
    let argument = match probe.class {
        ProbeClass::Alloc => allocator(&probe.function),
        ProbeClass::CallResults => shapes.number(probe),
        _ => probe.argument,
    };
    u64::from(probe.id) | u64::from(probe.stack_bytes & 0xffff) << 32 | (argument & 0xffff) << 48
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
