//! Says what is due when a rank runs again.

mod due;
mod row;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::{HashMap, VecDeque};

use crate::answer::{BadRecord, CLOCKS, Mark, ReceiveEnd, RecordEntry};
use crate::cut::RankCut;
use crate::divergence::{AskedFor, Divergence};
use crate::open_receives::OpenReceives;
use crate::recording::MOST_THREADS;
use crate::thread_name::CLOCKS_ROW;

pub use due::Due;
use row::{RecordMarks, ThreadRow, is_played};
pub use turns::TurnDue;
use turns::TurnOrder;

/// The record of one rank, and how far it has been played.
///
/// A rank has one thread, unless its record has others or others act. Who acts is said before it does ([`Playback::speak`]).
#[derive(Debug)]
pub struct Playback {
    /// One for each thread: first those of the record.
    rows: Vec<ThreadRow>,
    /// Numbers of the threads but the first, by name.
    names: HashMap<u64, usize>,
    /// How many of them the record has.
    recorded: usize,
    /// The thread that acts.
    speaker: usize,
    turns: TurnOrder,
    /// Whose message receives get, by number; none where it is not known.
    arrivals: Vec<Option<ReceiveEnd>>,
    /// Receives posted so far.
    posted: u64,
    marks: RecordMarks,
    answers: u64,
    /// The last position in the order of all ranks' calls.
    last_position: Option<u64>,
    /// What clocks showed last.
    clocks: [Option<i64>; CLOCKS],
    /// What they show beside the calls of several threads.
    beside: Option<ClocksBeside>,
}

/// Clocks that are read beside the calls of several threads: by how much each went on, in its own order. How often some are read is chance: an
/// interpreter that waits for its lock looks how late it is.
#[derive(Debug)]
struct ClocksBeside {
    row: usize,
    due: [VecDeque<i64>; CLOCKS],
}

impl ClocksBeside {
    /// Of what all threads have in a record, the row of the clocks.
    fn of(row: usize, rows: &mut [ThreadRow]) -> Self {
        let mut due = [const { VecDeque::new() }; CLOCKS];
        for (clock, went_on) in rows.get_mut(row).map(ThreadRow::take_clocks).unwrap_or_default() {
            if let Some(due) = due.get_mut(usize::from(clock)) {
                due.push_back(went_on);
            }
        }
        Self { row, due }
    }
}

/// More receives are never open at once: what a record claims is not believed.
const MOST_OPEN: usize = 1 << 24;

/// What each thread gets of a record that has been read once, and from where in the first one's polls are apart.
fn by_thread(bytes: &[u8], threads: usize) -> Result<(Vec<Vec<u8>>, Option<usize>), BadRecord> {
    let mut rows = vec![Vec::new(); threads];
    let mut apart_from = None;
    // The last position of the rank, and of each thread: each entry says how far it is behind the rank's.
    let (mut position, mut positions) = (0_u64, vec![0_u64; threads]);
    let (mut thread, mut rest) = (0, bytes);
    while !rest.is_empty() {
        let before = rest;
        let entry = RecordEntry::take(&mut rest)?;
        if let RecordEntry::Thread { index, .. } = entry {
            thread = index as usize;
        }
        let row = rows.get_mut(thread).ok_or(BadRecord)?;
        match entry {
            RecordEntry::Position(behind) => {
                position = position.checked_add(behind).ok_or(BadRecord)?;
                let last = std::mem::replace(&mut positions[thread], position);
                RecordEntry::Position(position - last).write(row);
            }
            RecordEntry::Mark(Mark::PollsApart) => apart_from = Some(rows[0].len()),
            _ if is_played(&entry) => row.extend_from_slice(&before[..before.len() - rest.len()]),
            _ => {}
        }
    }
    Ok((rows, apart_from))
}

impl Playback {
    /// Reads a record; `polls`: how many answered no after its last entry.
    ///
    /// # Errors
    /// It is none.
    pub fn new(bytes: Vec<u8>, polls: u64) -> Result<Self, BadRecord> {
        let mut open = OpenReceives::default();
        let mut arrivals = Vec::new();
        let mut marks = RecordMarks::default();
        let mut answers = polls;
        let mut names = HashMap::new();
        let mut turns = TurnOrder::default();
        let mut last_position = None;
        let mut thread = 0;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            if marks.is_whole {
                return Err(BadRecord);
            }
            let is_first = rest.len() == bytes.len();
            match RecordEntry::take(&mut rest)? {
                RecordEntry::ReceiveEnd { longer, arrival } => {
                    let number = open.close_behind(longer, MOST_OPEN).ok_or(BadRecord)?;
                    let number = usize::try_from(number).map_err(|_| BadRecord)?;
                    if number >= arrivals.len() {
                        arrivals.resize(number + 1, None);
                    }
                    arrivals[number] = Some(arrival);
                }
                RecordEntry::Mark(Mark::End) => marks.is_whole = true,
                RecordEntry::Mark(Mark::Threads) => marks.has_threads = true,
                RecordEntry::Mark(Mark::PollsApart) => {}
                RecordEntry::Mark(Mark::ByProbes) if is_first => marks.is_by_probes = true,
                RecordEntry::Mark(Mark::ByProbes) => return Err(BadRecord),
                RecordEntry::Polls(polls) => answers = answers.saturating_add(polls),
                RecordEntry::Answer(..) => answers = answers.saturating_add(1),
                RecordEntry::Clock { .. } => {}
                RecordEntry::Position(behind) => {
                    let position = last_position.unwrap_or(0_u64).checked_add(behind);
                    last_position = Some(position.ok_or(BadRecord)?);
                }
                RecordEntry::FirstTurns(count) if names.is_empty() => turns.take_many(0, count),
                RecordEntry::FirstTurns(_) => return Err(BadRecord),
                RecordEntry::NewThread(name) => {
                    let number = names.len() + 1;
                    if number >= MOST_THREADS || names.insert(name, number).is_some() {
                        return Err(BadRecord);
                    }
                }
                RecordEntry::Thread { index, has_turn } => {
                    thread =
                        usize::try_from(index).ok().filter(|index| *index <= names.len()).ok_or(BadRecord)?;
                    if has_turn {
                        turns.take_many(thread, 1);
                    }
                }
            }
        }
        let (rows, apart_from) =
            if names.is_empty() { (vec![bytes], None) } else { by_thread(&bytes, names.len() + 1)? };
        let mut rows: Vec<ThreadRow> = rows.into_iter().map(|bytes| ThreadRow::new(bytes, marks)).collect();
        if let Some(from) = apart_from {
            rows.iter_mut()
                .enumerate()
                .for_each(|(index, row)| row.set_polls_apart(if index == 0 { from } else { 0 }));
        }
        if let Some(last) = rows.get_mut(thread) {
            last.set_last_polls(polls);
        }
        let recorded = names.len();
        let clocks = [None; CLOCKS];
        let beside = names.get(&CLOCKS_ROW).map(|row| ClocksBeside::of(*row, &mut rows));
        Ok(Self {
            rows,
            names,
            recorded,
            speaker: 0,
            turns,
            arrivals,
            posted: 0,
            marks,
            answers,
            last_position,
            clocks,
            beside,
        })
    }

    /// The same, left where a cut says.
    #[must_use]
    pub fn cut(mut self, cut: RankCut) -> Self {
        self.rows[0].cut = Some(cut);
        self
    }

    /// The number of the thread with this name. Thread 0 has none.
    pub fn thread(&mut self, name: u64) -> usize {
        *self.names.entry(name).or_insert_with(|| {
            self.rows.push(ThreadRow::new(Vec::new(), self.marks));
            self.rows.len() - 1
        })
    }

    /// The number of the row in which clocks are recorded beside threads. None: the record has none.
    pub fn clocks_beside_threads(&self) -> Option<usize> {
        self.beside.as_ref().map(|beside| beside.row)
    }

    /// The program has threads from here on that make no calls, but decide how often the only one that does polls. A record by probes does not say.
    pub fn threads_compute(&mut self) {
        if self.marks.is_by_probes && self.recorded == 0 {
            self.rows[0].set_polls_apart_from_here();
        }
    }

    /// From here on, this thread acts: 0, or a number from [`Playback::thread`].
    #[inline]
    pub fn speak(&mut self, thread: usize) {
        debug_assert!(thread < self.rows.len(), "there is no thread {thread}");
        self.speaker = thread;
    }

    fn speaks(&mut self) -> &mut ThreadRow {
        &mut self.rows[self.speaker]
    }

    /// Whether the thread may post a send or receive now, or take a message, as [`Recording::turn`](crate::Recording::turn) has it.
    pub fn turn(&self) -> TurnDue {
        if self.rows[0].is_left() {
            return TurnDue::Free;
        }
        // Who was not heard of comes after all that was recorded.
        let is_stranger = self.speaker > self.recorded;
        if is_stranger && !self.rows.iter().all(ThreadRow::is_over) {
            return TurnDue::Later;
        }
        self.turns.due(self.speaker)
    }

    /// The thread has had its turn.
    pub fn turn_taken(&mut self) {
        self.turns.next();
    }

    /// Whether the record goes to the rank's end.
    pub fn is_whole(&self) -> bool {
        self.marks.is_whole
    }

    /// Whether the record stops where calls began to come from several threads.
    pub fn has_threads(&self) -> bool {
        self.marks.has_threads
    }

    /// Whether probes made the record: then no clocks are in it.
    pub fn is_by_probes(&self) -> bool {
        self.marks.is_by_probes
    }

    /// Answers in the record, without arrivals.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Those given so far.
    pub fn played(&self) -> u64 {
        self.rows.iter().map(ThreadRow::played).fold(0, u64::saturating_add)
    }

    /// The next call, as in [`Recording::call`](crate::Recording::call).
    #[inline]
    pub fn call(&mut self, call: u32, arguments: [i32; 3]) {
        self.speaks().call(call, arguments);
    }

    /// What the call must answer; `requests`: how many it is about, if it asks for indices.
    ///
    /// # Errors
    /// The program does something else than it did.
    pub fn due(&mut self, asked: AskedFor, requests: u32) -> Result<Due, Divergence> {
        self.speaks().due(asked, requests)
    }

    /// The program reads a clock: what it shows. None: the record has ended.
    ///
    /// # Errors
    /// The program does something else than it did.
    pub fn clock(&mut self, clock: u8) -> Result<Option<i64>, Divergence> {
        if self.rows[0].is_left() {
            return Ok(None);
        }
        let went_on = match &mut self.beside {
            // The only thread that calls reads them beside its calls too, once there are others.
            Some(beside) if beside.row == self.speaker || self.rows[self.speaker].is_apart() => {
                beside.due.get_mut(usize::from(clock)).and_then(VecDeque::pop_front)
            }
            _ => self.speaks().clock(clock)?,
        };
        let Some(went_on) = went_on else { return Ok(None) };
        let shows = self
            .clocks
            .get_mut(usize::from(clock))
            .ok_or(Divergence::AnotherClock { read: clock, recorded: None })?;
        *shows = Some(shows.unwrap_or(0).wrapping_add(went_on));
        Ok(*shows)
    }

    /// The call ends: its position in the order of all ranks' calls. None: the record has none from here on.
    ///
    /// # Errors
    /// The program does something else than it did.
    pub fn position(&mut self) -> Result<Option<u64>, Divergence> {
        self.speaks().position()
    }

    /// The last position that any of its calls has in the record.
    pub fn last_position(&self) -> Option<u64> {
        self.last_position
    }

    /// What a clock showed last, if it was read.
    pub fn showed(&self, clock: u8) -> Option<i64> {
        self.clocks.get(usize::from(clock)).copied().flatten()
    }

    /// A receive from anybody is about to be posted: whose message it gets. None: the record does not say.
    pub fn posted(&mut self) -> Option<ReceiveEnd> {
        let number = self.posted;
        self.posted += 1;
        let cut = self.rows[0].cut.as_ref();
        match cut.and_then(|cut| cut.posts.get(&number)) {
            Some(source) => source.map(ReceiveEnd::From),
            None if self.rows[0].is_left() => None,
            None => {
                usize::try_from(number).ok().and_then(|number| self.arrivals.get(number).copied().flatten())
            }
        }
    }

    /// Whether all was played.
    pub fn is_over(&self) -> bool {
        self.turns.is_over() && self.rows.iter().all(ThreadRow::is_over)
    }

    /// Whether all was played, or is left for another way.
    pub fn has_ended(&self) -> bool {
        self.rows[0].is_left() || self.is_over()
    }

    /// The rank ends.
    ///
    /// # Errors
    /// It goes on in the record.
    pub fn end(&mut self) -> Result<(), Divergence> {
        self.rows.iter_mut().try_for_each(ThreadRow::end)?;
        if self.turns.is_over() || self.rows[0].is_left() { Ok(()) } else { Err(Divergence::EndsEarly) }
    }
}
