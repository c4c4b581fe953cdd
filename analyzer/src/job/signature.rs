//! What of a collective call must be the same in all ranks that make it.

use crate::mpi::calls::{CallRow, Form};
use crate::mpi::operations::ReductionOp;
use crate::tape::plan::DatatypeGroup;

/// What must be the same in all members, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub row: &'static CallRow,
    /// A persistent call that is started, not one that is prepared.
    pub starts: bool,
    /// Whether it is given MPI_IN_PLACE; only where all or none must.
    pub in_place: Option<bool>,
    pub root: Option<i32>,
    /// One that MPI has from the beginning.
    pub op: Option<ReductionOp>,
    pub count: Option<i32>,
    /// Of what must be of the same length everywhere.
    pub bytes: Option<u64>,
    /// What elements are, where they must be the same in all ranks and there are any.
    pub group: Option<DatatypeGroup>,
}

fn group_name(group: DatatypeGroup) -> &'static str {
    match group {
        DatatypeGroup::Integer => "integer",
        DatatypeGroup::FloatingPoint => "floating-point",
        DatatypeGroup::Complex => "complex",
    }
}

impl Signature {
    pub fn of(row: &'static CallRow) -> Self {
        Self {
            row,
            starts: false,
            in_place: None,
            root: None,
            op: None,
            count: None,
            bytes: None,
            group: None,
        }
    }

    /// Whether a request stands for it until it is complete.
    pub fn has_request(&self) -> bool {
        self.starts || self.row.form == Form::Nonblocking
    }

    /// What of it must be the same everywhere: names and values.
    pub fn shown(&self) -> Vec<(String, String)> {
        let in_place = self.in_place.filter(|in_place| *in_place);
        let in_place = in_place.map(|_| ("sendbuf", "MPI_IN_PLACE".to_owned()));
        let root = self.root.map(|root| ("root", root.to_string()));
        let count = self.count.map(|count| ("count", count.to_string()));
        let bytes = self.bytes.map(|bytes| ("bytes", bytes.to_string()));
        let group = self.group.map(|group| ("datatype", group_name(group).to_owned()));
        let op = self.op.map(|op| ("op", op.name().to_owned()));
        let all = in_place.into_iter().chain(root).chain(count).chain(bytes).chain(group).chain(op);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// What is not known of one is as in the other.
    pub fn fits(&self, other: &Self) -> bool {
        std::ptr::eq(self.row, other.row)
            && self.starts == other.starts
            && same_if_known(self.in_place, other.in_place)
            && same_if_known(self.root, other.root)
            && same_if_known(self.op, other.op)
            && same_if_known(self.bytes, other.bytes)
            && same_if_known(self.group, other.group)
    }

    /// Takes what was not known from one that fits.
    pub fn learn(&mut self, other: &Self) {
        self.in_place = self.in_place.or(other.in_place);
        self.root = self.root.or(other.root);
        self.op = self.op.or(other.op);
        self.count = self.count.or(other.count);
        self.bytes = self.bytes.or(other.bytes);
        self.group = self.group.or(other.group);
    }
}

/// What is not known of one is as in the other.
pub(crate) fn same_if_known<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
    a.is_none() || b.is_none() || a == b
}
