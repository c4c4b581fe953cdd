//! `dmscope man`: all commands with their options on one page, since no other page is printed.

use std::io::Result;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::args::Cli;

/// The page, as troff.
///
/// # Errors
/// None: memory takes all.
pub(super) fn page() -> Result<String> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let man = Man::new(program.clone());
    let mut begin = Vec::new();
    man.render_title(&mut begin)?;
    man.render_name_section(&mut begin)?;
    man.render_synopsis_section(&mut begin)?;
    man.render_description_section(&mut begin)?;
    man.render_options_section(&mut begin)?;
    man.render_extra_section(&mut begin)?;
    let mut page = text(&begin);
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        page.push_str(&section(command)?);
    }
    let mut end = Vec::new();
    man.render_version_section(&mut end)?;
    page.push_str(&text(&end));
    Ok(page)
}

/// A command; its headings are below its own.
fn section(command: &Command) -> Result<String> {
    let man = Man::new(command.clone());
    let mut parts = Vec::new();
    man.render_description_section(&mut parts)?;
    man.render_synopsis_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    if command.get_after_help().is_some() {
        man.render_extra_section(&mut parts)?;
    }
    Ok(format!(".SH \"dmscope {}\"\n{}", command.get_name(), text(&parts).replace("\n.SH ", "\n.SS ")))
}

fn text(part: &[u8]) -> String {
    String::from_utf8_lossy(part).replace("\n.SH EXTRA\n", "\n.SH NOTES\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_commands_are_on_the_page_with_their_options_and_no_other_page_is_named() {
        let page = page().expect("memory takes all");
        let sections: Vec<&str> = page.split("\n.SH ").collect();
        let of = |name: &str| {
            let heading = format!("\"dmscope {name}\"\n");
            sections.iter().find(|section| section.starts_with(&heading)).copied().unwrap_or_default()
        };
        for command in Cli::command().get_subcommands() {
            assert_eq!(of(command.get_name()).is_empty(), command.is_hide_set(), "{}", command.get_name());
        }
        for (command, option) in [("attach", "ring\\-size"), ("times", "most\\-cost"), ("record", "payloads")]
        {
            assert!(of(command).contains(option), "{command}: {}", of(command));
        }
        assert!(of("attach").contains("\n.SS NOTES\n") && of("attach").contains("Exit status"));
        assert!(!page.contains("attach(1)"), "{page}");
    }
}
