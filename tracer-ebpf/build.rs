//! Compiles the BPF programs and generates their skeleton.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/bpf/dmscope.bpf.c";

fn main() -> Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is set by cargo")?);
    let clang = env::var("DMSCOPE_CLANG").unwrap_or_else(|_| "clang-19".into());
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-env-changed=DMSCOPE_CLANG");
    SkeletonBuilder::new()
        .source(SOURCE)
        .clang(&clang)
        .clang_args(["-I/usr/include/x86_64-linux-gnu", "-Wall", "-Werror", "-Wno-unused-function"])
        .build_and_generate(out.join("dmscope.skel.rs"))
        .with_context(|| {
            format!(
                "cannot compile {SOURCE} with {clang}: `cargo xtask setup` installs what is needed; \
                 DMSCOPE_CLANG names another clang (14 or later)"
            )
        })
}
