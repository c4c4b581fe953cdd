//! Facts → plan → attach, at the start and whenever code is loaded later.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use analyzer::input::Input;
use analyzer::plan::{Plan, PlannedFile, Probe};
use analyzer::wire::FileId;
use anyhow::{Context, Result};

use super::feed::Feed;
use crate::host::gather::{AttachPoint, Gathered, gather_processes, read_maps};
use crate::host::launched::{LibraryPaths, gather_program, program_of};
use crate::kernel::{Scope, Tracer};
use crate::plan::attach::AttachMode;
use crate::plan::{PlanOptions, plan};

/// What people hear when the probes are in place.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct AttachSummary {
    /// Probes in place.
    pub probes: usize,
    /// Files that they are in.
    pub files: usize,
    /// Places that the kernel refused.
    pub failed: usize,
    /// How long it took, all in all.
    pub took_ms: u64,
    /// What people should know: files replaced since they were mapped, and the like.
    pub notes: Vec<String>,
}

/// See the [module](self).
pub(super) struct Probes {
    options: PlanOptions,
    next_id: u32,
    known: BTreeSet<FileId>,
    named: BTreeSet<FileId>,
    own: BTreeSet<FileId>,
    files: usize,
    attached: usize,
    failed: Vec<Probe>,
    notes: Vec<String>,
}

impl Probes {
    pub(super) fn new(options: PlanOptions) -> Self {
        Self {
            options,
            next_id: 1,
            known: BTreeSet::new(),
            named: BTreeSet::new(),
            own: BTreeSet::new(),
            files: 0,
            attached: 0,
            failed: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Plans and attaches what these processes map and was not seen before.
    pub(super) fn attach_processes(
        &mut self,
        tracer: &mut Tracer,
        feed: &mut Feed,
        pids: &[u32],
    ) -> Result<()> {
        let gathered = gather_processes(pids, &self.known)?;
        self.name_shared_files(feed, pids);
        self.apply(tracer, feed, gathered)
    }

    /// Plans and attaches what a command will map, as far as files tell; the rest follows when
    /// it is mapped.
    pub(super) fn attach_before_start(
        &mut self,
        tracer: &mut Tracer,
        feed: &mut Feed,
        command: &[String],
    ) -> Result<()> {
        let search: Vec<PathBuf> =
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
        let Some(program) = program_of(command, &search) else {
            self.notes.push("the program that the ranks will run is not known: its start is not seen".into());
            return Ok(());
        };
        let gathered = gather_program(&program, &LibraryPaths::of_this_machine())
            .with_context(|| format!("cannot read {}", program.display()))?;
        self.apply(tracer, feed, gathered)
    }

    fn apply(&mut self, tracer: &mut Tracer, feed: &mut Feed, gathered: Gathered) -> Result<()> {
        self.notes.extend(gathered.notes.iter().cloned());
        self.known.extend(gathered.attach.keys());
        let plan =
            plan(&gathered.facts, &self.options, self.next_id).context("cannot make the probe plan")?;
        if plan.files.is_empty() {
            return Ok(());
        }
        self.next_id += plan.probes.len() as u32;
        self.own.extend(plan.files.iter().filter(|f| f.own).map(|f| f.id));
        self.named.extend(plan.files.iter().map(|f| f.id));
        let paths: HashMap<FileId, PathBuf> =
            gathered.attach.iter().map(|(id, point)| (*id, point.path.clone())).collect();
        feed.know_files(paths.clone());
        // Before the first record that names one of its probes.
        feed.push(Input::Plan(Box::new(plan.clone())));
        let attached = tracer.attach(&plan, &paths, &|file| scopes(&gathered.attach, file));
        self.attached += attached.probes;
        self.files += files_with_probes(&plan);
        self.failed.extend(attached.failed.into_iter().map(|(mut probe, why)| {
            probe.reason = why;
            probe
        }));
        Ok(())
    }

    /// Shared segments are known by name on all ranks; the kernel part knows only numbers.
    fn name_shared_files(&mut self, feed: &mut Feed, pids: &[u32]) {
        let mut names = BTreeMap::new();
        for pid in pids {
            for mapping in read_maps(*pid).unwrap_or_default() {
                if mapping.file.inode != 0 && !mapping.name.is_empty() && self.named.insert(mapping.file) {
                    names.insert(mapping.file, mapping.name);
                }
            }
        }
        if names.is_empty() {
            return;
        }
        let files =
            names.into_iter().map(|(id, path)| PlannedFile { id, path, ..PlannedFile::default() }).collect();
        feed.push(Input::Plan(Box::new(Plan { files, ..Plan::default() })));
    }

    /// Whether a file is the program or a messaging library.
    pub(super) fn is_own(&self, file: FileId) -> bool {
        self.own.contains(&file)
    }

    pub(super) fn count(&self) -> usize {
        self.attached
    }

    pub(super) fn failed(&self) -> Vec<Probe> {
        self.failed.clone()
    }

    pub(super) fn summary(&self, took: Duration) -> AttachSummary {
        AttachSummary {
            probes: self.attached,
            files: self.files,
            failed: self.failed.len(),
            took_ms: took.as_millis() as u64,
            notes: self.notes.clone(),
        }
    }
}

fn files_with_probes(plan: &Plan) -> usize {
    plan.probes.iter().map(|p| p.file).collect::<BTreeSet<_>>().len()
}

fn scopes(points: &BTreeMap<FileId, AttachPoint>, file: FileId) -> Vec<Scope> {
    match points.get(&file) {
        Some(point) if point.decision.mode == AttachMode::LinkPerProcess => {
            point.pids.iter().map(|pid| Scope::Process(*pid)).collect()
        }
        _ => vec![Scope::EveryProcess],
    }
}
