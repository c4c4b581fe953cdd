//! Text of a job's on a page: whatever it is, it is only ever text.

use std::fmt::Write;

use analyzer::visible::{has_effect, visible};

/// For HTML, between tags and in quoted attributes. Control characters, and those that turn the direction
/// of writing, are shown and have no effect.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if has_effect(c) => out.push_str(&visible(c.encode_utf8(&mut [0; 4]))),
            c => out.push(c),
        }
    }
    out
}

/// JSON, for a script element: nothing in it ends the element, or begins a comment in it.
pub fn json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_a_tag_or_ends_an_attribute() {
        let text = html("</script><b title='x' y=\"z\">&amp;\u{202e}\0");
        assert_eq!(
            text,
            "&lt;/script&gt;&lt;b title=&#39;x&#39; y=&quot;z&quot;&gt;&amp;amp;\\u{202e}\\u{0}"
        );
    }

    #[test]
    fn json_in_a_script_is_the_same_json_and_has_no_tag() {
        let hostile = "</script><!--<script>&\u{2028}\\\"";
        let escaped = json(&serde_json::to_string(hostile).expect("a string"));
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}']), "{escaped}");
        assert_eq!(serde_json::from_str::<String>(&escaped).expect("JSON"), hostile);
    }
}
