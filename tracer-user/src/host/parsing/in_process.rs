//! Reading files in this very process: what the child does, and tests.

use super::{FileParser, FileSummary, FoundFile, PlaceNames, PlanRequest, PlannedCode, names};
use crate::elf::{self, Contents};
use crate::host::files::OpenedFile;
use crate::plan::code::probed_instructions;
use crate::plan::{FileImage, PlanFacts, defines_mpi, plan_with_slots};

/// Reads files where it is asked.
#[derive(Debug, Default)]
pub struct InProcess;

impl FileParser for InProcess {
    fn summary(&mut self, file: &OpenedFile) -> Result<FileSummary, String> {
        summary(&file.read_image().map_err(|error| error.to_string())?)
    }

    fn names(
        &mut self,
        file: &OpenedFile,
        debug: Option<&OpenedFile>,
        offsets: &[u64],
    ) -> Result<PlaceNames, String> {
        names::names(file.file(), debug.map(OpenedFile::file), offsets)
    }

    fn plan(&mut self, files: &[FoundFile], mut request: PlanRequest) -> Result<PlannedCode, String> {
        let mut images = Vec::new();
        for found in files {
            let (id, path, is_program) = (found.id, found.path.clone(), found.is_program);
            match found.file.read_image() {
                Ok(contents) => images.push(FileImage { id, path, is_program, contents }),
                Err(error) => request.unreadable.push((path, error.to_string())),
            }
        }
        planned(images, request)
    }
}

/// What is in a file.
pub(super) fn summary(contents: &Contents) -> Result<FileSummary, String> {
    let facts = elf::parse(contents).map_err(|error| error.to_string())?;
    let first_byte = facts.segments.iter().find(|s| s.exec).map(|s| s.vaddr.wrapping_sub(s.offset_bytes));
    let copies = facts.slots.iter().filter(|(_, name)| matches!(**name, "memcpy" | "memmove"));
    let mut copy_slots: Vec<u64> = match first_byte {
        Some(first_byte) => copies.map(|(slot, _)| slot.wrapping_sub(first_byte)).collect(),
        None => Vec::new(),
    };
    copy_slots.sort_unstable();
    Ok(FileSummary {
        has_mpi: defines_mpi(&facts),
        build_id: facts.build_id,
        needed: facts.needed.iter().map(|name| (*name).to_owned()).collect(),
        run_path: facts.run_path.map(str::to_owned),
        copy_slots,
    })
}

/// The plan of what was read.
pub(super) fn planned(files: Vec<FileImage>, request: PlanRequest) -> Result<PlannedCode, String> {
    let PlanRequest { options, earlier, bound_copy, verbs, unreadable } = request;
    let facts = PlanFacts { files, bound_copy, verbs, unreadable };
    let planned = plan_with_slots(&facts, &options, &earlier);
    let (plan, slots) = planned.map_err(|error| error.to_string())?;
    let code = probed_instructions(&plan.probes, &facts.files).into_iter().collect();
    Ok(PlannedCode { plan, code, slots })
}
