//! Places, buffers and calls of movements in words, each looked up once.

use std::rc::Rc;

use analyzer::names::Kind;
use analyzer::pipeline::{DataMovement, Pipeline};
use analyzer::text::{buffer_text, movement_kind_text};

use super::place_names::PlaceLookup;
use crate::sink::export::ExportedMovement;

/// By the numbers that movements have for them.
#[derive(Default)]
pub(super) struct MovementTexts {
    sites: Vec<Option<Rc<str>>>,
    buffers: Vec<Option<Rc<str>>>,
    calls: Vec<Option<(Rc<str>, Rc<str>)>>,
}

/// Of one movement.
pub(super) struct TextsOfMovement {
    place: Rc<str>,
    source: Rc<str>,
    destination: Rc<str>,
    /// Function and place; empty: none.
    call: (Rc<str>, Rc<str>),
}

impl MovementTexts {
    pub(super) fn of(
        &mut self,
        movement: &DataMovement,
        pipeline: &Pipeline,
        places: &mut PlaceLookup,
    ) -> TextsOfMovement {
        let place =
            known(&mut self.sites, movement.site, || places.text(pipeline.site_place(movement.site)).into());
        let mut buffer = |number: u32| {
            known(&mut self.buffers, number, || {
                let mut view = pipeline.buffer_view(number);
                if let Some(place) = view.allocated.take() {
                    return format!("heap block of {}", places.text(place)).into();
                }
                buffer_text(&view).into()
            })
        };
        let (source, destination) = (buffer(movement.source), buffer(movement.destination));
        let call = known(&mut self.calls, movement.call, || match pipeline.call_of_site(movement.call) {
            Some((function, place)) if place.module.is_empty() => (function.into(), "".into()),
            Some((function, place)) => (function.into(), places.text(place).into()),
            None => ("".into(), "".into()),
        });
        TextsOfMovement { place, source, destination, call }
    }
}

/// What has a number, made the first time.
fn known<T: Clone>(all: &mut Vec<Option<T>>, number: u32, make: impl FnOnce() -> T) -> T {
    /// Numbers are given out one after the other; the last of all stands for none.
    const MOST: usize = 1 << 21;
    let at = number as usize;
    if at >= MOST {
        return make();
    }
    if at >= all.len() {
        all.resize(at + 1, None);
    }
    all[at].get_or_insert_with(make).clone()
}

impl TextsOfMovement {
    pub(super) fn movement(&self, movement: &DataMovement) -> ExportedMovement<'_> {
        let kind: Kind = movement.kind;
        ExportedMovement {
            time_ns: movement.time_ns,
            pid: movement.pid,
            tid: movement.tid,
            rank: movement.rank,
            kind: movement_kind_text(kind),
            len_bytes: movement.len_bytes,
            place: &self.place,
            function: &self.call.0,
            called_at: &self.call.1,
            source: &self.source,
            source_addr: movement.source_addr,
            destination: &self.destination,
            destination_addr: movement.destination_addr,
            peer_rank: movement.peer_rank,
            operation: movement.operation,
            written_by: movement.written_by,
        }
    }
}
