//! What watching costs, for people.

/// What watching cost the job since the last status.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct BudgetStatus {
    /// Largest part of the job's time that it may take.
    pub share: f64,
    /// What it took from the process that it took most from, by the calibrated cost of each hit.
    pub spent_share: f64,
    /// Part of the time in which movements were watched.
    pub watched_share: f64,
    /// They are not watched now.
    pub paused: bool,
    /// MPI calls are watched all the same.
    #[serde(default)]
    pub keeps_calls: bool,
    /// Probes that are out for longer.
    pub probes_off: usize,
    #[serde(skip)]
    sums: BudgetSums,
}

#[derive(Clone, Copy, Debug, Default)]
struct BudgetSums {
    elapsed_ns: u64,
    watched_ns: u64,
    spent_ns: f64,
}

impl BudgetStatus {
    /// Nothing spent yet.
    pub fn new(share: f64) -> Self {
        Self { share, ..Self::default() }
    }

    /// So much time has passed.
    pub fn add(&mut self, elapsed_ns: u64, spent_ns: f64, paused: bool) {
        self.sums.elapsed_ns += elapsed_ns;
        self.sums.watched_ns += if paused { 0 } else { elapsed_ns };
        self.sums.spent_ns += spent_ns;
    }

    /// The status up to now; sums begin anew.
    pub fn take(&mut self) -> Self {
        let BudgetSums { elapsed_ns, watched_ns, spent_ns } = std::mem::take(&mut self.sums);
        let elapsed_ns = elapsed_ns.max(1) as f64;
        self.spent_share = spent_ns / elapsed_ns;
        self.watched_share = watched_ns as f64 / elapsed_ns;
        self.clone()
    }
}
