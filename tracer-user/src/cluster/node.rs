//! This node, as agents tell it.

use anyhow::{Context, Result};

use super::protocol::NodeIdentity;
use crate::host::processes::only_network;
use crate::host::unique_word::unique_word;

/// Who we are.
///
/// # Errors
/// The kernel does not say.
pub fn identity() -> Result<NodeIdentity> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let boot =
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").context("the kernel has no boot id")?;
    let word = unique_word().context("the kernel has no random bits")?;
    let agent = format!("{host}-{}", &word[..8]);
    Ok(NodeIdentity { host, agent, boot: boot.trim().to_owned(), network_namespace: only_network() })
}
