//! Makes the seeds of `tape_reader` from the golden tapes: `cargo run --bin make_seeds`, in this folder.

use std::path::Path;
use std::{fs, io};

use dmscope_fuzz::pieces;

fn main() -> io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
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
