//! What a hit costs here, of a watched process and of another: our own programs on a function of our own, hit as a job does that works on data of its own
//! between two hits. In a loop that does nothing else a hit costs a third less, because all that it needs is in the cache.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use analyzer::plan::{Plan, Probe, ProbeClass};
use analyzer::wire::FileId;

use super::load::KernelError;
use super::tracer::Tracer;
use super::types::{MAX_SLOTS, ProcessKey, Scope, Target};
use crate::budget::HitCosts;
use crate::host::files::open_path;

/// Hits of one measurement; of several the least counts, since whatever else runs only adds.
const HITS: u32 = 40;
const MEASUREMENTS: u32 = 9;
/// Data that is worked on between two hits: more than fits into the first cache of a core.
const BETWEEN_BYTES: usize = 256 << 10;
const LINE_BYTES: usize = 64;
/// No rank gets this one.
pub(super) const SLOT: u32 = MAX_SLOTS - 1;
/// Ids that no plan has.
pub(super) const FIRST_PROBE: u32 = 1 << 24;

/// Begins like most functions, with a `push`; returns its first argument, as an allocator returns a block.
#[unsafe(naked)]
extern "C" fn place_of_copies(_: u64, _: u64, _: u64) -> u64 {
    core::arch::naked_asm!("push rbp", "mov rax, rdi", "pop rbp", "ret")
}

#[unsafe(naked)]
extern "C" fn place_of_calls(_: u64, _: u64, _: u64) -> u64 {
    core::arch::naked_asm!("push rbp", "mov rax, rdi", "pop rbp", "ret", "nop")
}

#[unsafe(naked)]
extern "C" fn place_of_allocations(_: u64, _: u64, _: u64) -> u64 {
    core::arch::naked_asm!("push rbp", "mov rax, rdi", "pop rbp", "ret", "nop", "nop")
}

pub(super) type TimedFunction = extern "C" fn(u64, u64, u64) -> u64;

const PLACES: [(ProbeClass, TimedFunction); 3] = [
    (ProbeClass::Copy, place_of_copies),
    (ProbeClass::Call, place_of_calls),
    (ProbeClass::Alloc, place_of_allocations),
];

impl Tracer {
    /// What a hit costs on this machine.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn calibrate(&mut self) -> Result<HitCosts, KernelError> {
        measure(self)
    }
}

fn measure(tracer: &mut Tracer) -> Result<HitCosts, KernelError> {
    let own = std::process::id();
    let ring = tracer.make_ring(SLOT)?;
    let plan = Plan {
        probes: PLACES
            .iter()
            .zip(FIRST_PROBE..)
            .filter_map(|(&(class, place), id)| own_probe(class, place, id))
            .collect(),
        ..Plan::default()
    };
    if plan.probes.len() < PLACES.len() {
        return Ok(HitCosts::default());
    }
    let plain_ns = PLACES.map(|(_, function)| ns_per_call(function, 1));
    let Ok((_, program)) = open_path("/proc/self/exe".as_ref()) else { return Ok(HitCosts::default()) };
    let Ok(start_ticks) = crate::host::processes::start_ticks(own) else { return Ok(HitCosts::default()) };
    let offsets = plan.probes.iter().map(|probe| probe.offset_bytes);
    let target = Target::as_it_is(program, offsets, Scope::EachReached);
    let targets = BTreeMap::from([(FileId::default(), target)]);
    tracer.reach(own);
    let attached = tracer.attach(&plan, &targets);
    let stranger = ns_per_call(place_of_copies, 0);
    // Small blocks are nobody's own: they are declined.
    tracer.watch(ProcessKey { pid: own, start_ticks }, SLOT)?;
    tracer.tell_own_code(own, &[])?;
    let large = tracer.settings.alloc_min_bytes.max(1);
    let [copy, call, alloc] = PLACES.map(|(_, function)| ns_per_call(function, large));
    let declined = ns_per_call(place_of_allocations, 0);
    tracer.unwatch(own, None);
    tracer.detach(&plan.probes.iter().map(|p| p.id).collect());
    tracer.leave(own);
    tracer.targets.remove(&FileId::default());
    tracer.probes.retain(|id, _| *id < FIRST_PROBE);
    drop(ring);
    tracer.drop_ring(SLOT);
    if !attached.failed.is_empty() {
        return Ok(HitCosts::default());
    }
    let least = 1.0;
    Ok(HitCosts {
        copy_ns: (copy - plain_ns[0]).max(least),
        call_ns: (call - plain_ns[1]).max(least),
        alloc_ns: (alloc - plain_ns[2]).max(least),
        declined_ns: (declined - plain_ns[2]).max(least),
        stranger_ns: (stranger - plain_ns[0]).max(least),
    })
}

/// The probe at the first instruction of one of our functions; `None` if it cannot be said where in the file it is.
pub(super) fn own_probe(class: ProbeClass, function: TimedFunction, id: u32) -> Option<Probe> {
    let address = function as usize as u64;
    let mappings = crate::host::gather::read_maps(std::process::id()).ok()?;
    let code = mappings.iter().find(|m| (m.start..m.end).contains(&address))?;
    let offset_bytes = address - code.start + code.offset_bytes;
    Some(Probe::at(id, FileId::default(), offset_bytes, class, "malloc"))
}

fn ns_per_call(function: TimedFunction, argument: u64) -> f64 {
    let mut data = vec![0_u8; BETWEEN_BYTES];
    let mut measure = || {
        let hit = || {
            data.iter_mut().step_by(LINE_BYTES).for_each(|byte| *byte = byte.wrapping_add(1));
            std::hint::black_box(&data);
            let begin = Instant::now();
            std::hint::black_box(function(std::hint::black_box(argument), 0, 0));
            begin.elapsed()
        };
        std::iter::repeat_with(hit).take(HITS as usize).sum::<Duration>().as_nanos() as f64 / f64::from(HITS)
    };
    (0..MEASUREMENTS).map(|_| measure()).fold(f64::INFINITY, f64::min)
}
