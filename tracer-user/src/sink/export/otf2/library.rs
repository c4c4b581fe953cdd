//! OTF2's library, which is loaded when it is needed: dmscope runs without it.
//!
//! Functions and numbers are those of OTF2 3.x, whose library has `.so.10` in its name; another number stands for other
//! functions.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library;

/// What distributions and those who build it themselves call it.
pub(super) const FILE_NAMES: [&str; 2] = ["libopen-trace-format2.so.10", "libotf2.so.10"];

/// Things of the library, which only it looks into.
pub(super) type Handle = *mut c_void;
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
    open = "OTF2_Archive_Open" (*const c_char, *const c_char, u8, u64, u64, u8, u8) -> Handle;
    close = "OTF2_Archive_Close" (Handle) -> ErrorCode;
    set_flush = "OTF2_Archive_SetFlushCallbacks" (Handle, *const FlushCallbacks, *mut c_void) -> ErrorCode;
    set_memory = "OTF2_Archive_SetMemoryCallbacks" (Handle, *const MemoryCallbacks, *mut c_void) -> ErrorCode;
    set_serial = "OTF2_Archive_SetSerialCollectiveCallbacks" (Handle) -> ErrorCode;
    set_creator = "OTF2_Archive_SetCreator" (Handle, *const c_char) -> ErrorCode;
    open_event_files = "OTF2_Archive_OpenEvtFiles" (Handle) -> ErrorCode;
    close_event_files = "OTF2_Archive_CloseEvtFiles" (Handle) -> ErrorCode;
    event_writer = "OTF2_Archive_GetEvtWriter" (Handle, u64) -> Handle;
    close_event_writer = "OTF2_Archive_CloseEvtWriter" (Handle, Handle) -> ErrorCode;
    event_count = "OTF2_EvtWriter_GetNumberOfEvents" (Handle, *mut u64) -> ErrorCode;
    open_definition_files = "OTF2_Archive_OpenDefFiles" (Handle) -> ErrorCode;
    close_definition_files = "OTF2_Archive_CloseDefFiles" (Handle) -> ErrorCode;
    definition_writer = "OTF2_Archive_GetDefWriter" (Handle, u64) -> Handle;
    close_definition_writer = "OTF2_Archive_CloseDefWriter" (Handle, Handle) -> ErrorCode;
    global_definition_writer = "OTF2_Archive_GetGlobalDefWriter" (Handle) -> Handle;
    marker_writer = "OTF2_Archive_GetMarkerWriter" (Handle) -> Handle;
    close_marker_writer = "OTF2_Archive_CloseMarkerWriter" (Handle, Handle) -> ErrorCode;
    define_marker = "OTF2_MarkerWriter_WriteDefMarker" (Handle, u32, *const c_char, *const c_char, u8) -> ErrorCode;
    marker = "OTF2_MarkerWriter_WriteMarker" (Handle, u64, u64, u32, u8, u64, *const c_char) -> ErrorCode;
    attributes_new = "OTF2_AttributeList_New" () -> Handle;
    attributes_delete = "OTF2_AttributeList_Delete" (Handle) -> ErrorCode;
    attributes_add_string = "OTF2_AttributeList_AddStringRef" (Handle, u32, u32) -> ErrorCode;
    define_clock = "OTF2_GlobalDefWriter_WriteClockProperties" (Handle, u64, u64, u64, u64) -> ErrorCode;
    define_string = "OTF2_GlobalDefWriter_WriteString" (Handle, u32, *const c_char) -> ErrorCode;
    define_attribute = "OTF2_GlobalDefWriter_WriteAttribute" (Handle, u32, u32, u32, u8) -> ErrorCode;
    define_tree_node = "OTF2_GlobalDefWriter_WriteSystemTreeNode" (Handle, u32, u32, u32, u32) -> ErrorCode;
    define_location_group = "OTF2_GlobalDefWriter_WriteLocationGroup" (Handle, u32, u32, u8, u32, u32) -> ErrorCode;
    define_location = "OTF2_GlobalDefWriter_WriteLocation" (Handle, u64, u32, u8, u64, u32) -> ErrorCode;
    define_region = "OTF2_GlobalDefWriter_WriteRegion"
        (Handle, u32, u32, u32, u32, u8, u8, u32, u32, u32, u32) -> ErrorCode;
    define_group = "OTF2_GlobalDefWriter_WriteGroup" (Handle, u32, u32, u8, u8, u32, u32, *const u64) -> ErrorCode;
    define_communicator = "OTF2_GlobalDefWriter_WriteComm" (Handle, u32, u32, u32, u32, u32) -> ErrorCode;
    enter = "OTF2_EvtWriter_Enter" (Handle, Handle, u64, u32) -> ErrorCode;
    leave = "OTF2_EvtWriter_Leave" (Handle, Handle, u64, u32) -> ErrorCode;
    send = "OTF2_EvtWriter_MpiSend" (Handle, Handle, u64, u32, u32, u32, u64) -> ErrorCode;
    isend = "OTF2_EvtWriter_MpiIsend" (Handle, Handle, u64, u32, u32, u32, u64, u64) -> ErrorCode;
    isend_complete = "OTF2_EvtWriter_MpiIsendComplete" (Handle, Handle, u64, u64) -> ErrorCode;
    irecv_request = "OTF2_EvtWriter_MpiIrecvRequest" (Handle, Handle, u64, u64) -> ErrorCode;
    recv = "OTF2_EvtWriter_MpiRecv" (Handle, Handle, u64, u32, u32, u32, u64) -> ErrorCode;
    irecv = "OTF2_EvtWriter_MpiIrecv" (Handle, Handle, u64, u32, u32, u32, u64, u64) -> ErrorCode;
    request_cancelled = "OTF2_EvtWriter_MpiRequestCancelled" (Handle, Handle, u64, u64) -> ErrorCode;
    collective_begin = "OTF2_EvtWriter_MpiCollectiveBegin" (Handle, Handle, u64) -> ErrorCode;
    collective_end = "OTF2_EvtWriter_MpiCollectiveEnd" (Handle, Handle, u64, u8, u32, u32, u64, u64) -> ErrorCode;
    collective_request = "OTF2_EvtWriter_NonBlockingCollectiveRequest" (Handle, Handle, u64, u64) -> ErrorCode;
    collective_complete = "OTF2_EvtWriter_NonBlockingCollectiveComplete"
        (Handle, Handle, u64, u8, u32, u32, u64, u64, u64) -> ErrorCode;
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
                Err(error) => refused.push(error.to_string()),
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
