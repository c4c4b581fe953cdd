//! Which programs are hit at which places.

use analyzer::plan::ProbeClass;

use crate::harness::{Hook, OurProbe};

/// A kind of instruction, and how an empty program is attached at it.
pub(super) struct EmptyCase {
    pub name: &'static str,
    pub place: &'static str,
    pub hook: Hook,
}

const fn empty(name: &'static str, place: &'static str, hook: Hook) -> EmptyCase {
    EmptyCase { name, place, hook }
}

/// Empty programs at each kind of place.
pub(super) const EMPTY_CASES: [EmptyCase; 12] = [
    empty("5-byte `nop`", "nop5", Hook::Entry),
    empty("`nop`", "nop", Hook::Entry),
    empty("`push`", "push", Hook::Entry),
    empty("`call rel32`", "call", Hook::Entry),
    empty("`jmp rel32`", "jmp", Hook::Entry),
    empty("conditional jump", "jcc", Hook::Entry),
    empty("`push`, return only", "push", Hook::Return),
    empty("`push`, session: entry and return", "push", Hook::Session),
    empty("`push`, session that declines the return", "push", Hook::SessionDeclined),
    empty("`sub`, single-stepped", "sub", Hook::Entry),
    empty("`lea`, single-stepped", "lea", Hook::Entry),
    empty("`endbr64`, single-stepped", "endbr64", Hook::Entry),
];

/// One of our programs and the empty one that it is compared with.
pub(super) struct HitCase {
    pub name: &'static str,
    pub place: &'static str,
    pub hook: Hook,
    pub probe: OurProbe,
    /// What the function is called with: see [`Passes`](crate::harness::Passes).
    pub arguments: [&'static str; 3],
    /// Called from within the function that stands for an MPI call.
    pub inside: bool,
    /// The process is one that dmscope watches.
    pub watched: bool,
    /// Each hit leaves a record.
    pub records: bool,
    /// What a hit may cost, as a multiple of a hit of the empty program.
    pub goal: Option<f64>,
}

const COPY: [&str; 3] = ["4096", "8192", "64"];
const COPY_GOAL: Option<f64> = Some(1.25);
const CALL_GOAL: Option<f64> = Some(1.4);

/// Our programs at each kind of place that they are put at.
pub(super) fn cases() -> Vec<HitCase> {
    let probe = |class, function, argument| OurProbe { class, function, argument };
    let case = |name, place, probe, arguments| HitCase {
        name,
        place,
        hook: Hook::Entry,
        probe,
        arguments,
        inside: false,
        watched: true,
        records: true,
        goal: None,
    };
    let copy = || probe(ProbeClass::Copy, "memcpy", 0);
    let call = || probe(ProbeClass::Call, "MPI_Send", 0);
    let malloc = || probe(ProbeClass::Alloc, "malloc", 0);
    let free = || probe(ProbeClass::Free, "free", 1);
    let post = || probe(ProbeClass::VerbsPost, "ibv_post_send", 0);
    let build = || probe(ProbeClass::VerbsBuild, "ibv_wr_start", 0x100);
    let poll = || probe(ProbeClass::VerbsPoll, "ibv_poll_cq", 0);
    let completions = ["0", "1", "completions"];
    vec![
        HitCase {
            inside: true,
            goal: COPY_GOAL,
            ..case("copy within an MPI call, at its `call`", "call", copy(), COPY)
        },
        HitCase { inside: true, goal: COPY_GOAL, ..case("the same, tail `jmp`", "jmp", copy(), COPY) },
        HitCase { inside: true, goal: COPY_GOAL, ..case("the same, conditional jump", "jcc", copy(), COPY) },
        HitCase { goal: COPY_GOAL, ..case("copy outside of MPI calls, at its `call`", "call", copy(), COPY) },
        HitCase {
            goal: CALL_GOAL,
            ..case("MPI call with six arguments, at its `push`", "push", call(), COPY)
        },
        HitCase { inside: true, goal: CALL_GOAL, ..case("MPI call within another", "push", call(), COPY) },
        HitCase {
            goal: COPY_GOAL,
            ..case(
                "polling call's success, conditional jump",
                "jcc",
                probe(ProbeClass::PollSuccess, "MPI_Test", 0),
                COPY,
            )
        },
        case("`free` of a large block", "push", free(), ["block", "0", "0"]),
        HitCase {
            hook: Hook::Session,
            ..case("`malloc` of a large block: entry and return", "push", malloc(), ["65536", "0", "0"])
        },
        HitCase {
            hook: Hook::SessionDeclined,
            records: false,
            ..case("`malloc` of a small block: declined at entry", "push", malloc(), ["100", "0", "0"])
        },
        HitCase {
            hook: Hook::Session,
            ..case(
                "`ibv_post_send`, one request of one segment: entry and return",
                "zero",
                post(),
                ["queue", "request", "0"],
            )
        },
        HitCase {
            records: false,
            ..case("`ibv_wr_start`, a new draft", "push", build(), ["queue", "0", "0"])
        },
        HitCase {
            hook: Hook::Session,
            ..case("`ibv_poll_cq`, one completion: entry and return", "one", poll(), completions)
        },
        HitCase {
            hook: Hook::Session,
            records: false,
            ..case("`ibv_poll_cq` that finds nothing: entry and return", "zero", poll(), completions)
        },
        HitCase { watched: false, records: false, ..case("copy of a stranger", "call", copy(), COPY) },
        HitCase {
            hook: Hook::SessionDeclined,
            watched: false,
            records: false,
            ..case("`malloc` of a stranger", "push", malloc(), ["100", "0", "0"])
        },
    ]
}
