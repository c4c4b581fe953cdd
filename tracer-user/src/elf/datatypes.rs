//! Datatypes of Open MPI, whose objects' addresses are handles. MPICH's handles say their sizes themselves.

use analyzer::plan::{Datatype, DatatypeGroup};

use super::facts::ElfFacts;
use super::objects::distance;

/// Size of an element of a datatype without gaps, by the name of its object. Fortran's default types may be of any size.
fn size_bytes(object: &str) -> Option<u8> {
    Some(match object.strip_prefix("ompi_mpi_")? {
        "byte" | "packed" | "char" | "signed_char" | "unsigned_char" | "int8_t" | "uint8_t" => 1,
        "c_bool" | "cxx_bool" | "character" | "integer1" | "logical1" => 1,
        "short" | "unsigned_short" | "int16_t" | "uint16_t" | "integer2" | "logical2" => 2,
        "int" | "unsigned" | "float" | "wchar" | "int32_t" | "uint32_t" => 4,
        "integer4" | "logical4" | "real4" => 4,
        "long" | "unsigned_long" | "long_long_int" | "unsigned_long_long" | "double" => 8,
        "int64_t" | "uint64_t" | "aint" | "offset" | "count" | "2int" | "float_int" => 8,
        "c_complex" | "c_float_complex" | "complex8" | "integer8" | "logical8" | "real8" => 8,
        "long_double" | "c_double_complex" | "complex16" | "real16" => 16,
        "c_long_double_complex" | "complex32" => 32,
        _ => return None,
    })
}

/// What an element of one that is longer than a byte is.
fn group(object: &str) -> Option<DatatypeGroup> {
    Some(match object.strip_prefix("ompi_mpi_")? {
        "short" | "unsigned_short" | "int" | "unsigned" | "long" | "unsigned_long" => DatatypeGroup::Integer,
        "long_long_int" | "unsigned_long_long" | "int16_t" | "uint16_t" | "int32_t" => DatatypeGroup::Integer,
        "uint32_t" | "int64_t" | "uint64_t" | "aint" | "offset" | "count" => DatatypeGroup::Integer,
        "integer2" | "integer4" | "integer8" => DatatypeGroup::Integer,
        "float" | "double" | "long_double" | "real4" | "real8" | "real16" => DatatypeGroup::FloatingPoint,
        "c_complex" | "c_float_complex" | "c_double_complex" => DatatypeGroup::Complex,
        "c_long_double_complex" | "complex8" | "complex16" | "complex32" => DatatypeGroup::Complex,
        _ => return None,
    })
}

/// Those that a file has.
pub fn datatypes(elf: &ElfFacts<'_>) -> Vec<Datatype> {
    let Some(code) = elf.segments.iter().find(|segment| segment.exec) else { return Vec::new() };
    let found = elf.functions.all_mpi_data().filter_map(|(name, vaddr)| {
        Some(Datatype { object: distance(vaddr, code), size_bytes: size_bytes(name)?, group: group(name) })
    });
    let mut all: Vec<Datatype> = found.collect();
    all.sort_by_key(|datatype| datatype.object);
    all.dedup();
    all
}
