//! The session's side.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::messages::{AllClosed, LinkId, LinkSpec, Made, Request, ReturnMode};
use super::serve::serve_on;
use crate::host::sandbox::{receive, send, send_file, start_child};

/// The word that makes this program the holder.
const COMMAND: &str = "hold-links";

/// Where links are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HolderPlace {
    /// In a thread: a process that is killed may leave breakpoints.
    #[default]
    Thread,
    /// In a process of this program, which is dmscope itself.
    Process,
}

/// The holder has ended, and all links with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the process that holds the probes has ended: nothing is traced any more")]
pub struct HolderGone;

/// A link to make.
pub struct NewLink<'a> {
    pub program: BorrowedFd<'a>,
    pub file: BorrowedFd<'a>,
    /// The only process that it is for; else it is for everybody.
    pub process: Option<u32>,
    pub returns: ReturnMode,
    /// Of the places in the file.
    pub offsets_bytes: Vec<u64>,
    /// What the program is told at each place.
    pub cookies: Vec<u64>,
}

/// Makes and holds links. Dropping it closes them, and waits for that.
pub struct LinkHolder {
    socket: UnixStream,
    runs: Runs,
}

enum Runs {
    Process(Child),
    Thread(Option<JoinHandle<io::Result<()>>>),
}

impl LinkHolder {
    /// Starts it.
    ///
    /// # Errors
    /// No process or thread to be had.
    pub fn start(place: HolderPlace) -> io::Result<Self> {
        match place {
            HolderPlace::Process => {
                let (child, socket) = start_child(Path::new("/proc/self/exe"), COMMAND)?;
                Ok(Self { socket, runs: Runs::Process(child) })
            }
            HolderPlace::Thread => {
                let (socket, theirs) = UnixStream::pair()?;
                let thread = std::thread::Builder::new().name("dms-links".into());
                let thread = thread.spawn(move || serve_on(theirs))?;
                Ok(Self { socket, runs: Runs::Thread(Some(thread)) })
            }
        }
    }

    /// Makes links, and says for each what it is called or why there is none.
    ///
    /// # Errors
    /// It is gone.
    pub fn make(&mut self, links: &[NewLink<'_>]) -> Result<Vec<io::Result<LinkId>>, HolderGone> {
        let answers = self.ask_for(links).map_err(|_| HolderGone)?;
        if answers.len() != links.len() {
            return Err(HolderGone);
        }
        Ok(answers.into_iter().map(|answer| answer.map_err(io::Error::from_raw_os_error)).collect())
    }

    fn ask_for(&mut self, links: &[NewLink<'_>]) -> io::Result<Vec<Result<LinkId, i32>>> {
        let (mut programs, mut files) = (Descriptors::default(), Descriptors::default());
        let specs = links.iter().map(|link| LinkSpec {
            program: programs.place(link.program),
            file: files.place(link.file),
            process: link.process,
            returns: link.returns,
            offsets_bytes: link.offsets_bytes.clone(),
            cookies: link.cookies.clone(),
        });
        let links = specs.collect();
        let request = Request::Make { programs: programs.0.len(), files: files.0.len(), links };
        send(&mut self.socket, &request)?;
        for descriptor in programs.0.iter().chain(&files.0) {
            send_file(&self.socket, descriptor)?;
        }
        receive::<Made>(&mut self.socket).map(|made| made.0)
    }

    /// Closes links. Returns at once.
    pub fn close(&mut self, links: Vec<LinkId>) {
        if !links.is_empty() {
            // If it is gone, so are they.
            let _ = send(&mut self.socket, &Request::Close(links));
        }
    }

    /// Waits until all that were to be closed are.
    pub fn wait_for_closed(&mut self) {
        let sent = send(&mut self.socket, &Request::WaitForClosed);
        // If it is gone, they are closed.
        let _ = sent.and_then(|()| receive::<AllClosed>(&mut self.socket));
    }

    /// Whether it is there.
    ///
    /// # Errors
    /// It has ended.
    pub fn check(&self) -> Result<(), HolderGone> {
        let mut socket = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let at_once = Timespec::try_from(Duration::ZERO).ok();
        match poll(&mut socket, at_once.as_ref()) {
            Ok(found) if found > 0 => Err(HolderGone),
            _ => Ok(()),
        }
    }
}

impl Drop for LinkHolder {
    fn drop(&mut self) {
        // It sees that, closes what is left and ends.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        match &mut self.runs {
            Runs::Process(child) => {
                let _ = child.wait();
            }
            Runs::Thread(thread) => {
                let _ = thread.take().map(JoinHandle::join);
            }
        }
    }
}

/// Descriptors that are sent, each once.
#[derive(Default)]
struct Descriptors<'a>(Vec<BorrowedFd<'a>>);

impl<'a> Descriptors<'a> {
    /// Its place among them.
    fn place(&mut self, descriptor: BorrowedFd<'a>) -> usize {
        let is_same = |other: &BorrowedFd<'_>| other.as_raw_fd() == descriptor.as_raw_fd();
        self.0.iter().position(is_same).unwrap_or_else(|| {
            self.0.push(descriptor);
            self.0.len() - 1
        })
    }
}
