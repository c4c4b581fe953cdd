//! The rank that this process is, from MPI_Init to MPI_Finalize.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use replay::shared_page::{PageState, PageText, SEVERAL_THREADS, SharedPage, count_one};
use replay::thread_name::CLOCKS_ROW;
use replay::{Answer, TurnDue};
use rustc_hash::FxHashMap;

use crate::calling_threads::CallingThreads;
use crate::early_clocks;
use crate::message_recorder::MessageRecorder;
use crate::mode::{WishedAction, wish};
use crate::owned::{Owned, OwnedByThread};
use crate::plain_calls::{self, HAS_OTHERS};
use crate::rank_order::RankOrder;
use crate::rank_parts::{Introduction, RankParts, RankWork, parts};
use crate::rank_thread::{RankThread, end_call, show_call};
use crate::recorder::{AnswerRecorder, THREADS_STOP};
use crate::refusal::{diverge, refuse, say};
use crate::thread::{self, ThisThread};
use crate::treatment::Treatment;

pub(crate) struct ThisRank {
    pub work: RankWork,
    /// Records a replay.
    again: Option<Box<AnswerRecorder>>,
    /// Writes down messages, if they are wanted.
    pub messages: Option<Box<MessageRecorder>>,
    /// Where several threads call, clocks have a row of their own, since they are read beside calls: its numbers in what is recorded and
    /// in what is played.
    clock_row: Option<(usize, usize)>,
    /// Those that have made calls; one for all unless these may call at the same time.
    threads: Vec<RankThread>,
    /// The one that acts.
    speaker: usize,
    calling: CallingThreads,
    /// One of them posts a send or receive: its place, and what it was told before.
    posting: Option<(usize, TurnDue)>,
    /// Those that are in calls, by place.
    in_calls: Vec<usize>,
    /// Persistent receives from anybody, with their places in the shim's table.
    pub prepared: FxHashMap<u64, u32>,
    /// Requests that stand for persistent receives while these are active.
    stands_in: FxHashMap<u64, u64>,
    /// Sources that posted receives get.
    pub due: FxHashMap<u64, i32>,
    /// The order of all ranks' calls, if it is wanted.
    order: Option<RankOrder>,
}

/// Not zero: threads may make calls at the same time, which post one after the other.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the shim has it under this name")]
static dms_threads: AtomicI32 = AtomicI32::new(0);

/// How many requests stand for persistent receives.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the shim has it under this name")]
static dms_stand_ins: AtomicI32 = AtomicI32::new(0);

/// The one rank of this process: of the thread that called MPI_Init, or of all.
static RANK: OwnedByThread<ThisRank> = OwnedByThread::new();
/// For other threads.
static FOR_OTHERS: OnceLock<RankForOthers> = OnceLock::new();
/// The program has created threads.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);

/// What other threads must know of the rank.
struct RankForOthers {
    page: &'static SharedPage,
    /// In a replay: whether a rank that diverges is stopped.
    replay_holds: Option<bool>,
}

/// The rank, if there is one, for its thread, or any thread that may call.
#[inline]
pub(crate) fn rank() -> Option<Owned<'static, ThisRank>> {
    speaking(RANK.get()?)
}

/// The same, unless another thread is at it for long: who asks may hold a lock that this one needs.
pub(crate) fn rank_soon() -> Option<Owned<'static, ThisRank>> {
    speaking(RANK.get_soon()?)
}

#[inline]
fn speaking(mut rank: Owned<'static, ThisRank>) -> Option<Owned<'static, ThisRank>> {
    (!rank.is_multiple() || rank.speak()).then_some(rank)
}

/// From now on there is no rank.
pub(crate) fn close() {
    plain_calls::end();
    RANK.close();
}

/// Whether this thread is in a call.
pub(crate) fn is_in_call() -> bool {
    let place = thread::place();
    RANK.get().is_some_and(|rank| place.is_some_and(|place| rank.in_call(place).is_some()))
}

/// Whether the program has created threads.
pub(crate) fn has_threads() -> bool {
    HAS_THREADS.load(Ordering::Acquire)
}

/// The program is about to create a thread.
pub(crate) fn thread_is_created() {
    // The first one is created by the only thread that there is.
    if !HAS_THREADS.swap(true, Ordering::AcqRel)
        && let Some(mut rank) = RANK.get()
    {
        rank.expect_threads();
        if rank.calling != CallingThreads::One {
            RANK.share();
        }
    }
}

/// A call of a thread that the rank does not belong to, if there is one, is neither recorded nor replayed, which is told.
#[cold]
pub(crate) fn pass_others() -> Treatment {
    // Others get at a rank that is shared, except in the midst of a call or after a panic.
    let gets_at_it = RANK.is_shared() && (dms_threads.load(Ordering::Relaxed) == 0 || thread::name() != 0);
    if RANK.is_anothers() && !gets_at_it && !HAS_OTHERS.swap(true, Ordering::AcqRel) {
        FOR_OTHERS.get().inspect(|rank| rank.tell_of_thread());
    }
    Treatment::Pass
}

impl RankForOthers {
    fn tell_of_thread(&self) {
        match self.replay_holds {
            Some(holds) => diverge(
                self.page,
                holds,
                "a second thread communicates; only one does in the record, or with --messages",
            ),
            // The record itself belongs to the rank's thread, which ends it with its next call.
            None => {
                self.page.set_text(PageText::Message, THREADS_STOP);
                self.page.stopped.store(1, Ordering::Release);
            }
        }
    }
}

/// Begins, if dmscope wishes it.
pub(crate) fn begin(introduction: &Introduction) {
    let Some(wish) = wish() else { return };
    let rank = introduction.rank;
    match parts(&wish, introduction) {
        Ok(RankParts { work, again, messages, order }) => {
            let mut rank = ThisRank {
                work,
                again,
                messages,
                order,
                threads: vec![RankThread::new(0)],
                speaker: 0,
                calling: CallingThreads::One,
                posting: None,
                in_calls: Vec::new(),
                clock_row: None,
                prepared: FxHashMap::default(),
                stands_in: FxHashMap::default(),
                due: FxHashMap::default(),
            };
            let replay_holds = match &rank.work {
                RankWork::Record(_) | RankWork::Logical(_) => None,
                RankWork::Replay(player) => Some(player.holds),
            };
            let _ = FOR_OTHERS.set(RankForOthers { page: rank.page(), replay_holds });
            thread::set_place(0);
            if HAS_THREADS.load(Ordering::Acquire) {
                rank.expect_threads();
            }
            if rank.is_plain()
                && let RankWork::Record(recorder) = &rank.work
            {
                recorder.begin_plain_calls();
            }
            let is_shared = rank.calling != CallingThreads::One;
            RANK.give(rank, is_shared);
            if wish.action != WishedAction::Deterministic {
                early_clocks::rank_begins();
            }
        }
        Err(why) if wish.action == WishedAction::Deterministic => refuse(&wish, rank, &why),
        Err(why) if wish.action == WishedAction::Replay => {
            say(&format!("rank {rank} cannot be replayed: {why}"));
            refuse(&wish, rank, &why);
        }
        Err(why) => say(&format!("rank {rank} is not recorded: {why}")),
    }
}

/// Whether a thread may post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostDue {
    /// Another one does.
    Soon = 0,
    /// From now on.
    Now = 1,
    /// Others must have posted before, which may take long.
    OthersFirst = 2,
}

/// Calls that announce what they send: by their numbers in the shim's table.
const SENDS: [u32; 14] = [4, 5, 6, 7, 22, 23, 29, 30, 31, 32, 33, 34, 35, 36];

impl ThisRank {
    pub(crate) fn page(&self) -> &'static SharedPage {
        match &self.work {
            RankWork::Record(recorder) => recorder.page(),
            RankWork::Replay(player) => player.page(),
            RankWork::Logical(rank) => rank.page(),
        }
    }

    /// What records its answers, if anything does.
    pub(crate) fn recorder(&mut self) -> Option<&mut AnswerRecorder> {
        match &mut self.work {
            RankWork::Record(recorder) => Some(recorder),
            RankWork::Replay(_) => self.again.as_deref_mut(),
            RankWork::Logical(_) => None,
        }
    }

    /// Whether its record has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(&self.work, RankWork::Record(recorder) if recorder.is_stopped())
    }

    /// Records no more from here on.
    pub(crate) fn stop_recording(&mut self, why: &str) {
        if let Some(recorder) = self.recorder() {
            recorder.stop(why);
        }
    }

    fn is_multiple(&self) -> bool {
        self.calling == CallingThreads::Several
    }

    /// Nothing is done but to record what one thread is answered.
    fn is_plain(&self) -> bool {
        matches!(self.work, RankWork::Record(_))
            && self.messages.is_none()
            && self.order.is_none()
            && self.calling == CallingThreads::One
    }

    /// Calls of more than one thread, or of one too many, go through the rank.
    fn end_plain_calls(&mut self) {
        if let Some(state) = plain_calls::end() {
            self.threads[0].in_call = state.in_call;
            if let Some(recorder) = self.recorder() {
                recorder.set_call_check(state.check);
            }
        }
    }

    /// The program has threads from here on.
    fn expect_threads(&mut self) {
        if matches!(self.work, RankWork::Logical(_)) {
            return;
        }
        let level = self.page().thread_level.load(Ordering::Relaxed);
        let Some(calling) = CallingThreads::at_level(level, self.messages.is_some()) else { return };
        match calling {
            CallingThreads::One => {
                if let RankWork::Replay(player) = &mut self.work {
                    player.threads_compute();
                }
                // The record itself says from where on they are beside.
                let played = self.threads[self.speaker].row;
                self.clock_row = self.recorder().map(|recorder| (recorder.add_thread(CLOCKS_ROW), played));
            }
            CallingThreads::OneAtATime => {
                self.end_plain_calls();
                let played = match &mut self.work {
                    RankWork::Replay(player) => {
                        player.clocks_beside_threads().unwrap_or_else(|| player.thread(CLOCKS_ROW))
                    }
                    _ => 0,
                };
                let recorded = self.recorder().map_or(0, |recorder| recorder.add_thread(CLOCKS_ROW));
                self.clock_row = Some((recorded, played));
            }
            CallingThreads::Several => {
                self.end_plain_calls();
                self.page().threads.store(1, Ordering::Relaxed);
                self.add_clock_row();
                dms_threads.store(1, Ordering::Release);
            }
        }
        self.calling = calling;
    }

    /// Clocks of the first thread go beside the calls of all. It takes the place of a thread, so that places and numbers in the record stay the
    /// same.
    fn add_clock_row(&mut self) {
        let played = match &mut self.work {
            RankWork::Replay(player) => player.clocks_beside_threads(),
            _ => Some(0),
        };
        let Some(played) = played else { return };
        let place = self.threads.len();
        self.threads.push(RankThread::new(played));
        let recorded = self.recorder().map_or(place, |recorder| recorder.add_thread(CLOCKS_ROW));
        self.clock_row = Some((recorded, played));
        self.page().threads.store(place as u32 + 1, Ordering::Relaxed);
    }

    /// Threads call one at a time.
    fn is_serialized(&self) -> bool {
        self.calling == CallingThreads::OneAtATime
    }

    /// The thread that runs acts from here on. One that has no name may not.
    fn speak(&mut self) -> bool {
        let place = match thread::place() {
            Some(place) => place,
            None => match thread::name() {
                0 => return false,
                name => self.add_thread(name),
            },
        };
        self.speaker = place;
        let row = self.threads[place].row;
        self.speak_as(place, row);
        true
    }

    /// Numbers of whoever acts, in what is recorded and in what is played.
    fn speak_as(&mut self, recorded: usize, played: usize) {
        if let RankWork::Replay(player) = &mut self.work {
            player.speak(played);
        }
        if let Some(recorder) = self.recorder() {
            recorder.speak(recorded);
        }
    }

    fn add_thread(&mut self, name: u64) -> usize {
        let row = match &mut self.work {
            RankWork::Replay(player) => player.thread(name),
            _ => 0,
        };
        let place = self.threads.len();
        self.threads.push(RankThread::new(row));
        if let Some(recorder) = self.recorder() {
            let number = recorder.add_thread(name);
            debug_assert_eq!(number, place, "threads are added to both in the same order");
        }
        thread::set_place(place);
        self.page().threads.store(place as u32 + 1, Ordering::Relaxed);
        if place > 0 {
            self.page().uncovered.fetch_or(1 << SEVERAL_THREADS, Ordering::Relaxed);
        }
        place
    }

    /// The thread that acts.
    #[inline]
    pub(crate) fn thread(&mut self) -> &mut RankThread {
        &mut self.threads[self.speaker]
    }

    /// The thread is about to post a send or receive, or to take a message: says whether it may. One that may not asks again.
    pub(crate) fn begin_post(&mut self) -> PostDue {
        let due = match &self.work {
            RankWork::Replay(player) => player.turn(),
            RankWork::Record(_) | RankWork::Logical(_) => TurnDue::Free,
        };
        let must_wait = due == TurnDue::Later;
        if self.thread().waits_for_turn != must_wait {
            self.thread().waits_for_turn = must_wait;
            let waiting = self.threads.iter().filter(|thread| thread.waits_for_turn).count();
            self.page().waiting_for_turn.store(waiting as u32, Ordering::Relaxed);
        }
        match (self.posting, due) {
            (_, TurnDue::Later) => PostDue::OthersFirst,
            (Some(_), _) => PostDue::Soon,
            (None, due) => {
                self.posting = Some((self.speaker, due));
                PostDue::Now
            }
        }
    }

    /// It has done so, or found that there was nothing to do.
    pub(crate) fn end_post(&mut self, has_posted: bool) {
        let due = self.posting.take();
        if !has_posted {
            return;
        }
        if let RankWork::Replay(player) = &mut self.work
            && matches!(due, Some((_, TurnDue::Now)))
        {
            player.turn_taken();
        }
        if let Some(recorder) = self.recorder() {
            recorder.turn();
        }
    }

    /// Whether others have posts before them that were recorded. Then the call answers no for now, and does not count: a thread that asks
    /// again and again does not go on.
    pub(crate) fn must_come_later(&mut self) -> bool {
        let must = matches!(&self.work, RankWork::Replay(player) if player.turn() == TurnDue::Later);
        if must {
            self.does_not_count();
        }
        must
    }

    /// The call that has begun is none by which the rank goes on.
    pub(crate) fn does_not_count(&self) {
        let calls = &self.page().calls;
        calls.store(calls.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    /// The request that stands for a persistent receive.
    pub(crate) fn stand_in(&self, request: u64) -> Option<u64> {
        self.stands_in.get(&request).copied()
    }

    pub(crate) fn set_stand_in(&mut self, request: u64, stand_in: u64) {
        self.stands_in.insert(request, stand_in);
        dms_stand_ins.store(self.stands_in.len() as i32, Ordering::Relaxed);
    }

    pub(crate) fn take_stand_in(&mut self, request: u64) -> Option<u64> {
        let stand_in = self.stands_in.remove(&request);
        dms_stand_ins.store(self.stands_in.len() as i32, Ordering::Relaxed);
        stand_in
    }

    /// It waits for a message from this source.
    pub(crate) fn wait_for(&mut self, source: i32) {
        let page = self.page();
        self.thread().wait_for(page, source);
    }

    /// Where the stack was when the call began that a thread is in.
    fn in_call(&self, place: usize) -> Option<usize> {
        if plain_calls::are_on() {
            return plain_calls::in_call();
        }
        self.threads.get(place).and_then(|thread| thread.in_call)
    }

    /// Whether a call is being made: what is called now, the library calls.
    pub(crate) fn is_in_call(&self) -> bool {
        self.in_call(self.speaker).is_some()
    }

    /// A call begins.
    pub(crate) fn enter(
        &mut self,
        call: u32,
        arguments: [i32; 3],
        return_address: u64,
        stack: usize,
    ) -> Treatment {
        self.end_plain_calls();
        let (page, place, is_multiple) = (self.page(), self.speaker, self.is_multiple());
        let is_serialized = self.is_serialized();
        let thread = self.thread();
        // One that was left by a jump is farther down than whoever calls now, or was another thread's.
        if thread.is_in_call_above(stack, is_serialized) {
            return Treatment::Pass;
        }
        thread.in_call = Some(stack);
        thread.has_answered_no = false;
        count_one(&page.calls);
        if is_serialized {
            thread.called_by = ThisThread::now().number();
        }
        if is_multiple {
            thread.begin_call(page, place, call, arguments, return_address);
            if !self.in_calls.contains(&place) {
                self.in_calls.push(place);
            }
            if self.posting.is_some_and(|(poster, _)| poster == place) {
                self.posting = None;
            }
        }
        show_call(page, call, arguments, return_address);
        if let Some(messages) = &mut self.messages {
            messages.journal.call();
        }
        if let Some(again) = &mut self.again {
            again.call(call, arguments);
        }
        match &mut self.work {
            RankWork::Record(recorder) => {
                if HAS_OTHERS.load(Ordering::Relaxed) {
                    recorder.stop_for_threads();
                }
                if recorder.is_stopped() {
                    self.go_out();
                    return Treatment::Pass;
                }
                recorder.call(call, arguments);
                Treatment::Record
            }
            RankWork::Replay(player) => {
                player.call(call, arguments);
                Treatment::Replay
            }
            RankWork::Logical(rank) => {
                rank.enter(SENDS.contains(&call));
                Treatment::Logical
            }
        }
    }

    /// The program reads a clock that really shows `real`: what it is to show.
    pub(crate) fn clock(&mut self, clock: u8, real: i64, stack: usize) -> i64 {
        // Within a call it is the library that asks.
        let is_serialized = self.is_serialized();
        let is_librarys = match plain_calls::are_on() {
            true => plain_calls::in_call().is_some_and(|outer| stack < outer),
            false => self.thread().is_in_call_above(stack, is_serialized),
        };
        if is_librarys {
            return real;
        }
        let (recorded, played) = self.clock_row.unwrap_or((self.speaker, self.threads[self.speaker].row));
        self.speak_as(recorded, played);
        let shows = match &mut self.work {
            RankWork::Record(_) => Ok(real),
            RankWork::Replay(player) => player.clock(clock, real),
            RankWork::Logical(_) => Ok(real),
        };
        let shows = shows.unwrap_or_else(|divergence| {
            self.diverge(&divergence.to_string());
            real
        });
        if let Some(recorder) = self.recorder() {
            recorder.clock(clock, shows);
        }
        let row = self.threads[self.speaker].row;
        self.speak_as(self.speaker, row);
        shows
    }

    /// A poll answers no.
    #[inline]
    pub(crate) fn answer_no(&mut self) {
        self.thread().has_answered_no = true;
        if let Some(recorder) = self.recorder() {
            recorder.answer(Answer::No);
        }
    }

    /// Its call is about to end: says whether it may. One that may not is asked about again.
    #[inline]
    pub(crate) fn leave(&mut self) -> bool {
        if plain_calls::leave() {
            return true;
        }
        // Polls that answer no are counted, and have no position.
        if self.order.is_some() && !self.thread().has_answered_no && !self.take_position() {
            return false;
        }
        self.go_out();
        true
    }

    /// Takes the call's position in the order of all ranks' calls, if its turn has come.
    fn take_position(&mut self) -> bool {
        let Some(order) = &self.order else { return true };
        let mut due = self.threads[self.speaker].due_position;
        if let RankWork::Replay(player) = &mut self.work
            && due.is_none()
        {
            match player.position() {
                Ok(position) => due = position.filter(|position| order.is_due(*position)),
                Err(divergence) => {
                    self.diverge(&divergence.to_string());
                    return true;
                }
            }
            // A thread whose record has ended comes after those that still have positions.
            let last = player.last_position().filter(|_| self.calling == CallingThreads::Several);
            if due.is_none() && last.is_some_and(|last| !order.has_passed(last)) {
                return false;
            }
        }
        let taken = order.take(due);
        self.show_position(if taken.is_none() { due } else { None });
        let Some(position) = taken else { return false };
        if let Some(recorder) = self.recorder() {
            recorder.position(position);
        }
        true
    }

    /// The thread's call waits for this position. The page shows the first one that any thread waits for.
    fn show_position(&mut self, due: Option<u64>) {
        if std::mem::replace(&mut self.thread().due_position, due) != due {
            let first = self.threads.iter().filter_map(|thread| thread.due_position).min();
            self.page().position.store(first.map_or(0, |position| position + 1), Ordering::Relaxed);
        }
    }

    /// It is in its call no more.
    fn go_out(&mut self) {
        self.thread().in_call = None;
        if let RankWork::Logical(rank) = &self.work {
            rank.publish();
        }
        if self.is_multiple() {
            self.in_calls.retain(|place| *place != self.speaker);
            end_call(&self.threads, &self.in_calls, self.speaker, self.page());
        } else {
            self.page().set_state(PageState::Outside);
        }
    }

    /// The program does something else than it did: stops here. In a debugger the rank can be looked at.
    pub(crate) fn diverge(&mut self, why: &str) {
        if let RankWork::Replay(player) = &self.work {
            if self.is_multiple() {
                self.threads[self.speaker].show(self.page());
            }
            diverge(self.page(), player.holds, why);
        }
    }
}
