//! The kernel may run a program of a uprobe, preempt it, and run it again for another task on the same processor.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn each_program_of_a_uprobe_keeps_its_frame_on_the_stack_of_its_task() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bpf");
    let mut programs = 0;
    for path in files_below(&folder) {
        let text = fs::read_to_string(path).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(kind) =
                line.strip_prefix("SEC(\"uprobe.").or_else(|| line.strip_prefix("SEC(\"uretprobe."))
            else {
                continue;
            };
            let kind = kind.trim_end_matches("\")");
            let expected = format!("\tKEEP_FRAME_OF_TASK(ctx, {kind});");
            assert_eq!(lines.get(at + 3), Some(&expected.as_str()), "{:?}", lines.get(at + 1));
            programs += 1;
        }
    }
    assert!(programs > 20, "{programs}");
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the programs").map(|entry| entry.expect("a file").path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
