//! Tapes that arrive piece by piece while they are written.

use analyzer::input::Input;
use analyzer::tape::{Cause, Damage, Feed, Item, Reader, Writer};
use proptest::prelude::*;

use crate::inputs::any_input;
use crate::session::small_session;
use crate::{read, tape_of, without_losses};

/// What each flush of these groups adds to the tape.
fn pieces(groups: &[Vec<Input>]) -> Vec<Vec<u8>> {
    let mut writer = Writer::new(Vec::new());
    let flush = |group: &Vec<Input>| {
        group.iter().for_each(|input| writer.push(input).expect("memory takes everything"));
        writer.flush().expect("memory takes everything");
        std::mem::take(writer.sink_mut())
    };
    groups.iter().map(flush).collect()
}

fn take(reader: &mut Reader<Feed>) -> (Vec<Input>, Vec<Damage>) {
    let (mut inputs, mut damages) = (Vec::new(), Vec::new());
    while let Some(item) = reader.poll().expect("a version that is known") {
        match item {
            Item::Input(input) => inputs.push(input),
            Item::Damage(damage) => damages.push(damage),
        }
    }
    (inputs, damages)
}

fn read_pieces<'a>(pieces: impl IntoIterator<Item = &'a Vec<u8>>) -> (Vec<Input>, Vec<Damage>) {
    let mut reader = Reader::of_feed().expect("memory");
    let (mut inputs, mut damages) = (Vec::new(), Vec::new());
    for piece in pieces {
        reader.feed(piece);
        let (new, damage) = take(&mut reader);
        inputs.extend(new);
        damages.extend(damage);
    }
    (inputs, damages)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn each_piece_gives_its_inputs_at_once(
        groups in prop::collection::vec(prop::collection::vec(any_input(), 0..30), 0..6),
    ) {
        let mut reader = Reader::of_feed().expect("memory");
        for (group, piece) in groups.iter().zip(pieces(&groups)) {
            reader.feed(&piece);
            let (inputs, damages) = take(&mut reader);
            prop_assert_eq!(&inputs, group);
            prop_assert!(damages.is_empty());
        }
    }

    #[test]
    fn garbage_between_pieces_costs_nothing_of_them(
        garbage in prop::collection::vec(any::<u8>(), 1..300),
        at in 0_usize..8,
    ) {
        let groups = small_session();
        let mut pieces = pieces(&groups);
        pieces.insert(at, garbage);
        let (inputs, _) = read_pieces(&pieces);
        prop_assert_eq!(without_losses(&inputs), without_losses(&groups.concat()));
    }
}

#[test]
fn a_piece_that_is_lost_is_missing_as_from_a_damaged_tape() {
    let groups = small_session();
    let mut pieces = pieces(&groups);
    let lost = pieces.remove(1);
    let (inputs, damages) = read_pieces(&pieces);
    let mut tape = tape_of(&groups);
    let begins = tape_of(&groups[..1]).len();
    tape.drain(begins..begins + lost.len());
    assert_eq!(inputs, read(&tape).inputs);
    assert_eq!(damages.len(), 1);
    assert_eq!(
        (damages[0].cause, damages[0].missing.map(|missing| missing.inputs)),
        (Cause::NotWritten, Some(7))
    );
}

#[test]
fn a_tape_whose_beginning_was_lost_is_read_from_there_on() {
    let groups = small_session();
    let (inputs, damages) = read_pieces(&pieces(&groups)[1..]);
    assert_eq!(without_losses(&inputs), without_losses(&groups[1..].concat()));
    assert_eq!(damages.len(), 1);
}

#[test]
fn a_piece_that_comes_twice_is_read_once() {
    let groups = small_session();
    let mut pieces = pieces(&groups);
    pieces.insert(2, pieces[1].clone());
    let (inputs, _) = read_pieces(&pieces);
    assert_eq!(without_losses(&inputs), without_losses(&groups.concat()));
}
