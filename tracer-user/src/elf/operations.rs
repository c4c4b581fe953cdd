//! Reduction operations of Open MPI, whose objects' addresses are handles. MPICH's handles are numbers.

use analyzer::plan::NamedObject;

use super::facts::ElfFacts;
use super::objects::distance;

/// What the standard calls an operation, by the name of its object.
fn name(object: &str) -> Option<String> {
    const NAMES: [&str; 14] = [
        "max", "min", "sum", "prod", "land", "band", "lor", "bor", "lxor", "bxor", "minloc", "maxloc",
        "replace", "no_op",
    ];
    let operation = object.strip_prefix("ompi_mpi_op_")?;
    NAMES.contains(&operation).then(|| format!("MPI_{}", operation.to_uppercase()))
}

/// Those that a file has.
pub fn operations(elf: &ElfFacts<'_>) -> Vec<NamedObject> {
    let Some(code) = elf.segments.iter().find(|segment| segment.exec) else { return Vec::new() };
    let found = elf.functions.all_mpi_data().filter_map(|(object, vaddr)| {
        Some(NamedObject { object: distance(vaddr, code), name: name(object)? })
    });
    let mut all: Vec<NamedObject> = found.collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_operations_have_the_names_of_the_standard() {
        assert_eq!(name("ompi_mpi_op_no_op").as_deref(), Some("MPI_NO_OP"));
        let others = ["ompi_mpi_op_sum_addr", "ompi_mpi_op_null", "ompi_mpi_int", "ompi_op_sum"];
        assert_eq!(others.map(name), [const { None }; 4]);
    }
}
