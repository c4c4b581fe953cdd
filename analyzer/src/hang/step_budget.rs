//! How much one look at a hang may cost, whatever a job or a tape says that its ranks wait for.

use std::cell::Cell;

/// Steps of one evaluation: a second or so. What jobs wait for takes some steps a rank; what would take the square of the
/// ranks, or of the requests of a call, is cut off here.
const MOST_STEPS: u64 = 1 << 23;

/// There is more to follow than there is time for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Steps that are left. Once there are none there never are: who stops early need not tell.
#[derive(Debug)]
pub(crate) struct StepBudget {
    left: Cell<u64>,
    most: u64,
}

impl Default for StepBudget {
    fn default() -> Self {
        Self::new(MOST_STEPS)
    }
}

impl StepBudget {
    pub fn new(steps: u64) -> Self {
        Self { left: Cell::new(steps), most: steps }
    }

    /// Takes steps before they are done.
    pub fn spend(&self, steps: usize) -> Result<(), TooLarge> {
        let left = self.left.get().saturating_sub(steps as u64);
        self.left.set(left);
        self.check()
    }

    pub fn check(&self) -> Result<(), TooLarge> {
        if self.left.get() == 0 { Err(TooLarge) } else { Ok(()) }
    }

    /// Steps so far.
    #[cfg(test)]
    pub fn spent(&self) -> u64 {
        self.most - self.left.get()
    }

    /// Steps that an evaluation may take.
    pub fn most(&self) -> u64 {
        self.most
    }
}
