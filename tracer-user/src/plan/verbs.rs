//! Probes at the functions of RDMA providers, where the tables of opened devices lead to, and where queue pairs are connected.

use analyzer::plan::{LeftOut, Probe, ProbeClass, ProbePlace};

use super::facts::VerbsTable;
use super::part::{File, PlanPart};
use super::role::file_name;
use crate::elf::{emulated, instruction_len};

/// What the kernel part is told of a post: `POST_*` in `verbs.h`.
const TO_SEND: u64 = 0;
const TO_RECEIVE: u64 = 1;
const TO_SHARED_QUEUE: u64 = 2;

/// Sets up and connects queue pairs.
const MODIFY_QUEUE_PAIR: &str = "ibv_modify_qp";

pub(super) fn plan(files: &[File<'_>], tables: &[VerbsTable]) -> PlanPart {
    let mut part = PlanPart::default();
    let libraries = files.iter().filter(|file| file_name(&file.image.path).starts_with("libibverbs.so"));
    for library in libraries {
        // The newest version is the one that programs of today call.
        let Some(function) = library.elf.function(MODIFY_QUEUE_PAIR) else { continue };
        let probe = at_start(library, function.vaddr, ProbeClass::VerbsQueue, MODIFY_QUEUE_PAIR);
        match probe {
            Ok(probe) => {
                part.probes.push(Probe { reason: "where queue pairs are connected".into(), ..probe })
            }
            Err(why) => part.left_out.push(library.left_out(Some(function.vaddr), MODIFY_QUEUE_PAIR, why)),
        }
    }
    for table in tables {
        let Some(file) = files.iter().find(|file| file.image.id == table.file) else { continue };
        let shared =
            table.post_srq_recv.map(|at| (at, ProbeClass::VerbsPost, "ibv_post_srq_recv", TO_SHARED_QUEUE));
        let functions = [
            (table.post_send, ProbeClass::VerbsPost, "ibv_post_send", TO_SEND),
            (table.post_recv, ProbeClass::VerbsPost, "ibv_post_recv", TO_RECEIVE),
            (table.poll_cq, ProbeClass::VerbsPoll, "ibv_poll_cq", 0),
        ];
        for (offset_bytes, class, function, argument) in functions.into_iter().chain(shared) {
            match probe(file, offset_bytes, class, function) {
                Ok(probe) => part.probes.push(Probe { argument, ..probe }),
                Err(left_out) => part.left_out.push(left_out),
            }
        }
    }
    part
}

/// At the first instruction, where all arguments are. A process's memory may lead anywhere: a breakpoint elsewhere than at
/// the beginning of a function might lie within an instruction.
fn probe(file: &File<'_>, offset_bytes: u64, class: ProbeClass, function: &str) -> Result<Probe, LeftOut> {
    let start = file.elf.vaddr_of(offset_bytes).filter(|vaddr| file.elf.start_of(*vaddr) == Some(*vaddr));
    let left_out = |reason: &str| LeftOut {
        file: file.image.id,
        offset_bytes: Some(offset_bytes),
        what: function.to_owned(),
        reason: reason.to_owned(),
    };
    let start = start.ok_or_else(|| left_out("the table of a device leads to no function's beginning"))?;
    let mut probe = at_start(file, start, class, function).map_err(left_out)?;
    probe.reason = "where the table of an opened RDMA device leads".into();
    Ok(probe)
}

fn at_start(file: &File<'_>, start: u64, class: ProbeClass, function: &str) -> Result<Probe, &'static str> {
    let code = file.elf.body(start).and_then(|code| code.get(..instruction_len(code)?));
    let place = emulated(code.ok_or("there is no instruction")?).unwrap_or(ProbePlace::SingleStep);
    file.probe(class, function, start, start, place).ok_or("it is not in the file")
}
