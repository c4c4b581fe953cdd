//! Writes what a rank's calls got.

use super::{BYTES, CALL, END, NO, NO_AGAIN, NUMBERS, REFUSED};
use crate::varint::put;

/// Of one rank. What it writes is appended to the bytes that it is given.
#[derive(Debug, Default)]
pub struct ContentWriter {
    /// The last poll that answered no, if nothing has come since.
    poll: Option<(u32, Vec<i64>)>,
    /// How often it has done so again: not yet written.
    again: u64,
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[i64]) {
    put(out, numbers.len() as u64);
    // Small numbers of either sign become small ones.
    numbers.iter().for_each(|number| put(out, (number << 1 ^ number >> 63) as u64));
}

impl ContentWriter {
    /// A call begins: its number, what is compared of its arguments, and a checksum over what it sends.
    pub fn call(&mut self, call: u32, numbers: &[i64], sum: Option<u32>, out: &mut Vec<u8>) {
        self.write_polls(out);
        out.push(CALL);
        put(out, call.into());
        put_numbers(out, numbers);
        out.push(sum.is_some().into());
        out.extend(sum.map(u32::to_le_bytes).iter().flatten());
    }

    /// A poll has answered no.
    pub fn no(&mut self, call: u32, numbers: &[i64], out: &mut Vec<u8>) {
        if self.poll.as_ref().is_some_and(|(last, compared)| *last == call && compared == numbers) {
            self.again += 1;
            return;
        }
        self.write_polls(out);
        out.push(NO);
        put(out, call.into());
        put_numbers(out, numbers);
        self.poll = Some((call, numbers.to_vec()));
    }

    /// How often the last poll has answered no again: not yet in the bytes.
    pub fn again(&self) -> u64 {
        self.again
    }

    /// Numbers that the call answered.
    pub fn numbers(&mut self, numbers: &[i64], out: &mut Vec<u8>) {
        self.write_polls(out);
        out.push(NUMBERS);
        put_numbers(out, numbers);
    }

    /// So many bytes came, which follow.
    pub fn head(&mut self, len: u64, out: &mut Vec<u8>) {
        self.write_polls(out);
        out.push(BYTES);
        put(out, len);
    }

    /// The rank has ended well.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.write_polls(out);
        out.push(END);
    }

    /// From this call on nothing is recorded.
    pub fn refused(&mut self, call: u32, why: &str, out: &mut Vec<u8>) {
        self.write_polls(out);
        out.push(REFUSED);
        put(out, call.into());
        put(out, why.len() as u64);
        out.extend_from_slice(why.as_bytes());
    }

    /// So many polls answered no at the end of a record, as they are written.
    pub fn polls_at_the_end(again: u64, out: &mut Vec<u8>) {
        if again > 0 {
            out.push(NO_AGAIN);
            put(out, again);
        }
    }

    fn write_polls(&mut self, out: &mut Vec<u8>) {
        self.poll = None;
        Self::polls_at_the_end(std::mem::take(&mut self.again), out);
    }
}
