//! A process of this program that puts code into the job and takes it out again.
//!
//! It stops threads of the job, and has them make system calls: whoever is killed in the middle of that leaves a thread with
//! registers that are not its own. So it is not done by dmscope itself, which people kill, but by a child that no signal for the
//! session reaches. When the session is gone, however that was, it takes everything out and ends.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use injector::{HookRequest, InjectError, Installation, MappedPlaces, SharedRings, install};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::host::sandbox::{receive, receive_file, send, send_file, start_child};
use crate::kernel::holder::HolderPlace;

/// The word that makes this program the holder.
const COMMAND: &str = "hold-slots";

/// What the session asks.
#[derive(Debug, Serialize, Deserialize)]
enum SlotWish {
    /// The answer is [`IsMapped`]; if it is, the memory that the process shares follows, open. The process stands still then, for
    /// the session to get ready, and goes on after [`SlotWish::Ready`]. The last answer is [`PutIn`].
    PutIn(HookRequest),
    /// See there; or why it is not wanted any more.
    Ready(Result<(), String>),
    /// Take everything out. The answer is [`TakenOut`].
    TakeOut,
}

/// Everything but slots is in a process, where; or why not.
#[derive(Debug, Serialize, Deserialize)]
struct IsMapped(Result<MappedPlaces, String>);

/// Whether slots lead to our code now.
#[derive(Debug, Serialize, Deserialize)]
struct PutIn(Result<(), String>);

/// How many processes could not be stopped: their slots are as they were.
#[derive(Debug, Serialize, Deserialize)]
struct TakenOut(usize);

/// The session's side.
pub(super) struct SlotHolder {
    socket: UnixStream,
    runs: SlotHolderRuns,
}

enum SlotHolderRuns {
    Process(Child),
    Thread(Option<JoinHandle<io::Result<()>>>),
}

impl SlotHolder {
    /// Starts it.
    ///
    /// # Errors
    /// No process or thread to be had.
    pub fn start(place: HolderPlace) -> io::Result<Self> {
        match place {
            HolderPlace::Process => {
                let (child, socket) = start_child(Path::new("/proc/self/exe"), COMMAND)?;
                Ok(Self { socket, runs: SlotHolderRuns::Process(child) })
            }
            HolderPlace::Thread => {
                let (socket, theirs) = UnixStream::pair()?;
                let thread = std::thread::Builder::new().name("dms-slots".into());
                let thread = thread.spawn(move || serve_on(theirs))?;
                Ok(Self { socket, runs: SlotHolderRuns::Thread(Some(thread)) })
            }
        }
    }

    /// Puts code into a process. `ready`: called with the memory that it shares while the process stands still, before its slots lead
    /// to the code.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn put_in(
        &mut self,
        request: HookRequest,
        ready: impl FnOnce(SharedRings, MappedPlaces) -> Result<(), String>,
    ) -> Result<(), String> {
        let done = self.try_to_put_in(request, ready);
        done.unwrap_or_else(|error| {
            // Whatever it says next would be taken for another answer. It takes everything out then.
            let _ = self.socket.shutdown(Shutdown::Both);
            Err(format!("the process that puts them in: {error}"))
        })
    }

    fn try_to_put_in(
        &mut self,
        request: HookRequest,
        ready: impl FnOnce(SharedRings, MappedPlaces) -> Result<(), String>,
    ) -> io::Result<Result<(), String>> {
        let ring_bytes = request.ring_bytes;
        send(&mut self.socket, &SlotWish::PutIn(request))?;
        let places = match receive::<IsMapped>(&mut self.socket)?.0 {
            Ok(places) => places,
            Err(why) => return Ok(Err(why)),
        };
        let file = receive_file(&self.socket)?;
        let shared = SharedRings::open(&file, ring_bytes).map_err(|error| error.to_string());
        let is_ready = shared.and_then(|shared| ready(shared, places));
        send(&mut self.socket, &SlotWish::Ready(is_ready))?;
        Ok(receive::<PutIn>(&mut self.socket)?.0)
    }

    /// Takes everything out; of how many processes it could not.
    pub fn take_out(&mut self) -> usize {
        // If it is gone, nobody can; what is left records nothing for long.
        let sent = send(&mut self.socket, &SlotWish::TakeOut);
        sent.and_then(|()| receive::<TakenOut>(&mut self.socket)).map_or(0, |TakenOut(left)| left)
    }
}

impl Drop for SlotHolder {
    fn drop(&mut self) {
        // It sees that, takes out what is left and ends.
        let _ = self.socket.shutdown(Shutdown::Both);
        match &mut self.runs {
            SlotHolderRuns::Process(child) => {
                let _ = child.wait();
            }
            SlotHolderRuns::Thread(thread) => {
                let _ = thread.take().map(JoinHandle::join);
            }
        }
    }
}

/// Puts in and takes out as it is asked on standard input. When that is closed, it takes everything out and ends.
///
/// # Errors
/// It was asked for what is no wish: then everything is taken out as well.
pub fn serve() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        // Whoever ends a group of processes or a service signals us too; the end of the session is what counts.
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let _ = rustix::thread::set_name(c"dms-slots");
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    serve_on(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

fn serve_on(mut session: UnixStream) -> io::Result<()> {
    let mut held = HeldSlots::default();
    loop {
        match receive(&mut session) {
            Ok(SlotWish::PutIn(request)) => put_in(&mut session, &mut held, &request)?,
            Ok(SlotWish::TakeOut) => send(&mut session, &TakenOut(held.take_out()))?,
            // For one that was let go in the meantime.
            Ok(SlotWish::Ready(_)) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn put_in(session: &mut UnixStream, held: &mut HeldSlots, request: &HookRequest) -> io::Result<()> {
    let mut is_told = false;
    let installed = install(request, |installation| {
        is_told = true;
        wait_until_ready(session, installation)
    });
    let answer = match installed {
        Ok(installation) => {
            held.0.push(installation);
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    };
    match answer {
        Err(why) if !is_told => send(session, &IsMapped(Err(why))),
        answer => send(session, &PutIn(answer)),
    }
}

/// A process stands still: whoever keeps us waiting for longer gets nothing.
const READY_PATIENCE: Duration = Duration::from_millis(500);

fn wait_until_ready(session: &mut UnixStream, installation: &Installation) -> Result<(), InjectError> {
    let given_up = |error: io::Error| InjectError::GivenUp(format!("nobody was ready for it: {error}"));
    let told = send(session, &IsMapped(Ok(installation.places())));
    told.and_then(|()| send_file(session, installation.file())).map_err(given_up)?;
    session.set_read_timeout(Some(READY_PATIENCE)).map_err(given_up)?;
    let wish = receive(session);
    session.set_read_timeout(None).map_err(given_up)?;
    match wish.map_err(given_up)? {
        SlotWish::Ready(is_ready) => is_ready.map_err(InjectError::GivenUp),
        SlotWish::PutIn(_) | SlotWish::TakeOut => {
            Err(InjectError::GivenUp("something else was asked for".to_owned()))
        }
    }
}

/// Dropping it takes everything out.
#[derive(Default)]
struct HeldSlots(Vec<Installation>);

impl HeldSlots {
    /// The last ones first: a process may have several, one after the other.
    fn take_out(&mut self) -> usize {
        self.0.drain(..).rev().filter(|installation| installation.take_out().is_err()).count()
    }
}

impl Drop for HeldSlots {
    fn drop(&mut self) {
        self.take_out();
    }
}
