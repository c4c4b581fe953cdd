//! Rust source as words and signs: enough to see paths, items and blocks, without parsing the language.

/// A word, a `::`, a single sign, or a literal (whose text is only its first quote).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// As written, without the `r#` of raw identifiers.
    pub text: &'a str,
    /// Line it begins on, from 1.
    pub line: usize,
    /// Line it ends on.
    pub end_line: usize,
}

impl Token<'_> {
    /// An identifier or a keyword.
    pub fn is_word(&self) -> bool {
        self.text.starts_with(is_word_start)
    }
}

/// What is not in quotes, in order; comments are left out. Source that does not compile gives some tokens too.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut reader = SourceReader { source, position: 0, line: 1 };
    let mut all = Vec::new();
    while let Some(token) = reader.next_token() {
        all.push(token);
    }
    all
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct SourceReader<'a> {
    source: &'a str,
    position: usize,
    line: usize,
}

impl<'a> SourceReader<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.position..]
    }

    fn skip(&mut self, bytes: usize) -> &'a str {
        let taken = &self.rest()[..bytes];
        self.line += taken.matches('\n').count();
        self.position += bytes;
        taken
    }

    /// Bytes before the first character for which `ends` holds.
    fn length_until(&self, ends: impl Fn(char) -> bool) -> usize {
        self.rest().find(ends).unwrap_or(self.rest().len())
    }

    fn next_token(&mut self) -> Option<Token<'a>> {
        self.skip_space_and_comments();
        let first = self.rest().chars().next()?;
        let line = self.line;
        let text = if let Some(quote) = self.literal_start() {
            self.skip_literal(quote);
            "\""
        } else if is_word_start(first) {
            if self.rest().starts_with("r#") {
                self.skip(2);
            }
            self.skip(self.length_until(|c| !is_word(c)))
        } else if first.is_ascii_digit() {
            self.skip(self.length_until(|c| !is_word(c)))
        } else if self.rest().starts_with("::") {
            self.skip(2)
        } else if first == '\'' {
            self.skip_lifetime_or_character()
        } else {
            self.skip(first.len_utf8())
        };
        Some(Token { text, line, end_line: self.line })
    }

    fn skip_space_and_comments(&mut self) {
        loop {
            let rest = self.rest();
            if rest.starts_with(char::is_whitespace) {
                self.skip(self.length_until(|c| !c.is_whitespace()));
            } else if rest.starts_with("//") {
                self.skip(self.length_until(|c| c == '\n'));
            } else if rest.starts_with("/*") {
                self.skip_block_comment();
            } else {
                return;
            }
        }
    }

    /// Block comments may be inside each other.
    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        while !self.rest().is_empty() {
            if self.rest().starts_with("/*") {
                depth += 1;
                self.skip(2);
            } else if self.rest().starts_with("*/") {
                depth -= 1;
                self.skip(2);
            } else {
                self.skip(self.rest().chars().next().map_or(0, char::len_utf8));
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// The kind of string that begins here: bytes before its opening quote's end, and how it is closed.
    fn literal_start(&self) -> Option<Quote> {
        let rest = self.rest();
        let prefix = rest.find(|c: char| !"brc".contains(c)).unwrap_or(rest.len());
        let after = &rest[prefix..];
        let is_raw = rest[..prefix].contains('r');
        let hashes = if is_raw { after.len() - after.trim_start_matches('#').len() } else { 0 };
        if prefix <= 2 && after[hashes..].starts_with('"') {
            return Some(Quote { open_bytes: prefix + hashes + 1, hashes, is_raw });
        }
        None
    }

    fn skip_literal(&mut self, quote: Quote) {
        self.skip(quote.open_bytes);
        let close = format!("\"{}", "#".repeat(quote.hashes));
        while !self.rest().is_empty() {
            if self.rest().starts_with(&close) {
                self.skip(close.len());
                return;
            }
            let escaped = !quote.is_raw && self.rest().starts_with('\\');
            if escaped {
                self.skip(1);
            }
            self.skip(self.rest().chars().next().map_or(0, char::len_utf8));
        }
    }

    /// `'a` or `'a'`: a lifetime has no quote after its first character.
    fn skip_lifetime_or_character(&mut self) -> &'a str {
        self.skip(1);
        let mut characters = self.rest().chars();
        let first = characters.next();
        if first == Some('\\') {
            self.skip(1);
            self.skip(self.rest().chars().next().map_or(0, char::len_utf8));
            self.skip(self.length_until(|c| c == '\''));
            self.skip(self.rest().len().min(1));
        } else if characters.next() == Some('\'') {
            self.skip(first.map_or(0, char::len_utf8) + 1);
        } else {
            self.skip(self.length_until(|c| !is_word(c)));
        }
        "'"
    }
}

#[derive(Clone, Copy)]
struct Quote {
    open_bytes: usize,
    hashes: usize,
    is_raw: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_what_is_quoted_are_no_words() {
        let source =
            "a // b\n/* c /* d */ e */ f \"g\\\" h\" r#\"i \" j\"# b\"k\" 'l' '\\'' '\\u{1F600}' b'm' n";
        assert_eq!(texts(source), ["a", "f", "\"", "\"", "\"", "'", "'", "'", "b", "'", "n"]);
    }

    #[test]
    fn lifetimes_are_told_from_characters() {
        assert_eq!(
            texts("fn f<'a>(x: &'a str) -> 'b'"),
            ["fn", "f", "<", "'", ">", "(", "x", ":", "&", "'", "str", ")", "-", ">", "'"]
        );
    }

    #[test]
    fn a_raw_string_ends_at_its_quote_whatever_is_before_it() {
        assert_eq!(texts(r##"r"\" a r#"\"# b"##), ["\"", "a", "\"", "b"]);
    }

    #[test]
    fn paths_keep_their_separators_and_raw_words_lose_their_mark() {
        assert_eq!(texts("crate::r#type::<T>"), ["crate", "::", "type", "::", "<", "T", ">"]);
    }

    #[test]
    fn lines_go_on_through_comments_and_strings() {
        let all = tokens("a /* \n */ b \"\n\n\" c");
        let lines: Vec<_> = all.iter().map(|token| (token.text, token.line, token.end_line)).collect();
        assert_eq!(lines, [("a", 1, 1), ("b", 2, 2), ("\"", 2, 4), ("c", 4, 4)]);
    }

    #[test]
    fn source_that_ends_in_the_middle_of_something_ends() {
        for source in ["/* a", "\"a", "r#\"a", "'", "'\\", "b'", "\"\\"] {
            tokens(source);
        }
    }
}
