//! A tape that nothing happened to.

use analyzer::input::Input;
use analyzer::tape::{Cause, Item, Reader, TapeError};
use proptest::prelude::*;

use crate::inputs::any_input;
use crate::{read, tape_of};

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn every_input_comes_back_as_it_was(
        groups in prop::collection::vec(prop::collection::vec(any_input(), 0..40), 0..6),
    ) {
        let all = groups.concat();
        let read = read(&tape_of(&groups));
        if all.is_empty() {
            prop_assert!(matches!(read.error, Some(TapeError::NoFrame)), "{:?}", read.error);
        } else {
            prop_assert!(read.error.is_none());
            prop_assert_eq!(&read.inputs, &all);
            // Names for the report follow the end.
            let last = all.iter().rfind(|input| !matches!(input, Input::Symbols(_)));
            let ended = matches!(last, Some(Input::End(_)));
            let causes: Vec<_> = read.damages.iter().map(|damage| damage.cause).collect();
            prop_assert_eq!(causes, if ended { vec![] } else { vec![Cause::Unfinished] });
        }
    }

    #[test]
    fn names_that_follow_the_end_do_not_undo_it(ended in any::<bool>()) {
        let mut groups = crate::session::small_session();
        if !ended {
            groups.pop();
        }
        let names = groups.iter().flatten().find(|input| matches!(input, Input::Symbols(_))).cloned();
        groups.push(names.into_iter().collect());
        prop_assert_eq!(read(&tape_of(&groups)).damages.is_empty(), ended);
    }

    #[test]
    fn positions_number_the_inputs(
        groups in prop::collection::vec(prop::collection::vec(any_input(), 1..20), 1..5),
    ) {
        let tape = tape_of(&groups);
        let mut reader = Reader::new(&tape[..]).expect("a whole tape");
        let mut expected = 0;
        while let Some(Ok(Item::Input(_))) = reader.next() {
            prop_assert_eq!(reader.position(), expected);
            expected += 1;
        }
        prop_assert_eq!(expected as usize, groups.concat().len());
    }
}
