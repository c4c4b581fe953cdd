//! Clocks that the program reads: a program that decides by the time goes another way in each run.
//!
//! Only the thread that communicates is asked, and only outside of MPI calls: what the MPI library reads is its own affair.
//! Nothing here allocates, and nothing waits: clocks are read in signal handlers and by allocators too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use replay::{CLOCKS, Playback};

use crate::callers::Callers;
use crate::mode::Wish;
use crate::rank::{RankWork, try_rank};
use crate::thread::ThisThread;
use crate::{files, mode};

/// MPI_Wtime, which shows the bits of a floating-point number of seconds. All other clocks show whole numbers.
const WTIME: u8 = 0;

/// The thread whose readings are recorded or replayed. 0: none.
static READER: AtomicU64 = AtomicU64::new(0);
/// Before MPI_Init.
static EARLY: Mutex<EarlyReadings> = Mutex::new(EarlyReadings::None);
static CALLERS: Mutex<Callers> = Mutex::new(Callers::new());

/// What becomes of readings before MPI_Init, when it is not known yet whether the process becomes a rank.
enum EarlyReadings {
    /// Nobody asks for them.
    None,
    /// They are kept for the record.
    Kept(Vec<(u8, i64)>),
    /// They show what is recorded.
    Played(PlayedClocks),
}

/// More are not kept.
const MOST_EARLY: usize = 4096;

/// A record, and how clocks go on behind its end.
#[derive(Debug)]
pub(crate) struct PlayedClocks {
    pub playback: Playback,
    /// What they showed really, at the first reading behind the end, and what they showed last in the record.
    ended: [Option<(i64, i64)>; CLOCKS],
}

impl PlayedClocks {
    pub(crate) fn new(playback: Playback) -> Self {
        Self { playback, ended: [None; CLOCKS] }
    }

    /// What a clock shows that really shows `real`.
    ///
    /// # Errors
    /// The program does something else than it did.
    pub(crate) fn read(&mut self, clock: u8, real: i64) -> Result<i64, replay::Divergence> {
        if let Some(shows) = self.playback.clock(clock)? {
            return Ok(shows);
        }
        let Some(last) = self.playback.showed(clock) else { return Ok(real) };
        let Some(ended) = self.ended.get_mut(usize::from(clock)) else { return Ok(real) };
        let (since, last) = *ended.get_or_insert((real, last));
        Ok(gone_on(clock, last, since, real))
    }
}

/// A clock that showed `last` when it really showed `since`, when it really shows `real`.
fn gone_on(clock: u8, last: i64, since: i64, real: i64) -> i64 {
    if clock != WTIME {
        return last.wrapping_add(real.wrapping_sub(since));
    }
    let seconds = |bits: i64| f64::from_bits(bits as u64);
    (seconds(last) + (seconds(real) - seconds(since))).to_bits() as i64
}

/// The process begins.
pub(crate) fn process_begins() {
    // Whoever is not told its rank before MPI_Init could not be given what it read.
    let (Some(wish), Some(rank)) = (mode::wish(), mode::early_rank()) else { return };
    let readings = if wish.replays {
        let Ok(playback) = files::record(&wish.folder, rank) else { return };
        EarlyReadings::Played(PlayedClocks::new(playback))
    } else {
        EarlyReadings::Kept(Vec::with_capacity(MOST_EARLY))
    };
    if let Ok(mut early) = EARLY.lock() {
        *early = readings;
        ask_this_thread();
    }
}

/// From now on this thread's readings are asked for.
fn ask_this_thread() {
    static CHILDREN: Once = Once::new();
    unsafe extern "C" fn is_child() {
        READER.store(0, Ordering::Release);
    }
    // A child has the thread's number, but not its part in the job.
    // SAFETY: a handler that only stores a number.
    CHILDREN.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(is_child)) });
    READER.store(ThisThread::now().number(), Ordering::Release);
}

/// The process is a rank: what was read before.
pub(crate) fn kept() -> Vec<(u8, i64)> {
    match take_early() {
        EarlyReadings::Kept(readings) => readings,
        _ => Vec::new(),
    }
}

/// The same for one that is replayed: its record, played up to here.
///
/// # Errors
/// There is none.
pub(crate) fn played(wish: &Wish, rank: u32) -> Result<PlayedClocks, String> {
    match take_early() {
        EarlyReadings::Played(clocks) if mode::early_rank() == Some(rank) => Ok(clocks),
        _ => files::record(&wish.folder, rank)
            .map(PlayedClocks::new)
            .map_err(|error| format!("its record: {error}")),
    }
}

fn take_early() -> EarlyReadings {
    EARLY.lock().map_or(EarlyReadings::None, |mut early| std::mem::replace(&mut early, EarlyReadings::None))
}

/// The process is a rank, whose readings are asked for.
pub(crate) fn rank_begins() {
    ask_this_thread();
}

/// A clock really shows this; what it is to show. `caller`: an address of who reads it.
pub(crate) fn read(clock: u8, real: i64, caller: usize, stack: usize) -> i64 {
    if READER.load(Ordering::Acquire) != ThisThread::now().number() {
        return real;
    }
    // Whoever reads a clock in a signal handler, while this thread is in here, sees the real one.
    let Ok(mut callers) = CALLERS.try_lock() else { return real };
    if !callers.is_programs(caller) {
        return real;
    }
    if let Some(mut rank) = try_rank() {
        return rank.as_mut().map_or(real, |rank| rank.clock(clock, real, stack));
    }
    let Ok(mut early) = EARLY.try_lock() else { return real };
    match &mut *early {
        EarlyReadings::Kept(readings) if readings.len() < MOST_EARLY => {
            readings.push((clock, real));
            real
        }
        // A shell before the program reads clocks that no rank has read.
        EarlyReadings::Played(clocks) => clocks.read(clock, real).unwrap_or(real),
        _ => real,
    }
}

/// For the rank's work.
pub(crate) fn read_by_rank(work: &mut RankWork, clock: u8, real: i64) -> Result<i64, replay::Divergence> {
    match work {
        RankWork::Record(recorder) => {
            recorder.clock(clock, real);
            Ok(real)
        }
        RankWork::Replay(player) => player.clock(clock, real),
    }
}

#[cfg(test)]
mod tests {
    use replay::Recording;

    use super::*;

    fn bits(seconds: f64) -> i64 {
        seconds.to_bits() as i64
    }

    #[test]
    fn behind_the_end_of_the_record_clocks_go_on_from_what_they_showed() {
        let (mut recording, mut out) = (Recording::default(), Vec::new());
        recording.clock(WTIME, bits(1000.5), &mut out);
        recording.clock(1, 77, &mut out);
        let mut clocks = PlayedClocks::new(Playback::new(out, 0).expect("a record"));
        assert_eq!(clocks.read(WTIME, bits(3.0)), Ok(bits(1000.5)));
        assert_eq!(clocks.read(1, 500), Ok(77));
        assert_eq!(clocks.read(WTIME, bits(4.0)), Ok(bits(1000.5)));
        assert_eq!(clocks.read(WTIME, bits(5.5)), Ok(bits(1002.0)));
        assert_eq!(clocks.read(1, 600), Ok(77));
        assert_eq!(clocks.read(1, 605), Ok(82));
        assert_eq!(clocks.read(2, 9), Ok(9), "it was never read");
    }
}
