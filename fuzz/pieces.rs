//! Tapes made of pieces, and pieces made of tapes.
//!
//! A piece is a byte, a length (u16) and that many bytes. The byte says what they are:
//! 0: bytes of the tape as they are; else: header fields and payload, not compressed, of a
//! frame of this kind, which is given correct lengths and checksums.

const FRAME_MAGIC: &[u8] = b"\xd5dmf";
const FILE_HEADER_BYTES: usize = 16;
const FRAME_HEADER_BYTES: usize = 68;
/// inputs (u16), and the five numbers from `before.inputs` to `last_ns` (u8 each, steps from the frame before).
const FIELDS: usize = 2 + 5;

/// Makes a tape; it begins with a good file header unless the first piece is raw.
pub fn tape_of(mut bytes: &[u8]) -> Vec<u8> {
    let mut tape = Vec::new();
    let mut before = [0_u64; 5];
    while let [kind, low, high, rest @ ..] = bytes {
        let len = rest.len().min(usize::from(u16::from_le_bytes([*low, *high])));
        let (piece, rest) = rest.split_at(len);
        bytes = rest;
        if tape.is_empty() && *kind != 0 {
            tape.extend_from_slice(&file_header());
        }
        match piece.split_at_checked(FIELDS) {
            Some((fields, payload)) if *kind != 0 => {
                push_frame(&mut tape, *kind, fields, payload, &mut before)
            }
            _ => tape.extend_from_slice(piece),
        }
    }
    tape
}

fn push_frame(tape: &mut Vec<u8>, kind: u8, fields: &[u8], payload: &[u8], before: &mut [u64; 5]) {
    for (number, step) in before.iter_mut().zip(&fields[2..]) {
        *number = if *step == 0xff { u64::MAX } else { number.wrapping_add(u64::from(*step)) };
    }
    let inputs = u32::from(u16::from_le_bytes([fields[0], fields[1]]));
    let compressed = stored(payload);
    let mut header = Vec::with_capacity(FRAME_HEADER_BYTES);
    header.extend_from_slice(FRAME_MAGIC);
    header.extend_from_slice(&[kind, 0, 0, 0]);
    let short = [inputs, compressed.len() as u32, payload.len() as u32, crc32c::crc32c(&compressed)];
    short.iter().for_each(|number| header.extend_from_slice(&number.to_le_bytes()));
    before.iter().for_each(|number| header.extend_from_slice(&number.to_le_bytes()));
    let crc = crc32c::crc32c(&header);
    header.extend_from_slice(&crc.to_le_bytes());
    tape.extend_from_slice(&header);
    tape.extend_from_slice(&compressed);
}

/// A zstd frame that holds the bytes as they are: setting up a compressor costs more than a whole run.
fn stored(payload: &[u8]) -> Vec<u8> {
    const SINGLE_SEGMENT_LENGTH_U32: u8 = 0xa0;
    const LAST_RAW_BLOCK: u32 = 1;
    let len = payload.len() as u32;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, SINGLE_SEGMENT_LENGTH_U32];
    frame.extend_from_slice(&len.to_le_bytes());
    frame.extend_from_slice(&(len << 3 | LAST_RAW_BLOCK).to_le_bytes()[..3]);
    frame.extend_from_slice(payload);
    frame
}

fn file_header() -> [u8; FILE_HEADER_BYTES] {
    let empty = analyzer::tape::Writer::new(Vec::new()).finish().expect("memory takes everything");
    empty.try_into().expect("a tape without inputs is a file header")
}

/// The pieces of a good tape: seeds. Steps of header fields beyond a byte are cut.
pub fn pieces_of(tape: &[u8]) -> Vec<u8> {
    let mut pieces = Vec::new();
    let mut rest = &tape[FILE_HEADER_BYTES..];
    let mut before = [0_u64; 5];
    while let Some((header, behind)) = rest.split_at_checked(FRAME_HEADER_BYTES) {
        let short =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (compressed, behind) = behind.split_at(short(12) as usize);
        rest = behind;
        let payload = zstd::bulk::decompress(compressed, short(16) as usize).expect("a good tape");
        pieces.push(header[4]);
        pieces.extend_from_slice(&((FIELDS + payload.len()) as u16).to_le_bytes());
        pieces.extend_from_slice(&(short(8) as u16).to_le_bytes());
        for (index, last) in before.iter_mut().enumerate() {
            let number = u64::from(short(24 + 8 * index));
            pieces.push(number.saturating_sub(*last).min(0xfe) as u8);
            *last = number;
        }
        pieces.extend_from_slice(&payload);
    }
    pieces
}
