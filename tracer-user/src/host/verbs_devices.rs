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

use super::mappings;
use super::sandbox::{SandboxedProcess, receive, send};
use super::verbs::{TABLE_BYTES, has_devices, is_provider, tables_in};
use crate::plan::{VerbsTable, file_name};

/// The word that makes this program the child.
const COMMAND: &str = "open-devices";
/// A device that does not answer keeps the session waiting for so long.
const PATIENCE: Duration = Duration::from_secs(5);
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
pub(super) fn device_tables() -> DeviceTables {
    if !has_devices() {
        return DeviceTables::default();
    }
    let mut child = SandboxedProcess::of_this_program(COMMAND);
    let answer = child.talk(PATIENCE, |child| {
        child.send(&())?;
        child.receive()
    });
    answer.unwrap_or_default()
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
    let contexts = verbs.opened();
    // After they were opened: that is when providers are loaded.
    let Ok(mappings) = mappings::read(std::process::id()) else { return DeviceTables::default() };
    in_contexts(&contexts, &mappings)
}

/// What copies of opened devices lead to. Pure.
fn in_contexts(contexts: &[[u8; TABLE_BYTES]], mappings: &[Mapping]) -> DeviceTables {
    let code: Vec<&Mapping> = mappings.iter().filter(|m| m.exec && is_provider(&m.name)).collect();
    let path = |mapping: &Mapping| PathBuf::from(&mapping.name);
    let is_libibverbs = |mapping: &&Mapping| file_name(&mapping.name).starts_with("libibverbs.so");
    let library = mappings.iter().filter(|m| m.exec).find(is_libibverbs).map(path);
    let mut tables: Vec<(PathBuf, VerbsTable)> = Vec::new();
    for table in contexts.iter().flat_map(|context| tables_in(context, &code)) {
        let mapping = code.iter().find(|mapping| mapping.file == table.file);
        if let Some(mapping) = mapping.filter(|_| !tables.iter().any(|(_, known)| known.file == table.file)) {
            tables.push((path(mapping), table));
        }
    }
    DeviceTables { tables, library }
}

type GetDeviceList = unsafe extern "C" fn(*mut c_int) -> *mut *mut c_void;
type OpenDevice = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The machine's own library, as a job without settings loads it.
struct Libibverbs {
    get_device_list: GetDeviceList,
    open_device: OpenDevice,
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
        // SAFETY: these are their types in <infiniband/verbs.h>, which are part of the library's ABI.
        Some(unsafe {
            Self {
                get_device_list: std::mem::transmute::<*mut c_void, GetDeviceList>(list),
                open_device: std::mem::transmute::<*mut c_void, OpenDevice>(open),
            }
        })
    }

    /// The beginnings of opened devices. They stay open: this process ends soon, and nobody waits for it.
    fn opened(&self) -> Vec<[u8; TABLE_BYTES]> {
        // SAFETY: the number of devices need not be asked for; the list ends with a null pointer.
        let list = unsafe { (self.get_device_list)(std::ptr::null_mut()) };
        if list.is_null() {
            return Vec::new();
        }
        // SAFETY: it is read up to its end, and not freed.
        let device = |at: usize| unsafe { *list.add(at) };
        let devices = (0..MOST_DEVICES).map(device).take_while(|device| !device.is_null());
        devices
            .filter_map(|device| {
                // SAFETY: the device is of the list.
                let context = unsafe { (self.open_device)(device) };
                // SAFETY: a `struct ibv_context` is as large; it is not written any more, and stays.
                (!context.is_null()).then(|| unsafe { context.cast::<[u8; TABLE_BYTES]>().read_unaligned() })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use analyzer::wire::FileId;

    use super::*;

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
        let mut context = [0; TABLE_BYTES];
        for (at, word) in [
            (96, 0x7000_0010_u64),
            (168, 0x7000_0020),
            (208, 0x7000_0030),
            (216, 0x7000_0040),
            (320, u64::MAX),
        ] {
            context[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let mappings = [
            code("/lib/librxe-rdmav34.so", 7, 0x7000_0000),
            code("/lib/libsiw-rdmav34.so", 8, 0x6000_0000),
            code("/lib/libibverbs.so.1.14.44.0", 9, 0x5000_0000),
            code("/lib/libc.so.6", 10, 0x4000_0000),
        ];
        let found = in_contexts(&[context, context, [0; TABLE_BYTES]], &mappings);
        let table = VerbsTable {
            file: FileId { dev: 1, inode: 7 },
            post_send: 0x1030,
            post_recv: 0x1040,
            poll_cq: 0x1010,
            post_srq_recv: Some(0x1020),
        };
        assert_eq!(found.tables, [("/lib/librxe-rdmav34.so".into(), table)]);
        assert_eq!(found.library, Some("/lib/libibverbs.so.1.14.44.0".into()));
    }
}
