//! What each kind of hit costs here, part by part, as a distribution: before the time that its record says, between two
//! records, and after the last. For times without them.
//!
//! As in [`super::calibrate`], hits of functions of our own, between which the thread works on data of its own. How much is
//! varied: what a hit costs depends on what the job leaves of it in the caches.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::os::fd::AsFd;

use analyzer::input::{HitKind, HitPrice, ProgramRuns, Quantiles};
use analyzer::plan::{Plan, Probe, ProbeClass, Read, ReadCount, Results};
use analyzer::wire::FileId;
use libbpf_rs::Program;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::skel::Skel;

use super::calibrate::{FIRST_PROBE, SLOT, TimedFunction, own_probe};
use super::collector::reader::RingReader;
use super::load::KernelError;
use super::tracer::Tracer;
use super::types::{ProcessKey, Scope, Target};
use crate::host::clock::monotonic_ns;
use crate::host::files::open_path;

/// Data that is worked on between two hits, and how many hits are measured with it: next to nothing, more than fits into the
/// first cache of a core, more than fits into the second.
const STATES: [(usize, usize); 3] = [(4 << 10, 120), (256 << 10, 120), (4 << 20, 40)];
const LINE_BYTES: usize = 64;
/// What a status takes.
const STATUS_BYTES: u8 = 24;

#[unsafe(naked)]
extern "C" fn priced_copy(_: u64, _: u64, _: u64) -> u64 {
    core::arch::naked_asm!("push rbp", "mov rax, rdi", "pop rbp", "ret", "nop", "nop", "nop", "nop")
}

#[unsafe(naked)]
extern "C" fn priced_call(_: u64, _: u64, _: u64) -> u64 {
    core::arch::naked_asm!("push rbp", "mov rax, rdi", "pop rbp", "ret", "int3")
}

#[unsafe(naked)]
extern "C" fn priced_results(_: u64, _: u64, _: u64) -> u64 {
    core::arch::naked_asm!("push rbp", "xor eax, eax", "pop rbp", "ret")
}

#[unsafe(naked)]
extern "C" fn priced_values(_: u64, _: u64, _: u64) -> u64 {
    core::arch::naked_asm!("push rbp", "xor eax, eax", "pop rbp", "ret", "nop")
}

#[unsafe(naked)]
extern "C" fn priced_refusal(_: u64, _: u64, _: u64) -> u64 {
    core::arch::naked_asm!("push rbp", "xor eax, eax", "pop rbp", "ret", "nop", "nop")
}

#[unsafe(naked)]
extern "C" fn priced_allocation(_: u64, _: u64, _: u64) -> u64 {
    core::arch::naked_asm!("push rbp", "mov rax, rdi", "pop rbp", "ret", "int3", "int3")
}

/// A function of our own and what watches it.
struct PricedPlace {
    class: ProbeClass,
    function: TimedFunction,
    results: Option<Results>,
}

/// A hit of one of them: its place and its first two arguments.
struct PricedHit {
    kind: HitKind,
    place: usize,
    arguments: [u64; 2],
}

fn places() -> Vec<PricedPlace> {
    let status = Read { argument: 1, at_return: true, element_bytes: STATUS_BYTES, count: ReadCount::One };
    let values = Results { reads: vec![status], ..Results::default() };
    let refusal = Results { answer: Some(1), ..Results::default() };
    let place = |class, function, results| PricedPlace { class, function, results };
    vec![
        place(ProbeClass::Copy, priced_copy as TimedFunction, None),
        place(ProbeClass::Call, priced_call, None),
        place(ProbeClass::CallResults, priced_results, Some(Results::default())),
        place(ProbeClass::CallResults, priced_values, Some(values)),
        place(ProbeClass::CallResults, priced_refusal, Some(refusal)),
        place(ProbeClass::Alloc, priced_allocation, None),
    ]
}

impl Tracer {
    /// What hits cost at this moment; nothing where they cannot be measured.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn hit_prices(&mut self) -> Result<Vec<HitPrice>, KernelError> {
        let places = places();
        let probe = |(place, id): (&PricedPlace, u32)| {
            let probe = own_probe(place.class, place.function, id)?;
            Some(Probe { results: place.results.clone(), ..probe })
        };
        let probes: Option<Vec<Probe>> = places.iter().zip(FIRST_PROBE..).map(probe).collect();
        let own = std::process::id();
        let file = open_path("/proc/self/exe".as_ref());
        let started = crate::host::processes::start_ticks(own);
        let (Some(probes), Ok((_, program)), Ok(start_ticks)) = (probes, file, started) else {
            return Ok(Vec::new());
        };
        let plan = Plan { probes, ..Plan::default() };
        let target =
            Target::as_it_is(program, plan.probes.iter().map(|probe| probe.offset_bytes), Scope::EachReached);
        let plain = STATES.map(|state| plain_ns(&places, state));
        self.reach(own);
        let attached = self.attach(&plan, &BTreeMap::from([(FileId::default(), target)]));
        let prices = match attached.failed.is_empty() {
            true => self.priced(ProcessKey { pid: own, start_ticks }, &places, plain),
            false => Ok(Vec::new()),
        };
        self.unwatch(own, None);
        self.detach(&plan.probes.iter().map(|probe| probe.id).collect());
        self.leave(own);
        self.targets.remove(&FileId::default());
        self.probes.retain(|id, _| *id < FIRST_PROBE);
        self.drop_ring(SLOT);
        prices
    }

    /// The kernel's accounts of our programs, where it keeps them (`sysctl kernel.bpf_stats_enabled=1`).
    pub fn program_runs(&self) -> Vec<ProgramRuns> {
        let enabled = std::fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").unwrap_or_default();
        if enabled.trim() != "1" {
            return Vec::new();
        }
        let ids: BTreeSet<u32> = self
            .skel
            .object()
            .progs()
            .filter_map(|program| Program::id_from_fd(program.as_fd()).ok())
            .collect();
        let ours = ProgInfoIter::default().filter(|program| ids.contains(&program.id));
        ours.map(|program| ProgramRuns {
            program: program.name.to_string_lossy().into_owned(),
            runs: program.run_cnt,
            run_ns: program.run_time_ns,
        })
        .filter(|program| program.runs > 0)
        .collect()
    }

    fn priced(
        &mut self,
        own: ProcessKey,
        places: &[PricedPlace],
        plain_ns: [u32; 3],
    ) -> Result<Vec<HitPrice>, KernelError> {
        let ring = RingReader::new(self.make_ring(SLOT)?)
            .map_err(|source| KernelError::Refused { what: "reading a ring".into(), source })?;
        self.watch(own, SLOT)?;
        self.tell_own_code(own.pid, &[])?;
        let large = self.settings.alloc_min_bytes.max(1);
        let answers = [0_u64; STATUS_BYTES as usize / 8];
        let pointer = &raw const answers as u64;
        let hit = |kind, place, arguments| PricedHit { kind, place, arguments };
        let hits = [
            hit(HitKind::Copy, 0, [1, 0]),
            hit(HitKind::Call, 1, [1, 0]),
            hit(HitKind::CallResults, 2, [1, 0]),
            hit(HitKind::CallValues, 3, [1, pointer]),
            hit(HitKind::Refused, 4, [1, pointer]),
            hit(HitKind::Alloc, 5, [large, 0]),
            // Small blocks are nobody's own.
            hit(HitKind::Declined, 5, [0, 0]),
        ];
        let mut ring = ring;
        let mut prices = Vec::new();
        for (state, plain_ns) in STATES.into_iter().zip(plain_ns) {
            for hit in &hits {
                let times = timed(places[hit.place].function, hit.arguments, state);
                let records = ring.take(Vec::new).0.unwrap_or_default();
                let records = records.iter().map(analyzer::wire::RawRecord::time_ns).collect();
                prices.push(price(hit.kind, state.0, &times, records, plain_ns));
            }
        }
        Ok(prices)
    }
}

/// Runs into a function again and again; gives back when each time began and ended, CLOCK_MONOTONIC.
fn timed(
    function: TimedFunction,
    [first, second]: [u64; 2],
    (between_bytes, hits): (usize, usize),
) -> Vec<[u64; 2]> {
    let mut data = vec![0_u8; between_bytes];
    let once = || {
        data.iter_mut().step_by(LINE_BYTES).for_each(|byte| *byte = byte.wrapping_add(1));
        black_box(&data);
        let begin_ns = monotonic_ns();
        black_box(function(black_box(first), black_box(second), 0));
        [begin_ns, monotonic_ns()]
    };
    std::iter::repeat_with(once).take(hits).collect()
}

/// What it takes without a probe: looking at the clock twice.
fn plain_ns(places: &[PricedPlace], state: (usize, usize)) -> u32 {
    let times = timed(places[0].function, [1, 0], state);
    Quantiles::of(times.iter().map(|[begin_ns, end_ns]| (end_ns - begin_ns) as u32).collect()).p50
}

/// `records_ns`: times of all records that the hits left, in order.
fn price(
    kind: HitKind,
    between_bytes: usize,
    hits_ns: &[[u64; 2]],
    records_ns: Vec<u64>,
    plain_ns: u32,
) -> HitPrice {
    let mut records_ns = records_ns.into_iter().peekable();
    let (mut before, mut inside, mut after) = (Vec::new(), Vec::new(), Vec::new());
    let part = |from_ns: u64, to_ns: u64, plain_ns: u32| {
        u32::try_from(to_ns.saturating_sub(from_ns)).unwrap_or(u32::MAX).saturating_sub(plain_ns)
    };
    for [begin_ns, end_ns] in hits_ns {
        while records_ns.next_if(|time_ns| time_ns < begin_ns).is_some() {}
        let own: Vec<u64> = std::iter::from_fn(|| records_ns.next_if(|time_ns| time_ns <= end_ns)).collect();
        match (own.first(), own.last()) {
            (Some(first), Some(last)) => {
                before.push(part(*begin_ns, *first, plain_ns / 2));
                inside.push(part(*first, *last, 0));
                after.push(part(*last, *end_ns, plain_ns / 2));
            }
            _ => after.push(part(*begin_ns, *end_ns, plain_ns)),
        }
    }
    HitPrice {
        kind,
        between_bytes: between_bytes as u32,
        hits: after.len() as u32,
        before: Quantiles::of(before),
        inside: Quantiles::of(inside),
        after: Quantiles::of(after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_divided_by_the_times_of_its_records() {
        let hits = [[1000, 2000], [3000, 4000]];
        let records = vec![900, 1600, 1800, 3600, 3800, 4100];
        let price = price(HitKind::CallResults, 64, &hits, records, 40);
        let all = |ns| Quantiles { p5: ns, p25: ns, p50: ns, p75: ns, p95: ns };
        assert_eq!((price.before, price.inside, price.after), (all(580), all(200), all(180)));
    }

    #[test]
    fn a_hit_without_a_record_is_whole() {
        let price = price(HitKind::Declined, 64, &[[1000, 1700]], Vec::new(), 50);
        assert_eq!((price.before, price.after.p50, price.hits), (Quantiles::default(), 650, 1));
    }
}
