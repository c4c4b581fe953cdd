//! The contents of one rank's calls: all that came in, in the order of its calls, so that the rank can run alone.
//!
//! ```text
//! calls of a rank → ContentWriter → bytes         bytes → ContentReader → what each call answered, or why it cannot
//! ```
//!
//! A call is a row of items. It begins with what the program itself decides: which call it is, numbers among its arguments,
//! and a checksum over what it sends; these are compared when the rank runs alone. Then comes what it got.
//!
//! | item | then |
//! | --- | --- |
//! | 1 a call | its number, count of numbers, numbers, 1 or 0: with a checksum or without, four bytes |
//! | 2 a poll that answered no | its number, count of numbers, numbers |
//! | 3 | how often the same poll answered no again |
//! | 4 numbers that the call answered | count, numbers |
//! | 5 bytes that came | length, bytes |
//! | 6 the rank has ended well | |
//! | 7 the rest is not recorded | number of the call because of which, length, why |
//!
//! All numbers are of variable length; those with a sign are folded. Of threads that call at the same time, each has items of its own, in [frames](FrameWriter).

mod reader;
mod threads;
mod writer;

pub use reader::{CallContents, ContentReader, ContentStop};
pub use threads::{FRAMES, FrameOrder, FrameSplitter, FrameWriter, MOST_FRAMED_THREADS};
pub use writer::ContentWriter;

/// In what a rank says where it sends other data than it did.
pub const SENDS_OTHER_DATA: &str = "it sends other data";

const CALL: u8 = 1;
const NO: u8 = 2;
const NO_AGAIN: u8 = 3;
const NUMBERS: u8 = 4;
const BYTES: u8 = 5;
const END: u8 = 6;
const REFUSED: u8 = 7;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Item {
        Call(CallContents),
        No(CallContents),
        Numbers(Vec<i64>),
        Bytes(Vec<u8>),
    }

    fn calls() -> impl Strategy<Value = CallContents> {
        let numbers = proptest::collection::vec(any::<i64>(), 0..6);
        (0..200u32, numbers, any::<Option<u32>>()).prop_map(|(call, numbers, sum)| CallContents {
            call,
            numbers,
            sum,
        })
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        // Few different ones, so that some come again.
        let no = (0..2u32).prop_map(|call| Item::No(CallContents { call, numbers: vec![7], sum: None }));
        let item = prop_oneof![
            calls().prop_map(Item::Call),
            no,
            proptest::collection::vec(any::<i64>(), 1..4).prop_map(Item::Numbers),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(Item::Bytes),
        ];
        proptest::collection::vec(item, 0..60)
    }

    fn written(items: &[Item]) -> Vec<u8> {
        let (mut writer, mut out) = (ContentWriter::default(), Vec::new());
        for item in items {
            match item {
                Item::Call(call) => writer.call(call.call, &call.numbers, call.sum, &mut out),
                Item::No(call) => writer.no(call.call, &call.numbers, &mut out),
                Item::Numbers(numbers) => writer.numbers(numbers, &mut out),
                Item::Bytes(bytes) => {
                    writer.head(bytes.len() as u64, &mut out);
                    out.extend_from_slice(bytes);
                }
            }
        }
        writer.end(&mut out);
        out
    }

    fn read(items: &[Item], bytes: &[u8]) -> Result<(), ContentStop> {
        let mut reader = ContentReader::default();
        for item in items {
            match item {
                Item::Call(call) => {
                    assert!(!reader.is_no(bytes, call.call, &call.numbers)?);
                    reader.call(bytes, call.call, &call.numbers, call.sum)?;
                }
                Item::No(call) => assert!(reader.is_no(bytes, call.call, &call.numbers)?),
                Item::Numbers(numbers) => {
                    let mut found = vec![0; numbers.len()];
                    reader.numbers(bytes, &mut found)?;
                    assert_eq!(&found, numbers);
                }
                Item::Bytes(expected) => assert_eq!(&bytes[reader.bytes(bytes)?], expected),
            }
        }
        reader.end(bytes)
    }

    proptest! {
        #[test]
        fn what_was_recorded_comes_back_to_the_same_calls(items in items()) {
            prop_assert_eq!(read(&items, &written(&items)), Ok(()));
        }

        #[test]
        fn a_record_that_is_cut_ends_there(items in items(), at in any::<proptest::sample::Index>()) {
            let bytes = written(&items);
            let cut = &bytes[..at.index(bytes.len())];
            let read = read(&items, cut);
            // A poll that was repeated may be the last that is known.
            prop_assert!(matches!(read, Err(ContentStop::Ended | ContentStop::EndsEarly)), "{:?}", read);
        }

        #[test]
        fn another_number_or_checksum_is_found_at_its_call(
            items in items(), at in any::<proptest::sample::Index>(), call in calls()
        ) {
            let calls: Vec<usize> =
                (0..items.len()).filter(|i| matches!(items[*i], Item::Call(_))).collect();
            prop_assume!(!calls.is_empty());
            let (bytes, place) = (written(&items), calls[at.index(calls.len())]);
            let Item::Call(recorded) = items[place].clone() else { unreachable!() };
            prop_assume!(recorded != call);
            let mut other = items;
            other[place] = Item::Call(call.clone());
            prop_assert_eq!(
                read(&other, &bytes),
                Err(ContentStop::Another { recorded: Box::new(recorded), found: Box::new(call) })
            );
        }

        #[test]
        fn whatever_the_bytes_are_reading_ends(bytes in proptest::collection::vec(any::<u8>(), 0..300), items in items()) {
            let mut reader = ContentReader::default();
            for item in &items {
                let _ = match item {
                    Item::Call(call) => reader.call(&bytes, call.call, &call.numbers, call.sum),
                    Item::No(call) => reader.is_no(&bytes, call.call, &call.numbers).map(|_| ()),
                    Item::Numbers(numbers) => reader.numbers(&bytes, &mut vec![0; numbers.len()]),
                    Item::Bytes(_) => reader.bytes(&bytes).map(|range| assert!(range.end <= bytes.len())),
                };
            }
        }
    }

    #[test]
    fn a_refused_call_stops_with_its_reason() {
        let (mut writer, mut out) = (ContentWriter::default(), Vec::new());
        writer.refused(9, "windows", &mut out);
        let stop = ContentReader::default().call(&out, 9, &[], None);
        assert_eq!(stop, Err(ContentStop::Refused { call: 9, why: "windows".to_owned() }));
    }

    #[test]
    fn a_call_where_the_rank_had_ended_and_an_end_where_it_goes_on_are_told() {
        let (mut writer, mut out) = (ContentWriter::default(), Vec::new());
        writer.call(1, &[], None, &mut out);
        assert_eq!(ContentReader::default().end(&out), Err(ContentStop::EndsEarly));
        let mut ended = Vec::new();
        writer.end(&mut ended);
        assert_eq!(ContentReader::default().call(&ended, 1, &[], None), Err(ContentStop::BehindTheEnd));
    }

    #[test]
    fn other_data_is_counted_where_it_is_to_be_ignored_and_other_numbers_are_not_ignored() {
        let (mut writer, mut out) = (ContentWriter::default(), Vec::new());
        writer.call(1, &[5], Some(7), &mut out);
        let mut reader = ContentReader::ignoring_data();
        assert!(matches!(reader.call(&out, 1, &[6], Some(7)), Err(ContentStop::Another { .. })));
        assert_eq!((reader.call(&out, 1, &[5], Some(8)), reader.other_data()), (Ok(()), 1));
    }

    #[test]
    fn polls_that_are_passed_over_leave_the_next_call() {
        let (mut writer, mut out) = (ContentWriter::default(), Vec::new());
        for call in [3, 3, 4, 3] {
            writer.no(call, &[1], &mut out);
        }
        writer.call(5, &[2], None, &mut out);
        writer.end(&mut out);
        for polled in 0..3 {
            let mut reader = ContentReader::default();
            (0..polled).for_each(|_| assert_eq!(reader.is_no(&out, 3, &[1]), Ok(true)));
            assert!(!reader.has_another(&out, 5, &[2]), "polls come first");
            assert_eq!(reader.pass_polls(&out), Ok(()));
            assert!(
                !reader.has_polls()
                    && reader.has_another(&out, 6, &[2])
                    && !reader.has_another(&out, 5, &[2])
            );
            assert_eq!(reader.call(&out, 5, &[2], None), Ok(()));
            assert_eq!(reader.end(&out), Ok(()));
        }
    }

    #[test]
    fn other_polls_are_passed_over_only_if_the_one_that_is_asked_comes_behind_them() {
        let (mut writer, mut out) = (ContentWriter::default(), Vec::new());
        for call in [3, 3, 3, 4, 4] {
            writer.no(call, &[1], &mut out);
        }
        writer.call(5, &[2], None, &mut out);
        writer.end(&mut out);
        for polled in 0..3 {
            let mut reader = ContentReader::default();
            (0..polled).for_each(|_| assert_eq!(reader.is_no(&out, 3, &[1]), Ok(true)));
            assert_eq!(reader.pass_polls_before(&out, 6, &[1]), Ok(false));
            assert_eq!(reader.is_no(&out, 3, &[1]), Ok(true), "nothing was passed over");
            assert_eq!(reader.pass_polls_before(&out, 4, &[1]), Ok(true));
            assert_eq!([reader.is_no(&out, 4, &[1]), reader.is_no(&out, 4, &[1])], [Ok(true), Ok(true)]);
            assert_eq!(reader.pass_polls_before(&out, 3, &[1]), Ok(false), "a call comes");
            assert_eq!(reader.call(&out, 5, &[2], None), Ok(()));
            assert_eq!((reader.pass_polls_before(&out, 3, &[1]), reader.end(&out)), (Ok(false), Ok(())));
        }
        assert_eq!(
            ContentReader::default().pass_polls_before(&out, 5, &[2]),
            Ok(true),
            "of a call that is a poll"
        );
    }

    #[test]
    fn many_polls_that_answer_no_take_a_few_bytes() {
        let (mut writer, mut out) = (ContentWriter::default(), Vec::new());
        (0..1000).for_each(|_| writer.no(3, &[1, 2], &mut out));
        writer.end(&mut out);
        assert!(out.len() < 12, "{out:?}");
    }
}
