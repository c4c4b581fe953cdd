//! Numbers and text in bytes that others wrote: what is read is checked, and nothing is allocated that is not there.

use super::varint;

/// The bytes do not say what they should: nobody's version of dmscope wrote them, or they are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes contradict themselves")]
pub struct BadBytes;

/// Writes numbers and text, one after the other.
#[derive(Debug, Default)]
pub(crate) struct ByteWriter {
    bytes: Vec<u8>,
}

impl ByteWriter {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Puts what another one has written behind this.
    pub(crate) fn append(&mut self, other: Self) {
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn number(&mut self, number: u64) {
        varint::put(&mut self.bytes, number);
    }

    /// How many of something follow.
    pub(crate) fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    /// A difference that may be negative; small ones are short.
    pub(crate) fn signed(&mut self, number: i64) {
        varint::put_signed(&mut self.bytes, number);
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.bytes.push(u8::from(flag));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// What may not be there.
    pub(crate) fn optional<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            put(self, value);
        }
    }

    /// How many there are, and each.
    pub(crate) fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut put: impl FnMut(&mut Self, T),
    ) {
        self.count(items.len());
        items.for_each(|item| put(self, item));
    }
}

/// Reads what a [`ByteWriter`] wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes that were not read.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// That all was read.
    pub(crate) fn finish(&self) -> Result<(), BadBytes> {
        if self.rest.is_empty() { Ok(()) } else { Err(BadBytes) }
    }

    pub(crate) fn number(&mut self) -> Result<u64, BadBytes> {
        let (number, len) = varint::take(self.rest).ok_or(BadBytes)?;
        self.rest = &self.rest[len..];
        Ok(number)
    }

    /// A number that fits into a smaller type.
    pub(crate) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, BadBytes> {
        T::try_from(self.number()?).map_err(|_| BadBytes)
    }

    pub(crate) fn signed(&mut self) -> Result<i64, BadBytes> {
        Ok(varint::signed(self.number()?))
    }

    pub(crate) fn byte(&mut self) -> Result<u8, BadBytes> {
        let (&byte, rest) = self.rest.split_first().ok_or(BadBytes)?;
        self.rest = rest;
        Ok(byte)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, BadBytes> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BadBytes),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], BadBytes> {
        let len = self.small::<usize>()?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(BadBytes)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, BadBytes> {
        std::str::from_utf8(self.bytes()?).map_err(|_| BadBytes)
    }

    pub(crate) fn optional<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<T, BadBytes>,
    ) -> Result<Option<T>, BadBytes> {
        if self.flag()? { take(self).map(Some) } else { Ok(None) }
    }

    /// A list. Each of its items has at least one byte, so that no list is longer than what there is to read.
    pub(crate) fn list<T>(
        &mut self,
        mut take: impl FnMut(&mut Self) -> Result<T, BadBytes>,
    ) -> Result<Vec<T>, BadBytes> {
        /// What a list has room for before its items have come.
        const FIRST_ROOM: usize = 64;
        let count = self.small::<usize>()?;
        if count > self.rest.len() {
            return Err(BadBytes);
        }
        let mut items = Vec::with_capacity(count.min(FIRST_ROOM));
        for _ in 0..count {
            let before = self.rest.len();
            items.push(take(self)?);
            debug_assert!(self.rest.len() < before, "an item without bytes");
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back() {
        let mut w = ByteWriter::default();
        w.number(u64::MAX);
        w.signed(-3);
        w.text("é");
        w.optional(Some(7u64), ByteWriter::number);
        w.optional(None, ByteWriter::number);
        w.list([1u64, 300].into_iter(), ByteWriter::number);
        let bytes = w.into_bytes();
        let mut r = ByteReader::new(&bytes);
        assert_eq!((r.number(), r.signed(), r.text()), (Ok(u64::MAX), Ok(-3), Ok("é")));
        assert_eq!(r.optional(ByteReader::number), Ok(Some(7)));
        assert_eq!(r.optional(ByteReader::number), Ok(None));
        assert!(r.finish().is_err());
        assert_eq!(r.list(ByteReader::number), Ok(vec![1, 300]));
        assert_eq!(r.finish(), Ok(()));
    }

    #[test]
    fn lengths_beyond_what_is_there_and_what_is_no_text_are_refused() {
        let long = [0xff, 0xff, 0xff, 0xff, 0x0f, 1];
        assert_eq!(ByteReader::new(&long).bytes(), Err(BadBytes));
        assert_eq!(ByteReader::new(&long).list(ByteReader::number), Err(BadBytes));
        assert_eq!(ByteReader::new(&[1, 0xff]).text(), Err(BadBytes));
        assert_eq!(ByteReader::new(&[2]).flag(), Err(BadBytes));
        assert_eq!(ByteReader::new(&[0x80, 2]).small::<u8>(), Err(BadBytes));
        assert_eq!(ByteReader::new(&[]).number(), Err(BadBytes));
    }
}
