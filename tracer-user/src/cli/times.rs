//! `dmscope times`: when everything would have been without watching.

use std::collections::HashSet;
use std::path::PathBuf;

use analyzer::input::{Input, OwnTime};
use analyzer::messages::CallId;
use analyzer::pipeline::TimesPipeline;
use analyzer::text::counted;
use analyzer::timeline::correction::bounds::Bounds;
use analyzer::timeline::correction::orders::{OrderVerdict, ReceiveOrder, RivalMessage};
use analyzer::timeline::correction::phases::PhaseMark;
use analyzer::timeline::correction::summary::{FunctionTimes, RankTimes};
use analyzer::timeline::correction::{CorrectedTimes, CorrectionLimits, CorrectionPass, Refusal, Survey};
use analyzer::visible::visible;
use analyzer::wire::RawRecord;
use anyhow::{Result, bail};
use replay::races::Race;
use serde::Serialize;

use super::nodes::{TapeSummary, jobs_of, names_of, replay_job};
use super::output::{print, print_json};
use super::phases::{self, NamedPhase};
use super::place_names::PlaceLookup;
use super::recorded_tape::read_job;
use super::replay::Consumer;
use super::table::columns;
use super::tape_args::TimesArgs;
use super::time_cells::{milliseconds, time_cells};
use crate::session::Outcome;
use crate::session::wrapped::{RecordWishes, RecordedJob, Swap};

/// Form of the JSON output; it changes when a field changes its meaning.
const SCHEMA: u32 = 1;

/// Prints corrected times beside measured ones.
///
/// # Errors
/// A file is no tape, or nothing can be read of it; tapes of several jobs.
pub(super) fn times(args: &TimesArgs) -> Result<Outcome> {
    let jobs = jobs_of(&args.tapes)?;
    let [tapes] = jobs.as_slice() else {
        bail!("these tapes are of {} jobs: give those of one at a time", jobs.len());
    };
    let survey = survey(tapes, true)?;
    let mut second = Pass::new(TimesPipeline::correct(survey, args.calls, args.races));
    second.lists_calls = args.calls;
    second.names = PlaceLookup::new(names_of(tapes)?);
    if let Some(mark) = &args.phases {
        second.pipeline.divide(mark.clone().unwrap_or(PhaseMark::Collectives));
    }
    replay_job(tapes, &mut second)?;
    second.pipeline.finish();
    second.list_calls()?;
    let times = second.pipeline.result(args.most_cost);
    if args.races {
        return races(tapes, &mut second, &times, args.json);
    }
    let phases = second.named_phases();
    if args.json || args.calls {
        let mut all = serde_json::json!({ "schema": SCHEMA, "damaged_parts": second.damage, "times": times });
        if args.phases.is_some() {
            all["phases"] = phases::json(&phases);
        }
        print_json(&all)?;
    } else {
        print(&text(tapes, &times, &phases, second.damage))?;
    }
    Ok(if times.refused.is_some() { Outcome::Inconclusive } else { Outcome::Nothing })
}

/// What works out times without watching while the tapes are read once more, with its calls.
///
/// # Errors
/// A tape cannot be read.
pub(super) fn correction(tapes: &[TapeSummary]) -> Result<CorrectionPass> {
    let mut correction = CorrectionPass::correct(survey(tapes, false)?);
    correction.keep_calls();
    Ok(correction)
}

/// What the correction has to know before. Few jobs are worth a second reading, for senders that only movements of data tell.
///
/// # Errors
/// A tape cannot be read.
pub(super) fn survey(tapes: &[TapeSummary], tells_damage: bool) -> Result<Survey> {
    let pass = |links: bool, tells_damage: bool| -> Result<Survey> {
        let mut pass = Pass { tells_damage, ..Pass::new(TimesPipeline::survey(links)) };
        replay_job(tapes, &mut pass)?;
        Ok(pass.pipeline.into_survey())
    };
    let survey = pass(false, tells_damage)?;
    if survey.asks_for_senders { pass(true, false) } else { Ok(survey) }
}

/// Lists receives from whoever comes first that could have got another message.
fn races(tapes: &[TapeSummary], pass: &mut Pass, times: &CorrectedTimes, json: bool) -> Result<Outcome> {
    if let Some(refusal) = times.refused {
        match json {
            true => print_json(&serde_json::json!({ "schema": SCHEMA, "refused": refusal }))?,
            false => print(&refused(tapes, refusal))?,
        }
        return Ok(Outcome::Inconclusive);
    }
    let orders = pass.pipeline.take_orders();
    let pipeline = pass.pipeline.pipeline();
    let names = &mut pass.names;
    let mut place = |order: &ReceiveOrder| {
        order.place.map_or_else(String::new, |place| format!(" at {}", names.call_text(pipeline, place)))
    };
    if json {
        print_json(&serde_json::json!({
            "schema": SCHEMA,
            "receives": orders.len(),
            "kept": count_of(&orders, OrderVerdict::Kept),
            "changed": count_of(&orders, OrderVerdict::Changed),
            "undecided": count_of(&orders, OrderVerdict::Undecided),
        }))?;
        let ways = OtherWays::of(tapes).ok();
        for order in &orders {
            let swaps = order.rivals.iter().map(|rival| {
                ways.as_ref().and_then(|ways| ways.swap(order, rival)).map(|swap| swap.to_string())
            });
            let swaps: Vec<Option<String>> = swaps.collect();
            let line = serde_json::json!({
                "order": order, "verdict": order.verdict(), "at": place(order), "swaps": swaps
            });
            print_json(&line)?;
        }
    } else {
        print(&races_text(&orders, place, &OtherWays::of(tapes), &notes(&times.limits, 0)))?;
    }
    Ok(Outcome::Nothing)
}

/// How to go the other way at receives.
struct OtherWays {
    tape: PathBuf,
    job: RecordedJob,
    swaps: HashSet<Swap>,
}

impl OtherWays {
    /// Those of a job on one tape, or why there are none.
    fn of(tapes: &[TapeSummary]) -> Result<Self, String> {
        let [tape] = tapes else { return Err("Tapes of several nodes cannot be replayed.\n".to_owned()) };
        let wishes = RecordWishes { messages: true, order: false };
        let of_job = || {
            let job = read_job(&tape.path, wishes, &mut |_| {}).map_err(|error| format!("{error:#}"))?;
            let races = job.races()?.found;
            let of_race =
                |race: &Race| race.others.iter().map(|other| Swap::of(race, *other)).collect::<Vec<_>>();
            let swaps = races.iter().flat_map(of_race).collect();
            Ok(Self { tape: tape.path.clone(), job, swaps })
        };
        of_job().map_err(|why: String| {
            format!(
                "This tape cannot be replayed the other way ({}). To go the other way, record the job with dmscope run --replayable --record app.dmt -- COMMAND, \
                 or without probes with dmscope record --messages; dmscope races then names each race with what dmscope replay --swap takes.\n",
                visible(&why)
            )
        })
    }

    /// What `replay --swap` takes to have another message come first, if that can be.
    fn swap(&self, order: &ReceiveOrder, rival: &RivalMessage) -> Option<Swap> {
        let point = self.job.point(order.receive)?;
        let swap = Swap { point, number: rival.rank, is_request: false };
        self.swaps.contains(&swap).then_some(swap)
    }
}

fn races_text(
    orders: &[ReceiveOrder],
    mut place: impl FnMut(&ReceiveOrder) -> String,
    ways: &Result<OtherWays, String>,
    notes: &[String],
) -> String {
    let count = |verdict| count_of(orders, verdict);
    let mut text = String::new();
    let mut first = None;
    for order in orders.iter().filter(|order| order.verdict() != OrderVerdict::Kept) {
        let call = order.receive.call;
        text.push_str(&format!(
            "rank {} call {}  {}{} got rank {}: {}\n",
            call.rank,
            call.number,
            order.function,
            visible(&place(order)),
            order.got,
            said(order.verdict())
        ));
        for rival in order.rivals.iter().filter(|rival| rival.verdict != OrderVerdict::Kept) {
            let swap = ways.as_ref().ok().and_then(|ways| ways.swap(order, rival));
            first = first.or(swap);
            text.push_str(&format!(
                "    {}rank {} (its call {}): {}\n",
                swap.map_or_else(String::new, |swap| format!("{swap}  ")),
                rival.rank,
                rival.send.call.number,
                said(rival.verdict)
            ));
        }
    }
    text.push_str(&format!(
        "{} receives from whoever comes first could have got another message. Without watching: {} the same, {} another one, \
         {} undecided.\n",
        orders.len(),
        count(OrderVerdict::Kept),
        count(OrderVerdict::Changed),
        count(OrderVerdict::Undecided)
    ));
    match (ways, first) {
        (Ok(ways), Some(swap)) => text.push_str(&format!(
            "dmscope replay --swap {swap} {} -- COMMAND goes the other way\n",
            ways.tape.display()
        )),
        (Err(why), _) if count(OrderVerdict::Kept) < orders.len() => text.push_str(why),
        _ => {}
    }
    notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
    text
}

fn count_of(orders: &[ReceiveOrder], verdict: OrderVerdict) -> usize {
    orders.iter().filter(|order| order.verdict() == verdict).count()
}

fn said(verdict: OrderVerdict) -> &'static str {
    match verdict {
        OrderVerdict::Kept => "the same without watching",
        OrderVerdict::Undecided => "it cannot be told what would have come without watching",
        OrderVerdict::Changed => "another message would have come without watching",
    }
}

/// One pass over a tape.
struct Pass {
    pipeline: TimesPipeline,
    names: PlaceLookup,
    damage: u64,
    tells_damage: bool,
    lists_calls: bool,
}

/// A call, for programs. Corrected times are by the same clock.
#[derive(Serialize)]
struct CallTimesLine {
    #[serde(flatten)]
    id: CallId,
    function: &'static str,
    begin_ns: u64,
    begin_shift: Bounds,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_ns: Option<u64>,
    end_shift: Bounds,
    is_open: bool,
}

impl Pass {
    fn new(pipeline: TimesPipeline) -> Self {
        Self { pipeline, names: PlaceLookup::default(), damage: 0, tells_damage: false, lists_calls: false }
    }

    fn named_phases(&mut self) -> Vec<NamedPhase> {
        let phases = self.pipeline.take_phases();
        let pipeline = self.pipeline.pipeline();
        phases.into_iter().map(|times| NamedPhase::of(times, pipeline, &mut self.names)).collect()
    }

    fn list_calls(&mut self) -> Result<()> {
        if !self.lists_calls {
            return Ok(());
        }
        for call in self.pipeline.take_calls() {
            let line = CallTimesLine {
                id: call.step.id,
                function: call.step.name,
                begin_ns: call.begin.at_ns,
                begin_shift: call.begin.shift,
                end_ns: call.step.end_ns,
                end_shift: call.end.shift,
                is_open: call.is_open,
            };
            print_json(&serde_json::to_value(line)?)?;
        }
        Ok(())
    }
}

impl Consumer for Pass {
    fn push(&mut self, input: &Input) -> Result<()> {
        if let Input::Plan(plan) = input {
            self.names.know(plan);
        }
        self.pipeline.push(input);
        self.list_calls()
    }

    fn push_record(&mut self, record: &RawRecord) -> Result<()> {
        self.pipeline.push_record(record);
        self.list_calls()
    }

    fn damage(&mut self, message: &str) {
        self.damage += 1;
        if self.tells_damage {
            eprintln!("dmscope: {}", visible(message));
        }
    }
}

/// What there is to say beside a timeline.
pub(super) fn sentences(tapes: &[TapeSummary], times: &CorrectedTimes, damage: u64) -> Vec<String> {
    if let Some(refusal) = times.refused {
        return vec![format!("No times without watching: {}", refused(tapes, refusal).trim_end())];
    }
    let total = &times.total;
    let measured = duration(total.measured_ns as f64);
    let mut sentences = vec![format!("Measured {measured}, without watching {}.", within(total.corrected))];
    sentences.extend(notes(&times.limits, damage));
    sentences
}

fn text(tapes: &[TapeSummary], times: &CorrectedTimes, phases: &[NamedPhase], damage: u64) -> String {
    let mut text = String::new();
    if let Some(refusal) = times.refused {
        text.push_str(&refused(tapes, refusal));
        return text;
    }
    let total = &times.total;
    text.push_str(&format!(
        "{}: measured {}, without watching {}\n\n",
        tapes.iter().map(|tape| tape.path.display().to_string()).collect::<Vec<_>>().join(", "),
        duration(total.measured_ns as f64),
        within(total.corrected)
    ));
    text.push_str(&columns(
        &[
            "RANK",
            "CALLS",
            "MEASURED ms",
            "WITHOUT ms",
            "FROM",
            "TO",
            "IN MPI ms",
            "WITHOUT ms",
            "COST ms",
            "COST %",
        ],
        &times.ranks.iter().map(rank_row).collect::<Vec<_>>(),
    ));
    text.push('\n');
    text.push_str(&columns(
        &["FUNCTION", "CALLS", "MEASURED ms", "WITHOUT ms", "FROM", "TO", "COST ms"],
        &times.functions.iter().map(function_row).collect::<Vec<_>>(),
    ));
    text.push('\n');
    if !phases.is_empty() {
        text.push_str(&phases::text(phases));
        text.push('\n');
    }
    let hits = times.hits.iter().map(|(kind, sum)| {
        let name = serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(str::to_owned));
        let mut row = vec![name.unwrap_or_default().replace('_', " "), sum.hits.to_string()];
        row.extend([sum.cost.likely_ns, sum.cost.least_ns, sum.cost.most_ns].map(milliseconds));
        row
    });
    let mut hits: Vec<Vec<String>> = hits.collect();
    if times.limits.own_time == OwnTime::Recorded {
        let mut row = vec!["held up by dmscope itself".to_owned(), times.held_up.hits.to_string()];
        let cost = times.held_up.cost;
        row.extend([cost.likely_ns, cost.least_ns, cost.most_ns].map(milliseconds));
        hits.push(row);
    }
    text.push_str(&columns(&["HITS", "NUMBER", "COST ms", "FROM", "TO"], &hits));
    let notes = notes(&times.limits, damage);
    if !notes.is_empty() {
        text.push('\n');
        notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
    }
    text
}

pub(super) fn refused(tapes: &[TapeSummary], refusal: Refusal) -> String {
    let tape = tapes.first().map_or_else(String::new, |tape| tape.path.display().to_string());
    match refusal {
        Refusal::NoCalls => format!(
            "{tape}: no MPI calls of ranks are on the tape: there is nothing to correct. Record from the start of the job: \
             dmscope run --budget none --returns all --record app.dmt -- mpirun …\n"
        ),
        Refusal::NoReturns => format!(
            "{tape}: ends of calls and messages were not recorded, and without them it is not known who waited for whom. Record \
             with --returns all: dmscope run --budget none --returns all --record app.dmt -- mpirun …\n"
        ),
        Refusal::Dilated { rank, share } => format!(
            "{tape}: watching cost rank {rank} {:.0}% of its own time. What is left when so much is taken away says nothing. Record \
             again so that watching costs less: without --library, with a larger --alloc-size, with a spare core for dmscope. Or \
             accept more with --most-cost.\n",
            100.0 * share
        ),
    }
}

fn rank_row(rank: &RankTimes) -> Vec<String> {
    let mut row = vec![rank.rank.to_string(), rank.calls.to_string()];
    row.extend(time_cells(&rank.time));
    row.push(milliseconds(rank.in_calls.measured_ns as f64));
    row.push(milliseconds(rank.in_calls.corrected.likely_ns));
    row.push(milliseconds(rank.cost.likely_ns));
    let share = rank.cost.likely_ns / rank.time.corrected.likely_ns.max(1.0);
    row.push(format!("{:.1}", 100.0 * share));
    row
}

fn function_row(function: &FunctionTimes) -> Vec<String> {
    let mut row = match function.function {
        Some(name) => vec![name.to_owned(), function.calls.to_string()],
        // That is no call.
        None => vec!["outside of MPI".to_owned(), String::new()],
    };
    row.extend(time_cells(&function.time));
    row.push(milliseconds(function.cost.likely_ns));
    row
}

fn duration(ns: f64) -> String {
    format!("{:.6} s", ns / 1e9)
}

fn within(bounds: Bounds) -> String {
    let [likely, least, most] =
        [bounds.likely_ns, bounds.least_ns, bounds.most_ns].map(|ns| format!("{:.6}", ns / 1e9));
    format!("{likely} s ({least} to {most} s)")
}

/// What limits the result, in words.
fn notes(limits: &CorrectionLimits, damage: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if limits.assumed_prices {
        notes.push(
            "What hits cost was not recorded (an older tape): the bounds are those of any machine."
                .to_owned(),
        );
    }
    if limits.own_time == OwnTime::Unknown {
        notes.push(
            "What processor time dmscope itself took from ranks was not recorded (an older tape, one with a budget, or one that was cut): \
             where it had no core of its own, corrected times are too long by that, and the bounds do not hold it."
                .to_owned(),
        );
    }
    if damage > 0 {
        notes.push("Parts of the tape are missing: what was in them is in no number.".to_owned());
    }
    if limits.lost_records > 0 {
        notes
            .push(format!("{} lost: what happened there is not known.", were(limits.lost_records, "record")));
    }
    if limits.paused {
        notes.push(
            "Not everything was watched all the time (--budget): who waited for whom in the pauses is not known.".to_owned(),
        );
    }
    if !limits.not_followed.is_empty() {
        notes.push(format!(
            "What these ranks received is not known from a gap on, or since they were not watched from MPI_Init on: {}.",
            list(&limits.not_followed)
        ));
    }
    if limits.open_calls > 0 {
        notes.push(format!(
            "{} waited for something that is not recorded (windows, probes, gaps): for anybody, in the bounds.",
            counted(limits.open_calls as usize, "call")
        ));
    }
    if limits.calls_without_end > 0 {
        notes.push(format!("{} not seen to return.", were(limits.calls_without_end, "call")));
    }
    if !limits.ranks_with_threads.is_empty() {
        notes.push(format!(
            "Threads of one rank wait for each other unseen: ranks {}.",
            list(&limits.ranks_with_threads)
        ));
    }
    if limits.ranks_per_cpu > 1.0 {
        notes.push(format!(
            "{:.1} ranks share each CPU: a hit of one holds up others, which is in the bounds.",
            limits.ranks_per_cpu
        ));
    }
    if limits.clock_slack_ns > 0.0 {
        notes.push(
            "Clocks of several nodes: where they cannot tell who waited, both is in the bounds.".to_owned(),
        );
    }
    notes
}

fn list(ranks: &[u32]) -> String {
    ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// `1 call was`, `12 calls were`.
fn were(count: u64, what: &str) -> String {
    format!("{} {}", counted(count as usize, what), if count == 1 { "was" } else { "were" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_tell_one_and_many_as_people_do() {
        let told = |count| {
            let limits = CorrectionLimits {
                own_time: OwnTime::Apart,
                lost_records: count,
                open_calls: count,
                calls_without_end: count,
                ..CorrectionLimits::default()
            };
            notes(&limits, 0).join(" ")
        };
        let one = told(1);
        for begin in ["1 record was lost:", "1 call waited for", "1 call was not seen"] {
            assert!(one.contains(begin), "{one}");
        }
        let many = told(2);
        for begin in ["2 records were lost:", "2 calls waited for", "2 calls were not seen"] {
            assert!(many.contains(begin), "{many}");
        }
    }

    #[test]
    fn what_is_outside_of_mpi_has_no_calls() {
        let of = |function, calls| FunctionTimes { function, calls, ..FunctionTimes::default() };
        assert_eq!(function_row(&of(None, 0))[..2], ["outside of MPI", ""]);
        assert_eq!(function_row(&of(Some("MPI_Recv"), 3))[..2], ["MPI_Recv", "3"]);
    }
}
