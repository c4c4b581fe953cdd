//! Code places of reports and alerts are given their names.

use super::say;
use crate::findings::finding::{Alert, BufferUser, Evidence, Finding, GroupView, Hang, OpView, Place};
use crate::findings::report::Report;
use crate::job::symbols::SymbolTable;
use crate::tape::wire::FileId;

/// Places without names among those that `visit` goes through, in order.
fn wanted(table: &SymbolTable, visit: impl FnOnce(&mut dyn FnMut(&mut Place))) -> Vec<(FileId, u64)> {
    let mut wanted = Vec::new();
    visit(&mut |place| {
        if let Some(file) = place.file
            && table.get(file, place.offset_bytes).is_none()
        {
            wanted.push((file, place.offset_bytes));
        }
    });
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

fn fill(table: &SymbolTable, place: &mut Place) {
    if let Some(frames) = place.file.and_then(|file| table.get(file, place.offset_bytes)) {
        place.frames = frames.to_vec();
    }
}

impl Report {
    /// Gives code places their names, and says again in words what now has better ones.
    pub fn symbolize(&mut self, table: &SymbolTable) {
        self.each_place(&mut |place| fill(table, place));
        self.findings.iter_mut().for_each(say::say);
    }

    /// Code places that have no names yet, in order.
    pub fn wanted_symbols(&mut self, table: &SymbolTable) -> Vec<(FileId, u64)> {
        wanted(table, |f| self.each_place(f))
    }

    fn each_place(&mut self, f: &mut dyn FnMut(&mut Place)) {
        for finding in &mut self.findings {
            finding.each_place(f);
        }
        self.statistics.probes.iter_mut().for_each(|p| f(&mut p.place));
        self.statistics.top_groups.iter_mut().for_each(|g| g.each_place(f));
    }
}

impl Alert {
    /// Gives code places their names.
    pub fn symbolize(&mut self, table: &SymbolTable) {
        if let Self::Raised(finding) = self {
            finding.symbolize(table);
        }
    }

    /// Code places that have no names yet, in order.
    pub fn wanted_symbols(&mut self, table: &SymbolTable) -> Vec<(FileId, u64)> {
        match self {
            Self::Raised(finding) => wanted(table, |f| finding.each_place(f)),
            Self::Withdrawn { .. } => Vec::new(),
        }
    }
}

impl Finding {
    /// The same for a finding of its own, as alerts carry them.
    pub fn symbolize(&mut self, table: &SymbolTable) {
        self.each_place(&mut |place| fill(table, place));
        say::say(self);
    }

    fn each_place(&mut self, f: &mut dyn FnMut(&mut Place)) {
        match &mut self.evidence {
            Evidence::OddRank(rank) => rank.group.each_place(f),
            Evidence::Hang(hang) => hang.each_place(f),
            Evidence::CollectiveMismatch(mismatch) => {
                mismatch.death.iter_mut().for_each(|death| death.each_place(f));
                mismatch.ranks.iter_mut().for_each(|rank| f(&mut rank.call.place));
                mismatch.groups.iter_mut().for_each(|group| f(&mut group.call.place));
                mismatch.hang.iter_mut().for_each(|hang| hang.each_place(f));
            }
            Evidence::DatatypeMismatch(found) => {
                [&mut found.send, &mut found.receive].into_iter().for_each(|call| f(&mut call.place));
            }
            Evidence::BufferConflict(found) => {
                f(&mut found.request.place);
                match &mut found.user {
                    BufferUser::Call(call) => f(&mut call.place),
                    BufferUser::Copy { place } | BufferUser::Free { place } => f(place),
                    BufferUser::Store { seen_by, .. } => f(&mut seen_by.place),
                }
            }
            Evidence::HeapMisuse(found) => {
                f(&mut found.call.place);
                f(&mut found.allocated);
                found.freed.iter_mut().for_each(f);
            }
            Evidence::AccessConflict(found) => {
                [&mut found.first, &mut found.second].into_iter().for_each(|call| f(&mut call.place));
            }
            Evidence::PotentialDeadlock(found) => {
                let calls = found.calls.iter_mut().flat_map(|of| [Some(&mut of.call), of.begun_by.as_mut()]);
                calls.flatten().for_each(|call| f(&mut call.place));
            }
            Evidence::OverlappingBuffers(found) => f(&mut found.call.place),
            Evidence::OutsideWindow(found) => f(&mut found.call.place),
            Evidence::Leak(left) => f(&mut left.place),
            Evidence::ErrorReturned(returned) => f(&mut returned.call.place),
            Evidence::OddChain(chain) => {
                chain.odd.each_place(f);
                chain.frequent.each_place(f);
                let others = chain.others.iter_mut().flat_map(|o| &mut o.ops);
                let context = chain.context.missing_before.iter_mut().chain(&mut chain.context.missing_after);
                others.chain(context).for_each(|op| op.each_place(f));
                let examples = chain.examples.iter_mut().flat_map(|e| e.ops.iter_mut().chain(&mut e.before));
                for op in examples {
                    f(&mut op.place);
                    op.destination_buffer.allocated.iter_mut().for_each(&mut *f);
                }
            }
        }
    }
}

impl Hang {
    fn each_place(&mut self, f: &mut dyn FnMut(&mut Place)) {
        for rank in &mut self.ranks {
            rank.call.iter_mut().for_each(|call| f(&mut call.place));
            rank.stack.iter_mut().for_each(&mut *f);
        }
        for group in &mut self.groups {
            group.call.iter_mut().for_each(|call| f(&mut call.place));
            group.place.iter_mut().for_each(&mut *f);
        }
    }
}

impl GroupView {
    fn each_place(&mut self, f: &mut dyn FnMut(&mut Place)) {
        self.ops.iter_mut().for_each(|op| op.each_place(f));
    }
}

impl OpView {
    fn each_place(&mut self, f: &mut dyn FnMut(&mut Place)) {
        f(&mut self.place);
        self.source.allocated.iter_mut().for_each(&mut *f);
        self.destination.allocated.iter_mut().for_each(&mut *f);
        self.calls.iter_mut().for_each(|call| f(&mut call.place));
    }
}
