//! Where in the program a rank makes its call.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use analyzer::input::Mapping;
use replay::shared_page::{PageText, SharedPage};

use crate::host::gather::read_maps;
use crate::host::source_lines::SourceLines;

#[derive(Default)]
pub(super) struct PlacesOfCalls {
    lines: SourceLines,
}

impl PlacesOfCalls {
    /// ` at master.c:42`, or nothing if it is not known.
    pub(super) fn words(&mut self, page: &SharedPage) -> String {
        let line = place(page).and_then(|(path, offset_bytes)| self.lines.at(&path, offset_bytes));
        line.map(|line| format!(" at {line}")).unwrap_or_default()
    }
}

/// The place as a page has it.
pub(super) fn place_text(page: &SharedPage) -> Option<String> {
    place(page).map(|(path, offset_bytes)| format!("{offset_bytes:x} {}", path.display()))
}

/// A file, and how far into it. A rank that has diverged has said it: it may be gone.
fn place(page: &SharedPage) -> Option<(PathBuf, u64)> {
    let said = page.text(PageText::Place);
    if let Some((offset_bytes, path)) = said.split_once(' ') {
        return Some((path.into(), u64::from_str_radix(offset_bytes, 16).ok()?));
    }
    let mapped = read_maps(page.pid.load(Ordering::Relaxed)).ok()?;
    mapped_place(&mapped, page.return_address.load(Ordering::Relaxed))
}

/// The file that the call with this return address is in, and the place of the call there.
fn mapped_place(mapped: &[Mapping], return_address: u64) -> Option<(PathBuf, u64)> {
    let call = return_address.checked_sub(1)?;
    let mapping = mapped.iter().find(|mapping| (mapping.start..mapping.end).contains(&call))?;
    Some((mapping.name.as_str().into(), call - mapping.start + mapping.offset_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_just_before_where_it_returns_to() {
        let mapping = |start, offset_bytes, name: &str| Mapping {
            start,
            end: start + 0x1000,
            offset_bytes,
            name: name.into(),
            ..Mapping::default()
        };
        let mapped = [mapping(0x1000, 0x500, "/app"), mapping(0x2000, 0, "/lib")];
        assert_eq!(mapped_place(&mapped, 0x1010), Some(("/app".into(), 0x50f)));
        // A call that never returns may be the last of its file.
        assert_eq!(mapped_place(&mapped, 0x2000), Some(("/app".into(), 0x14ff)));
        assert_eq!(mapped_place(&mapped, 0), None);
        assert_eq!(mapped_place(&mapped, 0x4000), None);
    }
}
