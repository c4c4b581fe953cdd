//! The machine code of the jobs is what the tracer's tests take it for.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use live::MpiImplementation;
use live::build::jobs_for;

fn disassemble(file: &Path) -> Result<String> {
    tool("objdump", &["-d", "--no-show-raw-insn"], file)
}

fn tool(program: &str, args: &[&str], file: &Path) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .arg(file)
        .output()
        .with_context(|| format!("{program} is missing"))?;
    ensure!(
        output.status.success(),
        "{program} {}: {}",
        file.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// How many instructions go to a function, as `call` or as `jmp`.
fn branches(code: &str, instruction: &str, function: &str) -> usize {
    let target = format!("<{function}@plt>");
    let is_branch = |line: &&str| line.contains(&format!("\t{instruction} ")) && line.ends_with(&target);
    code.lines().filter(is_branch).count()
}

#[test]
fn every_counted_copy_is_one_call_of_memcpy() -> Result<()> {
    for library in MpiImplementation::ALL {
        let copies = [
            ("libmsg_figure2.so", 2),
            ("libmsg_headercache.so", 2),
            ("libmsg_retrystorm.so", 3),
            ("figure2_static", 2),
        ];
        for (file, count) in copies {
            let code = disassemble(&jobs_for(library)?.join(file))?;
            assert_eq!(branches(&code, "call", "memcpy"), count, "{file}");
            assert_eq!(branches(&code, "jmp", "memcpy"), 0, "{file}");
            assert!(!code.contains("rep movs"), "{file}");
        }
    }
    Ok(())
}

#[test]
fn the_library_of_counts_has_every_form_of_a_copy_once() -> Result<()> {
    let code = disassemble(&jobs_for(MpiImplementation::OpenMpi)?.join("libcounts.so"))?;
    assert_eq!(branches(&code, "call", "memcpy"), 3);
    assert_eq!(branches(&code, "jmp", "memcpy"), 1);
    assert_eq!(branches(&code, "call", "memmove"), 1);
    assert_eq!(branches(&code, "call", "mempcpy"), 1);
    Ok(())
}

#[test]
fn libraries_have_debug_lines_and_their_stripped_copies_have_no_symbols() -> Result<()> {
    let folder = jobs_for(MpiImplementation::OpenMpi)?;
    let sections = |file: &str| tool("objdump", &["-h"], &folder.join(file));
    assert!(sections("libmsg_figure2.so")?.contains(".debug_line"));
    assert!(!sections("stripped/libmsg_figure2.so")?.contains(".debug_line"));
    let symbols = tool("objdump", &["-t"], &folder.join("stripped/figure2"))?;
    assert!(!symbols.lines().any(|line| line.ends_with(" main")), "{symbols}");
    Ok(())
}
