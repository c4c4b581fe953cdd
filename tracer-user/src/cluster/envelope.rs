//! What a node sends to its coordinator: numbered, in parts where it is longer than a message may be.

use super::bus::BusMessage;

/// Bytes before the content.
const HEADER_BYTES: usize = 8;
/// First byte of each: another one if this form changes.
const FORM: u8 = 1;
/// Most bytes that the parts of one content may have together.
const MOST_CONTENT_BYTES: usize = 64 << 20;

/// What is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    /// A piece of the node's tape.
    Tape,
    /// A word beside it, as JSON.
    Word,
    /// A letter to another node.
    Letter,
    /// A word of the agent about a session that cannot speak for itself: it has no number.
    Obituary,
}

impl ContentKind {
    fn number(self) -> u8 {
        match self {
            Self::Tape => 0,
            Self::Word => 1,
            Self::Obituary => 2,
            Self::Letter => 3,
        }
    }

    fn of(number: u8) -> Option<Self> {
        [Self::Tape, Self::Word, Self::Obituary, Self::Letter]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

/// Numbers what one publisher sends.
#[derive(Debug, Default)]
pub struct Numbering {
    next: u32,
}

impl Numbering {
    /// The messages that carry a content.
    pub fn messages(&mut self, kind: ContentKind, content: &[u8], most_bytes: usize) -> Vec<Vec<u8>> {
        let room = most_bytes.saturating_sub(HEADER_BYTES).max(1);
        let count = content.len().div_ceil(room).max(1);
        let parts = (0..count).map(|part| {
            let from = part * room;
            let bytes = &content[from..content.len().min(from + room)];
            let has_more = u8::from(part + 1 < count);
            let mut message = Vec::with_capacity(HEADER_BYTES + bytes.len());
            message.extend([FORM, kind.number(), has_more, 0]);
            message.extend(self.take().to_le_bytes());
            message.extend(bytes);
            message
        });
        parts.collect()
    }

    fn take(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }
}

/// A word of an agent about a session of which it cannot continue the numbers.
pub fn obituary(content: &[u8]) -> Vec<u8> {
    [&[FORM, ContentKind::Obituary.number(), 0, 0, 0, 0, 0, 0][..], content].concat()
}

/// A content that has arrived whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// What it is.
    pub kind: ContentKind,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// Puts together what one publisher sends.
#[derive(Debug, Default)]
pub struct Assembly {
    next: u32,
    parts: Vec<u8>,
    kind: Option<ContentKind>,
    /// Messages that were lost on the way.
    pub lost: u64,
    /// Messages that are none.
    pub strange: u64,
}

impl Assembly {
    /// Takes a message; gives the content that it completes.
    pub fn take(&mut self, message: &BusMessage) -> Option<Content> {
        let Some((kind, has_more, number, bytes)) = decode(&message.payload) else {
            self.strange += 1;
            return None;
        };
        if kind == ContentKind::Obituary {
            return Some(Content { kind, bytes: bytes.to_vec() });
        }
        let missing = number.wrapping_sub(self.next);
        if missing > u32::MAX / 2 {
            // It comes twice, or late.
            self.strange += 1;
            return None;
        }
        self.lost += u64::from(missing);
        self.next = number.wrapping_add(1);
        if missing > 0 || self.kind != Some(kind) {
            self.parts.clear();
            // Without its first parts a content is nothing. A reader of tapes finds the next whole frame by itself.
            self.kind = Some(kind);
        }
        if self.parts.len() + bytes.len() > MOST_CONTENT_BYTES {
            self.strange += 1;
            self.parts.clear();
            return None;
        }
        self.parts.extend_from_slice(bytes);
        if has_more {
            return None;
        }
        self.kind = None;
        Some(Content { kind, bytes: std::mem::take(&mut self.parts) })
    }
}

fn decode(payload: &[u8]) -> Option<(ContentKind, bool, u32, &[u8])> {
    let (&[FORM, kind, has_more, _, a, b, c, d], bytes) = payload.split_first_chunk::<HEADER_BYTES>()? else {
        return None;
    };
    Some((ContentKind::of(kind)?, has_more != 0, u32::from_le_bytes([a, b, c, d]), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: Vec<u8>) -> BusMessage {
        BusMessage { payload, ..BusMessage::default() }
    }

    fn take_all(assembly: &mut Assembly, messages: Vec<Vec<u8>>) -> Vec<Content> {
        messages.into_iter().filter_map(|payload| assembly.take(&message(payload))).collect()
    }

    #[test]
    fn what_is_sent_in_parts_arrives_whole() {
        let (mut numbering, mut assembly) = (Numbering::default(), Assembly::default());
        for len in [0_usize, 1, 91, 92, 93, 1000] {
            let bytes: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
            let messages = numbering.messages(ContentKind::Tape, &bytes, 100);
            assert!(messages.iter().all(|message| message.len() <= 100));
            let found = take_all(&mut assembly, messages);
            assert_eq!(found, [Content { kind: ContentKind::Tape, bytes }]);
        }
        assert_eq!((assembly.lost, assembly.strange), (0, 0));
    }

    #[test]
    fn a_lost_message_costs_its_content_and_is_counted() {
        let (mut numbering, mut assembly) = (Numbering::default(), Assembly::default());
        take_all(&mut assembly, numbering.messages(ContentKind::Word, b"one", 100));
        let mut messages = numbering.messages(ContentKind::Word, &[7; 30], 18);
        messages.remove(1);
        messages.extend(numbering.messages(ContentKind::Word, b"two", 100));
        let found = take_all(&mut assembly, messages);
        assert_eq!(found.last().map(|content| content.bytes.clone()), Some(b"two".to_vec()));
        assert_eq!((assembly.lost, assembly.strange), (1, 0));
    }

    #[test]
    fn what_comes_twice_or_is_no_message_changes_nothing() {
        let (mut numbering, mut assembly) = (Numbering::default(), Assembly::default());
        let one = numbering.messages(ContentKind::Word, b"one", 100);
        let two = numbering.messages(ContentKind::Word, b"two", 100);
        take_all(&mut assembly, one.clone());
        for strange in [one[0].clone(), vec![], vec![9; 4], vec![9; 40], vec![FORM, 77, 0, 0, 1, 0, 0, 0]] {
            assert_eq!(assembly.take(&message(strange)), None);
        }
        assert_eq!(assembly.strange, 5);
        assert_eq!(take_all(&mut assembly, two).len(), 1);
        assert_eq!(assembly.lost, 0);
    }

    #[test]
    fn an_agent_speaks_for_a_session_whatever_its_number_is() {
        let (mut numbering, mut assembly) = (Numbering::default(), Assembly::default());
        take_all(&mut assembly, numbering.messages(ContentKind::Word, b"one", 100));
        let found = assembly.take(&message(obituary(b"gone"))).expect("a content");
        assert_eq!((found.kind, found.bytes), (ContentKind::Obituary, b"gone".to_vec()));
        assert_eq!(take_all(&mut assembly, numbering.messages(ContentKind::Word, b"two", 100)).len(), 1);
        assert_eq!((assembly.lost, assembly.strange), (0, 0));
    }

    #[test]
    fn parts_without_end_are_given_up() {
        let mut assembly = Assembly::default();
        let mut numbering = Numbering::default();
        for _ in 0..80 {
            let mut part = numbering.messages(ContentKind::Tape, &vec![0; 1 << 20], 2 << 20).remove(0);
            part[2] = 1;
            assert_eq!(assembly.take(&message(part)), None);
            assert!(assembly.parts.len() <= MOST_CONTENT_BYTES);
        }
        assert_eq!(assembly.strange, 1);
    }
}
