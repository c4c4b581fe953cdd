//! What was said already: each finding once, and taken back when it does not hold any more.

use std::collections::BTreeMap;

use crate::finding::{Alert, Finding, Severity, Verdict};

/// Alerts given and not yet given.
#[derive(Default)]
pub(crate) struct AlertBook {
    raised: BTreeMap<String, Severity>,
    pending: Vec<Alert>,
}

impl AlertBook {
    /// Holds what was said against what holds now. What a loss may have caused raises nothing.
    pub fn update(&mut self, findings: Vec<Finding>) {
        let mut now = BTreeMap::new();
        for finding in findings {
            let known = self.raised.get(&finding.id).copied();
            if finding.verdict == Verdict::Inconclusive {
                if known.is_some() {
                    self.withdraw(&finding.id, "records were lost: it may be a matter of what is missing");
                }
                continue;
            }
            now.insert(finding.id.clone(), known.map_or(finding.severity, |k| k.max(finding.severity)));
            if known.is_none_or(|severity| severity < finding.severity) {
                self.pending.push(Alert::Raised(Box::new(finding)));
            }
        }
        let gone: Vec<String> = self.raised.keys().filter(|id| !now.contains_key(*id)).cloned().collect();
        for id in gone {
            self.withdraw(&id, "the counts no longer support it");
        }
        self.raised = now;
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
