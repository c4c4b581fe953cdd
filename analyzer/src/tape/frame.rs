//! The two headers: of the file, and of a frame.

use super::weight::Weight;

/// The format version that is written; all older ones are read as well. 2: digests and readings of clocks;
/// 3: answers of calls, for replay; 4: envelopes of messages, for the analysis of races, and contents, for replay of one rank alone;
/// 5: what hits of probes cost; 6: what dmscope itself takes from ranks, and the streams of RDMA operations;
/// 7: threads that processes create; 8: what was lost of calls apart from movements, and whether calls are watched in a pause.
pub const VERSION: u32 = 8;
/// Length of what a file begins with: magic, version, CRC.
pub const FILE_HEADER_BYTES: usize = 16;
/// No frame is longer than this, compressed or not: what a damaged or hostile length can cost.
pub const MAX_FRAME_BYTES: usize = 64 << 20;
/// No frame of facts or symbols is longer than this: what is read of JSON takes up to eight times its room.
pub const MAX_JSON_BYTES: usize = 16 << 20;
/// No frame has more inputs than this.
pub const MAX_INPUTS_PER_FRAME: u32 = 1 << 16;

pub(super) const FILE_MAGIC: [u8; 8] = *b"dmtape\x1a\n";
pub(super) const FRAME_MAGIC: [u8; 4] = *b"\xd5dmf";
pub(super) const FRAME_HEADER_BYTES: usize = 68;

/// What a file of a version begins with.
pub(super) fn file_header(version: u32) -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[..8].copy_from_slice(&FILE_MAGIC);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The version that a file header names; `None` if it is none, or damaged.
pub(super) fn file_version(bytes: &[u8]) -> Option<u32> {
    let header = bytes.first_chunk::<FILE_HEADER_BYTES>()?;
    let sound = header[..8] == FILE_MAGIC && crc32c::crc32c(&header[..12]) == u32_at(header, 12);
    sound.then(|| u32_at(header, 8))
}

/// What is in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameKind {
    Records = 1,
    Facts = 2,
    Symbols = 3,
    Digests = 4,
    Answers = 5,
    Contents = 6,
    Messages = 7,
}

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// A [`FrameKind`], or one that a newer version wrote.
    pub kind: u8,
    pub inputs: u32,
    pub compressed_len: u32,
    pub uncompressed_len: u32,
    pub payload_crc: u32,
    /// What the session had before this frame.
    pub before: Weight,
    /// Times of the first and last input; of the last one before it if no input has a time.
    pub first_ns: u64,
    pub last_ns: u64,
}

impl FrameHeader {
    pub(super) fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(&FRAME_MAGIC);
        bytes[4] = self.kind;
        let short = [self.inputs, self.compressed_len, self.uncompressed_len, self.payload_crc];
        for (index, number) in short.into_iter().enumerate() {
            bytes[8 + 4 * index..][..4].copy_from_slice(&number.to_le_bytes());
        }
        let Weight { inputs, movements, state } = self.before;
        for (index, number) in [inputs, movements, state, self.first_ns, self.last_ns].into_iter().enumerate()
        {
            bytes[24 + 8 * index..][..8].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[..64]);
        bytes[64..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` if this is not a frame header, or a damaged one, or one whose lengths are beyond the limits.
    pub(super) fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Option<Self> {
        if bytes[..4] != FRAME_MAGIC || crc32c::crc32c(&bytes[..64]) != u32_at(bytes, 64) {
            return None;
        }
        let header = Self {
            kind: bytes[4],
            inputs: u32_at(bytes, 8),
            compressed_len: u32_at(bytes, 12),
            uncompressed_len: u32_at(bytes, 16),
            payload_crc: u32_at(bytes, 20),
            before: Weight {
                inputs: u64_at(bytes, 24),
                movements: u64_at(bytes, 32),
                state: u64_at(bytes, 40),
            },
            first_ns: u64_at(bytes, 48),
            last_ns: u64_at(bytes, 56),
        };
        let longest = header.compressed_len.max(header.uncompressed_len) as usize;
        let is_json = [FrameKind::Facts as u8, FrameKind::Symbols as u8].contains(&header.kind);
        let most = if is_json { MAX_JSON_BYTES } else { MAX_FRAME_BYTES };
        (longest <= most && header.inputs <= MAX_INPUTS_PER_FRAME).then_some(header)
    }
}

fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FrameHeader {
        FrameHeader {
            kind: FrameKind::Facts as u8,
            inputs: 1,
            compressed_len: 2,
            uncompressed_len: 3,
            payload_crc: 4,
            before: Weight { inputs: 5, movements: 6, state: 7 },
            first_ns: 8,
            last_ns: u64::MAX,
        }
    }

    #[test]
    fn a_frame_header_comes_back() {
        assert_eq!(FrameHeader::decode(&header().encode()), Some(header()));
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_noticed() {
        for bit in 0..8 * FRAME_HEADER_BYTES {
            let mut bytes = header().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(&bytes), None, "bit {bit}");
        }
        for bit in 0..8 * FILE_HEADER_BYTES {
            let mut bytes = file_header(VERSION);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(file_version(&bytes), None, "bit {bit}");
        }
    }

    #[test]
    fn lengths_beyond_the_limits_are_refused() {
        let too_long = MAX_FRAME_BYTES as u32 + 1;
        for bad in [
            FrameHeader { compressed_len: too_long, ..header() },
            FrameHeader { uncompressed_len: MAX_JSON_BYTES as u32 + 1, ..header() },
            FrameHeader { uncompressed_len: too_long, ..header() },
            FrameHeader { inputs: MAX_INPUTS_PER_FRAME + 1, ..header() },
        ] {
            assert_eq!(FrameHeader::decode(&bad.encode()), None);
        }
    }
}
