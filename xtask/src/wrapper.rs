//! `cargo xtask wrapper`: builds the preloaded MPI wrapper, once for each MPI library, beside `dmscope`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, output, root, run, target_dir};

/// Compilers that are tried if none is named.
const COMPILERS: [&str; 2] = ["mpicc.openmpi", "mpicc.mpich"];
/// The objects that are built for each library: the folder of the C side, the name of the file, and the parts.
const WRAPPERS: [(&str, &str, &[&str]); 2] = [
    (
        "wrapper/shim",
        "libdmscope-wrapper",
        &[
            "life",
            "silence",
            "receives",
            "completions",
            "others",
            "files",
            "windows",
            "messages",
            "logical_waits",
            "logical_comms",
            "logical_groups",
            "logical_requests",
            "logical_messages",
            "logical_completions",
            "reductions",
            "clocks",
            "threads",
        ],
    ),
    (
        "wrapper/contents",
        "libdmscope-wrapper-contents",
        &[
            "process",
            "threads",
            "data",
            "objects",
            "messages",
            "completions",
            "collectives",
            "communicators",
            "files",
            "refused",
        ],
    ),
];

/// Builds it with these compilers, or with those that are there.
pub fn build(named: &[&str]) -> Result<()> {
    run(cargo().args(["build", "--release", "-p", "dmscope-wrapper"]))?;
    let is_there = |compiler: &&str| macros(compiler).is_ok();
    let compilers: Vec<&str> =
        if named.is_empty() { COMPILERS.iter().copied().filter(is_there).collect() } else { named.to_vec() };
    if compilers.is_empty() {
        bail!(
            "none of {} can be run: name the compiler of your MPI library, `cargo xtask wrapper MPICC`",
            COMPILERS.join(", ")
        );
    }
    for compiler in compilers {
        link(compiler, library_of(&macros(compiler)?).with_context(|| compiler.to_owned())?)?;
    }
    Ok(())
}

/// What the compiler's `mpi.h` defines.
fn macros(compiler: &str) -> Result<String> {
    let shim = root().join("wrapper/shim/shim.h");
    output(Command::new(compiler).args(["-dM", "-E"]).arg(shim))
}

/// Whose `mpi.h` that is.
fn library_of(macros: &str) -> Result<&'static str> {
    let defines = |name: &str| macros.lines().any(|line| line.split(' ').nth(1) == Some(name));
    match (defines("OPEN_MPI"), defines("MPICH_VERSION")) {
        (true, _) => Ok("openmpi"),
        (_, true) => Ok("mpich"),
        _ => bail!("neither Open MPI nor MPICH: the wrapper is not made for this MPI library"),
    }
}

/// Compiles the shim and puts it together with the rest. The program brings the MPI library itself: launchers and shells,
/// which the wrapper is loaded into as well, have none.
fn link(compiler: &str, library: &str) -> Result<()> {
    for (folder, name, parts) in WRAPPERS {
        link_one(compiler, library, &root().join(folder), name, parts)?;
    }
    Ok(())
}

fn link_one(compiler: &str, library: &str, sources: &Path, name: &str, parts: &[&str]) -> Result<()> {
    let release = target_dir().join("release");
    let objects = target_dir().join("wrapper").join(name).join(library);
    std::fs::create_dir_all(&objects).with_context(|| objects.display().to_string())?;
    let object = |part: &&str| objects.join(format!("{part}.o"));
    for part in parts {
        // Where a call is made by a jump, whoever is called takes the caller's caller for it.
        run(Command::new(compiler)
            .args([
                "-std=gnu11",
                "-O2",
                "-g",
                "-fPIC",
                "-fno-optimize-sibling-calls",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-c",
            ])
            .arg(sources.join(format!("{part}.c")))
            .arg("-o")
            .arg(object(part)))?;
    }
    let finished = release.join(format!("{name}-{library}.so"));
    let functions = functions_of(&parts.iter().map(object).collect::<Vec<_>>())?;
    std::fs::write(objects.join("names.inc"), names_in_fortran(&functions)).context("names.inc")?;
    let fortran =
        ["libraries.c", "calls.S"].map(|source| (root().join("wrapper/fortran").join(source), source));
    for (path, source) in &fortran {
        run(Command::new("cc")
            .args(["-std=gnu11", "-O2", "-g", "-fPIC", "-Wall", "-Wextra", "-Werror", "-c", "-I"])
            .arg(&objects)
            .arg(path)
            .arg("-o")
            .arg(objects.join(source).with_extension("o")))?;
    }
    // A rank may have the old one mapped: it keeps it.
    let unnamed = finished.with_extension("so.new");
    run(Command::new("cc")
        // What it calls of its own is its own, whatever the program has under that name.
        .args([
            "-shared",
            "-Wl,-z,lazy",
            "-Wl,--gc-sections",
            "-Wl,-Bsymbolic-functions",
            "-Wl,--version-script",
        ])
        .arg(sources.join("exports.map"))
        .args(parts.iter().map(object))
        .args(fortran.map(|(_, source)| objects.join(source).with_extension("o")))
        .arg(release.join("libdmscope_wrapper.a"))
        .args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-lc", "-o"])
        .arg(&unnamed))?;
    rename(&unnamed, &finished)
}

/// The functions of MPI that these objects define: `Send` for `MPI_Send`.
fn functions_of(objects: &[PathBuf]) -> Result<Vec<String>> {
    let symbols = output(Command::new("nm").args(["--defined-only", "--format=posix"]).args(objects))?;
    let function = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [name, "T", ..] => name.strip_prefix("MPI_").map(str::to_owned),
        _ => None,
    };
    Ok(symbols.lines().filter_map(function).collect())
}

/// What `calls.S` reads. Clocks have names of their own, and large counts none in Fortran.
fn names_in_fortran(functions: &[String]) -> String {
    let is_called = |name: &&String| *name != "Wtime" && !name.ends_with("_c");
    let has_lower = |name: &&String| name.chars().any(|letter| letter.is_ascii_lowercase());
    let line = |name: &String| format!("CALL {name}, {}\n", name.to_ascii_lowercase());
    functions.iter().filter(is_called).filter(has_lower).map(line).collect()
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).with_context(|| to.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_fortran_are_those_of_functions() {
        let functions = ["Send", "Send_c", "Wtime", "WTIME", "Comm_dup"].map(str::to_owned);
        assert_eq!(names_in_fortran(&functions), "CALL Send, send\nCALL Comm_dup, comm_dup\n");
    }

    #[test]
    fn a_library_is_known_by_what_its_header_defines() {
        assert_eq!(library_of("#define OPEN_MPI 1\n#define X 2").unwrap(), "openmpi");
        assert_eq!(library_of("#define MPICH_VERSION \"4\"").unwrap(), "mpich");
        assert!(library_of("#define NOT_MPICH_VERSION 1").is_err());
    }
}
