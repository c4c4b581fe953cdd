//! What is run in a machine.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::script::VmStep;
use crate::process::{cargo, output, root, target_dir};

/// Live tests that say whether dmscope works on a kernel at all, and those that need RDMA.
const DEFAULT: [&str; 2] = ["doctor", "pingpong"];
/// The core of the live tests, in minutes: what dmscope finds, counts, leaves alone and does under `run`, with both libraries.
const CORE: [&str; 5] = [
    "exact_counts::all_forms_of_copies under_run_all_copies what_was_seen_and_what_was_lost",
    "faults_found::the_pointer_fault_is_found_when_attached_before_it without_the_pointer_fault the_pointer_fault_is_found_under_run",
    "clean_jobs::a_ring_is_clean collectives_are_clean one_sided_communication_is_clean",
    "unfinished_jobs",
    "tapes::losses_come_again processes_that_came_and_went",
];
/// Kernels that dmscope says it does not work on.
const REFUSED: &str = "6.1";

/// Everything is slower by a factor of ten to twenty there.
const TEST_LIMIT_S: u64 = 1800;
const COMMAND_LIMIT_S: u64 = 120;

/// The steps for a kernel. `wanted`: names of live tests, optionally with names of tests of it (`verbs::two`), `core`, or `--`
/// and a line of shell; nothing: what there is to run by default.
pub(super) fn steps(version: &str, wanted: &[&str]) -> Result<Vec<VmStep>> {
    if let Some(at) = wanted.iter().position(|word| *word == "--") {
        let line = wanted[at + 1..].join(" ");
        return Ok(vec![VmStep::shell("command", &line, TEST_LIMIT_S)]);
    }
    if version == REFUSED && wanted.is_empty() {
        return Ok(vec![refusal()]);
    }
    let wanted = match wanted {
        [] => &DEFAULT,
        ["core"] => &CORE[..],
        wanted => wanted,
    };
    let files: BTreeSet<&str> =
        wanted.iter().filter(|name| command(name).is_none()).map(|name| file_and_filter(name).0).collect();
    let built = if files.is_empty() { Vec::new() } else { test_programs(&files)? };
    let steps: Result<Vec<_>> = wanted.iter().map(|name| steps_of(name, &built, &names_of_tests)).collect();
    Ok(steps?.into_iter().flatten().collect())
}

/// A message there and back over a reliable connection.
const PINGPONG: &str =
    "ibv_rc_pingpong -g 1 -n 50 & sleep 3; ibv_rc_pingpong -g 1 -n 50 10.77.0.1 && wait $!";

fn command(name: &str) -> Option<String> {
    match name {
        "doctor" => Some(format!("{} doctor", dmscope())),
        "pingpong" => Some(PINGPONG.to_owned()),
        _ => None,
    }
}

/// Of `verbs::two`: the live test, and what is in the names of those of its tests that are wanted.
fn file_and_filter(name: &str) -> (&str, &str) {
    name.split_once("::").unwrap_or((name, ""))
}

/// One for each test, so that each has its own limit, and that it is seen how far all are.
fn steps_of(
    name: &str,
    built: &[(String, String)],
    names_of_tests: &dyn Fn(&str, &str) -> Result<Vec<String>>,
) -> Result<Vec<VmStep>> {
    if let Some(line) = command(name) {
        return Ok(vec![VmStep::shell(name, &line, COMMAND_LIMIT_S)]);
    }
    let (file, filter) = file_and_filter(name);
    let Some((_, program)) = built.iter().find(|(known, _)| known == file) else {
        bail!("there is no live test {file}");
    };
    let tests = names_of_tests(program, filter)?;
    if tests.is_empty() {
        bail!("no test of {file} has {filter} in its name");
    }
    let of_test = |test: String| {
        let line = format!("DMSCOPE={} {program} --include-ignored --nocapture --exact {test}", dmscope());
        VmStep::shell(&format!("{file}::{test}"), &line, TEST_LIMIT_S)
    };
    Ok(tests.into_iter().map(of_test).collect())
}

/// Those that have one of the words in their names; all, if there are none.
fn names_of_tests(program: &str, filter: &str) -> Result<Vec<String>> {
    let mut list = Command::new(program);
    list.args(["--list", "--format", "terse", "--include-ignored"]).args(filter.split_whitespace());
    let lines = output(&mut list)?;
    Ok(lines.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// On kernels that lack what it needs dmscope says what, and ends with its status for that.
fn refusal() -> VmStep {
    let line = format!(
        "{0} doctor; {0} run -- true > /tmp/said 2>&1; status=$?; cat /tmp/said; \
         test $status = 2 && grep -q 'Linux 6.6 or later' /tmp/said",
        dmscope()
    );
    VmStep::shell("it is refused", &line, COMMAND_LIMIT_S)
}

fn dmscope() -> String {
    target_dir().join("release/dmscope").display().to_string()
}

/// Names of live tests and their programs, built now where they are not yet.
fn test_programs(files: &BTreeSet<&str>) -> Result<Vec<(String, String)>> {
    let mut command = cargo();
    command.args(["test", "--release", "--workspace", "--no-run", "--message-format=json"]);
    command.args(files.iter().flat_map(|file| ["--test", file]));
    let lines = output(&mut command)?;
    let folder = root().join("tests/tests");
    lines.lines().filter_map(|line| test_program(line, &folder).transpose()).collect()
}

fn test_program(line: &str, folder: &Path) -> Result<Option<(String, String)>> {
    let message: serde_json::Value = serde_json::from_str(line).context("a message of cargo")?;
    let source = message["target"]["src_path"].as_str().map(Path::new);
    let name = message["target"]["name"].as_str();
    let is_live = source.is_some_and(|source| source.starts_with(folder));
    let program = message["executable"].as_str().filter(|_| is_live);
    Ok(name.zip(program).map(|(name, program)| (name.to_owned(), program.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What no test has in its name would run nothing, and pass.
    #[test]
    fn each_test_of_the_core_is_there() {
        for entry in CORE {
            let (file, parts) = entry.split_once("::").unwrap_or((entry, ""));
            let path = root().join(format!("tests/tests/{file}.rs"));
            let source = std::fs::read_to_string(&path).expect("a live test");
            for part in parts.split_whitespace() {
                assert!(source.contains(&format!("fn {part}")), "{part} in {}", path.display());
            }
        }
    }

    #[test]
    fn a_line_of_shell_is_one_step() {
        let steps = steps("6.12", &["--", "uname", "-r"]).unwrap();
        assert_eq!(steps, [VmStep::shell("command", "uname -r", TEST_LIMIT_S)]);
    }

    #[test]
    fn a_kernel_that_is_too_old_is_only_asked_whether_it_is_refused() {
        assert_eq!(steps("6.1", &[]).unwrap().len(), 1);
    }

    #[test]
    fn each_test_of_a_file_is_a_step_and_unknown_ones_are_refused() {
        let built = [("verbs".to_owned(), "/t/verbs-1".to_owned())];
        let names = |program: &str, filter: &str| {
            let all =
                ["one", "two"].into_iter().filter(|name| program == "/t/verbs-1" && name.contains(filter));
            Ok(all.map(String::from).collect())
        };
        let steps = steps_of("verbs", &built, &names).unwrap();
        assert_eq!(steps.iter().map(|step| &*step.name).collect::<Vec<_>>(), ["verbs::one", "verbs::two"]);
        assert!(steps[1].line.ends_with("/t/verbs-1 --include-ignored --nocapture --exact two"));
        assert_eq!(steps_of("verbs::two", &built, &names).unwrap(), steps[1..]);
        assert!(steps_of("verbs::three", &built, &names).is_err());
        assert!(steps_of("other", &built, &names).is_err());
    }

    #[test]
    fn programs_of_live_tests_are_told_from_others() {
        let line = r#"{"target":{"name":"a","src_path":"/w/tests/tests/a.rs"},"executable":"/t/a-1"}"#;
        let folder = Path::new("/w/tests/tests");
        assert_eq!(test_program(line, folder).unwrap(), Some(("a".into(), "/t/a-1".into())));
        assert_eq!(test_program(&line.replace("/w/tests", "/w/bench"), folder).unwrap(), None);
    }
}
