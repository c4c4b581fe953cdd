//! The commands: what they are asked, what they print (text for people, JSON for programs).

mod agent;
mod analyze;
pub mod args;
mod attach;
mod bus;
mod calls;
mod corrected_page;
mod deterministic_job;
pub mod doctor;
mod duration;
mod explore_job;
mod export;
mod job_command;
mod manual;
mod movement_texts;
mod nodes;
mod option_values;
mod output;
mod page_file;
mod phases;
mod place_names;
pub mod probes;
mod progress;
pub mod ps;
mod races_job;
pub mod rank_list;
mod record_job;
mod recorded_tape;
mod reference;
mod replay;
pub mod replay_args;
mod replay_job;
mod report;
mod session_args;
mod signals;
mod table;
mod tape_args;
mod time_cells;
mod times;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::cluster::find::{USUAL_PATIENCE, find};
use crate::cluster::jobs::jobs_of;
use crate::cluster::node_session;
use crate::host::capabilities::{Capabilities, give_up_all};
use crate::host::support::unseen_jobs;
use crate::session::wrapped::share_ranks;
use crate::{host, kernel, stacks};
use analyzer::visible::visible;
use args::{Cli, Command, PsArgs};
use bus::UserBus;
use output::{print, print_json};
use tape_args::Subject;

/// Runs a command; gives its exit status.
///
/// # Errors
/// Usage, or an environment that does not allow it: what, and what to do.
pub fn main(cli: &Cli) -> Result<u8> {
    if !watches(&cli.command) {
        give_up_all().context("cannot give up capabilities")?;
    }
    match &cli.command {
        Command::Doctor(plain) => {
            let checks = doctor::checks();
            if plain.json {
                print_json(&serde_json::json!({ "schema": 1, "checks": checks }))?;
            } else {
                print(&doctor::text(&checks))?;
            }
            Ok(if doctor::all_needed(&checks) { 0 } else { 2 })
        }
        Command::Ps(args) => list_jobs(args).map(|()| 0),
        Command::Attach(args) => Ok(attach::attach(args)?.status()),
        Command::Run(args) => Ok(attach::run(args)?.status()),
        Command::Record(args) => record_job::record_job(args),
        Command::Replay(args) => replay_job::replay_job(args),
        Command::Races(args) => races_job::races_job(args),
        Command::Explore(args) => explore_job::explore_job(args),
        Command::Deterministic(args) => deterministic_job::deterministic_job(args),
        Command::Analyze(args) => Ok(analyze::analyze(args)?.status()),
        Command::Calls(args) => calls::calls(args).map(|()| 0),
        Command::Times(args) => Ok(times::times(args)?.status()),
        Command::Export(args) => Ok(export::export(args)?.status()),
        Command::Report(args) => Ok(report::report(args)?.status()),
        Command::Agent(args) => agent::run(args).map(|()| 0),
        Command::NodeSession => {
            node_session::serve()?;
            Ok(0)
        }
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
        Command::ParseFiles => {
            host::parsing::serve()?;
            Ok(0)
        }
        Command::ReadStacks => {
            stacks::serve()?;
            Ok(0)
        }
        Command::ReadMemory => {
            host::memory_child::serve()?;
            Ok(0)
        }
        Command::HoldLinks => {
            kernel::hold_links()?;
            Ok(0)
        }
        Command::HoldSlots => {
            kernel::hold_slots()?;
            Ok(0)
        }
        Command::ShareRanks { folder } => {
            share_ranks(folder)?;
            Ok(0)
        }
        Command::OpenDevices => {
            host::verbs_devices::serve()?;
            Ok(0)
        }
        Command::Man => {
            print(&manual::page()?)?;
            Ok(0)
        }
    }
}

fn list_jobs(args: &PsArgs) -> Result<()> {
    if let Some(nats) = bus::settings(&args.bus, "dmscope ps")? {
        let UserBus { bus, user } = bus::connect(&args.bus, nats)?;
        let found = find(&*bus, &user, USUAL_PATIENCE)?;
        found.notices.iter().for_each(|notice| eprintln!("dmscope: {notice}", notice = visible(notice)));
        let jobs = jobs_of(&found.answers);
        if args.json {
            print_json(&ps::cluster_json(&jobs))?;
        } else {
            print(&ps::cluster_text(&jobs))?;
        }
        return Ok(());
    }
    let jobs = host::find_jobs();
    if args.json {
        print_json(&ps::json(&jobs))?;
    } else {
        print(&ps::text(&jobs))?;
    }
    if let Some(unseen) = unseen_jobs(Capabilities::in_effect()) {
        eprintln!("dmscope: {unseen}");
    }
    Ok(())
}

/// Whether a command looks at running processes; others read what the user names, with the user's own rights.
fn watches(command: &Command) -> bool {
    match command {
        // Over the bus it is the agents that look.
        Command::Ps(args) => args.bus.bus.is_empty(),
        Command::Attach(args) => args.bus.bus.is_empty(),
        Command::Doctor(_)
        | Command::Run(_)
        | Command::Probes(_)
        | Command::Agent(_)
        | Command::NodeSession
        | Command::ReadMemory
        | Command::HoldLinks
        | Command::HoldSlots => true,
        Command::Report(args) => matches!(args.subject(), Ok(Subject::Job(_))),
        // They look at jobs that they start themselves, through files.
        Command::Record(_)
        | Command::Replay(_)
        | Command::Races(_)
        | Command::Explore(_)
        | Command::Deterministic(_)
        | Command::Analyze(_)
        | Command::Calls(_)
        | Command::Times(_)
        | Command::Export(_)
        | Command::Completions { .. }
        | Command::ShareRanks { .. }
        | Command::ParseFiles
        | Command::ReadStacks
        | Command::OpenDevices
        | Command::Man => false,
    }
}
