//! `dmscope-bench`: measures what dmscope costs; run by `cargo xtask bench`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use bench::kinds::MeasurementKind;
use bench::options::BenchOptions;
use bench::results::{BenchReport, Machine, SCHEMA};
use clap::Parser;

/// Measures what dmscope costs; prints tables as Markdown.
#[derive(Parser)]
struct Arguments {
    /// Below three minutes in total; fails on gross regressions only
    #[arg(long)]
    quick: bool,
    /// Rounds of each comparison, whatever is usual
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Of the kind `jobs`: only jobs with TEXT in their names
    #[arg(long, value_name = "TEXT")]
    job: Option<String>,
    /// Of the kind `nodes`: jobs on so many nodes each
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=1024))]
    nodes: Vec<u32>,
    /// With the kind `pipeline` alone: compare with another version's `dmscope-bench`, in turn
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,
    /// Write all figures with all their runs to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What to measure; if none is named: all, or what a quick run has time for
    kinds: Vec<MeasurementKind>,
}

fn main() -> ExitCode {
    if let Some(answer) = bench::harness::case::answer() {
        return answer.map_or_else(failed, |()| ExitCode::SUCCESS);
    }
    run(&Arguments::parse()).unwrap_or_else(failed)
}

fn failed(error: anyhow::Error) -> ExitCode {
    eprintln!("dmscope-bench: {error:#}");
    ExitCode::from(2)
}

/// Exit status 1: a gross regression; 2: something could not be measured.
fn run(arguments: &Arguments) -> Result<ExitCode> {
    let options = BenchOptions {
        quick: arguments.quick,
        rounds: arguments.rounds.map(usize::from),
        job: arguments.job.as_deref(),
        nodes: &arguments.nodes,
        against: arguments.against.as_deref(),
    };
    let kinds =
        if arguments.kinds.is_empty() { MeasurementKind::usual(options) } else { arguments.kinds.clone() };
    ensure!(
        options.against.is_none() || kinds == [MeasurementKind::Pipeline],
        "--against compares the kind `pipeline`"
    );
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let mut report = BenchReport {
        schema: SCHEMA,
        command: format!("cargo xtask bench {command}").trim_end().to_owned(),
        machine: Machine::here(),
        sections: Vec::new(),
    };
    println!("{}", report.preamble());
    for kind in kinds {
        let section = kind.measure(options)?;
        println!("{}", section.markdown());
        report.sections.push(section);
    }
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&report)?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let broken = report.broken().inspect(|check| eprintln!("gross regression: {}", check.what)).count();
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
