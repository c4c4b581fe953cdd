//! A rank that runs alone: what its calls get comes from its record.

use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use replay::contents::{ContentReader, ContentStop, FrameOrder};
use replay::shared_page::{PageState, PageText, SharedPage, count_one};

use super::alone_thread::{AloneThread, MappedRecord};
use super::call_names::{call_name, call_text, difference};
use crate::mapped_file::RankMapping;
use crate::refusal::say;
use crate::thread;

/// What dmscope has put down: lines of a word and a value.
pub(super) struct AloneWish {
    pub rank: u32,
    /// Names of threads that may call at the same time, and where the record of each is; else one for all, and the name does not matter.
    records: Vec<(u64, PathBuf)>,
    /// Whose calls came when, of several threads.
    order: Option<PathBuf>,
    holds: bool,
    ignores_data: bool,
}

impl AloneWish {
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(folder.join("alone"))?;
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let rank = value("rank").and_then(|rank| rank.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
        let named = |line: &str| {
            let (name, record) = line.strip_prefix("record ")?.split_once(' ')?;
            Some((name.parse().ok()?, record.into()))
        };
        let records: Vec<(u64, PathBuf)> = text.lines().filter_map(named).collect();
        if records.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let is_set = |name| value(name).is_some();
        let order = value("order").map(PathBuf::from);
        Ok(Self { rank, records, order, holds: is_set("hold"), ignores_data: is_set("ignore-data") })
    }
}

pub(super) struct AloneRank {
    page: RankMapping,
    /// By place; one for all if there is no order.
    threads: Vec<AloneThread>,
    /// Whose calls come when, if threads may call at the same time.
    order: Option<FrameOrder>,
    /// The place of the thread that acts.
    speaker: usize,
    ignores_data: bool,
    holds: bool,
}

/// For whom a thread waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OthersTurn {
    /// Places of threads, and their numbers in the kernel if they have called before.
    pub threads: Vec<(usize, Option<libc::pid_t>)>,
    /// Nothing is recorded any more for the one that waits.
    pub is_at_end: bool,
}

/// So long a thread may poll where it did something else: another one may have to tell it first that it is not to poll any more.
const POLLS_FOR: Duration = Duration::from_secs(10);

/// What a poll answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollAnswer {
    /// The record has more of this call.
    Recorded,
    No,
    /// No, though it did something else here: others must go on.
    NoInVain,
}

impl AloneRank {
    pub(super) fn new(folder: &Path, job: &AloneWish) -> io::Result<Self> {
        let path = folder.join(format!("rank-{}", job.rank));
        // A debugger may run the program again.
        let _ = std::fs::remove_file(&path);
        let thread = |(name, record): &(u64, PathBuf)| {
            Ok(AloneThread::new(*name, MappedRecord::open(record)?, job.ignores_data))
        };
        let order = |path: &PathBuf| {
            FrameOrder::from_bytes(&std::fs::read(path)?)
                .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        };
        Ok(Self {
            page: RankMapping::create(&path, 0)?,
            threads: job.records.iter().map(thread).collect::<io::Result<_>>()?,
            order: job.order.as_ref().map(order).transpose()?,
            speaker: 0,
            ignores_data: job.ignores_data,
            holds: job.holds,
        })
    }

    /// This thread acts from now on. None: it is its turn. `polls`: it asks whether a poll answers no.
    pub(super) fn speak(&mut self, polls: bool) -> Option<OthersTurn> {
        self.order.as_ref()?;
        let name = thread::name();
        let place = thread::place().or_else(|| self.threads.iter().position(|known| known.name == name));
        self.speaker = place.unwrap_or(self.threads.len());
        if place.is_none() {
            // Nothing was recorded of it.
            self.threads.push(AloneThread::new(name, MappedRecord::empty(), self.ignores_data));
        }
        thread::set_place(self.speaker);
        let thread = &mut self.threads[self.speaker];
        // SAFETY: a system call without arguments.
        thread.kernel_id.get_or_insert_with(|| unsafe { libc::gettid() });
        let (has_polls, is_at_end) = (thread.reader.has_polls(), thread.is_at_end());
        thread.waits_at_end = is_at_end && !polls;
        let turn = self.order.as_ref()?.turn();
        if turn == Some(self.speaker) {
            return None;
        }
        let with_id = |place: usize| (place, self.threads.get(place).and_then(|thread| thread.kernel_id));
        if is_at_end && polls {
            return None;
        }
        if is_at_end {
            // One of them may crash yet.
            let may_go_on = |place: &usize| {
                let thread = &self.threads[*place];
                *place != self.speaker && thread.kernel_id.is_some() && !thread.waits_at_end
            };
            let others = (0..self.threads.len()).filter(may_go_on).chain(turn);
            let threads: Vec<_> = others.map(with_id).collect();
            return (!threads.is_empty()).then_some(OthersTurn { threads, is_at_end });
        }
        let place = turn.filter(|_| !(polls && has_polls))?;
        Some(OthersTurn { threads: vec![with_id(place)], is_at_end })
    }

    /// A thread has ended.
    pub(super) fn has_gone(&mut self, place: usize) {
        if let Some(thread) = self.threads.get_mut(place) {
            thread.kernel_id = None;
        }
        if let Some(order) = &mut self.order {
            order.has_gone(place);
        }
    }

    /// Reads for the thread that acts.
    fn read<T>(&mut self, read: impl FnOnce(&mut ContentReader, &[u8]) -> T) -> T {
        let AloneThread { reader, record, .. } = &mut self.threads[self.speaker];
        let before = reader.at();
        let result = read(reader, record.bytes());
        let bytes = reader.at() - before;
        if let Some(order) = &mut self.order {
            order.has_read(self.speaker, bytes as u64);
        }
        result
    }

    pub(super) fn page(&self) -> &SharedPage {
        self.page.page()
    }

    pub(super) fn call(&mut self, call: u32, compared: &[i64], sum: Option<u32>) {
        self.begin(call);
        let is_beside_others = has_threads();
        let result = self.read(|reader, record| {
            if is_beside_others {
                reader.pass_polls(record)?;
            }
            reader.call(record, call, compared, sum)
        });
        let other_data = self.threads.iter().map(|thread| thread.reader.other_data()).sum();
        self.page().other_data.store(other_data, Ordering::Relaxed);
        self.threads[self.speaker].polls_since = None;
        self.unless_stopped(result, true);
    }

    pub(super) fn is_no(&mut self, call: u32, compared: &[i64]) -> PollAnswer {
        let mut result = self.read(|reader, record| reader.is_no(record, call, compared));
        if matches!(result, Err(ContentStop::Another { .. }))
            && has_threads()
            && self.read(|reader, record| reader.pass_polls_before(record, call, compared)) == Ok(true)
        {
            result = self.read(|reader, record| reader.is_no(record, call, compared));
        }
        let has_other = match &result {
            Ok(true) => false,
            Ok(false) => self.read(|reader, record| reader.has_another(record, call, compared)),
            Err(ContentStop::Another { .. }) => true,
            // The record of others may go on.
            Err(ContentStop::Ended) => self.order.is_some(),
            Err(_) => false,
        };
        if has_other && self.polls_beside_others() {
            return PollAnswer::NoInVain;
        }
        if result != Ok(false) {
            self.begin(call);
        }
        if self.unless_stopped(result, true) == Some(true) { PollAnswer::No } else { PollAnswer::Recorded }
    }

    /// Whether the poll of a thread that did something else here may answer no: how often it polls before others stop it is chance.
    fn polls_beside_others(&mut self) -> bool {
        if !has_threads() {
            return false;
        }
        let since = *self.threads[self.speaker].polls_since.get_or_insert_with(Instant::now);
        since.elapsed() < POLLS_FOR
    }

    pub(super) fn numbers(&mut self, values: &mut [i64]) {
        let result = self.read(|reader, record| reader.numbers(record, values));
        self.unless_stopped(result, false);
    }

    pub(super) fn bytes(&mut self) -> &[u8] {
        let result = self.read(ContentReader::bytes);
        let range: Range<usize> = self.unless_stopped(result, false).unwrap_or_default();
        &self.threads[self.speaker].record.bytes()[range]
    }

    pub(super) fn end(&mut self) {
        let result = self.read(ContentReader::end);
        self.unless_stopped(result, true);
        self.page().set_state(PageState::Finalized);
    }

    /// What the program does cannot be answered.
    pub(super) fn diverge(&mut self, call: u32, why: &str) -> ! {
        if call != 0 {
            self.begin(call);
        }
        self.stop(PageState::Diverged, &format!("{}: {why}", call_name(self.threads[self.speaker].call)))
    }

    fn begin(&mut self, call: u32) {
        self.threads[self.speaker].call = call;
        let page = self.page();
        count_one(&page.calls);
        page.call.store(call, Ordering::Relaxed);
    }

    fn unless_stopped<T>(&mut self, result: Result<T, ContentStop>, is_before: bool) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(stop) => self.stopped(stop, is_before),
        }
    }

    fn stopped(&mut self, stop: ContentStop, is_before: bool) -> ! {
        let name = call_name(self.threads[self.speaker].call);
        match stop {
            ContentStop::Ended => {
                let at = self.page().calls.load(Ordering::Relaxed);
                self.page().ended_at_call.store(at, Ordering::Release);
                let place = if is_before { "before" } else { "in" };
                self.stop(PageState::Outside, &format!("{place} its call {at}, {name}"))
            }
            ContentStop::Refused { call, why } => {
                let at = self.page().calls.load(Ordering::Relaxed);
                self.page().ended_at_call.store(at, Ordering::Release);
                let refused = call_name(call);
                self.stop(
                    PageState::Outside,
                    &format!("before its call {at}, {name}: it uses {refused}, {why}"),
                )
            }
            ContentStop::Another { recorded, found } => {
                let at = call_text(&found);
                self.stop(PageState::Diverged, &format!("{at}: {}", difference(&recorded, &found)))
            }
            ContentStop::BehindTheEnd => {
                self.stop(PageState::Diverged, &format!("{name}: the rank had called MPI_Finalize here"))
            }
            ContentStop::EndsEarly => {
                self.stop(PageState::Diverged, "MPI_Finalize: in the record the rank goes on")
            }
            ContentStop::Damaged => self
                .stop(PageState::Diverged, &format!("{name}: the record has something else for this call")),
        }
    }

    /// Stops here: in a debugger the rank can be looked at.
    fn stop(&mut self, state: PageState, why: &str) -> ! {
        const STATUS: i32 = 2;
        let page = self.page();
        page.set_text(PageText::Message, why);
        page.set_state(state);
        if is_traced() {
            say(&format!("stopped at {why}"));
            // SAFETY: the debugger takes it.
            unsafe { libc::raise(libc::SIGTRAP) };
        } else if self.holds {
            // SAFETY: stops this process until somebody continues it.
            unsafe { libc::raise(libc::SIGSTOP) };
        }
        // SAFETY: what the program has printed is to be seen; nothing else of it runs.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::_exit(STATUS)
        }
    }
}

/// Whether the program has created threads, which may tell each other something beside MPI.
fn has_threads() -> bool {
    static FOUND: OnceLock<Option<extern "C" fn() -> c_int>> = OnceLock::new();
    let find = || {
        // SAFETY: text that ends with a zero. The other wrapper knows it, and is looked for by name, since it is a library of its own.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"dmscope_has_threads".as_ptr()) };
        // SAFETY: it is a function of this type (`shim/threads.c`), or null, which stands for none.
        unsafe { std::mem::transmute::<*mut c_void, Option<extern "C" fn() -> c_int>>(found) }
    };
    FOUND.get_or_init(find).is_some_and(|has_threads| has_threads() != 0)
}

/// Why a thread that is not the one of the record must not communicate.
pub(super) fn second_thread(call: u32) -> String {
    format!("{} is called by a second thread; when it was recorded only one communicated", call_name(call))
}

/// Whether a debugger has this process.
fn is_traced() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|pid| pid.trim() != "0")
}
