//! Says what is due when a rank runs again.

use std::collections::HashMap;

use crate::answer::{Answer, BadRecord, CLOCKS, Mark, ReceiveEnd, RecordEntry};
use crate::call_check::{CallCheck, FIRST_CALL_UNCHECKED_BY_PROBES};
use crate::cut::RankCut;
use crate::divergence::{AskedFor, Divergence};
use crate::open_receives::OpenReceives;

/// What a call must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// This.
    Answer(Answer),
    /// Anything: the record has ended.
    Anything,
}

/// The record of one rank, and how far it has been played.
#[derive(Debug)]
pub struct Playback {
    bytes: Vec<u8>,
    /// Bytes played.
    at: usize,
    /// Polls that are still to answer no.
    polls: u64,
    /// Polls behind all bytes that answered no.
    last_polls: u64,
    /// Whose message receives get, by number.
    arrivals: HashMap<u64, ReceiveEnd>,
    /// Receives posted so far.
    posted: u64,
    check: CallCheck,
    /// What it was before the last call.
    check_before: CallCheck,
    marks: RecordMarks,
    answers: u64,
    played: u64,
    /// What clocks showed last.
    clocks: [Option<i64>; CLOCKS],
    /// Calls begun.
    calls: u64,
    /// Where the record is left.
    cut: Option<RankCut>,
    /// The last position.
    position: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct RecordMarks {
    is_whole: bool,
    has_threads: bool,
    is_by_probes: bool,
}

/// More receives are never open at once: what a record claims is not believed.
const MOST_OPEN: usize = 1 << 24;

impl Playback {
    /// Reads a record; `polls`: how many answered no after its last entry.
    ///
    /// # Errors
    /// It is none.
    pub fn new(bytes: Vec<u8>, polls: u64) -> Result<Self, BadRecord> {
        let mut open = OpenReceives::default();
        let mut arrivals = HashMap::new();
        let mut marks = RecordMarks::default();
        let mut answers = polls;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            if marks.is_whole {
                return Err(BadRecord);
            }
            let is_first = rest.len() == bytes.len();
            match RecordEntry::take(&mut rest)? {
                RecordEntry::ReceiveEnd { longer, arrival } => {
                    let number = open.close_behind(longer, MOST_OPEN).ok_or(BadRecord)?;
                    arrivals.insert(number, arrival);
                }
                RecordEntry::Mark(Mark::End) => marks.is_whole = true,
                RecordEntry::Mark(Mark::Threads) => marks.has_threads = true,
                RecordEntry::Mark(Mark::ByProbes) if is_first => marks.is_by_probes = true,
                RecordEntry::Mark(Mark::ByProbes) => return Err(BadRecord),
                RecordEntry::Polls(polls) => answers = answers.saturating_add(polls),
                RecordEntry::Answer(..) => answers = answers.saturating_add(1),
                RecordEntry::Clock { .. } | RecordEntry::Position(_) => {}
            }
        }
        let check = CallCheck::default();
        Ok(Self {
            bytes,
            at: 0,
            polls: 0,
            last_polls: polls,
            arrivals,
            posted: 0,
            check,
            check_before: check,
            marks,
            answers,
            played: 0,
            clocks: [None; CLOCKS],
            calls: 0,
            cut: None,
            position: 0,
        })
    }

    /// The same, left where a cut says.
    #[must_use]
    pub fn cut(self, cut: RankCut) -> Self {
        Self { cut: Some(cut), ..self }
    }

    /// Whether the call that has begun last, or the next one, is played no more.
    fn is_left(&self) -> bool {
        let calls = self.cut.as_ref().and_then(|cut| cut.calls);
        calls.is_some_and(|calls| self.calls > calls)
    }

    /// The answer in place of the recorded one.
    fn detour(&self, asked: AskedFor) -> Option<Answer> {
        let detour = self.cut.as_ref()?.detour.filter(|detour| detour.call == self.calls)?;
        Some(match asked {
            AskedFor::Source | AskedFor::PollSource => Answer::From(Some(detour.value)),
            AskedFor::Index | AskedFor::PollIndex => Answer::Index(Some(detour.value)),
            AskedFor::Indices | AskedFor::PollIndices => Answer::Indices(Some(vec![detour.value])),
            AskedFor::Poll => return None,
        })
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
        self.played
    }

    /// The next call, as in [`Recording::call`](crate::Recording::call).
    #[inline]
    pub fn call(&mut self, call: u32, arguments: [i32; 3]) {
        self.calls += 1;
        self.check_before = self.check;
        if !self.marks.is_by_probes || call < FIRST_CALL_UNCHECKED_BY_PROBES {
            self.check.call(call, arguments);
        }
    }

    /// What the call must answer; `requests`: how many it is about, if it asks for indices.
    ///
    /// # Errors
    /// The program does something else than it did.
    pub fn due(&mut self, asked: AskedFor, requests: u32) -> Result<Due, Divergence> {
        if let Some(answer) = self.detour(asked) {
            if let Answer::Index(Some(index)) = answer
                && index >= requests
            {
                return Err(Divergence::NoSuchRequest { index, requests });
            }
            return Ok(Due::Answer(answer));
        }
        if self.is_left() {
            return Ok(Due::Anything);
        }
        if self.polls == 0 {
            match self.next() {
                Some(RecordEntry::Answer(answer, check)) => {
                    return self.answer(asked, answer, check, requests);
                }
                Some(RecordEntry::Polls(polls)) => self.polls = polls,
                Some(RecordEntry::Clock { .. }) => return Err(Divergence::NoClockRead { asked }),
                _ if self.marks.is_whole => return Err(Divergence::BehindTheEnd),
                _ if self.last_polls == 0 => return Ok(Due::Anything),
                _ => self.polls = std::mem::take(&mut self.last_polls),
            }
        }
        if !asked.is_poll() {
            return Err(Divergence::AnotherCall { asked, recorded: Answer::No });
        }
        self.polls -= 1;
        self.played += 1;
        if self.marks.is_by_probes {
            // Which poll it was, the record does not know.
            self.check = self.check_before;
        }
        Ok(Due::Answer(Answer::No))
    }

    /// The program reads a clock: what it shows. None: the record has ended.
    ///
    /// # Errors
    /// The program does something else than it did.
    pub fn clock(&mut self, clock: u8) -> Result<Option<i64>, Divergence> {
        if self.is_left() || self.marks.is_by_probes {
            return Ok(None);
        }
        if self.polls > 0 {
            return Err(Divergence::ClockRead { recorded: Answer::No });
        }
        match self.next() {
            Some(RecordEntry::Clock { clock: recorded, went_on }) if recorded == clock => {
                let shows = self.clocks.get_mut(usize::from(clock)).ok_or(Divergence::AnotherClock)?;
                *shows = Some(shows.unwrap_or(0).wrapping_add(went_on));
                Ok(*shows)
            }
            Some(RecordEntry::Clock { .. }) => Err(Divergence::AnotherClock),
            Some(RecordEntry::Answer(recorded, _)) => Err(Divergence::ClockRead { recorded }),
            Some(_) => Err(Divergence::ClockRead { recorded: Answer::No }),
            None if self.last_polls > 0 => Err(Divergence::ClockRead { recorded: Answer::No }),
            None => Ok(None),
        }
    }

    /// The call ends: its position in the order of all ranks' calls. None: the record has none from here on.
    ///
    /// # Errors
    /// The program does something else than it did.
    pub fn position(&mut self) -> Result<Option<u64>, Divergence> {
        if self.is_left() {
            return Ok(None);
        }
        if self.polls > 0 {
            return Err(Divergence::OtherCalls);
        }
        while let Some(mut rest) = self.bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            // It was read before.
            let Ok(entry) = RecordEntry::take(&mut rest) else { break };
            if is_played(&entry) {
                return Err(Divergence::OtherCalls);
            }
            self.at = self.bytes.len() - rest.len();
            if let RecordEntry::Position(behind) = entry {
                self.position = self.position.wrapping_add(behind);
                return Ok(Some(self.position));
            }
        }
        Ok(None)
    }

    /// What a clock showed last, if it was read.
    pub fn showed(&self, clock: u8) -> Option<i64> {
        self.clocks.get(usize::from(clock)).copied().flatten()
    }

    /// The next entry that is an answer, or what a clock showed.
    fn next(&mut self) -> Option<RecordEntry> {
        loop {
            let mut rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
            // It was read before.
            let entry = RecordEntry::take(&mut rest).ok()?;
            self.at = self.bytes.len() - rest.len();
            if is_played(&entry) {
                return Some(entry);
            }
        }
    }

    fn answer(
        &mut self,
        asked: AskedFor,
        answer: Answer,
        check: u8,
        requests: u32,
    ) -> Result<Due, Divergence> {
        if !asked.fits(&answer) {
            return Err(Divergence::AnotherCall { asked, recorded: answer });
        }
        if check != self.check.byte() {
            return Err(Divergence::OtherCalls);
        }
        let indices = match &answer {
            Answer::Index(Some(index)) => std::slice::from_ref(index),
            Answer::Indices(Some(indices)) => &indices[..],
            _ => &[],
        };
        if let Some(&index) = indices.iter().find(|index| **index >= requests) {
            return Err(Divergence::NoSuchRequest { index, requests });
        }
        self.played += 1;
        Ok(Due::Answer(answer))
    }

    /// A receive from anybody is about to be posted: whose message it gets. None: the record does not say.
    pub fn posted(&mut self) -> Option<ReceiveEnd> {
        let number = self.posted;
        self.posted += 1;
        let cut = self.cut.as_ref();
        match cut.and_then(|cut| cut.posts.get(&number)) {
            Some(source) => source.map(ReceiveEnd::From),
            None if self.is_left() => None,
            None => self.arrivals.get(&number).copied(),
        }
    }

    /// Whether all was played.
    pub fn is_over(&self) -> bool {
        let mut rest = &self.bytes[self.at..];
        let mut is_answer = self.polls > 0 || self.last_polls > 0;
        while !is_answer && !rest.is_empty() {
            is_answer = RecordEntry::take(&mut rest).is_ok_and(|entry| is_played(&entry));
        }
        !is_answer
    }

    /// The rank ends.
    ///
    /// # Errors
    /// It goes on in the record.
    pub fn end(&self) -> Result<(), Divergence> {
        if self.is_over() || self.is_left() { Ok(()) } else { Err(Divergence::EndsEarly) }
    }
}

/// Whether calls get something of it in its turn.
fn is_played(entry: &RecordEntry) -> bool {
    matches!(entry, RecordEntry::Polls(1..) | RecordEntry::Answer(..) | RecordEntry::Clock { .. })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
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
        assert_eq!(playback().clock(2), Err(Divergence::AnotherClock));
        assert_eq!(playback().end(), Err(Divergence::EndsEarly));
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
