//! From what was recorded in user space to the records that the kernel part writes: nobody behind this knows which it was.

use std::sync::Arc;

use analyzer::wire::{RawRecord, kind};
use injector::{CounterClock, RecordedCall};
use rustc_hash::FxHashMap;

/// What the hooks of a session mean, by number.
#[derive(Debug, Default)]
pub(super) struct HookMeanings(pub Vec<HookMeaning>);

/// What a hook is of.
#[derive(Clone, Debug)]
pub(super) enum HookMeaning {
    /// Copies of a file: probes by where they return to, counted as positions of slots are.
    Copies(Arc<FxHashMap<u64, u32>>),
    /// An MPI call, with its probe.
    Call(u32),
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
    /// The record of a call; `None`: it is of no copy that is watched here, as those that the kernel sees.
    pub fn decode(&self, call: &RecordedCall, clock: &CounterClock) -> Option<RawRecord> {
        let number = call.hook.checked_sub(1)? as usize;
        let Some(HookMeaning::Copies(sites)) = self.meanings.0.get(number) else { return None };
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

    /// The MPI call that it was made in.
    fn context(&self, call: &RecordedCall) -> (u64, u32) {
        let number = call.call_hook.checked_sub(1).map(|number| number as usize);
        match number.and_then(|number| self.meanings.0.get(number)) {
            Some(HookMeaning::Call(probe)) => (call.call_return, *probe),
            _ => (0, 0),
        }
    }
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[cfg(test)]
mod tests {
    use analyzer::wire::{Body, Record};
    use injector::CounterPair;

    use super::*;

    fn decoder() -> CallDecoder {
        let sites = Arc::new(FxHashMap::from_iter([(0x105, 7)]));
        let meanings = Arc::new(HookMeanings(vec![HookMeaning::Copies(sites), HookMeaning::Call(9)]));
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
        }
    }

    #[test]
    fn a_call_becomes_the_record_that_the_kernel_part_would_have_written() {
        let raw = decoder().decode(&call(), &clock()).expect("a copy that is watched");
        let record = Record::decode(&raw).expect("a record");
        let header = record.header;
        assert_eq!((header.time_ns, header.pid, header.tid, header.probe), (20, 4711, 4712, 7));
        let Body::Copy { dst, src, len_bytes, context } = record.body else { panic!("{record:?}") };
        assert_eq!((dst, src, len_bytes), (1, 2, 3));
        assert_eq!((context.return_address, context.probe), (0x77, 9));
    }

    #[test]
    fn a_copy_in_no_call_has_no_context_and_what_nobody_watches_is_no_record() {
        let decode = |call: RecordedCall| decoder().decode(&call, &clock());
        let raw = decode(RecordedCall { call_hook: 0, ..call() }).expect("a copy");
        let Ok(Record { body: Body::Copy { context, .. }, .. }) = Record::decode(&raw) else {
            panic!("{raw:?}")
        };
        assert_eq!((context.return_address, context.probe), (0, 0));
        assert_eq!(decode(RecordedCall { return_address: 0x40_0106, ..call() }), None);
        for hook in [0, 2, 3, u32::MAX] {
            assert_eq!(decode(RecordedCall { hook, ..call() }), None);
        }
    }
}
