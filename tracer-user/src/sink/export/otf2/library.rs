//! OTF2's library, which is loaded when it is needed: dmscope runs without it.
//!
//! Functions and numbers are those of OTF2 3.x, whose library has `.so.10` in its name; another number stands for other
//! functions.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library;

/// What distributions and those who build it themselves call it.
pub(super) const FILE_NAMES: [&str; 2] = ["libopen-trace-format2.so.10", "libotf2.so.10"];

/// Things of the library, which only it looks into.
pub(super) type Otf2Handle = *mut c_void;
pub(super) type ErrorCode = c_int;
/// Nobody knows.
pub(super) const UNDEFINED_U32: u32 = u32::MAX;
pub(super) const UNDEFINED_U64: u64 = u64::MAX;

/// Whom the library asks before it writes a buffer to its file.
#[repr(C)]
pub(super) struct FlushCallbacks {
    pub before: unsafe extern "C" fn(*mut c_void, u8, u64, *mut c_void, bool) -> u8,
    pub after: Option<unsafe extern "C" fn(*mut c_void, u8, u64) -> u64>,
}

/// Whom the library asks for memory of buffers.
#[repr(C)]
pub(super) struct MemoryCallbacks {
    pub allocate: unsafe extern "C" fn(*mut c_void, u8, u64, *mut *mut c_void, u64) -> *mut c_void,
    pub free_all: unsafe extern "C" fn(*mut c_void, u8, u64, *mut *mut c_void, bool),
}

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions that are used.
        #[allow(missing_docs)]
        pub(super) struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn find(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: these are the declarations of OTF2 3.x, and the library is one of that version by its name. The
                // pointers are kept no longer than the library.
                unsafe { Ok(Self { $($name: *library.get(concat!($symbol, "\0"))?,)* }) }
            }
        }
    };
}

functions! {
    error_name = "OTF2_Error_GetName" (ErrorCode) -> *const c_char;
    error_callback = "OTF2_Error_RegisterCallback" (ErrorCallback, *mut c_void) -> *const c_void;
    open = "OTF2_Archive_Open" (*const c_char, *const c_char, u8, u64, u64, u8, u8) -> Otf2Handle;
    close = "OTF2_Archive_Close" (Otf2Handle) -> ErrorCode;
    set_flush = "OTF2_Archive_SetFlushCallbacks" (Otf2Handle, *const FlushCallbacks, *mut c_void) -> ErrorCode;
    set_memory = "OTF2_Archive_SetMemoryCallbacks" (Otf2Handle, *const MemoryCallbacks, *mut c_void) -> ErrorCode;
    set_serial = "OTF2_Archive_SetSerialCollectiveCallbacks" (Otf2Handle) -> ErrorCode;
    set_creator = "OTF2_Archive_SetCreator" (Otf2Handle, *const c_char) -> ErrorCode;
    open_event_files = "OTF2_Archive_OpenEvtFiles" (Otf2Handle) -> ErrorCode;
    close_event_files = "OTF2_Archive_CloseEvtFiles" (Otf2Handle) -> ErrorCode;
    event_writer = "OTF2_Archive_GetEvtWriter" (Otf2Handle, u64) -> Otf2Handle;
    close_event_writer = "OTF2_Archive_CloseEvtWriter" (Otf2Handle, Otf2Handle) -> ErrorCode;
    event_count = "OTF2_EvtWriter_GetNumberOfEvents" (Otf2Handle, *mut u64) -> ErrorCode;
    open_definition_files = "OTF2_Archive_OpenDefFiles" (Otf2Handle) -> ErrorCode;
    close_definition_files = "OTF2_Archive_CloseDefFiles" (Otf2Handle) -> ErrorCode;
    definition_writer = "OTF2_Archive_GetDefWriter" (Otf2Handle, u64) -> Otf2Handle;
    close_definition_writer = "OTF2_Archive_CloseDefWriter" (Otf2Handle, Otf2Handle) -> ErrorCode;
    global_definition_writer = "OTF2_Archive_GetGlobalDefWriter" (Otf2Handle) -> Otf2Handle;
    marker_writer = "OTF2_Archive_GetMarkerWriter" (Otf2Handle) -> Otf2Handle;
    close_marker_writer = "OTF2_Archive_CloseMarkerWriter" (Otf2Handle, Otf2Handle) -> ErrorCode;
    define_marker = "OTF2_MarkerWriter_WriteDefMarker" (Otf2Handle, u32, *const c_char, *const c_char, u8) -> ErrorCode;
    marker = "OTF2_MarkerWriter_WriteMarker" (Otf2Handle, u64, u64, u32, u8, u64, *const c_char) -> ErrorCode;
    attributes_new = "OTF2_AttributeList_New" () -> Otf2Handle;
    attributes_delete = "OTF2_AttributeList_Delete" (Otf2Handle) -> ErrorCode;
    attributes_add_string = "OTF2_AttributeList_AddStringRef" (Otf2Handle, u32, u32) -> ErrorCode;
    define_clock = "OTF2_GlobalDefWriter_WriteClockProperties" (Otf2Handle, u64, u64, u64, u64) -> ErrorCode;
    define_string = "OTF2_GlobalDefWriter_WriteString" (Otf2Handle, u32, *const c_char) -> ErrorCode;
    define_attribute = "OTF2_GlobalDefWriter_WriteAttribute" (Otf2Handle, u32, u32, u32, u8) -> ErrorCode;
    define_tree_node = "OTF2_GlobalDefWriter_WriteSystemTreeNode" (Otf2Handle, u32, u32, u32, u32) -> ErrorCode;
    define_location_group = "OTF2_GlobalDefWriter_WriteLocationGroup" (Otf2Handle, u32, u32, u8, u32, u32) -> ErrorCode;
    define_location = "OTF2_GlobalDefWriter_WriteLocation" (Otf2Handle, u64, u32, u8, u64, u32) -> ErrorCode;
    define_region = "OTF2_GlobalDefWriter_WriteRegion"
        (Otf2Handle, u32, u32, u32, u32, u8, u8, u32, u32, u32, u32) -> ErrorCode;
    define_group = "OTF2_GlobalDefWriter_WriteGroup" (Otf2Handle, u32, u32, u8, u8, u32, u32, *const u64) -> ErrorCode;
    define_communicator = "OTF2_GlobalDefWriter_WriteComm" (Otf2Handle, u32, u32, u32, u32, u32) -> ErrorCode;
    enter = "OTF2_EvtWriter_Enter" (Otf2Handle, Otf2Handle, u64, u32) -> ErrorCode;
    leave = "OTF2_EvtWriter_Leave" (Otf2Handle, Otf2Handle, u64, u32) -> ErrorCode;
    send = "OTF2_EvtWriter_MpiSend" (Otf2Handle, Otf2Handle, u64, u32, u32, u32, u64) -> ErrorCode;
    isend = "OTF2_EvtWriter_MpiIsend" (Otf2Handle, Otf2Handle, u64, u32, u32, u32, u64, u64) -> ErrorCode;
    isend_complete = "OTF2_EvtWriter_MpiIsendComplete" (Otf2Handle, Otf2Handle, u64, u64) -> ErrorCode;
    irecv_request = "OTF2_EvtWriter_MpiIrecvRequest" (Otf2Handle, Otf2Handle, u64, u64) -> ErrorCode;
    recv = "OTF2_EvtWriter_MpiRecv" (Otf2Handle, Otf2Handle, u64, u32, u32, u32, u64) -> ErrorCode;
    irecv = "OTF2_EvtWriter_MpiIrecv" (Otf2Handle, Otf2Handle, u64, u32, u32, u32, u64, u64) -> ErrorCode;
    request_cancelled = "OTF2_EvtWriter_MpiRequestCancelled" (Otf2Handle, Otf2Handle, u64, u64) -> ErrorCode;
    collective_begin = "OTF2_EvtWriter_MpiCollectiveBegin" (Otf2Handle, Otf2Handle, u64) -> ErrorCode;
    collective_end = "OTF2_EvtWriter_MpiCollectiveEnd" (Otf2Handle, Otf2Handle, u64, u8, u32, u32, u64, u64) -> ErrorCode;
    collective_request = "OTF2_EvtWriter_NonBlockingCollectiveRequest" (Otf2Handle, Otf2Handle, u64, u64) -> ErrorCode;
    collective_complete = "OTF2_EvtWriter_NonBlockingCollectiveComplete"
        (Otf2Handle, Otf2Handle, u64, u8, u32, u32, u64, u64, u64) -> ErrorCode;
}

/// Whom the library tells of errors; the last argument is a `va_list`, a pointer on x86-64.
pub(super) type ErrorCallback = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    u64,
    *const c_char,
    ErrorCode,
    *const c_char,
    *mut c_void,
) -> ErrorCode;

/// The library, loaded.
pub struct Otf2Library {
    pub(super) functions: Functions,
    /// What the functions are in.
    _library: Library,
}

impl Otf2Library {
    /// Loads the first of these files that there is.
    ///
    /// # Errors
    /// What the loader says of each.
    pub(super) fn load(names: &[&str]) -> Result<Self, Vec<String>> {
        let mut refused = Vec::new();
        for name in names {
            match Self::load_one(name) {
                Ok(library) => return Ok(library),
                Err(error) => refused.push(format!("{name}: {error}")),
            }
        }
        Err(refused)
    }

    fn load_one(name: &str) -> Result<Self, libloading::Error> {
        // SAFETY: the library is found where the system has its libraries; it does nothing when it is loaded.
        let library = unsafe { Library::new(name) }?;
        Ok(Self { functions: Functions::find(&library)?, _library: library })
    }
}
