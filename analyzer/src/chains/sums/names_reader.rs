//! Names as they were told, and what they are here.

use super::lists::ReadLists;
use crate::chains::groups::{ChainGroups, GroupId};
use crate::chains::op_names::{ContextId, OpNames, OpSymbol, SymbolId};
use crate::job::Job;
use crate::job::ids::{CallSiteId, WhoId};
use crate::job::names::{BufferId, BufferName, Kind, SiteId, SiteName};
use crate::job::process::Who;
use crate::tape::BadBytes;
use crate::tape::bytes::ByteReader;

/// Most names of one sort that a publisher may tell.
const MAX_NAMES: usize = 1 << 20;

/// Where names are put.
pub(crate) struct NameSink<'a> {
    pub job: &'a mut Job,
    pub ops: &'a mut OpNames,
    pub groups: &'a mut ChainGroups,
}

/// Names of one sort by the numbers in which they were told; none where that was missed.
#[derive(Debug)]
pub(crate) struct HeardNames<T>(Vec<Option<T>>);

impl<T> Default for HeardNames<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> HeardNames<T> {
    /// Reads those that are new.
    fn take(
        &mut self,
        r: &mut ByteReader<'_>,
        mut name: impl FnMut(&mut ByteReader<'_>) -> Result<Option<T>, BadBytes>,
    ) -> Result<(), BadBytes> {
        let (first, count) = (r.small::<usize>()?, r.small::<usize>()?);
        if first < self.0.len() || first.saturating_add(count) > MAX_NAMES {
            return Err(BadBytes);
        }
        self.0.resize(first, None);
        for _ in 0..count {
            let name = name(r)?;
            self.0.push(name);
        }
        Ok(())
    }

    /// What a number means; none if that was missed.
    fn get(&self, number: u64) -> Result<Option<T>, BadBytes> {
        let at = usize::try_from(number).map_err(|_| BadBytes)?;
        self.0.get(at).copied().ok_or(BadBytes)
    }

    /// Reads a number.
    pub(crate) fn read(&self, r: &mut ByteReader<'_>) -> Result<Option<T>, BadBytes> {
        self.get(r.number()?)
    }
}

/// All names that a publisher has told.
#[derive(Debug, Default)]
pub(crate) struct NamesReader {
    pub sites: HeardNames<SiteId>,
    pub buffers: HeardNames<BufferId>,
    calls: HeardNames<CallSiteId>,
    pub whos: HeardNames<WhoId>,
    pub symbols: HeardNames<SymbolId>,
    pub contexts: HeardNames<ContextId>,
    pub groups: HeardNames<GroupId>,
    /// By index.
    pub processes: HeardNames<usize>,
}

impl NamesReader {
    /// Reads what is new.
    pub(crate) fn take(
        &mut self,
        r: &mut ByteReader<'_>,
        lists: ReadLists<'_>,
        to: &mut NameSink<'_>,
    ) -> Result<(), BadBytes> {
        let Self { sites, buffers, calls, whos, symbols, contexts, groups, processes } = self;
        sites.take(r, |r| site(r, lists, to).map(Some))?;
        buffers.take(r, |r| buffer(r, sites, to))?;
        calls.take(r, |r| {
            let function = r.text()?;
            let Some(site) = sites.read(r)? else { return Ok(None) };
            Ok(Some(to.job.probes.named_call(function, site)))
        })?;
        whos.take(r, |r| who(r, lists, to).map(Some))?;
        symbols.take(r, |r| symbol(r, sites, buffers, to))?;
        contexts.take(r, |r| {
            let (site, kind, source) = (sites.read(r)?, kind(r)?, buffers.read(r)?);
            Ok(site.zip(source).map(|(site, source)| to.ops.context(site, kind, source)))
        })?;
        groups.take(r, |r| {
            let ops: Option<Vec<SymbolId>> = r.list(|r| symbols.read(r))?.into_iter().collect();
            Ok(ops.and_then(|ops| to.groups.group(&ops)))
        })?;
        processes.take(r, |r| {
            let (pid, earlier) = (lists.pid(r)?, r.optional(ByteReader::small)?);
            Ok(Some(to.job.process_told(pid, earlier)))
        })
    }

    /// Reads an MPI call: outside of MPI, or not known, if there is none.
    pub(crate) fn call(&self, r: &mut ByteReader<'_>) -> Result<Option<CallSiteId>, BadBytes> {
        match r.number()?.checked_sub(1) {
            Some(number) => self.calls.get(number),
            None => Ok(Some(CallSiteId::NONE)),
        }
    }
}

fn site(r: &mut ByteReader<'_>, lists: ReadLists<'_>, to: &mut NameSink<'_>) -> Result<SiteId, BadBytes> {
    let name = match r.number()? {
        0 => SiteName::Unknown,
        1 => SiteName::File {
            module: r.text()?.to_owned(),
            build_id: r.optional(ByteReader::text)?.map(str::to_owned),
            offset_bytes: r.number()?,
        },
        2 => SiteName::Kernel { call: r.text()?.to_owned() },
        _ => return Err(BadBytes),
    };
    let file = r.optional(|r| lists.file(r))?;
    Ok(to.job.names.site_in(&name, file))
}

fn buffer(
    r: &mut ByteReader<'_>,
    sites: &HeardNames<SiteId>,
    to: &mut NameSink<'_>,
) -> Result<Option<BufferId>, BadBytes> {
    let names = &mut to.job.names;
    let name = match r.number()? {
        0 => {
            let site = r.optional(|r| sites.read(r))?;
            // Its site has no number where there were too many.
            let site = site.unwrap_or(Some(SiteId(0)));
            return Ok(site.map(|site| names.heap_buffer(site)));
        }
        1 => BufferName::Shared { name: r.text()?.to_owned() },
        2 => BufferName::Static { module: r.text()?.to_owned() },
        3 => BufferName::HeapBeforeAttach,
        4 => BufferName::Stack,
        5 => BufferName::Anonymous,
        6 => BufferName::NotWatched,
        7 => BufferName::TcpStream,
        8 => BufferName::Unknown,
        9 => BufferName::QueuePair,
        _ => return Err(BadBytes),
    };
    Ok(Some(names.buffer(&name)))
}

fn who(r: &mut ByteReader<'_>, lists: ReadLists<'_>, to: &mut NameSink<'_>) -> Result<WhoId, BadBytes> {
    let who = match r.flag()? {
        true => Who::Rank(r.small()?),
        false => Who::Pid(lists.pid(r)?),
    };
    Ok(to.job.processes.who_id(who))
}

fn symbol(
    r: &mut ByteReader<'_>,
    sites: &HeardNames<SiteId>,
    buffers: &HeardNames<BufferId>,
    to: &mut NameSink<'_>,
) -> Result<Option<SymbolId>, BadBytes> {
    let site = sites.read(r)?;
    let (kind, pack, crosses) = (kind(r)?, r.flag()?, r.flag()?);
    let (source, destination) = (buffers.read(r)?, buffers.read(r)?);
    let (Some(site), Some(source), Some(destination)) = (site, source, destination) else { return Ok(None) };
    Ok(Some(to.ops.symbol(&OpSymbol { site, kind, pack, crosses, source, destination })))
}

fn kind(r: &mut ByteReader<'_>) -> Result<Kind, BadBytes> {
    Kind::ALL.get(r.small::<usize>()?).copied().ok_or(BadBytes)
}
