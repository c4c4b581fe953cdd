//! `cargo xtask check`: format, lints, and the rules of the workspace that no other tool knows.

mod circles;
mod documents;
mod imports;
mod rooms;
mod scan;
pub mod sources;
mod tokens;
mod types;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{cargo, output, run as run_command};
use crate::project_files;

/// Which crates of ours a crate may use; a crate that is not named may use all.
const MAY_USE: &[(&str, &[&str])] = &[
    ("dmscope-analyzer", &[]),
    ("dmscope-tracer-ebpf", &[]),
    ("dmscope-replay", &[]),
    ("dmscope-wrapper", &["dmscope-replay"]),
    ("dmscope-injector", &[]),
    ("dmscope", &["dmscope-analyzer", "dmscope-replay", "dmscope-tracer-ebpf", "dmscope-injector"]),
    ("xtask", &[]),
];

/// Runs all checks; the first that fails is the error.
pub fn run() -> Result<()> {
    dependency_rule()?;
    project_files::check()?;
    documents::check()?;
    sources::check(sources::Detail::Counts)?;
    run_command(cargo().args(["fmt", "--all", "--check"]))?;
    run_command(cargo().args([
        "clippy",
        "--release",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ]))
}

fn dependency_rule() -> Result<()> {
    let text = output(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let broken = forbidden_dependencies(&serde_json::from_str(&text).context("output of cargo metadata")?)?;
    if !broken.is_empty() {
        bail!("dependencies that the workspace's rule forbids: {}", broken.join(", "));
    }
    Ok(())
}

/// The dependencies between crates of the workspace that `MAY_USE` does not allow, as `user -> used`.
/// Dependencies of tests count too.
fn forbidden_dependencies(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let name = |value: &Value| value["name"].as_str().map(str::to_owned);
    let ours: Vec<String> = packages.iter().filter_map(name).collect();
    let mut broken = Vec::new();
    for package in packages {
        let user = name(package).context("a package without a name")?;
        let Some((_, allowed)) = MAY_USE.iter().find(|(crate_name, _)| *crate_name == user) else { continue };
        let used = package["dependencies"].as_array().context("a package without dependencies")?;
        let forbidden = used.iter().filter_map(name).filter(|used| ours.contains(used));
        broken.extend(
            forbidden
                .filter(|used| !allowed.contains(&used.as_str()))
                .map(|used| format!("{user} -> {used}")),
        );
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dependency_against_the_rule_is_named_and_foreign_crates_are_free() {
        let metadata = json!({"packages": [
            {"name": "dmscope-analyzer", "dependencies": [{"name": "serde"}, {"name": "dmscope"}]},
            {"name": "dmscope", "dependencies": [{"name": "dmscope-analyzer"}]},
        ]});
        assert_eq!(forbidden_dependencies(&metadata).unwrap(), ["dmscope-analyzer -> dmscope"]);
    }

    #[test]
    fn metadata_without_packages_is_an_error() {
        assert!(forbidden_dependencies(&json!({})).is_err());
    }
}
