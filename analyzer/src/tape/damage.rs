//! What is wrong with a tape.

use super::frame::VERSION;
use super::input::Loss;
use super::weight::Weight;

/// Why a tape cannot be read (any further).
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// Nothing in it.
    #[error("the tape is empty: the recorder was stopped before it wrote anything; record again")]
    Empty,
    /// Something else.
    #[error("not a dmscope tape: give a file that was written with `--record`")]
    NotATape,
    /// From the future.
    #[error(
        "the tape has format version {version}, this dmscope reads up to {VERSION}: use the version that recorded it, or a newer one"
    )]
    NewerVersion {
        /// The tape's version.
        version: u32,
    },
    /// There is a file header, perhaps a part of a frame, and no more.
    #[error(
        "no whole frame in the tape: the recorder was stopped at once, or the file was cut; record again"
    )]
    NoFrame,
    /// The file cannot be read.
    #[error("cannot read the tape")]
    Io(#[from] std::io::Error),
}

/// A place of a tape where inputs are missing, or bytes that belong to no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Why.
    pub cause: Cause,
    /// Where in the file it begins.
    pub position_bytes: u64,
    /// How much of the file cannot be read.
    pub skipped_bytes: u64,
    /// What is missing; `None` if no readable frame follows, which alone could tell.
    pub missing: Option<Weight>,
    /// Time of the last input before it, CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// Time of the first input after it; `from_ns` if there is none.
    pub to_ns: u64,
}

/// Why inputs are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Bytes were changed, inserted or removed.
    Damaged,
    /// The recorder could not write (disk full) for a while.
    NotWritten,
    /// The file ends inside a frame: it was cut.
    Cut,
    /// The last frame is whole, but it is not the end of the session: the recorder was
    /// killed, or is still writing.
    Unfinished,
    /// There is so much damage that the rest is not looked at.
    GaveUp,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.position_bytes;
        match self.cause {
            Cause::Damaged => write!(f, "damaged at byte {at}: {} bytes skipped", self.skipped_bytes)?,
            Cause::NotWritten => write!(f, "the recorder could not write for a while (byte {at})")?,
            Cause::Cut => {
                write!(f, "cut inside a frame at byte {at}: {} bytes unusable", self.skipped_bytes)?
            }
            Cause::GaveUp => write!(f, "too much damage: nothing is read from byte {at} on")?,
            Cause::Unfinished => {
                return write!(f, "no end of session: the recorder was killed, or is still writing");
            }
        }
        match self.missing {
            Some(missing) => write!(f, ", {} inputs missing", missing.inputs),
            None => write!(f, ", how many inputs are missing is not known"),
        }
    }
}

impl Damage {
    /// What the pipeline must be told: the missing records as losses of every process seen so far.
    ///
    /// Whose records they were is not known, and any of them may have been of an MPI call. They are spread evenly, rounded up, so that the
    /// sum is never less than what is missing.
    pub fn losses(&self, pids: impl ExactSizeIterator<Item = u32>) -> impl Iterator<Item = Loss> {
        let (calls, state) = match self.missing {
            Some(missing) => (missing.movements, missing.state),
            None if self.cause == Cause::Unfinished => (0, 0),
            None => (1, 1),
        };
        let share = pids.len().max(1) as u64;
        let (calls, state) = (calls.div_ceil(share), state.div_ceil(share));
        let loss =
            move |pid| Loss { pid, from_ns: self.from_ns, to_ns: self.to_ns, movements: 0, calls, state };
        pids.filter(move |_| calls > 0 || state > 0).map(loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_much_is_missing_it_is_a_loss_of_everybody() {
        let missing = Weight { inputs: 2, movements: u64::MAX, state: 1 };
        let damage = Damage {
            position_bytes: 0,
            skipped_bytes: 1,
            cause: Cause::Damaged,
            missing: Some(missing),
            from_ns: 1,
            to_ns: 2,
        };
        let losses: Vec<_> = damage.losses([7, 8].into_iter()).collect();
        assert_eq!(losses.iter().map(|loss| loss.pid).collect::<Vec<_>>(), [7, 8]);
        assert!(losses.iter().all(|loss| loss.calls == 1 << 63 && loss.state == 1), "{losses:?}");
        let none = Damage { missing: Some(Weight { movements: 0, state: 0, ..missing }), ..damage };
        assert_eq!(none.losses([7].into_iter()).count(), 0);
    }
}
