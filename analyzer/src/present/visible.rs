//! Names that strangers chose, in text: whatever is in them, it is only ever text.
//!
//! Paths, names of processes, arguments, symbols, hosts and what a tape says are data. Printed as they are they could move the
//! cursor, colour or clear a terminal, begin a line that looks like ours, turn the direction of writing, or hide. Whoever puts
//! such a string into text calls [`visible`]; who prints a sentence of one line that others made calls it on the whole, since
//! what is visible stays as it is. JSON is exact: see [`visible_json`].

use std::borrow::Cow;
use std::fmt::Write;

/// Letters by their class that look like nothing at all.
const BLANK_LETTERS: [char; 6] = ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}', '\u{fffc}'];

/// Whether a character does something to the text around it, or cannot be seen: control characters, line ends, marks of
/// direction, spaces that are none or are not ours, what joins the character before it, and what Unicode has not assigned.
pub fn has_effect(c: char) -> bool {
    // What the standard library does not print in `{:?}` is just that; quotes and backslashes it quotes for another reason.
    !c.is_ascii_graphic() && c != ' ' && (c.escape_debug().len() > 1 || BLANK_LETTERS.contains(&c))
}

/// A string as it may be printed, on one line: characters with an effect as `\n`, `\t`, `\r` or `\u{1b}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(has_effect) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => shown.extend(c.escape_default()),
            c if has_effect(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// One JSON document that is the same to whoever reads JSON, and does nothing to a terminal.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    if !json.contains(has_effect) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if !has_effect(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_shown_as_it_is() {
        for text in [
            "",
            "mpirun -n 4 './a b' \"c\\d\"",
            "/home/żółw/λ/計算.so+0x1f",
            "T f<std::pair<int, U>>(x) [clone]",
        ] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn nothing_moves_the_cursor_or_begins_a_line() {
        let text = visible("a\x1b[2J\x1b]0;title\x07\r\nWARNING\tb\u{9b}31m\x7f\0");
        assert_eq!(text, "a\\u{1b}[2J\\u{1b}]0;title\\u{7}\\r\\nWARNING\\tb\\u{9b}31m\\u{7f}\\u{0}");
    }

    #[test]
    fn nothing_turns_the_direction_of_writing_or_hides() {
        let marks = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        let hidden = "\u{200e}\u{200f}\u{61c}\u{200b}\u{200d}\u{2060}\u{feff}\u{ad}\u{2028}\u{2029}\u{a0}\u{3000}\u{34f}\
                      \u{3164}\u{2800}\u{fe0f}\u{e0041}\u{e000}\u{180e}";
        for c in marks.chain(hidden.chars()) {
            assert_eq!(visible(&c.to_string()), c.escape_unicode().to_string());
        }
    }

    #[test]
    fn what_is_visible_stays_as_it_is() {
        let once = visible("\x1b[1m\\u{1b}\n").into_owned();
        assert_eq!(visible(&once), once);
    }

    #[test]
    fn json_says_the_same_and_does_nothing_to_a_terminal() {
        let hostile = "\u{9b}31m \u{202e}\u{7f} \u{e0041} \"quoted\\\" 計算 \n";
        let json = serde_json::to_string(hostile).expect("a string");
        let shown = visible_json(&json);
        assert!(!shown.contains(has_effect), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), hostile);
    }
}
