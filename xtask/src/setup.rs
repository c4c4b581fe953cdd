//! `cargo xtask setup`: installs what is missing, or says how to.

use std::collections::HashSet;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::USAGE_OR_ENVIRONMENT;
use crate::packages::{PACKAGES, Package};
use crate::process::{output, run as run_command};
use crate::python;

/// What there is to find out about the machine before anything is decided.
struct MachineFacts {
    has_apt: bool,
    is_root: bool,
    has_sudo: bool,
    missing: Vec<&'static Package>,
}

/// What to do about it.
#[derive(Debug, PartialEq)]
enum SetupPlan {
    Nothing,
    Install { with_sudo: bool },
    AskForRights,
    NameNeeds,
}

/// Installs the packages that building and running jobs need. Exit status 2 if that is not possible from here.
pub fn run() -> Result<ExitCode> {
    install(PACKAGES)
}

/// The same, and what only tests need.
pub fn run_for_tests() -> Result<ExitCode> {
    let installed = run()?;
    if installed == ExitCode::SUCCESS {
        python::install()?;
    }
    Ok(installed)
}

/// Installs those of the packages that are missing. Exit status 2 if that is not possible from here.
pub fn install(packages: &'static [Package]) -> Result<ExitCode> {
    let facts = gather(packages)?;
    for package in &facts.missing {
        eprintln!("missing: {:<20} {}", package.name, package.reason);
    }
    match plan(&facts) {
        SetupPlan::Nothing => eprintln!("setup: all {} packages are installed", packages.len()),
        SetupPlan::Install { with_sudo } => apt_install(&facts.missing, with_sudo)?,
        SetupPlan::AskForRights => {
            eprintln!("setup: this needs root; run\n\n    sudo sh -c '{}'\n", shell_line(&facts.missing));
            return Ok(ExitCode::from(USAGE_OR_ENVIRONMENT));
        }
        SetupPlan::NameNeeds => {
            eprintln!(
                "setup: this system has no apt-get; install the equivalents of the Debian packages named above"
            );
            return Ok(ExitCode::from(USAGE_OR_ENVIRONMENT));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(facts: &MachineFacts) -> SetupPlan {
    if facts.missing.is_empty() {
        SetupPlan::Nothing
    } else if !facts.has_apt {
        SetupPlan::NameNeeds
    } else if facts.is_root {
        SetupPlan::Install { with_sudo: false }
    } else if facts.has_sudo {
        SetupPlan::Install { with_sudo: true }
    } else {
        SetupPlan::AskForRights
    }
}

fn gather(packages: &'static [Package]) -> Result<MachineFacts> {
    let has_apt = succeeds("apt-get", &["--version"]) && succeeds("dpkg-query", &["--version"]);
    let installed = if has_apt { installed_packages(packages)? } else { HashSet::new() };
    let missing: Vec<_> = packages.iter().filter(|package| !installed.contains(package.name)).collect();
    let is_root = output(Command::new("id").arg("-u"))?.trim() == "0";
    let has_sudo = !is_root && !missing.is_empty() && succeeds("sudo", &["-n", "true"]);
    Ok(MachineFacts { has_apt, is_root, has_sudo, missing })
}

/// True if the program can be started and ends well.
fn succeeds(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn installed_packages(packages: &[Package]) -> Result<HashSet<String>> {
    // dpkg-query ends with 1 if one of the names is unknown, and still reports all others.
    let query = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${db:Status-Status} ${Package}\n"])
        .args(packages.iter().map(|package| package.name))
        .output()
        .context("cannot start dpkg-query")?;
    Ok(parse_installed(&String::from_utf8_lossy(&query.stdout)))
}

fn parse_installed(listing: &str) -> HashSet<String> {
    listing.lines().filter_map(|line| line.strip_prefix("installed ")).map(str::to_owned).collect()
}

fn apt_install(missing: &[&Package], with_sudo: bool) -> Result<()> {
    run_command(apt_get(with_sudo).args(["update", "-q"]))?;
    run_command(apt_get(with_sudo).args(INSTALL).args(missing.iter().map(|package| package.name)))
}

const INSTALL: [&str; 4] = ["install", "-y", "-q", "--no-install-recommends"];
/// A mirror that does not answer, or another program that installs something, ends in an error.
const PATIENCE: [&str; 6] =
    ["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::http::Timeout=60", "-o", "Acquire::Retries=3"];

fn apt_get(with_sudo: bool) -> Command {
    // `env` sets the variable behind sudo as well, which may drop the caller's environment.
    let mut command = Command::new(if with_sudo { "sudo" } else { "env" });
    command.args(if with_sudo { &["-n", "env"][..] } else { &[] });
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(PATIENCE);
    command
}

fn shell_line(missing: &[&Package]) -> String {
    let names: Vec<_> = missing.iter().map(|package| package.name).collect();
    format!("apt-get update && apt-get {} {}", INSTALL.join(" "), names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(missing: &'static [Package]) -> MachineFacts {
        MachineFacts { has_apt: true, is_root: false, has_sudo: false, missing: missing.iter().collect() }
    }

    #[test]
    fn nothing_is_done_where_nothing_is_missing() {
        assert_eq!(plan(&MachineFacts { has_apt: false, ..facts(&[]) }), SetupPlan::Nothing);
    }

    #[test]
    fn root_installs_by_itself_and_others_with_sudo_if_it_asks_no_password() {
        assert_eq!(
            plan(&MachineFacts { is_root: true, ..facts(PACKAGES) }),
            SetupPlan::Install { with_sudo: false }
        );
        assert_eq!(
            plan(&MachineFacts { has_sudo: true, ..facts(PACKAGES) }),
            SetupPlan::Install { with_sudo: true }
        );
    }

    #[test]
    fn without_rights_or_without_apt_the_needs_are_named() {
        assert_eq!(plan(&facts(PACKAGES)), SetupPlan::AskForRights);
        assert_eq!(
            plan(&MachineFacts { has_apt: false, is_root: true, ..facts(PACKAGES) }),
            SetupPlan::NameNeeds
        );
    }

    #[test]
    fn a_package_that_was_removed_but_left_its_configuration_is_missing() {
        let installed = parse_installed("installed make\nconfig-files hpcc\n");
        assert!(installed.contains("make") && !installed.contains("hpcc"));
    }

    #[test]
    fn the_printed_command_names_each_package_once() {
        let line = shell_line(&PACKAGES.iter().collect::<Vec<_>>());
        for package in PACKAGES {
            assert_eq!(line.split(' ').filter(|word| *word == package.name).count(), 1, "{}", package.name);
        }
    }
}
