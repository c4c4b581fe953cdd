//! Nodes on this machine: network namespaces on a bridge, each with a name, shared memory and processes of its own.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// Networks that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Some nodes, until dropped.
pub struct Nodes {
    /// Tells its interfaces and namespaces from those of others.
    id: u32,
    count: usize,
    folder: TempDir,
}

impl Nodes {
    /// Makes so many nodes that reach each other. Needs root.
    pub fn new(count: usize) -> Result<Self> {
        let id = (std::process::id() * 8 + MADE.fetch_add(1, Ordering::Relaxed)) % 60_000;
        let folder = TempDir::with_prefix("nodes-").context("cannot make a folder for nodes")?;
        let nodes = Self { id, count, folder };
        nodes.make_network()?;
        nodes.write_files()?;
        Ok(nodes)
    }

    /// The same, each with an RDMA device in software. The kernel must be one that has these in namespaces.
    pub fn with_rdma(count: usize) -> Result<Self> {
        let nodes = Self::new(count)?;
        for node in 0..count {
            let (name, device) = (nodes.name(node), nodes.rdma_device(node));
            let words = [
                "ip", "netns", "exec", &name, "rdma", "link", "add", &device, "type", "rxe", "netdev", "eth0",
            ];
            succeed(&words)?;
        }
        Ok(nodes)
    }

    /// The RDMA device of a node: its name, with another letter in the middle.
    fn rdma_device(&self, node: usize) -> String {
        format!("dms{}r{node}", self.id)
    }

    /// Words before a command that is to use the RDMA device of the node that it is on. All nodes see the devices of all.
    pub fn with_own_device() -> Vec<String> {
        with_device("RDMA_DEVICE=$device")
    }

    /// Words before a command whose UCX is to use it.
    pub fn with_ucx_over_own_device() -> Vec<String> {
        with_device("UCX_NET_DEVICES=$device:1")
    }

    /// Names of the nodes, in order.
    pub fn names(&self) -> Vec<String> {
        (0..self.count).map(|node| self.name(node)).collect()
    }

    /// The name of one.
    pub fn name(&self, node: usize) -> String {
        format!("dms{}n{node}", self.id)
    }

    /// The name of the one that a process is on.
    pub fn of_process(&self, pid: u32) -> Result<String> {
        let network = |path: String| fs::metadata(&path).map(|file| file.ino()).with_context(|| path);
        let own = network(format!("/proc/{pid}/ns/net"))?;
        let is_there = |name: &String| network(format!("/run/netns/{name}")).is_ok_and(|of| of == own);
        self.names().into_iter().find(is_there).with_context(|| format!("process {pid} is on no node"))
    }

    /// Words before a command that is to run on a node.
    pub fn on(&self, node: usize) -> [String; 2] {
        [self.agent().to_string_lossy().into_owned(), self.name(node)]
    }

    /// A program that runs commands on nodes, as ssh would.
    pub fn agent(&self) -> PathBuf {
        self.folder.path().join("agent")
    }

    /// A file with the names of the nodes, one a line, and `slots` behind each.
    pub fn host_file(&self, slots: &str) -> Result<PathBuf> {
        let path = self.folder.path().join("hosts-of-job");
        let lines: String = self.names().iter().map(|name| format!("{name}{slots}\n")).collect();
        fs::write(&path, lines).context("cannot write the names of nodes")?;
        Ok(path)
    }

    /// Words before a command that is to know the addresses of the nodes by their names.
    pub fn with_names(&self) -> Vec<String> {
        let hosts = self.hosts().to_string_lossy().into_owned();
        let script = format!("mount --bind {hosts} /etc/hosts && exec \"$@\"");
        ["unshare", "--mount", "sh", "-c", &script, "sh"].map(String::from).into()
    }

    /// Cuts a node off from the others, or joins it again.
    pub fn set_reachable(&self, node: usize, is_reachable: bool) -> Result<()> {
        let state = if is_reachable { "up" } else { "down" };
        ip(&["link", "set", &format!("dms{}v{node}", self.id), state])
    }

    /// Addresses of the nodes, in order.
    pub fn addresses(&self) -> Vec<String> {
        (0..self.count).map(|node| format!("{}.{}", self.prefix(), node + 1)).collect()
    }

    /// A file with the names of the nodes and this machine, and their addresses, as in `/etc/hosts`.
    pub fn hosts(&self) -> PathBuf {
        self.folder.path().join("hosts")
    }

    /// The network that the nodes are in.
    pub fn network(&self) -> String {
        format!("{}.0/24", self.prefix())
    }

    /// The address of this machine in it.
    pub fn own_address(&self) -> String {
        format!("{}.254", self.prefix())
    }

    fn prefix(&self) -> String {
        format!("10.{}.{}", 64 + self.id / 256 % 64, self.id % 256)
    }

    fn bridge(&self) -> String {
        format!("dms{}br", self.id)
    }

    fn make_network(&self) -> Result<()> {
        let (bridge, prefix) = (self.bridge(), self.prefix());
        ip(&["link", "add", &bridge, "type", "bridge"])?;
        ip(&["addr", "add", &format!("{}/24", self.own_address()), "dev", &bridge])?;
        ip(&["link", "set", &bridge, "up"])?;
        for node in 0..self.count {
            let (name, outside) = (self.name(node), format!("dms{}v{node}", self.id));
            ip(&["netns", "add", &name])?;
            ip(&["link", "add", &outside, "type", "veth", "peer", "name", "eth0", "netns", &name])?;
            ip(&["link", "set", &outside, "master", &bridge, "up"])?;
            ip(&["-n", &name, "addr", "add", &format!("{prefix}.{}/24", node + 1), "dev", "eth0"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    fn write_files(&self) -> Result<()> {
        let addresses = self.addresses().into_iter().zip(self.names());
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let lines: String = addresses
            .chain([("127.0.0.1".into(), "localhost".into()), (self.own_address(), own)])
            .map(|(address, name)| format!("{address} {name}\n"))
            .collect();
        write(&self.hosts(), &lines)?;
        // As launchers call ssh: options, the host, and a command, which a shell reads. Nothing is preloaded there.
        let agent = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\nexport host\n\
                     exec env -u LD_PRELOAD -u DMSCOPE_REPLAY -u DMSCOPE_NODES ip netns exec \"$host\" unshare --uts --mount sh -c '\n\
                     hostname \"$host\" && mount -t tmpfs tmpfs /dev/shm && eval \"exec $*\"' sh \"$@\"\n";
        write(&self.agent(), agent)?;
        fs::set_permissions(self.agent(), fs::Permissions::from_mode(0o755)).context("cannot make a program")
    }
}

fn with_device(variables: &str) -> Vec<String> {
    let script = format!("device=$(hostname | tr n r); export {variables}; exec \"$@\"");
    ["sh", "-c", &script, "sh"].map(String::from).into()
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for name in self.names() {
            let _ = ip(&["netns", "delete", &name]);
        }
        let _ = ip(&["link", "delete", &self.bridge()]);
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn ip(words: &[&str]) -> Result<()> {
    succeed(&[&["ip"], words].concat())
}

fn succeed(words: &[&str]) -> Result<()> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output =
        output.with_context(|| format!("cannot start {} (packages iproute2, rdma-core)", words[0]))?;
    ensure!(output.status.success(), "{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(())
}
