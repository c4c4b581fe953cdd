//! What processes outside the job pay: how often they run into probes in files that they share with it.

use analyzer::input::StrangerCost;

use super::host::Host;
use super::kernel::Kernel;
use super::planner::Planned;
use crate::kernel::StrangerHits;
use crate::plan::attach::StrangerCount;

/// See the [module](self).
pub(super) struct StrangerAccount {
    /// What one hit costs.
    price_ns: f64,
    /// Who they are: of the file that most of them run.
    processes: StrangerCount,
    /// Hits until then are not theirs.
    before: StrangerHits,
    begin_ns: u64,
}

impl StrangerAccount {
    /// Nothing is attached yet.
    pub(super) fn new(price_ns: f64) -> Self {
        Self { price_ns, processes: StrangerCount::default(), before: StrangerHits::new(), begin_ns: 0 }
    }

    /// Probes are about to be attached. Of what is loaded while the job runs, others that run it may be of the job.
    pub(super) fn know(&mut self, planned: &Planned) {
        let probed =
            planned.attach.iter().filter(|(id, _)| planned.plan.probes.iter().any(|p| p.file == **id));
        for (_, point) in probed.filter(|_| !planned.is_late) {
            self.processes.all = self.processes.all.max(point.strangers.all);
            self.processes.of_other_users = self.processes.of_other_users.max(point.strangers.of_other_users);
        }
    }

    /// All of the job is watched from now on: who hits a probe unwatched is a stranger.
    pub(super) fn begin(&mut self, kernel: &dyn Kernel, host: &dyn Host) {
        self.before = kernel.stranger_hits();
        self.begin_ns = host.now_ns();
    }

    /// Their hits so far.
    pub(super) fn hits(&self, kernel: &dyn Kernel) -> u64 {
        self.new_hits(kernel).values().sum()
    }

    fn new_hits(&self, kernel: &dyn Kernel) -> StrangerHits {
        let since = |(class, hits): (_, u64)| (class, hits - self.before.get(&class).copied().unwrap_or(0));
        kernel.stranger_hits().into_iter().map(since).filter(|(_, hits)| *hits > 0).collect()
    }

    /// What they have paid so far.
    pub(super) fn cost(&self, kernel: &dyn Kernel, host: &dyn Host) -> StrangerCost {
        let hits = self.new_hits(kernel);
        StrangerCost {
            processes: self.processes.all as u64,
            of_other_users: self.processes.of_other_users as u64,
            counted_ns: host.now_ns().saturating_sub(self.begin_ns),
            cost_ns: (hits.values().sum::<u64>() as f64 * self.price_ns) as u64,
            hits,
        }
    }
}
