//! `dmscope doctor`: tries what a session needs, and says what is missing and how to get it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;

use crate::host::clock::monotonic_ns;
use crate::host::cpus;
use crate::host::gather::gather_processes;
use crate::kernel::{KernelError, LoadSettings, Scope, Target, Tracer};
use crate::plan::{PlanOptions, plan};

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
    let mut checks = vec![architecture(), type_information()];
    match Tracer::load(LoadSettings::default()) {
        Ok(tracer) => checks.extend(loaded(tracer)),
        Err(error) => checks.push(refused(&error)),
    }
    checks.push(spare_cpus());
    checks.push(other_users());
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
        text.push_str(&format!("{mark}  {}: {}\n", check.what, check.says));
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

fn architecture() -> Check {
    let system = rustix::system::uname();
    let machine = system.machine().to_string_lossy().into_owned();
    let release = system.release().to_string_lossy().into_owned();
    let ok = machine == "x86_64";
    let says = if ok {
        format!("Linux {release} on {machine}")
    } else {
        format!("{machine}: only x86_64 is supported")
    };
    check("machine", ok, true, says)
}

fn type_information() -> Check {
    let ok = std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
    let says = if ok { "present".into() } else { KernelError::NoBtf.to_string() };
    check("kernel type information (BTF)", ok, true, says)
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
    let gathered = match gather_processes(&[own], &BTreeSet::new()) {
        Ok(gathered) => gathered,
        Err(error) => return check(WHAT, false, true, error.to_string()),
    };
    let options = PlanOptions { copies: false, ..PlanOptions::default() };
    let plan = match plan(&gathered.facts, &options, 1) {
        Ok(plan) => plan,
        Err(error) => return check(WHAT, false, true, error.to_string()),
    };
    let target = |path: &PathBuf| Target { path: path.clone(), scopes: vec![Scope::Process(own)] };
    let targets = gathered.attach.iter().map(|(id, point)| (*id, target(&point.path))).collect();
    let attached = tracer.attach(&plan, &targets, &BTreeSet::new());
    tracer.detach_all();
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
            let says = format!(
                "the kernel refused a probe at {}: {why}; Linux 6.6 or later is needed",
                probe.function
            );
            check(WHAT, false, true, says)
        }
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

fn other_users() -> Check {
    let root = rustix::process::geteuid().is_root();
    let says =
        if root { "jobs of all users can be watched" } else { "only jobs of this user can be watched" };
    check("other users' jobs", root, false, says)
}
