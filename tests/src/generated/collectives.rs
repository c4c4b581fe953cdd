//! What is true of faults in what all ranks do together.

use super::operations::{CallForm, DataFlow};
use super::truth::FINALIZE;
use super::{Case, ExpectedOutcome, FindingClass, GeneratedFault, Truth};

/// Whether a rank cannot get through without all data of `of`.
fn needs(flow: DataFlow, rank: u32, of: u32) -> bool {
    match flow {
        DataFlow::AllToAll => true,
        DataFlow::FromRoot => of == 0,
        DataFlow::ToRoot => rank == 0,
        DataFlow::Upward => of < rank,
    }
}

/// What is true of a fault in a collective operation.
pub(super) fn truth(case: &Case, flow: DataFlow, form: CallForm) -> Truth {
    let others = (0..case.ranks).filter(|rank| *rank != case.bad);
    let is_needed = others.clone().any(|rank| needs(flow, rank, case.bad));
    let hangs = match case.fault {
        // What it does instead no rank gets through alone; in another communicator it is as good as not there.
        GeneratedFault::OtherOperation | GeneratedFault::OtherCommunicator => true,
        GeneratedFault::OtherOrder | GeneratedFault::MissingCall | GeneratedFault::MissingStart => is_needed,
        // Nobody has the data, or everybody waits for that of one who keeps it.
        GeneratedFault::OtherRoot => (flow == DataFlow::FromRoot) == (case.bad == 0),
        _ => false,
    };
    let own = match form {
        CallForm::Blocking => case.operation.name.clone(),
        CallForm::Nonblocking | CallForm::Persistent => "wait for a collective".to_owned(),
    };
    let another =
        if case.operation.name.contains("barrier") { "another allreduce" } else { "another barrier" };
    let of_bad = match case.fault {
        GeneratedFault::OtherOperation | GeneratedFault::OtherOrder => another.to_owned(),
        GeneratedFault::OtherCommunicator | GeneratedFault::OtherRoot => own,
        _ => FINALIZE.to_owned(),
    };
    let outcome = if hangs { ExpectedOutcome::Hangs } else { ExpectedOutcome::Open };
    // Whoever gets through in spite of its fault is at the end.
    let told = mismatch(case, outcome, vec![of_bad, FINALIZE.to_owned()]);
    if case.fault == GeneratedFault::MissingWait {
        Truth { classes: &[FindingClass::Leak, FindingClass::UncompletedRequest], ..told }
    } else {
        told
    }
}

fn mismatch(case: &Case, outcome: ExpectedOutcome, marks: Vec<String>) -> Truth {
    // Of two ranks that do not do the same either may be wrong.
    let may_be_named = if case.ranks == 2 { vec![0, 1] } else { vec![case.bad] };
    Truth {
        outcome,
        classes: &[FindingClass::MismatchedCollective],
        may_be_named,
        lines: vec![(case.bad, marks)],
    }
}

/// What is true of a fault where all ranks make something: nobody gets it without the others.
pub(super) fn truth_of_maker(case: &Case) -> Truth {
    let own = if case.operation.name == "comm_idup" { "wait for comm_idup" } else { &case.operation.name };
    let mark = match case.fault {
        GeneratedFault::OtherOperation | GeneratedFault::OtherOrder => "barrier beside what is made",
        GeneratedFault::OtherCommunicator => own,
        _ => FINALIZE,
    };
    mismatch(case, ExpectedOutcome::Hangs, vec![mark.to_owned()])
}

/// What is true of a fault in a fence: it ends when all ranks of the window have come to it.
pub(super) fn truth_of_fence(case: &Case) -> Truth {
    let mark = match case.fault {
        GeneratedFault::OtherOperation => "barrier for a fence",
        GeneratedFault::MissingCall => FINALIZE,
        _ => &case.operation.name,
    };
    mismatch(case, ExpectedOutcome::Hangs, vec![mark.to_owned()])
}
