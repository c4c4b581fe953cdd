//! A node's way to its coordinator: pieces of its tape, and words beside them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use analyzer::finding::{Alert, Report};
use analyzer::input::{Input, Symbol};
use analyzer::tape::Writer;
use analyzer::wire::FileId;
use crossbeam_channel::Sender;

use super::bus::{Bus, BusError};
use super::envelope::{ContentKind, Numbering};
use super::protocol::{self, UpMessage};
use crate::host::files::OpenedFile;
use crate::session::{AttachSummary, InputFeed, NameSource, Recorded, SessionStatus, Sink};

/// Frames that are gathered to one message are not longer together: half of what servers take.
const MOST_GATHERED_BYTES: usize = 512 << 10;

/// Sends what a session has to say. Clones say it as the same publisher.
#[derive(Clone)]
pub struct Uplink {
    bus: Arc<dyn Bus>,
    subject: Arc<str>,
    numbering: Arc<Mutex<Numbering>>,
}

impl Uplink {
    /// To a subject.
    pub fn new(bus: Arc<dyn Bus>, subject: &str) -> Self {
        Self { bus, subject: subject.into(), numbering: Arc::default() }
    }

    /// The bus that it goes over.
    pub fn bus(&self) -> Arc<dyn Bus> {
        Arc::clone(&self.bus)
    }

    fn send(&self, kind: ContentKind, content: &[u8]) -> Result<(), BusError> {
        let most_bytes = self.bus.facts().most_bytes;
        // Whoever panicked has used up a number, which shows as a lost message.
        let mut numbering = self.numbering.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = numbering.messages(kind, content, most_bytes);
        messages.into_iter().try_for_each(|message| self.bus.publish(&self.subject, None, message))
    }

    /// Says a word. One that the bus does not take is lost: none is needed for what is found.
    pub fn say(&self, word: &UpMessage) {
        let _ = self.send(ContentKind::Word, &protocol::bytes(word));
    }

    /// Answers a question, where its message says.
    pub fn answer(&self, reply: &str, answer: &impl serde::Serialize) {
        let _ = self.bus.publish(reply, None, protocol::bytes(answer));
    }

    /// Waits until all of it is sent, for so long at most.
    pub fn flush(&self, limit: Duration) -> bool {
        self.bus.flush(limit)
    }
}

/// Frames of a tape that are one content: those of one flush, which cost one message and not one each.
struct PiecesOfTape {
    uplink: Uplink,
    frames: Vec<u8>,
}

impl PiecesOfTape {
    fn send(&mut self) -> io::Result<()> {
        if !self.frames.is_empty() {
            let sent = self.uplink.send(ContentKind::Tape, &self.frames);
            sent.map_err(|error| io::Error::new(io::ErrorKind::WouldBlock, error))?;
            self.frames.clear();
        }
        Ok(())
    }
}

impl Write for PiecesOfTape {
    /// What the bus does not take is tried again, as on a disk that is full.
    fn write(&mut self, frame: &[u8]) -> io::Result<usize> {
        if self.frames.len() + frame.len() > MOST_GATHERED_BYTES {
            self.send()?;
        }
        self.frames.extend_from_slice(frame);
        Ok(frame.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

/// The inputs of a session as pieces of a tape.
pub struct TapeFeed {
    writer: Writer<PiecesOfTape>,
    /// Nothing is sent before this is set: there may be nothing to say.
    begins: Arc<AtomicBool>,
}

impl TapeFeed {
    /// To a coordinator, from when `begins` is set.
    pub fn new(uplink: Uplink, begins: Arc<AtomicBool>) -> Self {
        Self { writer: Writer::new(PiecesOfTape { uplink, frames: Vec::new() }), begins }
    }
}

impl InputFeed for TapeFeed {
    fn push(&mut self, input: &Input) {
        // What is not taken is counted in the next frame, so that the coordinator knows what is missing.
        let _ = self.writer.push(input);
    }

    fn flush(&mut self) {
        if self.begins.load(Ordering::Relaxed) {
            let _ = self.writer.flush();
        }
    }
}

/// Hands files on to the thread that answers questions for names.
pub struct FilesForNames(pub Sender<Vec<(FileId, Arc<OpenedFile>)>>);

impl NameSource for FilesForNames {
    fn know(&mut self, files: Vec<(FileId, Arc<OpenedFile>)>) {
        // Without that thread there are no names.
        let _ = self.0.send(files);
    }

    /// A node says nothing to people: its coordinator asks for the names that it needs.
    fn resolve(&mut self, _places: Vec<(FileId, u64)>) -> Vec<Symbol> {
        Vec::new()
    }
}

/// What a session tells, told to the coordinator.
pub struct WordSink(pub Uplink);

impl Sink for WordSink {
    fn placed(&mut self, spare_cpus: &[u32]) {
        self.0.say(&UpMessage::Placed(spare_cpus.to_vec()));
    }

    fn attached(&mut self, summary: &AttachSummary) {
        self.0.say(&UpMessage::Attached(summary.clone()));
    }

    fn notice(&mut self, message: &str) {
        self.0.say(&UpMessage::Notice(message.to_owned()));
    }

    fn status(&mut self, status: &SessionStatus, _report: Option<&Report>) {
        self.0.say(&UpMessage::Status(status.clone()));
    }

    // What is found is found by the coordinator, who has the inputs of all nodes.
    fn alert(&mut self, _alert: &Alert) {}

    fn recorded(&mut self, _tape: &Recorded<'_>) {}

    fn report(&mut self, _report: &Report) {}
}

#[cfg(test)]
mod tests {
    use analyzer::tape::{Item, Reader};

    use super::super::bus::LocalBus;
    use super::super::envelope::Assembly;
    use super::*;

    #[test]
    fn inputs_arrive_as_they_were_with_words_in_between() {
        let bus = LocalBus::default();
        let inbox = bus.subscribe("up").expect("a bus");
        let uplink = Uplink::new(Arc::new(bus), "up");
        let begins = Arc::new(AtomicBool::new(false));
        let mut feed = TapeFeed::new(uplink.clone(), Arc::clone(&begins));
        let inputs = [Input::Start(Box::default()), Input::Tick { time_ns: 5 }];
        feed.push(&inputs[0]);
        feed.flush();
        assert!(inbox.try_next().is_none(), "nothing is sent before it begins");
        begins.store(true, Ordering::Relaxed);
        feed.flush();
        uplink.say(&UpMessage::Notice("a word".into()));
        feed.push(&inputs[1]);
        feed.flush();
        let (mut assembly, mut reader) = (Assembly::default(), Reader::of_feed().expect("memory"));
        let (mut words, mut got) = (0, Vec::new());
        while let Some(message) = inbox.try_next() {
            let content = assembly.take(&message).expect("each is whole");
            match content.kind {
                ContentKind::Tape => reader.feed(&content.bytes),
                _ => words += 1,
            }
            while let Some(Item::Input(input)) = reader.poll().expect("this version") {
                got.push(input);
            }
        }
        assert_eq!((words, got.as_slice(), assembly.lost), (1, &inputs[..], 0));
    }
}
