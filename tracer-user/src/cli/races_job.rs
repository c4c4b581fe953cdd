//! `dmscope races`.

use std::collections::HashMap;

use analyzer::visible::visible;
use anyhow::{Result, bail};
use replay::races::{Alternative, Race, RaceKind, Races};
use serde_json::{Value, json};

use super::output::{print, print_json};
use super::recorded_tape::{no_messages, read_job};
use super::replay_args::RacesArgs;
use crate::host::source_lines::SourceLines;
use crate::session::wrapped::{ExchangePoint, Swap, call_name};

/// Form of the JSON output; it changes when a field changes its meaning.
const SCHEMA: u32 = 1;

/// Lists the races of a recorded job.
///
/// # Errors
/// The tape cannot be read, or has no messages.
pub(super) fn races_job(args: &RacesArgs) -> Result<u8> {
    let mut say = |line: &str| eprintln!("dmscope: {}", visible(line));
    let job = read_job(&args.tape, &mut say)?;
    if !job.has_messages() {
        bail!(no_messages(&args.tape));
    }
    let races = match job.races() {
        Ok(races) => races,
        Err(why) => bail!("{}: {why}", args.tape.display()),
    };
    let shown = &races.found[..races.found.len().min(args.most)];
    let places = places(shown);
    if args.json {
        print_json(&json!({ "schema": SCHEMA, "places": races.looked_at, "races": races.found.len() }))?;
        for race in shown {
            print_json(&of_race(race, &place_of(&places, race)))?;
        }
    } else {
        shown.iter().try_for_each(|race| print(&text(race, &place_of(&places, race))))?;
        summary(&races, args, &mut say);
    }
    Ok(0)
}

type SourcePlaces = HashMap<(String, u64), String>;

/// Source lines of calls.
fn places(races: &[Race]) -> SourcePlaces {
    let mut lines = SourceLines::default();
    let sites = races.iter().filter_map(|race| race.site.as_ref());
    let mut places = SourcePlaces::new();
    for site in sites {
        let key = (site.module.clone(), site.offset_bytes);
        places.entry(key).or_insert_with(|| {
            // A return address: the call is before it.
            lines.at(site.module.as_ref(), site.offset_bytes.saturating_sub(1)).unwrap_or_default()
        });
    }
    places
}

fn place_of(places: &SourcePlaces, race: &Race) -> String {
    let key = race.site.as_ref().map(|site| (site.module.clone(), site.offset_bytes));
    key.and_then(|key| places.get(&key)).cloned().unwrap_or_default()
}

fn call_of(race: &Race) -> String {
    race.site.as_ref().map_or_else(|| "a call".to_owned(), |site| call_name(site.call))
}

fn words(alternative: Alternative) -> String {
    match alternative {
        Alternative::Message { source, tag, call } => format!("rank {source}, tag {tag} (its call {call})"),
        Alternative::Request { index } => format!("request {index}"),
    }
}

/// `0:17 MPI_Recv at master.c:42 got rank 1, tag 5 (its call 9)`, and below what could have come.
fn text(race: &Race, place: &str) -> String {
    let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
    let verb = match race.kind {
        RaceKind::Receive | RaceKind::Posted => "got",
        RaceKind::Probe => "found",
        RaceKind::Choice => "took",
    };
    let taken: Vec<String> = race.taken.iter().map(|taken| words(*taken)).collect();
    let head = format!("{} {}{at} {verb} {}", ExchangePoint::of(race), call_of(race), taken.join(", "));
    let others =
        race.others.iter().map(|other| format!("    {}  {}\n", Swap::of(race, *other), words(*other)));
    others.fold(format!("{}\n", visible(&head)), |text, line| text + &line)
}

fn of_alternative(alternative: Alternative) -> Value {
    match alternative {
        Alternative::Message { source, tag, call } => json!({ "rank": source, "tag": tag, "call": call }),
        Alternative::Request { index } => json!({ "request": index }),
    }
}

fn of_race(race: &Race, place: &str) -> Value {
    let kind = match race.kind {
        RaceKind::Receive => "receive",
        RaceKind::Posted => "posted-receive",
        RaceKind::Probe => "probe",
        RaceKind::Choice => "choice",
    };
    let others = race.others.iter().map(|other| {
        let mut value = of_alternative(*other);
        value["swap"] = Swap::of(race, *other).to_string().into();
        value
    });
    json!({
        "rank": race.rank, "call": race.call, "nth": race.nth, "kind": kind, "function": call_of(race),
        "source_line": if place.is_empty() { Value::Null } else { place.into() },
        "got": race.taken.iter().map(|taken| of_alternative(*taken)).collect::<Vec<_>>(),
        "others": others.collect::<Vec<_>>(),
    })
}

fn summary(races: &Races, args: &RacesArgs, say: &mut dyn FnMut(&str)) {
    let (found, of) = (races.found.len(), races.looked_at);
    if found > args.most {
        say(&format!("{} more are not shown: --most {found} shows all", found - args.most));
    }
    if races.unknown > 0 {
        let unknown = races.unknown;
        say(&format!("{unknown} calls in communicators that were not seen to be made are left out"));
    }
    if races.unsent > 0 {
        let unsent = races.unsent;
        say(&format!(
            "of {unsent} messages the send was not seen (sends in Fortran with Open MPI are not): races may be missing"
        ));
    }
    say(&format!(
        "{found} of {of} receives and probes from anybody, and choices of a request, could have gone otherwise ({} messages)",
        races.sends
    ));
    if let Some(race) = races.found.first() {
        let swap = Swap::of(race, race.others[0]);
        say(&format!("dmscope replay --swap {swap} {} -- COMMAND goes the other way", args.tape.display()));
    }
}
