//! The Debian packages that building, testing and comparing need.

/// One package and what it is for.
pub struct Package {
    /// Name in Debian and Ubuntu.
    pub name: &'static str,
    /// What fails without it.
    pub reason: &'static str,
}

const fn package(name: &'static str, reason: &'static str) -> Package {
    Package { name, reason }
}

/// All packages, in the order in which a reader would ask for them.
pub const PACKAGES: &[Package] = &[
    package("clang-19", "compiles the BPF programs"),
    package("gcc", "compiles libbpf and the test jobs"),
    package("libc6-dev", "headers of the C library"),
    package("make", "builds libbpf and the test jobs"),
    package("pkg-config", "finds libelf and zlib"),
    package("git", "`cargo xtask check` asks it for the project's files"),
    package("libelf-dev", "libbpf reads ELF files with it"),
    package("zlib1g-dev", "libbpf reads compressed sections with it"),
    package(
        "binutils",
        "tests look at the jobs' machine code with objdump; strip makes their stripped copies",
    ),
    package("openmpi-bin", "runs the test jobs: Open MPI"),
    package("libopenmpi-dev", "builds the test jobs: Open MPI"),
    package("mpich", "runs the test jobs: MPICH"),
    package("libmpich-dev", "builds the test jobs: MPICH"),
    package("gfortran", "builds the test jobs in Fortran"),
    package("libibverbs-dev", "builds the test jobs: headers of RDMA verbs"),
    package("hpcc", "a job from outside: the HPC Challenge benchmark"),
    package("scalapack-mpi-test", "jobs from outside: testers of BLACS and ScaLAPACK"),
    package("lammps", "a job from outside: molecular dynamics"),
    package("python3-mpi4py", "a job from outside: MPI from Python"),
    package("gdb", "a rank that runs alone is stopped in a debugger"),
    package("libcap2-bin", "tests without root give a copy of dmscope capabilities with setcap"),
    package("util-linux", "tests without root become other users with setpriv"),
    package("iproute2", "tests of several nodes make network namespaces"),
    package("nats-server", "tests of several nodes have a bus between them"),
    package("openssl", "a certificate for that bus, in tests"),
    package("slurmctld", "a test has Slurm start jobs on made-up nodes: its controller"),
    package("slurmd", "the same: its daemon on each node"),
    package("slurm-client", "the same: srun, salloc, sinfo"),
    package("munge", "the same: who Slurm's programs are"),
    package("systemd", "a test has systemd-analyze look at the unit of the agent"),
    package("otf2-tools", "tests of exports read OTF2 archives, which its library writes"),
    package("python3-venv", "tests of exports read the others with packages of Python"),
    package("tmux", "tests of the live view need a terminal"),
    package("chromium", "tests of the page need a browser"),
    package("chromium-driver", "drives that browser"),
];

/// What `cargo xtask vm` needs besides.
pub const VM: &[Package] = &[
    package("qemu-system-x86", "emulates the machine"),
    package("qemu-system-data", "its firmware"),
    package("busybox-static", "mounts the machine's root"),
    package("kmod", "says which modules a module needs"),
    package("cpio", "packs the first file system"),
    package("xz-utils", "unpacks modules"),
    package("iproute2", "gives the machine a network and an RDMA device"),
    package("ibverbs-providers", "the provider of RDMA in software"),
    package("ibverbs-utils", "a program that sends over verbs: ibv_rc_pingpong"),
];

/// Tools that `cargo xtask bench` compares with; it does without those that cannot be had.
pub const PEERS: &[Package] = &[
    package("bpftrace", "compared with: probes from a script"),
    package("linux-perf", "compared with: probes through perf"),
    package("uftrace", "compared with: tracing of functions"),
    package("ltrace", "compared with: tracing of library calls"),
    package("eztrace", "compared with: a preloaded tracer that writes OTF2"),
    package("valgrind", "compared with: dynamic translation"),
];
