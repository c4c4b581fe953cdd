//! The MPI implementations that jobs are run with.

/// The MPI libraries the tests know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiImplementation {
    /// Open MPI: shared memory through vader, launcher mpirun.
    OpenMpi,
    /// MPICH: ch4 over UCX, launcher hydra.
    Mpich,
}

impl MpiImplementation {
    /// Both of them, in the order in which tests use them.
    pub const ALL: [Self; 2] = [Self::OpenMpi, Self::Mpich];

    /// Name as Debian's alternatives have it (`mpirun.NAME`).
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "openmpi",
            Self::Mpich => "mpich",
        }
    }

    /// The variable that holds a rank's number in its environment.
    pub(crate) fn rank_variable(self) -> &'static str {
        match self {
            Self::OpenMpi => "OMPI_COMM_WORLD_RANK",
            Self::Mpich => "PMI_RANK",
        }
    }
}
