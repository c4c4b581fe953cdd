//! Probes at the functions of RDMA providers, where the tables of opened devices lead to, and where queue pairs are connected.

use std::collections::BTreeSet;

use analyzer::plan::{LeftOut, Probe, ProbeClass, ProbePlace};

use super::facts::{VerbsFunction, VerbsTable};
use super::part::{File, PlanPart};
use super::role::file_name;
use crate::elf::{emulated, instruction_len};

/// How a function is probed: its class, its name for people, and what the kernel part is told of it (`POST_*`, `BUILD_*` and
/// `POLL_*` in its files about verbs).
fn probed(function: VerbsFunction) -> (ProbeClass, &'static str, u64) {
    use ProbeClass::{VerbsBuild, VerbsPoll, VerbsPost};
    match function {
        VerbsFunction::PostSend => (VerbsPost, "ibv_post_send", 0),
        VerbsFunction::PostReceive => (VerbsPost, "ibv_post_recv", 1),
        VerbsFunction::PostSharedReceive => (VerbsPost, "ibv_post_srq_recv", 2),
        VerbsFunction::BuildComplete => (VerbsPost, "ibv_wr_complete", 3),
        VerbsFunction::BuildRequest(operation) => (VerbsBuild, request_name(operation), operation.into()),
        VerbsFunction::BuildStart => (VerbsBuild, "ibv_wr_start", 0x100),
        VerbsFunction::BuildAbort => (VerbsBuild, "ibv_wr_abort", 0x101),
        VerbsFunction::BuildSegment => (VerbsBuild, "ibv_wr_set_sge", 0x102),
        VerbsFunction::BuildSegments => (VerbsBuild, "ibv_wr_set_sge_list", 0x103),
        VerbsFunction::BuildInline => (VerbsBuild, "ibv_wr_set_inline_data", 0x104),
        VerbsFunction::BuildInlineList => (VerbsBuild, "ibv_wr_set_inline_data_list", 0x105),
        VerbsFunction::PollList => (VerbsPoll, "ibv_poll_cq", 0),
        VerbsFunction::PollStart => (VerbsPoll, "ibv_start_poll", 1),
        VerbsFunction::PollNext => (VerbsPoll, "ibv_next_poll", 1),
        VerbsFunction::PollEnd => (VerbsPoll, "ibv_end_poll", 2),
        VerbsFunction::ReadOperation => (VerbsPoll, "ibv_wc_read_opcode", 3),
        VerbsFunction::ReadBytes => (VerbsPoll, "ibv_wc_read_byte_len", 4),
        VerbsFunction::ReadQueue => (VerbsPoll, "ibv_wc_read_qp_num", 5),
    }
}

/// By `enum ibv_wr_opcode`.
fn request_name(operation: u8) -> &'static str {
    match operation {
        0 => "ibv_wr_rdma_write",
        1 => "ibv_wr_rdma_write_imm",
        2 => "ibv_wr_send",
        3 => "ibv_wr_send_imm",
        4 => "ibv_wr_rdma_read",
        5 => "ibv_wr_atomic_cmp_swp",
        6 => "ibv_wr_atomic_fetch_add",
        7 => "ibv_wr_local_inv",
        8 => "ibv_wr_bind_mw",
        9 => "ibv_wr_send_inv",
        10 => "ibv_wr_send_tso",
        15 => "ibv_wr_atomic_write",
        _ => "another request",
    }
}

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
        let mut places = BTreeSet::new();
        for &(function, offset_bytes) in &table.functions {
            let (class, name, argument) = probed(function);
            match probe(file, offset_bytes, class, name) {
                // What does two things at once cannot be told apart.
                Ok(_) if !places.insert(offset_bytes) => {
                    part.left_out.push(left_out(file, offset_bytes, name, "it is another one as well"));
                }
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
    let left_out = |reason: &str| left_out(file, offset_bytes, function, reason);
    let start = start.ok_or_else(|| left_out("the table of a device leads to no function's beginning"))?;
    let mut probe = at_start(file, start, class, function).map_err(left_out)?;
    probe.reason = "where the table of an opened RDMA device leads".into();
    Ok(probe)
}

fn left_out(file: &File<'_>, offset_bytes: u64, function: &str, reason: &str) -> LeftOut {
    LeftOut {
        file: file.image.id,
        offset_bytes: Some(offset_bytes),
        what: function.to_owned(),
        reason: reason.to_owned(),
    }
}

fn at_start(file: &File<'_>, start: u64, class: ProbeClass, function: &str) -> Result<Probe, &'static str> {
    let code = file.elf.body(start).and_then(|code| code.get(..instruction_len(code)?));
    let place = emulated(code.ok_or("there is no instruction")?).unwrap_or(ProbePlace::SingleStep);
    file.probe(class, function, start, start, place).ok_or("it is not in the file")
}
