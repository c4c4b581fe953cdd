//! Finds the whole frames of a file, whatever else is in it.

use std::io::{self, Read};
use std::ops::Range;

use zstd::bulk::Decompressor;

use super::damage::TapeError;
use super::frame::{
    self, FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, MAX_FRAME_BYTES, VERSION,
};

const READ_BYTES: u64 = 256 << 10;
/// Bytes of payloads that were checked and found damaged, after which the search ends. Headers that claim long payloads could
/// have each byte of a file checked once for each of them.
const MAX_CHECKED_IN_VAIN: u64 = 1 << 30;

/// The frames of a file, one after the other.
#[derive(Debug)]
pub(super) struct Frames<R> {
    source: R,
    /// A part of the file that begins at `buffer_at_bytes`.
    buffer: Vec<u8>,
    buffer_at_bytes: u64,
    /// What of the buffer has been used.
    used: usize,
    payload: Range<usize>,
    at_end: bool,
    checked_in_vain: u64,
}

/// What was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundFrame {
    /// The next whole frame, if there is one; its payload is [`Frames::payload`].
    pub header: Option<FrameHeader>,
    /// Where the search began: bytes before the frame were skipped from here on.
    pub from_bytes: u64,
    /// How many were skipped.
    pub skipped_bytes: u64,
    /// What was skipped contains a header whose payload goes beyond the end of the file.
    pub cut: bool,
}

impl<R: Read> Frames<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            buffer_at_bytes: 0,
            used: 0,
            payload: 0..0,
            at_end: false,
            checked_in_vain: 0,
        }
    }

    /// Uses up the file header. If it is damaged, but there are frames, gives back the first.
    ///
    /// # Errors
    /// This is not a tape, or not one that this version can read; it cannot be read.
    pub(super) fn begin(&mut self) -> Result<Option<FoundFrame>, TapeError> {
        let bytes = self.peek(FILE_HEADER_BYTES)?;
        if bytes.is_empty() {
            return Err(TapeError::Empty);
        }
        match frame::file_version(bytes) {
            Some(version) if version > VERSION => return Err(TapeError::NewerVersion { version }),
            Some(_) => {
                self.skip(FILE_HEADER_BYTES);
                return Ok(None);
            }
            None if bytes.len() < FILE_HEADER_BYTES
                && frame::file_header(VERSION)[..8].starts_with(&bytes[..bytes.len().min(8)]) =>
            {
                return Err(TapeError::NoFrame);
            }
            None => {}
        }
        let found = self.next(MAX_FRAME_BYTES as u64)?;
        if found.header.is_some() { Ok(Some(found)) } else { Err(TapeError::NotATape) }
    }

    /// Payload of the frame found last.
    pub(super) fn payload(&self) -> &[u8] {
        &self.buffer[self.payload.clone()]
    }

    /// More may come: what was an end is none any more.
    pub(super) fn resume(&mut self) {
        self.at_end = false;
    }

    /// Where the bytes come from.
    pub(super) fn source_mut(&mut self) -> &mut R {
        &mut self.source
    }

    /// Whether the search ended because there was too much damage.
    pub(super) fn has_given_up(&self) -> bool {
        self.checked_in_vain > MAX_CHECKED_IN_VAIN
    }

    /// Where in the file the search goes on.
    pub(super) fn position_bytes(&self) -> u64 {
        self.buffer_at_bytes + self.used as u64
    }

    /// The next bytes, fewer at the end of the file; they are not used up.
    pub(super) fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        if self.buffer.len() - self.used < len && !self.at_end {
            self.fill(len)?;
        }
        let unused = &self.buffer[self.used..];
        Ok(&unused[..len.min(unused.len())])
    }

    /// Uses up bytes that were peeked.
    pub(super) fn skip(&mut self, len: usize) {
        self.used = self.buffer.len().min(self.used + len);
    }

    /// Searches the next whole frame that begins before `limit_bytes` of the file.
    pub(super) fn next(&mut self, limit_bytes: u64) -> io::Result<FoundFrame> {
        let from_bytes = self.position_bytes();
        let mut cut = false;
        loop {
            let here = self.position_bytes();
            let found = |header| FoundFrame { header, from_bytes, skipped_bytes: here - from_bytes, cut };
            if here >= limit_bytes || self.has_given_up() {
                return Ok(found(None));
            }
            let Some(bytes) = self.peek(FRAME_HEADER_BYTES)?.first_chunk() else {
                return Ok(self.tail(from_bytes, cut));
            };
            match FrameHeader::decode(bytes) {
                Some(header) if self.take_payload(&header)? => return Ok(found(Some(header))),
                Some(_) => cut |= self.at_end,
                None => {}
            }
            self.skip_to_magic();
        }
    }

    /// The last bytes, too few for a header.
    fn tail(&mut self, from_bytes: u64, cut: bool) -> FoundFrame {
        let rest = &self.buffer[self.used..];
        let begins_a_frame = rest.starts_with(&FRAME_MAGIC) || FRAME_MAGIC.starts_with(rest);
        let cut = cut || (!rest.is_empty() && begins_a_frame);
        self.used = self.buffer.len();
        FoundFrame { header: None, from_bytes, skipped_bytes: self.position_bytes() - from_bytes, cut }
    }

    /// Uses up the frame, if its payload is all there and its CRC is right.
    fn take_payload(&mut self, header: &FrameHeader) -> io::Result<bool> {
        let len = FRAME_HEADER_BYTES + header.compressed_len as usize;
        let Some(payload) = self.peek(len)?.get(FRAME_HEADER_BYTES..len) else { return Ok(false) };
        if crc32c::crc32c(payload) != header.payload_crc {
            self.checked_in_vain += len as u64;
            return Ok(false);
        }
        self.payload = self.used + FRAME_HEADER_BYTES..self.used + len;
        self.used += len;
        Ok(true)
    }

    /// Goes on to the next bytes that could begin a frame, at least by one.
    fn skip_to_magic(&mut self) {
        let rest = &self.buffer[self.used + 1..];
        let magic = rest.windows(FRAME_MAGIC.len()).position(|window| window == FRAME_MAGIC);
        self.used += 1 + magic.unwrap_or(rest.len().saturating_sub(FRAME_MAGIC.len() - 1));
    }

    /// Reads until `len` bytes are there to be peeked. Memory grows with what the file has,
    /// not with what a header claims.
    fn fill(&mut self, len: usize) -> io::Result<()> {
        // Not for every few bytes: what is left would be moved again and again.
        if self.used >= self.buffer.len() / 2 {
            self.buffer.drain(..self.used);
            self.buffer_at_bytes += self.used as u64;
            self.used = 0;
        }
        self.payload = 0..0;
        let len = self.used + len;
        while self.buffer.len() < len && !self.at_end {
            let read = (&mut self.source).take(READ_BYTES).read_to_end(&mut self.buffer)?;
            self.at_end = read == 0;
        }
        Ok(())
    }
}

/// Decompresses a payload to exactly the length that its header declares.
pub(super) fn decompress(
    decompressor: &mut Decompressor<'_>,
    header: &FrameHeader,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> Option<()> {
    let len = header.uncompressed_len as usize;
    out.clear();
    out.reserve_exact(len);
    let written = decompressor.decompress_to_buffer(payload, out).ok()?;
    (written == len).then_some(())
}
