//! BPF programs that do nothing, and the places that they are attached to.

use std::mem::MaybeUninit;
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, UprobeMultiOpts};

/// What libbpf-cargo makes of `src/c/empty.bpf.c`.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, unused)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/empty.skel.rs"));
}

/// How an empty program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// At an instruction, before it is executed.
    Entry,
    /// When the function returns, with nothing at its entry.
    Return,
    /// At entry and return.
    Session,
    /// At the entry, where it says that the return is not wanted.
    SessionDeclined,
}

/// The empty programs, loaded into the kernel.
pub struct EmptyPrograms {
    skel: generated::EmptySkel<'static>,
}

impl EmptyPrograms {
    /// Loads them; those of sessions only if the kernel has sessions.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn load(sessions: bool) -> Result<Self> {
        // The skeleton borrows its object for as long as the benchmark runs.
        let storage = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = generated::EmptySkelBuilder::default().open(storage)?;
        open.progs.empty_session.set_autoload(sessions);
        open.progs.empty_session_declined.set_autoload(sessions);
        Ok(Self { skel: open.load().context("loading empty programs")? })
    }

    /// Attaches one at an offset of a file, for all processes.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach(&self, hook: Hook, file: &Path, offset_bytes: u64) -> Result<Link> {
        let progs = &self.skel.progs;
        let program = match hook {
            Hook::Entry => &progs.empty,
            Hook::Return => &progs.empty_return,
            Hook::Session => &progs.empty_session,
            Hook::SessionDeclined => &progs.empty_session_declined,
        };
        let options = UprobeMultiOpts {
            offsets: vec![offset_bytes as usize],
            retprobe: hook == Hook::Return,
            session: matches!(hook, Hook::Session | Hook::SessionDeclined),
            ..UprobeMultiOpts::default()
        };
        program
            .attach_uprobe_multi_with_opts(-1, file, "", options)
            .with_context(|| format!("attaching an empty program at {}+{offset_bytes:#x}", file.display()))
    }
}
