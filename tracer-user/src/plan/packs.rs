//! Probes at functions that pack or unpack derived datatypes: one hit for the whole, not one
//! for each block.

use analyzer::plan::ProbeClass;
use analyzer::wire::FileId;

use super::part::{File, PlanPart};
use super::tables::{CONVERTOR_PACK, PACKERS};
use crate::elf::{Wanted, convertor_base_offset, entry_place};

/// What was decided, and in which functions copies are therefore not watched one by one.
#[derive(Default)]
pub(super) struct Packs {
    pub part: PlanPart,
    functions: Vec<(FileId, u64)>,
}

impl Packs {
    /// The copies of this function (file, address) are seen as one pack.
    pub fn covers(&self, file: FileId, function: u64) -> bool {
        self.functions.contains(&(file, function))
    }
}

pub(super) fn plan(files: &[File<'_>]) -> Packs {
    let mut packs = Packs::default();
    for file in files.iter().filter(|f| f.elf.function(PACKERS[0].0).is_some()) {
        plan_file(file, &mut packs);
    }
    let found_any = !packs.part.probes.is_empty() || !packs.part.left_out.is_empty();
    if !found_any && let Some(mpi) = files.iter().find(|f| f.role.is_mpi()) {
        packs.part.left_out.push(mpi.left_out(
            None,
            "packing of derived datatypes",
            "no function that is known to pack: this library packs inline, straight into its buffers",
        ));
    }
    packs
}

fn plan_file(file: &File<'_>, packs: &mut Packs) {
    let base = file.elf.function(CONVERTOR_PACK).and_then(|f| convertor_base_offset(&file.elf, f.vaddr));
    let Some(base) = base else {
        packs.part.left_out.push(file.left_out(
            None,
            "packing of derived datatypes as one movement",
            "where a convertor keeps the user's buffer could not be found in opal_convertor_pack; \
             its copies are watched one by one",
        ));
        return;
    };
    for (name, unpacks) in PACKERS {
        let Some(function) = file.elf.function(name) else { continue };
        let class = if unpacks { ProbeClass::Unpack } else { ProbeClass::Pack };
        let body = file.elf.body(function.vaddr).unwrap_or_default();
        let wanted = Wanted { arguments: 4, returns: false };
        let probe = entry_place(body, function.vaddr, wanted).map_err(|e| e.to_string()).and_then(|found| {
            let mut probe = file
                .probe(class, name, function.vaddr, found.vaddr, found.place)
                .ok_or("its code is not in the file")?;
            probe.stack_bytes = found.stack_bytes;
            Ok(probe)
        });
        match probe {
            Ok(mut probe) => {
                probe.argument = base;
                probe.reason = "entry: one hit for all blocks of a derived datatype".into();
                packs.part.probes.push(probe);
                packs.functions.push((file.image.id, function.vaddr));
            }
            Err(reason) => packs.part.left_out.push(file.left_out(Some(function.vaddr), name, reason)),
        }
    }
}
