//! Classes of errors: names as in the standard, and the numbers that libraries give them.

use crate::tape::plan::MpiKind;

/// What an error says of the call that reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// The message is longer than the buffer for it.
    Truncated,
    /// The call is wrong in itself.
    Wrong,
    /// Something that it needs is not to be had, or nothing that is known here.
    Failed,
}

/// Name, number in Open MPI and in MPICH (-1: it has none), what it says.
type ErrorClass = (&'static str, i32, i32, Says);

use Says::{Failed, Truncated, Wrong};

/// All that either library has.
const CLASSES: [ErrorClass; 60] = [
    ("MPI_ERR_BUFFER", 1, 1, Wrong),
    ("MPI_ERR_COUNT", 2, 2, Wrong),
    ("MPI_ERR_TYPE", 3, 3, Wrong),
    ("MPI_ERR_TAG", 4, 4, Wrong),
    ("MPI_ERR_COMM", 5, 5, Wrong),
    ("MPI_ERR_RANK", 6, 6, Wrong),
    ("MPI_ERR_REQUEST", 7, 19, Wrong),
    ("MPI_ERR_ROOT", 8, 7, Wrong),
    ("MPI_ERR_GROUP", 9, 8, Wrong),
    ("MPI_ERR_OP", 10, 9, Wrong),
    ("MPI_ERR_TOPOLOGY", 11, 10, Wrong),
    ("MPI_ERR_DIMS", 12, 11, Wrong),
    ("MPI_ERR_ARG", 13, 12, Wrong),
    ("MPI_ERR_UNKNOWN", 14, 13, Failed),
    ("MPI_ERR_TRUNCATE", 15, 14, Truncated),
    ("MPI_ERR_OTHER", 16, 15, Failed),
    ("MPI_ERR_INTERN", 17, 16, Failed),
    ("MPI_ERR_IN_STATUS", 18, 17, Failed),
    ("MPI_ERR_PENDING", 19, 18, Failed),
    ("MPI_ERR_ACCESS", 20, 20, Failed),
    ("MPI_ERR_AMODE", 21, 21, Wrong),
    ("MPI_ERR_ASSERT", 22, 53, Wrong),
    ("MPI_ERR_BAD_FILE", 23, 22, Failed),
    ("MPI_ERR_BASE", 24, 46, Wrong),
    ("MPI_ERR_CONVERSION", 25, 23, Failed),
    ("MPI_ERR_DISP", 26, 52, Wrong),
    ("MPI_ERR_DUP_DATAREP", 27, 24, Failed),
    ("MPI_ERR_FILE_EXISTS", 28, 25, Failed),
    ("MPI_ERR_FILE_IN_USE", 29, 26, Failed),
    ("MPI_ERR_FILE", 30, 27, Wrong),
    ("MPI_ERR_INFO_KEY", 31, 29, Wrong),
    ("MPI_ERR_INFO_NOKEY", 32, 31, Failed),
    ("MPI_ERR_INFO_VALUE", 33, 30, Wrong),
    ("MPI_ERR_INFO", 34, 28, Wrong),
    ("MPI_ERR_IO", 35, 32, Failed),
    ("MPI_ERR_KEYVAL", 36, 48, Wrong),
    ("MPI_ERR_LOCKTYPE", 37, 47, Wrong),
    ("MPI_ERR_NAME", 38, 33, Failed),
    ("MPI_ERR_NO_MEM", 39, 34, Failed),
    ("MPI_ERR_NOT_SAME", 40, 35, Wrong),
    ("MPI_ERR_NO_SPACE", 41, 36, Failed),
    ("MPI_ERR_NO_SUCH_FILE", 42, 37, Failed),
    ("MPI_ERR_PORT", 43, 38, Failed),
    ("MPI_ERR_QUOTA", 44, 39, Failed),
    ("MPI_ERR_READ_ONLY", 45, 40, Failed),
    ("MPI_ERR_RMA_CONFLICT", 46, 49, Wrong),
    ("MPI_ERR_RMA_SYNC", 47, 50, Wrong),
    ("MPI_ERR_SERVICE", 48, 41, Failed),
    ("MPI_ERR_SIZE", 49, 51, Wrong),
    ("MPI_ERR_SPAWN", 50, 42, Failed),
    ("MPI_ERR_UNSUPPORTED_DATAREP", 51, 43, Failed),
    ("MPI_ERR_UNSUPPORTED_OPERATION", 52, 44, Failed),
    ("MPI_ERR_WIN", 53, 45, Wrong),
    ("MPI_ERR_RMA_RANGE", 68, 55, Wrong),
    ("MPI_ERR_RMA_ATTACH", 69, 56, Wrong),
    ("MPI_ERR_RMA_FLAVOR", 70, 58, Wrong),
    ("MPI_ERR_RMA_SHARED", 71, 57, Wrong),
    ("MPI_ERR_SESSION", -1, 75, Wrong),
    ("MPI_ERR_PROC_ABORTED", -1, 76, Failed),
    ("MPI_ERR_VALUE_TOO_LARGE", -1, 77, Failed),
];

/// Name of the class of an error code, and what it says. Codes that programs define have none.
pub(crate) fn class_of(kind: MpiKind, code: i32) -> Option<(&'static str, Says)> {
    /// MPICH: the class is in the lowest bits, the rest says more; set in codes that the program defined.
    const CLASS_BITS: i32 = 0x7f;
    const DEFINED_BIT: i32 = 0x4000_0000;
    let number = |class: &&ErrorClass| match kind {
        MpiKind::OpenMpi => code > 0 && class.1 == code,
        MpiKind::Mpich => code & DEFINED_BIT == 0 && class.2 == code & CLASS_BITS,
    };
    CLASSES.iter().find(number).map(|class| (class.0, class.3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_error_has_its_own_number_in_each_library() {
        assert_eq!(class_of(MpiKind::OpenMpi, 15), Some(("MPI_ERR_TRUNCATE", Truncated)));
        // As seen: the upper bits say which of the places that raise it.
        assert_eq!(class_of(MpiKind::Mpich, 402_792_462), Some(("MPI_ERR_TRUNCATE", Truncated)));
        assert_eq!(class_of(MpiKind::Mpich, 940_198_406), Some(("MPI_ERR_RANK", Wrong)));
    }

    #[test]
    fn codes_of_the_program_and_success_have_no_class() {
        assert_eq!(class_of(MpiKind::OpenMpi, 93), None);
        assert_eq!(class_of(MpiKind::OpenMpi, -1), None);
        assert_eq!(class_of(MpiKind::Mpich, 0x4000_000e), None);
        for kind in [MpiKind::OpenMpi, MpiKind::Mpich] {
            assert_eq!(class_of(kind, 0), None);
        }
    }

    #[test]
    fn no_number_stands_for_two_classes() {
        for number in 1..200 {
            assert!(CLASSES.iter().filter(|class| class.1 == number).count() <= 1, "Open MPI: {number}");
            assert!(CLASSES.iter().filter(|class| class.2 == number).count() <= 1, "MPICH: {number}");
        }
    }
}
