//! What the clocks of nodes show at the same time.

use crate::tape::input::Start;

/// What must be added to times of one node to have those of another: their wall clocks show the same.
pub(super) fn ahead_ns(of: &Start, node: &Start) -> i64 {
    let began = |start: &Start| i128::from(start.wall_clock_ns()) - i128::from(start.time_ns);
    let ahead = (began(node) - began(of)).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
    ahead as i64
}
