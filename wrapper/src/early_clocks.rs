//! Readings of clocks before MPI_Init, when it is not known yet whether the process becomes a rank; and whose are asked for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use crate::alone_clocks::AloneClocks;
use crate::files;
use crate::mode::{self, Wish, WishedAction};
use crate::played_clocks::PlayedClocks;
use crate::thread::ThisThread;

/// The thread whose readings are recorded or replayed. 0: none.
static READER: AtomicU64 = AtomicU64::new(0);
/// The thread in which MPI_Init runs, 0: none. There it is libraries that read clocks, and not all of them are known as the MPI library's.
static IN_INIT: AtomicU64 = AtomicU64::new(0);
/// Before MPI_Init.
static EARLY: Mutex<EarlyReadings> = Mutex::new(EarlyReadings::None);

/// What becomes of readings before MPI_Init, when it is not known yet whether the process becomes a rank.
enum EarlyReadings {
    /// Nobody asks for them.
    None,
    /// They are kept for the record.
    Kept(Vec<(u8, i64)>),
    /// They show what is recorded.
    Played(Box<PlayedClocks>),
    /// The same to the end: the rank runs alone.
    Alone(Box<AloneClocks>),
}

/// More are not kept, nor played. Python's interpreter reads a clock whenever it takes a lock, ten thousand times and more while it imports
/// modules. Room that nobody writes to is no memory.
const MOST_EARLY: usize = 1 << 20;

/// The process begins.
pub(crate) fn process_begins() {
    if let Some(path) = mode::clocks_alone() {
        let Ok(clocks) = AloneClocks::read(&path) else { return };
        if let Ok(mut early) = EARLY.lock() {
            *early = EarlyReadings::Alone(Box::new(clocks));
            ask_this_thread();
        }
        return;
    }
    // Whoever is not told its rank before MPI_Init could not be given what it read.
    let (Some(wish), Some(rank)) = (mode::wish(), mode::early_rank()) else { return };
    let readings = match wish.action {
        WishedAction::Record => EarlyReadings::Kept(Vec::with_capacity(MOST_EARLY)),
        WishedAction::Replay => {
            let Ok(playback) = files::record(&wish.folder, rank) else { return };
            let mut clocks = PlayedClocks::new(playback);
            clocks.begin_early(MOST_EARLY, wish.folder.join("again").exists());
            EarlyReadings::Played(Box::new(clocks))
        }
        // They show what they show.
        WishedAction::Deterministic => return,
    };
    if let Ok(mut early) = EARLY.lock() {
        *early = readings;
        ask_this_thread();
    }
}

/// MPI_Init begins or ends: what is read within it is not the program's.
pub(crate) fn init(begins: bool) {
    IN_INIT.store(if begins { ThisThread::now().number() } else { 0 }, Ordering::Release);
}

/// Whether this thread is in MPI_Init.
pub(crate) fn is_in_init() -> bool {
    IN_INIT.load(Ordering::Acquire) == ThisThread::now().number()
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
pub(crate) fn played(wish: &Wish, rank: u32) -> Result<Box<PlayedClocks>, String> {
    match take_early() {
        EarlyReadings::Played(clocks) if mode::early_rank() == Some(rank) => Ok(clocks),
        _ => files::record(&wish.folder, rank)
            .map(|playback| Box::new(PlayedClocks::new(playback)))
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

/// Whether this thread's readings are asked for.
pub(crate) fn are_asked_for() -> bool {
    READER.load(Ordering::Acquire) == ThisThread::now().number()
}

/// A clock is read before MPI_Init; what it is to show.
pub(crate) fn read(clock: u8, real: i64) -> i64 {
    if is_in_init() {
        return real;
    }
    let Ok(mut early) = EARLY.try_lock() else { return real };
    match &mut *early {
        EarlyReadings::Kept(readings) if readings.len() < MOST_EARLY => {
            readings.push((clock, real));
            real
        }
        // A shell before the program reads clocks that no rank has read.
        EarlyReadings::Alone(clocks) => clocks.show(clock, real),
        EarlyReadings::Played(clocks) => clocks.read_early_clock(clock, real).unwrap_or(real),
        _ => real,
    }
}
