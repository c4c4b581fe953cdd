//! Threads of a rank that runs alone take turns: their calls come in the order in which they came.
//!
//! Where the program decides otherwise (locks of its own), the thread whose turn it is may wait for the one that waits here: then this one goes first.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::alone::OthersTurn;
use super::work::{ContentWork, work};
use crate::owned::Owned;

/// So long a thread whose turn it is may sleep.
const PATIENCE: Duration = Duration::from_millis(20);
/// The same if it waits for another thread.
const PATIENCE_WITH_LOCKS: Duration = Duration::from_millis(2);
/// These are halved each fourth time that a thread has gone first, down to this.
const LEAST_PATIENCE: Duration = Duration::from_micros(60);
/// The same if nothing is recorded any more for the thread that waits: all that others did comes before.
const PATIENCE_AT_END: Duration = Duration::from_secs(2);
/// Between two looks at what the thread does.
const LOOK: Duration = Duration::from_micros(50);
/// So often the processor is only given away.
const MOST_YIELDS: u32 = 100;
const PAUSE: Duration = Duration::from_micros(50);

/// The work, as soon as it is this thread's turn. `polls`: it asks whether a poll answers no.
pub(super) fn in_turn(polls: bool) -> Option<Owned<'static, ContentWork>> {
    // A clock is not read for each call: most need not wait.
    let mut wait = None;
    loop {
        let mut work = work()?;
        let ContentWork::Play(rank) = &mut *work else { return Some(work) };
        let Some(others) = rank.speak(polls) else { return Some(work) };
        let wait = wait.get_or_insert_with(WaitForTurn::new);
        match wait.with(&others) {
            SpeakDue::Soon => {}
            SpeakDue::Gone(place) => rank.has_gone(place),
            SpeakDue::Now => {
                WENT_FIRST.fetch_add(1, Ordering::Relaxed);
                return Some(work);
            }
        }
        drop(work);
        wait.pause();
    }
}

/// What a thread does whose turn it is not.
enum SpeakDue {
    /// It waits.
    Soon,
    /// The thread at this place has ended.
    Gone(usize),
    /// It goes first.
    Now,
}

/// How often threads have gone first.
static WENT_FIRST: AtomicU32 = AtomicU32::new(0);

fn halved(patience: Duration) -> Duration {
    let times = WENT_FIRST.load(Ordering::Relaxed) / 4;
    (patience / (1 << times.min(16))).max(LEAST_PATIENCE)
}

struct WaitForTurn {
    tries: u32,
    looked: Instant,
    /// Since when the threads sleep whose turn it is, and the first of them.
    sleep: Option<(usize, Instant)>,
}

impl WaitForTurn {
    fn new() -> Self {
        Self { tries: 0, looked: Instant::now(), sleep: None }
    }

    fn with(&mut self, others: &OthersTurn) -> SpeakDue {
        let now = Instant::now();
        if now.duration_since(self.looked) < LOOK {
            return SpeakDue::Soon;
        }
        self.looked = now;
        let mut patience = if others.is_at_end { PATIENCE_AT_END } else { PATIENCE };
        let mut first = 0;
        for (place, thread) in others.threads.iter().rev() {
            first = *place;
            match thread.map(|thread| (thread, state(thread))) {
                // One that has not called yet may not have been created, and may never be.
                None if others.is_at_end => {}
                None => patience = halved(PATIENCE),
                Some((_, None)) => return SpeakDue::Gone(*place),
                Some((thread, Some('S'))) if !others.is_at_end && waits_for_thread(thread) => {
                    patience = halved(PATIENCE_WITH_LOCKS);
                }
                Some((_, Some('S'))) => {}
                // In a debugger it may be stopped.
                Some(_) => {
                    self.sleep = None;
                    return SpeakDue::Soon;
                }
            }
        }
        let since = match self.sleep {
            Some((place, since)) if place == first => since,
            _ => now,
        };
        self.sleep = Some((first, since));
        if now.duration_since(since) < patience { SpeakDue::Soon } else { SpeakDue::Now }
    }

    fn pause(&mut self) {
        self.tries += 1;
        if self.tries < MOST_YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Whether a thread of this process waits for a lock, a condition or the end of another one.
fn waits_for_thread(thread: libc::pid_t) -> bool {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap_or_default();
    let number = text.split_whitespace().next().and_then(|number| number.parse::<libc::c_long>().ok());
    number == Some(libc::SYS_futex)
}

/// What the kernel says that a thread of this process does. None: it has ended.
fn state(thread: libc::pid_t) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    // Its name stands in brackets, and may have some itself.
    let (_, behind) = text.rsplit_once(") ")?;
    behind.chars().next().filter(|state| !"ZX".contains(*state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_is_told_from_one_that_runs_and_one_that_has_ended() {
        // SAFETY: a system call without arguments.
        let own = || unsafe { libc::gettid() };
        assert_eq!(state(own()), Some('R'));
        let (tell, told) = std::sync::mpsc::channel();
        let (end, is_over) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(own()).unwrap();
            let _ = is_over.recv();
        });
        let other = told.recv().unwrap();
        while state(other) != Some('S') {
            std::thread::yield_now();
        }
        assert!(waits_for_thread(other));
        drop(end);
        thread.join().unwrap();
        while state(other).is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn whoever_waits_for_a_thread_that_sleeps_goes_first_at_last() {
        let mut wait = WaitForTurn::new();
        let others = OthersTurn { threads: vec![(1, None)], is_at_end: false };
        let begin = Instant::now();
        while !matches!(wait.with(&others), SpeakDue::Now) {
            wait.pause();
        }
        assert!(begin.elapsed() >= PATIENCE);
    }
}
