//! Jobs that can be taken for ones that hang, and do not.

/// A job with no fault that can be taken for one with a fault.
#[derive(Clone, Copy, Debug)]
pub struct RightJob {
    /// Name of the program.
    pub job: &'static str,
    /// Arguments of the program.
    pub args: &'static [&'static str],
    /// Number of ranks it is run with.
    pub ranks: u32,
    /// Who keeps one of its ranks from going on for a while.
    pub held_by: HeldBy,
}

/// Who keeps a rank from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// Nobody: what makes it slow is in the job itself.
    Nobody,
    /// A signal stops it; another lets it go on.
    Signal,
    /// A debugger attaches to it, looks around and lets go.
    Debugger,
}

const fn slow(args: &'static [&'static str], ranks: u32, held_by: HeldBy) -> RightJob {
    RightJob { job: "slow", args, ranks, held_by }
}

/// Jobs that are slow, not faulty. Of those that are held, the slow rank of the job itself computes for no time.
pub const SLOW_BUT_RIGHT: &[RightJob] = &[
    slow(&["--compute", "3"], 3, HeldBy::Nobody),
    slow(&["--compute", "3", "--in-collective"], 3, HeldBy::Nobody),
    slow(&["--sleep", "3"], 3, HeldBy::Nobody),
    slow(&["--sleep", "3", "--in-collective"], 3, HeldBy::Nobody),
    slow(&["--uneven", "0.05", "--iterations", "40"], 3, HeldBy::Nobody),
    // More ranks than this machine and most others have cores to spare.
    slow(&["--compute", "3"], 8, HeldBy::Nobody),
    slow(&["--uneven", "0.02", "--iterations", "20"], 8, HeldBy::Nobody),
    slow(&["--pause-us", "1000"], 3, HeldBy::Signal),
    slow(&["--pause-us", "1000"], 8, HeldBy::Signal),
    slow(&["--pause-us", "1000"], 3, HeldBy::Debugger),
];

/// The same, for so long that nobody would wait for them in a usual run.
pub const VERY_SLOW_BUT_RIGHT: &[RightJob] = &[
    slow(&["--compute", "60"], 3, HeldBy::Nobody),
    slow(&["--compute", "60", "--in-collective"], 3, HeldBy::Nobody),
];
