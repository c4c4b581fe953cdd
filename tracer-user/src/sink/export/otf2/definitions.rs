//! What events of an archive name by numbers: texts, functions, communicators, threads.

use std::collections::BTreeMap;
use std::ffi::CString;

use analyzer::calls::{CallRow, Does};
use analyzer::messages::CallCommunicator;
use rustc_hash::FxHashMap;

use super::archive::{Archive, ArchiveError};
use super::library::{Otf2Handle, UNDEFINED_U32};

/// Texts that are kept; what comes after them is left out.
const MOST_TEXTS: usize = 1 << 17;
/// Communicators that are kept; messages in others are left out.
const MOST_COMMUNICATORS: usize = 1 << 16;

/// Number of the empty text.
const NO_TEXT: u32 = 0;
/// The attribute of an event that says where a call was made.
pub(super) const PLACE: u32 = 0;
const TYPE_STRING: u8 = 11;
const PARADIGM_MPI: u8 = 4;
const PROCESS: u8 = 1;
const CPU_THREAD: u8 = 1;
const COMM_LOCATIONS: u8 = 4;
const COMM_GROUP: u8 = 5;

/// Roles of functions.
const ROLE_FUNCTION: u8 = 1;
const ROLE_BARRIER: u8 = 15;
const ROLE_COLLECTIVE: u8 = 26;
const ROLE_POINT_TO_POINT: u8 = 28;
const ROLE_RMA: u8 = 29;

/// A thread of a rank, with its events counted.
#[derive(Clone, Debug)]
pub(super) struct DefinedLocation {
    pub number: u64,
    pub rank: u32,
    pub name: String,
    pub events: u64,
}

/// A rank.
#[derive(Clone, Debug, Default)]
pub(super) struct DefinedRank {
    /// Name of its node; none: it is not on the tapes.
    pub node: Option<String>,
}

/// A communicator, by the number that the archive has for it: those are without gaps.
#[derive(Clone, Debug)]
pub(super) struct DefinedCommunicator {
    pub reference: u32,
    pub communicator: CallCommunicator,
}

/// Numbers that were given out.
#[derive(Debug)]
pub(super) struct Definitions {
    texts: FxHashMap<String, u32>,
    in_order: Vec<String>,
    regions: BTreeMap<u32, &'static CallRow>,
    by_name: FxHashMap<&'static str, u32>,
    /// By their numbers in the job.
    communicators: FxHashMap<u32, DefinedCommunicator>,
}

impl Default for Definitions {
    fn default() -> Self {
        let mut new = Self {
            texts: FxHashMap::default(),
            in_order: Vec::new(),
            regions: BTreeMap::new(),
            by_name: FxHashMap::default(),
            communicators: FxHashMap::default(),
        };
        new.must_have_text("");
        new
    }
}

impl Definitions {
    /// The number of a text, if there is room for it.
    pub(super) fn text(&mut self, text: &str) -> Option<u32> {
        match self.texts.get(text) {
            Some(number) => Some(*number),
            None => (self.texts.len() < MOST_TEXTS).then(|| self.must_have_text(text)),
        }
    }

    fn must_have_text(&mut self, text: &str) -> u32 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = self.in_order.len() as u32;
        self.texts.insert(text.to_owned(), number);
        self.in_order.push(text.to_owned());
        number
    }

    /// The number of a function.
    pub(super) fn region(&mut self, row: &'static CallRow) -> u32 {
        let next = self.by_name.len() as u32;
        let number = *self.by_name.entry(&row.name).or_insert(next);
        self.regions.entry(number).or_insert(row);
        number
    }

    /// Learns a communicator.
    pub(super) fn communicator(&mut self, communicator: &CallCommunicator) {
        if self.communicators.len() < MOST_COMMUNICATORS {
            let reference = self.communicators.len() as u32;
            let defined = || DefinedCommunicator { reference, communicator: communicator.clone() };
            self.communicators.entry(communicator.number).or_insert_with(defined);
        }
    }

    /// A communicator that is known, by its number in the job.
    pub(super) fn known_communicator(&self, number: u32) -> Option<&DefinedCommunicator> {
        self.communicators.get(&number)
    }

    /// Ranks that are in any communicator.
    pub(super) fn members(&self) -> impl Iterator<Item = u32> {
        self.communicators.values().flat_map(|defined| defined.communicator.members().iter().copied())
    }

    /// Writes all of it; texts come last of what is gathered and first of what is written.
    pub(super) fn write(
        mut self,
        archive: &Archive,
        clock: TraceClock,
        ranks: &BTreeMap<u32, DefinedRank>,
        locations: &[DefinedLocation],
    ) -> Result<(), ArchiveError> {
        let named = self.name_all(ranks, locations);
        let writer = archive.global_definitions()?;
        let define = Defining { archive, writer };
        define.clock(clock)?;
        self.in_order.iter().enumerate().try_for_each(|(number, text)| define.text(number as u32, text))?;
        define.attribute(PLACE, named.place)?;
        for (number, row) in &self.regions {
            define.region(*number, self.texts[row.name.as_str()], role(row))?;
        }
        define.tree_node(0, named.job, named.machine_class, UNDEFINED_U32)?;
        for (number, node) in named.nodes.values().enumerate() {
            define.tree_node(number as u32 + 1, *node, named.node_class, 0)?;
        }
        let nodes: FxHashMap<&str, u32> =
            named.nodes.keys().enumerate().map(|(number, name)| (name.as_str(), number as u32 + 1)).collect();
        for (rank, defined) in ranks {
            let node = defined.node.as_deref().and_then(|name| nodes.get(name)).copied().unwrap_or(0);
            define.location_group(*rank, self.texts[&rank_name(*rank)], node)?;
        }
        for location in locations {
            define.location(location, self.texts[&location.name])?;
        }
        self.write_communicators(&define, ranks, &named)
    }

    fn write_communicators(
        &self,
        define: &Defining<'_>,
        ranks: &BTreeMap<u32, DefinedRank>,
        named: &NamedDefinitions,
    ) -> Result<(), ArchiveError> {
        // The first thread of a rank has the rank's number.
        let all: Vec<u64> = ranks.keys().map(|rank| u64::from(*rank)).collect();
        define.group(0, named.mpi, COMM_LOCATIONS, &all)?;
        let position = |rank: &u32| all.binary_search(&u64::from(*rank)).unwrap_or(0) as u64;
        let mut communicators: Vec<&DefinedCommunicator> = self.communicators.values().collect();
        communicators.sort_unstable_by_key(|defined| defined.reference);
        // A communicator's group has the number behind its own; readers want all groups first.
        for DefinedCommunicator { reference, communicator } in &communicators {
            let members: Vec<u64> = communicator.members().iter().map(position).collect();
            define.group(reference + 1, NO_TEXT, COMM_GROUP, &members)?;
        }
        for DefinedCommunicator { reference, communicator } in communicators {
            let name = self.texts[&communicator_name(communicator.number)];
            define.communicator(*reference, name, reference + 1)?;
        }
        Ok(())
    }

    /// Gives all names numbers.
    fn name_all(
        &mut self,
        ranks: &BTreeMap<u32, DefinedRank>,
        locations: &[DefinedLocation],
    ) -> NamedDefinitions {
        let regions: Vec<&str> = self.regions.values().map(|row| row.name.as_str()).collect();
        for name in regions {
            self.must_have_text(name);
        }
        let communicators: Vec<u32> = self.communicators.keys().copied().collect();
        for number in communicators {
            self.must_have_text(&communicator_name(number));
        }
        for rank in ranks.keys() {
            self.must_have_text(&rank_name(*rank));
        }
        for location in locations {
            self.must_have_text(&location.name);
        }
        let names = ranks.values().filter_map(|rank| rank.node.clone());
        let nodes: BTreeMap<String, u32> =
            names.map(|name| (name.clone(), self.must_have_text(&name))).collect();
        NamedDefinitions {
            place: self.must_have_text("called at"),
            job: self.must_have_text("job"),
            machine_class: self.must_have_text("machine"),
            node_class: self.must_have_text("node"),
            mpi: self.must_have_text("MPI"),
            nodes,
        }
    }
}

/// Numbers of texts.
struct NamedDefinitions {
    place: u32,
    job: u32,
    machine_class: u32,
    node_class: u32,
    mpi: u32,
    nodes: BTreeMap<String, u32>,
}

/// The clock of all events, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TraceClock {
    pub begin_ns: u64,
    pub length_ns: u64,
    /// Wall clock at the beginning, since 1970.
    pub wall_ns: u64,
}

fn rank_name(rank: u32) -> String {
    format!("rank {rank}")
}

fn communicator_name(number: u32) -> String {
    if number == 0 { "MPI_COMM_WORLD".to_owned() } else { format!("communicator {number}") }
}

fn role(row: &CallRow) -> u8 {
    match row.does {
        Does::Collective if row.name.contains("arrier") => ROLE_BARRIER,
        _ if row.is_collective() => ROLE_COLLECTIVE,
        Does::Send(_)
        | Does::Receive
        | Does::Exchange
        | Does::ReceiveMatched
        | Does::Probe
        | Does::ProbeMatched => ROLE_POINT_TO_POINT,
        Does::Window(_) | Does::OneSided(_) => ROLE_RMA,
        _ => ROLE_FUNCTION,
    }
}

/// Writes definitions one by one.
struct Defining<'a> {
    archive: &'a Archive,
    writer: Otf2Handle,
}

impl Defining<'_> {
    fn done(&self, code: i32) -> Result<(), ArchiveError> {
        self.archive.done("write definitions", code)
    }

    fn clock(&self, clock: TraceClock) -> Result<(), ArchiveError> {
        const NS_PER_S: u64 = 1_000_000_000;
        let TraceClock { begin_ns, length_ns, wall_ns } = clock;
        // SAFETY: of this and all below: the writer is the open archive's; strings and lists live until the call returns.
        self.done(unsafe {
            (self.archive.functions().define_clock)(self.writer, NS_PER_S, begin_ns, length_ns, wall_ns)
        })
    }

    fn text(&self, number: u32, text: &str) -> Result<(), ArchiveError> {
        // Names are a job's: a zero in one ends it.
        let until_zero = text.split('\0').next().unwrap_or_default();
        let text = CString::new(until_zero).map_err(|_| ArchiveError::BadName)?;
        // SAFETY: see above.
        self.done(unsafe { (self.archive.functions().define_string)(self.writer, number, text.as_ptr()) })
    }

    fn attribute(&self, number: u32, name: u32) -> Result<(), ArchiveError> {
        // SAFETY: see above.
        self.done(unsafe {
            (self.archive.functions().define_attribute)(self.writer, number, name, NO_TEXT, TYPE_STRING)
        })
    }

    fn region(&self, number: u32, name: u32, role: u8) -> Result<(), ArchiveError> {
        // SAFETY: see above.
        self.done(unsafe {
            (self.archive.functions().define_region)(
                self.writer,
                number,
                name,
                name,
                NO_TEXT,
                role,
                PARADIGM_MPI,
                0,
                NO_TEXT,
                0,
                0,
            )
        })
    }

    fn tree_node(&self, number: u32, name: u32, class: u32, parent: u32) -> Result<(), ArchiveError> {
        // SAFETY: see above.
        self.done(unsafe {
            (self.archive.functions().define_tree_node)(self.writer, number, name, class, parent)
        })
    }

    fn location_group(&self, rank: u32, name: u32, node: u32) -> Result<(), ArchiveError> {
        // SAFETY: see above.
        self.done(unsafe {
            (self.archive.functions().define_location_group)(
                self.writer,
                rank,
                name,
                PROCESS,
                node,
                UNDEFINED_U32,
            )
        })
    }

    fn location(&self, location: &DefinedLocation, name: u32) -> Result<(), ArchiveError> {
        let DefinedLocation { number, rank, events, .. } = *location;
        // SAFETY: see above.
        self.done(unsafe {
            (self.archive.functions().define_location)(self.writer, number, name, CPU_THREAD, events, rank)
        })
    }

    fn group(&self, number: u32, name: u32, kind: u8, members: &[u64]) -> Result<(), ArchiveError> {
        let count = members.len() as u32;
        // SAFETY: see above.
        self.done(unsafe {
            (self.archive.functions().define_group)(
                self.writer,
                number,
                name,
                kind,
                PARADIGM_MPI,
                0,
                count,
                members.as_ptr(),
            )
        })
    }

    fn communicator(&self, number: u32, name: u32, group: u32) -> Result<(), ArchiveError> {
        // SAFETY: see above.
        self.done(unsafe {
            (self.archive.functions().define_communicator)(self.writer, number, name, group, UNDEFINED_U32, 0)
        })
    }
}
