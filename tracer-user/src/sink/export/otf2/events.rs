//! A job as an archive of OTF2: for each thread its calls, with what they did to messages.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;

use analyzer::calls::{CallRow, Does, Form};
use analyzer::finding::Severity;
use analyzer::input::ClockReading;
use analyzer::messages::{CallId, MessageFacts, MessageId};
use analyzer::timeline::kept_map::KeptMap;
use anyhow::Result;
use rustc_hash::FxHashMap;
use rustix::process::{Resource, Rlimit};

use super::super::exported::{
    CompletedMessage, ExportCounts, ExportedCall, ExportedFinding, ExportedGap, ExportedMessage,
    ExportedMovement, ExportedSession, Exporter,
};
use super::archive::{Archive, ArchiveError, EventWriter};
use super::definitions::{DefinedCommunicator, DefinedLocation, DefinedRank, Definitions, PLACE, TraceClock};
use super::library::{ErrorCode, Functions, Otf2Handle, Otf2Library, UNDEFINED_U32, UNDEFINED_U64};
use crate::host::output_folder::OutputFolder;

/// Nonblocking collective calls that may still be waited for.
const MOST_COLLECTIVES: usize = 1 << 16;

/// A thread that has events.
#[derive(Debug)]
struct EventLocation {
    number: u64,
    rank: u32,
    name: String,
    writer: EventWriter,
    /// Which of its rank's threads it is, from 0.
    index: u64,
    /// Events of a thread must be in order: a record that came late is moved up to the one before it.
    last_ns: u64,
}

/// What an event of a collective call says.
#[derive(Clone, Copy, Debug)]
struct CollectiveFacts {
    operation: u8,
    comm: u32,
    root: u32,
    sent_bytes: u64,
    received_bytes: u64,
}

/// A finding, to be written at the end.
struct FindingMark {
    time_ns: u64,
    severity: Severity,
    text: CString,
}

/// Writes an archive.
pub struct ArchiveExport {
    folder: OutputFolder,
    /// None: it is closed.
    archive: Option<Archive>,
    definitions: Definitions,
    /// By rank and thread.
    locations: FxHashMap<(u32, u32), EventLocation>,
    /// How many threads a rank has.
    threads: FxHashMap<u32, u64>,
    ranks: BTreeMap<u32, DefinedRank>,
    collectives: KeptMap<CallId, CollectiveFacts>,
    marks: Vec<FindingMark>,
    clock: TraceClock,
    counts: ExportCounts,
}

impl ArchiveExport {
    /// Into an empty folder.
    ///
    /// # Errors
    /// OTF2 cannot make an archive there.
    pub fn create(library: Otf2Library, folder: OutputFolder) -> Result<Self, ArchiveError> {
        open_many_files();
        let archive = Archive::create(Arc::new(library), &folder.path())?;
        Ok(Self {
            folder,
            archive: Some(archive),
            definitions: Definitions::default(),
            locations: FxHashMap::default(),
            threads: FxHashMap::default(),
            ranks: BTreeMap::new(),
            collectives: KeptMap::new(MOST_COLLECTIVES),
            marks: Vec::new(),
            clock: TraceClock::default(),
            counts: ExportCounts::default(),
        })
    }

    fn archive(&self) -> Result<&Archive, ArchiveError> {
        self.archive.as_ref().ok_or(ArchiveError::Failed { what: "write", code: "it is closed".to_owned() })
    }

    /// Learns a thread.
    fn learn(&mut self, session: &ExportedSession<'_>, call: &ExportedCall<'_>) -> Result<(), ArchiveError> {
        let (rank, tid) = (call.id.rank, call.id.tid);
        if self.locations.contains_key(&(rank, tid)) {
            return Ok(());
        }
        let index = self.threads.get(&rank).copied().unwrap_or(0);
        let number = index << 32 | u64::from(rank);
        let writer = self.archive()?.event_writer(number)?;
        self.threads.insert(rank, index + 1);
        let node = Some(session.node_of(call.pid).to_owned());
        self.ranks.entry(rank).or_insert(DefinedRank { node });
        let name = match tid == call.pid {
            true => "main thread".to_owned(),
            false => format!("thread {}", session.pid_on_node(tid)),
        };
        self.locations.insert((rank, tid), EventLocation { number, rank, name, writer, index, last_ns: 0 });
        Ok(())
    }

    /// What a collective call says; none: it is none, or its communicator is not known.
    fn collective(&self, call: &ExportedCall<'_>) -> Option<CollectiveFacts> {
        let operation = collective_operation(call.row)?;
        let comm = self.definitions.known_communicator(call.communicator?.number)?.reference;
        let (sent_bytes, received_bytes) = collective_sizes(call);
        let root = call.root.and_then(|root| u32::try_from(root).ok()).unwrap_or(UNDEFINED_U32);
        Some(CollectiveFacts { operation, comm, root, sent_bytes, received_bytes })
    }

    fn write_call(&mut self, call: &ExportedCall<'_>) -> Result<(), ArchiveError> {
        let region = self.definitions.region(call.row);
        let place = call.place.and_then(|place| self.definitions.text(place));
        let collective = self.collective(call);
        if let Some(facts) = collective.filter(|_| call.row.form == Form::Nonblocking) {
            self.collectives.entry(call.id, || facts);
        }
        let over: Vec<(CallId, CollectiveFacts)> = call
            .parts
            .collectives
            .iter()
            .filter_map(|began| Some((*began, self.collectives.remove(*began)?)))
            .collect();
        let Self { archive: Some(archive), definitions, locations, clock, .. } = self else { return Ok(()) };
        let Some(location) = locations.get_mut(&(call.id.rank, call.id.tid)) else { return Ok(()) };
        let begin_ns = call.begin_ns.max(location.last_ns);
        let end_ns = call.end_ns.unwrap_or(begin_ns).max(begin_ns);
        location.last_ns = end_ns;
        clock.length_ns = clock.length_ns.max(end_ns.saturating_sub(clock.begin_ns));
        let thread = LocationEvents { archive, definitions, location };
        thread.enter(begin_ns, region, place)?;
        thread.beginning(begin_ns, call, collective.is_some())?;
        thread.end(end_ns, call, &over, collective)?;
        thread.leave(end_ns, region)
    }

    fn write_end(&mut self) -> Result<(), ArchiveError> {
        // Whoever is in a communicator is a rank, whether or not anything of it is on the tapes.
        for rank in self.definitions.members() {
            self.ranks.entry(rank).or_default();
        }
        let Some(archive) = self.archive.take() else { return Ok(()) };
        let mut locations = Vec::new();
        for location in self.locations.drain().map(|(_, location)| location) {
            let EventLocation { number, rank, name, writer, .. } = location;
            let events = archive.close_events(writer)?;
            locations.push(DefinedLocation { number, rank, name, events });
        }
        for rank in self.ranks.keys().filter(|rank| !self.threads.contains_key(rank)) {
            let number = u64::from(*rank);
            archive.close_events(archive.event_writer(number)?)?;
            locations.push(DefinedLocation {
                number,
                rank: *rank,
                name: "not on the tape".to_owned(),
                events: 0,
            });
        }
        locations.sort_by_key(|location| (location.rank, location.number));
        archive.end_events(&locations.iter().map(|location| location.number).collect::<Vec<_>>())?;
        let definitions = std::mem::take(&mut self.definitions);
        definitions.write(&archive, self.clock, &self.ranks, &locations)?;
        if !self.marks.is_empty() {
            write_marks(&archive, &self.marks)?;
        }
        archive.close()
    }
}

impl Exporter for ArchiveExport {
    fn session(&mut self, session: &ExportedSession<'_>) -> Result<()> {
        let start = session.start;
        self.clock = TraceClock { begin_ns: start.time_ns, length_ns: 0, wall_ns: start.wall_clock_ns() };
        Ok(())
    }

    fn clock(&mut self, _: &ClockReading) -> Result<()> {
        Ok(())
    }

    fn call(&mut self, session: &ExportedSession<'_>, call: &ExportedCall<'_>) -> Result<()> {
        self.learn(session, call)?;
        if let Some(communicator) = call.communicator {
            self.definitions.communicator(communicator);
        }
        self.write_call(call)?;
        self.counts.calls += 1;
        Ok(())
    }

    fn message(&mut self, _: &ExportedSession<'_>, _: &ExportedMessage) -> Result<()> {
        self.counts.messages += 1;
        Ok(())
    }

    fn movement(&mut self, _: &ExportedSession<'_>, _: &ExportedMovement<'_>) -> Result<()> {
        Ok(())
    }

    fn gap(&mut self, _: &ExportedSession<'_>, _: &ExportedGap) -> Result<()> {
        Ok(())
    }

    fn finding(&mut self, found: &ExportedFinding<'_>) -> Result<()> {
        let text = found.finding.summary.split('\0').next().unwrap_or_default();
        let text = CString::new(text).unwrap_or_default();
        self.marks.push(FindingMark { time_ns: found.raised_ns, severity: found.finding.severity, text });
        self.counts.findings += 1;
        Ok(())
    }

    fn finish(&mut self, _: &ExportedSession<'_>) -> Result<()> {
        self.write_end()?;
        Ok(self.folder.give_to_caller()?)
    }

    fn counts(&self) -> ExportCounts {
        self.counts
    }

    fn takes_movements(&self) -> bool {
        false
    }
}

/// Writes events of a thread.
struct LocationEvents<'a> {
    archive: &'a Archive,
    definitions: &'a Definitions,
    location: &'a EventLocation,
}

impl LocationEvents<'_> {
    fn functions(&self) -> &Functions {
        self.archive.functions()
    }

    fn writer(&self) -> Otf2Handle {
        self.location.writer.0
    }

    fn done(&self, code: ErrorCode) -> Result<(), ArchiveError> {
        self.archive.done("write events", code)
    }

    fn enter(&self, time_ns: u64, region: u32, place: Option<u32>) -> Result<(), ArchiveError> {
        let attributes = match place {
            Some(place) => self.archive.attribute(PLACE, place)?,
            None => std::ptr::null_mut(),
        };
        // SAFETY: of this and all below: the writer is one of the open archive's, and is not closed; attributes are the
        // archive's, or none.
        self.done(unsafe { (self.functions().enter)(self.writer(), attributes, time_ns, region) })
    }

    fn leave(&self, time_ns: u64, region: u32) -> Result<(), ArchiveError> {
        // SAFETY: see above.
        self.done(unsafe { (self.functions().leave)(self.writer(), std::ptr::null_mut(), time_ns, region) })
    }

    /// What a call begins.
    fn beginning(
        &self,
        begin_ns: u64,
        call: &ExportedCall<'_>,
        is_collective: bool,
    ) -> Result<(), ArchiveError> {
        for (message, facts) in &call.parts.posted {
            self.posted(begin_ns, call.row, *message, facts)?;
        }
        match call.row.form {
            Form::Blocking if is_collective => self.collective_begin(begin_ns),
            Form::Nonblocking if is_collective => self.collective_request(begin_ns, call.id),
            _ => Ok(()),
        }
    }

    /// What is over with a call.
    fn end(
        &self,
        end_ns: u64,
        call: &ExportedCall<'_>,
        over: &[(CallId, CollectiveFacts)],
        collective: Option<CollectiveFacts>,
    ) -> Result<(), ArchiveError> {
        for completed in &call.parts.completed {
            self.completed(end_ns, call, completed)?;
        }
        for (began, facts) in over {
            self.collective_complete(end_ns, *began, *facts)?;
        }
        match collective.filter(|_| call.row.form == Form::Blocking) {
            Some(facts) => self.collective_end(end_ns, facts),
            None => Ok(()),
        }
    }

    /// A message that begins with the call.
    fn posted(
        &self,
        time_ns: u64,
        row: &CallRow,
        message: MessageId,
        facts: &MessageFacts,
    ) -> Result<(), ArchiveError> {
        let (writer, request, none) = (self.writer(), self.request(message), std::ptr::null_mut());
        let is_blocking = row.form == Form::Blocking && row.does != Does::Start;
        let envelope = self.envelope(facts);
        // SAFETY: see above.
        self.done(unsafe {
            match (facts.sends, is_blocking, envelope) {
                (false, true, _) | (true, _, None) => return Ok(()),
                (false, false, _) => (self.functions().irecv_request)(writer, none, time_ns, request),
                (true, true, Some((peer, comm, tag, bytes))) => {
                    (self.functions().send)(writer, none, time_ns, peer, comm, tag, bytes)
                }
                (true, false, Some((peer, comm, tag, bytes))) => {
                    (self.functions().isend)(writer, none, time_ns, peer, comm, tag, bytes, request)
                }
            }
        })
    }

    /// A message that is over with the call.
    fn completed(
        &self,
        time_ns: u64,
        call: &ExportedCall<'_>,
        completed: &CompletedMessage,
    ) -> Result<(), ArchiveError> {
        let CompletedMessage { message, facts, cancelled } = completed;
        let (writer, request, none) = (self.writer(), self.request(*message), std::ptr::null_mut());
        let is_own = message.call == call.id && call.row.form == Form::Blocking;
        let envelope = self.envelope(facts);
        // SAFETY: see above.
        self.done(unsafe {
            match (facts.sends, is_own, envelope) {
                _ if *cancelled => (self.functions().request_cancelled)(writer, none, time_ns, request),
                // It began unwritten as well.
                (_, _, None) | (true, true, _) => return Ok(()),
                (true, false, Some(_)) => (self.functions().isend_complete)(writer, none, time_ns, request),
                (false, true, Some((peer, comm, tag, bytes))) => {
                    (self.functions().recv)(writer, none, time_ns, peer, comm, tag, bytes)
                }
                (false, false, Some((peer, comm, tag, bytes))) => {
                    (self.functions().irecv)(writer, none, time_ns, peer, comm, tag, bytes, request)
                }
            }
        })
    }

    /// The other side of a message, its communicator, tag and size; none: it is not known who that is.
    fn envelope(&self, facts: &MessageFacts) -> Option<(u32, u32, u32, u64)> {
        let DefinedCommunicator { reference, communicator } =
            self.definitions.known_communicator(facts.comm?)?;
        let of_rank = |rank: u32| communicator.members().iter().position(|member| *member == rank);
        let peer = facts.peer.or_else(|| Some(of_rank(facts.peer_rank?)? as u32))?;
        let tag = facts.tag.map_or(UNDEFINED_U32, |tag| tag as u32);
        Some((peer, *reference, tag, facts.len_bytes.unwrap_or(UNDEFINED_U64)))
    }

    fn collective_begin(&self, time_ns: u64) -> Result<(), ArchiveError> {
        // SAFETY: see above.
        self.done(unsafe {
            (self.functions().collective_begin)(self.writer(), std::ptr::null_mut(), time_ns)
        })
    }

    fn collective_end(&self, time_ns: u64, facts: CollectiveFacts) -> Result<(), ArchiveError> {
        let CollectiveFacts { operation, comm, root, sent_bytes, received_bytes } = facts;
        let (writer, none) = (self.writer(), std::ptr::null_mut());
        // SAFETY: see above.
        self.done(unsafe {
            (self.functions().collective_end)(
                writer,
                none,
                time_ns,
                operation,
                comm,
                root,
                sent_bytes,
                received_bytes,
            )
        })
    }

    fn collective_request(&self, time_ns: u64, call: CallId) -> Result<(), ArchiveError> {
        let request = self.request(MessageId { call, part: 0 });
        // SAFETY: see above.
        self.done(unsafe {
            (self.functions().collective_request)(self.writer(), std::ptr::null_mut(), time_ns, request)
        })
    }

    fn collective_complete(
        &self,
        time_ns: u64,
        began: CallId,
        facts: CollectiveFacts,
    ) -> Result<(), ArchiveError> {
        let CollectiveFacts { operation, comm, root, sent_bytes, received_bytes } = facts;
        let (writer, none) = (self.writer(), std::ptr::null_mut());
        let request = self.request(MessageId { call: began, part: 0 });
        // SAFETY: see above.
        self.done(unsafe {
            (self.functions().collective_complete)(
                writer,
                none,
                time_ns,
                operation,
                comm,
                root,
                sent_bytes,
                received_bytes,
                request,
            )
        })
    }

    /// A number for a request, which no other one of the thread has.
    fn request(&self, message: MessageId) -> u64 {
        const PART_BITS: u32 = 16;
        self.location.index << 48
            | u64::from(message.call.number) << PART_BITS
            | u64::from(message.part as u16)
    }
}

/// Each thread of the job has a file.
fn open_many_files() {
    let limits = rustix::process::getrlimit(Resource::Nofile);
    // Where that is not allowed, OTF2 says that there are too many.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}

fn write_marks(archive: &Archive, marks: &[FindingMark]) -> Result<(), ArchiveError> {
    const MEDIUM: u8 = 2;
    const HIGH: u8 = 3;
    const GLOBAL: u8 = 0;
    archive.write_markers(|writer| {
        let functions = archive.functions();
        let done = |code| archive.done("write marks", code);
        for (number, category, severity) in [(0, c"warning", HIGH), (1, c"notice", MEDIUM)] {
            // SAFETY: of this and below: the writer is the open archive's; strings live until the call returns.
            done(unsafe {
                (functions.define_marker)(writer, number, c"dmscope".as_ptr(), category.as_ptr(), severity)
            })?;
        }
        marks.iter().try_for_each(|mark| {
            let number = u32::from(mark.severity != Severity::Warning);
            // SAFETY: see above.
            done(unsafe {
                (functions.marker)(writer, mark.time_ns, 0, number, GLOBAL, UNDEFINED_U64, mark.text.as_ptr())
            })
        })
    })
}

/// Numbers that OTF2 gives to collective operations.
fn collective_operation(row: &CallRow) -> Option<u8> {
    const NAMES: [&str; 17] = [
        "barrier",
        "bcast",
        "gather",
        "gatherv",
        "scatter",
        "scatterv",
        "allgather",
        "allgatherv",
        "alltoall",
        "alltoallv",
        "alltoallw",
        "allreduce",
        "reduce",
        "reduce_scatter",
        "scan",
        "exscan",
        "reduce_scatter_block",
    ];
    const MAKES: u8 = 17;
    const FREES: u8 = 18;
    match row.does {
        Does::Collective => {
            let name = row.name.strip_prefix("MPI_")?.to_ascii_lowercase();
            let name = name.strip_suffix("_init").unwrap_or(&name);
            let plain = if row.form == Form::Nonblocking { name.strip_prefix('i')? } else { name };
            let plain = plain.strip_prefix("neighbor_").unwrap_or(plain);
            let known = NAMES.iter().position(|known| *known == plain).map(|at| at as u8);
            known.or_else(|| {
                let makes = ["MPI_Win_create", "MPI_Win_allocate", "MPI_File_open"];
                makes.iter().any(|making| row.name.starts_with(making)).then_some(MAKES)
            })
        }
        Does::MakeCommunicator(_) if row.is_collective() => Some(MAKES),
        Does::FreeCommunicator => Some(FREES),
        _ => None,
    }
}

/// What a rank gives and gets, as far as that is known.
fn collective_sizes(call: &ExportedCall<'_>) -> (u64, u64) {
    match (call.row.name.as_str(), call.collective_bytes) {
        ("MPI_Barrier" | "MPI_Ibarrier", _) => (0, 0),
        (_, Some(bytes)) => (bytes, bytes),
        _ => (UNDEFINED_U64, UNDEFINED_U64),
    }
}

#[cfg(test)]
mod tests {
    use analyzer::calls::rows;

    use super::*;

    #[test]
    fn collective_calls_of_all_forms_have_the_number_of_their_operation() {
        let of = |name: &str| analyzer::calls::row(name).and_then(collective_operation);
        for (name, number) in [
            ("MPI_Barrier", Some(0)),
            ("MPI_Ibcast", Some(1)),
            ("MPI_Allreduce", Some(11)),
            ("MPI_Iallreduce", Some(11)),
            ("MPI_Reduce_scatter_block", Some(16)),
            ("MPI_Neighbor_alltoall", Some(8)),
            ("MPI_Comm_split", Some(17)),
            ("MPI_Comm_free", Some(18)),
            ("MPI_Win_allocate", Some(17)),
            ("MPI_Win_fence", None),
            ("MPI_Send", None),
            ("MPI_Finalize", None),
        ] {
            assert_eq!(of(name), number, "{name}");
        }
        let unnumbered =
            rows().filter(|row| row.does == Does::Collective && collective_operation(row).is_none());
        let names: Vec<&str> = unnumbered.map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["MPI_Win_fence"]);
    }
}
