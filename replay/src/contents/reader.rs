//! Reads what a rank's calls got, and compares what the program does with what it did.

use std::ops::Range;

use super::{BYTES, CALL, END, NO, NO_AGAIN, NUMBERS, REFUSED};
use crate::varint::take;

/// A call as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallContents {
    /// Its number.
    pub call: u32,
    /// Numbers among its arguments.
    pub numbers: Vec<i64>,
    /// A checksum over what it sends.
    pub sum: Option<u32>,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentStop {
    /// The record ends here: the rank was ended in this call, or before it.
    Ended,
    /// The rank had ended well before.
    BehindTheEnd,
    /// The rank ends, but its record goes on.
    EndsEarly,
    /// From here on nothing was recorded.
    Refused {
        /// The call because of which.
        call: u32,
        /// The reason, in words for people.
        why: String,
    },
    /// The program makes another call than it did, or sends something else.
    Another {
        /// What it did.
        recorded: Box<CallContents>,
        /// What it does.
        found: Box<CallContents>,
    },
    /// The bytes are not a record, or it has something else than what this call asks for.
    Damaged,
}

/// A place in a record.
#[derive(Clone, Debug, Default)]
pub struct ContentReader {
    at: usize,
    /// Calls that send other data than they did are counted, and go on.
    ignores_data: bool,
    other_data: u64,
    /// The last poll that answered no, if nothing has come since, and how often it will do so again.
    poll: Option<(CallContents, u64)>,
}

/// A number of variable length. None: the bytes end within it.
fn number(bytes: &mut &[u8]) -> Result<u64, ContentStop> {
    let is_cut = bytes.len() < 10 && bytes.iter().all(|byte| byte & 0x80 != 0);
    take(bytes).ok_or(if is_cut { ContentStop::Ended } else { ContentStop::Damaged })
}

fn byte(bytes: &mut &[u8]) -> Result<u8, ContentStop> {
    let (first, rest) = bytes.split_first().ok_or(ContentStop::Ended)?;
    *bytes = rest;
    Ok(*first)
}

fn signed(bytes: &mut &[u8]) -> Result<i64, ContentStop> {
    number(bytes).map(|folded| (folded >> 1) as i64 ^ -((folded & 1) as i64))
}

fn length(bytes: &mut &[u8]) -> Result<usize, ContentStop> {
    usize::try_from(number(bytes)?).map_err(|_| ContentStop::Damaged)
}

fn numbers(bytes: &mut &[u8]) -> Result<Vec<i64>, ContentStop> {
    // Each has a byte at least: what is claimed is not believed before it was read.
    let count = length(bytes)?;
    let mut numbers = Vec::with_capacity(count.min(bytes.len()));
    for _ in 0..count {
        numbers.push(signed(bytes)?);
    }
    Ok(numbers)
}

fn named(bytes: &mut &[u8]) -> Result<CallContents, ContentStop> {
    let call = u32::try_from(number(bytes)?).map_err(|_| ContentStop::Damaged)?;
    Ok(CallContents { call, numbers: numbers(bytes)?, sum: None })
}

fn refused(bytes: &mut &[u8]) -> Result<ContentStop, ContentStop> {
    let call = u32::try_from(number(bytes)?).map_err(|_| ContentStop::Damaged)?;
    let len = length(bytes)?;
    let why = bytes.get(..len).ok_or(ContentStop::Ended)?;
    Ok(ContentStop::Refused { call, why: String::from_utf8_lossy(why).into_owned() })
}

impl ContentReader {
    /// The same, but calls may send other data than they did.
    pub fn ignoring_data() -> Self {
        Self { ignores_data: true, ..Self::default() }
    }

    /// How many calls have sent other data than they did.
    pub fn other_data(&self) -> u64 {
        self.other_data
    }

    /// How many bytes were read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Polls that answered no are passed over: how often a thread polls while others go on is chance.
    ///
    /// # Errors
    /// The record is cut within one.
    pub fn pass_polls(&mut self, record: &[u8]) -> Result<(), ContentStop> {
        loop {
            self.take_again(record)?;
            self.poll = None;
            let mut rest = self.rest(record);
            match rest.first() {
                Some(&NO) => {
                    byte(&mut rest)?;
                    self.poll = Some((named(&mut rest)?, 0));
                    self.read(record, rest);
                }
                _ => return Ok(()),
            }
        }
    }

    /// Passes over other polls that answered no, if behind them comes this one, or its call: how often a thread polls while others go on is chance.
    /// False: something else comes, and nothing is passed over.
    ///
    /// # Errors
    /// The record is cut within one.
    pub fn pass_polls_before(
        &mut self,
        record: &[u8],
        call: u32,
        compared: &[i64],
    ) -> Result<bool, ContentStop> {
        let before = (self.at, self.poll.clone());
        let is_found = |next: &CallContents| next.call == call && next.numbers == compared;
        loop {
            self.take_again(record)?;
            self.poll = None;
            let mut rest = self.rest(record);
            let kind = rest.first().copied();
            if !matches!(kind, Some(NO | CALL)) {
                break;
            }
            byte(&mut rest)?;
            let next = named(&mut rest)?;
            if is_found(&next) {
                return Ok(true);
            }
            if kind == Some(CALL) {
                break;
            }
            self.poll = Some((next, 0));
            self.read(record, rest);
        }
        (self.at, self.poll) = before;
        Ok(false)
    }

    /// Whether a poll has still to answer no, without that anything is read.
    pub fn has_polls(&self) -> bool {
        self.poll.as_ref().is_some_and(|(_, again)| *again > 0)
    }

    fn rest<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        &record[self.at.min(record.len())..]
    }

    /// Everything up to `rest` was read.
    fn read(&mut self, record: &[u8], rest: &[u8]) {
        self.at = record.len() - rest.len();
    }

    /// A call begins.
    ///
    /// # Errors
    /// The record has another one, or ends.
    pub fn call(
        &mut self,
        record: &[u8],
        call: u32,
        compared: &[i64],
        sum: Option<u32>,
    ) -> Result<(), ContentStop> {
        let found = || Box::new(CallContents { call, numbers: compared.to_vec(), sum });
        self.take_again(record)?;
        if let Some((poll, 1..)) = &self.poll {
            return Err(ContentStop::Another { recorded: Box::new(poll.clone()), found: found() });
        }
        let mut rest = self.rest(record);
        let kind = byte(&mut rest)?;
        let recorded = match kind {
            CALL => {
                let mut recorded = named(&mut rest)?;
                if byte(&mut rest)? != 0 {
                    let (four, behind) = rest.split_first_chunk().ok_or(ContentStop::Ended)?;
                    recorded.sum = Some(u32::from_le_bytes(*four));
                    rest = behind;
                }
                recorded
            }
            NO => named(&mut rest)?,
            END => return Err(ContentStop::BehindTheEnd),
            REFUSED => return Err(refused(&mut rest)?),
            _ => return Err(ContentStop::Damaged),
        };
        let is_another = kind == NO || recorded.call != call || recorded.numbers != compared;
        if !is_another && self.ignores_data {
            self.other_data += u64::from(recorded.sum != sum);
        } else if is_another || recorded.sum != sum {
            return Err(ContentStop::Another { recorded: Box::new(recorded), found: found() });
        }
        self.poll = None;
        self.read(record, rest);
        Ok(())
    }

    /// Whether a poll answers no; if not, it is a call of which the record has more.
    ///
    /// # Errors
    /// The record has another call, or ends.
    pub fn is_no(&mut self, record: &[u8], call: u32, compared: &[i64]) -> Result<bool, ContentStop> {
        self.take_again(record)?;
        let is_found = |poll: &CallContents| poll.call == call && poll.numbers == compared;
        let another = |recorded: &CallContents| ContentStop::Another {
            recorded: Box::new(recorded.clone()),
            found: Box::new(CallContents { call, numbers: compared.to_vec(), sum: None }),
        };
        // Nothing is allocated here: programs poll many million times in vain.
        if let Some((poll, again @ 1..)) = &mut self.poll {
            if !is_found(poll) {
                return Err(another(poll));
            }
            *again -= 1;
            return Ok(true);
        }
        let mut rest = self.rest(record);
        if byte(&mut rest)? != NO {
            return Ok(false);
        }
        let recorded = named(&mut rest)?;
        if !is_found(&recorded) {
            return Err(another(&recorded));
        }
        self.poll = Some((recorded, 0));
        self.read(record, rest);
        Ok(true)
    }

    /// Whether the record goes on with another call than this one.
    pub fn has_another(&self, record: &[u8], call: u32, compared: &[i64]) -> bool {
        let mut rest = self.rest(record);
        let is_call = byte(&mut rest) == Ok(CALL);
        is_call && named(&mut rest).is_ok_and(|next| next.call != call || next.numbers != compared)
    }

    /// How often the poll that was last will answer no again.
    fn take_again(&mut self, record: &[u8]) -> Result<(), ContentStop> {
        let mut rest = self.rest(record);
        if let Some((_, again)) = &mut self.poll
            && *again == 0
            && rest.first() == Some(&NO_AGAIN)
        {
            byte(&mut rest)?;
            *again = number(&mut rest)?;
            self.read(record, rest);
        }
        Ok(())
    }

    /// Numbers that the call answered.
    ///
    /// # Errors
    /// The record ends, or has something else.
    pub fn numbers(&mut self, record: &[u8], values: &mut [i64]) -> Result<(), ContentStop> {
        self.take_again(record)?;
        let mut rest = self.rest(record);
        if byte(&mut rest)? != NUMBERS || length(&mut rest)? != values.len() {
            return Err(self.other(record));
        }
        for value in values {
            *value = signed(&mut rest)?;
        }
        self.read(record, rest);
        Ok(())
    }

    /// Where the bytes are that came.
    ///
    /// # Errors
    /// The record ends, or has something else.
    pub fn bytes(&mut self, record: &[u8]) -> Result<Range<usize>, ContentStop> {
        self.take_again(record)?;
        let mut rest = self.rest(record);
        if byte(&mut rest)? != BYTES {
            return Err(self.other(record));
        }
        let len = length(&mut rest)?;
        if rest.len() < len {
            return Err(ContentStop::Ended);
        }
        let from = record.len() - rest.len();
        self.at = from + len;
        Ok(from..self.at)
    }

    /// Why the next item is not what the call asks for.
    fn other(&self, record: &[u8]) -> ContentStop {
        let mut rest = self.rest(record);
        let is_ended = |rest: &[u8]| rest.len() < 2;
        match byte(&mut rest) {
            Ok(REFUSED) => refused(&mut rest).unwrap_or_else(|stop| stop),
            _ if is_ended(self.rest(record)) => ContentStop::Ended,
            _ => ContentStop::Damaged,
        }
    }

    /// The rank ends.
    ///
    /// # Errors
    /// Its record goes on.
    pub fn end(&mut self, record: &[u8]) -> Result<(), ContentStop> {
        self.take_again(record)?;
        let goes_on = self.poll.as_ref().is_some_and(|(_, again)| *again > 0);
        match self.rest(record).first() {
            Some(&END) if !goes_on => {
                self.at += 1;
                Ok(())
            }
            None if !goes_on => Err(ContentStop::Ended),
            _ => Err(ContentStop::EndsEarly),
        }
    }

    /// Whether all of a record was read.
    pub fn is_at_end(&self, record: &[u8]) -> bool {
        matches!(self.rest(record), [] | [END])
    }
}
