//! One of a rank's threads, and what the page that dmscope reads says of them.

use std::sync::atomic::Ordering;

use replay::shared_page::{PageState, SharedPage};

use crate::thread::ThisThread;

/// Of threads that make calls at the same time, each has one. Else the rank has one for whoever calls.
#[derive(Debug, Default)]
pub(crate) struct RankThread {
    /// Its number in the record that is played.
    pub row: usize,
    /// Where the stack was when the call began that it is in: calls that the library makes itself are deeper.
    pub in_call: Option<usize>,
    /// The call that it is in has answered no.
    pub has_answered_no: bool,
    /// Whose call it is, where threads call one at a time.
    pub called_by: u64,
    /// The position in the order of all ranks' calls that the end of its call waits for.
    pub due_position: Option<u64>,
    /// Others must post before it.
    pub waits_for_turn: bool,
    /// Of the answer that was due last.
    pub indices: Vec<u32>,
    /// Its number for the kernel.
    kernel_id: u32,
    call: ThreadCall,
}

/// The call that a thread is in.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadCall {
    /// How many calls the rank had begun then.
    number: u64,
    call: u32,
    arguments: [i32; 3],
    return_address: u64,
    due_source: i32,
}

/// Writes down which call a thread of the rank is in.
#[inline]
pub(crate) fn show_call(page: &SharedPage, call: u32, arguments: [i32; 3], return_address: u64) {
    page.call.store(call, Ordering::Relaxed);
    for (place, argument) in page.arguments.iter().zip(arguments) {
        place.store(argument, Ordering::Relaxed);
    }
    page.due_source.store(-1, Ordering::Relaxed);
    page.return_address.store(return_address, Ordering::Relaxed);
    page.set_state(PageState::InCall);
}

impl RankThread {
    /// The thread that runs.
    pub(crate) fn new(row: usize) -> Self {
        // SAFETY: always possible.
        let kernel_id = unsafe { libc::gettid() } as u32;
        Self { row, kernel_id, ..Self::default() }
    }

    /// Whether it is in a call that calls from here: the library's own. Of threads that call one at a time, another one's call is none.
    #[inline]
    pub(crate) fn is_in_call_above(&self, stack: usize, is_serialized: bool) -> bool {
        self.in_call.is_some_and(|outer| stack < outer)
            && (!is_serialized || self.called_by == ThisThread::now().number())
    }

    /// It is in this call from now on.
    pub(crate) fn begin_call(
        &mut self,
        page: &SharedPage,
        place: usize,
        call: u32,
        arguments: [i32; 3],
        return_address: u64,
    ) {
        let number = page.calls.load(Ordering::Relaxed);
        self.call = ThreadCall { number, call, arguments, return_address, due_source: -1 };
        if let Some(id) = page.thread_ids.get(place) {
            id.store(self.kernel_id, Ordering::Relaxed);
        }
    }

    /// It waits for a message from this source.
    pub(crate) fn wait_for(&mut self, page: &SharedPage, source: i32) {
        self.call.due_source = source;
        page.due_source.store(source, Ordering::Relaxed);
    }

    /// The page says of the rank what this thread does.
    pub(crate) fn show(&self, page: &SharedPage) {
        show_call(page, self.call.call, self.call.arguments, self.call.return_address);
        page.due_source.store(self.call.due_source, Ordering::Relaxed);
    }
}

/// A thread is in its call no more. The page shows the one that has been in a call for longest, if any still is.
pub(crate) fn end_call(threads: &[RankThread], in_calls: &[usize], place: usize, page: &SharedPage) {
    if let Some(id) = page.thread_ids.get(place) {
        id.store(0, Ordering::Relaxed);
    }
    let in_call = in_calls.iter().filter_map(|place| threads.get(*place));
    match in_call.min_by_key(|thread| thread.call.number) {
        Some(thread) => thread.show(page),
        None => page.set_state(PageState::Outside),
    }
}
