//! `dmscope doctor`: tries what a session needs, and says what is missing and how to get it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use analyzer::visible::visible;
use analyzer::wire::FileId;
use injector::counter_is_invariant;
use serde::Serialize;

use crate::host::clock::monotonic_ns;
use crate::host::cpus;
use crate::host::gather::{AttachPoint, gather_processes};
use crate::host::parsing::ParsingChild;
use crate::host::support::{Requirement, requirements, support_facts};
use crate::kernel::{FilterCheck, KernelError, LoadSettings, Scope, Target, Tracer};
use crate::plan::code::Instructions;
use crate::plan::{EarlierPlans, PlanOptions};

/// One thing that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was tried, in words.
    pub what: &'static str,
    /// Whether it is there.
    pub ok: bool,
    /// Whether nothing works without it.
    pub needed: bool,
    /// What was found; if it is not there, what to do.
    pub says: String,
}

/// Tries everything.
pub fn checks() -> Vec<Check> {
    let facts = support_facts();
    let mut checks: Vec<Check> = requirements(&facts).into_iter().map(Check::from).collect();
    match Tracer::load(LoadSettings::default()) {
        Ok(tracer) => checks.extend(loaded(tracer)),
        // What is missing is told above.
        Err(KernelError::NotSupported(_)) => {}
        Err(error) => checks.push(refused(&error)),
    }
    checks.push(fast_probes());
    checks.push(spare_cpus());
    checks
}

/// Whether a session is possible.
pub fn all_needed(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.ok || !check.needed)
}

/// For people.
pub fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = if check.ok {
            "ok     "
        } else if check.needed {
            "MISSING"
        } else {
            "without"
        };
        text.push_str(&format!("{mark}  {}: {}\n", check.what, visible(&check.says)));
    }
    text.push_str(if all_needed(checks) {
        "\nThis machine can watch MPI jobs. Next: dmscope ps\n"
    } else {
        "\nThis machine cannot watch MPI jobs until what is MISSING is there.\n"
    });
    text
}

fn check(what: &'static str, ok: bool, needed: bool, says: impl Into<String>) -> Check {
    Check { what, ok, needed, says: says.into() }
}

impl From<Requirement> for Check {
    fn from(Requirement { what, ok, needed, says }: Requirement) -> Self {
        Self { what, ok, needed, says }
    }
}

fn refused(error: &KernelError) -> Check {
    check("loading BPF programs", false, true, error.to_string())
}

fn loaded(mut tracer: Tracer) -> Vec<Check> {
    let mut checks = vec![check("loading BPF programs", true, true, "allowed")];
    let events = tracer.attach_kernel_events();
    checks.push(check(
        "process and mapping events",
        events.is_ok(),
        true,
        events.map_or_else(|e| e.to_string(), |()| "seen".into()),
    ));
    checks.push(probes(&mut tracer));
    checks.push(process_filter(tracer.check_filter()));
    let sessions = tracer.features().sessions;
    checks.push(check(
        "session probes (Linux 6.13)",
        sessions,
        false,
        if sessions { "used" } else { "returns of malloc cost more; entry and return probes are used" },
    ));
    checks
}

/// A real plan of this very process, attached and detached.
fn probes(tracer: &mut Tracer) -> Check {
    const WHAT: &str = "many probes by one link (Linux 6.6)";
    let own = std::process::id();
    let begin_ns = monotonic_ns();
    let mut parser = ParsingChild::default();
    let gathered = match gather_processes(&[own], &BTreeSet::new(), &mut parser) {
        Ok(gathered) => gathered,
        Err(error) => return check(WHAT, false, true, error.to_string()),
    };
    let options = PlanOptions { copies: false, ..PlanOptions::default() };
    let planned = match gathered.plan(&options, &EarlierPlans::default(), &mut parser) {
        Ok(planned) => planned,
        Err(why) => return check(WHAT, false, true, why),
    };
    let mut code: BTreeMap<FileId, Instructions> = planned.code.into_iter().collect();
    let mut target = |(id, point): (&FileId, &AttachPoint)| {
        let file = Arc::clone(&point.file);
        (*id, Target { file, code: code.remove(id).unwrap_or_default(), scope: Scope::EachReached })
    };
    let targets = gathered.attach.iter().map(&mut target).collect();
    tracer.reach(own);
    let attached = tracer.attach(&planned.plan, &targets);
    tracer.detach_all();
    tracer.leave(own);
    match attached.failed.first() {
        None if attached.probes > 0 => {
            let took_ms = (monotonic_ns() - begin_ns) / 1_000_000;
            check(
                WHAT,
                true,
                true,
                format!("{} probes of this process in and out in {took_ms} ms", attached.probes),
            )
        }
        None => check(WHAT, false, true, "no place to probe was found in this process"),
        Some((probe, why)) => {
            let says = format!("the kernel refused a probe at {}: {why}", probe.function);
            check(WHAT, false, true, says)
        }
    }
}

/// What was found when a function of ours was probed for this process alone, and run by others as well.
fn process_filter(check_of: Result<FilterCheck, KernelError>) -> Check {
    const WHAT: &str = "probes for the job's processes alone";
    const WITHOUT: &str = "--only-job is not used: processes outside the job run into its probes, and it is told what that \
                           costs them";
    let found = match check_of {
        Ok(found) => found,
        Err(error) => return check(WHAT, false, false, format!("{error}; {WITHOUT}")),
    };
    if !found.sees_all_threads() {
        let says = format!(
            "of {} calls of each of two threads of a process, {} and {} were seen (mended in Linux 6.10); {WITHOUT}",
            found.calls, found.of_first_thread, found.of_other_thread
        );
        return check(WHAT, false, false, says);
    }
    let others = match (found.changes_other_process, found.of_other_process) {
        (false, 0) => "no other process has a probe in it",
        (true, 0) => "another process is not seen, but has the probes in its code and loses time at each",
        _ => "another process was seen as well",
    };
    check(WHAT, found.spares_others(), false, format!("all threads of a process are seen, and {others}"))
}

/// Whether probes without the kernel are possible at all; what a job forbids is told when it is attached to.
fn fast_probes() -> Check {
    const WHAT: &str = "fast probes (--probes fast)";
    match counter_is_invariant() {
        true => check(
            WHAT,
            true,
            false,
            "possible here; not for processes that are traced, stopped or under a seccomp filter (dmscope probes PID --probes \
             fast says it)",
        ),
        false => check(
            WHAT,
            false,
            false,
            "the kernel does not take the processor's counter for its clock: kernel probes are used",
        ),
    }
}

fn spare_cpus() -> Check {
    let online = cpus::online();
    let own = cpus::of_process(std::process::id());
    check(
        "CPUs",
        true,
        false,
        format!(
            "{} online, {} for dmscope; a job that leaves some of these unused (mpirun --cpu-set, taskset) is \
             disturbed least",
            cpus::format_list(&online),
            cpus::format_list(&own)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(found: FilterCheck) -> (bool, String) {
        let check = process_filter(Ok(FilterCheck { of_first_thread: 8, calls: 8, ..found }));
        assert!(!check.needed, "jobs can be watched without it");
        (check.ok, check.says)
    }

    #[test]
    fn of_the_filter_for_one_process_it_is_said_what_was_seen() {
        let (ok, says) = said(FilterCheck { of_other_thread: 8, ..FilterCheck::default() });
        assert!(ok && says.ends_with("no other process has a probe in it"), "{says}");
        let (ok, says) = said(FilterCheck::default());
        assert!(
            !ok && says.starts_with("of 8 calls of each of two threads of a process, 8 and 0 were seen"),
            "{says}"
        );
        let changed =
            FilterCheck { of_other_thread: 8, changes_other_process: true, ..FilterCheck::default() };
        assert!(!said(changed).0);
    }
}
