//! The functions of this machine's RDMA devices, before any process of a job has opened one: a child opens each of them, as a job
//! would, and says where their tables lead.
//!
//! Jobs that load another libibverbs or provider than the machine's own are not served by this: what they have in memory
//! tells ([`super::verbs`]).

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use analyzer::input::Mapping;
use rustix::process::{DumpableBehavior, Signal};
use serde::{Deserialize, Serialize};

use super::extended_objects::{ALLOCATE_DOMAIN, CONTEXT_BYTES, ObjectCopy, copy, extended_objects};
use super::mappings;
use super::sandbox::{SandboxedProcess, receive, send};
use super::verbs::{TableSearch, has_devices, is_provider};
use crate::plan::{VerbsTable, file_name};

/// The word that makes this program the child.
const COMMAND: &str = "open-devices";
/// A device that does not answer keeps the session waiting for so long; libraries may have to be read from afar before one is
/// asked.
const PATIENCE: Duration = Duration::from_secs(30);
const LIBRARY: &CStr = c"libibverbs.so.1";
/// Devices that are opened.
const MOST_DEVICES: usize = 256;

/// What devices lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTables {
    /// One for each provider, with the path that it was loaded from.
    pub tables: Vec<(PathBuf, VerbsTable)>,
    /// libibverbs.
    pub library: Option<PathBuf>,
}

/// Asks a child. Nothing, if there are no devices, or none can be opened: then processes tell that have.
///
/// # Errors
/// The child has not answered: why.
pub(super) fn device_tables() -> Result<DeviceTables, String> {
    if !has_devices() {
        return Ok(DeviceTables::default());
    }
    let mut child = SandboxedProcess::of_this_program(COMMAND);
    let answer = child.talk(PATIENCE, |child| {
        child.send(&())?;
        child.receive()
    });
    answer.map_err(|why| {
        format!(
            "the functions of RDMA devices are not known in advance ({why}): what a rank sends and receives before its own devices are \
             looked at is not seen"
        )
    })
}

/// Opens the devices and says what it has found.
///
/// # Errors
/// The session is gone.
pub fn serve() -> io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut session = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let () = receive(&mut session)?;
    send(&mut session, &found())
}

fn found() -> DeviceTables {
    let Some(verbs) = Libibverbs::load() else { return DeviceTables::default() };
    let pieces = verbs.pieces();
    // After devices were opened: that is when providers are loaded.
    let Ok(mappings) = mappings::read(std::process::id()) else { return DeviceTables::default() };
    in_pieces(&pieces, &mappings)
}

/// What copies of opened devices and their objects lead to. Pure.
fn in_pieces(pieces: &[ObjectCopy], mappings: &[Mapping]) -> DeviceTables {
    let code: Vec<&Mapping> = mappings.iter().filter(|m| m.exec && is_provider(&m.name)).collect();
    let path = |mapping: &Mapping| PathBuf::from(&mapping.name);
    let is_libibverbs = |mapping: &&Mapping| file_name(&mapping.name).starts_with("libibverbs.so");
    let library = mappings.iter().filter(|m| m.exec).find(is_libibverbs).map(path);
    let mut search = TableSearch::new(&code);
    pieces.iter().for_each(|(at, bytes)| search.look_at(*at, bytes));
    let with_path = |table: VerbsTable| {
        let mapping = code.iter().find(|mapping| mapping.file == table.file)?;
        Some((path(mapping), table))
    };
    DeviceTables { tables: search.found().into_iter().filter_map(with_path).collect(), library }
}

type GetDeviceList = unsafe extern "C" fn(*mut c_int) -> *mut *mut c_void;
type OpenDevice = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The machine's own library, as a job without settings loads it.
struct Libibverbs {
    get_device_list: GetDeviceList,
    open_device: OpenDevice,
    allocate_domain: *mut c_void,
}

impl Libibverbs {
    fn load() -> Option<Self> {
        // SAFETY: the name is a C string; what the library does when it is loaded is what it does in every program.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        let function = |name: &CStr| {
            // SAFETY: the library is loaded, and is never unloaded; the name is a C string.
            let at = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!at.is_null()).then_some(at)
        };
        let (list, open) = (function(c"ibv_get_device_list")?, function(c"ibv_open_device")?);
        let allocate_domain = function(ALLOCATE_DOMAIN)?;
        // SAFETY: these are their types in <infiniband/verbs.h>, which are part of the library's ABI.
        Some(unsafe {
            Self {
                get_device_list: std::mem::transmute::<*mut c_void, GetDeviceList>(list),
                open_device: std::mem::transmute::<*mut c_void, OpenDevice>(open),
                allocate_domain,
            }
        })
    }

    /// The beginnings of opened devices and of their objects. All stay: this process ends soon, and nobody waits for it.
    fn pieces(&self) -> Vec<ObjectCopy> {
        // SAFETY: the number of devices need not be asked for; the list ends with a null pointer.
        let list = unsafe { (self.get_device_list)(std::ptr::null_mut()) };
        if list.is_null() {
            return Vec::new();
        }
        // SAFETY: it is read up to its end, and not freed.
        let device = |at: usize| unsafe { *list.add(at) };
        let devices = (0..MOST_DEVICES).map(device).take_while(|device| !device.is_null());
        let of_device = |device| {
            // SAFETY: the device is of the list.
            let context = unsafe { (self.open_device)(device) };
            if context.is_null() {
                return Vec::new();
            }
            // SAFETY: a `struct ibv_context` is as large; it was opened by this library, whose function that is.
            let (context, mut pieces) =
                unsafe { (copy(context, CONTEXT_BYTES), extended_objects(context, self.allocate_domain)) };
            pieces.push(context);
            pieces
        };
        devices.flat_map(of_device).collect()
    }
}

#[cfg(test)]
mod tests {
    use analyzer::wire::FileId;

    use super::*;
    use crate::plan::VerbsFunction;

    fn code(name: &str, inode: u64, start: u64) -> Mapping {
        Mapping {
            start,
            end: start + 0x4000,
            offset_bytes: 0x1000,
            file: FileId { dev: 1, inode },
            shared: false,
            exec: true,
            name: name.into(),
        }
    }

    #[test]
    fn opened_devices_lead_to_their_provider_and_the_library_above_it() {
        let piece = |start: u64, len_bytes: usize, words: &[(usize, u64)]| {
            let mut bytes = vec![0; len_bytes];
            words.iter().for_each(|(at, word)| bytes[*at..at + 8].copy_from_slice(&word.to_le_bytes()));
            (start, bytes)
        };
        let words = [(96, 0x7000_0010), (208, 0x7000_0030), (216, 0x7000_0040), (320, u64::MAX)];
        let context = piece(0x9000, CONTEXT_BYTES, &words);
        let words = [(0, 0x9000), (144, 0x7000_0050), (152, 0x7000_0060), (160, 0x7000_0070)];
        let queue = piece(0xa000, 288, &words);
        let mappings = [
            code("/lib/librxe-rdmav34.so", 7, 0x7000_0000),
            code("/lib/libsiw-rdmav34.so", 8, 0x6000_0000),
            code("/lib/libibverbs.so.1.14.44.0", 9, 0x5000_0000),
            code("/lib/libc.so.6", 10, 0x4000_0000),
        ];
        let found = in_pieces(&[queue, context, (0xb000, vec![0; CONTEXT_BYTES])], &mappings);
        let functions = [
            (VerbsFunction::PollList, 0x1010),
            (VerbsFunction::PostSend, 0x1030),
            (VerbsFunction::PostReceive, 0x1040),
            (VerbsFunction::PollStart, 0x1050),
            (VerbsFunction::PollNext, 0x1060),
            (VerbsFunction::PollEnd, 0x1070),
        ];
        let table = VerbsTable { file: FileId { dev: 1, inode: 7 }, functions: functions.into() };
        assert_eq!(found.tables, [("/lib/librxe-rdmav34.so".into(), table)]);
        assert_eq!(found.library, Some("/lib/libibverbs.so.1.14.44.0".into()));
    }
}
