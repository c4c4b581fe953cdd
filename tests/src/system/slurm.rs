//! Slurm on made-up nodes: munged, a controller in the machine's own network, and a daemon on each node.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use super::Nodes;
use super::processes::signal;

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
const DAEMON_PORT: u16 = 16818;

/// See the [module](self). Dropping it ends it, with all that runs on its nodes.
pub struct Slurm {
    /// In the order in which they end: daemons, the controller, munged.
    children: Vec<Child>,
    nodes: Vec<String>,
    folder: TempDir,
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("0.0.0.0:0").context("no free port")?;
    Ok(listener.local_addr()?.port())
}

impl Slurm {
    /// Starts it. `prolog`: the text of a script that runs on each node before its first part of a job.
    pub fn start(nodes: &Nodes, prolog: &str) -> Result<Self> {
        let folder = TempDir::with_prefix("slurm-").context("cannot make a folder for Slurm")?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let mut slurm = Self { children: Vec::new(), nodes: nodes.names(), folder };
        slurm.write_files(nodes, prolog)?;
        slurm.start_munge()?;
        let log = slurm.log("slurmctld")?;
        let controller = Command::new("slurmctld")
            .arg("-D")
            .env("SLURM_CONF", slurm.file("slurm.conf"))
            .stderr(log)
            .spawn();
        slurm.children.insert(0, controller.context("cannot start slurmctld (package slurmctld)")?);
        for node in slurm.nodes.clone() {
            let daemon = slurm.daemon(nodes, &node)?;
            slurm.children.insert(0, daemon);
        }
        slurm.wait_until_idle()?;
        Ok(slurm)
    }

    /// Words before a command that is to know this Slurm.
    pub fn words(&self) -> [String; 2] {
        ["env".to_owned(), format!("SLURM_CONF={}", self.path("slurm.conf"))]
    }

    /// What its programs have said so far.
    pub fn logs(&self) -> String {
        let entries = fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        let logs =
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "log"));
        let text =
            |path: PathBuf| format!("{}:\n{}", path.display(), fs::read_to_string(&path).unwrap_or_default());
        logs.map(text).collect::<Vec<_>>().join("\n")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self, name: &str) -> String {
        self.file(name).to_string_lossy().into_owned()
    }

    fn log(&self, name: &str) -> Result<fs::File> {
        fs::File::create(self.file(&format!("{name}.log"))).context("cannot make a log")
    }

    fn write_files(&self, nodes: &Nodes, prolog: &str) -> Result<()> {
        for folder in ["state", "spool", "pmix"] {
            fs::create_dir(self.file(folder))?;
        }
        fs::write(self.file("prolog"), prolog)?;
        fs::set_permissions(self.file("prolog"), fs::Permissions::from_mode(0o755))?;
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let addresses = nodes.names().into_iter().zip(nodes.addresses());
        let node_lines: String = addresses
            .map(|(name, address)| {
                format!("NodeName={name} NodeAddr={address} Port={DAEMON_PORT} CPUs=4 State=UNKNOWN\n")
            })
            .collect();
        let at = |name: &str| self.path(name);
        let controller_port = free_port()?;
        let config = format!(
            "ClusterName=test\nSlurmctldHost={own}({})\nSlurmctldPort={controller_port}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={}\nStateSaveLocation={}\nSlurmdSpoolDir={}/%n\nSlurmctldPidFile={}\n\
             SlurmdPidFile={}/%n.pid\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSlurmdParameters=config_overrides\nReturnToService=2\n\
             Prolog={}\n{node_lines}PartitionName=all Nodes=ALL Default=YES State=UP\n",
            nodes.own_address(),
            at("munge.socket"),
            at("state"),
            at("spool"),
            at("slurmctld.pid"),
            at("spool"),
            at("prolog"),
        );
        fs::write(self.file("slurm.conf"), config)?;
        fs::write(self.file("mpi.conf"), format!("PMIxCliTmpDirBase={}\n", at("pmix")))?;
        // Slurm 22.05 wants a plugin for control groups even where nothing uses them, and that of version 2 wants systemd.
        let plugin = match Path::new("/sys/fs/cgroup/freezer").is_dir() {
            true => "CgroupPlugin=cgroup/v1\n",
            false => "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n",
        };
        fs::write(self.file("cgroup.conf"), plugin).context("cannot write a set-up")
    }

    fn start_munge(&mut self) -> Result<()> {
        fs::write(self.file("munge.key"), [7; 128])?;
        fs::set_permissions(self.file("munge.key"), fs::Permissions::from_mode(0o400))?;
        let options = ["key-file", "socket", "pid-file", "seed-file"];
        let files = ["munge.key", "munge.socket", "munge.pid", "munge.seed"];
        let options =
            options.iter().zip(files).map(|(option, file)| format!("--{option}={}", self.path(file)));
        let log = self.log("munged")?;
        let munge =
            Command::new("munged").args(["--foreground", "--force"]).args(options).stderr(log).spawn();
        self.children.push(munge.context("cannot start munged (package munge)")?);
        self.wait_for("munged", |slurm| Ok(slurm.file("munge.socket").exists()))
    }

    /// In the node's network, with its name and shared memory of its own. Not by `ip netns exec`: that hides control groups.
    fn daemon(&self, nodes: &Nodes, node: &str) -> Result<Child> {
        let script = format!(
            "hostname {node} && mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs {} && mount --bind {} /etc/hosts \
             && exec slurmd -D -N {node} -f {}",
            self.path("pmix"),
            nodes.hosts().display(),
            self.path("slurm.conf"),
        );
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{node}"))
            .args(["unshare", "--uts", "--mount", "sh", "-c", &script]);
        command.env("SLURM_CONF", self.file("slurm.conf")).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(self.log(node)?);
        command.spawn().context("cannot start nsenter (package util-linux)")
    }

    fn wait_until_idle(&mut self) -> Result<()> {
        let count = self.nodes.len();
        self.wait_for("slurmd", |slurm| {
            let [env, config] = slurm.words();
            let output =
                Command::new(env).arg(config).args(["sinfo", "--noheader", "--Node", "--format=%T"]).output();
            let output = output.context("cannot start sinfo (package slurm-client)")?;
            Ok(String::from_utf8_lossy(&output.stdout).lines().filter(|state| *state == "idle").count()
                == count)
        })
    }

    fn wait_for(&mut self, what: &str, is_there: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_there(self)? {
            for at in 0..self.children.len() {
                ensure!(
                    self.children[at].try_wait()?.is_none(),
                    "a program of Slurm has ended:\n{}",
                    self.logs()
                );
            }
            ensure!(Instant::now() < deadline, "{what} is not ready:\n{}", self.logs());
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Whatever runs on the nodes: what a job or a prolog has left there too.
    fn processes_on_nodes(&self) -> Vec<u32> {
        let of_node = |node: &String| {
            let output = Command::new("ip").args(["netns", "pids", node]).output().ok()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            Some(text.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        };
        self.nodes.iter().filter_map(of_node).flatten().collect()
    }

    fn end_all_on_nodes(&self, how: Signal) {
        self.processes_on_nodes().into_iter().for_each(|pid| signal(pid, how));
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.processes_on_nodes().is_empty() && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.end_all_on_nodes(Signal::TERM);
        self.end_all_on_nodes(Signal::KILL);
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
