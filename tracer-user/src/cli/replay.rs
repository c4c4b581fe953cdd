//! The one loop that reads tapes, for all commands.
//!
//! A tape may be cut: its recorder was killed, or its disk was full. Whoever takes inputs is told of what is missing,
//! and then of an end like that of a session that was stopped, so that nothing is held back for more to come.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use analyzer::input::{End, Input};
use analyzer::symbols::SymbolTable;
use analyzer::tape::{self, ItemRef, Reader, TapeError};
use analyzer::wire::RawRecord;
use anyhow::{Context, Result, bail};

use super::progress::ReadingBar;

/// Why a tape ended that has no end of its own.
pub(super) const CUT: &str = "the tape ends before the session did";

/// Whoever takes the inputs of a tape.
pub(super) trait Consumer {
    /// Takes the next input.
    ///
    /// # Errors
    /// What it says of it cannot be written.
    fn push(&mut self, input: &Input) -> Result<()>;

    /// Takes the next record: the same as [`Input::Record`], without a copy of it.
    ///
    /// # Errors
    /// See [`Consumer::push`].
    fn push_record(&mut self, record: &RawRecord) -> Result<()>;

    /// Hears of a part of the tape that is missing, in words for people. The loss itself is an input, which comes next.
    fn damage(&mut self, message: &str);

    /// Whether it takes what was recorded for replays: nobody else finds anything on such a tape.
    fn is_for_replays(&self) -> bool {
        false
    }
}

/// Gives all of a tape to a consumer.
///
/// # Errors
/// The file is no tape, or cannot be read; what the consumer says cannot be written.
pub(super) fn replay(path: &Path, consumer: &mut impl Consumer) -> Result<()> {
    replay_watched(path, consumer, &ReadingBar::hidden())
}

/// The same; `progress`: how far it has come.
///
/// # Errors
/// See [`replay`].
pub(super) fn replay_watched(path: &Path, consumer: &mut impl Consumer, progress: &ReadingBar) -> Result<()> {
    let of_tape = || path.display().to_string();
    let reader = Reader::new(progress.counted(open(path)?)).with_context(of_tape)?;
    drive(reader, consumer, &of_tape)
}

/// The names that are on a tape. They are behind the alerts that they are for.
///
/// # Errors
/// The file is no tape, or cannot be read.
pub(super) fn names(path: &Path) -> Result<SymbolTable> {
    let mut names = SymbolTable::default();
    tape::symbols(open(path)?, |symbols| names.extend(symbols))
        .with_context(|| path.display().to_string())?;
    Ok(names)
}

/// A tape as a file, to be read from begin to end.
///
/// # Errors
/// It cannot be opened.
pub(super) fn open(path: &Path) -> Result<BufReader<File>> {
    const BUFFER_BYTES: usize = 1 << 20;
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, file))
}

/// That nothing is on a tape of this name for whoever does not replay it.
pub(super) fn for_replays(name: &str) -> String {
    format!(
        "{name}: recorded for replays, with nothing else on it: `dmscope replay` runs the job again, `dmscope races` says where it \
         could have gone another way; `dmscope run --record` records what this command reads"
    )
}

/// The loop. `name`: of the tape, for messages.
fn drive<R: Read>(
    mut reader: Reader<R>,
    consumer: &mut impl Consumer,
    name: &dyn Fn() -> String,
) -> Result<()> {
    // CLOCK_MONOTONIC of the last thing seen, and whether the session said that it was over.
    let (mut last_ns, mut ended) = (0, false);
    while let Some(item) = reader.next_ref() {
        match item.map_err(|error: TapeError| anyhow::Error::new(error).context(name()))? {
            ItemRef::Record(record) => {
                last_ns = last_ns.max(record.time_ns());
                consumer.push_record(record)?;
            }
            ItemRef::Damage(damage) => consumer.damage(&format!("{}: {damage}", name())),
            ItemRef::Input(input) => {
                if let Input::Tick { time_ns } = *input {
                    last_ns = last_ns.max(time_ns);
                }
                ended |= matches!(*input, Input::End(_));
                if matches!(*input, Input::ReplayableRank(_)) && !consumer.is_for_replays() {
                    bail!(for_replays(&name()));
                }
                consumer.push(&input)?;
            }
        }
    }
    if !ended {
        let end =
            End { time_ns: last_ns, reason: CUT.to_owned(), failed_probes: Vec::new(), strangers: None };
        consumer.push(&Input::End(end))?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod testing {
    //! Tapes of a made-up job, whole and cut.

    use analyzer::input::{MpiFacts, MpiKind, ProcessFacts, Start, ThreadFacts, Threads};
    use analyzer::plan::{Plan, Probe, ProbeClass};
    use analyzer::tape::Writer;
    use analyzer::wire::{Body, FileId, Header, Record};

    use super::*;

    const S: u64 = 1_000_000_000;
    const PID: u32 = 1000;
    const MPICH_WORLD: u64 = 0x4400_0000;

    /// When the last input of [`inputs`] was, CLOCK_MONOTONIC.
    pub const LAST_NS: u64 = 3 * S;

    /// Rank 0 calls MPI_Barrier, but a process called before it of which nobody knows whether it is a rank: as long as
    /// that is not known, what rank 0 did is held back.
    pub fn inputs() -> Vec<Input> {
        let start = Start { time_ns: S, job: "mpirun -n 1 ./solver".into(), ..Start::default() };
        let rank = ProcessFacts {
            pid: PID,
            namespace_pid: PID,
            rank: Some(0),
            size: Some(1),
            time_ns: S,
            ..ProcessFacts::default()
        };
        let thread = ThreadFacts {
            pid: PID,
            tid: PID,
            call: Some(analyzer::input::CallInProgress {
                mpi: Some(MpiFacts { kind: MpiKind::Mpich, comm_world: Some(MPICH_WORLD) }),
                function: "MPI_Barrier".into(),
                ..Default::default()
            }),
            ..ThreadFacts::default()
        };
        vec![
            Input::Start(Box::new(start)),
            Input::Process(Box::new(rank)),
            Input::Plan(Box::new(Plan { probes: vec![probe(1, "MPI_Barrier")], ..Plan::default() })),
            Input::Record(call(PID + 99, 2 * S)),
            Input::Record(call(PID, 2 * S + 1)),
            Input::Threads(Box::new(Threads { time_ns: 2 * S + 2, threads: vec![thread] })),
            Input::Tick { time_ns: LAST_NS - 1 },
            Input::Record(call(PID, LAST_NS)),
        ]
    }

    /// The end of a session that was stopped when the tape was cut.
    pub fn end() -> Input {
        Input::End(End {
            time_ns: LAST_NS,
            reason: CUT.to_owned(),
            failed_probes: Vec::new(),
            strangers: None,
        })
    }

    /// The bytes of a tape.
    pub fn tape(inputs: &[Input]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        for input in inputs {
            writer.push(input).expect("memory has room");
        }
        writer.finish().expect("memory has room")
    }

    /// Gives a tape of [`inputs`] to a consumer; `cut`: without its end.
    pub fn replay_inputs(cut: bool, consumer: &mut impl Consumer) {
        let mut inputs = inputs();
        inputs.extend((!cut).then(end));
        let bytes = tape(&inputs);
        drive(Reader::new(&bytes[..]).expect("a tape"), consumer, &|| "a.dmt".into())
            .expect("it can be read");
    }

    fn probe(id: u32, function: &str) -> Probe {
        Probe::at(id, FileId { dev: 1, inode: 10 }, 0x100, ProbeClass::Call, function)
    }

    fn call(pid: u32, time_ns: u64) -> RawRecord {
        let header = Header { time_ns, pid, tid: pid, probe: 1 };
        let args = [MPICH_WORLD, 0, 0, 0, 0, 0];
        Record { header, body: Body::Call { return_address: 0x40_0100, args, nested: false } }.encode()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{LAST_NS, end, inputs, replay_inputs, tape};
    use super::*;

    /// Keeps what it is given.
    #[derive(Default)]
    struct Kept {
        inputs: Vec<Input>,
        damage: Vec<String>,
    }

    impl Consumer for Kept {
        fn push(&mut self, input: &Input) -> Result<()> {
            self.inputs.push(input.clone());
            Ok(())
        }

        fn push_record(&mut self, record: &RawRecord) -> Result<()> {
            self.inputs.push(Input::Record(*record));
            Ok(())
        }

        fn damage(&mut self, message: &str) {
            self.damage.push(message.to_owned());
        }
    }

    fn kept(bytes: &[u8]) -> Kept {
        let mut kept = Kept::default();
        drive(Reader::new(bytes).expect("a tape"), &mut kept, &|| "a.dmt".into()).expect("it can be read");
        kept
    }

    #[test]
    fn all_of_a_whole_tape_is_passed_on_as_it_is() {
        let mut whole = Kept::default();
        replay_inputs(false, &mut whole);
        let recorded: Vec<Input> = inputs().into_iter().chain([end()]).collect();
        assert_eq!((whole.inputs, whole.damage), (recorded, vec![]));
    }

    #[test]
    fn a_tape_that_was_recorded_for_replays_is_refused_by_all_others() {
        let rank = Input::ReplayableRank(Box::default());
        let bytes = tape(&[vec![inputs()[0].clone(), rank], vec![end()]].concat());
        let reader = Reader::new(&bytes[..]).expect("a tape");
        let refused = drive(reader, &mut Kept::default(), &|| "a.dmt".into()).unwrap_err().to_string();
        assert!(refused.starts_with("a.dmt: recorded for replays"), "{refused}");
    }

    #[test]
    fn a_tape_without_an_end_is_given_one_at_the_time_of_its_last_input() {
        let cut = kept(&tape(&inputs()));
        let Some(Input::End(end)) = cut.inputs.last() else { panic!("no end: {:?}", cut.inputs) };
        assert_eq!((end.time_ns, end.reason.as_str()), (LAST_NS, CUT));
        assert_eq!(cut.inputs[..cut.inputs.len() - 1], inputs());
        assert!(cut.damage.iter().any(|message| message.starts_with("a.dmt: no end of session")));
    }

    #[test]
    fn a_tape_that_is_cut_inside_a_frame_ends_once_and_says_what_is_missing() {
        let bytes = tape(&[inputs(), vec![end()]].concat());
        let cut = kept(&bytes[..bytes.len() - 1]);
        let ends = cut.inputs.iter().filter(|input| matches!(input, Input::End(_))).count();
        assert_eq!(ends, 1);
        assert!(cut.damage.iter().any(|message| message.starts_with("a.dmt: cut inside a frame")));
    }
}
