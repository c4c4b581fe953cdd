//! Errors that MPI calls reported: those that ended their rank, and those that the program survived.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::findings::finding::{CallError, Fault};
use crate::job::lifecycle::MpiLife;
use crate::job::process::Who;
use crate::mpi::calls::{self, Collective, Waiting};
use crate::mpi::error_classes::{self, Says};
use crate::mpi::handles::Builtin;
use crate::tape::input::{CallInProgress, CodePlace};
use crate::tape::plan::MpiKind;

/// Threads that are in an error at the same time.
const MOST_THREADS: usize = 1 << 16;
/// Different errors that are kept.
const MOST_SURVIVED: usize = 1024;

/// A call that reported an error, or that may not be made at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reported {
    pub time_ns: u64,
    pub error: CallError,
    /// What was wrong in MPI's terms.
    pub fault: Fault,
    /// With its name alone if its beginning was not seen.
    pub call: CallInProgress,
    /// Rank of MPI_COMM_WORLD whose message or data it was, as far as the arguments tell.
    pub sender: Option<u32>,
}

impl Reported {
    /// From what the library said. `begun`: the call, if it was seen to begin.
    pub fn new(time_ns: u64, said: &Said, begun: Option<CallInProgress>, builtin: Option<&Builtin>) -> Self {
        let begun = begun.filter(|call| said.call.is_empty() || call.function == said.call);
        let call = begun
            .unwrap_or_else(|| CallInProgress { function: said.call.clone(), ..CallInProgress::default() });
        let (error, says) = match (said.code, error_classes::class_of(said.kind, said.code)) {
            (0, _) => (CallError::OutsideOfMpi, Says::Wrong),
            (_, Some((name, says))) => (CallError::Class(name.to_owned()), says),
            (code, None) => (CallError::Code(code), Says::Failed),
        };
        let fault = match says {
            Says::Truncated if is_collective(&call.function) => Fault::MismatchedCollective,
            Says::Truncated => Fault::Truncated,
            Says::Wrong => Fault::InvalidCall,
            Says::Failed => Fault::Crash,
        };
        let sender = if says == Says::Truncated { sender(&call, builtin) } else { None };
        Self { time_ns, error, fault, call, sender }
    }

    /// A call that was made when MPI was over.
    pub fn after_finalize(time_ns: u64, call: CallInProgress) -> Self {
        Self { time_ns, error: CallError::AfterFinalize, fault: Fault::InvalidCall, call, sender: None }
    }

    /// MPI_Abort: the program gives up.
    pub fn abort(time_ns: u64, call: CallInProgress) -> Self {
        let code = call.arguments.get(1).copied().flatten().unwrap_or_default() as i32;
        Self { time_ns, error: CallError::Abort(code), fault: Fault::Crash, call, sender: None }
    }

    /// Whether it is the program's own decision, and no fault by its own account.
    pub fn is_intended(&self) -> bool {
        self.error == CallError::Abort(0)
    }

    /// What is known of the process at its end.
    pub fn learn(&mut self, life: &MpiLife) {
        if self.error == CallError::OutsideOfMpi && life.is_over() {
            self.error = CallError::AfterFinalize;
        }
    }

    /// The same at the same place of the program.
    pub fn is_like(&self, other: &Self) -> bool {
        let key = |reported: &Self| (reported.call.function.clone(), reported.call.site);
        self.error == other.error && key(self) == key(other)
    }
}

fn is_collective(function: &str) -> bool {
    let waiting = calls::row(function).and_then(calls::CallRow::waiting);
    matches!(waiting, Some(Waiting::Collective { .. }))
}

/// Of a message from any rank, or in a communicator that is not known, it is not known.
fn sender(call: &CallInProgress, builtin: Option<&Builtin>) -> Option<u32> {
    let row = calls::row(&call.function)?;
    let (rank, comm) = match row.waiting() {
        Some(Waiting::Collective(Collective { root, comm, .. })) => (root?, comm),
        _ => row.receives().map(|envelope| (envelope.peer, envelope.comm))?,
    };
    let word = |at: usize| call.arguments.get(at).copied().flatten();
    let is_world = builtin?.is_world(word(comm)?);
    u32::try_from(word(rank)? as i32).ok().filter(|_| is_world)
}

/// What a record of an error has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub kind: MpiKind,
    /// 0: MPI was not there.
    pub code: i32,
    /// Name of the call as in the standard; empty: not known.
    pub call: String,
}

impl Said {
    /// `function`: of the library, that was called with the error. `None`: it is none.
    pub fn read(function: &str, args: &[u64; 6]) -> Option<Self> {
        /// Called without a code if MPI was not there.
        const FATAL: &str = "ompi_mpi_errors_are_fatal_comm_handler";
        let kind = if function.starts_with("MPIR_") { MpiKind::Mpich } else { MpiKind::OpenMpi };
        let code = args[0] as i32;
        (code != 0 || function == FATAL).then(|| Self { kind, code, call: name_of(&args[1..]) })
    }
}

/// The name of a call from how the library writes it.
fn name_of(words: &[u64]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    let text = String::from_utf8(bytes).unwrap_or_default();
    let own = ["internal_", "PMPI_", "MPI_"].iter().find_map(|prefix| text.strip_prefix(prefix));
    let is_name = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    own.filter(is_name).map_or_else(String::new, |name| format!("MPI_{name}"))
}

/// An error that the program went on after.
#[derive(Clone, Debug)]
pub(crate) struct Survived {
    pub first: Reported,
    pub who: BTreeSet<Who>,
    pub count: u64,
}

/// What tells survived errors apart.
type ErrorKey = (String, Option<CodePlace>, CallError);

/// All of a session.
#[derive(Default)]
pub(crate) struct Errors {
    /// By process and thread: it has reported an error and has not gone on.
    under_way: FxHashMap<(u32, u32), (Who, Reported)>,
    survived: BTreeMap<ErrorKey, Survived>,
}

impl Errors {
    /// A thread reports an error.
    pub fn begin(&mut self, pid: u32, tid: u32, who: Who, reported: Reported) {
        if self.under_way.len() < MOST_THREADS {
            // One for another one's sake is the same.
            self.under_way.entry((pid, tid)).or_insert((who, reported));
        }
    }

    /// A thread came back from where errors are reported, or went on otherwise. Whether that is news.
    #[inline(always)]
    pub fn go_on(&mut self, pid: u32, tid: u32) -> bool {
        // Mostly there is none: a call asks this.
        !self.under_way.is_empty() && self.go_on_after(pid, tid)
    }

    fn go_on_after(&mut self, pid: u32, tid: u32) -> bool {
        let Some((who, reported)) = self.under_way.remove(&(pid, tid)) else { return false };
        self.survive(who, reported);
        true
    }

    fn survive(&mut self, who: Who, reported: Reported) {
        let key = (reported.call.function.clone(), reported.call.site, reported.error.clone());
        if self.survived.len() >= MOST_SURVIVED && !self.survived.contains_key(&key) {
            return;
        }
        let new = || Survived { first: reported, who: BTreeSet::new(), count: 0 };
        let survived = self.survived.entry(key).or_insert_with(new);
        survived.who.insert(who);
        survived.count += 1;
    }

    /// A process ended: the error that it ended in, the first of its threads'.
    pub fn end(&mut self, pid: u32) -> Option<Reported> {
        let of_process = self.under_way.extract_if(|key, _| key.0 == pid);
        of_process.map(|(_, (_, reported))| reported).min_by_key(|reported| reported.time_ns)
    }

    /// Whether a process went on is not known any more.
    pub fn forget(&mut self, pid: u32) {
        self.under_way.retain(|key, _| key.0 != pid);
    }

    /// The same of all.
    pub fn clear(&mut self) {
        self.under_way.clear();
    }

    /// When the first error began that is still being reported.
    pub fn under_way_since(&self) -> Option<u64> {
        self.under_way.values().map(|(_, reported)| reported.time_ns).min()
    }

    /// Errors that the program went on after.
    pub fn survived(&self) -> impl Iterator<Item = &Survived> {
        self.survived.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> [u64; 6] {
        let mut bytes = [0; 40];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        let mut args = [15; 6];
        for (word, chunk) in args[1..].iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().unwrap());
        }
        args
    }

    #[test]
    fn a_call_has_the_name_that_the_standard_gives_it() {
        let name = |text| Said::read("ompi_errhandler_invoke", &words(text)).unwrap().call;
        assert_eq!(name("MPI_Recv"), "MPI_Recv");
        assert_eq!(name("PMPI_Recv"), "MPI_Recv");
        assert_eq!(name("internal_Neighbor_alltoallw_init_c"), "MPI_Neighbor_alltoallw_init_c");
        for other in ["", "Recv", "MPI_\u{1b}[31m", "MPI_Recv with a comment"] {
            assert_eq!(name(other), "", "{other}");
        }
        assert_eq!(Said::read("MPIR_Err_return_comm", &[u64::MAX; 6]).unwrap().call, "");
    }

    #[test]
    fn success_is_no_error_and_no_code_is_one_where_mpi_is_not_there() {
        let args = [0; 6];
        assert_eq!(Said::read("ompi_errhandler_invoke", &args), None);
        assert_eq!(Said::read("MPIR_Err_return_comm", &args), None);
        let said = Said::read("ompi_mpi_errors_are_fatal_comm_handler", &args).unwrap();
        assert_eq!(Reported::new(1, &said, None, None).error, CallError::OutsideOfMpi);
    }

    #[test]
    fn a_call_that_another_name_was_reported_for_is_not_the_one() {
        let said = Said::read("ompi_errhandler_invoke", &words("MPI_Test")).unwrap();
        let begun = CallInProgress {
            function: "MPI_Irecv".into(),
            site: Some(CodePlace::default()),
            ..CallInProgress::default()
        };
        let reported = Reported::new(1, &said, Some(begun), None);
        assert_eq!((reported.call.function.as_str(), reported.call.site), ("MPI_Test", None));
    }

    #[test]
    fn what_a_thread_went_on_after_did_not_end_it() {
        let said = Said::read("ompi_errhandler_invoke", &words("MPI_Recv")).unwrap();
        let reported = Reported::new(1, &said, None, None);
        let mut errors = Errors::default();
        for _ in 0..3 {
            errors.begin(7, 7, Who::Rank(0), reported.clone());
            assert!(errors.go_on(7, 7));
        }
        assert_eq!(errors.end(7), None);
        assert_eq!(errors.survived().map(|survived| survived.count).collect::<Vec<_>>(), [3]);
        errors.begin(7, 8, Who::Rank(0), reported.clone());
        assert!(!errors.go_on(7, 7));
        assert_eq!(errors.end(7), Some(reported));
        assert_eq!(errors.end(7), None);
    }
}
