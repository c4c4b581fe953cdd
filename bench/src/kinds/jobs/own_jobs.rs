//! The project's own jobs whose slow-down is measured.

/// One of the project's own jobs.
pub(super) struct OwnJob {
    pub name: &'static str,
    pub job: &'static str,
    pub arguments: &'static [&'static str],
    pub iterations: &'static str,
    /// How many when it has to be quick; not at all if there are none.
    pub quick_iterations: Option<&'static str>,
    /// Its ranks are two, however many cores there are.
    pub pair: bool,
    /// It computes enough for its ratio to be bounded on every machine.
    pub bounded: bool,
}

/// Jobs that are measured beside HPC Challenge and LAMMPS.
pub(super) const OWN: [OwnJob; 6] = [
    OwnJob {
        name: "halo, 64 KiB",
        job: "halo2d",
        arguments: &["--halo-bytes", "1024", "--row-bytes", "65536"],
        iterations: "500",
        quick_iterations: None,
        pair: false,
        bounded: true,
    },
    OwnJob {
        name: "halo, 4 KiB",
        job: "halo2d",
        arguments: &["--halo-bytes", "4096", "--row-bytes", "4096"],
        iterations: "3000",
        quick_iterations: Some("1500"),
        pair: false,
        bounded: true,
    },
    OwnJob {
        name: "halo, 64 B, hardly any work",
        job: "halo2d",
        arguments: &["--halo-bytes", "64", "--row-bytes", "64"],
        iterations: "100000",
        quick_iterations: None,
        pair: false,
        bounded: false,
    },
    OwnJob {
        name: "`MPI_Testany` again and again",
        job: "testany",
        arguments: &[],
        iterations: "50000",
        quick_iterations: None,
        pair: false,
        bounded: false,
    },
    OwnJob {
        name: "server with wildcards",
        job: "anysource",
        arguments: &[],
        iterations: "50000",
        quick_iterations: None,
        pair: false,
        bounded: false,
    },
    OwnJob {
        name: "ping-pong, 8 B",
        job: "pingpong",
        arguments: &[],
        iterations: "500000",
        quick_iterations: Some("50000"),
        pair: true,
        bounded: false,
    },
];
