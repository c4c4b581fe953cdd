//! The child's side: it reads what it is handed, and answers.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use super::in_process::{planned, summary};
use super::messages::{NamedFile, ParseAnswer, ParseRequest};
use super::names::DebugNamesCache;
use super::{PlanRequest, PlannedCode};
use crate::host::files::read_contents;
use crate::host::sandbox::{self, SandboxLimits, receive, receive_file, send};
use crate::plan::FileImage;

/// Files are read one after the other.
const LIMITS: SandboxLimits = SandboxLimits { files: 8, cpu_s: Some(300) };
/// Of all files of a plan so much is kept at a time.
const MOST_HELD_BYTES: u64 = 384 << 20;

/// Gives up all rights, and answers what is asked on standard input until it is closed.
///
/// # Errors
/// The rights cannot be given up, or the session is gone.
pub fn serve() -> io::Result<()> {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    sandbox::enter(LIMITS)?;
    let mut named = DebugNamesCache::default();
    loop {
        let request: ParseRequest = match receive(&mut socket) {
            Ok(request) => request,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let answer = match request {
            ParseRequest::Summary => {
                let contents = read_contents(&receive_file(&socket)?);
                ParseAnswer::Summary(contents.map_err(|e| e.to_string()).and_then(|read| summary(&read)))
            }
            ParseRequest::Names { key, offsets, has_debug_file } => {
                let file = receive_file(&socket)?;
                let debug = has_debug_file.then(|| receive_file(&socket)).transpose()?;
                ParseAnswer::Names(named.names(key, (&file, debug.as_ref()), &offsets))
            }
            ParseRequest::Plan { files, request } => ParseAnswer::Plan(plan(&socket, files, request)?),
        };
        send(&mut socket, &answer)?;
    }
}

fn plan(
    socket: &UnixStream,
    files: Vec<NamedFile>,
    mut request: PlanRequest,
) -> io::Result<Result<PlannedCode, String>> {
    let mut images = Vec::new();
    let mut left_bytes = MOST_HELD_BYTES;
    for NamedFile { id, path, is_program } in files {
        let contents = read_contents(&receive_file(socket)?);
        let fits = contents.and_then(|read| match left_bytes.checked_sub(read.held_bytes()) {
            Some(left) => {
                left_bytes = left;
                Ok(read)
            }
            None => Err(io::Error::other("the files of the job are too large to be looked at together")),
        });
        match fits {
            Ok(contents) => images.push(FileImage { id, path, is_program, contents }),
            Err(error) => request.unreadable.push((path, error.to_string())),
        }
    }
    Ok(planned(images, request))
}
