//! Subjects: words with dots between them.

/// A text as one word of a subject: what cannot be in one is written as its bytes.
pub fn token(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => word.push(char::from(byte)),
            other => word.push_str(&format!("%{other:02x}")),
        }
    }
    // No word is empty.
    if word.is_empty() { "%".to_owned() } else { word }
}

/// The text that a word stands for; `None`: it stands for none.
pub fn untoken(word: &str) -> Option<String> {
    if word == "%" {
        return Some(String::new());
    }
    let mut parts = word.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(part.get(2..)?.as_bytes());
    }
    let text = String::from_utf8(bytes).ok()?;
    // Each text has one word.
    (token(&text) == word).then_some(text)
}

/// Whether a subject is of a form: `*` stands for one word, `>` for one or more at the end.
pub fn matches(form: &str, subject: &str) -> bool {
    let (mut form, mut subject) = (form.split('.'), subject.split('.'));
    loop {
        match (form.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(word), Some(other)) if word == other => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_words() {
        for (form, subject) in [("a.b", "a.b"), ("a.*", "a.b"), ("*.b", "a.b"), ("a.>", "a.b.c"), (">", "a")]
        {
            assert!(matches(form, subject), "{form} {subject}");
        }
        for (form, subject) in [("a.b", "a"), ("a", "a.b"), ("a.*", "a.b.c"), ("a.>", "a"), ("a.*", "b.c")] {
            assert!(!matches(form, subject), "{form} {subject}");
        }
    }

    #[test]
    fn any_text_is_one_word_and_no_two_texts_are_the_same_word() {
        assert_eq!(token("alice"), "alice");
        assert_eq!(token("a.b"), "a%2eb");
        let odd = ["a.b", "a*", ">", "a b", "a%2eb", "", "%", "ä", "\n"];
        let words: std::collections::BTreeSet<String> = odd.iter().map(|text| token(text)).collect();
        assert_eq!(words.len(), odd.len(), "{words:?}");
        let back: Vec<Option<String>> = odd.iter().map(|text| untoken(&token(text))).collect();
        assert_eq!(back, odd.map(|text| Some(text.to_owned())));
        for none in ["%zz", "%2", "%61", "a.b", "%ff"] {
            assert_eq!(untoken(none), None, "{none}");
        }
        let is_word = |word: &String| !word.is_empty() && !word.contains(['.', '*', '>', ' ', '\n']);
        assert!(words.iter().all(is_word));
    }
}
