//! What a status says.

use crate::tape::plan::MpiKind;

/// The envelope of a message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// Rank in the communicator.
    pub source: i32,
    pub tag: i32,
    pub cancelled: bool,
    /// How much was received.
    pub bytes: u64,
}

/// Size of one, in bytes.
pub(crate) fn size(kind: MpiKind) -> usize {
    match kind {
        MpiKind::OpenMpi => 24,
        MpiKind::Mpich => 20,
    }
}

/// The status at `index`, from what the program has in memory.
pub(crate) fn read(bytes: &[u8], index: usize, kind: MpiKind) -> Option<Status> {
    let start = index.checked_mul(size(kind))?;
    let status = bytes.get(start..start.checked_add(size(kind))?)?;
    let integer = |at: usize| Some(i32::from_ne_bytes(status.get(at..at + 4)?.try_into().ok()?));
    let word = |at: usize| Some(u64::from_ne_bytes(status.get(at..at + 8)?.try_into().ok()?));
    Some(match kind {
        MpiKind::OpenMpi => {
            Status { source: integer(0)?, tag: integer(4)?, cancelled: integer(12)? != 0, bytes: word(16)? }
        }
        // The higher half of the count is moved up by the bit that says whether it was cancelled.
        MpiKind::Mpich => Status {
            source: integer(8)?,
            tag: integer(12)?,
            cancelled: integer(4)? & 1 != 0,
            bytes: word(0)? >> 33 << 32 | word(0)? & u64::from(u32::MAX),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[i32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn each_library_has_its_own_order() {
        let two = bytes(&[0, 0, 0, 0, 0, 0, 3, 7, 0, 1, 4, 2]);
        let expected = Status { source: 3, tag: 7, cancelled: true, bytes: 4 | 2 << 32 };
        assert_eq!(read(&two, 1, MpiKind::OpenMpi), Some(expected));
        let one = bytes(&[4, 2, 3, 7, 0]);
        let expected = Status { source: 3, tag: 7, cancelled: false, bytes: 4 | 1 << 32 };
        assert_eq!(read(&one, 0, MpiKind::Mpich), Some(expected));
        assert_eq!(read(&one, 1, MpiKind::Mpich), None);
    }
}
