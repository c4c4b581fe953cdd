//! What was said already: each finding once, and taken back when it does not hold any more.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Alert, Finding, Hang, Severity};

/// A finding is taken back when it has been missing from so many evaluations in a row: one that
/// is near a threshold must not come and go.
const PATIENCE: u32 = 20;

/// A hang is told again when so many more ranks are in it …
const MANY_MORE: usize = 64;

/// What was said of a finding.
struct Raised {
    severity: Severity,
    missing: u32,
    /// Ranks that are in it, as it was told.
    told_ranks: usize,
    /// The same, as it was last evaluated.
    ranks: usize,
}

impl Raised {
    /// … if that is twice as many, or no more come.
    fn has_grown(&self, ranks: usize) -> bool {
        let (told, before) = (self.told_ranks, self.ranks);
        ranks >= told.saturating_add(MANY_MORE) && (ranks >= told.saturating_mul(2) || ranks <= before)
    }
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
            let known = self.raised.get(&finding.id);
            if !finding.is_told() {
                if known.is_some() {
                    self.withdraw(&finding.id, "records were lost: it may be a matter of what is missing");
                }
                continue;
            }
            let ranks = finding.hang().map_or(0, Hang::size);
            let is_news =
                known.is_none_or(|known| known.severity < finding.severity || known.has_grown(ranks));
            let severity = known.map_or(finding.severity, |known| known.severity.max(finding.severity));
            let told_ranks = known.filter(|_| !is_news).map_or(ranks, |known| known.told_ranks);
            self.raised.insert(finding.id.clone(), Raised { severity, missing: 0, told_ranks, ranks });
            holds.insert(finding.id.clone());
            if is_news {
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
