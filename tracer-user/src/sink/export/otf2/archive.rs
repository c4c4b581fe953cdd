//! An archive that is written: OTF2's functions with errors as values.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use super::library::{ErrorCode, FILE_NAMES, FlushCallbacks, MemoryCallbacks, Otf2Handle, Otf2Library};

/// What a thread gathers before it is written, and the library gathers of definitions: its smallest.
const CHUNK_BYTES: u64 = 256 << 10;
/// Chunks of a thread that are in memory at a time.
const MOST_CHUNKS: usize = 2;
const MODE_WRITE: u8 = 0;
const SUBSTRATE_POSIX: u8 = 1;
const COMPRESSION_NONE: u8 = 1;

/// Something that OTF2 could not do.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is not there.
    #[error(
        "OTF2's library is not installed: install version 3 of it (Debian and Ubuntu: `apt-get install otf2-tools`, which \
         also has otf2-print; built by yourself: add its folder to LD_LIBRARY_PATH)\n{}", .0.join("\n")
    )]
    NoLibrary(Vec<String>),
    /// A path or name cannot be told to it.
    #[error("a path or name has a zero in it")]
    BadName,
    /// It failed.
    #[error("OTF2 cannot {what}: {code}")]
    Failed {
        /// What it was asked to do.
        what: &'static str,
        /// What it says.
        code: String,
    },
}

/// Loads the library.
///
/// # Errors
/// It is not installed.
pub fn find_library() -> Result<Otf2Library, ArchiveError> {
    Otf2Library::load(&FILE_NAMES).map_err(ArchiveError::NoLibrary)
}

/// Writes the events of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventWriter(pub Otf2Handle);

/// An archive that is open.
pub(super) struct Archive {
    library: Arc<Otf2Library>,
    handle: Otf2Handle,
    /// What is told with an event.
    attributes: Otf2Handle,
}

impl Archive {
    /// Makes an archive in an empty folder.
    pub(super) fn create(library: Arc<Otf2Library>, folder: &Path) -> Result<Self, ArchiveError> {
        let functions = &library.functions;
        let path = CString::new(folder.as_os_str().as_bytes()).map_err(|_| ArchiveError::BadName)?;
        // SAFETY: strings end with a zero and live until the call returns; the callback has the type that is asked for,
        // and needs no data. Nobody else uses the library.
        let (handle, attributes) = unsafe {
            (functions.error_callback)(stay_quiet, null_mut());
            let handle = (functions.open)(
                path.as_ptr(),
                c"traces".as_ptr(),
                MODE_WRITE,
                CHUNK_BYTES,
                CHUNK_BYTES,
                SUBSTRATE_POSIX,
                COMPRESSION_NONE,
            );
            (handle, (functions.attributes_new)())
        };
        if handle.is_null() || attributes.is_null() {
            let code = std::io::Error::last_os_error().to_string();
            return Err(ArchiveError::Failed { what: "make an archive", code });
        }
        let archive = Self { library, handle, attributes };
        archive.set_up()?;
        Ok(archive)
    }

    fn set_up(&self) -> Result<(), ArchiveError> {
        let creator = CString::new(format!("dmscope {}", env!("CARGO_PKG_VERSION"))).unwrap_or_default();
        let functions = &self.library.functions;
        // SAFETY: the archive is open; the library copies what callbacks and strings are given; the callbacks have the
        // types that it asks for and live as long as the program.
        unsafe {
            self.done("set up an archive", (functions.set_flush)(self.handle, &FLUSH, null_mut()))?;
            self.done("set up an archive", (functions.set_memory)(self.handle, &MEMORY, null_mut()))?;
            self.done("set up an archive", (functions.set_serial)(self.handle))?;
            self.done("set up an archive", (functions.set_creator)(self.handle, creator.as_ptr()))?;
            self.done("make files of events", (functions.open_event_files)(self.handle))
        }
    }

    /// Says what the library's answer means.
    pub(super) fn done(&self, what: &'static str, code: ErrorCode) -> Result<(), ArchiveError> {
        // What an error before it has left, which was told, says nothing of this one.
        let errno = ERRNO.swap(0, Ordering::Relaxed);
        if code == 0 {
            return Ok(());
        }
        if let Some(why) = of_system(errno) {
            return Err(ArchiveError::Failed { what, code: why });
        }
        // SAFETY: the library gives a text that lives as long as it does, for any number.
        let name = unsafe {
            let name = (self.library.functions.error_name)(code);
            if name.is_null() { c"an unknown error" } else { CStr::from_ptr(name) }
        };
        Err(ArchiveError::Failed { what, code: name.to_string_lossy().into_owned() })
    }

    pub(super) fn functions(&self) -> &super::library::Functions {
        &self.library.functions
    }

    /// Writes the events of a thread.
    pub(super) fn event_writer(&self, location: u64) -> Result<EventWriter, ArchiveError> {
        // SAFETY: the archive is open, and so are its files of events.
        let handle = unsafe { (self.functions().event_writer)(self.handle, location) };
        if handle.is_null() {
            let code = "no memory, or too many open files".to_owned();
            return Err(ArchiveError::Failed { what: "write the events of a thread", code });
        }
        Ok(EventWriter(handle))
    }

    /// The thread has no more events: how many there were.
    pub(super) fn close_events(&self, writer: EventWriter) -> Result<u64, ArchiveError> {
        let mut count = 0;
        // SAFETY: the writer is one of this archive's, and is not used again.
        unsafe {
            self.done("count events", (self.functions().event_count)(writer.0, &mut count))?;
            self.done("write events", (self.functions().close_event_writer)(self.handle, writer.0))?;
        }
        Ok(count)
    }

    /// No thread has more events. Each has a file of definitions of its own, which is empty.
    pub(super) fn end_events(&self, locations: &[u64]) -> Result<(), ArchiveError> {
        let functions = self.functions();
        // SAFETY: the archive is open, and all writers of events are closed.
        unsafe {
            self.done("write events", (functions.close_event_files)(self.handle))?;
            self.done("make files of definitions", (functions.open_definition_files)(self.handle))?;
            for location in locations {
                let writer = (functions.definition_writer)(self.handle, *location);
                self.done("write definitions", (functions.close_definition_writer)(self.handle, writer))?;
            }
            self.done("write definitions", (functions.close_definition_files)(self.handle))
        }
    }

    /// Writes what holds for all threads.
    pub(super) fn global_definitions(&self) -> Result<Otf2Handle, ArchiveError> {
        // SAFETY: the archive is open. It closes the writer itself.
        let handle = unsafe { (self.functions().global_definition_writer)(self.handle) };
        if handle.is_null() {
            return Err(ArchiveError::Failed { what: "write definitions", code: "no memory".to_owned() });
        }
        Ok(handle)
    }

    /// Writes marks.
    pub(super) fn write_markers(
        &self,
        write: impl FnOnce(Otf2Handle) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        // SAFETY: the archive is open; the writer is closed once, whatever was written.
        unsafe {
            let handle = (self.functions().marker_writer)(self.handle);
            if handle.is_null() {
                return Err(ArchiveError::Failed { what: "write marks", code: "no memory".to_owned() });
            }
            let written = write(handle);
            let closed = (self.functions().close_marker_writer)(self.handle, handle);
            written?;
            self.done("write marks", closed)
        }
    }

    /// What is told with the next event: the text of an attribute. Whoever writes an event uses it up.
    pub(super) fn attribute(&self, attribute: u32, text: u32) -> Result<Otf2Handle, ArchiveError> {
        // SAFETY: the list is this archive's, and lives as long as it.
        let added = unsafe { (self.functions().attributes_add_string)(self.attributes, attribute, text) };
        self.done("write events", added)?;
        Ok(self.attributes)
    }

    /// All was written.
    pub(super) fn close(mut self) -> Result<(), ArchiveError> {
        let closed = self.close_handle();
        self.done("write the archive", closed)
    }

    fn close_handle(&mut self) -> ErrorCode {
        let handle = std::mem::replace(&mut self.handle, null_mut());
        if handle.is_null() {
            return 0;
        }
        // SAFETY: both are this archive's, and are not used again.
        unsafe {
            (self.library.functions.attributes_delete)(self.attributes);
            (self.library.functions.close)(handle)
        }
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        // Something has failed and was told: what is there of it is left as it is.
        self.close_handle();
    }
}

/// What the system said to the library when it first met an error; the library's own codes do not tell.
static ERRNO: AtomicI32 = AtomicI32::new(0);

/// In words, if it is what happens to files: a number may be left over from something that was no error.
fn of_system(errno: i32) -> Option<String> {
    match errno {
        libc::EMFILE | libc::ENFILE => {
            Some("too many open files: each thread of the job has one (see `ulimit -n`)".to_owned())
        }
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EACCES | libc::EROFS | libc::EIO => {
            Some(std::io::Error::from_raw_os_error(errno).to_string())
        }
        _ => None,
    }
}

/// Errors are told as values.
unsafe extern "C" fn stay_quiet(
    _: *mut c_void,
    _: *const c_char,
    _: u64,
    _: *const c_char,
    code: ErrorCode,
    _: *const c_char,
    _: *mut c_void,
) -> ErrorCode {
    let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let _ = ERRNO.compare_exchange(0, errno, Ordering::Relaxed, Ordering::Relaxed);
    code
}

static FLUSH: FlushCallbacks = FlushCallbacks { before: write_it, after: None };

/// A buffer that is full is written.
unsafe extern "C" fn write_it(_: *mut c_void, _: u8, _: u64, _: *mut c_void, _: bool) -> u8 {
    1
}

static MEMORY: MemoryCallbacks = MemoryCallbacks { allocate: allocate_chunk, free_all: free_chunks };

/// Chunks of one thread.
#[derive(Default)]
struct Chunks(Vec<(*mut u8, Layout)>);

/// Memory for a chunk; none if the thread has as many as it may: then it writes them.
unsafe extern "C" fn allocate_chunk(
    _: *mut c_void,
    _: u8,
    _: u64,
    chunks: *mut *mut c_void,
    chunk_bytes: u64,
) -> *mut c_void {
    // SAFETY: the library gives the same place for all chunks of a thread, null at first, and touches it nowhere else.
    // What is in it otherwise was put there below.
    let chunks = unsafe {
        if (*chunks).is_null() {
            *chunks = Box::into_raw(Box::<Chunks>::default()).cast();
        }
        &mut *(*chunks).cast::<Chunks>()
    };
    let layout = usize::try_from(chunk_bytes).ok().and_then(|size| Layout::from_size_align(size, 64).ok());
    let Some(layout) = layout.filter(|layout| layout.size() > 0 && chunks.0.len() < MOST_CHUNKS) else {
        return null_mut();
    };
    // SAFETY: the size is not 0.
    let chunk = unsafe { alloc(layout) };
    if !chunk.is_null() {
        chunks.0.push((chunk, layout));
    }
    chunk.cast()
}

/// All chunks of a thread are written.
unsafe extern "C" fn free_chunks(_: *mut c_void, _: u8, _: u64, chunks: *mut *mut c_void, is_final: bool) {
    // SAFETY: as above; a chunk is given back once, with the layout that it was made with.
    unsafe {
        if (*chunks).is_null() {
            return;
        }
        for (chunk, layout) in (*(*chunks).cast::<Chunks>()).0.drain(..) {
            dealloc(chunk, layout);
        }
        if is_final {
            drop(Box::from_raw((*chunks).cast::<Chunks>()));
            *chunks = null_mut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_library_it_is_said_how_to_get_one() {
        let refused = Otf2Library::load(&["libno-such-trace-format.so.10"]).map_err(ArchiveError::NoLibrary);
        let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains("otf2-tools") && said.contains("libno-such-trace-format.so.10"), "{said}");
    }

    #[test]
    fn what_the_system_said_is_told_only_where_it_is_about_files() {
        assert!(of_system(libc::ENOSPC).is_some_and(|said| said.contains("No space left")));
        assert_eq!((of_system(0), of_system(libc::ENOENT)), (None, None));
    }
}
