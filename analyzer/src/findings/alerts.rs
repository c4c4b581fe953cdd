//! What was said already: each finding once, and taken back when it does not hold any more.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Alert, Finding, Severity};

/// A finding is taken back when it has been missing from so many evaluations in a row: one that
/// is near a threshold must not come and go.
const PATIENCE: u32 = 20;

/// What was said of a finding.
struct Raised {
    severity: Severity,
    missing: u32,
}

/// Alerts given and not yet given.
#[derive(Default)]
pub(crate) struct AlertBook {
    raised: BTreeMap<String, Raised>,
    pending: Vec<Alert>,
}

impl AlertBook {
    /// Holds what was said against what holds now. What a loss may have caused raises nothing.
    /// At the end there is nothing to wait for.
    pub fn update(&mut self, findings: Vec<Finding>, at_end: bool) {
        let mut holds = BTreeSet::new();
        for finding in findings {
            let known = self.raised.get(&finding.id).map(|raised| raised.severity);
            if !finding.is_told() {
                if known.is_some() {
                    self.withdraw(&finding.id, "records were lost: it may be a matter of what is missing");
                }
                continue;
            }
            let severity = known.map_or(finding.severity, |k| k.max(finding.severity));
            self.raised.insert(finding.id.clone(), Raised { severity, missing: 0 });
            holds.insert(finding.id.clone());
            if known.is_none_or(|severity| severity < finding.severity) {
                self.pending.push(Alert::Raised(Box::new(finding)));
            }
        }
        let mut gone = Vec::new();
        for (id, raised) in self.raised.iter_mut().filter(|(id, _)| !holds.contains(*id)) {
            raised.missing += 1;
            if at_end || raised.missing >= PATIENCE {
                gone.push(id.clone());
            }
        }
        for id in gone {
            self.withdraw(&id, "it no longer holds");
        }
    }

    /// What was not taken yet.
    pub fn take(&mut self) -> Vec<Alert> {
        std::mem::take(&mut self.pending)
    }

    fn withdraw(&mut self, id: &str, reason: &str) {
        self.raised.remove(id);
        self.pending.push(Alert::Withdrawn { id: id.to_owned(), reason: reason.to_owned() });
    }
}
