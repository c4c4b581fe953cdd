//! An order that depends on names alone: where counts are equal, what comes first does not depend on what was seen first, on
//! one node or on another.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::group::Work;
use super::groups::{ChainGroups, GroupId};
use super::op_names::OpNames;
use crate::job::Job;
use crate::job::names::{BufferId, SiteId};

/// See the [module](self).
#[derive(Clone, Copy)]
pub(crate) struct NameOrder<'a> {
    pub job: &'a Job,
    pub groups: &'a ChainGroups,
    pub ops: &'a OpNames,
}

impl NameOrder<'_> {
    /// A number that is greater for a group that comes later.
    pub fn of_group(&self, id: GroupId) -> u64 {
        let mut hasher = FxHasher::default();
        for symbol in &self.groups.get(id).symbols {
            let parts = self.ops.symbol_parts(*symbol);
            self.put_site(parts.site, &mut hasher);
            (parts.kind, parts.pack, parts.crosses).hash(&mut hasher);
            self.put_buffer(parts.source, &mut hasher);
            self.put_buffer(parts.destination, &mut hasher);
        }
        hasher.finish()
    }

    /// The same for what chains begin with.
    pub fn of_work(&self, work: Work) -> u64 {
        let mut hasher = FxHasher::default();
        self.put_site(work.site, &mut hasher);
        let (function, site) = self.job.probes.call_parts(work.call);
        function.hash(&mut hasher);
        self.put_site(site, &mut hasher);
        hasher.finish()
    }

    fn put_site(&self, id: SiteId, hasher: &mut FxHasher) {
        self.job.names.site_name(id).hash(hasher);
    }

    fn put_buffer(&self, id: BufferId, hasher: &mut FxHasher) {
        self.job.names.buffer_name(id).hash(hasher);
    }
}
