//! Texts that come again and again, written once.

use rustc_hash::FxHashMap;

use super::format::{InternedData, InternedName};

/// Texts of a sort that have numbers; others are written out wherever they are.
const MOST_TEXTS: usize = 1 << 16;

/// What a text is for: each sort has numbers of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum TextUse {
    EventName,
    AnnotationName,
    AnnotationValue,
}

/// Numbers of texts.
#[derive(Debug, Default)]
pub(super) struct InternedTexts {
    numbers: [FxHashMap<String, u64>; 3],
    /// Those that no packet has told of.
    new: Option<InternedData>,
}

impl InternedTexts {
    /// The number of a text; none: there are too many, and it is written out.
    pub(super) fn number(&mut self, what: TextUse, text: &str) -> Option<u64> {
        let numbers = &mut self.numbers[what as usize];
        if let Some(number) = numbers.get(text) {
            return Some(*number);
        }
        if numbers.len() >= MOST_TEXTS {
            return None;
        }
        let number = numbers.len() as u64 + 1;
        numbers.insert(text.to_owned(), number);
        let new = self.new.get_or_insert_default();
        let texts = match what {
            TextUse::EventName => &mut new.event_names,
            TextUse::AnnotationName => &mut new.debug_annotation_names,
            TextUse::AnnotationValue => &mut new.debug_annotation_string_values,
        };
        texts.push(InternedName { iid: Some(number), name: Some(text.to_owned()) });
        Some(number)
    }

    /// What the next packet has to tell.
    pub(super) fn take_new(&mut self) -> Option<InternedData> {
        self.new.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_once_and_sorts_have_their_own_numbers() {
        let mut texts = InternedTexts::default();
        let send = texts.number(TextUse::EventName, "MPI_Send");
        assert_eq!((send, texts.number(TextUse::EventName, "MPI_Send")), (Some(1), Some(1)));
        assert_eq!(texts.number(TextUse::AnnotationName, "tag"), Some(1));
        let new = texts.take_new().expect("two texts");
        assert_eq!((new.event_names.len(), new.debug_annotation_names.len()), (1, 1));
        assert_eq!(texts.take_new(), None);
    }
}
