//! What is true of faults in what all ranks do together.

use super::operations::{Flow, Form};
use super::truth::FINALIZE;
use super::{Case, Class, Fault, Outcome, Truth};

/// Whether a rank cannot get through without all data of `of`.
fn needs(flow: Flow, rank: u32, of: u32) -> bool {
    match flow {
        Flow::AllToAll => true,
        Flow::FromRoot => of == 0,
        Flow::ToRoot => rank == 0,
        Flow::Upward => of < rank,
    }
}

/// What is true of a fault in a collective operation.
pub(super) fn truth(case: &Case, flow: Flow, form: Form) -> Truth {
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
    let outcome = if hangs { Outcome::Hangs } else { Outcome::Open };
    // Whoever gets through in spite of its fault is at the end.
    let told = mismatch(case, outcome, vec![of_bad, FINALIZE.to_owned()]);
    if case.fault == Fault::MissingWait { Truth { classes: &[Class::LeftOver], ..told } } else { told }
}

fn mismatch(case: &Case, outcome: Outcome, marks: Vec<String>) -> Truth {
    // Of two ranks that do not do the same either may be wrong.
    let may_be_named = if case.ranks == 2 { vec![0, 1] } else { vec![case.bad] };
    Truth { outcome, classes: &[Class::MismatchedCollective], may_be_named, lines: vec![(case.bad, marks)] }
}

/// What is true of a fault where all ranks make something: nobody gets it without the others.
pub(super) fn truth_of_maker(case: &Case) -> Truth {
    let own = if case.operation.name == "comm_idup" { "wait for comm_idup" } else { &case.operation.name };
    let mark = match case.fault {
        Fault::OtherOperation | Fault::OtherOrder => "barrier beside what is made",
        Fault::OtherCommunicator => own,
        _ => FINALIZE,
    };
    mismatch(case, Outcome::Hangs, vec![mark.to_owned()])
}

/// What is true of a fault in a fence: it ends when all ranks of the window have come to it.
pub(super) fn truth_of_fence(case: &Case) -> Truth {
    let mark = match case.fault {
        Fault::OtherOperation => "barrier for a fence",
        Fault::MissingCall => FINALIZE,
        _ => &case.operation.name,
    };
    mismatch(case, Outcome::Hangs, vec![mark.to_owned()])
}
