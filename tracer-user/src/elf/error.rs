//! Why a file cannot be read.

/// Why a file has no facts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// Not ELF, not 64 bits, not x86-64.
    #[error("not an x86-64 ELF file")]
    Foreign,
    /// It says it is, but its tables cannot be read.
    #[error("damaged ELF file: {0}")]
    Damaged(String),
    /// Its tables ask for more work than any program's.
    #[error("its tables are larger than those of any program: it may have been made to do harm")]
    TooMuch,
}

impl From<object::read::Error> for ElfError {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}
