//! `dmscope calls`: which MPI calls there were, and which send each receive matched.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write, stdout};

use analyzer::input::{CodePlace, Input};
use analyzer::messages::{Call, CallId, LeakKind, MessageEvent, MessageId, Unfinished};
use analyzer::options::Options;
use analyzer::pipeline::Pipeline;
use analyzer::process::Who;
use analyzer::text::who_text;
use analyzer::visible::{visible, visible_json};
use analyzer::wire::RawRecord;
use anyhow::Result;
use serde::Serialize;

use super::place_names::PlaceLookup;
use super::replay::{Consumer, names, replay};
use super::tape_args::CallsArgs;

/// Form of the JSON output; it changes when a field changes its meaning.
const SCHEMA: u32 = 1;

/// Prints the calls of a tape as they ended.
///
/// # Errors
/// The file is no tape, or cannot be read; standard output cannot be written.
pub fn calls(args: &CallsArgs) -> Result<()> {
    let mut listing = Listing {
        pipeline: Pipeline::with_events(Options::default()),
        printer: Printer {
            out: BufWriter::new(stdout().lock()),
            json: args.json,
            names: PlaceLookup::new(names(&args.tape)?),
            begin_ns: 0,
            ranks: &args.ranks,
            others: BTreeSet::new(),
            has_wanted: false,
        },
    };
    listing.begin()?;
    replay(&args.tape, &mut listing)?;
    listing.end()
}

/// Lists what the pipeline hears of calls and messages.
struct Listing<'a, W: Write> {
    pipeline: Pipeline,
    printer: Printer<'a, W>,
}

impl<W: Write> Listing<'_, W> {
    fn begin(&mut self) -> Result<()> {
        if self.printer.json {
            self.printer.json_line(&serde_json::json!({ "schema": SCHEMA }))?;
        }
        Ok(())
    }

    fn list(&mut self) -> Result<()> {
        for event in self.pipeline.take_events() {
            self.printer.event(&self.pipeline, &event)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.printer.end(&self.pipeline)
    }
}

impl<W: Write> Consumer for Listing<'_, W> {
    fn push(&mut self, input: &Input) -> Result<()> {
        if let Input::Start(start) = input {
            self.printer.begin_ns = start.time_ns;
        }
        if let Input::Plan(plan) = input {
            self.printer.names.know(plan);
        }
        self.pipeline.push(input);
        self.list()
    }

    fn push_record(&mut self, record: &RawRecord) -> Result<()> {
        self.pipeline.push_record(record);
        self.list()
    }

    fn damage(&mut self, message: &str) {
        // Standard output is the list's.
        eprintln!("dmscope: {}", visible(message));
    }
}

struct Printer<'a, W: Write> {
    out: W,
    json: bool,
    names: PlaceLookup,
    begin_ns: u64,
    ranks: &'a Option<super::rank_list::RankList>,
    /// Ranks that call and are not wanted.
    others: BTreeSet<u32>,
    has_wanted: bool,
}

/// A call, for programs.
#[derive(Serialize)]
struct CallLine<'a> {
    #[serde(flatten)]
    id: CallId,
    pid: u32,
    function: &'a str,
    /// Since the session began.
    begin_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ns: Option<u64>,
    arguments: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<&'a [u32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

impl<W: Write> Printer<'_, W> {
    fn wants(&self, rank: u32) -> bool {
        self.ranks.as_ref().is_none_or(|list| list.0.contains(&rank))
    }

    fn json_line(&mut self, line: &serde_json::Value) -> Result<()> {
        Ok(writeln!(self.out, "{}", visible_json(&line.to_string()))?)
    }

    fn event(&mut self, pipeline: &Pipeline, event: &MessageEvent) -> Result<()> {
        match event {
            MessageEvent::Call { id, .. } if !self.wants(id.rank) => {
                self.others.insert(id.rank);
            }
            MessageEvent::Call { id, call, end_ns, communicator, .. } => {
                self.has_wanted = true;
                let members = communicator.as_ref().map(|communicator| communicator.peers());
                self.call(pipeline, *id, call, *end_ns, members)?;
            }
            MessageEvent::Matched { send, receive }
                if self.wants(send.call.rank) || self.wants(receive.call.rank) =>
            {
                self.matched(send, receive)?;
            }
            MessageEvent::Completed { message, by, .. } if self.json && self.wants(by.rank) => {
                let line = serde_json::json!({ "completed": message, "by": by });
                self.json_line(&line)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn call(
        &mut self,
        pipeline: &Pipeline,
        id: CallId,
        call: &Call,
        end_ns: Option<u64>,
        members: Option<&[u32]>,
    ) -> Result<()> {
        let begin_ns = call.begin_ns.saturating_sub(self.begin_ns);
        let duration_ns = end_ns.map(|end| end.saturating_sub(call.begin_ns));
        let arguments = pipeline.messages().shown(call);
        let at = pipeline.call_place(call).map(|place| self.place(pipeline, place));
        if self.json {
            let arguments =
                arguments.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
            let function = &call.row.name;
            let line =
                CallLine { id, pid: call.pid, function, begin_ns, duration_ns, arguments, members, at };
            self.json_line(&serde_json::json!({ "call": line }))?;
            return Ok(());
        }
        let arguments: Vec<String> =
            arguments.into_iter().map(|(name, value)| format!("{name}={}", visible(&value))).collect();
        let thread = if call.tid == call.pid { String::new() } else { format!(" thread {}", call.tid) };
        write!(
            self.out,
            "{:12.6} s  rank {}{thread} call {}  {}({})",
            begin_ns as f64 / 1e9,
            id.rank,
            id.number,
            call.row.name,
            arguments.join(", ")
        )?;
        match duration_ns {
            Some(duration) => write!(self.out, "  {:.1} us", duration as f64 / 1e3)?,
            None => write!(self.out, "  not seen to return")?,
        }
        writeln!(self.out, "{}", at.map_or_else(String::new, |at| format!("  at {}", visible(&at))))?;
        Ok(())
    }

    fn matched(&mut self, send: &MessageId, receive: &MessageId) -> Result<()> {
        if self.json {
            let line = serde_json::json!({ "matched": { "send": send, "receive": receive } });
            self.json_line(&line)?;
        } else {
            let who = |id: &MessageId| format!("rank {} call {}", id.call.rank, id.call.number);
            writeln!(self.out, "{:>16} {} -> {}", "message", who(send), who(receive))?;
        }
        Ok(())
    }

    fn leaks(&mut self, pipeline: &Pipeline, left: &Unfinished) -> Result<()> {
        if !self.wants(left.rank) && !left.peers.iter().any(|rank| self.wants(*rank)) {
            return Ok(());
        }
        let at = left.site.map(|place| self.place(pipeline, place));
        if self.json {
            let arguments: serde_json::Map<String, serde_json::Value> = left
                .arguments
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
                .collect();
            let line = serde_json::json!({
                "what": left.what, "rank": left.rank, "function": left.function, "arguments": arguments,
                "peers": left.peers, "count": left.count, "at": at,
            });
            self.json_line(&serde_json::json!({ "left_over": line }))?;
            return Ok(());
        }
        let arguments: Vec<String> =
            left.arguments.iter().map(|(name, value)| format!("{name}={}", visible(value))).collect();
        let what = match left.what {
            LeakKind::Message => "unmatched send",
            LeakKind::Request => "request leak",
            LeakKind::PersistentRequest => "persistent leak",
            LeakKind::Communicator => "communicator leak",
            LeakKind::Window => "window leak",
            LeakKind::Group => "group leak",
            LeakKind::Datatype => "datatype leak",
            LeakKind::Operation => "operation leak",
        };
        let times = if left.count == 1 { String::new() } else { format!("  {} times", left.count) };
        let at = at.map_or_else(String::new, |at| format!("  at {}", visible(&at)));
        writeln!(
            self.out,
            "{what:>16} rank {}  {}({}){times}{at}",
            left.rank,
            visible(left.function),
            arguments.join(", ")
        )?;
        Ok(())
    }

    fn place(&mut self, pipeline: &Pipeline, place: CodePlace) -> String {
        self.names.call_text(pipeline, place).to_string()
    }

    fn end(&mut self, pipeline: &Pipeline) -> Result<()> {
        let messages = pipeline.messages();
        for (id, call) in messages.open_calls() {
            if self.wants(id.rank) {
                self.has_wanted = true;
                self.call(pipeline, id, call, None, None)?;
            }
        }
        for left in messages.leaks() {
            self.leaks(pipeline, &left)?;
        }
        let mut lost: Vec<u32> = messages.lost().collect();
        lost.sort_unstable();
        if self.json {
            self.json_line(
                &serde_json::json!({ "end": { "not_followed": lost, "strangers": messages.strangers() } }),
            )?;
        } else if messages.strangers() > 0 {
            writeln!(
                self.out,
                "{} processes made MPI calls, but their ranks are unknown.",
                messages.strangers()
            )?;
        } else if !lost.is_empty() {
            let ranks = if lost.len() == 1 { "rank" } else { "ranks" };
            let lost: Vec<String> = lost.iter().map(u32::to_string).collect();
            writeln!(
                self.out,
                "Coverage of {ranks} {} is incomplete: what was received after the gap is unknown.",
                lost.join(", ")
            )?;
        }
        self.out.flush()?;
        if !self.has_wanted && !self.others.is_empty() {
            let others: Vec<Who> = self.others.iter().copied().map(Who::Rank).collect();
            eprintln!("dmscope: none of these ranks has made a call; {} have", who_text(&others));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::replay::testing::replay_inputs;
    use super::*;

    fn listed(cut: bool) -> String {
        let printer = Printer {
            out: Vec::new(),
            json: false,
            names: PlaceLookup::default(),
            begin_ns: 0,
            ranks: &None,
            others: BTreeSet::new(),
            has_wanted: false,
        };
        let mut listing = Listing { pipeline: Pipeline::with_events(Options::default()), printer };
        replay_inputs(cut, &mut listing);
        listing.end().expect("memory has room");
        String::from_utf8(listing.printer.out).expect("text")
    }

    #[test]
    fn what_was_held_back_is_listed_at_the_end_of_a_cut_tape_too() {
        assert!(listed(false).contains("rank 0 call 1  MPI_Barrier"), "{}", listed(false));
        assert_eq!(listed(true), listed(false));
    }
}
