//! Objects of MPI libraries whose addresses are handles.

use analyzer::input::MpiKind;
use analyzer::plan::MpiObjects;

use super::code::Segment;
use super::facts::ElfFacts;

/// Open MPI's own object behind MPI_COMM_WORLD.
const OPEN_MPI_WORLD: &str = "ompi_mpi_comm_world";
/// Its request of what was complete at once.
const OPEN_MPI_COMPLETE: &str = "ompi_request_empty";
/// A function that every MPICH has.
const MPICH_MARK: &str = "MPIX_Comm_agree";

/// How far something is from where the first byte would be if all were mapped as the code is.
pub(super) fn distance(vaddr: u64, code: &Segment) -> u64 {
    vaddr.wrapping_sub(code.vaddr.wrapping_sub(code.offset_bytes))
}

/// What a file has of an MPI library; `has_calls`: MPI's entry points.
pub fn mpi_objects(elf: &ElfFacts<'_>, has_calls: bool) -> Option<MpiObjects> {
    let code = elf.segments.iter().find(|segment| segment.exec)?;
    let vaddr = |name: &str| elf.functions.mpi_data(name);
    let distance = |vaddr| distance(vaddr, code);
    match vaddr(OPEN_MPI_WORLD) {
        Some(world) => Some(MpiObjects {
            kind: MpiKind::OpenMpi,
            comm_world: Some(distance(world)),
            complete_request: vaddr(OPEN_MPI_COMPLETE).map(distance),
        }),
        None if has_calls && elf.function(MPICH_MARK).is_some() => {
            Some(MpiObjects { kind: MpiKind::Mpich, comm_world: None, complete_request: None })
        }
        None => None,
    }
}
