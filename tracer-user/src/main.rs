//! The command `dmscope`.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use analyzer::visible::visible;
use clap::Parser;
use dmscope::cli;

/// Not the C library's: probes on its functions are hit by everybody who calls them, and each hit costs more than what it
/// watches.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Usage, or an environment that does not allow it.
const TROUBLE: u8 = 2;

fn main() -> ExitCode {
    match cli::main(&cli::args::Cli::parse()) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            if is_broken_pipe(&error) {
                return ExitCode::SUCCESS;
            }
            // Nobody may read that either.
            let _ = writeln!(std::io::stderr(), "dmscope: {}", visible(&format!("{error:#}")));
            ExitCode::from(TROUBLE)
        }
    }
}

/// A reader that has gone away (`| head`) has read what it wanted.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_one = |error: &std::io::Error| error.kind() == ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_one))
}
