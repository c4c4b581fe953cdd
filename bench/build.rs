//! Compiles the programs that are measured: empty BPF programs, and a process to put probes into.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libbpf_cargo::SkeletonBuilder;

fn main() -> Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is set by cargo")?);
    println!("cargo:rerun-if-changed=src/c");
    for variable in ["DMSCOPE_CLANG", "CC"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    SkeletonBuilder::new()
        .source("src/c/empty.bpf.c")
        .clang(env::var("DMSCOPE_CLANG").unwrap_or_else(|_| "clang-19".into()))
        .clang_args(["-I/usr/include/x86_64-linux-gnu", "-Wall", "-Werror"])
        .build_and_generate(out.join("empty.skel.rs"))
        .context("cannot compile the empty BPF programs: `cargo xtask setup` installs what is needed")?;
    compile("src/c/places.c", &out.join("places"), &["-rdynamic"])
}

fn compile(source: &str, program: &std::path::Path, options: &[&str]) -> Result<()> {
    let cc = env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(&cc)
        .args(["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([program.as_os_str(), source.as_ref()])
        .args(options)
        .status()
        .with_context(|| format!("cannot start {cc}"))?;
    ensure!(status.success(), "{cc} cannot compile {source}");
    Ok(())
}
