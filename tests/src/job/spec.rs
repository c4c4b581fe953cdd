//! What to run and how: MPI library, program, ranks, transport.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::MpiImplementation;
use super::build::jobs_for;
use crate::system::users::{as_user, copy_program};
use crate::system::{Nodes, Slurm};

/// How ranks of one node reach each other. Everything stays on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Shared memory; large messages with one copy from process to process.
    SharedMemory,
    /// Shared memory for messages of all sizes.
    SharedMemoryWithoutSingleCopy,
    /// TCP over loopback. MPICH 4.0 with UCX 1.13 hangs in one of ten runs in `MPI_Finalize` after large messages (one rank
    /// waits in UCX, the other for it): wait for the job's verdict and drop it, do not wait for its end.
    Tcp,
    /// Reliable connections of RDMA verbs, by UCX. Which device it uses is for the environment to say.
    Verbs,
}

/// A job to be started.
#[derive(Clone, Debug)]
pub struct JobSpec {
    pub(crate) library: MpiImplementation,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) ranks: usize,
    pub(crate) transport: Transport,
    pub(crate) files: Vec<(String, Vec<u8>)>,
    pub(crate) is_held: bool,
    pub(crate) is_endless: bool,
    is_own: bool,
    cpus: Option<String>,
    wrapper: Vec<String>,
    pub(crate) owner: Option<Owner>,
    nodes: Option<Placement>,
    /// Words that start ranks in place of the usual ones, up to their number.
    launcher: Option<Vec<String>>,
    /// Words before all others.
    prefix: Vec<String>,
}

/// Nodes that ranks are put on, one after the other.
#[derive(Clone, Debug)]
struct Placement {
    prefix: Vec<String>,
    agent: PathBuf,
    host_file: PathBuf,
    network: String,
    own_address: String,
}

/// Whose a job is, if not the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub uid: u32,
    /// Of the folder that the job runs in, and its program lies in.
    pub folder_mode: u32,
}

impl JobSpec {
    /// One of the project's own jobs, by name (`figure2`; `stripped/figure2` for the stripped one). Two ranks.
    pub fn own(library: MpiImplementation, name: &str) -> Result<Self> {
        Ok(Self { is_own: true, ..Self::installed(library, jobs_for(library)?.join(name)) })
    }

    /// Any other program. Two ranks.
    pub fn installed(library: MpiImplementation, program: impl Into<PathBuf>) -> Self {
        Self {
            library,
            program: program.into(),
            args: Vec::new(),
            ranks: 2,
            transport: Transport::SharedMemory,
            files: Vec::new(),
            is_held: false,
            is_endless: false,
            is_own: false,
            cpus: None,
            wrapper: Vec::new(),
            owner: None,
            nodes: None,
            launcher: None,
            prefix: Vec::new(),
        }
    }

    /// Adds arguments of the program.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the number of ranks.
    pub fn ranks(mut self, ranks: usize) -> Self {
        self.ranks = ranks;
        self
    }

    /// Sets how the ranks reach each other.
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Puts a file into the folder that the job runs in.
    pub fn file(mut self, name: &str, contents: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.to_owned(), contents.into()));
        self
    }

    /// Nothing moves until [`RunningJob::go`](super::RunningJob::go). For own jobs only.
    pub fn held(mut self) -> Self {
        assert!(self.is_own, "only the project's own jobs can be held");
        self.is_held = true;
        self
    }

    /// Goes on until [`RunningJob::stop`](super::RunningJob::stop). For own jobs only.
    pub fn endless(mut self) -> Self {
        assert!(self.is_own, "only the project's own jobs can be told to stop");
        self.is_endless = true;
        self
    }

    /// Keeps the launcher and all ranks on these CPUs (`0`, `0-3`).
    pub fn on_cpus(mut self, cpus: &str) -> Self {
        self.cpus = Some(cpus.to_owned());
        self
    }

    /// Starts each rank through another command, whose last arguments the program and its own become.
    pub fn through<S: Into<String>>(mut self, wrapper: impl IntoIterator<Item = S>) -> Self {
        self.wrapper = wrapper.into_iter().map(Into::into).collect();
        self
    }

    /// Has all of it, the launcher too, run by another command.
    pub fn within<S: Into<String>>(mut self, prefix: impl IntoIterator<Item = S>) -> Self {
        self.prefix = prefix.into_iter().map(Into::into).collect();
        self
    }

    /// Has another user run it: a copy of the program in the job's folder, which has this mode.
    pub fn owned_by(mut self, uid: u32, folder_mode: u32) -> Self {
        self.owner = Some(Owner { uid, folder_mode });
        self
    }

    /// Puts the ranks on nodes, one on each in turn; they reach each other over TCP.
    pub fn on_nodes(mut self, nodes: &Nodes) -> Result<Self> {
        let slots = self.ranks.div_ceil(nodes.names().len());
        let host_file = match self.library {
            MpiImplementation::OpenMpi => nodes.host_file(&format!(" slots={slots}"))?,
            MpiImplementation::Mpich => nodes.host_file(&format!(":{slots}"))?,
        };
        self.nodes = Some(Placement {
            prefix: nodes.with_names(),
            agent: nodes.agent(),
            host_file,
            network: nodes.network(),
            own_address: nodes.own_address(),
        });
        Ok(self)
    }

    /// Has Slurm start the ranks, as many on each node; they reach each other over TCP.
    pub fn by_slurm(self, slurm: &Slurm, nodes: &Nodes) -> Self {
        let interface = match self.library {
            MpiImplementation::OpenMpi => "--mpi=pmix",
            MpiImplementation::Mpich => "--mpi=pmi2",
        };
        self.within_slurm(slurm, nodes, &["srun", interface])
    }

    /// Has the library's own launcher start the ranks, on nodes that Slurm gives it. Open MPI's.
    pub fn in_allocation(self, slurm: &Slurm, nodes: &Nodes) -> Self {
        assert_eq!(self.library, MpiImplementation::OpenMpi, "its launcher asks Slurm");
        let mut spec = self.within_slurm(slurm, nodes, &["salloc", "--quiet"]);
        let options = ["mpirun.openmpi", "--allow-run-as-root", "--map-by", "node", "--bind-to", "none"];
        let options = options.into_iter().chain(["--mca", "oob_tcp_if_include"]).map(String::from);
        spec.launcher.iter_mut().for_each(|words| words.extend(options.clone().chain([nodes.network()])));
        spec
    }

    fn within_slurm(mut self, slurm: &Slurm, nodes: &Nodes, words: &[&str]) -> Self {
        let of_libraries = [
            "OMPI_MCA_btl=self,tcp".to_owned(),
            format!("OMPI_MCA_btl_tcp_if_include={}", nodes.network()),
            "UCX_TLS=tcp".to_owned(),
            "UCX_NET_DEVICES=eth0".to_owned(),
        ];
        let count = format!("--nodes={}", nodes.names().len());
        let words =
            slurm.words().into_iter().chain(of_libraries).chain(words.iter().map(|word| (*word).to_owned()));
        self.launcher = Some(words.chain([count, format!("--ntasks={}", self.ranks)]).collect());
        self
    }

    /// Has all of it, the launcher too, run on one node.
    pub fn on_node(self, nodes: &Nodes, node: usize) -> Self {
        self.within(nodes.on(node))
    }

    /// Writes the job's files.
    pub fn put_files(&self, directory: &Path) -> Result<()> {
        for (name, contents) in &self.files {
            fs::write(directory.join(name), contents).with_context(|| format!("cannot write {name}"))?;
        }
        if let Some(owner) = self.owner {
            copy_program(&self.program, directory)?;
            give_away(directory, owner.uid)?;
            fs::set_permissions(directory, fs::Permissions::from_mode(owner.folder_mode))?;
        }
        Ok(())
    }

    /// The program where it is run from.
    pub(crate) fn program_in(&self, directory: &Path) -> PathBuf {
        match self.owner {
            Some(_) => directory.join(self.program.file_name().unwrap_or_default()),
            None => self.program.clone(),
        }
    }

    /// The words of the command that starts the job, for whoever starts it.
    pub fn words(&self) -> Vec<OsString> {
        let command = self.command(Path::new("."));
        std::iter::once(command.get_program()).chain(command.get_args()).map(OsString::from).collect()
    }

    /// The program and its arguments, without a launcher.
    pub fn program_words(&self) -> Vec<OsString> {
        let program = self.program_in(Path::new("."));
        std::iter::once(program.into_os_string()).chain(self.args.iter().map(OsString::from)).collect()
    }

    /// The command that starts the job in a folder.
    pub(crate) fn command(&self, directory: &Path) -> Command {
        if let Some(launcher) = &self.launcher {
            let mut command = Command::new(&launcher[0]);
            command.args(&launcher[1..]).arg("-n").arg(self.ranks.to_string());
            command.arg(self.program_in(directory)).args(&self.args);
            return command;
        }
        let launcher = format!("mpirun.{}", self.library.name());
        let mut words = self.prefix.clone();
        if let Some(owner) = self.owner {
            words.extend(as_user(owner.uid, &[]));
        }
        if let Some(cpus) = &self.cpus {
            words.extend(["taskset", "--cpu-list", cpus].map(String::from));
        }
        words.extend(self.nodes.iter().flat_map(|nodes| nodes.prefix.clone()));
        words.push(launcher);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        if self.owner.is_some() {
            // What the libraries leave there is gone with the folder.
            command.env("HOME", directory).env("TMPDIR", directory);
        }
        match (self.library, &self.nodes) {
            (MpiImplementation::OpenMpi, None) => self.add_open_mpi_options(&mut command),
            (MpiImplementation::Mpich, None) => self.add_mpich_options(&mut command),
            (MpiImplementation::OpenMpi, Some(nodes)) => {
                nodes.add_open_mpi_options(self.transport, &mut command)
            }
            (MpiImplementation::Mpich, Some(nodes)) => nodes.add_mpich_options(self.transport, &mut command),
        }
        command.arg("-n").arg(self.ranks.to_string());
        command.args(&self.wrapper).arg(self.program_in(directory)).args(&self.args);
        if self.is_own && self.library == MpiImplementation::Mpich && self.ranks > cores() {
            command.arg("--yield"); // MPICH never gives a core away while it waits: 25 times slower without
        }
        command
    }

    fn add_open_mpi_options(&self, command: &mut Command) {
        if rustix::process::geteuid().is_root() && self.owner.is_none() {
            command.arg("--allow-run-as-root");
        }
        command.args(["--oversubscribe", "--mca", "oob_tcp_if_include", "lo"]);
        let options = match self.transport {
            Transport::SharedMemory => &["--mca", "btl", "self,vader"][..],
            Transport::SharedMemoryWithoutSingleCopy => {
                &["--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none"]
            }
            Transport::Tcp => &["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"],
            Transport::Verbs => return add_open_mpi_over_verbs(command),
        };
        command.args(options);
    }

    fn add_mpich_options(&self, command: &mut Command) {
        command.args(["-launcher", "fork", "-iface", "lo"]);
        if self.ranks <= cores() {
            command.args(["-bind-to", "core"]); // two that wait busily on one core are a thousand times slower
        }
        match self.transport {
            Transport::SharedMemory => {
                // Where there are RDMA devices, UCX would connect over them.
                command.args(["-genv", "UCX_TLS", "self,sm,tcp"]);
            }
            Transport::SharedMemoryWithoutSingleCopy => {
                command.args(["-genv", "UCX_TLS", "posix"]);
            }
            Transport::Tcp => {
                command.args(["-genv", "UCX_TLS", "tcp", "-genv", "UCX_NET_DEVICES", "lo"]);
            }
            Transport::Verbs => add_mpich_over_verbs(command),
        }
    }
}

impl Placement {
    fn add_open_mpi_options(&self, transport: Transport, command: &mut Command) {
        // Each node would bind its first rank to the first core, which is the same one.
        command.args(["--allow-run-as-root", "--map-by", "node", "--bind-to", "none"]);
        command.args(["--mca", "plm", "rsh", "--mca", "plm_rsh_agent"]).arg(&self.agent);
        for option in ["oob_tcp_if_include", "btl_tcp_if_include"] {
            command.args(["--mca", option, &self.network]);
        }
        command.arg("--hostfile").arg(&self.host_file);
        if transport == Transport::Verbs {
            add_open_mpi_over_verbs(command);
        } else {
            // Where there are RDMA devices, MPI would use them.
            command.args(["--mca", "pml", "ob1", "--mca", "btl", "self,tcp"]);
        }
    }

    fn add_mpich_options(&self, transport: Transport, command: &mut Command) {
        command.args(["-launcher", "ssh", "-launcher-exec"]).arg(&self.agent);
        command.arg("-f").arg(&self.host_file).args(["-localhost", &self.own_address]);
        if transport == Transport::Verbs {
            add_mpich_over_verbs(command);
        } else {
            command.args(["-genv", "UCX_TLS", "tcp", "-genv", "UCX_NET_DEVICES", "eth0"]);
        }
    }
}

/// What makes UCX use nothing else. Devices in software answer with other addresses than UCX expects.
const UCX_OVER_VERBS: [(&str, &str); 2] = [("UCX_TLS", "rc,self"), ("UCX_UD_VERBS_ETH_DGID_CHECK", "n")];

fn add_open_mpi_over_verbs(command: &mut Command) {
    command.args(["--mca", "pml", "ucx", "--mca", "btl", "^openib"]);
    for (name, value) in UCX_OVER_VERBS {
        command.arg("-x").arg(format!("{name}={value}"));
    }
}

fn add_mpich_over_verbs(command: &mut Command) {
    for (name, value) in UCX_OVER_VERBS {
        command.args(["-genv", name, value]);
    }
}

/// A folder and all files in it.
fn give_away(folder: &Path, uid: u32) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        chown(entry?.path(), Some(uid), Some(uid))?;
    }
    Ok(chown(folder, Some(uid), Some(uid))?)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
