//! Reading a ring. Everything in it was written by the process, which may write what it likes: it is bounded and checked.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::layout::{MOST_STACK_ARGUMENTS, RING_RECORD_BYTES, record, rest};

/// A call, as it was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedCall {
    /// The processor's counter just before.
    pub counter: u64,
    /// The first three arguments.
    pub arguments: [u64; 3],
    /// Where it returns to.
    pub return_address: u64,
    /// Where the noted call returns to that it was made in; 0: in none.
    pub call_return: u64,
    /// SlotHook of that call.
    pub call_hook: u32,
    /// The thread, as the process knows it.
    pub thread: u32,
    /// The hook that recorded it.
    pub hook: u32,
    /// What else is known of a call that is recorded whole; then nothing of a call that it was made in.
    pub whole: Option<WholeCall>,
}

/// What is known of a call that is recorded whole, besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WholeCall {
    /// The fourth to sixth argument.
    pub arguments: [u64; 3],
    /// Arguments on the stack: as many as its hook says.
    pub stack: [u64; MOST_STACK_ARGUMENTS],
    /// Noted calls of the thread so far, this one among them.
    pub calls: u32,
    /// It was made in a noted call, and is not noted itself.
    pub is_nested: bool,
    /// What the thread's whole call before has stored, as it was when this one began: the name of that call, and the handle.
    pub made: Option<(u32, u64)>,
}

/// What we remember of a ring between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingState {
    /// Records that were read, or given up.
    pub tail: u64,
    /// Those that were given up, because they were never complete or the ring's own count of them was nonsense.
    pub given_up: u64,
    /// How many looks found the next record begun and not complete, while later ones were.
    waits: u32,
}

/// A record that its thread left behind is given up after so many looks: a signal handler that jumped out of it, say.
const MOST_WAITS: u32 = 1000;

/// Words of one record.
pub(crate) const WORDS: usize = RING_RECORD_BYTES / 8;

/// Reads what is complete in a ring, in order, and calls `take` for each; `head`: how many were begun, as the process says.
/// Gives back how many were taken. `words`: all of the ring, a power of two of records.
pub fn read_ring(
    words: &[AtomicU64],
    head: u64,
    state: &mut RingState,
    most: usize,
    mut take: impl FnMut(&RecordedCall),
) -> usize {
    let records = (words.len() / WORDS) as u64;
    if records == 0 {
        return 0;
    }
    let begun = head.wrapping_sub(state.tail);
    if begun > records {
        // No code of ours counts so: whatever is there is not to be trusted.
        state.given_up = state.given_up.saturating_add(1);
        state.tail = head;
        return 0;
    }
    let mut taken = 0;
    while state.tail != head && taken < most {
        match record_at(words, state.tail, head) {
            Some(record) => {
                state.tail = state.tail.wrapping_add(1 + u64::from(record.whole.is_some()));
                take(&record);
                taken += 1;
                state.waits = 0;
                continue;
            }
            None if !is_followed(words, state.tail, head) => break,
            None if state.waits < MOST_WAITS => {
                state.waits += 1;
                break;
            }
            None => {
                state.given_up = state.given_up.saturating_add(1);
                state.waits = 0;
            }
        }
        state.tail = state.tail.wrapping_add(1);
    }
    taken
}

/// Whether something behind it is complete, though this record, of one piece or two, is not.
fn is_followed(words: &[AtomicU64], tail: u64, head: u64) -> bool {
    let begun = head.wrapping_sub(tail);
    (1..begun.min(3)).any(|ahead| piece_at(words, tail.wrapping_add(ahead)).is_some())
}

/// What is in the ring under a number, if it is complete, with its last word.
fn piece_at(words: &[AtomicU64], number: u64) -> Option<(&[AtomicU64], u64)> {
    let records = words.len() / WORDS;
    let at = (number as usize & (records - 1)) * WORDS;
    let piece = words.get(at..at + WORDS)?;
    let last = piece[record::SERIAL / 8].load(Ordering::Acquire);
    ((last >> 32) as u32 == number.wrapping_add(1) as u32).then_some((piece, last))
}

/// The record of a number, if all of it is complete.
#[inline]
fn record_at(words: &[AtomicU64], number: u64, head: u64) -> Option<RecordedCall> {
    let (piece, last) = piece_at(words, number)?;
    let word = |at: usize| piece[at / 8].load(Ordering::Relaxed);
    let thread_and_hook = word(record::THREAD);
    if last as u32 & record::WHOLE != 0 {
        let next = number.wrapping_add(1);
        let (second, _) = piece_at(words, next).filter(|_| next != head)?;
        return Some(whole_call(piece, second, last as u32));
    }
    Some(RecordedCall {
        counter: word(record::COUNTER),
        arguments: [record::FIRST, record::SECOND, record::THIRD].map(word),
        return_address: word(record::RETURN),
        call_return: word(record::CALL_RETURN),
        call_hook: last as u32,
        thread: thread_and_hook as u32,
        hook: (thread_and_hook >> 32) as u32,
        whole: None,
    })
}

fn whole_call(first: &[AtomicU64], second: &[AtomicU64], flags: u32) -> RecordedCall {
    let of_first = |at: usize| first[at / 8].load(Ordering::Relaxed);
    let of_second = |at: usize| second[at / 8].load(Ordering::Relaxed);
    let thread_and_hook = of_first(record::THREAD);
    RecordedCall {
        counter: of_first(record::COUNTER),
        arguments: [record::FIRST, record::SECOND, record::THIRD].map(of_first),
        return_address: of_first(record::RETURN),
        call_return: 0,
        call_hook: 0,
        thread: thread_and_hook as u32,
        hook: (thread_and_hook >> 32) as u32,
        whole: Some(WholeCall {
            arguments: [of_first(record::FOURTH), of_second(rest::FIFTH), of_second(rest::SIXTH)],
            stack: std::array::from_fn(|at| of_second(rest::STACK + 8 * at)),
            calls: of_second(rest::CALLS) as u32,
            is_nested: flags & record::NESTED != 0,
            made: Some((of_second(rest::MADE_BY) as u32, of_second(rest::MADE))).filter(|(by, _)| *by != 0),
        }),
    }
}

const _: () = assert!(rest::STACK + 8 * MOST_STACK_ARGUMENTS <= rest::MADE && rest::CALLS + 4 == rest::HOOK);
// Halves are read with the words that they are in.
const _: () = assert!(record::HOOK == record::THREAD + 4 && record::SERIAL == record::CALL_HOOK + 4);
const _: () = assert!(
    size_of::<AtomicU32>() == 4 && record::THREAD.is_multiple_of(8) && record::CALL_HOOK.is_multiple_of(8)
);

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: usize = 8;

    fn ring() -> Vec<AtomicU64> {
        (0..RECORDS * WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    /// As the code does; `complete`: to the end.
    fn write(words: &[AtomicU64], number: u64, complete: bool) {
        let at = (number as usize % RECORDS) * WORDS;
        words[at].store(100 + number, Ordering::Relaxed);
        if complete {
            words[at + record::SERIAL / 8].store((number + 1) << 32, Ordering::Release);
        }
    }

    fn read(words: &[AtomicU64], head: u64, state: &mut RingState) -> Vec<u64> {
        let mut counters = Vec::new();
        read_ring(words, head, state, usize::MAX, |record| counters.push(record.counter));
        counters
    }

    #[test]
    fn records_come_once_in_order_also_round_the_end() {
        let (words, mut state) = (ring(), RingState::default());
        for round in 0..5 {
            let numbers = (round * 6)..(round * 6 + 6);
            numbers.clone().for_each(|number| write(&words, number, true));
            let expected: Vec<u64> = numbers.clone().map(|number| 100 + number).collect();
            assert_eq!(read(&words, numbers.end, &mut state), expected);
        }
        assert_eq!((state.tail, state.given_up), (30, 0));
    }

    #[test]
    fn what_is_not_complete_is_waited_for_and_given_up_if_later_ones_are_complete_for_long() {
        let (words, mut state) = (ring(), RingState::default());
        write(&words, 0, true);
        write(&words, 1, false);
        assert_eq!(read(&words, 2, &mut state), [100]);
        (0..3 * MOST_WAITS)
            .for_each(|_| assert_eq!(read(&words, 2, &mut state), [0; 0], "it may be being written"));
        write(&words, 2, true);
        (0..MOST_WAITS).for_each(|_| assert_eq!(read(&words, 3, &mut state), [0; 0]));
        assert_eq!(read(&words, 3, &mut state), [102]);
        assert_eq!((state.tail, state.given_up), (3, 1));
    }

    /// The first piece of a whole call.
    fn write_first(words: &[AtomicU64], number: u64) {
        let at = (number as usize % RECORDS) * WORDS;
        words[at].store(100 + number, Ordering::Relaxed);
        let last = (number + 1) << 32 | u64::from(record::WHOLE | record::NESTED);
        words[at + record::SERIAL / 8].store(last, Ordering::Release);
    }

    #[test]
    fn a_whole_call_is_read_when_both_pieces_are_there_and_given_up_if_later_ones_are_complete_for_long() {
        let (words, mut state) = (ring(), RingState { tail: 7, ..RingState::default() });
        write_first(&words, 7);
        assert_eq!(read(&words, 8, &mut state), [0; 0], "the other piece is not even begun");
        (0..3 * MOST_WAITS).for_each(|_| assert_eq!(read(&words, 9, &mut state), [0; 0]));
        write(&words, 8, true);
        let mut found = Vec::new();
        read_ring(&words, 9, &mut state, usize::MAX, |call| found.push(*call));
        assert_eq!((found.len(), found[0].counter, state.tail), (1, 107, 9));
        let whole = found[0].whole.expect("a whole call");
        assert_eq!((whole.arguments[1], whole.is_nested), (108, true));
        write_first(&words, 9);
        write(&words, 11, true);
        (0..MOST_WAITS).for_each(|_| assert_eq!(read(&words, 12, &mut state), [0; 0]));
        assert_eq!(read(&words, 12, &mut state), [0; 0], "nor is what should have followed");
        (0..MOST_WAITS).for_each(|_| _ = read(&words, 12, &mut state));
        assert_eq!((state.tail, state.given_up), (12, 2));
    }

    #[test]
    fn nonsense_of_the_process_ends_in_a_loss() {
        let (words, mut state) = (ring(), RingState::default());
        write(&words, 0, true);
        assert_eq!(read(&words, u64::MAX, &mut state), [0; 0]);
        assert_eq!((state.tail, state.given_up), (u64::MAX, 1));
        assert_eq!(read(&[], 5, &mut state), [0; 0]);
    }

    /// Numbers that look like chance, the same in every run.
    fn next(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    #[test]
    fn whatever_a_process_writes_there_is_an_end_and_losses_only_grow() {
        let (words, mut state, mut seed) = (ring(), RingState::default(), 4711);
        for _ in 0..200_000 {
            let (at, word, head) = (next(&mut seed), next(&mut seed), next(&mut seed));
            let serial = (state.tail.wrapping_add(word % 4) << 32) | (word & 0xff);
            let word = if word.is_multiple_of(3) { word } else { serial };
            words[at as usize % words.len()].store(word, Ordering::Relaxed);
            let head = if head.is_multiple_of(5) { head } else { state.tail.wrapping_add(head % 12) };
            let before = state;
            let taken = read_ring(&words, head, &mut state, 5, |_| {});
            assert!(taken <= 5 && state.given_up >= before.given_up);
        }
    }

    #[test]
    fn no_more_is_taken_than_is_wanted() {
        let (words, mut state) = (ring(), RingState::default());
        (0..6).for_each(|number| write(&words, number, true));
        let mut taken = 0;
        assert_eq!(read_ring(&words, 6, &mut state, 4, |_| taken += 1), 4);
        assert_eq!((taken, state.tail), (4, 4));
    }
}
