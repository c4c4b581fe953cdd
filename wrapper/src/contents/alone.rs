//! A rank that runs alone: what its calls get comes from its record.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use replay::contents::{ContentReader, ContentStop};
use replay::shared_page::{PageState, PageText, SharedPage, count_one};

use super::call_names::{call_name, call_text, difference};
use super::ring::map;
use crate::mapped_file::RankMapping;
use crate::refusal::say;

/// What dmscope has put down: lines of a word and a value.
pub(super) struct AloneWish {
    pub rank: u32,
    record: PathBuf,
    holds: bool,
    ignores_data: bool,
}

impl AloneWish {
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(folder.join("alone"))?;
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let rank = value("rank").and_then(|rank| rank.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
        let record = value("record").ok_or(io::ErrorKind::InvalidData)?.into();
        let is_set = |name| value(name).is_some();
        Ok(Self { rank, record, holds: is_set("hold"), ignores_data: is_set("ignore-data") })
    }
}

pub(super) struct AloneRank {
    page: RankMapping,
    record: MappedRecord,
    reader: ContentReader,
    /// The call that it is in.
    call: u32,
    holds: bool,
}

/// Stays mapped until the process ends.
struct MappedRecord {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nobody writes to it.
unsafe impl Send for MappedRecord {}

impl MappedRecord {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // Nothing can be mapped of an empty file.
        let start = if len == 0 { NonNull::dangling() } else { map(&file, len, libc::PROT_READ)? };
        Ok(Self { start, len })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped, for as long as the process lives; dmscope has written them before, and keeps them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl AloneRank {
    pub(super) fn new(folder: &Path, job: &AloneWish) -> io::Result<Self> {
        let path = folder.join(format!("rank-{}", job.rank));
        // A debugger may run the program again.
        let _ = std::fs::remove_file(&path);
        Ok(Self {
            page: RankMapping::create(&path, 0)?,
            record: MappedRecord::open(&job.record)?,
            reader: if job.ignores_data { ContentReader::ignoring_data() } else { ContentReader::default() },
            call: 0,
            holds: job.holds,
        })
    }

    pub(super) fn page(&self) -> &SharedPage {
        self.page.page()
    }

    pub(super) fn call(&mut self, call: u32, compared: &[i64], sum: Option<u32>) {
        self.begin(call);
        let result = self.reader.call(self.record.bytes(), call, compared, sum);
        self.page().other_data.store(self.reader.other_data(), Ordering::Relaxed);
        self.unless_stopped(result, true);
    }

    pub(super) fn is_no(&mut self, call: u32, compared: &[i64]) -> bool {
        let result = self.reader.is_no(self.record.bytes(), call, compared);
        if result != Ok(false) {
            self.begin(call);
        }
        self.unless_stopped(result, true).unwrap_or(false)
    }

    pub(super) fn numbers(&mut self, values: &mut [i64]) {
        let result = self.reader.numbers(self.record.bytes(), values);
        self.unless_stopped(result, false);
    }

    pub(super) fn bytes(&mut self) -> &[u8] {
        let result = self.reader.bytes(self.record.bytes());
        let range: Range<usize> = self.unless_stopped(result, false).unwrap_or_default();
        &self.record.bytes()[range]
    }

    pub(super) fn end(&mut self) {
        let result = self.reader.end(self.record.bytes());
        self.unless_stopped(result, true);
        self.page().set_state(PageState::Finalized);
    }

    /// What the program does cannot be answered.
    pub(super) fn diverge(&mut self, call: u32, why: &str) -> ! {
        if call != 0 {
            self.begin(call);
        }
        self.stop(PageState::Diverged, &format!("{}: {why}", call_name(self.call)))
    }

    fn begin(&mut self, call: u32) {
        self.call = call;
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
        let name = call_name(self.call);
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
