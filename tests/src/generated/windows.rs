//! What is true of faults in the synchronization of one-sided communication between two ranks.

use super::operations::CallRole;
use super::truth::FINALIZE;
use super::{Case, ExpectedOutcome, FindingClass, GeneratedFault, Truth};

/// A rank that waits for another's call, or for its lock; and if that one has ended all but for MPI_Finalize, which waits for
/// the first, both names are right.
const CLASSES: &[FindingClass] = &[FindingClass::MissingMessage, FindingClass::Deadlock];

fn truth(case: &Case, classes: &'static [FindingClass], of_bad: &[&str], of_partner: &[&str]) -> Truth {
    let mut may_be_named = vec![case.bad, case.partner()];
    if case.fault == GeneratedFault::OtherRank {
        may_be_named.push((case.bad + 2) % case.ranks);
    }
    let owned = |marks: &[&str]| marks.iter().map(|&mark| mark.to_owned()).collect();
    let lines = vec![(case.bad, owned(of_bad)), (case.partner(), owned(of_partner))];
    Truth { outcome: ExpectedOutcome::Hangs, classes, may_be_named, lines }
}

/// Where a rank waits that accesses the other's window: libraries may wait at either end.
const ACCESSES: &[&str] = &["win_start", "win_complete"];

/// What is true of a fault of a rank that exposes its window, or accesses its partner's.
pub(super) fn truth_of_active(case: &Case, role: CallRole) -> Truth {
    let is_there = matches!(case.fault, GeneratedFault::OtherRank | GeneratedFault::OtherCommunicator);
    let of_bad: &[&str] = match role {
        CallRole::Exposes if is_there => &["win_wait"],
        CallRole::Accesses if is_there => ACCESSES,
        _ => &[FINALIZE],
    };
    let of_partner: &[&str] = match role {
        CallRole::Exposes => ACCESSES,
        CallRole::IsAskedFor => &["win_test"],
        CallRole::Accesses | CallRole::Completes => &["win_wait"],
    };
    truth(case, CLASSES, of_bad, of_partner)
}

/// What is true of two locks that two ranks take in different orders. A lock may be asked for with the first use of it.
pub(super) fn truth_of_lock(case: &Case) -> Truth {
    let marks = ["win_lock", "unlock of the second lock"];
    truth(case, &[FindingClass::Deadlock], &marks, &marks)
}

/// What is true of a lock that is not given back.
pub(super) fn truth_of_unlock(case: &Case) -> Truth {
    truth(case, CLASSES, &[FINALIZE], &["lock of the partner", "unlock of the partner"])
}
