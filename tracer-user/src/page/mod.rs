//! A page about a job: one HTML file that needs nothing else, neither a network nor another file.
//!
//! Words are written here, so that they are there without scripts; the timeline and the graph are drawn by the
//! page's own scripts from the same data as JSON. The page's policy allows just these scripts and styles.

mod escape;
mod races;
mod sections;

use analyzer::page::Page;
use analyzer::visible::visible_json;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

pub use races::{DrawnRace, RacesPage, races_html};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// One after the other they are one script.
const SCRIPTS: [&str; 7] = [
    include_str!("text.js"),
    include_str!("model.js"),
    include_str!("chart.js"),
    include_str!("timeline.js"),
    include_str!("details.js"),
    include_str!("waits.js"),
    include_str!("main.js"),
];

/// The page as HTML.
///
/// # Errors
/// Its data cannot be written as JSON.
pub fn html(page: &Page) -> serde_json::Result<String> {
    let script = SCRIPTS.join("\n");
    let data = escape::json(&visible_json(&serde_json::to_string(page)?));
    let value = |name: &str| match name {
        "policy" => policy(&script, STYLE),
        "title" => escape::html(&sections::title(page)),
        "style" => STYLE.to_owned(),
        "verdict" => sections::verdict(page),
        "waits_hidden" => if page.groups.is_empty() { "hidden" } else { "" }.to_owned(),
        "groups" => sections::groups(page),
        "findings" => sections::findings(page),
        "basis" => sections::basis(page),
        "footer" => sections::footer(page),
        "data" => data.clone(),
        "script" => script.clone(),
        _ => String::new(),
    };
    Ok(filled(TEMPLATE, value))
}

/// Puts values in the place of names. What a value has in it is not looked at again.
fn filled(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, (name, after))) =
        rest.split_once("{{").and_then(|(before, behind)| Some((before, behind.split_once("}}")?)))
    {
        out.push_str(before);
        out.push_str(&value(name));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Nothing is loaded; only this script and this style count.
fn policy(script: &str, style: &str) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(script),
        hash(style)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_taken_for_templates() {
        let value = |name: &str| format!("<{name}{{{{b}}}}>");
        assert_eq!(filled("x{{a}}y{{b}}z{{", value), "x<a{{b}}>y<b{{b}}>z{{");
    }

    #[test]
    fn every_name_of_the_template_has_a_value() {
        let known = [
            "policy",
            "title",
            "style",
            "verdict",
            "waits_hidden",
            "groups",
            "findings",
            "basis",
            "footer",
            "data",
            "script",
        ];
        filled(TEMPLATE, |name| {
            assert!(known.contains(&name), "{name}");
            String::new()
        });
    }

    #[test]
    fn our_own_script_does_not_end_its_element() {
        assert!(!SCRIPTS.join("\n").contains("</script"));
        assert!(!STYLE.contains("</style"));
    }
}
