//! Separate debug files: beside a program, or where the distribution puts them.
//!
//! A program names its debug file as it likes. So names are not followed: a debug file is looked for in fixed places by the
//! build id of the program, and is taken only if it has the same one.

use std::path::{Path, PathBuf};

use super::files::{OpenedFile, open_path};
use super::parsing::FileParser;

/// Of the distribution's packages.
const BY_BUILD_ID: &str = "/usr/lib/debug/.build-id";

/// The debug file of a program or library with this build id.
pub(super) fn debug_file(of: &OpenedFile, build_id: &str, parser: &mut dyn FileParser) -> Option<OpenedFile> {
    places(&of.path, build_id).iter().find_map(|path| {
        let (_, file) = open_path(path).ok()?;
        let summary = parser.summary(&file).ok()?;
        (summary.build_id.as_deref() == Some(build_id)).then_some(file)
    })
}

fn places(program: &Path, build_id: &str) -> Vec<PathBuf> {
    let mut places = Vec::new();
    // Three bytes at least: a shorter one says nothing.
    if let Some((first, rest)) = build_id.split_at_checked(2).filter(|(_, rest)| rest.len() >= 4) {
        places.push(Path::new(BY_BUILD_ID).join(first).join(format!("{rest}.debug")));
    }
    if let Some((folder, name)) = program.parent().zip(program.file_name()) {
        let mut name = name.to_owned();
        name.push(".debug");
        places.push(folder.join(&name));
        places.push(folder.join(".debug").join(&name));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::parsing::InProcess;
    use super::*;

    #[test]
    fn a_debug_file_is_looked_for_by_build_id_and_beside_the_program() {
        let places = places(Path::new("/opt/bin/solver"), "ab12cd");
        let expected = [
            "/usr/lib/debug/.build-id/ab/12cd.debug",
            "/opt/bin/solver.debug",
            "/opt/bin/.debug/solver.debug",
        ];
        assert_eq!(places, expected.map(PathBuf::from));
    }

    #[test]
    fn a_file_beside_the_program_is_its_debug_file_only_with_its_build_id() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("solver");
        std::fs::copy("/proc/self/exe", &program).expect("a copy");
        let (_, opened) = open_path(&program).expect("a program");
        let build_id = InProcess.summary(&opened).expect("a program").build_id.expect("linkers write one");
        let beside = folder.path().join("solver.debug");
        rustix::fs::mknodat(rustix::fs::CWD, &beside, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .expect("a FIFO");
        assert!(debug_file(&opened, &build_id, &mut InProcess).is_none(), "nobody waits for a FIFO");
        std::fs::remove_file(&beside).expect("ours");
        std::fs::copy("/bin/sh", &beside).expect("a copy");
        assert!(debug_file(&opened, &build_id, &mut InProcess).is_none());
        std::fs::copy("/proc/self/exe", &beside).expect("a copy");
        assert_eq!(debug_file(&opened, &build_id, &mut InProcess).expect("it is there").path, beside);
    }
}
