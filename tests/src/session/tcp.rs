//! What a session counted of the job's TCP connections, at both ends.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::FinishedSession;

/// At most so many bytes are what ends a job: its ranks send them while the session ends, which leaves one process before
/// the other.
const FAREWELL_BYTES: u64 = 1000;

/// Bytes of a job's TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpBytes {
    /// Seen to be sent.
    pub sent: u64,
    /// Seen to be received.
    pub received: u64,
    /// Sent, and not received at the end.
    pub unread: u64,
    /// Received, and not seen to be sent.
    pub unseen: u64,
    /// Sent, and received unseen.
    pub missed: u64,
}

impl TcpBytes {
    /// How many a test is to move: what the variable asks for, or the usual number.
    pub fn wanted(usual: u64) -> u64 {
        let asked = std::env::var("DMSCOPE_TEST_TCP_BYTES").ok().and_then(|text| text.parse().ok());
        asked.unwrap_or(usual)
    }

    fn of(tcp: &Value) -> Result<Self> {
        let bytes = |which: &str| tcp[which].as_u64().with_context(|| format!("no {which} in {tcp}"));
        Ok(Self {
            sent: bytes("sent_bytes")?,
            received: bytes("received_bytes")?,
            unread: bytes("unread_bytes")?,
            unseen: bytes("unseen_bytes")?,
            missed: bytes("missed_bytes")?,
        })
    }

    /// Fails unless so many were sent, and all of them received.
    pub fn check_all_received(&self, wanted: u64) -> Result<()> {
        ensure!(self.sent >= wanted, "{self:?}, and the job sends {wanted}");
        ensure!(
            self.sent + self.unseen == self.received + self.unread && self.unread < FAREWELL_BYTES,
            "{self:?}"
        );
        self.check_both_ends()
    }

    /// Fails if more than a farewell was seen at one end alone.
    pub fn check_both_ends(&self) -> Result<()> {
        ensure!(self.unseen < FAREWELL_BYTES && self.missed == 0, "{self:?}");
        Ok(())
    }
}

impl FinishedSession {
    /// What was counted of TCP connections.
    ///
    /// # Errors
    /// Something was lost, or nothing went over TCP.
    pub fn tcp(&self) -> Result<TcpBytes> {
        let statistics = &self.report()?["statistics"];
        for loss in ["lost_movements", "lost_calls", "lost_state", "bad_records", "late_records"] {
            ensure!(statistics[loss] == 0, "{loss}: {}", statistics[loss]);
        }
        TcpBytes::of(statistics.get("tcp").context("nothing went over TCP")?)
    }
}
