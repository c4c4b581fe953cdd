//! Makes seeds from the golden tapes and from a small library: `cargo run --bin make_seeds`, in this folder.

use std::path::Path;
use std::{fs, io};

use dmscope_fuzz::pieces;

fn main() -> io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    of_tapes(here)?;
    of_bus(here)?;
    of_library(here)
}

/// Of `bus_messages`: words, requests, and a tape of a node, each as a step.
fn of_bus(here: &Path) -> io::Result<()> {
    let step = |kind: u8, bytes: &[u8]| [&[kind, 1][..], &(bytes.len() as u16).to_le_bytes(), bytes].concat();
    let words = [
        r#"{"placed":[1]}"#,
        r#""ready""#,
        r#"{"notice":"a word"}"#,
        r#"{"pong":{"sent_ns":1,"node_ns":2,"held_ns":0}}"#,
        r#"{"failed":"why"}"#,
        r#"{"ended":{"is_job_over":true}}"#,
    ];
    let node = r#"{"host":"n1","agent":"a","boot":"b","network_namespace":null}"#;
    let jobs = format!(r#"{{"protocol":2,"version":"0.1.0","node":{node},"jobs":[],"hidden":0}}"#);
    let requests = [r#"{"protocol":2}"#, r#""opened""#, r#"{"refused":"why"}"#, r#"{"alive":{"nodes":2}}"#, &jobs];
    let seeds = here.join("seeds/bus_messages");
    fs::create_dir_all(&seeds)?;
    let all = |kind: u8, texts: &[&str]| texts.iter().flat_map(|text| step(kind, text.as_bytes())).collect();
    let told: Vec<u8> = all(2, &words);
    fs::write(seeds.join("words"), told)?;
    let asked: Vec<u8> = all(6, &requests);
    fs::write(seeds.join("requests"), asked)?;
    let tape = fs::read(here.join("seeds/tape_reader/session-v1-frames"))?;
    fs::write(seeds.join("tape"), [step(1, &tape), step(7, &[]), step(3, words[4].as_bytes())].concat())?;
    let letter: Vec<u8> = (0..24).map(|byte| u8::from(byte == 0)).collect();
    fs::write(seeds.join("letter"), [step(5, &letter), step(7, &[1])].concat())
}

/// Of `tape_reader`.
fn of_tapes(here: &Path) -> io::Result<()> {
    let seeds = here.join("seeds/tape_reader");
    fs::create_dir_all(&seeds)?;
    for entry in fs::read_dir(here.join("../tests/golden"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "dmt") {
            continue;
        }
        let tape = fs::read(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        fs::write(seeds.join(format!("{name}-frames")), pieces::pieces_of(&tape))?;
        let raw = [&[0][..], &(tape.len() as u16).to_le_bytes(), &tape].concat();
        fs::write(seeds.join(format!("{name}-raw")), raw)?;
    }
    Ok(())
}

/// Of the targets that read program files: what each has in front of the file.
fn of_library(here: &Path) -> io::Result<()> {
    let library = fs::read(here.join("seeds/library-x86-64"))?;
    let with_holes = [&[1][..], &(1_u64 << 40).to_le_bytes(), &library].concat();
    let whole = [&[0][..], &library].concat();
    let registers = (0..16_u64).flat_map(|n| (n << 4).to_le_bytes()).collect();
    for (target, head) in [("elf_scan", Vec::new()), ("unwind", registers), ("plan", vec![0; 24])] {
        let seeds = here.join("seeds").join(target);
        fs::create_dir_all(&seeds)?;
        fs::write(seeds.join("library-x86-64"), [&head[..], &whole].concat())?;
        fs::write(seeds.join("library-x86-64-with-holes"), [&head[..], &with_holes].concat())?;
    }
    Ok(())
}
