//! Times in which calls may have been missed: records were lost, or not everything was watched.

use serde::{Deserialize, Serialize};

use crate::job::event;

/// Gaps that are kept; what comes later makes the last one longer.
const MOST_GAPS: usize = 1000;

/// A time in which calls may have been missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineGap {
    /// Its beginning, nanoseconds since the session began.
    pub begin_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Records lost in it; 0: it was not watched, to keep a budget.
    pub lost: u64,
}

/// All of them, each with the index of its process; none: of all processes.
#[derive(Default)]
pub(super) struct Gaps {
    all: Vec<(Option<usize>, TimelineGap)>,
    paused_ns: Option<u64>,
}

impl Gaps {
    /// Something was not seen. What came late was.
    pub fn add_gap(&mut self, gap: &event::Gap) {
        match *gap {
            event::Gap::Lost { loss, .. } if !loss.hides_calls() => {}
            event::Gap::Lost { process, loss, .. } => {
                let lost = loss.records();
                self.add(Some(process), TimelineGap { begin_ns: loss.from_ns, end_ns: loss.to_ns, lost });
            }
            event::Gap::CallsPaused { time_ns } => self.paused_ns = Some(time_ns),
            event::Gap::CallsResumed { time_ns: end_ns } => {
                if let Some(begin_ns) = self.paused_ns.take() {
                    self.add(None, TimelineGap { begin_ns, end_ns, lost: 0 });
                }
            }
            event::Gap::Late { .. } | event::Gap::Paused | event::Gap::Resumed { .. } => {}
        }
    }

    fn add(&mut self, process: Option<usize>, gap: TimelineGap) {
        let is_full = self.all.len() >= MOST_GAPS;
        let mut same = self.all.iter_mut().rev().filter(|(of, _)| *of == process);
        match same.next().filter(|(_, last)| is_full || gap.begin_ns <= last.end_ns) {
            Some((_, last)) => {
                last.begin_ns = last.begin_ns.min(gap.begin_ns);
                last.end_ns = last.end_ns.max(gap.end_ns);
                last.lost = last.lost.saturating_add(gap.lost);
            }
            None if is_full => {}
            None => self.all.push((process, gap)),
        }
    }

    /// Those so far; a pause that has not ended goes on to `end_ns`.
    pub fn all(&self, end_ns: u64) -> Vec<(Option<usize>, TimelineGap)> {
        let open = self.paused_ns.map(|begin_ns| (None, TimelineGap { begin_ns, end_ns, lost: 0 }));
        self.all.iter().copied().chain(open).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::input::Loss;

    fn lost(process: usize, from_ns: u64, to_ns: u64, calls: u64) -> event::Gap {
        let loss = Loss { pid: 1, from_ns, to_ns, movements: 0, calls, state: 0 };
        event::Gap::Lost { process, is_rank: true, loss }
    }

    #[test]
    fn a_pause_lasts_until_watching_goes_on_or_the_session_ends() {
        let mut gaps = Gaps::default();
        gaps.add_gap(&event::Gap::CallsPaused { time_ns: 10 });
        gaps.add_gap(&event::Gap::CallsResumed { time_ns: 20 });
        gaps.add_gap(&event::Gap::CallsPaused { time_ns: 30 });
        let found: Vec<(u64, u64)> = gaps.all(40).iter().map(|(_, g)| (g.begin_ns, g.end_ns)).collect();
        assert_eq!(found, [(10, 20), (30, 40)]);
    }

    #[test]
    fn losses_one_behind_the_other_are_one_gap_of_their_process() {
        let mut gaps = Gaps::default();
        let mut lose = |process, from_ns, to_ns| gaps.add_gap(&lost(process, from_ns, to_ns, 3));
        lose(0, 10, 20);
        lose(1, 10, 20);
        lose(0, 20, 30);
        lose(0, 50, 60);
        let gap = |begin_ns, end_ns, lost| TimelineGap { begin_ns, end_ns, lost };
        let wanted = [(Some(0), gap(10, 30, 6)), (Some(1), gap(10, 20, 3)), (Some(0), gap(50, 60, 3))];
        assert_eq!(gaps.all(0), wanted);
    }

    #[test]
    fn beyond_a_limit_gaps_are_joined_and_no_loss_is_forgotten() {
        let mut gaps = Gaps::default();
        for n in 0..5000 {
            gaps.add_gap(&lost(0, 10 * n, 10 * n + 1, 1));
        }
        let all = gaps.all(0);
        assert_eq!(all.len(), MOST_GAPS);
        assert_eq!(all.iter().map(|(_, gap)| gap.lost).sum::<u64>(), 5000);
    }
}
