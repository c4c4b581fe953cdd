//! `dmscope races`.

use std::collections::HashMap;
use std::path::Path;

use analyzer::visible::visible;
use anyhow::{Result, bail};
use replay::messages::CallSite;
use replay::races::{Alternative, DiagramCall, Race, RaceDiagram, RaceKind, Races};
use serde_json::{Value, json};

use super::output::{keep_apart, print, print_json};
use super::page_file::PageFile;
use super::recorded_tape::{no_messages, read_job};
use super::replay_args::RacesArgs;
use crate::host::source_lines::SourceLines;
use crate::page::{DrawnRace, RacesPage, races_html};
use crate::session::wrapped::{ExchangePoint, RecordWishes, Swap, call_name};

/// Form of the JSON output; it changes when a field changes its meaning.
const SCHEMA: u32 = 1;

/// Lists the races of a recorded job.
///
/// # Errors
/// The tape cannot be read, or has no messages.
pub(super) fn races_job(args: &RacesArgs) -> Result<u8> {
    let written: Vec<&Path> = args.page.iter().map(AsRef::as_ref).collect();
    keep_apart(std::slice::from_ref(&args.tape), &written)?;
    let mut say = |line: &str| eprintln!("dmscope: {}", visible(line));
    let job = read_job(&args.tape, RecordWishes { messages: true, order: false }, &mut say)?;
    if !job.has_messages() {
        bail!(no_messages(&args.tape));
    }
    let races = match job.races() {
        Ok(races) => races,
        Err(why) => bail!("{}: {why}", args.tape.display()),
    };
    if job.unknown() > 0 {
        let unknown = job.unknown();
        say(&format!(
            "of {unknown} messages received from anybody it is not known whose they were (MPI_STATUS_IGNORE): races may be missing"
        ));
    }
    let shown = &races.found[..races.found.len().min(args.most)];
    if let Some(path) = &args.page {
        let mut file = PageFile::find(path)?;
        let page = page(&races, shown, args);
        file.write(&races_html(&page))?;
        page.summary.iter().for_each(|line| say(line));
        say(&format!("the page is {}", path.display()));
        return Ok(0);
    }
    let places = places(shown.iter().filter_map(|race| race.site.as_ref()));
    if args.json {
        print_json(&json!({ "schema": SCHEMA, "places": races.looked_at, "races": races.found.len() }))?;
        for race in shown {
            print_json(&of_race(race, &place_of(&places, race)))?;
        }
    } else {
        shown.iter().try_for_each(|race| print(&text(race, &place_of(&places, race))))?;
        summary(&races, args).iter().for_each(|line| say(line));
        if let Some(race) = races.found.first() {
            say(&format!("{} goes the other way", replay_command(race, race.others[0], args)));
        }
    }
    Ok(0)
}

/// The command that goes another way.
fn replay_command(race: &Race, other: Alternative, args: &RacesArgs) -> String {
    format!("dmscope replay --swap {} {} -- COMMAND", Swap::of(race, other), args.tape.display())
}

fn page(races: &Races, shown: &[Race], args: &RacesArgs) -> RacesPage {
    let diagrams: Vec<RaceDiagram> = shown.iter().map(|race| races.diagram(race)).collect();
    let drawn_sites =
        diagrams.iter().flat_map(|diagram| &diagram.calls).filter_map(|call| call.site.as_ref());
    let places = places(shown.iter().filter_map(|race| race.site.as_ref()).chain(drawn_sites));
    let call_words = |call: &DiagramCall| match &call.site {
        Some(site) => format!("call {}, {}{}", call.call, call_name(site.call), at(place_at(&places, site))),
        None => format!("call {}", call.call),
    };
    let race = |(race, diagram): (&Race, RaceDiagram)| DrawnRace {
        heading: visible(&head(race, &place_of(&places, race))).into_owned(),
        others: race.others.iter().map(|other| [words(*other), replay_command(race, *other, args)]).collect(),
        calls: diagram.calls.iter().map(call_words).collect(),
        diagram,
    };
    RacesPage {
        tape: args.tape.display().to_string(),
        summary: summary(races, args),
        races: shown.iter().zip(diagrams).map(race).collect(),
    }
}

type SourcePlaces = HashMap<(String, u64), String>;

/// Source lines of calls.
fn places<'a>(sites: impl Iterator<Item = &'a CallSite>) -> SourcePlaces {
    let mut lines = SourceLines::default();
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
    race.site.as_ref().map_or_else(String::new, |site| place_at(places, site).to_owned())
}

fn place_at<'a>(places: &'a SourcePlaces, site: &CallSite) -> &'a str {
    places.get(&(site.module.clone(), site.offset_bytes)).map_or("", String::as_str)
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" at {place}") }
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

/// `0:17 MPI_Recv at master.c:42 got rank 1, tag 5 (its call 9)`.
fn head(race: &Race, place: &str) -> String {
    let verb = match race.kind {
        RaceKind::Receive | RaceKind::Posted => "got",
        RaceKind::Probe => "found",
        RaceKind::Choice => "took",
    };
    let taken: Vec<String> = race.taken.iter().map(|taken| words(*taken)).collect();
    format!("{} {}{} {verb} {}", ExchangePoint::of(race), call_of(race), at(place), taken.join(", "))
}

/// The same, and below what could have come.
fn text(race: &Race, place: &str) -> String {
    let others =
        race.others.iter().map(|other| format!("    {}  {}\n", Swap::of(race, *other), words(*other)));
    others.fold(format!("{}\n", visible(&head(race, place))), |text, line| text + &line)
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

fn summary(races: &Races, args: &RacesArgs) -> Vec<String> {
    let mut lines = Vec::new();
    let (found, of) = (races.found.len(), races.looked_at);
    if found > args.most {
        lines.push(format!("{} more are not shown: --most {found} shows all", found - args.most));
    }
    if races.unknown > 0 {
        let unknown = races.unknown;
        lines.push(format!("{unknown} calls in communicators that were not seen to be made are left out"));
    }
    if races.unsent > 0 {
        let unsent = races.unsent;
        lines.push(format!("of {unsent} messages the send was not seen: races may be missing"));
    }
    lines.push(format!(
        "{found} of {of} receives and probes from anybody, and choices of a request, could have gone otherwise ({} messages)",
        races.sends
    ));
    lines
}
