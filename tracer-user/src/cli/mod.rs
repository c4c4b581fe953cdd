//! The commands: what they are asked, what they print (text for people, JSON for programs).

mod analyze;
pub mod args;
mod attach;
mod calls;
pub mod doctor;
pub mod probes;
pub mod ps;
mod reference;
mod replay;
mod report;
mod table;

use std::io::Write;

use anyhow::Result;
use clap::CommandFactory;

use crate::host;
use args::{Cli, Command};

/// Runs a command; gives its exit status.
///
/// # Errors
/// Usage, or an environment that does not allow it: what, and what to do.
pub fn main(cli: &Cli) -> Result<u8> {
    match &cli.command {
        Command::Doctor(plain) => {
            let checks = doctor::checks();
            if plain.json {
                print(&format!("{}\n", serde_json::json!({ "schema": 1, "checks": checks })))?;
            } else {
                print(&doctor::text(&checks))?;
            }
            Ok(if doctor::all_needed(&checks) { 0 } else { 2 })
        }
        Command::Ps(plain) => {
            let jobs = host::find_jobs();
            if plain.json {
                print(&format!("{}\n", ps::json(&jobs)))?;
            } else {
                print(&ps::text(&jobs))?;
            }
            Ok(0)
        }
        Command::Attach(args) => Ok(attach::attach(args)?.status()),
        Command::Run(args) => Ok(attach::run(args)?.status()),
        Command::Analyze(args) => Ok(analyze::analyze(args)?.status()),
        Command::Calls(args) => calls::calls(args).map(|()| 0),
        Command::Report(args) => Ok(report::report(args)?.status()),
        Command::Probes(args) => {
            print(&probes::command(args)?)?;
            Ok(0)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "dmscope", &mut script);
            print(&String::from_utf8_lossy(&script))?;
            Ok(0)
        }
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            print(&String::from_utf8_lossy(&page))?;
            Ok(0)
        }
    }
}

/// A reader that has gone away (`| head`) is no error.
fn print(text: &str) -> std::io::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
