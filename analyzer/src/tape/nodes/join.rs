//! Inputs of several sessions, one on each node of a job, as those of one session.
//!
//! Times become those of the first node: what its clock would have shown, as the wall clocks of the nodes say at the start
//! of each tape. They may differ by some milliseconds. That what was sent comes before it is received is known without them.

use super::clocks::ahead_ns;
use super::merge::{Following, Merge};
use super::numbers::MAX_NODES;
use crate::tape::input::{Input, Start};

/// See the [module](self).
#[derive(Debug)]
pub struct Join {
    start: Start,
    merge: Merge,
}

impl Join {
    /// Of sessions that began so, one on each node; `None` for none, or too many.
    pub fn new(starts: &[Start]) -> Option<Self> {
        let first = starts.first().filter(|_| starts.len() <= MAX_NODES)?;
        let mut merge = Merge::default();
        for (number, start) in starts.iter().enumerate() {
            merge.begin(number, ahead_ns(first, start));
        }
        Some(Self { start: joined_start(first, starts.iter()), merge })
    }

    /// Gives all inputs to `take`, in order. `read` gives the next input of a node; none: there are no more.
    ///
    /// # Errors
    /// What `read` and `take` say.
    pub fn run<E>(
        mut self,
        mut read: impl FnMut(usize) -> Result<Option<Input>, E>,
        mut take: impl FnMut(&Input) -> Result<(), E>,
    ) -> Result<(), E> {
        take(&Input::Start(Box::new(self.start)))?;
        let merge = &mut self.merge;
        loop {
            while let Some(input) = merge.next() {
                take(&input)?;
            }
            let Some(node) = merge.awaited() else { break };
            match read(node)? {
                Some(input) => {
                    if let Some(input) = merge.renumbered(node, input) {
                        merge.push(node, input);
                    }
                }
                None => merge.follow(node, Following::Over),
            }
        }
        merge.finish();
        while let Some(input) = merge.next() {
            take(&input)?;
        }
        Ok(())
    }
}

/// The beginning of the sessions of all nodes, the first of them first.
pub(super) fn joined_start<'a>(first: &Start, starts: impl Iterator<Item = &'a Start> + Clone) -> Start {
    Start {
        host: starts.clone().map(|start| start.host.as_str()).collect::<Vec<_>>().join(", "),
        nodes: starts.clone().map(|start| start.host.clone()).collect(),
        node_clock_errors_ns: starts.clone().map(|start| start.wall_clock_error_ns).collect(),
        launched: starts.clone().all(|start| start.launched),
        ..first.clone()
    }
}
