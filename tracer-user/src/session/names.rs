//! Names of shared files: the kernel part knows only numbers.

use std::collections::BTreeSet;

use analyzer::input::Input;
use analyzer::plan::{Plan, PlannedFile};
use analyzer::wire::FileId;

use super::host::Host;
use super::recorder::Recorder;

/// Which files have names already.
#[derive(Default)]
pub(super) struct SharedNames(BTreeSet<FileId>);

impl SharedNames {
    /// A process has mapped a shared file. Its name must be known before the record of that is
    /// given out, or the segment would have one name in some ranks and none in others.
    pub(super) fn learn(&mut self, pid: u32, file: FileId, host: &dyn Host, recorder: &mut Recorder) {
        if self.0.contains(&file) {
            return;
        }
        let mut files = Vec::new();
        for mapping in host.mappings(pid).unwrap_or_default() {
            if mapping.shared && mapping.file.inode != 0 && self.0.insert(mapping.file) {
                files.push(PlannedFile { id: mapping.file, path: mapping.name, ..PlannedFile::default() });
            }
        }
        if !files.is_empty() {
            recorder.push(Input::Plan(Box::new(Plan { files, ..Plan::default() })));
        }
    }
}
