//! What is said over the socket to a child of this program: JSON or bytes behind their length, and open files one by
//! one.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longer messages are not taken. The plan of a large job is a hundredth of it.
const LONGEST_MESSAGE_BYTES: usize = 64 << 20;

/// Sends a message.
///
/// # Errors
/// The other side is gone, or it is too late.
pub fn send(socket: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    send_bytes(socket, &serde_json::to_vec(message)?)
}

/// Sends bytes.
///
/// # Errors
/// The other side is gone, or it is too late.
pub fn send_bytes(socket: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let len = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    socket.write_all(&len.to_le_bytes())?;
    socket.write_all(bytes)
}

/// Receives a message.
///
/// # Errors
/// The other side is gone, it is too late, or this is no such message.
pub fn receive<M: DeserializeOwned>(socket: &mut impl Read) -> io::Result<M> {
    Ok(serde_json::from_slice(&receive_bytes(socket)?)?)
}

/// Receives bytes.
///
/// # Errors
/// The other side is gone, it is too late, or these are too many.
pub fn receive_bytes(socket: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    socket.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > LONGEST_MESSAGE_BYTES {
        return Err(io::Error::other(format!("a message of {len} bytes")));
    }
    let mut bytes = vec![0; len];
    socket.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Sends an open file.
///
/// # Errors
/// The other side is gone, or it is too late.
pub fn send_file(socket: &UnixStream, file: &impl AsFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    rustix::net::sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives an open file.
///
/// # Errors
/// The other side is gone, or sent none.
pub fn receive_file(socket: &UnixStream) -> io::Result<File> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let received = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    received.map(|file: OwnedFd| file.into()).ok_or_else(|| io::Error::other("no file was sent"))
}
