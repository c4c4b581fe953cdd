//! What a report finds, as the tests ask for it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Findings of a report, the most important first.
#[derive(Clone, Debug)]
pub struct Findings(Vec<Value>);

impl Findings {
    pub(crate) fn of(report: &Value) -> Result<Self> {
        Ok(Self(report["findings"].as_array().context("a report without findings")?.clone()))
    }

    /// Those that say that something is broken.
    pub fn warnings(&self) -> Vec<&Value> {
        self.0.iter().filter(|finding| finding["severity"] == "warning").collect()
    }

    /// Those that say that something is odd.
    pub fn notices(&self) -> Vec<&Value> {
        self.0.iter().filter(|finding| finding["severity"] == "notice").collect()
    }

    /// Fails if something is called broken.
    pub fn check_no_warning(&self) -> Result<()> {
        let summaries: Vec<_> = self.warnings().iter().map(|finding| summary(finding)).collect();
        ensure!(summaries.is_empty(), "warnings where nothing is wrong:\n{}", summaries.join("\n"));
        Ok(())
    }

    /// The first finding, which must be a warning that holds whatever was lost.
    pub fn first_warning(&self) -> Result<&Value> {
        let first = self.0.first().context("nothing was found")?;
        let summaries: Vec<_> = self.0.iter().map(summary).collect();
        ensure!(first["severity"] == "warning", "only notices were found:\n{}", summaries.join("\n"));
        ensure!(first["verdict"] == "violated", "an inconclusive warning: {}", summaries[0]);
        Ok(first)
    }
}

/// The sentence that says what a finding is.
pub fn summary(finding: &Value) -> String {
    finding["summary"].as_str().unwrap_or_default().to_owned()
}

/// One of the missing operations of an odd chain whose instances had a context match.
pub fn missing_operation(finding: &Value) -> Result<&Value> {
    let context = &finding["evidence"]["context"];
    ensure!(finding["evidence"]["kind"] == "odd_chain", "not an odd chain: {}", summary(finding));
    ensure!(context["matched"].as_u64().unwrap_or(0) > 0, "no context match: {}", summary(finding));
    let missing =
        [&context["missing_before"], &context["missing_after"]].into_iter().find(|op| !op.is_null());
    missing.with_context(|| format!("no operation is missing: {}", summary(finding)))
}

/// A place in code: function, file and line of its innermost frame.
pub fn frame(place: &Value) -> Option<(&str, &str, u64)> {
    let frame = &place["frames"][0];
    let source = frame["source"].as_str()?;
    Some((frame["function"].as_str()?, source.rsplit('/').next()?, frame["line"].as_u64()?))
}
