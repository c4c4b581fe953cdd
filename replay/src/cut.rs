//! A record that is played in part, and then left for another way.

use std::collections::BTreeMap;
use std::fmt::Write;

/// How one rank's record is played.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankCut {
    /// So many calls; none: all.
    pub calls: Option<u64>,
    /// Another answer, at one call.
    pub detour: Option<Detour>,
    /// Posted receives from anybody, by number, that get the message of this rank of their communicator in place of what is recorded; none:
    /// of anybody.
    pub posts: BTreeMap<u64, Option<u32>>,
}

/// Another answer than the recorded one: a source, or an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour {
    /// At this call of the rank, from 1.
    pub call: u64,
    /// What it answers.
    pub value: u32,
}

impl RankCut {
    /// As lines of words.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Nothing that is written into memory fails.
        if let Some(calls) = self.calls {
            let _ = writeln!(text, "calls {calls}");
        }
        if let Some(Detour { call, value }) = self.detour {
            let _ = writeln!(text, "answer {call} {value}");
        }
        for (post, source) in &self.posts {
            let _ = match source {
                Some(source) => writeln!(text, "post {post} {source}"),
                None => writeln!(text, "free {post}"),
            };
        }
        text
    }

    /// Reads such lines; none if they are no such lines.
    pub fn of_text(text: &str) -> Option<Self> {
        let mut cut = Self::default();
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["calls", calls] => cut.calls = Some(calls.parse().ok()?),
                ["answer", call, value] => {
                    cut.detour = Some(Detour { call: call.parse().ok()?, value: value.parse().ok()? });
                }
                ["post", post, source] => {
                    cut.posts.insert(post.parse().ok()?, Some(source.parse().ok()?));
                }
                ["free", post] => _ = cut.posts.insert(post.parse().ok()?, None),
                _ => return None,
            }
        }
        Some(cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_comes_back_from_its_text() {
        let cut = RankCut {
            calls: Some(16),
            detour: Some(Detour { call: 17, value: 2 }),
            posts: [(3, None), (4, Some(1))].into(),
        };
        assert_eq!(RankCut::of_text(&cut.to_text()), Some(cut));
        assert_eq!(RankCut::of_text(""), Some(RankCut::default()));
        assert_eq!(RankCut::of_text("calls x"), None);
    }
}
