//! Says what is due when a rank runs again.

mod due;
mod row;
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
        let beside = None;
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

    /// Threads may make calls at the same time from here on: the number of the row in which clocks are recorded beside them. None: the record has
    /// none.
    pub fn clocks_beside_threads(&mut self) -> Option<usize> {
        let row = *self.names.get(&CLOCKS_ROW)?;
        let mut due = [const { VecDeque::new() }; CLOCKS];
        for (clock, went_on) in self.rows.get_mut(row)?.take_clocks() {
            if let Some(due) = due.get_mut(usize::from(clock)) {
                due.push_back(went_on);
            }
        }
        self.beside = Some(ClocksBeside { row, due });
        Some(row)
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
            Some(beside) if beside.row == self.speaker => {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::answer::Answer;
    use crate::call_check::FIRST_CALL_UNCHECKED_BY_PROBES;
    use crate::recording::Recording;

    /// What a made-up program does.
    #[derive(Clone, Debug)]
    enum Step {
        /// A call that asks for nothing.
        Plain(u32),
        /// One that gets an answer.
        Ask(AskedFor, Answer),
        /// Posts a receive.
        Post,
        /// One of the open receives gets a message; from how many, counted from the oldest.
        Arrive(usize, ReceiveEnd),
        /// Reads a clock.
        Clock(u8, i64),
        /// A call ends, so far behind the last one.
        Position(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let answers = prop_oneof![
            Just((AskedFor::Poll, Answer::Yes)),
            prop_oneof![
                Just(AskedFor::Poll),
                Just(AskedFor::PollSource),
                Just(AskedFor::PollIndex),
                Just(AskedFor::PollIndices)
            ]
            .prop_map(|asked| (asked, Answer::No)),
            (0_u32..300).prop_map(|from| (AskedFor::Source, Answer::From(Some(from)))),
            (0_u32..300).prop_map(|from| (AskedFor::PollSource, Answer::From(Some(from)))),
            proptest::option::of(0_u32..8).prop_map(|index| (AskedFor::Index, Answer::Index(index))),
            proptest::option::of(proptest::collection::vec(0_u32..8, 1..5))
                .prop_map(|indices| (AskedFor::PollIndices, Answer::Indices(indices))),
        ];
        let arrival = prop_oneof![Just(ReceiveEnd::Cancelled), (0_u32..300).prop_map(ReceiveEnd::From)];
        let step = prop_oneof![
            any::<u32>().prop_map(Step::Plain),
            answers.prop_map(|(asked, answer)| Step::Ask(asked, answer)),
            Just(Step::Post),
            (0_usize..4, arrival).prop_map(|(which, arrival)| Step::Arrive(which, arrival)),
            (0..CLOCKS as u8, any::<i64>()).prop_map(|(clock, shows)| Step::Clock(clock, shows)),
            (1_u64..300).prop_map(Step::Position),
        ];
        proptest::collection::vec(step, 0..200)
    }

    /// The record of the steps, the polls behind it, and what each posted receive got.
    fn recorded(steps: &[Step]) -> (Vec<u8>, u64, Vec<Option<ReceiveEnd>>) {
        let (mut recording, mut out) = (Recording::default(), Vec::new());
        let (mut open, mut got) = (Vec::new(), Vec::new());
        let mut position = 0;
        for step in steps {
            match step {
                Step::Plain(call) => recording.call(*call, [1, 2, 3]),
                Step::Ask(asked, answer) => {
                    recording.call(*asked as u32, [0; 3]);
                    recording.answer(answer.clone(), &mut out);
                }
                Step::Post => {
                    recording.call(99, [0; 3]);
                    recording.posted(got.len() as u64, &mut out);
                    open.push(got.len());
                    got.push(None);
                }
                Step::Arrive(which, arrival) if *which < open.len() => {
                    let number = open.remove(*which);
                    recording.arrived(number as u64, *arrival, &mut out);
                    got[number] = Some(*arrival);
                }
                Step::Arrive(..) => {}
                Step::Clock(clock, shows) => recording.clock(*clock, *shows, &mut out),
                Step::Position(behind) => {
                    position += behind;
                    recording.position(position, &mut out);
                }
            }
        }
        (out, recording.polls(), got)
    }

    fn playback(steps: &[Step]) -> (Playback, Vec<Option<ReceiveEnd>>) {
        let (bytes, polls, got) = recorded(steps);
        (Playback::new(bytes, polls).expect("a record"), got)
    }

    proptest! {
        /// Of polls that answer no, probes tell only how many there were; of clocks and of calls that only send, nothing.
        #[test]
        fn the_same_program_gets_the_answers_that_probes_saw(steps in steps()) {
            let mut out = Vec::new();
            let mut recording = Recording::by_probes(&mut out);
            let mut posts = 0;
            for step in &steps {
                match step {
                    Step::Plain(call) if *call < FIRST_CALL_UNCHECKED_BY_PROBES => {
                        recording.call(*call, [1, 2, 3]);
                    }
                    Step::Ask(_, Answer::No) => recording.refused(1),
                    Step::Ask(asked, answer) => {
                        recording.call(*asked as u32, [0; 3]);
                        recording.answer(answer.clone(), &mut out);
                    }
                    Step::Post => {
                        recording.call(9, [0; 3]);
                        recording.posted(posts, &mut out);
                        recording.arrived(posts, ReceiveEnd::From(posts as u32), &mut out);
                        posts += 1;
                    }
                    _ => {}
                }
            }
            let mut playback = Playback::new(out, recording.polls()).expect("a record");
            let mut posts = 0;
            for step in &steps {
                match step {
                    Step::Plain(call) => playback.call(*call, [1, 2, 3]),
                    Step::Ask(asked, answer) => {
                        playback.call(*asked as u32, [0; 3]);
                        prop_assert_eq!(playback.due(*asked, 8), Ok(Due::Answer(answer.clone())));
                    }
                    Step::Post => {
                        playback.call(9, [0; 3]);
                        prop_assert_eq!(playback.posted(), Some(ReceiveEnd::From(posts)));
                        posts += 1;
                    }
                    Step::Clock(clock, _) => prop_assert_eq!(playback.clock(*clock), Ok(None)),
                    Step::Arrive(..) | Step::Position(_) => {}
                }
            }
            prop_assert!(playback.is_over() && playback.is_by_probes());
        }

        #[test]
        fn the_same_program_gets_the_same_answers(steps in steps(), is_identical in any::<bool>()) {
            let (mut playback, got) = playback(&steps);
            let (mut posts, mut position) = (0, 0);
            for step in &steps {
                match step {
                    Step::Plain(call) => playback.call(*call, [1, 2, 3]),
                    Step::Ask(asked, answer) => {
                        playback.call(*asked as u32, [0; 3]);
                        prop_assert_eq!(playback.due(*asked, 8), Ok(Due::Answer(answer.clone())));
                    }
                    Step::Post => {
                        playback.call(99, [0; 3]);
                        prop_assert_eq!(playback.posted(), got[posts]);
                        posts += 1;
                    }
                    Step::Arrive(..) => {}
                    Step::Clock(clock, shows) => {
                        prop_assert_eq!(playback.clock(*clock), Ok(Some(*shows)));
                    }
                    Step::Position(behind) => {
                        position += behind;
                        if is_identical {
                            prop_assert_eq!(playback.position(), Ok(Some(position)));
                        }
                    }
                }
            }
            prop_assert!(playback.is_over());
            if is_identical {
                prop_assert_eq!(playback.position(), Ok(None));
            }
            prop_assert_eq!(playback.clock(0), Ok(None));
            prop_assert_eq!(playback.end(), Ok(()));
            prop_assert_eq!(playback.due(AskedFor::Source, 0), Ok(Due::Anything));
        }

        #[test]
        fn a_record_that_is_cut_plays_up_to_there(steps in steps(), part in 0_usize..200) {
            let steps = &steps[..part.min(steps.len())];
            let (bytes, polls, _) = recorded(steps);
            prop_assert!(Playback::new(bytes, polls).is_ok());
        }

        #[test]
        fn whatever_the_bytes_are_it_is_refused_or_plays(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            asked in proptest::collection::vec(0_u8..7, 0..300),
        ) {
            if let Ok(mut playback) = Playback::new(bytes, 3) {
                for number in asked {
                    let _ = playback.due(AskedFor::of_number(number).expect("one of seven"), 4);
                    let _ = playback.clock(number);
                    playback.posted();
                }
                let _ = playback.end();
            }
        }
    }

    fn of_answers(answers: &[(AskedFor, Answer)]) -> Playback {
        playback(&answers.iter().map(|(asked, answer)| Step::Ask(*asked, answer.clone())).collect::<Vec<_>>())
            .0
    }

    #[test]
    fn another_call_than_the_recorded_one_is_a_divergence() {
        let mut playback = of_answers(&[(AskedFor::Source, Answer::From(Some(3)))]);
        playback.call(AskedFor::Poll as u32, [0; 3]);
        let recorded = Answer::From(Some(3));
        assert_eq!(
            playback.due(AskedFor::Poll, 0),
            Err(Divergence::AnotherCall { asked: AskedFor::Poll, recorded })
        );
    }

    #[test]
    fn probes_notice_another_argument_of_an_earlier_call_too() {
        let mut out = Vec::new();
        let mut recording = Recording::by_probes(&mut out);
        recording.call(1, [1, 2, 3]);
        recording.refused(1);
        recording.call(AskedFor::Source as u32, [0; 3]);
        recording.answer(Answer::From(Some(3)), &mut out);
        let mut playback = Playback::new(out, 0).expect("a record");
        playback.call(1, [1, 2, 4]);
        playback.call(AskedFor::Poll as u32, [0; 3]);
        assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::No)));
        playback.call(AskedFor::Source as u32, [0; 3]);
        assert_eq!(playback.due(AskedFor::Source, 0), Err(Divergence::OtherCalls));
    }

    #[test]
    fn a_record_that_becomes_one_of_probes_in_the_middle_is_none() {
        let mut out = Vec::new();
        let mut recording = Recording::default();
        recording.answer(Answer::Yes, &mut out);
        recording.mark(Mark::ByProbes, &mut out);
        assert!(Playback::new(out, 0).is_err());
    }

    #[test]
    fn another_argument_of_an_earlier_call_is_a_divergence() {
        let steps = [Step::Plain(1), Step::Ask(AskedFor::Source, Answer::From(Some(3)))];
        let (mut playback, _) = playback(&steps);
        playback.call(1, [1, 2, 4]);
        playback.call(AskedFor::Source as u32, [0; 3]);
        assert_eq!(playback.due(AskedFor::Source, 0), Err(Divergence::OtherCalls));
    }

    #[test]
    fn a_call_that_cannot_answer_no_is_a_divergence_where_polls_are_recorded() {
        let mut playback = of_answers(&[(AskedFor::Poll, Answer::No), (AskedFor::Poll, Answer::No)]);
        assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::No)));
        let asked = AskedFor::Source;
        assert_eq!(playback.due(asked, 0), Err(Divergence::AnotherCall { asked, recorded: Answer::No }));
    }

    #[test]
    fn an_end_that_is_too_early_or_too_late_is_a_divergence() {
        let (mut recording, mut out) = (Recording::default(), Vec::new());
        recording.call(AskedFor::Source as u32, [0; 3]);
        recording.answer(Answer::From(Some(1)), &mut out);
        recording.mark(Mark::End, &mut out);
        let mut playback = Playback::new(out, 0).expect("a record");
        assert!(playback.is_whole());
        assert_eq!(playback.end(), Err(Divergence::EndsEarly));
        playback.call(AskedFor::Source as u32, [0; 3]);
        assert_eq!(playback.due(AskedFor::Source, 0), Ok(Due::Answer(Answer::From(Some(1)))));
        assert_eq!(playback.end(), Ok(()));
        assert_eq!(playback.due(AskedFor::Source, 0), Err(Divergence::BehindTheEnd));
    }

    #[test]
    fn a_clock_that_is_read_where_none_was_and_one_that_is_not_read_are_divergences() {
        let mut playback = of_answers(&[(AskedFor::Source, Answer::From(Some(3)))]);
        assert_eq!(playback.clock(0), Err(Divergence::ClockRead { recorded: Answer::From(Some(3)) }));
        let mut playback = of_answers(&[(AskedFor::Poll, Answer::No)]);
        assert_eq!(playback.clock(0), Err(Divergence::ClockRead { recorded: Answer::No }));
        let (mut recording, mut out) = (Recording::default(), Vec::new());
        recording.clock(1, 77, &mut out);
        let playback = || Playback::new(out.clone(), 0).expect("a record");
        assert_eq!(
            playback().due(AskedFor::Source, 0),
            Err(Divergence::NoClockRead { asked: AskedFor::Source })
        );
        let another = playback().clock(2).expect_err("another one is next");
        assert_eq!(another, Divergence::AnotherClock { read: 2, recorded: Some(1) });
        assert_eq!(
            another.to_string(),
            "the program reads the clock of gettimeofday(); in the record it reads that of time()"
        );
        assert_eq!(playback().end(), Err(Divergence::EndsEarly));
    }

    #[test]
    fn beside_several_threads_each_clock_goes_on_for_itself_however_often_others_are_read() {
        let (mut recording, mut out) = (Recording::default(), Vec::new());
        let row = recording.add_thread(CLOCKS_ROW, &mut out);
        for (clock, shows) in [(1, 70), (2, 5), (1, 77), (2, 9)] {
            recording.speak(row);
            recording.clock(clock, shows, &mut out);
            recording.speak(0);
            recording.answer(Answer::Yes, &mut out);
        }
        let mut playback = Playback::new(out.clone(), 0).expect("a record");
        assert_eq!(playback.clocks_beside_threads(), Some(row));
        playback.speak(row);
        // More often than then, less often, and in another order.
        let shown: Vec<_> = [1, 1, 1, 2].into_iter().map(|clock| playback.clock(clock)).collect();
        assert_eq!(shown, [Ok(Some(70)), Ok(Some(77)), Ok(None), Ok(Some(5))]);
        playback.speak(0);
        for _ in 0..4 {
            assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::Yes)));
        }
        assert!(playback.is_over() && playback.end().is_ok());
        let mut older = Playback::new(Vec::new(), 0).expect("a record");
        assert_eq!(older.clocks_beside_threads(), None);
    }

    #[test]
    fn a_call_that_ends_where_another_was_answered_is_a_divergence() {
        let mut playback = of_answers(&[(AskedFor::Source, Answer::From(Some(3)))]);
        assert_eq!(playback.position(), Err(Divergence::OtherCalls));
        let mut playback = of_answers(&[(AskedFor::Poll, Answer::No), (AskedFor::Poll, Answer::No)]);
        playback.call(AskedFor::Poll as u32, [0; 3]);
        assert_eq!(playback.due(AskedFor::Poll, 0), Ok(Due::Answer(Answer::No)));
        assert_eq!(playback.position(), Err(Divergence::OtherCalls));
    }

    #[test]
    fn an_index_beyond_the_requests_is_a_divergence() {
        let mut playback = of_answers(&[(AskedFor::Index, Answer::Index(Some(5)))]);
        playback.call(AskedFor::Index as u32, [0; 3]);
        assert_eq!(
            playback.due(AskedFor::Index, 5),
            Err(Divergence::NoSuchRequest { index: 5, requests: 5 })
        );
    }
}
