//! What is true of a program with a fault: by construction, not by what some library does.

use super::operations::{Flow, Form, Kind};
use super::{Case, Class, Fault};

/// What becomes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Some rank waits forever for what nobody does.
    Hangs,
    /// That is up to the library: what is wrong may be noticed by nobody, be an error, or hang.
    Open,
}

/// What is true of a program.
#[derive(Clone, Debug)]
pub struct Truth {
    /// What becomes of it.
    pub outcome: Outcome,
    /// What its fault is rightly called.
    pub classes: &'static [Class],
    /// Who may rightly be named: the rank that makes the fault must be, others are just as well its partners in it.
    pub may_be_named: Vec<u32>,
    /// Where ranks are then, as marks of source lines: a finding must have one of these.
    pub lines: Vec<(u32, Vec<String>)>,
}

const FINALIZE: &str = "finalize";

impl Case {
    /// What is true of it.
    pub fn truth(&self) -> Truth {
        match self.operation.kind {
            Kind::Collective(flow, form) => collective(self, flow, form),
        }
    }
}

/// Whether a rank cannot get through without all data of `of`.
fn needs(flow: Flow, rank: u32, of: u32) -> bool {
    match flow {
        Flow::AllToAll => true,
        Flow::FromRoot => of == 0,
        Flow::ToRoot => rank == 0,
        Flow::Upward => of < rank,
    }
}

fn collective(case: &Case, flow: Flow, form: Form) -> Truth {
    let others = (0..case.ranks).filter(|rank| *rank != case.bad);
    let is_needed = others.clone().any(|rank| needs(flow, rank, case.bad));
    let hangs = match case.fault {
        // What it does instead no rank gets through alone; in another communicator it is as good as not there.
        Fault::OtherOperation | Fault::OtherCommunicator => true,
        Fault::OtherOrder | Fault::MissingCall | Fault::MissingStart => is_needed,
        // Nobody has the data, or everybody waits for that of one who keeps it.
        Fault::OtherRoot => (flow == Flow::FromRoot) == (case.bad == 0),
        _ => false,
    };
    let own = match form {
        Form::Blocking => case.operation.name.clone(),
        Form::Nonblocking | Form::Persistent => "wait for a collective".to_owned(),
    };
    let another =
        if case.operation.name.contains("barrier") { "another allreduce" } else { "another barrier" };
    let of_bad = match case.fault {
        Fault::OtherOperation | Fault::OtherOrder => another.to_owned(),
        Fault::OtherCommunicator | Fault::OtherRoot => own,
        _ => FINALIZE.to_owned(),
    };
    // Of two ranks that do not do the same either may be wrong.
    let may_be_named = if case.ranks == 2 { vec![0, 1] } else { vec![case.bad] };
    Truth {
        outcome: if hangs { Outcome::Hangs } else { Outcome::Open },
        classes: if case.fault == Fault::MissingWait {
            &[Class::LeftOver]
        } else {
            &[Class::MismatchedCollective]
        },
        may_be_named,
        // Whoever gets through in spite of its fault is at the end.
        lines: vec![(case.bad, vec![of_bad, FINALIZE.to_owned()])],
    }
}
