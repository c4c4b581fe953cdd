//! The command that starts a job: whether it is there, and how a shell takes it.

use std::path::Path;

use analyzer::visible::visible;
use anyhow::{Context, Result, bail};

use crate::host::launched::{found_program, is_program, search_path};

/// Fails if there is no such program: before anything is made or written for it.
pub(super) fn check_command(command: &[String]) -> Result<()> {
    let Some(program) = command.first() else { bail!("no command is given") };
    if found_program(program, &search_path(), is_program).is_some() {
        return Ok(());
    }
    if !program.contains('/') {
        bail!("cannot run {program}: no folder of PATH has a program of that name");
    }
    Path::new(program).metadata().with_context(|| format!("cannot run {program}"))?;
    bail!("cannot run {program}: permission denied, or it is no program")
}

/// Words as a shell takes them.
pub(super) fn quoted<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let is_plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c))
    };
    let quote = |word: &str| match is_plain(word) {
        true => word.to_owned(),
        false => format!("'{}'", visible(word).replace('\'', "'\\''")),
    };
    words.into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(program: &str) -> String {
        let refused = check_command(&[program.to_owned()]).err();
        refused.map(|error| format!("{error:#}")).unwrap_or_default()
    }

    #[test]
    fn a_program_is_there_or_it_is_said_why_not() {
        assert_eq!((refused("sh"), refused("/bin/sh")), (String::new(), String::new()));
        assert!(refused("./nosuch").contains("No such file"));
        assert!(refused("no-such-program").contains("PATH"));
        assert!(refused("/etc/passwd").contains("permission denied"));
        assert!(check_command(&[]).is_err());
    }

    #[test]
    fn a_shell_gets_the_words_that_there_were() {
        assert_eq!(quoted(["mpirun", "-n", "2", "./app"]), "mpirun -n 2 ./app");
        assert_eq!(quoted(["a b", "", "it's", "$HOME"]), r"'a b' '' 'it'\''s' '$HOME'");
    }
}
