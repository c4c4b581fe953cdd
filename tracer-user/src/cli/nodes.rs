//! Tapes of the nodes of one job: which belong together, and reading them as one.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};

use analyzer::input::{End, Input, Start};
use analyzer::symbols::SymbolTable;
use analyzer::tape::{self, Item, Join, Reader};
use anyhow::{Context, Result, bail};

use super::progress::ReadingBar;
use super::replay::{CUT, Consumer, for_replays, open, replay_watched};

/// What says which job a tape is of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TapeSummary {
    pub(super) path: PathBuf,
    pub(super) start: Start,
    /// Ranks of the job that are on it.
    ranks: BTreeSet<u32>,
    /// Ranks of the job.
    size: Option<u32>,
    /// Wall clock at its end, if it has one.
    ended_ns: Option<u64>,
}

impl TapeSummary {
    /// Whether both may be of the same run of a job, each from another node.
    fn is_beside(&self, other: &Self) -> bool {
        let overlaps = |one: &Self, other: &Self| {
            one.ended_ns.is_none_or(|ended_ns| ended_ns >= other.start.wall_clock_ns())
        };
        self.start.host != other.start.host
            && self.size.is_some()
            && self.size == other.size
            && self.ranks.is_disjoint(&other.ranks)
            && overlaps(self, other)
            && overlaps(other, self)
    }
}

/// Reads what a tape says of itself.
///
/// # Errors
/// The file is no tape, or cannot be read.
fn summary(path: &Path) -> Result<TapeSummary> {
    let mut summary = TapeSummary { path: path.to_owned(), ..TapeSummary::default() };
    let take = |fact: Input| match fact {
        Input::Start(start) => summary.start = *start,
        Input::Process(facts) => {
            summary.ranks.extend(facts.rank);
            summary.size = summary.size.or(facts.size);
        }
        Input::End(end) => {
            let lasted_ns = end.time_ns.saturating_sub(summary.start.time_ns);
            summary.ended_ns = Some(summary.start.wall_clock_ns().saturating_add(lasted_ns));
        }
        _ => {}
    };
    tape::facts(open(path)?, take).with_context(|| path.display().to_string())?;
    Ok(summary)
}

/// Fails unless these are tapes of sessions: before anything is written because of them.
///
/// # Errors
/// A file is no tape, cannot be read, or is one that nobody but a replay finds anything on.
pub(super) fn check_tapes(paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        let mut is_for_replays = false;
        let take = |fact: Input| is_for_replays |= matches!(fact, Input::ReplayableRank(_));
        tape::facts(open(path)?, take).with_context(|| path.display().to_string())?;
        if is_for_replays {
            bail!(for_replays(&path.display().to_string()));
        }
    }
    Ok(())
}

/// The jobs that tapes are of, each with its tapes in the order in which they are given.
///
/// # Errors
/// See [`summary`].
pub(super) fn jobs_of(paths: &[PathBuf]) -> Result<Vec<Vec<TapeSummary>>> {
    match paths {
        // Which job it is makes no difference.
        [path] => Ok(vec![vec![TapeSummary { path: path.clone(), ..TapeSummary::default() }]]),
        paths => Ok(jobs(paths.iter().map(|path| summary(path)).collect::<Result<_>>()?)),
    }
}

/// Puts together the tapes that are of one job, in the order in which they are given.
fn jobs(tapes: Vec<TapeSummary>) -> Vec<Vec<TapeSummary>> {
    let mut jobs: Vec<Vec<TapeSummary>> = Vec::new();
    for tape in tapes {
        match jobs.iter_mut().find(|job| job.iter().all(|other| tape.is_beside(other))) {
            Some(job) => job.push(tape),
            None => jobs.push(vec![tape]),
        }
    }
    jobs
}

/// The names that are on the tapes of a job.
///
/// # Errors
/// A file is no tape, or cannot be read.
pub(super) fn names_of(tapes: &[TapeSummary]) -> Result<SymbolTable> {
    let mut names = SymbolTable::default();
    for (node, TapeSummary { path, .. }) in tapes.iter().enumerate() {
        let take = |symbols: &[analyzer::input::Symbol]| {
            let mut symbols = symbols.to_vec();
            symbols.iter_mut().for_each(|symbol| symbol.file = tape::file_on_node(node, symbol.file));
            names.extend(&symbols)
        };
        tape::symbols(open(path)?, take).with_context(|| path.display().to_string())?;
    }
    Ok(names)
}

/// Which ranks the processes of a job are, by the numbers that its tapes together have for them.
///
/// # Errors
/// A file is no tape, or cannot be read.
pub(super) fn ranks_of(tapes: &[TapeSummary]) -> Result<HashMap<u32, u32>> {
    let mut ranks = HashMap::new();
    for (node, TapeSummary { path, .. }) in tapes.iter().enumerate() {
        let take = |fact: Input| {
            if let Input::Process(facts) = fact
                && let Some(rank) = facts.rank
            {
                let pid = if tapes.len() > 1 { tape::pid_of_node(node, facts.pid) } else { facts.pid };
                ranks.insert(pid, rank);
            }
        };
        tape::facts(open(path)?, take).with_context(|| path.display().to_string())?;
    }
    Ok(ranks)
}

/// Gives all of a job's tapes to a consumer, as one.
///
/// # Errors
/// A file is no tape, or cannot be read; what the consumer says cannot be written.
pub(super) fn replay_job(tapes: &[TapeSummary], consumer: &mut impl Consumer) -> Result<()> {
    replay_job_watched(tapes, consumer, &ReadingBar::hidden())
}

/// The same; `progress`: how far it has come.
///
/// # Errors
/// See [`replay_job`].
pub(super) fn replay_job_watched(
    tapes: &[TapeSummary],
    consumer: &mut impl Consumer,
    progress: &ReadingBar,
) -> Result<()> {
    let nodes = match tapes {
        [tape] => return replay_watched(&tape.path, consumer, progress),
        nodes => nodes,
    };
    let starts: Vec<Start> = nodes.iter().map(|tape| tape.start.clone()).collect();
    let Some(join) = Join::new(&starts) else {
        bail!("{} tapes of one job: at most {} can be read together", nodes.len(), tape::MAX_NODES)
    };
    let mut readers = nodes.iter().map(|tape| read(&tape.path, progress)).collect::<Result<Vec<_>>>()?;
    let (consumer, mut last_ns, mut ended) = (RefCell::new(consumer), 0, false);
    join.run(
        |node| next(&mut readers[node], &nodes[node].path, *consumer.borrow_mut()),
        |input| {
            match input {
                Input::Tick { time_ns } => last_ns = *time_ns,
                Input::Record(record) => last_ns = last_ns.max(record.time_ns()),
                Input::End(_) => ended = true,
                _ => {}
            }
            consumer.borrow_mut().push(input)
        },
    )?;
    if !ended {
        let end = End { time_ns: last_ns, reason: CUT.to_owned(), ..End::default() };
        consumer.into_inner().push(&Input::End(end))?;
    }
    Ok(())
}

fn read(path: &Path, progress: &ReadingBar) -> Result<Reader<impl Read + use<>>> {
    Reader::new(progress.counted(open(path)?)).with_context(|| path.display().to_string())
}

/// The next input of a tape; damage is told.
fn next(reader: &mut Reader<impl Read>, path: &Path, consumer: &mut impl Consumer) -> Result<Option<Input>> {
    loop {
        match reader.next().transpose().with_context(|| path.display().to_string())? {
            Some(Item::Damage(damage)) => consumer.damage(&format!("{}: {damage}", path.display())),
            Some(Item::Input(input)) => return Ok(Some(input)),
            None => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape(host: &str, ranks: &[u32], from_s: u64, to_s: Option<u64>) -> TapeSummary {
        TapeSummary {
            path: format!("{host}.dmt").into(),
            start: Start { host: host.into(), wall_clock_s: from_s, ..Start::default() },
            ranks: ranks.iter().copied().collect(),
            size: Some(4),
            ended_ns: to_s.map(|s| s * 1_000_000_000),
        }
    }

    fn sizes(tapes: &[TapeSummary]) -> Vec<usize> {
        jobs(tapes.to_vec()).iter().map(Vec::len).collect()
    }

    #[test]
    fn tapes_of_other_ranks_on_other_nodes_at_the_same_time_are_of_one_job() {
        let one = tape("a", &[0, 1], 10, Some(20));
        assert_eq!(sizes(&[one.clone(), tape("b", &[2, 3], 11, Some(19))]), [2]);
        assert_eq!(sizes(&[one.clone(), tape("b", &[2], 11, None), tape("c", &[3], 9, Some(12))]), [3]);
        assert_eq!(sizes(&[one]), [1]);
    }

    #[test]
    fn tapes_of_the_same_node_or_ranks_or_of_another_time_or_size_are_of_different_jobs() {
        let one = tape("a", &[0, 1], 10, Some(20));
        for other in [
            tape("a", &[2, 3], 11, Some(19)),
            tape("b", &[1, 2], 11, Some(19)),
            tape("b", &[2, 3], 21, Some(29)),
            tape("b", &[2, 3], 1, Some(9)),
            TapeSummary { size: Some(8), ..tape("b", &[2, 3], 11, Some(19)) },
            TapeSummary { size: None, ..tape("b", &[2, 3], 11, Some(19)) },
        ] {
            assert_eq!(sizes(&[one.clone(), other]), [1, 1]);
        }
    }
}
