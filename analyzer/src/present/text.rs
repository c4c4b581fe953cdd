//! Words for places, buffers, ranks, times and counts.

use super::visible::visible;
use crate::findings::finding::*;
use crate::job::names::{Kind, SiteName};
use crate::job::process::Who;
use crate::tape::input::Frame;

/// Ranges of ranks or processes that are told; of more it is told how many ranks they are.
const MOST_RANGES: usize = 12;

/// A place without symbols.
pub(crate) fn place(name: &SiteName) -> Place {
    match name {
        SiteName::File { module, offset_bytes, .. } => {
            Place { module: module.clone(), offset_bytes: *offset_bytes, ..Place::default() }
        }
        SiteName::Kernel { call } => Place { module: call.clone(), ..Place::default() },
        SiteName::Unknown => Place::default(),
    }
}

/// `function (file:line)`, or as much of that as is known.
pub fn place_text(place: &Place) -> String {
    if place.module.is_empty() {
        return "an unknown place".to_owned();
    }
    let Some(frame) = place.frames.first() else {
        return if place.file.is_none() && place.offset_bytes == 0 {
            visible(&place.module).into_owned()
        } else {
            module_text(place)
        };
    };
    match source_text(frame) {
        Some(source) => format!("{} ({source})", visible(&frame.function)),
        None => format!("{} ({})", visible(&frame.function), module_text(place)),
    }
}

fn module_text(place: &Place) -> String {
    format!("{}+{:#x}", visible(file_name(&place.module)), place.offset_bytes)
}

fn source_text(frame: &Frame) -> Option<String> {
    let source = visible(file_name(frame.source.as_deref()?));
    Some(frame.line.map_or_else(|| source.clone().into_owned(), |line| format!("{source}:{line}")))
}

/// Last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// What a buffer is.
pub fn buffer_text(buffer: &BufferView) -> String {
    match buffer.what {
        BufferKind::Heap => match &buffer.allocated {
            Some(place) if !place.module.is_empty() => format!("heap block of {}", place_text(place)),
            _ => "heap block".to_owned(),
        },
        BufferKind::HeapBeforeAttach => "heap (no block that was recorded)".to_owned(),
        BufferKind::Shared => format!("shared {}", visible(file_name(&buffer.name))),
        BufferKind::Static => format!("static data of {}", visible(file_name(&buffer.name))),
        BufferKind::Stack => "stack".to_owned(),
        BufferKind::Anonymous => "anonymous memory".to_owned(),
        BufferKind::NotWatched => "memory of a process that is not watched".to_owned(),
        BufferKind::TcpStream => "TCP connection".to_owned(),
        BufferKind::QueuePair => "RDMA connection".to_owned(),
        BufferKind::Unknown => "unknown memory".to_owned(),
    }
}

/// How an operation moves data.
pub(crate) fn kind_text(op: &OpView) -> &'static str {
    match (op.kind, op.segments > 1) {
        (Kind::Copy, true) => "copy in pieces",
        (kind, _) => movement_kind_text(kind),
    }
}

/// How one movement moves data.
pub fn movement_kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Copy => "copy",
        Kind::Pack => "pack",
        Kind::Unpack => "unpack",
        Kind::CrossRead => "read from a process",
        Kind::CrossWrite => "write to a process",
        Kind::Message => "message",
        Kind::StreamWrite => "send over TCP",
        Kind::StreamRead => "receive over TCP",
        Kind::RdmaSend => "send over RDMA",
        Kind::RdmaReceive => "receive over RDMA",
        Kind::RdmaWrite => "RDMA write",
        Kind::RdmaRead => "RDMA read",
    }
}

/// `rank 3`, `ranks 0-3, 7`, `process 1234`.
pub fn who_text(whos: &[Who]) -> String {
    who_text_and(whos, 0)
}

/// The same; `more`: others that are not listed.
pub(crate) fn who_text_and(whos: &[Who], more: u64) -> String {
    let ranks: Vec<u32> =
        whos.iter().filter_map(|w| if let Who::Rank(r) = w { Some(*r) } else { None }).collect();
    let pids: Vec<u32> =
        whos.iter().filter_map(|w| if let Who::Pid(p) = w { Some(*p) } else { None }).collect();
    let named = |what: &str, numbers: &[u32]| match numbers {
        [] => None,
        [one] => Some(format!("{what} {one}")),
        many => {
            Some(format!("{what}{} {}", if what.ends_with('s') { "es" } else { "s" }, ranges(many, more)))
        }
    };
    let sorted = |mut numbers: Vec<u32>| {
        numbers.sort_unstable();
        numbers
    };
    let (ranks, pids) = (sorted(ranks), sorted(pids));
    let parts: Vec<String> = named("rank", &ranks).into_iter().chain(named("process", &pids)).collect();
    if parts.is_empty() { "nobody".to_owned() } else { parts.join(" and ") }
}

/// `0-3, 7`, `0, 2, 4 and 32765 more`
fn ranges(sorted: &[u32], more: u64) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &n in sorted {
        match parts.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(n) => *end = n,
            _ => parts.push((n, n)),
        }
    }
    let text = |&(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    let told: Vec<String> = parts.iter().take(MOST_RANGES).map(text).collect();
    let untold = parts.iter().skip(MOST_RANGES).map(|(a, b)| u64::from(b - a) + 1);
    match untold.fold(more, u64::saturating_add) {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}

/// `once`, `12 times`.
pub(crate) fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// `1 call`, `12 calls`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A time as people say it.
pub fn duration_text(ns: u64) -> String {
    let s = ns as f64 / 1e9;
    match ns {
        0..1_000_000 => format!("{:.0} µs", s * 1e6),
        1_000_000..1_000_000_000 => format!("{:.0} ms", s * 1e3),
        1_000_000_000..120_000_000_000 => format!("{s:.1} s"),
        _ => format!("{:.0} min", s / 60.0),
    }
}

pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// The MPI call that an operation mostly ran in: `MPI_Send called at main (a.c:7)`.
pub(crate) fn call_text(op: &OpView) -> Option<String> {
    let call = op.calls.iter().find(|c| !c.function.is_empty())?;
    let place = if call.place.module.is_empty() {
        String::new()
    } else {
        format!(" called at {}", place_text(&call.place))
    };
    Some(format!("{}{place}", visible(&call.function)))
}

/// Arguments of a call, each with its name.
pub(crate) fn arguments_text(arguments: &[(String, String)]) -> String {
    let text = |(name, value): &(String, String)| format!("{} {}", visible(name), visible(value));
    arguments.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// A communicator or window in a sentence.
pub(crate) fn comm_text(name: &str) -> String {
    let name = visible(name);
    if name.starts_with("MPI_") || name.starts_with("window ") {
        name.into_owned()
    } else {
        format!("communicator {name}")
    }
}

pub(crate) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_told_as_ranges() {
        let ranks: Vec<Who> = [0, 1, 2, 3, 7].map(Who::Rank).into();
        assert_eq!(who_text(&ranks), "ranks 0-3, 7");
        assert_eq!(who_text(&[Who::Rank(4), Who::Pid(10), Who::Pid(12)]), "rank 4 and processes 10, 12");
        assert_eq!(who_text(&[]), "nobody");
        let all_but_one: Vec<Who> = (0..65536).filter(|rank| *rank != 17).map(Who::Rank).collect();
        assert_eq!(who_text(&all_but_one), "ranks 0-16, 18-65535");
        let every_second: Vec<Who> = (0..65536).step_by(2).map(Who::Rank).collect();
        let text = who_text(&every_second);
        assert!(text.starts_with("ranks 0, 2, 4,") && text.ends_with(", 22 and 32756 more"), "{text}");
    }

    #[test]
    fn a_place_is_told_as_well_as_it_is_known() {
        let mut place = Place { module: "/usr/lib/libx.so".into(), offset_bytes: 0x1f, ..Place::default() };
        assert_eq!(place_text(&place), "libx.so+0x1f");
        place.frames = vec![Frame { function: "send".into(), source: None, line: None }];
        assert_eq!(place_text(&place), "send (libx.so+0x1f)");
        place.frames[0].source = Some("src/a.c".into());
        place.frames[0].line = Some(7);
        assert_eq!(place_text(&place), "send (a.c:7)");
        assert_eq!(place_text(&Place::default()), "an unknown place");
    }

    #[test]
    fn names_of_places_buffers_and_calls_are_made_visible() {
        let hostile = "x\n\x1b[2J\u{202e}y";
        let frame = |source: Option<&str>| Frame {
            function: hostile.into(),
            source: source.map(Into::into),
            line: Some(1),
        };
        let place = |frames| Place { module: hostile.into(), offset_bytes: 1, frames, ..Place::default() };
        let buffer = |what| BufferView { what, name: hostile.into(), allocated: Some(place(vec![])) };
        let whole = Place { module: hostile.into(), ..Place::default() };
        let texts = [
            place_text(&whole),
            place_text(&place(vec![])),
            place_text(&place(vec![frame(None)])),
            place_text(&place(vec![frame(Some(hostile))])),
            buffer_text(&buffer(BufferKind::Heap)),
            buffer_text(&buffer(BufferKind::Shared)),
            buffer_text(&buffer(BufferKind::Static)),
            comm_text(hostile),
            arguments_text(&[(hostile.into(), hostile.into())]),
        ];
        for text in texts {
            assert!(text.contains("\\n\\u{1b}[2J\\u{202e}y") && !text.contains(char::is_control), "{text}");
        }
    }
}
