//! Processes that came later or have loaded something: they are to record by themselves what the others do.

use std::collections::BTreeSet;

use super::kernel::Kernel;
use super::planner::Planned;
use super::sink::Sink;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct LateSlots {
    /// What these copy and call through slots may go unseen.
    processes: BTreeSet<u32>,
    is_told: bool,
}

impl LateSlots {
    /// These have begun or have loaded something.
    pub fn look_at<'p>(&mut self, pids: impl IntoIterator<Item = &'p u32>) {
        self.processes.extend(pids);
    }

    /// Calls leave these files, which were loaded later: those of processes that map them go unseen until their slots are used as
    /// well.
    pub fn add_files(&mut self, planned: &mut Planned, kernel: &mut dyn Kernel) {
        let slots = std::mem::take(&mut planned.slots);
        let points = slots.iter().filter_map(|slots| planned.attach.get(&slots.file));
        self.processes.extend(points.flat_map(|point| &point.pids));
        if !slots.is_empty() {
            kernel.add_slots(slots);
        }
    }

    /// Has them record by themselves; gives those of which something was not seen until now.
    pub fn use_them(
        &mut self,
        kernel: &mut dyn Kernel,
        is_there: &dyn Fn(u32) -> bool,
        sink: &mut dyn Sink,
    ) -> Vec<u32> {
        let mut missed = Vec::new();
        for pid in std::mem::take(&mut self.processes) {
            match kernel.use_slots_late(pid) {
                Ok(false) => {}
                Ok(true) => missed.push(pid),
                Err(_) if !is_there(pid) => {}
                Err(why) => {
                    missed.push(pid);
                    // What is being loaded is not bound yet.
                    self.processes.insert(pid);
                    if !std::mem::replace(&mut self.is_told, true) {
                        let what = "some of what it copies and calls is not seen, which it began or loaded after fast probes were put in";
                        sink.notice(&format!("process {pid}: {what}: {why}"));
                    }
                }
            }
        }
        missed
    }
}
