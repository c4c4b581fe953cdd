//! Who has called: the program and its own libraries, or the MPI library and what that stands on.
//!
//! What the MPI library does is not the same in every run, and it reads clocks too.

use std::ffi::{CStr, c_int, c_void};

/// File names of libraries that MPI libraries are made of or stand on begin like this, and what only hands calls on.
const BELOW_THE_PROGRAM: [&str; 27] = [
    "libmpi",
    "libopen-",
    "libmca_",
    "mca_",
    "libpmix",
    "libprrte",
    "libevent",
    "libhwloc",
    "libpmpi",
    "libucp",
    "libuct",
    "libucs",
    "libucm",
    "libfabric",
    "libibverbs",
    "librdmacm",
    "libmlx",
    "libpsm",
    "libhcoll",
    "libsharp",
    "libmunge",
    // It measures its plans by the processor's counter until it is sure, so that it reads clocks as often as chance has it.
    "libfftw",
    "libdmscope-wrapper",
    "libc.so",
    "ld-linux",
    "libpthread",
    "librt.so",
];

/// Whether a library with this path is a part of the program. The program itself has an empty one.
fn is_programs(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    !BELOW_THE_PROGRAM.iter().any(|begin| file.starts_with(begin))
}

/// Code at addresses from `from` to before `to`.
#[derive(Clone, Copy, Debug, Default)]
struct CallerCode {
    from: usize,
    to: usize,
    is_programs: bool,
}

/// Remembers those who have called. It allocates nothing: a clock may be read where memory is being allocated.
#[derive(Debug)]
pub(crate) struct Callers {
    known: [CallerCode; Self::MOST],
    count: usize,
}

impl Callers {
    const MOST: usize = 32;

    pub(crate) const fn new() -> Self {
        Self { known: [CallerCode { from: 0, to: 0, is_programs: false }; Self::MOST], count: 0 }
    }

    /// Whether the code at an address is the program's.
    pub(crate) fn is_programs(&mut self, address: usize) -> bool {
        let is_here = |range: &&CallerCode| range.from <= address && address < range.to;
        if let Some(range) = self.known[..self.count].iter().find(is_here) {
            return range.is_programs;
        }
        let Some(range) = range_of(address) else { return false };
        // Once all places are taken the last one is used again.
        let at = self.count.min(Self::MOST - 1);
        self.known[at] = range;
        self.count = at + 1;
        range.is_programs
    }
}

/// The code around an address; none if no file is loaded there.
fn range_of(address: usize) -> Option<CallerCode> {
    struct Search {
        address: usize,
        found: Option<CallerCode>,
    }
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
        // SAFETY: the dynamic linker describes an object, and hands on the search that it was given.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: there are so many program headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let ranges = headers.iter().filter(|h| h.p_type == libc::PT_LOAD).map(|header| {
            let from = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            (from, from.wrapping_add(header.p_memsz as usize))
        });
        let Some((from, to)) = ranges.into_iter().find(|(from, to)| (*from..*to).contains(&search.address))
        else {
            return 0;
        };
        let path = match info.dlpi_name.is_null() {
            true => &[],
            // SAFETY: a path that ends with a zero.
            false => unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes(),
        };
        // Names that are no text are nobody's of the list.
        let is_programs = std::str::from_utf8(path).is_ok_and(is_programs);
        search.found = Some(CallerCode { from, to, is_programs });
        1
    }
    let mut search = Search { address, found: None };
    // SAFETY: the callback gets the search, which lives until this returns.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_its_libraries_are_told_from_what_mpi_stands_on() {
        for path in [
            "",
            "/usr/lib/liblammps.so.0",
            "/lib/libstdc++.so.6",
            "/opt/app/libsolver.so",
            "libgfortran.so.5",
        ] {
            assert!(is_programs(path), "{path}");
        }
        for path in [
            "/usr/lib/libmpi.so.40",
            "/x/openmpi/mca_btl_vader.so",
            "/lib/libucs.so.0",
            "/lib/libc.so.6",
            "libmpich.so.12",
            "/usr/lib/libfftw3f.so.3",
        ] {
            assert!(!is_programs(path), "{path}");
        }
    }

    #[test]
    fn code_is_found_by_its_address_and_remembered() {
        let mut callers = Callers::new();
        assert!(callers.is_programs(range_of as *const () as usize));
        assert!(!callers.is_programs(libc::getpid as *const () as usize));
        assert!(!callers.is_programs(1));
        assert_eq!(callers.count, 2);
        assert!(callers.is_programs(range_of as *const () as usize));
        assert_eq!(callers.count, 2);
    }
}
