//! Making one link: the kernel is asked by hand, since the program comes as a descriptor and not as part of an object.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

use super::messages::{LinkSpec, ReturnMode};

/// Attaches a program at places of a file.
///
/// # Errors
/// The kernel's refusal.
pub(super) fn make(program: BorrowedFd<'_>, file: BorrowedFd<'_>, spec: &LinkSpec) -> io::Result<OwnedFd> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EINVAL);
    if spec.offsets_bytes.len() != spec.cookies.len() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let count = u32::try_from(spec.offsets_bytes.len()).map_err(invalid)?;
    // This very file, whatever lies at its path by now.
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let (kind, flags) = match spec.returns {
        ReturnMode::No => (libbpf_sys::BPF_TRACE_UPROBE_MULTI, 0),
        ReturnMode::Only => (libbpf_sys::BPF_TRACE_UPROBE_MULTI, libbpf_sys::BPF_F_UPROBE_MULTI_RETURN),
        ReturnMode::Session => (libbpf_sys::BPF_TRACE_UPROBE_SESSION, 0),
    };
    let mut options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    options.__bindgen_anon_1.uprobe_multi = libbpf_sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_3 {
        flags,
        cnt: count,
        path: path.as_ptr(),
        offsets: spec.offsets_bytes.as_ptr().cast(),
        cookies: spec.cookies.as_ptr(),
        pid: spec.process.unwrap_or(0),
        ..Default::default()
    };
    // SAFETY: the path ends with a zero, both lists have `count` entries of eight bytes, and all live until the call is over.
    let fd = unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), 0, kind, &raw const options) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just opened it for us, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
