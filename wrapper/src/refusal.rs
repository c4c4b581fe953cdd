//! How a rank that must not go on ends, and what it says.

use std::io::Write;
use std::sync::atomic::Ordering;

use replay::shared_page::{PageState, PageText, SharedPage};

use crate::mode::Wish;
use crate::place::place_of;

/// One line, to standard error; at once, since other ranks write there as well.
pub(crate) fn say(words: &str) {
    let _ = std::io::stderr().write_all(format!("dmscope: {words}\n").as_bytes());
}

/// What is not what was wished must not run: ends the process, and with it the job.
pub(crate) fn refuse(wish: &Wish, rank: u32, why: &str) -> ! {
    // For dmscope, where the rank has no page.
    let _ = std::fs::write(wish.folder.join(format!("refused-{rank}")), why);
    exit()
}

/// Ends this process at once, as one that has failed.
fn exit() -> ! {
    const STATUS: i32 = 2;
    // SAFETY: always possible.
    unsafe { libc::_exit(STATUS) }
}

/// The program does something else than it did: stops here, for a debugger if that is wished.
pub(crate) fn diverge(page: &SharedPage, holds: bool, why: &str) -> ! {
    page.set_text(PageText::Message, why);
    let (path, offset_bytes) = place_of(page.return_address.load(Ordering::Relaxed).saturating_sub(1));
    page.set_text(PageText::Place, &format!("{offset_bytes:x} {path}"));
    page.set_state(PageState::Diverged);
    if holds {
        // SAFETY: stops this process until somebody continues it.
        unsafe { libc::raise(libc::SIGSTOP) };
    }
    exit()
}
