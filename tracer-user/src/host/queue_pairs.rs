//! Who is at the other end of a queue pair that was connected before anybody watched: the kernel says it, asked through the
//! process's own open device (`QUERY_QP`, as `ibv_query_qp` asks it). It changes nothing.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use analyzer::wire::QueueChange;
use analyzer::{RELIABLE_CONNECTED, queue_state};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::processes::start_ticks;
use super::verbs::DEVICE_FILES;

const DEVICES: &str = "/sys/class/infiniband_verbs";
/// Open devices of a process that are asked.
const MOST_DEVICES: usize = 64;

/// What is known of a queue pair in use, completed by what the kernel says of it; none: it is gone, is not connected, or nobody
/// may ask. `psn`: the kernel's handle of it.
pub(crate) fn found_connected(pid: u32, in_use: &QueueChange) -> Option<QueueChange> {
    let started = start_ticks(pid).ok()?;
    let process = pidfd_open(Pid::from_raw(pid.try_into().ok()?)?, PidfdFlags::empty()).ok()?;
    // From here on it is the same process.
    start_ticks(pid).ok().filter(|now| *now == started)?;
    device_files(pid, in_use.device).into_iter().find_map(|file| {
        let device = pidfd_getfd(&process, file, PidfdGetfdFlags::empty()).ok()?;
        completed(in_use, &query(&device, in_use.psn)?)
    })
}

/// Its descriptors of a device.
fn device_files(pid: u32, device: [u64; 2]) -> Vec<i32> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_it = |path: &Path| {
        let name = path.to_str().filter(|path| path.starts_with(DEVICE_FILES))?.rsplit('/').next()?;
        let name = fs::read_to_string(Path::new(DEVICES).join(name).join("ibdev")).ok()?;
        Some(super::rdma::device_name(name.trim()) == up_to_nul(device))
    };
    let of_it = files.filter_map(|file| {
        let link = fs::read_link(file.path()).ok()?;
        is_it(&link).filter(|is_it| *is_it)?;
        file.file_name().to_str()?.parse().ok()
    });
    of_it.take(MOST_DEVICES).collect()
}

/// A name without what lies behind its end.
fn up_to_nul(words: [u64; 2]) -> [u64; 2] {
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).take_while(|byte| *byte != 0).collect();
    super::rdma::device_name(&String::from_utf8_lossy(&bytes))
}

/// `struct ib_uverbs_query_qp_resp`
const ANSWER_BYTES: usize = 128;
type QueryAnswer = [u8; ANSWER_BYTES];

/// Offsets in it.
mod at {
    pub const ADDRESS: usize = 0;
    pub const LID: usize = 20;
    pub const INDEX: usize = 24;
    pub const IS_GLOBAL: usize = 30;
    pub const PORT: usize = 31;
    pub const PEER: usize = 96;
    pub const STATE: usize = 108;
}

/// Only one that may be sent over. Pure.
fn completed(in_use: &QueueChange, answer: &QueryAnswer) -> Option<QueueChange> {
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| answer[at + byte]));
    let peer = word(at::PEER) as u32;
    if answer[at::STATE] != queue_state::READY_TO_SEND || in_use.transport != RELIABLE_CONNECTED || peer == 0
    {
        return None;
    }
    Some(QueueChange {
        address: [word(at::ADDRESS), word(at::ADDRESS + 8)],
        peer,
        state: queue_state::FOUND_CONNECTED,
        port: answer[at::PORT],
        index: answer[at::INDEX],
        lid: word(at::LID) as u16,
        is_global: answer[at::IS_GLOBAL] != 0,
        psn: 0,
        ..*in_use
    })
}

/// `struct ib_uverbs_query_qp`
#[repr(C)]
struct PairQuery {
    response: u64,
    handle: u32,
    attribute_mask: u32,
}

/// `struct ib_uverbs_attr`
#[repr(C)]
#[derive(Clone, Copy)]
struct QueryAttribute {
    id: u16,
    len_bytes: u16,
    flags: u16,
    reserved: u16,
    data: u64,
}

/// `struct ib_uverbs_ioctl_hdr` and what follows it.
#[repr(C)]
struct QueryCommand {
    len_bytes: u16,
    object: u16,
    method: u16,
    attributes: u16,
    reserved: u64,
    driver: u32,
    reserved_too: u32,
    attribute: [QueryAttribute; 3],
}

/// `RDMA_VERBS_IOCTL`
const IOCTL: u32 = 3 << 30 | 24 << 16 | 0x1b << 8 | 1;
const MANDATORY: u16 = 1;
/// `UVERBS_ATTR_CORE_IN`, `UVERBS_ATTR_CORE_OUT`, `UVERBS_ATTR_WRITE_CMD`, of `UVERBS_METHOD_INVOKE_WRITE` of a device.
const QUESTION_ATTRIBUTE: u16 = 0;
const ANSWER_ATTRIBUTE: u16 = 1;
const COMMAND_ATTRIBUTE: u16 = 2;
/// `IB_USER_VERBS_CMD_QUERY_QP`
const QUERY_QP: u64 = 25;
/// All that the other end is told by, and the state: `IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN`.
const ATTRIBUTE_MASK: u32 = 1 | 1 << 7 | 1 << 20;
/// A command must name its driver (`enum rdma_driver_id`), and no file says which it is.
const MOST_DRIVERS: u32 = 64;

/// What the kernel says of the queue pair of a handle, of an open device.
fn query(device: &OwnedFd, handle: u32) -> Option<QueryAnswer> {
    (0..MOST_DRIVERS).find_map(|driver| query_of_driver(device, handle, driver))
}

fn query_of_driver(device: &OwnedFd, handle: u32, driver: u32) -> Option<QueryAnswer> {
    let mut answer: QueryAnswer = [0; ANSWER_BYTES];
    let response = answer.as_mut_ptr() as u64;
    let question = PairQuery { response, handle, attribute_mask: ATTRIBUTE_MASK };
    let attribute = |id, len_bytes: usize, data| QueryAttribute {
        id,
        len_bytes: len_bytes as u16,
        flags: MANDATORY,
        reserved: 0,
        data,
    };
    let mut command = QueryCommand {
        len_bytes: size_of::<QueryCommand>() as u16,
        object: 0,
        method: 0,
        attributes: 3,
        reserved: 0,
        driver,
        reserved_too: 0,
        attribute: [
            attribute(QUESTION_ATTRIBUTE, size_of::<PairQuery>(), &raw const question as u64),
            attribute(ANSWER_ATTRIBUTE, ANSWER_BYTES, response),
            attribute(COMMAND_ATTRIBUTE, size_of::<u64>(), QUERY_QP),
        ],
    };
    // SAFETY: the command has the layout that the kernel reads, says its own length, and names memory of this function of the
    // lengths that it says, which the kernel reads and writes before it returns.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), IOCTL.into(), &raw mut command) };
    (status == 0).then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_large_as_the_kernel_has_them() {
        assert_eq!(
            (size_of::<PairQuery>(), size_of::<QueryAttribute>(), size_of::<QueryCommand>()),
            (16, 16, 24 + 3 * 16)
        );
    }

    #[test]
    fn an_answer_says_who_is_at_the_other_end_if_the_pair_is_connected() {
        // Of Linux 7.2, from a device in software.
        let mut answer: QueryAnswer = [0; ANSWER_BYTES];
        answer[10..16].copy_from_slice(&[0xff, 0xff, 10, 77, 0, 1]);
        answer[24..32].copy_from_slice(&[1, 0x40, 0, 0, 0, 1, 1, 1]);
        answer[96] = 0x11;
        answer[108..110].copy_from_slice(&[3, 3]);
        let in_use = QueueChange {
            queue: 18,
            state: queue_state::IN_USE,
            transport: RELIABLE_CONNECTED,
            psn: 3,
            shared: 5,
            ..QueueChange::default()
        };
        let expected = QueueChange {
            address: [0, u64::from_ne_bytes([0, 0, 0xff, 0xff, 10, 77, 0, 1])],
            peer: 17,
            state: queue_state::FOUND_CONNECTED,
            port: 1,
            index: 1,
            is_global: true,
            psn: 0,
            ..in_use
        };
        assert_eq!(completed(&in_use, &answer), Some(expected));
        answer[108] = queue_state::READY_TO_RECEIVE;
        assert_eq!(completed(&in_use, &answer), None);
    }

    #[test]
    fn a_process_without_a_device_has_no_queue_pairs() {
        assert_eq!(found_connected(std::process::id(), &QueueChange::default()), None);
    }
}
