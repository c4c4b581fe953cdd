//! The project's chores, run as `cargo xtask COMMAND`.

mod bench;
mod check;
mod demo;
mod family;
mod fuzz;
mod harness;
mod jobs;
mod packages;
mod process;
mod project_files;
mod python;
mod setup;
mod test;
mod vm;
mod wrapper;

use std::process::ExitCode;

use anyhow::Result;

use check::sources::Detail;

const HELP: &str = "\
usage: cargo xtask COMMAND

  demo     setup, build, and find a fault in a job while it runs
  setup    install what building and testing need: Debian packages, and some of Python into target/python
  jobs     build the test jobs for both MPI libraries
  wrapper  build the preloaded MPI wrapper of `dmscope record` and `dmscope replay` beside dmscope, for each
           MPI library that is installed: wrapper [MPICC…] names their compilers
  check    format, lints, rules of the workspace
           check --sources: only the rules of the source tree (rooms, circles, names of types);
           --list names each place that breaks one, also of rules that are not held yet
           check --counts: lines of code, functions, types and files in circles of each crate
  bench    measure what dmscope costs, in paired runs (see BENCHMARKS.md):
           bench [--quick] [--json FILE] [KIND…]; `bench --help` names the kinds
           bench --against PROGRAM pipeline: compare with another version's dmscope-bench
  fuzz     run all fuzz targets for so many minutes together: fuzz MINUTES (needs cargo-fuzz and a
           nightly compiler; see fuzz/README.md)
  test     setup, jobs, check, then all tests; ends with a line `N passed, N failed`
  vm       boot a stock kernel (6.1, 6.12, 7.2) in QEMU with RDMA in software, and run live tests in it:
           vm KERNEL [TEST[::PART]…], vm KERNEL core, or vm KERNEL -- LINE OF SHELL; ends with the same line
";

/// Exit status of a wrong command line or of an environment that lacks something.
const USAGE_OR_ENVIRONMENT: u8 = 2;

fn main() -> ExitCode {
    let command: Vec<String> = std::env::args().skip(1).collect();
    match run(&command.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check(options: &[&str]) -> Result<ExitCode> {
    match options {
        [] => check::run()?,
        ["--sources"] => check::sources::check(Detail::Counts)?,
        ["--sources", "--list"] => check::sources::check(Detail::Places)?,
        ["--counts"] => check::sources::print_counts()?,
        _ => {
            eprint!("{HELP}");
            return Ok(ExitCode::from(USAGE_OR_ENVIRONMENT));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn run(command: &[&str]) -> Result<ExitCode> {
    match command {
        ["setup"] => setup::run_for_tests(),
        ["jobs"] => jobs::build().map(|()| ExitCode::SUCCESS),
        ["wrapper", compilers @ ..] => wrapper::build(compilers).map(|()| ExitCode::SUCCESS),
        ["check", options @ ..] => check(options),
        ["demo"] => demo::show(),
        ["bench", arguments @ ..] => bench::measure(arguments),
        ["fuzz", minutes] => fuzz::run(minutes),
        ["test"] => test::run(),
        ["vm", kernel, wanted @ ..] => vm::run(kernel, wanted),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprint!("{HELP}");
            Ok(ExitCode::from(USAGE_OR_ENVIRONMENT))
        }
    }
}
