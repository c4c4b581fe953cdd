//! The process that passes probed instructions as often as it is told (`src/c/places.c`).

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::counters::{CounterReading, ProcessCounters};

/// Path of the program that the process runs.
pub const PROGRAM: &str = concat!(env!("OUT_DIR"), "/places");
/// As many functions there are of each place.
pub const COPIES: usize = 32;

/// Name of a function that begins with this place.
pub fn function(place: &str, copy: usize) -> String {
    assert!(copy < COPIES, "more programs than places");
    format!("{place}_{copy:02o}")
}

/// One such process. Dropping it ends it.
pub struct ProbedProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    counters: ProcessCounters,
}

/// Calls of one function.
#[derive(Clone, Debug)]
pub struct Passes {
    /// See [`function`].
    pub function: String,
    /// How often it is called.
    pub times: u64,
    /// What it is called with: numbers, or `block` for the address of a large heap block.
    pub arguments: [&'static str; 3],
    /// Called from within the function `outer`.
    pub inside: bool,
}

impl ProbedProcess {
    /// Starts it, on one processor if that is named.
    ///
    /// # Errors
    /// It cannot be started, or its processor time cannot be counted.
    pub fn start(cpu: Option<usize>) -> Result<Self> {
        let mut child = Command::new(PROGRAM)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {PROGRAM}"))?;
        if let Some(cpu) = cpu {
            let mut set = CpuSet::new();
            set.set(cpu);
            sched_setaffinity(Pid::from_raw(child.id().cast_signed()), &set).context("one processor")?;
        }
        let input = child.stdin.take().context("a pipe to the process")?;
        let output = BufReader::new(child.stdout.take().context("a pipe from the process")?);
        let counters = ProcessCounters::of(child.id())?;
        Ok(Self { child, input, output, counters })
    }

    /// Process id, as the kernel has it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the machine counts besides time: instructions and the like, or nothing.
    pub fn hardware_names(&self) -> Vec<&'static str> {
        self.counters.hardware_names()
    }

    /// Begins to pass; [`ProbedProcess::end`] waits for the end.
    ///
    /// # Errors
    /// The process is gone.
    pub fn begin(&mut self, passes: &Passes) -> Result<CounterReading> {
        let before = self.counters.read()?;
        let [first, second, third] = passes.arguments;
        let command = if passes.inside { "inside" } else { "run" };
        writeln!(self.input, "{command} {} {} {first} {second} {third}", passes.function, passes.times)?;
        Ok(before)
    }

    /// What the passes used that began with this reading.
    ///
    /// # Errors
    /// The process is gone.
    pub fn end(&mut self, before: &CounterReading) -> Result<CounterReading> {
        let answer = self.answer()?;
        ensure!(answer == "done", "the process with the places says {answer:?}");
        Ok(self.counters.read()?.since(before))
    }

    /// Passes, and says what that used.
    ///
    /// # Errors
    /// The process is gone.
    pub fn run(&mut self, passes: &Passes) -> Result<CounterReading> {
        let before = self.begin(passes)?;
        self.end(&before)
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        let bytes = self.output.read_line(&mut line).context("the process with the places")?;
        ensure!(bytes > 0, "the process with the places has ended");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for ProbedProcess {
    fn drop(&mut self) {
        // It may have ended by itself, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where functions of the program begin in its file.
pub struct Offsets(HashMap<String, u64>);

impl Offsets {
    /// Reads the symbols of the program.
    ///
    /// # Errors
    /// The program is not what it was built as.
    pub fn read() -> Result<Self> {
        let bytes = std::fs::read(PROGRAM).with_context(|| format!("cannot read {PROGRAM}"))?;
        let contents = bytes.into();
        let elf = dmscope::elf::parse(&contents)?;
        let functions = elf.functions.iter();
        let offsets = functions.filter_map(|f| Some((f.name.to_owned(), elf.offset_of(f.vaddr)?)));
        Ok(Self(offsets.collect()))
    }

    /// Offset of a function.
    ///
    /// # Errors
    /// There is no such function.
    pub fn of(&self, function: &str) -> Result<u64> {
        self.0.get(function).copied().with_context(|| format!("{PROGRAM} has no function {function}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_begins_with_the_instruction_of_its_name() {
        let bytes = std::fs::read(PROGRAM).unwrap();
        let offsets = Offsets::read().unwrap();
        let beginnings: [(&str, &[u8]); 9] = [
            ("push", &[0x55]),
            ("nop", &[0x90]),
            ("nop5", &[0x0f, 0x1f, 0x44, 0, 0]),
            ("call", &[0xe8]),
            ("jmp", &[0xe9]),
            ("jcc", &[0x74]),
            ("sub", &[0x48, 0x83, 0xec]),
            ("lea", &[0x48, 0x8d]),
            ("endbr64", &[0xf3, 0x0f, 0x1e, 0xfa]),
        ];
        for (name, beginning) in beginnings {
            for copy in 0..COPIES {
                let at = offsets.of(&function(name, copy)).unwrap() as usize;
                assert!(bytes[at..].starts_with(beginning), "{name}_{copy}");
            }
        }
    }

    #[test]
    fn more_passes_use_more_processor_time() {
        let mut places = ProbedProcess::start(None).unwrap();
        let passes =
            |times| Passes { function: function("push", 0), times, arguments: ["0"; 3], inside: false };
        places.run(&passes(1000)).unwrap();
        let few = places.run(&passes(1000)).unwrap().task_clock_ns;
        let many = places.run(&passes(20_000_000)).unwrap().task_clock_ns;
        assert!(many > 10_000_000 && many > 5 * few, "{few} ns, then {many} ns");
    }

    #[test]
    fn an_unknown_function_ends_the_process_with_an_error_not_a_figure() {
        let mut places = ProbedProcess::start(None).unwrap();
        let passes = |function: &str| Passes {
            function: function.into(),
            times: 10,
            arguments: ["0"; 3],
            inside: false,
        };
        assert!(places.run(&passes("push_00")).is_ok());
        assert!(places.run(&passes("push_99")).is_err());
    }
}
