//! Records the answers of a rank's calls into its file.

use std::sync::atomic::{AtomicI32, Ordering};

use replay::shared_page::{PageText, SharedPage, count_one};
use replay::{Answer, CallCheck, MOST_THREADS, Mark, ReceiveEnd, Recording};

use crate::mapped_file::RankMapping;
use crate::plain_calls;

/// Why a record ends where calls come from several threads.
pub(crate) const THREADS_STOP: &str = "its calls come from several threads, whose order is not recorded";

/// How many receives from anybody have requests that are not complete, or may not be.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the shim has it under this name")]
static dms_posted_receives: AtomicI32 = AtomicI32::new(0);

pub(crate) struct AnswerRecorder {
    file: RankMapping,
    recording: Recording,
    /// Bytes on their way to the file.
    out: Vec<u8>,
    is_stopped: bool,
    /// MPI_Finalize was called.
    has_ended: bool,
}

impl AnswerRecorder {
    pub(crate) fn new(file: RankMapping) -> Self {
        // With room for any entry of usual length: nothing is allocated then.
        Self {
            file,
            recording: Recording::default(),
            out: Vec::with_capacity(256),
            is_stopped: false,
            has_ended: false,
        }
    }

    pub(crate) fn page(&self) -> &'static SharedPage {
        self.file.page()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// From here on calls of this thread need not come here.
    pub(crate) fn begin_plain_calls(&self) {
        if !self.is_stopped {
            plain_calls::begin(self.page(), self.recording.call_check());
        }
    }

    /// They do again.
    pub(crate) fn set_call_check(&mut self, check: CallCheck) {
        self.recording.set_call_check(check);
    }

    pub(crate) fn call(&mut self, call: u32, arguments: [i32; 3]) {
        self.recording.call(call, arguments);
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        let is_no = answer == Answer::No;
        if let Some(check) = plain_calls::check() {
            self.recording.set_call_check(check);
        }
        self.recording.answer(answer, &mut self.out);
        if is_no && self.recording.polls_are_apart() {
            plain_calls::leave_out();
        }
        let page = self.file.page();
        count_one(&page.answers);
        if is_no {
            page.polls.store(self.recording.polls(), Ordering::Relaxed);
            self.show_polls();
        } else {
            self.write();
        }
    }

    /// The program has read a clock.
    pub(crate) fn clock(&mut self, clock: u8, shows: i64) {
        if !self.is_stopped && !self.has_ended {
            self.recording.clock(clock, shows, &mut self.out);
            self.write();
        }
    }

    /// The call ends at this position in the order of all ranks' calls.
    pub(crate) fn position(&mut self, position: u64) {
        if !self.is_stopped && !self.has_ended {
            self.recording.position(position, &mut self.out);
            self.write();
        }
    }

    /// There is another thread: its number.
    pub(crate) fn add_thread(&mut self, name: u64) -> usize {
        if !self.recording.has_room() {
            self.stop(&format!("its calls come from more than {MOST_THREADS} threads"));
        }
        let number = self.recording.add_thread(name, &mut self.out);
        self.write();
        number
    }

    /// Polls of several threads stand on the page until they are in the record.
    fn show_polls(&self) {
        if let Some((thread, polls)) = self.recording.polls_of_thread()
            && let Some(place) = self.page().thread_polls.get(thread)
        {
            place.store(polls, Ordering::Relaxed);
        }
    }

    /// This thread acts from here on.
    #[inline]
    pub(crate) fn speak(&mut self, thread: usize) {
        self.recording.speak(thread);
    }

    /// The thread has posted a send or receive, or taken a message.
    pub(crate) fn turn(&mut self) {
        self.recording.turn(&mut self.out);
        self.write();
    }

    pub(crate) fn claim(&mut self, request: u64) -> Option<Option<u64>> {
        let claimed = self.recording.claim(request);
        self.show_posted_receives();
        claimed
    }

    pub(crate) fn give_back(&mut self, request: u64, number: Option<u64>) {
        self.recording.give_back(request, number);
        self.show_posted_receives();
    }

    fn show_posted_receives(&self) {
        dms_posted_receives.store(self.recording.posted_receives() as i32, Ordering::Relaxed);
    }

    pub(crate) fn claimed_arrived(&mut self, number: u64, arrival: ReceiveEnd) {
        self.recording.claimed_arrived(number, arrival, &mut self.out);
        count_one(&self.page().answers);
        self.write();
    }

    pub(crate) fn posted(&mut self, request: u64, class: u64) {
        self.recording.posted_in_class(request, class, &mut self.out);
        self.show_posted_receives();
        self.write();
    }

    pub(crate) fn is_posted(&self, request: u64) -> bool {
        self.recording.is_posted(request)
    }

    pub(crate) fn undecided<const N: usize>(&self) -> ([u64; N], usize) {
        self.recording.undecided()
    }

    pub(crate) fn decided(&mut self, request: u64, arrival: ReceiveEnd) -> bool {
        let is_new = self.recording.decided(request, arrival, &mut self.out);
        count_one(&self.page().answers);
        self.write();
        is_new
    }

    pub(crate) fn end(&mut self) {
        self.recording.mark(Mark::End, &mut self.out);
        self.write();
        self.page().thread_polls.iter().for_each(|polls| polls.store(0, Ordering::Relaxed));
        self.has_ended = true;
    }

    /// Calls come from several threads.
    pub(crate) fn stop_for_threads(&mut self) {
        if self.is_stopped {
            return;
        }
        self.recording.mark(Mark::Threads, &mut self.out);
        self.write();
        self.stop(THREADS_STOP);
    }

    /// Puts what was recorded into the file.
    fn write(&mut self) {
        // Other threads may be in calls that began before.
        if self.out.is_empty() || self.is_stopped || self.has_ended {
            self.out.clear();
            return;
        }
        if let Err(error) = self.file.append(&self.out) {
            self.stop(&format!("there is no more room for the record ({error})"));
        }
        self.out.clear();
        // Those that were counted there are in the record now.
        self.page().polls.store(self.recording.polls(), Ordering::Relaxed);
        self.show_polls();
    }

    /// Records no more from here on.
    pub(crate) fn stop(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_stopped, true) {
            plain_calls::end();
            self.page().set_text(PageText::Message, why);
            self.page().stopped.store(1, Ordering::Release);
        }
    }
}
