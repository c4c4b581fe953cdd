//! What the planner knows of MPI libraries: names and patterns, nothing that depends on a build.

/// What an MPI call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallClass {
    /// Sends, receives and probes that wait.
    PointToPoint,
    /// Collectives and neighbourhood collectives.
    Collective,
    /// Waits for or starts requests.
    Completion,
    /// Asks whether something is done.
    Polling,
    /// Windows: transfers and synchronisation.
    OneSided,
    /// Files.
    File,
    /// Makes or ends communicators, groups, datatypes, windows' and other handles.
    Handles,
    /// Begins or ends MPI, or the job.
    Lifecycle,
    /// Answers from the process's own memory.
    Local,
}

impl CallClass {
    /// Watched unless the user chooses otherwise: what moves or completes data, or begins or ends.
    pub fn is_default(self) -> bool {
        !matches!(self, Self::Local)
    }
}

/// Files that are MPI libraries themselves, by the beginning of the file name.
pub const MPI_LIBRARIES: [&str; 9] = [
    "libmpi.so",
    "libmpich.so",
    "libmpi_mt.so",
    "libmpi_dbg.so",
    "libmpi_gnu",
    "libmpi_cray",
    "libmpi_intel",
    "libmvapich",
    "libpsmpi.so",
];

/// Libraries that MPI libraries communicate with, by a glob over the file name, and what they are.
pub const COMMUNICATION_LIBRARIES: [(&str, &str); 21] = [
    ("libmpi.so*", "MPI library"),
    ("libmpich.so*", "MPI library"),
    ("libmpi_*.so*", "MPI library"),
    ("libmvapich*.so*", "MPI library"),
    ("libpsmpi.so*", "MPI library"),
    ("libpmpi.so*", "MPI library"),
    ("libopen-pal.so*", "Open MPI's base library"),
    ("mca_btl_*.so", "Open MPI byte transfer"),
    ("mca_pml_*.so", "Open MPI point-to-point"),
    ("mca_mtl_*.so", "Open MPI matching transport"),
    ("mca_bml_*.so", "Open MPI byte transfer"),
    ("mca_coll_*.so", "Open MPI collectives"),
    ("mca_osc_*.so", "Open MPI one-sided"),
    ("mca_io_*.so", "Open MPI files"),
    ("mca_f[sb]*_*.so", "Open MPI files"),
    ("mca_fcoll_*.so", "Open MPI files"),
    ("mca_sharedfp_*.so", "Open MPI files"),
    ("libuc[pts].so*", "UCX"),
    ("libuct_*.so*", "UCX transport"),
    ("libfabric.so*", "libfabric"),
    ("libpsm*.so*", "PSM transport"),
];

/// Libraries whose own copies say nothing about messages, although they may call MPI.
pub const NEVER: [&str; 13] = [
    "ld-linux*.so*",
    "ld-*.so*",
    "libc.so*",
    "libc-*.so",
    "libm.so*",
    "libpthread.so*",
    "libdl.so*",
    "librt.so*",
    "libstdc++.so*",
    "libgcc_s.so*",
    "libgfortran.so*",
    "libquadmath.so*",
    "libasan.so*",
];

/// A polling call: which argument points to its answer, and the functions behind it that may
/// do the work, each with its own number of that argument.
#[derive(Clone, Copy, Debug)]
pub struct PollingCall {
    /// The MPI call.
    pub name: &'static str,
    /// Its argument (from 0) that points to the answer: zero means no.
    pub answer: usize,
    /// Globs over functions of communication libraries that MPI's entry point calls through a pointer.
    pub behind: &'static [(&'static str, usize)],
}

/// Calls that ask.
pub const POLLING_CALLS: [PollingCall; 8] = [
    PollingCall { name: "MPI_Test", answer: 1, behind: &[("ompi_request_default_test", 1)] },
    PollingCall { name: "MPI_Testany", answer: 3, behind: &[("ompi_request_default_test_any", 3)] },
    PollingCall { name: "MPI_Testall", answer: 2, behind: &[("ompi_request_default_test_all", 2)] },
    PollingCall { name: "MPI_Testsome", answer: 2, behind: &[("ompi_request_default_test_some", 2)] },
    PollingCall { name: "MPI_Iprobe", answer: 3, behind: &[("mca_pml_*_iprobe", 3)] },
    PollingCall { name: "MPI_Improbe", answer: 3, behind: &[("mca_pml_*_improbe", 3)] },
    PollingCall { name: "MPI_Request_get_status", answer: 1, behind: &[] },
    PollingCall { name: "MPI_Win_test", answer: 1, behind: &[] },
];

/// Calls that begin or end something for the whole process.
const LIFECYCLE: [&str; 7] = [
    "MPI_Init",
    "MPI_Init_thread",
    "MPI_Finalize",
    "MPI_Abort",
    "MPI_Session_init",
    "MPI_Session_finalize",
    "MPI_Pcontrol",
];

/// Calls that wait for requests, or start persistent ones.
const COMPLETION: [&str; 11] = [
    "MPI_Wait",
    "MPI_Waitall",
    "MPI_Waitany",
    "MPI_Waitsome",
    "MPI_Start",
    "MPI_Startall",
    "MPI_Cancel",
    "MPI_Request_free",
    "MPI_Pready",
    "MPI_Pready_list",
    "MPI_Pready_range",
];

/// Calls that are local although their name begins like others that are not.
const LOCAL: [&str; 32] = [
    "MPI_Address",
    "MPI_Aint_add",
    "MPI_Aint_diff",
    "MPI_Cartdim_get",
    "MPI_Comm_rank",
    "MPI_Comm_remote_size",
    "MPI_Comm_size",
    "MPI_Comm_test_inter",
    "MPI_Dims_create",
    "MPI_Finalized",
    "MPI_Get_address",
    "MPI_Get_library_version",
    "MPI_Get_processor_name",
    "MPI_Get_version",
    "MPI_Graphdims_get",
    "MPI_Group_rank",
    "MPI_Group_size",
    "MPI_Initialized",
    "MPI_Is_thread_main",
    "MPI_Pack_size",
    "MPI_Pack_external_size",
    "MPI_Parrived",
    "MPI_Query_thread",
    "MPI_Test_cancelled",
    "MPI_Topo_test",
    "MPI_Type_extent",
    "MPI_Type_lb",
    "MPI_Type_size",
    "MPI_Type_size_x",
    "MPI_Type_ub",
    "MPI_Wtick",
    "MPI_Wtime",
];

/// Parts of names that only local calls have: attributes, errors, information, conversions, the
/// tool interface, and whatever reads back what a handle was made with.
const LOCAL_PARTS: [&str; 37] = [
    "MPI_T_",
    "MPI_Add_error_",
    "MPI_Attr_",
    "MPI_Error_",
    "MPI_Errhandler_",
    "MPI_Info_",
    "MPI_Keyval_",
    "MPI_Status_",
    "_attr",
    "_c2f",
    "_f2c",
    "_c2f08",
    "_f082c",
    "_f082f",
    "_f2f08",
    "_compare",
    "_errhandler",
    "_get_amode",
    "_get_atomicity",
    "_get_byte_offset",
    "_get_contents",
    "_get_count",
    "_get_elements",
    "_get_envelope",
    "_get_extent",
    "_get_group",
    "_get_info",
    "_set_info",
    "_get_name",
    "_set_name",
    "_get_position",
    "_get_true_extent",
    "_get_type_extent",
    "_get_view",
    "_keyval",
    "MPI_Get_count",
    "MPI_Get_elements",
];

/// Collectives, by the part of the name that they share (after `MPI_`, `MPI_I` or `MPI_Neighbor_`).
const COLLECTIVES: [&str; 11] = [
    "all",
    "barrier",
    "bcast",
    "gather",
    "scatter",
    "reduce",
    "scan",
    "exscan",
    "neighbor_",
    "ineighbor_",
    "comm_agree",
];

/// Point-to-point calls, by the beginning of the name (after `MPI_`, lower case).
const POINT_TO_POINT: [&str; 27] = [
    "send",
    "recv",
    "bsend",
    "ssend",
    "rsend",
    "isend",
    "irecv",
    "ibsend",
    "issend",
    "irsend",
    "imrecv",
    "mrecv",
    "sendrecv",
    "isendrecv",
    "probe",
    "mprobe",
    "psend",
    "precv",
    "buffer_attach",
    "buffer_detach",
    "pack",
    "unpack",
    "grequest",
    "send_init",
    "recv_init",
    "buffer_flush",
    "buffer_iflush",
];

/// One-sided calls, by the beginning of the name (after `MPI_`, lower case).
const ONE_SIDED: [&str; 10] = [
    "accumulate",
    "compare_and_swap",
    "fetch_and_op",
    "get",
    "put",
    "raccumulate",
    "rget",
    "rput",
    "win_",
    "get_accumulate",
];

/// What the MPI call `name` is for.
pub fn class_of(name: &str) -> CallClass {
    let plain = name.strip_suffix("_c").unwrap_or(name);
    if POLLING_CALLS.iter().any(|c| c.name == plain) {
        return CallClass::Polling;
    }
    if LIFECYCLE.contains(&plain) {
        return CallClass::Lifecycle;
    }
    if COMPLETION.contains(&plain) {
        return CallClass::Completion;
    }
    if LOCAL.contains(&plain) || LOCAL_PARTS.iter().any(|part| plain.contains(part)) {
        return CallClass::Local;
    }
    let lower = plain.strip_prefix("MPI_").unwrap_or(plain).to_ascii_lowercase();
    if lower.starts_with("file_") {
        return CallClass::File;
    }
    if ONE_SIDED.iter().any(|p| lower.starts_with(p)) {
        return CallClass::OneSided;
    }
    let blocking = lower.strip_prefix('i').unwrap_or(&lower);
    if lower == "reduce_local" {
        return CallClass::Local;
    }
    if COLLECTIVES.iter().any(|p| lower.starts_with(p) || blocking.starts_with(p)) && lower != "alloc_mem" {
        return CallClass::Collective;
    }
    if POINT_TO_POINT.iter().any(|p| lower.starts_with(p)) {
        return CallClass::PointToPoint;
    }
    CallClass::Handles
}

/// A function that MPI calls report their errors through, and which of its arguments say what: `ERROR_*` in `errors.h`.
#[derive(Clone, Copy, Debug)]
pub struct ErrorFunction {
    /// Its name.
    pub name: &'static str,
    /// Number of the form of its arguments.
    pub form: u64,
}

/// Those of all libraries. They are called whatever the program wants to be done about errors.
pub const ERROR_FUNCTIONS: [ErrorFunction; 4] = [
    ErrorFunction { name: "ompi_errhandler_invoke", form: 0 },
    // Of calls before MPI_Init or after MPI_Finalize.
    ErrorFunction { name: "ompi_mpi_errors_are_fatal_comm_handler", form: 1 },
    ErrorFunction { name: "MPIR_Err_return_comm", form: 2 },
    ErrorFunction { name: "MPIR_Err_return_win", form: 2 },
];

/// Functions that pack or unpack a derived datatype, in Open MPI's base library. All take
/// (convertor, iovec, count of iovecs, bytes).
pub const PACKERS: [(&str, bool); 5] = [
    ("opal_generic_simple_pack", false),
    ("opal_pack_homogeneous_contig_with_gaps", false),
    ("opal_pack_general", false),
    ("opal_generic_simple_unpack", true),
    ("opal_unpack_general", true),
];

/// Unpacks what lies in one piece as well as what has gaps: its copies are watched one by one.
pub const MIXED_PACKERS: [&str; 1] = ["opal_unpack_homogeneous_contig"];

/// The function that shows where a convertor keeps the user's buffer.
pub const CONVERTOR_PACK: &str = "opal_convertor_pack";

/// A function that gives out or takes back heap blocks.
#[derive(Clone, Copy, Debug)]
pub struct Allocator {
    /// Its name.
    pub name: &'static str,
    /// How many of its arguments are needed.
    pub arguments: usize,
    /// Gives out (then its return is needed) or takes back.
    pub gives: bool,
}

const fn gives(name: &'static str, arguments: usize) -> Allocator {
    Allocator { name, arguments, gives: true }
}

/// The functions of an allocator.
pub const ALLOCATORS: [Allocator; 7] = [
    gives("malloc", 1),
    gives("calloc", 2),
    gives("realloc", 2),
    gives("memalign", 2),
    gives("aligned_alloc", 2),
    gives("posix_memalign", 3),
    Allocator { name: "free", arguments: 1, gives: false },
];

/// Programs that run programs: what they copy for themselves is not the job's data.
pub const INTERPRETERS: [&str; 9] =
    ["python*", "perl*", "ruby*", "julia*", "R", "java", "octave*", "bash", "matlab*"];

/// Variables by which launchers tell a process its rank, and the size of the job.
pub const RANK_VARIABLES: [(&str, &str); 6] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PALS_RANKID", "PALS_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

/// Variables by which launchers tell a process how many ranks of its job are on its node.
pub const LOCAL_SIZE_VARIABLES: [&str; 3] =
    ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"];

/// Names of programs that start ranks, as globs.
pub const LAUNCHERS: [&str; 17] = [
    "mpirun*",
    "mpiexec*",
    "orterun*",
    "oshrun*",
    "orted*",
    "prterun*",
    "prte",
    "prted*",
    "prun",
    "hydra_pmi_proxy",
    "hydra_bstrap*",
    "pmi_proxy",
    "srun",
    "slurmstepd",
    "aprun",
    "jsrun",
    "palsd",
];

/// Which MPI it is, by the beginning of the name of a file that only this kind brings along.
pub const MPI_KINDS: [(&str, &str); 6] = [
    ("libopen-pal.so", "Open MPI"),
    ("libopen-rte.so", "Open MPI"),
    ("libmpich.so", "MPICH"),
    ("libmvapich", "MVAPICH"),
    ("libmpi_cray", "Cray MPICH"),
    ("libpsmpi.so", "ParaStation MPI"),
];

/// Where a library (by the beginning of its name) keeps plugins, from its own folder: Debian's
/// places and those of the libraries' own installation.
pub const PLUGIN_FOLDERS: [(&str, &str); 6] = [
    ("libmpi.so", "openmpi"),
    ("libmpi.so", "openmpi3"),
    ("libmpi.so", "openmpi/lib/openmpi"),
    ("libmpi.so", "openmpi/lib/openmpi3"),
    ("libuct.so", "ucx"),
    ("libucs.so", "ucx"),
];
