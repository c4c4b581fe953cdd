//! Names of code places: function, file and line, from DWARF or from symbols.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;

use addr2line::Context;
use analyzer::input::Frame;
use gimli::{Dwarf, DwarfSections, EndianSlice, LittleEndian};
use memmap2::{Mmap, MmapOptions};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SegmentFlags};
use serde::{Deserialize, Serialize};

use crate::host::files::len_bytes;

type Elf<'d> = ElfFile64<'d, object::LittleEndian>;

/// Names of places of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceNames {
    /// For each place, the innermost inlined function first.
    pub frames: Vec<Vec<Frame>>,
    /// By this build id, which both have, the file with the debug information may be found, if it is another one.
    pub debug_build_id: Option<String>,
}

/// The names of places by their offsets in a file; `debug`: the file with its debug information.
pub(super) fn names(file: &File, debug: Option<&File>, offsets: &[u64]) -> Result<PlaceNames, String> {
    let (mapped, mapped_debug) = (map(file)?, debug.map(map).transpose()?);
    let (object, debug) = parse(&mapped, mapped_debug.as_deref())?;
    let sections = DebugSections::of(debug.as_ref().unwrap_or(&object));
    Ok(DebugNames::new(object, debug, &sections).names(offsets))
}

/// What tells one state of a file and its debug file from others.
pub(super) type NamesKey = Vec<i64>;

/// Files whose names were asked for, ready to be asked again.
#[derive(Default)]
pub(super) struct DebugNamesCache {
    sources: HashMap<NamesKey, DebugNames<'static>>,
}

impl DebugNamesCache {
    /// The same as [`names`], for which the files are read only once. Nothing is ever given back: this is for a process that
    /// has a limit of memory, and is started again when it is over.
    pub fn names(
        &mut self,
        key: NamesKey,
        files: (&File, Option<&File>),
        offsets: &[u64],
    ) -> Result<PlaceNames, String> {
        let source = match self.sources.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(kept_source(files)?),
        };
        Ok(source.names(offsets))
    }
}

fn kept_source((file, debug): (&File, Option<&File>)) -> Result<DebugNames<'static>, String> {
    let mapped: &'static Mmap = Box::leak(Box::new(map(file)?));
    let mapped_debug: Option<&'static Mmap> =
        debug.map(map).transpose()?.map(|map| &*Box::leak(Box::new(map)));
    let (object, debug) = parse(mapped, mapped_debug.map(|map| &**map))?;
    let sections = Box::leak(Box::new(DebugSections::of(debug.as_ref().unwrap_or(&object))));
    Ok(DebugNames::new(object, debug, sections))
}

/// A file and its debug file, if that is one.
fn parse<'d>(mapped: &'d [u8], debug: Option<&'d [u8]>) -> Result<(Elf<'d>, Option<Elf<'d>>), String> {
    let object = Elf::parse(mapped).map_err(|error| error.to_string())?;
    Ok((object, debug.and_then(|bytes| Elf::parse(bytes).ok())))
}

/// All that names places of one file.
struct DebugNames<'d> {
    object: Elf<'d>,
    context: Option<Context<EndianSlice<'d, LittleEndian>>>,
    symbols: NamedFunctions<'d>,
    debug_build_id: Option<String>,
}

impl<'d> DebugNames<'d> {
    fn new(object: Elf<'d>, debug: Option<Elf<'d>>, sections: &'d DebugSections<'d>) -> Self {
        let context = Context::from_dwarf(sections.dwarf()).ok();
        let symbols = NamedFunctions::of([&object, debug.as_ref().unwrap_or(&object)]);
        let is_here = debug.is_some() || object.section_by_name(".debug_info").is_some();
        let debug_build_id = if is_here { None } else { build_id(&object) };
        Self { object, context, symbols, debug_build_id }
    }

    fn names(&self, offsets: &[u64]) -> PlaceNames {
        let frames = |offset: &u64| match vaddr(&self.object, *offset) {
            Some(vaddr) => frames(self.context.as_ref(), &self.symbols, vaddr),
            None => Vec::new(),
        };
        PlaceNames {
            frames: offsets.iter().map(frames).collect(),
            debug_build_id: self.debug_build_id.clone(),
        }
    }
}

fn map(file: &File) -> Result<Mmap, String> {
    let len_bytes = len_bytes(file).and_then(|len| usize::try_from(len).map_err(io::Error::other));
    // SAFETY: it is only read, and who reads is the child: if somebody cuts the file off, that one dies.
    let mapped = len_bytes.and_then(|len| unsafe { MmapOptions::new().len(len).map(file) });
    mapped.map_err(|error| error.to_string())
}

/// The address of code at an offset.
fn vaddr(object: &Elf<'_>, offset: u64) -> Option<u64> {
    let is_code =
        |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.contains(object::elf::PF_X));
    object.segments().filter(|segment| is_code(segment.flags())).find_map(|segment| {
        let (start, len) = segment.file_range();
        let distance = offset.checked_sub(start).filter(|distance| *distance < len)?;
        segment.address().checked_add(distance)
    })
}

/// Hexadecimal. A file may name another one for its debug information as well; such names are not followed.
fn build_id(object: &Elf<'_>) -> Option<String> {
    let id = object.build_id().ok().flatten()?;
    Some(id.iter().take(64).map(|byte| format!("{byte:02x}")).collect())
}

/// Sections with debug information, uncompressed.
struct DebugSections<'d>(DwarfSections<Cow<'d, [u8]>>);

impl<'d> DebugSections<'d> {
    fn of(object: &Elf<'d>) -> Self {
        let section = |id: gimli::SectionId| -> Result<Cow<'d, [u8]>, ()> {
            let found = object.section_by_name(id.name());
            Ok(found.and_then(|section| section.uncompressed_data().ok()).unwrap_or_default())
        };
        Self(DwarfSections::load(section).unwrap_or_default())
    }

    fn dwarf(&self) -> Dwarf<EndianSlice<'_, LittleEndian>> {
        self.0.borrow(|section| EndianSlice::new(section, LittleEndian))
    }
}

/// Functions that have symbols, by address.
struct NamedFunctions<'d>(Vec<(u64, u64, &'d str)>);

impl<'d> NamedFunctions<'d> {
    fn of<'o>(objects: [&'o Elf<'d>; 2]) -> Self
    where
        'd: 'o,
    {
        let all = objects.into_iter().flat_map(|object| object.symbols().chain(object.dynamic_symbols()));
        let functions =
            all.filter(|symbol| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text);
        let mut all: Vec<_> =
            functions.filter_map(|s| Some((s.address(), s.size(), s.name().ok()?))).collect();
        all.sort_unstable();
        Self(all)
    }

    /// The function that holds an address.
    fn at(&self, vaddr: u64) -> Option<&'d str> {
        let behind = self.0.partition_point(|(start, ..)| *start <= vaddr);
        let (start, len, name) = self.0.get(behind.checked_sub(1)?)?;
        (*len == 0 || vaddr - start < *len).then_some(*name)
    }
}

fn frames(
    context: Option<&Context<EndianSlice<'_, LittleEndian>>>,
    symbols: &NamedFunctions<'_>,
    vaddr: u64,
) -> Vec<Frame> {
    let symbol = || symbols.at(vaddr).map(|name| addr2line::demangle_auto(name.into(), None).into_owned());
    let mut found = Vec::new();
    let inlined = context.and_then(|context| context.find_frames(vaddr).skip_all_loads().ok());
    if let Some(mut inlined) = inlined {
        while let Ok(Some(frame)) = inlined.next() {
            let named = frame.function.as_ref().and_then(|f| f.demangle().ok().map(Cow::into_owned));
            let Some(function) = named.or_else(symbol) else { continue };
            let place = frame.location.as_ref();
            let source = place.and_then(|place| place.file).map(str::to_owned);
            found.push(Frame { function, source, line: place.and_then(|place| place.line) });
        }
    }
    if found.is_empty() {
        found.extend(symbol().map(|function| Frame { function, source: None, line: None }));
    }
    found
}
