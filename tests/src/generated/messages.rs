//! What is true of faults between a sender and a receiver.

use super::operations::{CallForm, From, SendVariant};
use super::truth::FINALIZE;
use super::{Case, ExpectedOutcome, FindingClass, GeneratedFault, Truth};

const MISSING: &[FindingClass] = &[FindingClass::MissingMessage];
const DEADLOCK: &[FindingClass] = &[FindingClass::Deadlock];
/// Two ranks wait for each other, for two messages that do not come.
const EITHER: &[FindingClass] = &[FindingClass::Deadlock, FindingClass::MissingMessage];

/// A truth with the marks of the two ranks.
fn truth(case: &Case, classes: &'static [FindingClass], of_bad: &str, of_partner: &str) -> Truth {
    let mut may_be_named = vec![case.bad, case.partner()];
    if case.fault == GeneratedFault::OtherRank {
        may_be_named.push((case.bad + 2) % case.ranks);
    }
    let lines = vec![(case.bad, vec![of_bad.to_owned()]), (case.partner(), vec![of_partner.to_owned()])];
    Truth { outcome: ExpectedOutcome::Hangs, classes, may_be_named, lines }
}

/// Where a rank waits for its own message.
fn own_mark(case: &Case, form: CallForm) -> &str {
    if form == CallForm::Blocking { &case.operation.name } else { "wait for a message" }
}

/// What was begun is not completed, and all ranks come through.
fn leaks(case: &Case) -> Truth {
    Truth {
        outcome: ExpectedOutcome::Open,
        classes: &[FindingClass::Leak],
        ..truth(case, &[], FINALIZE, FINALIZE)
    }
}

/// What is true of a fault of a sender. Its partner waits for the message.
pub(super) fn truth_of_send(case: &Case, mode: SendVariant, form: CallForm) -> Truth {
    let partner = if mode == SendVariant::Ready { "wait of the partner" } else { "receive of the partner" };
    let own = own_mark(case, form);
    let waits = matches!(mode, SendVariant::Synchronous | SendVariant::Exchange);
    match case.fault {
        GeneratedFault::OtherOperation | GeneratedFault::OtherOrder => {
            truth(case, DEADLOCK, "other receive of the bad rank", partner)
        }
        GeneratedFault::MissingCall | GeneratedFault::MissingStart => truth(case, MISSING, FINALIZE, partner),
        GeneratedFault::MissingWait => leaks(case),
        // An error of its own: nobody is ready for this message.
        _ if mode == SendVariant::Ready => {
            Truth { outcome: ExpectedOutcome::Open, ..truth(case, MISSING, FINALIZE, partner) }
        }
        GeneratedFault::OtherRank if waits => truth(case, MISSING, own, partner),
        _ if waits => truth(case, EITHER, own, partner),
        _ => truth(case, MISSING, FINALIZE, partner),
    }
}

/// What is true of a fault of a receiver. Its partner sends, and waits to be received from only where nobody receives.
pub(super) fn truth_of_receive(case: &Case, from: From, form: CallForm) -> Truth {
    const SENDS: &str = "synchronous send of the partner";
    let mut told = match case.fault {
        GeneratedFault::OtherOperation => truth(case, MISSING, "other send of the bad rank", FINALIZE),
        GeneratedFault::OtherOrder => truth(case, DEADLOCK, "other send of the bad rank", SENDS),
        GeneratedFault::MissingCall | GeneratedFault::MissingStart => truth(case, MISSING, FINALIZE, SENDS),
        GeneratedFault::MissingWait => leaks(case),
        _ => truth(case, MISSING, own_mark(case, form), FINALIZE),
    };
    if from == From::AnySource {
        told.may_be_named = (0..case.ranks).collect();
    }
    told
}

/// What is true of a fault of a sender whose partner completes receives, or probes.
pub(super) fn truth_of_completion(case: &Case) -> Truth {
    let mut told = truth(case, MISSING, FINALIZE, &case.operation.name);
    if case.operation.name.ends_with("any_source") {
        told.may_be_named = (0..case.ranks).collect();
    }
    told
}
