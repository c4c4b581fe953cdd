//! Ranks that died, and which of them did so first: the rest is mostly a consequence.

use crate::input::CodePlace;

/// Deaths that are kept: the first ones.
const MOST_DEATHS: usize = 1024;

/// The end of a rank that did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    pub rank: u32,
    pub pid: u32,
    pub time_ns: u64,
    /// As wait(2) gives it.
    pub status: u32,
    /// Where it was.
    pub place: Option<CodePlace>,
}

impl Death {
    /// The signal that ended it.
    pub fn signal(&self) -> Option<u32> {
        Some(self.status & 0x7f).filter(|signal| *signal != 0)
    }

    /// Launchers and people end ranks like this; it is no fault.
    fn was_asked_for(&self) -> bool {
        const HUP: u32 = 1;
        const INT: u32 = 2;
        const TERM: u32 = 15;
        matches!(self.signal(), Some(HUP | INT | TERM))
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct Deaths {
    all: Vec<Death>,
}

impl Deaths {
    /// A rank ended, well or not.
    pub fn note(&mut self, death: Death) {
        if death.status != 0 && self.all.len() < MOST_DEATHS {
            self.all.push(death);
        }
    }

    /// The first death, unless it was asked for, and those that came after it.
    pub fn origin(&self) -> Option<(&Death, &[Death])> {
        let (first, rest) = self.all.split_first()?;
        (!first.was_asked_for()).then_some((first, rest))
    }
}
