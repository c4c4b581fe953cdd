//! Tapes: what goes in comes out, whatever happens to the file or the disk.

mod damage;
mod feed;
mod full_disk;
mod golden;
mod inputs;
mod round_trip;
mod session;

use analyzer::input::Input;
use analyzer::tape::{Damage, Item, Reader, TapeError, Writer};

/// Writes groups of inputs, each flushed.
fn tape_of(groups: &[Vec<Input>]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for group in groups {
        for input in group {
            writer.push(input).expect("memory takes everything");
        }
        writer.flush().expect("memory takes everything");
    }
    writer.finish().expect("memory takes everything")
}

/// All that a tape gives, and the damage it tells of.
struct Read {
    inputs: Vec<Input>,
    damages: Vec<Damage>,
    error: Option<TapeError>,
}

fn read(tape: &[u8]) -> Read {
    let mut read = Read { inputs: Vec::new(), damages: Vec::new(), error: None };
    let items = match Reader::new(tape) {
        Ok(reader) => reader,
        Err(error) => return Read { error: Some(error), ..read },
    };
    for item in items {
        match item {
            Ok(Item::Input(input)) => read.inputs.push(input),
            Ok(Item::Damage(damage)) => read.damages.push(damage),
            Err(error) => read.error = Some(error),
        }
    }
    read
}

/// Byte ranges of the frames that [`tape_of`] makes of these groups, one each.
fn frame_ends(groups: &[Vec<Input>]) -> Vec<usize> {
    (1..=groups.len()).map(|n| tape_of(&groups[..n]).len()).collect()
}

/// The inputs without losses: those are made up at damage.
fn without_losses(inputs: &[Input]) -> Vec<Input> {
    inputs.iter().filter(|input| !matches!(input, Input::Loss(_))).cloned().collect()
}
