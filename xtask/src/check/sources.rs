//! The rules of the source tree, held against the files: rooms and their order, circles, names of types.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::circles;
use super::imports::{CrateTree, SourceFile};
use super::rooms;
use super::types::Types;
use crate::process::root;

/// A crate and the rules that it holds to.
struct CrateRules {
    /// Its folder.
    folder: &'static str,
    /// Name of its library in its own binary.
    library: &'static str,
    /// Rooms; later ones may use earlier ones. Empty: any order.
    order: &'static [&'static str],
    held: HeldRules,
}

/// Rules that are errors when broken. The others are counted, and told as a warning.
struct HeldRules {
    order: bool,
    circles: bool,
    rooms: bool,
    types: bool,
}

/// Every rule.
const ALL_HELD: HeldRules = HeldRules { order: true, circles: true, rooms: true, types: true };

/// All crates of the workspace.
const CRATES: &[CrateRules] = &[
    CrateRules {
        folder: "analyzer",
        library: "analyzer",
        order: &[
            "tape",
            "mpi",
            "job",
            "options",
            "chains",
            "findings",
            "invariants",
            "hang",
            "errors",
            "timeline",
            "present",
            "pipeline",
        ],
        held: ALL_HELD,
    },
    CrateRules {
        folder: "tracer-user",
        library: "dmscope",
        order: &[
            "elf",
            "plan",
            "host",
            "budget",
            "mpi_runtime",
            "stacks",
            "kernel",
            "session",
            "sink",
            "page",
            "cluster",
            "cli",
        ],
        held: ALL_HELD,
    },
    CrateRules { folder: "tracer-ebpf", library: "tracer_ebpf", order: &[], held: ALL_HELD },
    CrateRules { folder: "injector", library: "injector", order: &[], held: ALL_HELD },
    CrateRules { folder: "replay", library: "replay", order: &[], held: ALL_HELD },
    CrateRules { folder: "wrapper", library: "dmscope_wrapper", order: &[], held: ALL_HELD },
    CrateRules { folder: "xtask", library: "xtask", order: &[], held: ALL_HELD },
    CrateRules { folder: "tests", library: "live", order: &[], held: ALL_HELD },
    CrateRules { folder: "bench", library: "bench", order: &[], held: ALL_HELD },
];

/// What was found of one rule in one crate.
#[derive(Debug, PartialEq)]
struct RuleOutcome {
    rule: &'static str,
    folder: &'static str,
    is_held: bool,
    messages: Vec<String>,
}

/// How much is told of rules that are not held yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// How often each is broken.
    Counts,
    /// Each place.
    Places,
}

/// Fails if a rule that is held is broken.
pub fn check(detail: Detail) -> Result<()> {
    let outcomes = outcomes(&root(), CRATES)?;
    let broken: Vec<&RuleOutcome> = outcomes.iter().filter(|one| !one.messages.is_empty()).collect();
    for outcome in &broken {
        let weight = if outcome.is_held { "error" } else { "warning (not held yet)" };
        eprintln!("{weight}: {}: {}: {}", outcome.folder, outcome.rule, outcome.messages.len());
        if outcome.is_held || detail == Detail::Places {
            outcome.messages.iter().for_each(|message| eprintln!("  {message}"));
        }
    }
    if is_error(&outcomes) {
        bail!("the source tree breaks its rules");
    }
    Ok(())
}

/// Prints what there is, a line for each crate.
pub fn print_counts() -> Result<()> {
    for rules in CRATES {
        let tree = tree(&root(), rules)?;
        let sum = |count: fn(&super::scan::Scan) -> usize| -> usize {
            tree.files.iter().map(|file| count(&file.scan)).sum()
        };
        let is_type = |item: &&super::scan::DeclaredItem| item.kind == super::scan::ItemKind::Type;
        let types: usize = tree.files.iter().map(|file| file.scan.items.iter().filter(is_type).count()).sum();
        println!(
            "{}: {} files, {} lines of code, {} functions, {types} types, {} files in circles",
            rules.folder,
            tree.files.len(),
            sum(|scan| scan.code_lines),
            sum(|scan| scan.functions),
            circles::groups(&tree).iter().map(Vec::len).sum::<usize>(),
        );
    }
    Ok(())
}

fn is_error(outcomes: &[RuleOutcome]) -> bool {
    outcomes.iter().any(|outcome| outcome.is_held && !outcome.messages.is_empty())
}

fn outcomes(root: &Path, crates: &[CrateRules]) -> Result<Vec<RuleOutcome>> {
    let mut all = Vec::new();
    let mut types = Types::default();
    for rules in crates {
        let tree = tree(root, rules)?;
        let outcome = |rule, is_held, messages| RuleOutcome { rule, folder: rules.folder, is_held, messages };
        if !rules.order.is_empty() {
            let against = rooms::against_order(&tree, rules.order);
            all.push(outcome("uses against the order of rooms", rules.held.order, against));
            all.push(outcome("too many rooms", rules.held.rooms, rooms::too_many(&tree)));
        }
        all.push(outcome("circles of files", rules.held.circles, circles::circles(&tree)));
        for (index, file) in tree.files.iter().enumerate() {
            types.add(&tree.path(index), &file.scan, rules.held.types);
        }
    }
    for is_held in [true, false] {
        let repeated = types.repeated().into_iter().filter(|(_, is_error)| *is_error == is_held);
        let messages = repeated.map(|(message, _)| message).collect();
        all.push(RuleOutcome { rule: "names of more than one type", folder: "workspace", is_held, messages });
    }
    Ok(all)
}

fn tree(root: &Path, rules: &CrateRules) -> Result<CrateTree> {
    let folder = root.join(rules.folder).join("src");
    let mut sources = Vec::new();
    collect(&folder, "", &mut sources)?;
    sources.sort();
    Ok(CrateTree::new(&sources, rules.library, &format!("{}/src/", rules.folder)))
}

fn collect(folder: &Path, below: &str, sources: &mut Vec<SourceFile>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().context("a file name that is not UTF-8")?;
        let path = entry.path();
        if path.is_dir() {
            collect(&path, &format!("{below}{name}/"), sources)?;
        } else if name.ends_with(".rs") {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            sources.push((format!("{below}{name}"), text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_YET: HeldRules = HeldRules { order: false, circles: false, rooms: false, types: false };

    #[test]
    fn the_source_tree_holds_to_the_rules_that_are_held() {
        let outcomes = outcomes(&root(), CRATES).unwrap();
        assert!(!is_error(&outcomes), "{outcomes:#?}");
    }

    /// Two rooms that use each other and a name of two types, in files.
    fn outcomes_of_made_up_crate(held: HeldRules) -> Vec<RuleOutcome> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("xtask-sources-{}-{number}", std::process::id()));
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod c; pub struct A;"),
            ("a/c.rs", "use crate::b::B; struct Twice;"),
            ("b.rs", "use crate::a::A; pub struct B; struct Twice;"),
        ];
        for (path, text) in files {
            let path = folder.join("made_up/src").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let rules = CrateRules { folder: "made_up", library: "made_up", order: &["a", "b"], held };
        let outcomes = outcomes(&folder, &[rules]).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        outcomes
    }

    #[test]
    fn a_rule_that_is_not_held_yet_is_counted_and_is_no_error() {
        let outcomes = outcomes_of_made_up_crate(NOT_YET);
        assert!(!is_error(&outcomes));
        let broken = outcomes.iter().flat_map(|outcome| &outcome.messages);
        assert_eq!(
            broken.cloned().collect::<Vec<_>>(),
            [
                "made_up/src/a/c.rs:1 uses `crate::b::B` (made_up/src/b.rs): `a` comes before `b`, and may only use what comes before itself",
                "type `Twice` is defined 2 times: made_up/src/a/c.rs:1, made_up/src/b.rs:1",
            ]
        );
    }

    #[test]
    fn each_rule_is_an_error_by_its_own_switch() {
        assert!(is_error(&outcomes_of_made_up_crate(HeldRules { order: true, ..NOT_YET })));
        assert!(is_error(&outcomes_of_made_up_crate(HeldRules { types: true, ..NOT_YET })));
        assert!(!is_error(&outcomes_of_made_up_crate(HeldRules { circles: true, rooms: true, ..NOT_YET })));
    }

    #[test]
    fn every_crate_of_the_workspace_has_rules() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let members = manifest.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
        let members: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
        let folders: Vec<&str> = CRATES.iter().map(|rules| rules.folder).collect();
        assert!(members.iter().all(|member| folders.contains(member)), "{members:?} {folders:?}");
    }

    #[test]
    fn an_order_that_is_named_has_no_room_twice_and_not_too_many() {
        for rules in CRATES {
            let mut order = rules.order.to_vec();
            order.sort_unstable();
            order.dedup();
            assert_eq!(order.len(), rules.order.len(), "{}", rules.folder);
            assert!(order.len() <= rooms::MAX_ROOMS, "{}", rules.folder);
        }
    }
}
