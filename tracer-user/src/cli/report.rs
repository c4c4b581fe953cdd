//! `dmscope report`: a page about a tape or a running job.

use std::collections::{HashMap, HashSet};
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use analyzer::input::Input;
use analyzer::options::Options;
use analyzer::page::Page;
use analyzer::pipeline::Pipeline;
use analyzer::symbols::SymbolTable;
use analyzer::visible::visible;
use analyzer::wire::{FileId, RawRecord};
use anyhow::{Context, Result, anyhow, bail};

use super::attach::{coordinator_settings, plain, settings, sink};
use super::bus::{self, UserBus};
use super::corrected_page::correct_page;
use super::nodes::{jobs_of as tapes_by_job, names_of, replay_job};
use super::output::{keep_apart, print};
use super::page_file::PageFile;
use super::reference;
use super::replay::Consumer;
use super::session_args::OutputArgs;
use super::tape_args::{ReportArgs, Subject};
use crate::cluster::coordinator;
use crate::cluster::find::find;
use crate::cluster::jobs::{job_meant, jobs_of};
use crate::host;
use crate::host::symbols::Symbols;
use crate::page;
use crate::session::{self, Outcome, Sink};
use crate::sink::{HitSink, PageSink};

/// Writes a page.
///
/// # Errors
/// The tape or the job cannot be read, or the page cannot be written.
pub fn report(args: &ReportArgs) -> Result<Outcome> {
    let subject = args.subject().map_err(|why| anyhow!(why))?;
    keep_files_apart(&subject, args)?;
    // Before a job is watched for hours.
    let mut html = PageFile::find(&args.output)?;
    let mut json = args.json.as_deref().map(PageFile::find).transpose()?;
    if args.corrected && !matches!(subject, Subject::Tapes(_)) {
        bail!("--corrected needs a tape: record the job with --returns all, and make a page of that");
    }
    let (page, outcome) = match subject {
        Subject::Job(pid) => of_job(pid, args)?,
        Subject::JobOnNodes(name) => of_job_on_nodes(&name, args)?,
        Subject::Tapes(paths) => of_tapes(&paths, args)?,
    };
    html.write(&page::html(&page)?)?;
    if let Some(json) = &mut json {
        json.write(&format!("{}\n", serde_json::to_string(&page)?))?;
    }
    if !args.quiet {
        print(&format!("{}: {}\n", visible(&page.verdict.title), visible(&page.verdict.text)))?;
    }
    print(&format!("The page is {}\n", visible(&args.output.to_string_lossy())))?;
    Ok(outcome)
}

fn keep_files_apart(subject: &Subject, args: &ReportArgs) -> Result<()> {
    let tapes: &[PathBuf] = if let Subject::Tapes(tapes) = subject { tapes } else { &[] };
    let read = [tapes, &args.analysis.reference].concat();
    let others = [&args.json, &args.watch.record];
    let written: Vec<&Path> =
        std::iter::once(&args.output).chain(others.into_iter().flatten()).map(AsRef::as_ref).collect();
    keep_apart(&read, &written)
}

fn printed(args: &ReportArgs) -> OutputArgs {
    OutputArgs { json: false, quiet: args.quiet, statistics: false, all: args.all, output: None }
}

/// What a session says while it watches: nothing, if only the page is of interest.
fn inner_sink(job: &str, args: &ReportArgs) -> Result<Box<dyn Sink>> {
    match args.quiet {
        true => Ok(Box::new(HitSink::default())),
        false => sink(job, &printed(args)),
    }
}

fn of_job(pid: u32, args: &ReportArgs) -> Result<(Page, Outcome)> {
    let job = host::job_of(pid)?;
    let mut settings = settings(&args.watch, &args.analysis)?;
    settings.page_calls = Some(args.calls);
    let inner = inner_sink(&job.command, args)?;
    let mut sink = PageSink::new(inner, Arc::clone(&settings.stop));
    let outcome = session::attach(&job, settings, &mut sink)?;
    Ok((sink.into_page().context("the session gave no page")?, outcome))
}

fn of_job_on_nodes(name: &str, args: &ReportArgs) -> Result<(Page, Outcome)> {
    let nats = bus::settings(&args.bus, "dmscope report")?.context("no bus is named")?;
    let UserBus { bus, user } = bus::connect(&args.bus, nats)?;
    let found = find(&*bus, &user, args.watch.bus_patience)?;
    let jobs = jobs_of(&found.answers);
    let job = job_meant(name, &jobs).map_err(|why| anyhow!(why))?;
    let mut settings = coordinator_settings(bus, user, &args.watch, &args.analysis)?;
    settings.page_calls = Some(args.calls);
    settings.wishes.whole = true;
    let inner = inner_sink(&job.command, args)?;
    let mut sink = PageSink::new(inner, Arc::clone(&settings.stop));
    found.notices.iter().for_each(|notice| sink.notice(notice));
    let outcome = coordinator::attach(job, settings, &mut sink)?;
    Ok((sink.into_page().context("the session gave no page")?, outcome))
}

/// Takes the inputs of a tape for a page.
struct PageMaker<'s> {
    pipeline: Pipeline,
    /// Where files were, each with its build id if it has one.
    files: HashMap<FileId, (PathBuf, Option<String>)>,
    sink: &'s mut dyn Sink,
}

impl<'s> PageMaker<'s> {
    /// `calls`: how many are on the timeline.
    fn new(options: Options, calls: usize, sink: &'s mut dyn Sink) -> Self {
        Self { pipeline: Pipeline::with_timeline(options, calls), files: HashMap::new(), sink }
    }
}

impl Consumer for PageMaker<'_> {
    fn push(&mut self, input: &Input) -> Result<()> {
        if let Input::Plan(plan) = input {
            let known = plan.files.iter().map(|f| (f.id, (PathBuf::from(&f.path), f.build_id.clone())));
            self.files.extend(known);
        }
        self.pipeline.push(input);
        // The page has what was found in the end.
        self.pipeline.take_alerts();
        Ok(())
    }

    fn push_record(&mut self, record: &RawRecord) -> Result<()> {
        self.pipeline.push_record(record);
        Ok(())
    }

    fn damage(&mut self, message: &str) {
        self.sink.notice(message);
    }
}

fn of_tapes(paths: &[PathBuf], args: &ReportArgs) -> Result<(Page, Outcome)> {
    let jobs = tapes_by_job(paths)?;
    let [tapes] = jobs.as_slice() else {
        bail!("these tapes are of {} jobs, and a page is about one: give the tapes of one job", jobs.len())
    };
    let mut options = args.analysis.options();
    options.reference = reference::read(&args.analysis.reference)?;
    let mut sink = plain(stdout(), stdout().is_terminal(), &printed(args));
    let mut names = names_of(tapes)?;
    let mut maker = PageMaker::new(options, args.calls, sink.as_mut());
    replay_job(tapes, &mut maker)?;
    let mut report = maker.pipeline.report();
    // Tapes of several nodes show together what none of them shows, and has names for, alone.
    let wanted = report.wanted_symbols(&names);
    name_the_rest(&mut names, &maker, wanted);
    report.symbolize(&names);
    if !args.quiet {
        maker.sink.report(&report);
    }
    let outcome = Outcome::of_report(&report);
    let mut page = maker.pipeline.page_with(report, &names).context("no timeline was kept")?;
    if args.corrected
        && let Some(refusal) = correct_page(&mut page, tapes)?
    {
        eprintln!("dmscope: {}", visible(&refusal));
    }
    Ok((page, outcome))
}

/// A tape has the names that its findings need. Others are looked up where the very same files are still there.
fn name_the_rest(names: &mut SymbolTable, maker: &PageMaker<'_>, of_findings: Vec<(FileId, u64)>) {
    let mut wanted = maker.pipeline.wanted_by_timeline(names);
    wanted.extend(of_findings);
    let needed: HashSet<FileId> = wanted.iter().map(|(file, _)| *file).collect();
    let mut symbols = Symbols::default();
    for (id, (path, build_id)) in maker.files.iter().filter(|(id, _)| needed.contains(id)) {
        if let Some(build_id) = build_id {
            symbols.know_again(*id, path, build_id);
        }
    }
    names.extend(&symbols.resolve(wanted));
}

#[cfg(test)]
mod tests {
    use super::super::replay::testing::replay_inputs;
    use super::*;

    fn page(cut: bool) -> Page {
        let mut sink = HitSink::default();
        let mut maker = PageMaker::new(Options::default(), 100, &mut sink);
        replay_inputs(cut, &mut maker);
        let report = maker.pipeline.report();
        maker.pipeline.page_with(report, &SymbolTable::default()).expect("a timeline was asked for")
    }

    #[test]
    fn the_page_of_a_cut_tape_is_that_of_a_session_that_was_cut() {
        assert_eq!(page(true), page(false));
    }
}
