//! The instructions that probes are put on, as the plan saw them.

use std::collections::BTreeMap;

use analyzer::plan::Probe;
use analyzer::wire::FileId;

use super::facts::FileImage;
use crate::elf::{self, Contents};

/// Instructions of a file by their offset.
pub type Instructions = BTreeMap<u64, Vec<u8>>;

/// What is at the places of probes, in the files that the plan was made from.
pub fn probed_instructions(probes: &[Probe], files: &[FileImage]) -> BTreeMap<FileId, Instructions> {
    let images: BTreeMap<FileId, &Contents> = files.iter().map(|file| (file.id, &file.contents)).collect();
    let mut found: BTreeMap<FileId, Instructions> = BTreeMap::new();
    for probe in probes {
        let code = images.get(&probe.file).and_then(|image| image.bytes_from(probe.offset_bytes));
        if let Some(instruction) = code.and_then(first_instruction) {
            found.entry(probe.file).or_default().insert(probe.offset_bytes, instruction.to_vec());
        }
    }
    found
}

/// The first instruction of a piece of code; `None` if it is none.
pub fn first_instruction(code: &[u8]) -> Option<&[u8]> {
    code.get(..elf::instruction_len(code)?)
}

/// Whether an instruction is still there. One that nobody has seen is not.
pub fn is_unchanged(seen: Option<&[u8]>, now: &[u8]) -> bool {
    seen.is_some_and(|seen| !seen.is_empty() && now.starts_with(seen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{FileImage, PlanFacts, PlanOptions, plan};

    #[test]
    fn each_probe_of_a_plan_has_its_instruction() {
        let contents = Contents::from(std::fs::read("/proc/self/exe").expect("this test"));
        let id = FileId { dev: 1, inode: 2 };
        let files = vec![FileImage { id, path: "/a.out".into(), is_program: true, contents }];
        let facts = PlanFacts { files, ..PlanFacts::default() };
        let plan = plan(&facts, &PlanOptions::default(), 1).expect("a plan");
        let instructions = &probed_instructions(&plan.probes, &facts.files)[&id];
        assert!(!plan.probes.is_empty());
        for probe in &plan.probes {
            let now = facts.files[0].contents.bytes_from(probe.offset_bytes).expect("code");
            assert!(is_unchanged(instructions.get(&probe.offset_bytes).map(Vec::as_slice), now));
        }
    }

    #[test]
    fn an_instruction_that_was_not_seen_or_is_another_now_is_changed() {
        let call = [0xe8, 1, 2, 3, 4, 0x90];
        let seen = first_instruction(&call).expect("a call");
        assert_eq!(seen, &call[..5]);
        assert!(is_unchanged(Some(seen), &[0xe8, 1, 2, 3, 4, 0xc3]));
        assert!(!is_unchanged(Some(seen), &[0xe8, 1, 2, 3, 5, 0x90]));
        assert!(!is_unchanged(Some(seen), &[0xe8, 1]), "the file has become shorter");
        assert!(!is_unchanged(None, &call) && !is_unchanged(Some(&[]), &call));
    }
}
