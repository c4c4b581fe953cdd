//! The command `dmscope`.

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
            // A reader that has gone away (| head) is no error worth words.
            eprintln!("dmscope: {}", visible(&format!("{error:#}")));
            ExitCode::from(TROUBLE)
        }
    }
}
