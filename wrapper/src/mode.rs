//! What dmscope wants: from the environment.

use std::path::PathBuf;

/// The variable that dmscope sets: `record:FOLDER`, `replay:FOLDER` or `deterministic:FOLDER`, and `,hold` behind it.
const VARIABLE: &str = "DMSCOPE_REPLAY";

/// What is done with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WishedAction {
    Record,
    Replay,
    /// Decide them by logical time.
    Deterministic,
}

/// What to do in this job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub action: WishedAction,
    /// Where files are shared with dmscope.
    pub folder: PathBuf,
    /// Stop a rank that diverges, for a debugger, and do not end it.
    pub holds: bool,
}

/// Nothing is wished outside of dmscope.
pub(crate) fn wish() -> Option<Wish> {
    wish_of(&std::env::var(VARIABLE).ok()?)
}

/// The record from which clocks are played in a rank that runs alone: `clocks:FILE`.
pub(crate) fn clocks_alone() -> Option<PathBuf> {
    std::env::var(VARIABLE).ok()?.strip_prefix("clocks:").map(PathBuf::from)
}

/// What launchers call the rank of a process before it has called MPI_Init.
const RANK_VARIABLES: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];

/// The rank that this process is going to be, if it is told so.
pub(crate) fn early_rank() -> Option<u32> {
    RANK_VARIABLES.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

fn wish_of(text: &str) -> Option<Wish> {
    let (action, rest) = text.split_once(':')?;
    let (folder, holds) = rest.strip_suffix(",hold").map_or((rest, false), |folder| (folder, true));
    let action = match action {
        "record" => WishedAction::Record,
        "replay" => WishedAction::Replay,
        "deterministic" => WishedAction::Deterministic,
        _ => return None,
    };
    Some(Wish { action, folder: folder.into(), holds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_names_what_to_do_and_where() {
        let wish = |action, holds| Some(Wish { action, folder: "/a/b".into(), holds });
        assert_eq!(wish_of("record:/a/b"), wish(WishedAction::Record, false));
        assert_eq!(wish_of("replay:/a/b,hold"), wish(WishedAction::Replay, true));
        assert_eq!(wish_of("deterministic:/a/b"), wish(WishedAction::Deterministic, false));
        assert_eq!(wish_of("play:/a/b"), None);
        assert_eq!(wish_of(""), None);
    }
}
