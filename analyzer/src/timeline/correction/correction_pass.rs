//! One pass over the inputs of a session: the first learns, the second corrects.

use serde::Serialize;

use super::call_step::TimedCall;
use super::gather::{GatheredEvent, Gatherer};
use super::ledger::{HitLedger, HitSum};
use super::orders::{OrderAnalysis, ReceiveOrder};
use super::phases::{PhaseAnalysis, PhaseMark, PhaseTimes};
use super::solver::{SolvedCall, SolvedMoment, Solver};
use super::summary::{ComparedTime, FunctionTimes, RankTimes, TimesSummary};
use super::transfers::Transfers;
use super::waits::ClockSlackNs;
use crate::job::messages::{MessageEvent, Messages};
use crate::tape::MAX_NODES;
use crate::tape::costs::{HitKind, OwnTime, ProbeCosts, UnrecordedHits};
use crate::tape::input::{CodePlace, Input, Start};
use crate::tape::wire::RawRecord;

/// Where nobody knows how far clocks are apart, no comparison of them says anything.
const UNKNOWN_SLACK_NS: ClockSlackNs = 1e15;

/// What the first pass has learnt.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    costs: Vec<ProbeCosts>,
    unrecorded: Vec<UnrecordedHits>,
    transfers: Transfers,
    ranks: usize,
    slack_ns: ClockSlackNs,
    /// Only movements of data tell who sent some of the messages.
    pub asks_for_senders: bool,
}

impl Survey {
    /// By how much a hit of one rank may hold up another on the same CPU.
    fn sharing(&self) -> f64 {
        let cpus = self.costs.iter().map(|costs| costs.job_cpus).max().unwrap_or(0);
        if cpus == 0 { 1.0 } else { (self.ranks as f64 / f64::from(cpus)).ceil().max(1.0) }
    }
}

/// What limits the result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CorrectionLimits {
    /// What hits cost was not recorded: the bounds are those of any machine.
    pub assumed_prices: bool,
    /// What is known of the processor time that dmscope took from ranks.
    pub own_time: OwnTime,
    /// Calls that waited for something of which nothing is known.
    pub open_calls: u64,
    /// Calls that were not seen to return.
    pub calls_without_end: u64,
    /// Ranks of which not everything was seen.
    pub not_followed: Vec<u32>,
    /// Records that were lost.
    pub lost_records: u64,
    /// Not everything was watched all the time.
    pub paused: bool,
    /// Ranks with calls of several threads: that these wait for each other is not known.
    pub ranks_with_threads: Vec<u32>,
    /// So many ranks share each CPU.
    pub ranks_per_cpu: f64,
    /// How far the clocks of nodes may be apart, where there are several.
    pub clock_slack_ns: f64,
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// No call was seen.
    NoCalls,
    /// Ends of calls were not recorded.
    NoReturns,
    /// Watching cost a rank so much of its corrected time.
    Dilated {
        /// The rank.
        rank: u32,
        /// 1: as much as the time itself.
        share: f64,
    },
}

/// What there is to say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CorrectedTimes {
    /// From the first call of all ranks to the end of the last.
    pub total: ComparedTime,
    /// By rank.
    pub ranks: Vec<RankTimes>,
    /// By function.
    pub functions: Vec<FunctionTimes>,
    /// What watching cost, by kind of hit.
    pub hits: Vec<(HitKind, HitSum)>,
    /// How often dmscope ran in the place of a rank, and for how long.
    pub held_up: HitSum,
    /// What limits all this.
    pub limits: CorrectionLimits,
    /// Why it is not to be relied on at all.
    pub refused: Option<Refusal>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct CorrectionPass {
    ledger: HitLedger,
    gatherer: Gatherer,
    solver: Solver,
    summary: TimesSummary,
    survey: Survey,
    is_survey: bool,
    lost_records: u64,
    paused: bool,
    /// Calls that were worked out are kept for whoever asks.
    keeps_calls: bool,
    calls: Vec<SolvedCall>,
    orders: Option<OrderAnalysis>,
    phases: Option<PhaseAnalysis>,
}

impl CorrectionPass {
    /// The first pass.
    pub fn survey() -> Self {
        Self::with(Survey::default(), true)
    }

    /// The second pass.
    pub fn correct(survey: Survey) -> Self {
        Self::with(survey, false)
    }

    fn with(survey: Survey, is_survey: bool) -> Self {
        Self {
            ledger: HitLedger::new(&survey.costs, &survey.unrecorded, survey.sharing()),
            gatherer: Gatherer::default(),
            solver: Solver::new(&survey.transfers, survey.slack_ns),
            summary: TimesSummary::default(),
            survey,
            is_survey,
            lost_records: 0,
            paused: false,
            keeps_calls: false,
            calls: Vec::new(),
            orders: None,
            phases: None,
        }
    }

    /// Keeps calls for [`CorrectionPass::take_calls`].
    pub fn keep_calls(&mut self) {
        self.keeps_calls = true;
    }

    /// Looks at receives from whoever comes first as well, for [`CorrectionPass::take_orders`].
    pub fn follow_orders(&mut self) {
        self.solver.tell_begins();
        self.orders = Some(OrderAnalysis::new(&self.survey.transfers, self.survey.slack_ns));
    }

    /// Adds up times by phase as well, for [`CorrectionPass::take_phases`].
    pub fn divide(&mut self, mark: PhaseMark) {
        self.phases = Some(PhaseAnalysis::new(mark, self.survey.ranks));
    }

    /// Whether somebody asks where calls were made.
    pub fn wants_places(&self) -> bool {
        self.orders.is_some() || self.phases.is_some()
    }

    /// Times by phase; when all was told.
    pub fn take_phases(&mut self) -> Vec<PhaseTimes> {
        self.phases.as_mut().map(PhaseAnalysis::finish).unwrap_or_default()
    }

    /// Receives that could have got another message; when all was told.
    pub fn take_orders(&mut self) -> Vec<ReceiveOrder> {
        self.orders.as_mut().map(OrderAnalysis::finish).unwrap_or_default()
    }

    /// Calls that were worked out since the last time, of each thread in its order.
    pub fn take_calls(&mut self) -> Vec<SolvedCall> {
        std::mem::take(&mut self.calls)
    }

    /// Takes an input before the job does.
    pub fn input(&mut self, input: &Input) {
        match input {
            Input::Plan(plan) => self.ledger.plan(plan),
            Input::Record(raw) | Input::LateRecord(raw) => self.ledger.record(raw),
            Input::Coverage(coverage) => self.paused |= coverage.hides_calls(|_| false),
            Input::Loss(loss) => {
                self.lost_records = self.lost_records.saturating_add(loss.records());
            }
            Input::ProbeCosts(costs) if self.is_survey => {
                self.survey.costs.push(costs.as_ref().clone());
                self.ledger.price(&self.survey.costs);
            }
            Input::Unrecorded(hits) if self.is_survey => self.survey.unrecorded.push(*hits),
            _ => {}
        }
    }

    /// Takes a record before the job does.
    pub fn record(&mut self, raw: &RawRecord) {
        self.ledger.record(raw);
    }

    /// Takes what was learnt of calls and messages.
    /// `place`: of a call.
    pub fn event(&mut self, messages: &Messages, event: MessageEvent, place: Option<CodePlace>) {
        match self.gatherer.event(messages, &mut self.ledger, event) {
            Some(GatheredEvent::Matched(send, receive)) => self.solver.matched(send, receive),
            Some(GatheredEvent::Call(step)) => self.solver.call(TimedCall { place, ..*step }),
            None => return,
        }
        self.sum_up();
    }

    fn sum_up(&mut self) {
        for moment in self.solver.take() {
            if let Some(orders) = &mut self.orders {
                orders.moment(&moment);
            }
            if let SolvedMoment::Ends(call) = moment {
                self.summary.add(&call);
                if let Some(phases) = &mut self.phases {
                    phases.add(&call);
                }
                if self.keeps_calls {
                    self.calls.push(*call);
                }
            }
        }
    }

    /// All was told.
    pub fn finish(&mut self) {
        self.solver.finish();
        self.sum_up();
    }

    /// What was learnt; `start`: how the session began; `asks_for_senders`: see [`Survey`].
    pub fn into_survey(self, start: &Start, asks_for_senders: bool) -> Survey {
        let ranks = self.summary.ranks().len();
        Survey {
            transfers: self.solver.learnt,
            ranks,
            slack_ns: slack_ns(start),
            asks_for_senders,
            ..self.survey
        }
    }

    /// What there is to say. `most_share`: refused where watching cost more, as a part of a rank's corrected time.
    pub fn result(&self, messages: &Messages, most_share: f64) -> CorrectedTimes {
        let ranks = self.summary.ranks();
        let mut not_followed: Vec<u32> = messages.lost().collect();
        not_followed.sort_unstable();
        let cpus = self.survey.costs.iter().map(|costs| costs.job_cpus).max().unwrap_or(0);
        let limits = CorrectionLimits {
            own_time: own_time(&self.survey.costs),
            assumed_prices: self.ledger.prices(0).are_assumed,
            open_calls: self.summary.open_calls,
            // Those that ranks were in when the tape ended are among them.
            calls_without_end: self.summary.without_end + messages.open_calls().len() as u64,
            not_followed,
            lost_records: self.lost_records,
            paused: self.paused,
            ranks_with_threads: ranks.iter().filter(|rank| rank.threads > 1).map(|rank| rank.rank).collect(),
            ranks_per_cpu: if cpus == 0 { 0.0 } else { ranks.len() as f64 / f64::from(cpus) },
            clock_slack_ns: self.survey.slack_ns,
        };
        CorrectedTimes {
            total: self.summary.total(),
            functions: self.summary.functions(),
            hits: self.ledger.sums.iter().map(|(kind, sum)| (*kind, *sum)).collect(),
            held_up: self.ledger.held_up,
            refused: self.refusal(&ranks, most_share),
            limits,
            ranks,
        }
    }

    fn refusal(&self, ranks: &[RankTimes], most_share: f64) -> Option<Refusal> {
        let TimesSummary { calls, without_end, .. } = self.summary;
        if calls == 0 {
            return Some(Refusal::NoCalls);
        }
        if 2 * without_end > calls {
            return Some(Refusal::NoReturns);
        }
        let share = |rank: &RankTimes| {
            let own_ns = (rank.time.measured_ns as f64 - rank.cost.likely_ns).max(1.0);
            rank.cost.likely_ns / own_ns
        };
        let worst = ranks.iter().max_by(|one, other| share(one).total_cmp(&share(other)))?;
        (share(worst) > most_share).then(|| Refusal::Dilated { rank: worst.rank, share: share(worst) })
    }
}

/// Of all nodes: unknown if it is so of any.
fn own_time(costs: &[ProbeCosts]) -> OwnTime {
    let nodes = costs.iter().map(|costs| costs.node).max().map_or(0..0, |last| 0..last.saturating_add(1));
    let of_node = |node| {
        let own = costs.iter().filter(|costs| costs.node == node);
        own.map(|costs| costs.own_time).max().unwrap_or_default()
    };
    let all: Vec<OwnTime> = nodes.take(MAX_NODES).map(of_node).collect();
    if all.contains(&OwnTime::Unknown) { OwnTime::Unknown } else { all.into_iter().min().unwrap_or_default() }
}

/// How far the clocks of two nodes may be apart.
fn slack_ns(start: &Start) -> ClockSlackNs {
    if start.nodes.len() < 2 {
        return 0.0;
    }
    let errors: Option<Vec<u64>> = start.node_clock_errors_ns.iter().copied().collect();
    match errors.filter(|errors| errors.len() == start.nodes.len()) {
        Some(errors) => 2.0 * errors.into_iter().max().unwrap_or(0) as f64,
        None => UNKNOWN_SLACK_NS,
    }
}
