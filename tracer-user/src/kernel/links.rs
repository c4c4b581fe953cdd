//! Attaching: one link per file, program and scope; or per probe, so that it can be detached by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use analyzer::plan::{Probe, ProbeClass};
use analyzer::wire::FileId;
use libbpf_rs::{Link, ProgramMut, UprobeMultiOpts};
use tracer_ebpf::DmscopeSkel;

use super::load::{Features, KernelError};
use super::shapes::Shapes;
use super::types::{Attached, Scope};

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

/// A file with probes, and for whom they are.
pub(super) struct OpenTarget {
    /// Kept open: its name may lead elsewhere, or nowhere, when a probe is attached again.
    pub file: File,
    pub scopes: Vec<Scope>,
}

/// A link, and the probes that go with it.
pub(super) struct AttachedLink {
    pub probes: BTreeSet<u32>,
    /// Open as long as this is.
    _link: Link,
}

/// Attaches probes; `apart`: those that get a link of their own.
pub(super) fn attach(
    skel: &DmscopeSkel<'static>,
    features: Features,
    probes: &[&Probe],
    targets: &BTreeMap<FileId, OpenTarget>,
    apart: &BTreeSet<u32>,
    shapes: &Shapes,
) -> (Vec<AttachedLink>, Attached) {
    let mut groups: BTreeMap<(FileId, ProbeClass, u32), Vec<&Probe>> = BTreeMap::new();
    for &probe in probes {
        let alone = if apart.contains(&probe.id) { probe.id } else { 0 };
        groups.entry((probe.file, probe.class, alone)).or_default().push(probe);
    }
    let mut links = Vec::new();
    let mut attached = Attached::default();
    for ((file, class, _), probes) in groups {
        let Some(target) = targets.get(&file) else {
            let why = "the file can no longer be opened".to_owned();
            attached.failed.extend(probes.into_iter().map(|p| (p.clone(), why.clone())));
            continue;
        };
        let path = PathBuf::from(format!("/proc/self/fd/{}", target.file.as_raw_fd()));
        for &scope in target.scopes.iter().filter(|scope| scope.is_there()) {
            for (program, returns) in programs(skel, features, class) {
                let group = LinkGroup { program, returns, path: &path, scope, shapes };
                group.attach(&probes, &mut links, &mut attached);
            }
        }
        attached.probes += probes.len();
    }
    attached.failed.sort_by_key(|(probe, _)| probe.id);
    attached.failed.dedup_by_key(|(probe, _)| probe.id);
    attached.probes = attached.probes.saturating_sub(attached.failed.len());
    (links, attached)
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
    program: &'a ProgramMut<'static>,
    returns: ReturnMode,
    path: &'a std::path::Path,
    scope: Scope,
    shapes: &'a Shapes,
}

impl LinkGroup<'_> {
    /// A single bad place refuses a whole link: then halves are tried, down to that place.
    fn attach(&self, probes: &[&Probe], links: &mut Vec<AttachedLink>, attached: &mut Attached) {
        match self.link(probes) {
            Ok(link) => {
                links.push(AttachedLink { probes: probes.iter().map(|p| p.id).collect(), _link: link })
            }
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
        let pid = match self.scope {
            Scope::EveryProcess => -1,
            Scope::Process(pid) => pid as i32,
        };
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
