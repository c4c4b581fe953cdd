//! From what was recorded in user space to the records that the kernel part writes: nobody behind this knows which it was.

use std::sync::Arc;

use analyzer::wire::{Body, Header, RawRecord, Record, STACK_ARGUMENTS, kind};
use injector::{CounterClock, RecordedCall, WholeCall};
use rustc_hash::FxHashMap;

/// What the hooks of a session mean, by number.
#[derive(Debug, Default)]
pub(super) struct HookMeanings(pub Vec<HookMeaning>);

/// What a hook is of.
#[derive(Clone, Debug)]
pub(super) enum HookMeaning {
    /// Copies of a file: probes by where they return to, counted as positions of slots are.
    Copies(Arc<FxHashMap<u64, u32>>),
    /// An MPI call, with its probe, and how many of its arguments on the stack are recorded, if it is.
    Call { probe: u32, stack_arguments: u8 },
    /// Heap blocks, with what they are said to come from.
    Heap { probe: u32, gives: bool },
}

/// Decodes the records of one process.
#[derive(Clone, Debug)]
pub(super) struct CallDecoder {
    pub pid: u32,
    pub meanings: Arc<HookMeanings>,
    /// By number of the hook: where the first byte of its file is.
    pub first_bytes: Vec<u64>,
}

impl CallDecoder {
    /// The records of a call; none, if it is no copy that is watched here, as those that the kernel sees.
    pub fn decode(&self, call: &RecordedCall, clock: &CounterClock, records: &mut Vec<RawRecord>) {
        let Some(number) = call.hook.checked_sub(1).map(|number| number as usize) else { return };
        match (self.meanings.0.get(number), &call.whole) {
            (Some(HookMeaning::Copies(sites)), None) => {
                records.extend(self.copy(call, clock, number, sites));
            }
            (Some(HookMeaning::Call { probe, stack_arguments }), Some(whole)) => {
                let time_ns = clock.time_ns(call.counter);
                let header = Header { time_ns, pid: self.pid, tid: call.thread, probe: *probe };
                records.extend(whole.made.map(|(probe, handle)| {
                    let body = Body::Made { handle };
                    Record { header: Header { probe, ..header }, body }.encode()
                }));
                records.push(self.call(call, whole, header));
                if *stack_arguments > 0 && !whole.is_nested {
                    records.push(self.stack(whole, *stack_arguments, header));
                }
            }
            (Some(HookMeaning::Heap { probe, gives }), None) => {
                let time_ns = clock.time_ns(call.counter);
                let header = Header { time_ns, pid: self.pid, tid: call.thread, probe: *probe };
                records.push(Record { header, body: heap_body(call, *gives) }.encode());
            }
            _ => {}
        }
    }

    fn copy(
        &self,
        call: &RecordedCall,
        clock: &CounterClock,
        number: usize,
        sites: &FxHashMap<u64, u32>,
    ) -> Option<RawRecord> {
        let position = call.return_address.wrapping_sub(*self.first_bytes.get(number)?);
        let probe = *sites.get(&position)?;
        let [to, from, bytes] = call.arguments;
        let (call_return, call_probe) = self.context(call);
        RawRecord::from_words(&[
            clock.time_ns(call.counter),
            join(self.pid, call.thread),
            join(u32::from(kind::COPY), probe),
            to,
            from,
            bytes,
            call_return,
            u64::from(call_probe),
        ])
    }

    fn call(&self, call: &RecordedCall, whole: &WholeCall, header: Header) -> RawRecord {
        let ([first, second, third], [fourth, fifth, sixth]) = (call.arguments, whole.arguments);
        let args = [first, second, third, fourth, fifth, sixth];
        let body = Body::Call { return_address: call.return_address, args, nested: whole.is_nested };
        Record { header, body }.encode()
    }

    /// Its arguments on the stack.
    fn stack(&self, whole: &WholeCall, count: u8, header: Header) -> RawRecord {
        let [first, second, third] = whole.stack;
        let body = Body::Values {
            serial: whole.calls,
            argument: STACK_ARGUMENTS,
            total_bytes: 8 * u32::from(count),
            position_bytes: 0,
            at_return: false,
            words: [first, second, third, 0, 0],
        };
        Record { header, body }.encode()
    }

    /// The MPI call that it was made in.
    fn context(&self, call: &RecordedCall) -> (u64, u32) {
        let number = call.call_hook.checked_sub(1).map(|number| number as usize);
        match number.and_then(|number| self.meanings.0.get(number)) {
            Some(HookMeaning::Call { probe, .. }) => (call.call_return, *probe),
            _ => (0, 0),
        }
    }
}

fn heap_body(call: &RecordedCall, gives: bool) -> Body {
    let ([addr, size_bytes, old], caller) = (call.arguments, call.return_address);
    if gives { Body::Alloc { addr, size_bytes, old, caller } } else { Body::Free { addr, caller } }
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[cfg(test)]
mod tests {
    use injector::CounterPair;

    use super::*;

    fn decoder() -> CallDecoder {
        let sites = Arc::new(FxHashMap::from_iter([(0x105, 7)]));
        let meanings = Arc::new(HookMeanings(vec![
            HookMeaning::Copies(sites),
            HookMeaning::Call { probe: 9, stack_arguments: 2 },
            HookMeaning::Heap { probe: 10, gives: true },
            HookMeaning::Heap { probe: 11, gives: false },
        ]));
        CallDecoder { pid: 4711, meanings, first_bytes: vec![0x40_0000, 0x50_0000] }
    }

    fn clock() -> CounterClock {
        let pair = |counter, time_ns| CounterPair { counter, time_ns, apart: 0 };
        CounterClock::between(pair(0, 0), pair(100, 50))
    }

    fn call() -> RecordedCall {
        RecordedCall {
            counter: 40,
            arguments: [1, 2, 3],
            return_address: 0x40_0105,
            call_return: 0x77,
            call_hook: 2,
            thread: 4712,
            hook: 1,
            whole: None,
        }
    }

    fn decode(call: &RecordedCall) -> Vec<RawRecord> {
        let mut records = Vec::new();
        decoder().decode(call, &clock(), &mut records);
        records
    }

    #[test]
    fn a_call_becomes_the_record_that_the_kernel_part_would_have_written() {
        let raw = decode(&call());
        let record = Record::decode(&raw[0]).expect("a record");
        let header = record.header;
        assert_eq!((header.time_ns, header.pid, header.tid, header.probe), (20, 4711, 4712, 7));
        let Body::Copy { dst, src, len_bytes, context } = record.body else { panic!("{record:?}") };
        assert_eq!((dst, src, len_bytes), (1, 2, 3));
        assert_eq!((context.return_address, context.probe), (0x77, 9));
    }

    #[test]
    fn a_block_is_the_same_record_as_of_the_kernel_part() {
        let of = |hook: u32| {
            let raw = decode(&RecordedCall { hook, ..call() });
            Record::decode(&raw[0]).expect("a record")
        };
        let given = of(3);
        assert_eq!((given.header.time_ns, given.header.tid, given.header.probe), (20, 4712, 10));
        assert_eq!(given.body, Body::Alloc { addr: 1, size_bytes: 2, old: 3, caller: 0x40_0105 });
        let back = of(4);
        assert_eq!((back.header.probe, back.body), (11, Body::Free { addr: 1, caller: 0x40_0105 }));
        assert_eq!(decode(&RecordedCall { hook: 3, whole: Some(WholeCall::default()), ..call() }), []);
    }

    #[test]
    fn a_copy_in_no_call_has_no_context_and_what_nobody_watches_is_no_record() {
        let raw = decode(&RecordedCall { call_hook: 0, ..call() });
        let Ok(Record { body: Body::Copy { context, .. }, .. }) = Record::decode(&raw[0]) else {
            panic!("{raw:?}")
        };
        assert_eq!((context.return_address, context.probe), (0, 0));
        assert_eq!(decode(&RecordedCall { return_address: 0x40_0106, ..call() }), []);
        for hook in [0, 2, 5, u32::MAX] {
            assert_eq!(decode(&RecordedCall { hook, ..call() }), []);
        }
        assert_eq!(decode(&RecordedCall { whole: Some(WholeCall::default()), ..call() }), []);
    }

    #[test]
    fn a_whole_call_becomes_a_call_with_six_arguments_and_what_lies_on_the_stack() {
        let whole = WholeCall {
            arguments: [4, 5, 6],
            stack: [7, 8, 0],
            calls: 44,
            is_nested: false,
            made: Some((3, 77)),
        };
        let raw = decode(&RecordedCall { hook: 2, whole: Some(whole), ..call() });
        let records: Vec<Record> = raw.iter().map(|raw| Record::decode(raw).expect("a record")).collect();
        let [made, call_record, values] = &records[..] else { panic!("{records:?}") };
        let args = [1, 2, 3, 4, 5, 6];
        assert_eq!(call_record.body, Body::Call { return_address: 0x40_0105, args, nested: false });
        let Body::Values { serial, argument, total_bytes, words, .. } = values.body else {
            panic!("{values:?}")
        };
        assert_eq!((serial, argument, total_bytes, &words[..3]), (44, STACK_ARGUMENTS, 16, &[7, 8, 0][..]));
        let headers: Vec<(u32, u64)> =
            records.iter().map(|record| (record.header.probe, record.header.time_ns)).collect();
        assert_eq!((headers, made.body), (vec![(3, 20), (9, 20), (9, 20)], Body::Made { handle: 77 }));
        let nested = WholeCall { is_nested: true, made: None, ..whole };
        let raw = decode(&RecordedCall { hook: 2, whole: Some(nested), ..call() });
        let body = Record::decode(&raw[0]).expect("a record").body;
        assert!(matches!(body, Body::Call { nested: true, .. }) && raw.len() == 1);
    }
}
