//! Makes seeds from the golden tapes and from a small library: `cargo run --bin make_seeds`, in this folder.

use std::path::Path;
use std::{fs, io};

use dmscope_fuzz::pieces;

fn main() -> io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    of_tapes(here)?;
    of_library(here)
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
