//! Places in code, for people.

use analyzer::input::CodePlace;
use analyzer::pipeline::Pipeline;
use analyzer::symbols::SymbolTable;

/// `solve (solver.c:42)`, or `solver+0x1f30`.
pub(super) fn place_text(pipeline: &Pipeline, names: &SymbolTable, place: CodePlace) -> String {
    match names.get(place.file, place.offset_bytes).and_then(<[_]>::first) {
        Some(frame) => match (&frame.source, frame.line) {
            (Some(source), Some(line)) => format!("{} ({source}:{line})", frame.function),
            _ => frame.function.clone(),
        },
        None => {
            let path = pipeline.path(place.file);
            format!("{}+{:#x}", path.rsplit('/').next().unwrap_or(&path), place.offset_bytes)
        }
    }
}
