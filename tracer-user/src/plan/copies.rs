//! Probes where files copy memory.

use std::collections::BTreeSet;

use analyzer::plan::{ProbeClass, ProbePlace};

use super::facts::BoundCopy;
use super::packs::Packs;
use super::part::{File, PlanPart};
use super::role::FileRole;
use crate::elf::{
    CallPlaces, CopyScan, CopySite, MOST_SITES, SiteKind, UnseenCopies, Wanted, emulated, entry_place,
};

const INDIRECT: &str =
    "called through a pointer table (-fno-plt), and no instruction just before it is cheap";

pub(super) fn plan(
    files: &[File<'_>],
    scans: &[Option<CopyScan>],
    packs: &Packs,
    bound: Option<BoundCopy>,
) -> PlanPart {
    let mut part = PlanPart::default();
    let mut unplaced = Vec::new();
    for (file, scan) in files.iter().zip(scans) {
        let Some(scan) = scan else { continue };
        part.append(unseen(file, scan));
        let mut places = PlacesBefore { function: None };
        for site in &scan.sites {
            if packs.covers(file.image.id, site.within) {
                part.left_out.push(file.left_out(
                    Some(site.vaddr),
                    site.function,
                    "inside a function that packs or unpacks: its entry is probed instead",
                ));
            } else if !add_site(file, site, &mut places, &mut part) {
                unplaced.push((file, site));
            }
        }
    }
    if unplaced.iter().any(|(file, _)| file.role == FileRole::Named)
        && let Some(covering) = covering(files, bound)
    {
        return covered(part, covering);
    }
    part.left_out
        .extend(unplaced.iter().map(|(file, site)| file.left_out(Some(site.vaddr), site.function, INDIRECT)));
    part
}

/// Places before the calls of the function that was looked at last: sites come in order of function.
struct PlacesBefore<'f> {
    function: Option<(u64, Option<CallPlaces<'f>>)>,
}

impl<'f> PlacesBefore<'f> {
    fn place(&mut self, file: &File<'f>, site: &CopySite) -> Option<(u64, ProbePlace)> {
        if self.function.as_ref().is_none_or(|(start, _)| *start != site.within) {
            let places = file.elf.body(site.within).and_then(|body| CallPlaces::of(body, site.within));
            self.function = Some((site.within, places));
        }
        self.function.as_ref()?.1.as_ref()?.before(site.vaddr)
    }
}

/// Adds the probe of a site; false if there is no cheap place for it.
fn add_site<'f>(
    file: &File<'f>,
    site: &CopySite,
    places: &mut PlacesBefore<'f>,
    part: &mut PlanPart,
) -> bool {
    let found = match site.kind {
        SiteKind::Call | SiteKind::TailJump => {
            let place = file.elf.code_from(site.vaddr).and_then(emulated_first);
            place.map(|place| (site.vaddr, place, "the call itself: emulated, arguments intact"))
        }
        SiteKind::IndirectCall | SiteKind::IndirectJump => places
            .place(file, site)
            .map(|(at, place)| (at, place, "just before an indirect call, arguments already final")),
    };
    let probe = found.and_then(|(at, place, reason)| {
        let mut probe = file.probe(ProbeClass::Copy, site.function, site.vaddr, at, place)?;
        probe.reason = reason.into();
        Some(probe)
    });
    let placed = probe.is_some();
    part.probes.extend(probe);
    placed
}

/// How the kernel runs the first instruction, if cheaply.
fn emulated_first(code: &[u8]) -> Option<ProbePlace> {
    let len = crate::elf::instruction_len(code)?;
    emulated(&code[..len]).filter(|place| *place != ProbePlace::SingleStep)
}

/// Copies that have no call of their own.
fn unseen(file: &File<'_>, scan: &CopyScan) -> PlanPart {
    let mut part = PlanPart::default();
    if scan.is_cut {
        part.left_out.push(file.left_out(
            None,
            format!("copies beyond the first {MOST_SITES}"),
            "more places that copy memory than a program has: it may have been made to do harm",
        ));
    }
    let inline: BTreeSet<u64> = scan
        .unseen
        .iter()
        .filter_map(|u| if let UnseenCopies::Inline { vaddr } = u { Some(*vaddr) } else { None })
        .collect();
    if !inline.is_empty() {
        part.left_out.push(file.left_out(
            None,
            format!("{} inline copies (rep movs)", inline.len()),
            "a probe there is hit once per step of the copy, not once per copy",
        ));
    }
    for unseen in &scan.unseen {
        if let UnseenCopies::Pointer { vaddr, function } = unseen {
            part.left_out.push(file.left_out(
                Some(*vaddr),
                format!("calls of {function} through a pointer"),
                "its address is loaded here; where it is called cannot be told",
            ));
        }
    }
    part
}

/// The probe that sees every copy of the process: inside the C library's own function.
fn covering(files: &[File<'_>], bound: Option<BoundCopy>) -> Option<analyzer::plan::Probe> {
    let bound = bound?;
    let file = files.iter().find(|f| f.image.id == bound.file)?;
    let entry = file.elf.vaddr_of(bound.offset_bytes)?;
    let found = entry_place(file.elf.body(entry)?, entry, Wanted { arguments: 3, returns: false }).ok()?;
    let mut probe = file.probe(ProbeClass::Copy, "memcpy", entry, found.vaddr, found.place)?;
    probe.stack_bytes = found.stack_bytes;
    probe.reason =
        "the C library's own copy function: a library named by the user calls it in ways that cannot be \
                    probed one by one. It sees every copy of the process, without the place of the call"
            .into();
    Some(probe)
}

/// With the covering probe, a probe at a call would report the same copy twice.
fn covered(mut part: PlanPart, covering: analyzer::plan::Probe) -> PlanPart {
    part.left_out.extend(part.probes.drain(..).map(|probe| analyzer::plan::LeftOut {
        file: probe.file,
        offset_bytes: Some(probe.site_offset_bytes),
        what: probe.function,
        reason: "the probe in the C library's copy function sees it".into(),
    }));
    part.probes.push(covering);
    part
}
