//! What the machine lets dmscope do: facts from `/proc` and `/sys`, and what each of them means for a session.
//!
//! Features are looked for, not versions: distributions bring new ones to old kernels.

use std::path::Path;

use analyzer::visible::visible;

use rustix::fs::StatVfsMountFlags;

use super::capabilities::{Capabilities, Capability, remedy};

/// Distributions whose kernels are known to have what is needed.
const DISTRIBUTIONS: &str = "Linux 6.6 or later has it: Debian 13, Ubuntu 24.04, RHEL 10 and SUSE Linux Enterprise 16 and their relatives do";

/// What the type information of the running kernel shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTypes {
    /// Many probes by one link.
    pub uprobe_multi: bool,
    /// Tracepoints with types: of processes, signals and system calls.
    pub tracepoints: bool,
}

/// What is known of the machine and of this process.
#[derive(Clone, Debug)]
pub struct SupportFacts {
    /// As uname(2) says.
    pub machine: String,
    /// As uname(2) says.
    pub release: String,
    /// `None`: the kernel has no type information.
    pub types: Option<KernelTypes>,
    /// Of this process, in effect.
    pub capabilities: Capabilities,
    /// Those that this process or a program that it starts may ever get.
    pub bounding: Capabilities,
    /// Capabilities of programs' files do not count (no_new_privs).
    pub no_new_privileges: bool,
    /// This program's file is in a file system whose files give no capabilities.
    pub nosuid: bool,
    /// `kernel.yama.ptrace_scope`: whose memory may be read without CAP_SYS_PTRACE; `None`: nobody restricts that.
    pub ptrace_scope: Option<i32>,
    /// Effective user 0.
    pub is_root: bool,
    /// Whether this process is in the user namespace that the machine began with: capabilities of others do not count.
    pub initial_user_namespace: bool,
    /// The same for processes: in others only some are seen, by other numbers.
    pub initial_pid_namespace: bool,
    /// Option `hidepid` of `/proc`: from whom processes are hidden; `None`: from nobody.
    pub hidepid: Option<String>,
    /// `/sys/kernel/security/lockdown`: the mode that is chosen; `None`: the kernel has none.
    pub lockdown: Option<String>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i32>,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Option<i32>,
}

/// One thing that a session needs or is better with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// What, in words.
    pub what: &'static str,
    /// Whether it is there.
    pub ok: bool,
    /// Whether nothing works without it.
    pub needed: bool,
    /// What was found; if it is not there, what that means and what to do.
    pub says: String,
}

/// Reads what there is to know.
pub fn support_facts() -> SupportFacts {
    let system = rustix::system::uname();
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse().ok();
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").ok();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let own_file_system = rustix::fs::statvfs("/proc/self/exe");
    SupportFacts {
        machine: system.machine().to_string_lossy().into_owned(),
        release: system.release().to_string_lossy().into_owned(),
        types: kernel_types(Path::new("/sys/kernel/btf/vmlinux")),
        capabilities: Capabilities::in_effect(),
        bounding: bounding_set(&status),
        no_new_privileges: status.lines().any(|line| line.starts_with("NoNewPrivs:") && line.ends_with('1')),
        nosuid: own_file_system.is_ok_and(|own| own.f_flag.contains(StatVfsMountFlags::NOSUID)),
        ptrace_scope: number("/proc/sys/kernel/yama/ptrace_scope"),
        is_root: rustix::process::geteuid().is_root(),
        initial_user_namespace: is_initial_namespace("user", 0xefff_fffd),
        initial_pid_namespace: is_initial_namespace("pid", 0xefff_fffc),
        hidepid: std::fs::read_to_string("/proc/self/mountinfo").ok().as_deref().and_then(hidepid),
        lockdown: lockdown.as_deref().and_then(chosen_mode),
        perf_event_paranoid: number("/proc/sys/kernel/perf_event_paranoid"),
        unprivileged_bpf_disabled: number("/proc/sys/kernel/unprivileged_bpf_disabled"),
    }
}

/// A number that this machine has had since it booted, and no other one has; 0 if it is not to be had.
pub fn boot_number() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

/// Of the file system that is mounted at `/proc` last. Pure.
fn hidepid(mounts: &str) -> Option<String> {
    let own = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"))?;
    let options = own.rsplit(' ').next()?.split(',');
    let value = options.filter_map(|option| option.strip_prefix("hidepid=")).next_back()?;
    (!["0", "off"].contains(&value)).then(|| value.to_owned())
}

/// The kernel gives its first namespaces these numbers.
fn is_initial_namespace(kind: &str, inode: u64) -> bool {
    let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
    link.to_string_lossy() == format!("{kind}:[{inode}]")
}

fn kernel_types(path: &Path) -> Option<KernelTypes> {
    let types = std::fs::read(path).ok()?;
    // Names are strings that end with a zero, one behind the other.
    let has = |name: &str| memchr::memmem::find(&types, format!("\0{name}\0").as_bytes()).is_some();
    let tracepoints = [
        "sched_process_fork",
        "sched_process_exec",
        "sched_process_exit",
        "signal_deliver",
        "sys_exit",
        "sock_send_length",
        "sock_recv_length",
    ];
    Some(KernelTypes {
        uprobe_multi: has("BPF_TRACE_UPROBE_MULTI"),
        tracepoints: tracepoints.iter().all(|name| has(&format!("btf_trace_{name}"))),
    })
}

/// Of a `/proc/PID/status`; a kernel that does not say restricts nothing.
fn bounding_set(status: &str) -> Capabilities {
    let set = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).map_or(Capabilities::ALL, Capabilities)
}

/// `none [integrity] confidentiality`: integrity.
fn chosen_mode(modes: &str) -> Option<String> {
    let (_, behind) = modes.split_once('[')?;
    behind.split_once(']').map(|(mode, _)| mode.to_owned())
}

/// What of it is there. Pure.
pub fn requirements(facts: &SupportFacts) -> Vec<Requirement> {
    let mut all = vec![machine(facts), types(facts)];
    if let Some(known) = facts.types {
        all.extend([tracepoints(facts, known), many_probes(facts, known)]);
    }
    all.extend([
        privileges(facts),
        lockdown(facts),
        perf_events(facts),
        namespaces(facts),
        listed_processes(facts),
    ]);
    all.extend([other_users(facts), foreign_files(facts), replaced_files(facts)]);
    all.extend([memory(facts), priorities(facts)]);
    all.extend(missing_capabilities(facts));
    all
}

/// What a session on this machine does not see, each in a sentence, beyond what it finds out by itself. Pure.
pub fn gaps(facts: &SupportFacts) -> Vec<String> {
    let memory = memory(facts);
    if memory.ok { Vec::new() } else { vec![format!("{} (`dmscope doctor` says more)", memory.says)] }
}

/// Which jobs are not shown. Pure.
pub fn unseen_jobs(capabilities: Capabilities) -> Option<String> {
    let missing = capabilities.names_of_missing(&[Capability::SysPtrace])?;
    Some(format!("jobs of other users are not shown: {missing}; {}", remedy()))
}

/// Why no session is possible, in one sentence; nothing if one may be. Pure.
pub fn refusal(facts: &SupportFacts) -> Option<String> {
    let missing = requirements(facts).into_iter().filter(|requirement| requirement.needed && !requirement.ok);
    let says: Vec<String> = missing.map(|requirement| requirement.says).collect();
    (!says.is_empty()).then(|| says.join("; "))
}

fn requirement(what: &'static str, ok: bool, needed: bool, says: impl Into<String>) -> Requirement {
    Requirement { what, ok, needed, says: says.into() }
}

fn machine(facts: &SupportFacts) -> Requirement {
    let SupportFacts { machine, release, .. } = facts;
    let (machine, release) = (visible(machine), visible(release));
    let ok = machine == "x86_64";
    let says = if ok {
        format!("Linux {release} on {machine}")
    } else {
        format!("this machine is {machine}, and only x86_64 is supported")
    };
    requirement("machine", ok, true, says)
}

fn types(facts: &SupportFacts) -> Requirement {
    let ok = facts.types.is_some();
    let says = if ok {
        "present".to_owned()
    } else {
        format!(
            "Linux {} has no type information (/sys/kernel/btf/vmlinux cannot be read): dmscope needs a kernel built with \
             CONFIG_DEBUG_INFO_BTF, as Debian, Ubuntu, RHEL, Fedora and SUSE ship",
            visible(&facts.release)
        )
    };
    requirement("kernel type information (BTF)", ok, true, says)
}

fn tracepoints(facts: &SupportFacts, known: KernelTypes) -> Requirement {
    let says = if known.tracepoints {
        "present".to_owned()
    } else {
        format!(
            "Linux {} has no typed tracepoints (BTF tracepoints) of processes and system calls; {DISTRIBUTIONS}",
            visible(&facts.release)
        )
    };
    requirement("typed tracepoints", known.tracepoints, true, says)
}

fn many_probes(facts: &SupportFacts, known: KernelTypes) -> Requirement {
    let says = if known.uprobe_multi {
        "present".to_owned()
    } else {
        format!(
            "Linux {} cannot attach many probes by one link (uprobe_multi); {DISTRIBUTIONS}",
            visible(&facts.release)
        )
    };
    requirement("probes by the thousand (uprobe_multi)", known.uprobe_multi, true, says)
}

fn privileges(facts: &SupportFacts) -> Requirement {
    const WHAT: &str = "right to load BPF programs";
    if let Some(missing) = facts.capabilities.names_of_missing(&[Capability::Bpf, Capability::Perfmon]) {
        let who = if facts.is_root { "this root" } else { "this user" };
        let says = format!("{who} may not load BPF programs: {missing}; {}", way_to_get(facts));
        return requirement(WHAT, false, true, says);
    }
    if !facts.initial_user_namespace {
        let says = "capabilities are those of a user namespace (a rootless container, say), and the kernel asks for those of \
                    the machine: run dmscope outside of it as root";
        return requirement(WHAT, false, true, says);
    }
    requirement(WHAT, true, true, "CAP_BPF and CAP_PERFMON are there")
}

/// How this process can get capabilities, given what keeps it from getting them.
fn way_to_get(facts: &SupportFacts) -> String {
    if Capability::USED.iter().any(|used| *used != Capability::SysNice && !facts.bounding.has(*used)) {
        return "this container, or whatever else it was started by, withholds capabilities: run dmscope outside of it, or give \
                them to the container (docker run --cap-add BPF --cap-add PERFMON --cap-add SYS_PTRACE --pid=host …)"
            .to_owned();
    }
    let in_the_way = if facts.no_new_privileges {
        "; those of its file do not count here, since it may gain no privileges (no_new_privs, set by a container or a batch \
         system)"
    } else if facts.nosuid {
        "; those of its file do not count where it is, on a file system mounted with nosuid: copy it elsewhere"
    } else {
        ""
    };
    format!("{}{in_the_way}", remedy())
}

/// Lockdown of confidentiality forbids BPF programs the helpers that read kernel memory.
fn lockdown(facts: &SupportFacts) -> Requirement {
    let mode = facts.lockdown.as_deref().unwrap_or("none");
    let ok = mode != "confidentiality";
    let says = if ok {
        format!("{}: BPF programs are allowed", visible(mode))
    } else {
        "confidentiality: the kernel may refuse BPF programs that read its memory; if it does, boot with lockdown=integrity"
            .to_owned()
    };
    requirement("kernel lockdown", ok, false, says)
}

/// Neither setting keeps those away who have the capabilities, nor lets anybody else in.
fn perf_events(facts: &SupportFacts) -> Requirement {
    let shown = |value: Option<i32>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let (paranoid, bpf) = (shown(facts.perf_event_paranoid), shown(facts.unprivileged_bpf_disabled));
    let says = format!(
        "perf_event_paranoid {paranoid}, unprivileged_bpf_disabled {bpf}: with CAP_BPF and CAP_PERFMON neither matters, \
         without them no value is enough"
    );
    requirement("settings of perf and BPF", true, false, says)
}

fn namespaces(facts: &SupportFacts) -> Requirement {
    let ok = facts.initial_pid_namespace;
    let says = if ok {
        "all processes of the machine are seen"
    } else {
        "this is a container with process numbers of its own: jobs outside of it are not seen, and what the kernel reports has \
         other numbers; run dmscope in the machine's own (docker run --pid=host)"
    };
    requirement("processes", ok, true, says)
}

fn listed_processes(facts: &SupportFacts) -> Requirement {
    let hidden = facts.hidepid.as_ref().filter(|_| !facts.capabilities.has(Capability::SysPtrace));
    let says = hidden.map_or_else(
        || "no process is hidden from this one in /proc".to_owned(),
        |hidepid| {
            format!(
                "/proc is mounted with hidepid={}: without CAP_SYS_PTRACE processes of other users are not even listed, and \
                 jobs whose launcher is another user's are seen as single ranks; {}",
                visible(hidepid),
                remedy()
            )
        },
    );
    requirement("processes in /proc", hidden.is_none(), false, says)
}

/// What is done with one capability, and what is not without it.
fn optional(
    facts: &SupportFacts,
    what: &'static str,
    capability: Capability,
    with: &str,
    without: &str,
) -> Requirement {
    match facts.capabilities.names_of_missing(&[capability]) {
        None => requirement(what, true, false, with),
        Some(missing) => requirement(what, false, false, format!("{without}: {missing}")),
    }
}

/// All that are missing, with the way to get them.
fn missing_capabilities(facts: &SupportFacts) -> Option<Requirement> {
    let missing = facts.capabilities.names_of_missing(&Capability::USED)?;
    Some(requirement("all capabilities", false, false, format!("{missing}: {}", way_to_get(facts))))
}

fn other_users(facts: &SupportFacts) -> Requirement {
    let with = "processes of all users can be watched";
    let without = "only processes of this user can be watched";
    optional(facts, "other users' processes", Capability::SysPtrace, with, without)
}

fn foreign_files(facts: &SupportFacts) -> Requirement {
    let with = "programs and libraries can be read that only their users may read";
    let without = "programs and libraries that this user may not read are not watched";
    optional(facts, "other users' files", Capability::DacReadSearch, with, without)
}

fn replaced_files(facts: &SupportFacts) -> Requirement {
    let with = "files that were deleted or replaced since they were mapped can be read";
    let without = "files that were deleted or replaced since they were mapped are not watched";
    optional(facts, "replaced files", Capability::CheckpointRestore, with, without)
}

/// Yama lets a process read the memory of its own descendants only (1), of nobody without the capability (2), or of nobody (3).
fn memory(facts: &SupportFacts) -> Requirement {
    const WHAT: &str = "memory of processes";
    const NO_LIMIT: i32 = 0;
    const FOR_NOBODY: i32 = 3;
    const WITHOUT: &str =
        "arguments of calls in progress and stacks are not seen, so hangs are told with less";
    let scope = facts.ptrace_scope.unwrap_or(NO_LIMIT);
    let missing = facts.capabilities.names_of_missing(&[Capability::SysPtrace]);
    match missing {
        _ if scope >= FOR_NOBODY => {
            let says =
                format!("the kernel lets nobody read it (kernel.yama.ptrace_scope {scope}): {WITHOUT}");
            requirement(WHAT, false, false, says)
        }
        Some(missing) if scope > NO_LIMIT => {
            let says = format!(
                "the kernel lets this user read none (kernel.yama.ptrace_scope {scope}): {WITHOUT}; {missing}"
            );
            requirement(WHAT, false, false, says)
        }
        _ => requirement(WHAT, true, false, "can be read of processes that can be watched"),
    }
}

fn priorities(facts: &SupportFacts) -> Requirement {
    let with = "what is left at the end of a session is analysed at the usual priority";
    let without = "what is left at the end of a session without a budget waits for the job";
    optional(facts, "priorities", Capability::SysNice, with, without)
}

#[cfg(test)]
mod tests {
    use super::super::capabilities::SETCAP;
    use super::*;

    fn good() -> SupportFacts {
        SupportFacts {
            machine: "x86_64".into(),
            release: "6.12.0".into(),
            types: Some(KernelTypes { uprobe_multi: true, tracepoints: true }),
            capabilities: Capabilities::ALL,
            bounding: Capabilities::ALL,
            no_new_privileges: false,
            nosuid: false,
            ptrace_scope: None,
            is_root: true,
            initial_user_namespace: true,
            initial_pid_namespace: true,
            hidepid: None,
            lockdown: None,
            perf_event_paranoid: Some(2),
            unprivileged_bpf_disabled: Some(2),
        }
    }

    fn without(capabilities: &[Capability]) -> SupportFacts {
        let all = capabilities.iter().fold(u64::MAX, |all, capability| all & !(1 << *capability as u32));
        let all = all & !(1 << Capability::SysAdmin as u32);
        SupportFacts { capabilities: Capabilities(all), is_root: false, ..good() }
    }

    fn not_there(facts: &SupportFacts) -> Vec<(&'static str, String)> {
        let all = requirements(facts).into_iter().filter(|requirement| !requirement.ok);
        all.map(|requirement| (requirement.what, requirement.says)).collect()
    }

    #[test]
    fn a_good_machine_lacks_nothing() {
        assert_eq!((refusal(&good()), not_there(&good())), (None, vec![]));
        assert_eq!(refusal(&without(&[])), None);
    }

    #[test]
    fn an_old_kernel_is_told_what_it_lacks_and_who_has_it() {
        let old = |uprobe_multi, tracepoints| SupportFacts {
            release: "5.15.0-old".into(),
            types: Some(KernelTypes { uprobe_multi, tracepoints }),
            ..good()
        };
        let told = refusal(&old(false, true)).expect("it is too old");
        for word in ["5.15.0-old", "uprobe_multi", "6.6", "Debian 13", "Ubuntu 24.04", "RHEL 10"] {
            assert!(told.contains(word), "{word}: {told}");
        }
        assert!(refusal(&old(true, false)).expect("it is too old").contains("BTF tracepoints"));
        let told = refusal(&SupportFacts { types: None, ..good() }).expect("it has no types");
        assert!(told.contains("CONFIG_DEBUG_INFO_BTF"), "{told}");
        // What counts is what the kernel has, whatever it is called.
        assert_eq!(refusal(&SupportFacts { release: "5.14.0-600.el9".into(), ..good() }), None);
    }

    #[test]
    fn what_a_session_cannot_do_without_names_the_capability_that_is_missing_and_how_to_get_it() {
        let told = refusal(&without(&[Capability::Bpf])).expect("it may not load");
        assert!(told.contains("CAP_BPF is missing; run dmscope as root") && told.contains(SETCAP), "{told}");
        let told = refusal(&without(&[Capability::Perfmon])).expect("it may not load");
        assert!(told.contains("CAP_PERFMON is missing") && !told.contains("CAP_BPF"), "{told}");
        let told = refusal(&without(&[Capability::Bpf, Capability::Perfmon])).expect("it may not load");
        assert!(told.contains("CAP_BPF and CAP_PERFMON are missing"), "{told}");
    }

    #[test]
    fn each_other_capability_that_is_missing_is_told_with_what_it_is_for_and_no_other_is() {
        let what = [
            (Capability::SysPtrace, "other users' processes"),
            (Capability::DacReadSearch, "other users' files"),
            (Capability::CheckpointRestore, "replaced files"),
            (Capability::SysNice, "priorities"),
        ];
        for (capability, what) in what {
            let facts = without(&[capability]);
            let found = not_there(&facts);
            let names: Vec<_> = found.iter().map(|(what, _)| *what).collect();
            assert_eq!((refusal(&facts), names), (None, vec![what, "all capabilities"]));
            let missing = format!("{} is missing", capability.name());
            assert!(found[0].1.ends_with(&format!(": {missing}")), "{found:?}");
            assert!(found[1].1.starts_with(&missing) && found[1].1.contains(SETCAP), "{found:?}");
        }
    }

    #[test]
    fn who_cannot_list_other_users_processes_is_told_so() {
        let mounts = |options: &str| {
            format!("22 27 0:21 / /proc rw - proc proc rw{options}\n23 22 0:9 / /proc/x rw - a a rw\n")
        };
        assert_eq!(hidepid(&mounts("")), None);
        assert_eq!(hidepid(&mounts(",hidepid=0")), None);
        assert_eq!(
            hidepid(&(mounts(",hidepid=2") + &mounts(",hidepid=off,gid=5"))),
            None,
            "the last one counts"
        );
        assert_eq!(hidepid(&mounts(",gid=5,hidepid=invisible")), Some("invisible".into()));
        let hiding = Some("invisible".to_owned());
        assert_eq!(not_there(&SupportFacts { hidepid: hiding.clone(), ..good() }), []);
        let lacking = SupportFacts { hidepid: hiding, ..without(&[Capability::SysPtrace]) };
        let told = not_there(&lacking);
        assert!(
            told.iter().any(|(_, says)| says.contains("hidepid=invisible") && says.contains(SETCAP)),
            "{told:?}"
        );
    }

    #[test]
    fn who_does_not_see_other_users_jobs_is_told_so() {
        assert_eq!(unseen_jobs(Capabilities::ALL), None);
        let told = unseen_jobs(without(&[Capability::SysPtrace]).capabilities).expect("it sees some only");
        assert!(told.contains("CAP_SYS_PTRACE is missing") && told.contains(SETCAP), "{told}");
    }

    #[test]
    fn what_keeps_a_process_from_getting_capabilities_is_told() {
        let lacking = without(&[Capability::Bpf]);
        let told = |facts: &SupportFacts| refusal(facts).expect("it may not load");
        assert!(!told(&lacking).contains("no_new_privs"));
        let told_of = told(&SupportFacts { no_new_privileges: true, ..lacking.clone() });
        assert!(told_of.contains("no_new_privs"), "{told_of}");
        let told_of = told(&SupportFacts { nosuid: true, ..lacking.clone() });
        assert!(told_of.contains("nosuid"), "{told_of}");
        let bounding = Capabilities(0x0000_0000_a804_25fb);
        let told_of = told(&SupportFacts { bounding, ..lacking });
        assert!(told_of.contains("--cap-add BPF") && !told_of.contains("setcap"), "{told_of}");
    }

    #[test]
    fn memory_that_the_kernel_lets_nobody_read_is_a_gap_that_is_told() {
        let scope = |scope, capability: &[Capability]| {
            let facts = SupportFacts { ptrace_scope: Some(scope), ..without(capability) };
            gaps(&facts)
        };
        let ptrace = [Capability::SysPtrace];
        assert_eq!((scope(0, &ptrace), scope(1, &[]), scope(2, &[])), (vec![], vec![], vec![]));
        for number in [1, 2] {
            let told = scope(number, &ptrace);
            assert!(told[0].contains("CAP_SYS_PTRACE is missing") && told[0].contains("stacks"), "{told:?}");
        }
        let told = scope(3, &[]);
        assert!(told[0].contains("nobody") && !told[0].contains("CAP_"), "{told:?}");
    }

    #[test]
    fn containers_and_lockdown_are_told_for_what_they_mean() {
        let rootless = SupportFacts { initial_user_namespace: false, ..good() };
        assert!(refusal(&rootless).expect("its capabilities do not count").contains("user namespace"));
        let container = SupportFacts { initial_pid_namespace: false, ..good() };
        assert!(refusal(&container).expect("it sees other numbers").contains("--pid=host"));
        let locked = SupportFacts { lockdown: Some("confidentiality".into()), ..good() };
        assert_eq!((refusal(&locked), not_there(&locked)[0].0), (None, "kernel lockdown"));
        assert_eq!(chosen_mode("none [integrity] confidentiality\n").as_deref(), Some("integrity"));
        assert_eq!(chosen_mode(""), None);
    }

    #[test]
    fn the_bounding_set_is_read_from_the_status_of_a_process() {
        let set = bounding_set("Name:\ta\nCapEff:\tffffffffffffffff\nCapBnd:\t000000c000080000\n");
        assert_eq!(set, Capabilities(0xc0_0008_0000));
        assert_eq!(bounding_set("Name:\tx\n"), Capabilities::ALL);
    }
}
