//! Whether nobody can go on. It is never said by the time alone: each rank must have looked again and again, in vain.

use std::time::{Duration, Instant};

use super::board::{Board, WaitKind};

/// So often must all have looked since anything has changed.
const TURNS: u64 = 300;
/// So often, and for so long, before it is said that the program itself is deadlocked.
const DEADLOCK_TURNS: u64 = 3000;
const DEADLOCK: Duration = Duration::from_millis(500);

/// What is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// Somebody may go on.
    No,
    /// Nobody does, and of those that can be forced to, the clock of this one is behind: one that polls goes on with each answer.
    Force,
    /// Nobody does, and nobody can.
    Deadlock,
}

/// What was seen last.
#[derive(Debug, Default)]
pub(crate) struct StallWatch {
    seen: Vec<(u64, u64)>,
    since: Option<Instant>,
}

impl StallWatch {
    /// This rank goes on.
    pub(crate) fn reset(&mut self) {
        self.since = None;
    }

    /// Looks; `own`: this rank.
    pub(crate) fn look(&mut self, board: &Board, own: u32) -> Stall {
        let ranks = board.ranks() as u32;
        let mut now = Vec::with_capacity(ranks as usize);
        let (mut first_forced, mut is_over) = (None, true);
        let turns_are = |least: u64, at: usize, turns: u64, seen: &[(u64, u64)]| {
            seen.get(at).is_some_and(|(_, then)| turns.wrapping_sub(*then) >= least)
        };
        let (mut is_long, mut is_very_long) = (true, true);
        for rank in 0..ranks {
            let cell = board.cell(rank);
            let Some((version, wait)) = cell.wait().filter(|(_, wait)| wait.kind != WaitKind::Runs) else {
                self.since = None;
                return Stall::No;
            };
            let turns = cell.turns.load(std::sync::atomic::Ordering::Relaxed);
            if wait.kind != WaitKind::Finalized {
                is_over = false;
                is_long &= turns_are(TURNS, rank as usize, turns, &self.seen);
                is_very_long &= turns_are(DEADLOCK_TURNS, rank as usize, turns, &self.seen);
            }
            if wait.can_be_forced {
                let place = (cell.floor.load(std::sync::atomic::Ordering::Relaxed), rank);
                first_forced = Some(first_forced.map_or(place, |first: (u64, u32)| first.min(place)));
            }
            now.push((version, turns));
        }
        let is_same = self.since.is_some()
            && self.seen.len() == now.len()
            && self.seen.iter().zip(&now).all(|(then, now)| then.0 == now.0);
        if !is_same {
            self.seen = now;
            self.since = Some(Instant::now());
            return Stall::No;
        }
        let are_read = || {
            (0..ranks).all(|to| {
                board.cell(to).wait().is_some_and(|(_, wait)| wait.kind == WaitKind::Finalized)
                    || (0..ranks).all(|from| board.ring(from, to).is_empty())
            })
        };
        if is_over || !is_long || !are_read() {
            return Stall::No;
        }
        match first_forced {
            Some((_, rank)) if rank == own => Stall::Force,
            Some(_) => Stall::No,
            None if is_very_long && self.since.is_some_and(|since| since.elapsed() >= DEADLOCK) => {
                Stall::Deadlock
            }
            None => Stall::No,
        }
    }
}
