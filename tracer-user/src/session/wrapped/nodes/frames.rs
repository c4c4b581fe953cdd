//! What a node and the head say to each other: frames, each with its length before it.

use std::io::{self, Read, Write};

use prost::{Message, Oneof};

/// No frame is longer: the parts of files that are sent are not.
const MAX_FRAME_BYTES: usize = 16 << 20;
/// A file is sent in parts of this length.
pub(super) const PART_BYTES: usize = 4 << 20;

/// What a node says.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ToHead {
    #[prost(oneof = "NodeSays", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub says: Option<NodeSays>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum NodeSays {
    #[prost(message, tag = "1")]
    Hello(Hello),
    /// A rank's file has changed.
    #[prost(message, tag = "2")]
    Part(FilePart),
    /// A rank's process has.
    #[prost(message, tag = "3")]
    Process(RemoteProcess),
    /// Nothing more comes.
    #[prost(message, tag = "4")]
    Done(()),
    /// Contents of a rank's messages.
    #[prost(message, tag = "5")]
    Contents(ContentPart),
    /// What was recorded of a rank's contents.
    #[prost(message, tag = "6")]
    ContentsRecorded(ContentsRecorded),
    /// What went wrong, in words.
    #[prost(string, tag = "7")]
    Trouble(String),
}

/// Who connects. The word is what the job has in its environment.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Hello {
    #[prost(string, tag = "1")]
    pub word: String,
    #[prost(string, tag = "2")]
    pub node: String,
    /// See [`replay::shared_page::FORMAT_BYTES`].
    #[prost(bytes = "vec", tag = "3")]
    pub format: Vec<u8>,
}

/// Bytes of a file that both sides have.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FilePart {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, tag = "2")]
    pub offset_bytes: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub bytes: Vec<u8>,
}

/// What was recorded of the contents of a rank's messages, from a place in all of it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ContentPart {
    #[prost(uint32, tag = "1")]
    pub rank: u32,
    #[prost(uint64, tag = "2")]
    pub offset_bytes: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub bytes: Vec<u8>,
}

/// See [`RankContents`](super::super::content_rings::RankContents).
#[derive(Clone, PartialEq, Message)]
pub(super) struct ContentsRecorded {
    #[prost(uint32, tag = "1")]
    pub rank: u32,
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    #[prost(bool, tag = "3")]
    pub is_stopped: bool,
}

/// A rank's process on its node.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RemoteProcess {
    #[prost(uint32, tag = "1")]
    pub rank: u32,
    #[prost(uint32, tag = "2")]
    pub pid: u32,
    /// It is there, and nobody has stopped it.
    #[prost(bool, tag = "3")]
    pub is_running: bool,
}

/// What the head says.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ToNode {
    #[prost(oneof = "HeadSays", tags = "1, 2, 3, 4, 5")]
    pub says: Option<HeadSays>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum HeadSays {
    /// Part of a file that ranks read.
    #[prost(message, tag = "1")]
    Part(FilePart),
    /// All files are there.
    #[prost(message, tag = "2")]
    Ready(()),
    /// The node cannot take part: why.
    #[prost(string, tag = "3")]
    Refused(String),
    /// The job was to end: what is left of it is killed.
    #[prost(message, tag = "4")]
    Kill(()),
    /// The job has ended: what is left to send is sent now.
    #[prost(message, tag = "5")]
    Finish(()),
}

/// # Errors
/// The connection is gone.
pub(super) fn send(stream: &mut impl Write, frame: &impl Message) -> io::Result<()> {
    let bytes = frame.encode_to_vec();
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    // In one piece: what comes in two waits for an acknowledgement.
    stream.write_all(&[&len.to_le_bytes()[..], &bytes].concat())
}

/// The next frame of the other side, which is not longer than this.
///
/// # Errors
/// The connection is gone, or what comes is no frame.
pub(super) fn receive<T: Message + Default>(stream: &mut impl Read, most_bytes: usize) -> io::Result<T> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > most_bytes {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    if stream.take(len as u64).read_to_end(&mut bytes)? < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    T::decode(&bytes[..]).map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))
}

/// The same, of a side that has said who it is.
///
/// # Errors
/// See [`receive`].
pub(super) fn receive_known<T: Message + Default>(stream: &mut impl Read) -> io::Result<T> {
    receive(stream, MAX_FRAME_BYTES)
}

/// What the names of files begin with that have a page at their beginning, and grow; the rank is behind it.
pub(super) const PAGED_FILES: [&str; 3] = [RANKS, "again-", "messages-"];
/// Those of ranks themselves.
pub(super) const RANKS: &str = "rank-";
/// Why a rank refuses to run.
pub(super) const REFUSALS: &str = "refused-";

/// The file that says that the folder is as it should be; in it is why the node cannot take part, if it cannot.
pub(super) const READY: &str = "ready";

/// The rank that writes a file of this name; none: it is not one of the files that ranks write.
pub(super) fn written_by_rank(name: &str) -> Option<u32> {
    let rank = PAGED_FILES.into_iter().chain([REFUSALS]).find_map(|prefix| name.strip_prefix(prefix))?;
    let is_number = rank.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| rank.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_as_they_were_sent() {
        let part = FilePart { name: "rank-3".into(), offset_bytes: 4096, bytes: vec![7; 100] };
        let frames = [
            ToHead { says: Some(NodeSays::Part(part)) },
            ToHead { says: Some(NodeSays::Done(())) },
            ToHead { says: None },
        ];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| send(&mut bytes, frame).expect("there is room"));
        let mut from = &bytes[..];
        for frame in &frames {
            assert_eq!(&receive_known::<ToHead>(&mut from).expect("a frame"), frame);
        }
        assert_eq!(receive_known::<ToHead>(&mut from).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_too_long_cut_or_no_frame_is_an_error() {
        let kind = |bytes: &[u8]| receive::<ToHead>(&mut &bytes[..], 16).unwrap_err().kind();
        assert_eq!(kind(&[17, 0, 0, 0]), io::ErrorKind::InvalidData);
        assert_eq!(kind(&[255; 8]), io::ErrorKind::InvalidData);
        assert_eq!(kind(&[5, 0, 0, 0, 1]), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(&[1, 0, 0, 0, 255]), io::ErrorKind::InvalidData);
    }

    #[test]
    fn only_files_of_ranks_are_taken_from_nodes() {
        assert_eq!(written_by_rank("rank-12"), Some(12));
        assert_eq!(written_by_rank("refused-0"), Some(0));
        for name in ["rank", "rank-", "rank-x", "rank-+1", "record-1", "job", "../rank-1", "rank-99999999999"]
        {
            assert_eq!(written_by_rank(name), None, "{name}");
        }
    }
}
