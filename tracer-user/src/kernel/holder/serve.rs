//! The holder's side.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::keeper::{Keeper, Moving};
use super::link;
use super::messages::{AllClosed, LinkId, LinkSpec, Made, Request};
use crate::host::placement;
use crate::host::sandbox::{receive, receive_file, send};

/// Makes, holds and closes links as it is asked on standard input. When that is closed, it closes all links and ends.
///
/// # Errors
/// It was asked for what is no request: then all links are closed as well.
pub fn serve() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        // Whoever ends a group of processes or a service signals us too; the end of the session is what counts.
        signal_hook::flag::register(signal, std::sync::Arc::default())?;
    }
    // Else it has the name of the link that it was started by.
    let _ = rustix::thread::set_name(c"dms-holder");
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    serve_on(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// The same on a socket.
///
/// # Errors
/// As [`serve`].
pub(super) fn serve_on(mut session: UnixStream) -> io::Result<()> {
    placement::run_early();
    let mut held = HeldLinks::default();
    loop {
        match receive(&mut session) {
            Ok(Request::Make { programs, files, links }) => {
                let (programs, files) = (receive_files(&session, programs)?, receive_files(&session, files)?);
                send(&mut session, &Made(held.make(&programs, &files, &links)))?;
            }
            Ok(Request::Close(links)) => held.close(&links),
            Ok(Request::WaitForClosed) => {
                held.wait_for_closed();
                send(&mut session, &AllClosed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn receive_files(session: &UnixStream, count: usize) -> io::Result<Vec<File>> {
    (0..count).map(|_| receive_file(session)).collect()
}

/// Dropping it closes all.
#[derive(Default)]
struct HeldLinks {
    links: HashMap<LinkId, Keeper>,
    last_id: LinkId,
    closing: Vec<JoinHandle<()>>,
}

impl HeldLinks {
    fn make(&mut self, programs: &[File], files: &[File], specs: &[LinkSpec]) -> Vec<Result<LinkId, i32>> {
        // All move into their threads at the same time.
        let moving: Vec<_> = specs.iter().map(|spec| begin(programs, files, spec)).collect();
        moving.into_iter().map(|moving| Ok(self.hold(moving?.finish()))).collect()
    }

    fn hold(&mut self, keeper: Keeper) -> LinkId {
        self.last_id += 1;
        self.links.insert(self.last_id, keeper);
        self.last_id
    }

    /// The kernel waits for running handlers at each link: side by side.
    fn close(&mut self, links: &[LinkId]) {
        self.closing.retain(|closing| !closing.is_finished());
        let closed = links.iter().filter_map(|id| self.links.remove(id));
        self.closing.extend(closed.filter_map(Keeper::close));
    }

    fn wait_for_closed(&mut self) {
        for closed in self.closing.drain(..) {
            // One that failed has closed its link, too.
            let _ = closed.join();
        }
    }
}

impl Drop for HeldLinks {
    fn drop(&mut self) {
        self.close(&self.links.keys().copied().collect::<Vec<_>>());
        self.wait_for_closed();
    }
}

fn begin(programs: &[File], files: &[File], spec: &LinkSpec) -> Result<Moving, i32> {
    let (Some(program), Some(file)) = (programs.get(spec.program), files.get(spec.file)) else {
        return Err(libc::EINVAL);
    };
    let made = link::make(program.as_fd(), file.as_fd(), spec);
    made.map(Moving::begin).map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}
