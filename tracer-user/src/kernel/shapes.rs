//! What the kernel part is told of calls whose results are wanted: `dms_shape` in `shapes.h`.

use analyzer::plan::{Probe, Read, ReadCount, Results, SentBuffers};
use analyzer::wire::NO_ARGUMENT;
use tracer_ebpf::types;

/// `READ_*` in `shapes.h`.
const USED: u8 = 1;
const AT_RETURN: u8 = 2;
const COUNT_BEHIND: u8 = 4;
const INLINE: u8 = 8;

/// Shapes that the kernel part knows, by number. Many calls have the same.
#[derive(Default)]
pub(super) struct Shapes {
    known: Vec<Results>,
}

impl Shapes {
    /// Puts a shape into the table of the kernel part, if it is new. The call table has fewer than fit.
    pub fn add(&mut self, results: &Results, table: &mut [types::dms_shape]) {
        if self.known.contains(results) {
            return;
        }
        if let Some(free) = table.get_mut(self.known.len()) {
            *free = shape(results);
            self.known.push(results.clone());
        }
    }

    /// The number of a probe's shape.
    pub fn number(&self, probe: &Probe) -> u64 {
        let of = |results| self.known.iter().position(|known| known == results);
        probe.results.as_ref().and_then(of).unwrap_or(0) as u64
    }
}

fn shape(results: &Results) -> types::dms_shape {
    let mut shape = types::dms_shape {
        stack_arguments: results.stack_arguments,
        answer: results.answer.map_or(NO_ARGUMENT, u32::from),
        ..types::dms_shape::default()
    };
    let mut is_free = true;
    for (to, read) in shape.reads.iter_mut().zip(&results.reads) {
        // One short value goes with the record of the return.
        let goes_along =
            is_free && read.at_return && read.count == ReadCount::One && matches!(read.element_bytes, 4 | 8);
        is_free &= !goes_along;
        *to = described(read, goes_along);
    }
    put_buffers(results, &mut shape);
    shape
}

/// `BUFFERS_*` in `sent_buffers.h`.
fn put_buffers(results: &Results, shape: &mut types::dms_shape) {
    let Some(buffers) = results.buffers else { return };
    let handle = match buffers {
        SentBuffers::Sent { buffer, count, datatype, request } => {
            (shape.buffer, shape.count, shape.datatype, shape.request) = (buffer, count, datatype, request);
            results.reads.iter().find(|read| read.argument == request)
        }
        SentBuffers::Started | SentBuffers::Complete | SentBuffers::SomeComplete => results.reads.first(),
    };
    shape.buffers = match buffers {
        SentBuffers::Sent { .. } => 1,
        SentBuffers::Started => 2,
        SentBuffers::Complete => 3,
        SentBuffers::SomeComplete => 4,
    };
    shape.handle_bytes = handle.map_or(0, |read| read.element_bytes);
}

fn described(read: &Read, goes_along: bool) -> types::dms_read {
    let (count_argument, behind) = match read.count {
        ReadCount::One => (NO_ARGUMENT as u8, 0),
        ReadCount::Argument(at) => (at, 0),
        ReadCount::Behind(at) => (at, COUNT_BEHIND),
    };
    let when = if read.at_return { AT_RETURN } else { 0 };
    let along = if goes_along { INLINE } else { 0 };
    types::dms_read {
        argument: read.argument,
        count_argument,
        how: USED | when | along | behind,
        element_bytes: read.element_bytes,
    }
}
