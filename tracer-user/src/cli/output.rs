//! Standard output.

use std::io::Write;

/// A reader that has gone away (`| head`) is no error.
pub(super) fn print(text: &str) -> std::io::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
