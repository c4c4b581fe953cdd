//! Loading: tries the best form of the programs first, so that a feature counts as present
//! only if this kernel took it.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, OpenProgramMut};
use tracer_ebpf::{DmscopeSkel, DmscopeSkelBuilder, OpenDmscopeSkel};

use super::holder::HolderPlace;
use crate::host::support;

/// What the programs are loaded with.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// Size of one ring: a power of two of pages.
    pub ring_bytes: u32,
    /// Heap blocks from this size on are recorded, whoever asks for them.
    pub alloc_min_bytes: u64,
    /// Whether the job is told what processor time dmscope itself takes from it.
    pub follows_own_time: bool,
    /// Features to do without although the kernel may have them (for tests).
    pub without: Features,
    /// Where links are held.
    pub holder: HolderPlace,
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            ring_bytes: 4 << 20,
            alloc_min_bytes: 4096,
            follows_own_time: false,
            without: Features::default(),
            holder: HolderPlace::default(),
        }
    }
}

/// What the kernel offers beyond what is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Features {
    /// One program at entry and return that can decline the return (Linux 6.13).
    pub sessions: bool,
    /// Links for one process that see all of its threads (Linux 6.10). Known only when it was tried.
    pub process_filter: bool,
}

/// Why the kernel would not.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// This kernel lacks something, or this process has no right to it.
    #[error("{0}")]
    NotSupported(String),
    /// Nobody holds links.
    #[error("the process that holds the probes cannot be started: {0}")]
    NoHolder(std::io::Error),
    /// Anything else at load.
    #[error("the kernel did not take the BPF programs: {source}; `dmscope doctor` says what it lacks")]
    Load {
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// After load.
    #[error("the kernel refused {what}: {source}")]
    Refused {
        /// What was asked.
        what: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
}

/// Parts of a ring that movements may fill, and with them heap blocks, and with these MPI calls.
const PARTS_FOR_MOVEMENTS: u64 = 5;
const PARTS_UP_TO_HEAP: u64 = 6;
const PARTS_UP_TO_CALLS: u64 = 7;
/// All of them, mappings and the life of processes too.
const PARTS: u64 = 8;

pub(super) fn load(settings: &LoadSettings) -> Result<(DmscopeSkel<'static>, Features), KernelError> {
    if let Some(why) = support::refusal(&support::support_facts()) {
        return Err(KernelError::NotSupported(why));
    }
    silence_libbpf();
    let mut last = None;
    for sessions in [true, false] {
        let features = Features { sessions, ..Features::default() };
        if sessions && settings.without.sessions {
            continue;
        }
        match load_with(settings, features) {
            Ok(skel) => return Ok((skel, features)),
            Err(error) => last = Some(error),
        }
    }
    Err(KernelError::Load { source: last.expect("at least one form was tried") })
}

fn load_with(settings: &LoadSettings, features: Features) -> Result<DmscopeSkel<'static>, libbpf_rs::Error> {
    // The skeleton borrows its object; a session loads once and keeps it to its end.
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = DmscopeSkelBuilder::default().open(storage)?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.alloc_min_bytes = settings.alloc_min_bytes;
        rodata.tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        rodata.machine_seed = support::boot_number();
        rodata.own_program = if settings.follows_own_time { own_program() } else { 0 };
        let part_bytes = u64::from(settings.ring_bytes) / PARTS;
        rodata.movement_limit_bytes = PARTS_FOR_MOVEMENTS * part_bytes;
        rodata.heap_limit_bytes = PARTS_UP_TO_HEAP * part_bytes;
        rodata.call_limit_bytes = PARTS_UP_TO_CALLS * part_bytes;
    }
    choose_programs(&mut open, features, |program| !is_of_verbs(program));
    open.progs.dms_switch.set_autoload(settings.follows_own_time);
    open.load()
}

/// The inode of the program that all processes of dmscope run; 0: it cannot be told.
fn own_program() -> u64 {
    std::fs::metadata("/proc/self/exe").map_or(0, |program| program.ino())
}

/// Loads the programs for RDMA verbs beside the others, with the same maps: few jobs need them, and the kernel checks them for
/// longer than all others.
pub(super) fn load_verbs(
    main: &DmscopeSkel<'static>,
    features: Features,
) -> Result<DmscopeSkel<'static>, libbpf_rs::Error> {
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = DmscopeSkelBuilder::default().open(storage)?;
    for mut map in open.open_object_mut().maps_mut() {
        let known = main.object().maps().find(|known| known.name() == map.name());
        if let Some(known) = known {
            map.reuse_fd(known.as_fd())?;
        }
    }
    choose_programs(&mut open, features, is_of_verbs);
    open.load()
}

fn is_of_verbs(program: &OpenProgramMut<'_>) -> bool {
    program.name().as_encoded_bytes().starts_with(b"dms_verbs_")
}

/// Those that are `wanted`, in the form that goes with the features.
fn choose_programs(
    open: &mut OpenDmscopeSkel<'static>,
    features: Features,
    wanted: impl Fn(&OpenProgramMut<'_>) -> bool,
) {
    for mut program in open.open_object_mut().progs_mut() {
        program.set_autoload(wanted(&program));
    }
    let progs = &mut open.progs;
    let mut sessions = [
        &mut progs.dms_alloc_session,
        &mut progs.dms_poll_session,
        &mut progs.dms_result_session,
        &mut progs.dms_verbs_poll_session,
        &mut progs.dms_verbs_post_session,
    ];
    let mut pairs = [
        &mut progs.dms_alloc_entry,
        &mut progs.dms_alloc_exit,
        &mut progs.dms_poll_entry,
        &mut progs.dms_poll_exit,
        &mut progs.dms_result_entry,
        &mut progs.dms_result_exit,
        &mut progs.dms_verbs_poll_entry,
        &mut progs.dms_verbs_poll_exit,
        &mut progs.dms_verbs_post_entry,
        &mut progs.dms_verbs_post_exit,
    ];
    let left_out = if features.sessions { &mut pairs[..] } else { &mut sessions[..] };
    left_out.iter_mut().for_each(|program| program.set_autoload(false));
}

/// libbpf's own messages are for its developers; errors come back as values anyway.
fn silence_libbpf() {
    if std::env::var_os("DMSCOPE_LIBBPF_LOG").is_none() {
        libbpf_rs::set_print(None);
    }
}
