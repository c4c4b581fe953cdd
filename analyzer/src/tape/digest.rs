//! What the agent of a node has counted of its part of a job.
//!
//! Where no place can read the records of all nodes, each has an agent that does, and tells counts. What is in them is for
//! the analysis (see `chains/sums`); here they are bytes, with the numbers that are unique on one node alone beside them.

use super::bytes::{BadBytes, ByteReader, ByteWriter};
use super::wire::FileId;

/// No digest has more bytes than this.
pub(crate) const MAX_DIGEST_BYTES: usize = 32 << 20;

/// What was counted on a node since its last digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// The node, once its inputs are among those of other nodes.
    pub node: u32,
    /// Tells sessions of an agent apart.
    pub session: u64,
    /// Which digest of its session it is, from 0.
    pub number: u64,
    /// CLOCK_MONOTONIC when it was made: what was counted is from before.
    pub time_ns: u64,
    /// Processes and threads that the content speaks of by their places here. One of another node is that of a node relative
    /// to this one, until the inputs are among those of other nodes.
    pub pids: Vec<u32>,
    /// The same: files.
    pub files: Vec<FileId>,
    /// The same: probes.
    pub probes: Vec<u32>,
    /// The counts.
    pub content: Vec<u8>,
}

impl Digest {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = ByteWriter::default();
        w.number(self.node.into());
        [self.session, self.number, self.time_ns].into_iter().for_each(|number| w.number(number));
        w.list(self.pids.iter(), |w, pid| w.number((*pid).into()));
        w.list(self.files.iter(), |w, file| {
            w.number(file.dev.into());
            w.number(file.inode);
        });
        w.list(self.probes.iter(), |w, probe| w.number((*probe).into()));
        w.bytes(&self.content);
        w.into_bytes()
    }

    /// From bytes.
    ///
    /// # Errors
    /// They are not those of a digest.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadBytes> {
        if bytes.len() > MAX_DIGEST_BYTES {
            return Err(BadBytes);
        }
        let mut r = ByteReader::new(bytes);
        let digest = Self {
            node: r.small()?,
            session: r.number()?,
            number: r.number()?,
            time_ns: r.number()?,
            pids: r.list(ByteReader::small)?,
            files: r.list(|r| Ok(FileId { dev: r.small()?, inode: r.number()? }))?,
            probes: r.list(ByteReader::small)?,
            content: r.bytes()?.to_vec(),
        };
        r.finish()?;
        Ok(digest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digest() -> Digest {
        Digest {
            node: 3,
            session: u64::MAX,
            number: 1,
            time_ns: 1 << 40,
            pids: vec![7, u32::MAX],
            files: vec![FileId { dev: 1, inode: u64::MAX }],
            probes: vec![],
            content: vec![1, 2, 3],
        }
    }

    #[test]
    fn a_digest_comes_back_from_its_bytes_and_not_from_some_of_them() {
        let bytes = digest().encode();
        assert_eq!(Digest::decode(&bytes), Ok(digest()));
        for len in 0..bytes.len() {
            assert_eq!(Digest::decode(&bytes[..len]), Err(BadBytes), "{len}");
        }
        assert_eq!(Digest::decode(&[&bytes[..], &[0]].concat()), Err(BadBytes));
    }

    proptest! {
        #[test]
        fn other_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(digest) = Digest::decode(&bytes) {
                prop_assert_eq!(Digest::decode(&digest.encode()), Ok(digest));
            }
        }
    }
}
