//! The side that the job was started from: takes what other nodes send into its own folder.

use std::collections::BTreeMap;
use std::fs::{File, read_dir};
use std::io;
use std::net::{IpAddr, Ipv6Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use analyzer::tape::RankAnswers;
use anyhow::{Context, Result};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use replay::shared_page::{FORMAT_BYTES, MAX_RECORD_BYTES, PAGE_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::content_rings::RankContents;
use super::super::shared_folder::{SharedFolder, open_of_rank};
use super::super::wrapper_file::WrapperKind;
use super::forwarding::forward_environment;
use super::frames::{
    ContentPart, ContentsRecorded, FilePart, HeadSays, Hello, NodeSays, PART_BYTES, READY, REFUSALS,
    RemoteProcess, ToHead, ToNode, receive, receive_known, send, written_by_rank,
};
use crate::host::output_folder::OutputFolder;
use crate::host::unique_word::unique_word;

/// The first frame of a node is not longer.
const MAX_HELLO_BYTES: usize = 4096;
/// It comes within this time.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// How long nodes may take to send what is left, when the job has ended.
const FINISH_PATIENCE: Duration = Duration::from_secs(30);
/// More do not connect: each has a thread.
const MAX_NODES: usize = 4096;
/// Parts of contents that wait to be taken, of all nodes; each at most as long as a ring.
const MAX_WAITING_CONTENTS: usize = 16;

/// A rank on another node, as that node has told last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct RemoteRank {
    /// The node's name.
    pub node: String,
    /// Its process there.
    pub pid: u32,
    /// It is there, and nobody has stopped it.
    pub is_running: bool,
}

/// Other nodes that take part, until dropped.
pub(in super::super) struct RemoteNodes {
    shared: Arc<Shared>,
    contents: mpsc::Receiver<RankAnswers>,
    /// What the job has in its environment: where to connect to, and with what.
    variable: String,
}

struct Shared {
    folder: Arc<OutputFolder>,
    word: String,
    closes: AtomicBool,
    contents: SyncSender<RankAnswers>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: Vec<ConnectedNode>,
    /// The number of the node that each rank is on.
    node_of_rank: BTreeMap<u32, usize>,
    ranks: BTreeMap<u32, RemoteRank>,
    contents: Vec<RankContents>,
    trouble: Vec<String>,
}

struct ConnectedNode {
    name: String,
    stream: TcpStream,
    /// It sends nothing more.
    is_done: bool,
}

impl RemoteNodes {
    /// Waits for nodes from now on, which get what is in the folder when they come.
    ///
    /// # Errors
    /// No port can be opened.
    pub(in super::super) fn listen(folder: &SharedFolder) -> Result<Self> {
        // For ranks on this node, which is as it should be.
        folder.put(READY, b"")?;
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind(("0.0.0.0", 0)))
            .context("cannot open a TCP port for other nodes")?;
        let port = listener.local_addr().context("the port for other nodes")?.port();
        let word = unique_word().context("no random bits for the word that nodes connect with")?;
        let addresses = own_addresses().context("the addresses of this node")?;
        let addresses: Vec<String> =
            addresses.iter().map(|ip| format!(",{}", with_port(*ip, port))).collect();
        let program = std::env::current_exe().context("where is this program?")?;
        let variable = format!("DMSCOPE_NODES={word}{};{}", addresses.concat(), program.display());
        let (sender, contents) = sync_channel(MAX_WAITING_CONTENTS);
        let shared = Arc::new(Shared {
            folder: folder.opened(),
            word,
            closes: AtomicBool::new(false),
            contents: sender,
            state: Mutex::default(),
        });
        let nodes = Self { shared: Arc::clone(&shared), contents, variable };
        thread::spawn(move || accept(&listener, &shared));
        Ok(nodes)
    }

    /// The command with which ranks on other nodes have what they need in their environment, of which more is added.
    pub(in super::super) fn prepare(
        &self,
        command: &[String],
        kind: WrapperKind,
        environment: &mut Vec<String>,
    ) -> Vec<String> {
        environment.push(self.variable.clone());
        let names = environment.iter().filter_map(|variable| Some(variable.split_once('=')?.0));
        let names: Vec<&str> = ["LD_PRELOAD"].into_iter().chain(names).collect();
        let (command, for_launcher) = forward_environment(command, kind, &names);
        environment.extend(for_launcher);
        command
    }

    /// A rank, if it is on another node.
    pub(in super::super) fn rank(&self, rank: u32) -> Option<RemoteRank> {
        self.shared.state().ranks.get(&rank).cloned()
    }

    /// Takes what has come of the contents of ranks' messages; whether there was something. Nodes wait if nobody does.
    pub(in super::super) fn take_contents(&self, give: &mut dyn FnMut(RankAnswers)) -> bool {
        self.contents.try_iter().map(give).count() > 0
    }

    /// What was recorded of the contents of ranks that have told; all have once it is [finished](Self::finish).
    pub(in super::super) fn recorded_contents(&self) -> Vec<RankContents> {
        self.shared.state().contents.clone()
    }

    /// Kills what is left of ranks on other nodes: the job was to end, and its launcher has. Waits until nodes have done so;
    /// `give`: see [`take_contents`](Self::take_contents).
    pub(in super::super) fn kill_ranks(&self, give: &mut dyn FnMut(RankAnswers)) {
        self.shared.say_to_all(&HeadSays::Kill(()));
        self.take_the_rest(give);
    }

    /// The job has ended: waits until what its ranks have written is here. What went wrong, in words.
    pub(in super::super) fn finish(&self, give: &mut dyn FnMut(RankAnswers)) -> Vec<String> {
        self.take_the_rest(give);
        let mut state = self.shared.state();
        let mut trouble = std::mem::take(&mut state.trouble);
        let late = state.nodes.iter().filter(|node| !node.is_done);
        trouble.extend(late.map(|node| {
            format!("{}: did not send all that its ranks have written within {FINISH_PATIENCE:?}", node.name)
        }));
        trouble
    }

    fn take_the_rest(&self, give: &mut dyn FnMut(RankAnswers)) {
        let mut deadline = Instant::now() + FINISH_PATIENCE;
        self.shared.say_to_all(&HeadSays::Finish(()));
        while self.shared.state().nodes.iter().any(|node| !node.is_done) && Instant::now() < deadline {
            if let Ok(contents) = self.contents.recv_timeout(Duration::from_millis(2)) {
                give(contents);
                // Large contents take their time.
                deadline = Instant::now() + FINISH_PATIENCE;
            }
        }
        self.take_contents(give);
    }
}

impl Drop for RemoteNodes {
    fn drop(&mut self) {
        self.shared.closes.store(true, Ordering::Release);
        for node in &self.shared.state().nodes {
            // Gone already, or gone with this.
            let _ = node.stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change to it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say_to_all(&self, what: &HeadSays) {
        for node in &self.state().nodes {
            // A node that is gone is told of by the thread that reads from it.
            let _ = send(&mut &node.stream, &ToNode { says: Some(what.clone()) });
        }
    }

    /// Tells of a trouble once.
    fn trouble(&self, what: String) {
        let mut state = self.state();
        if !state.trouble.contains(&what) {
            state.trouble.push(what);
        }
    }
}

/// Takes connections until all is over.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let look_again = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !shared.closes.load(Ordering::Acquire) {
        match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&look_again)) {
            Ok(0) | Err(_) => continue,
            Ok(_) => {}
        }
        let Ok((stream, _)) = listener.accept() else { continue };
        let shared = Arc::clone(shared);
        thread::spawn(move || serve(stream, &shared));
    }
}

/// One node, from its first word to its last.
fn serve(stream: TcpStream, shared: &Shared) {
    let Ok((number, name)) = introduced(&stream, shared) else { return };
    let mut receiver = Receiver { shared, number, name: &name, files: BTreeMap::new() };
    let ended = begin(&stream, &shared.folder.path()).and_then(|()| receiver.take_all(&stream));
    let mut state = shared.state();
    state.nodes[number].is_done = true;
    for rank in state
        .node_of_rank
        .iter()
        .filter(|(_, node)| **node == number)
        .map(|(rank, _)| *rank)
        .collect::<Vec<_>>()
    {
        if let Some(rank) = state.ranks.get_mut(&rank) {
            rank.is_running = false;
        }
    }
    if let Err(error) = ended
        && !shared.closes.load(Ordering::Acquire)
    {
        state.trouble.push(format!(
            "{name} is no longer connected ({error}): what its ranks did from then on is not here"
        ));
    }
}

/// Whoever connects says the word, or is left.
fn introduced(stream: &TcpStream, shared: &Shared) -> io::Result<(usize, String)> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HELLO_PATIENCE))?;
    let frame: ToHead = receive(&mut &*stream, MAX_HELLO_BYTES)?;
    let Some(NodeSays::Hello(Hello { word, node, format })) = frame.says else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if word != shared.word {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let refuse = |why: &str| {
        send(&mut &*stream, &ToNode { says: Some(HeadSays::Refused(why.to_owned())) })?;
        Err(io::Error::other(why.to_owned()))
    };
    if format != FORMAT_BYTES {
        return refuse("dmscope is of another version there than where the job was started");
    }
    stream.set_read_timeout(None)?;
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    let mut state = shared.state();
    if state.nodes.len() >= MAX_NODES {
        drop(state);
        return refuse("too many nodes take part");
    }
    state.nodes.push(ConnectedNode { name: node.clone(), stream: stream.try_clone()?, is_done: false });
    Ok((state.nodes.len() - 1, node))
}

/// Gives a node all files that ranks read.
fn begin(stream: &TcpStream, folder: &Path) -> io::Result<()> {
    let say = |says| send(&mut &*stream, &ToNode { says: Some(says) });
    for entry in read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // What the job prints is nobody's to read there.
        if written_by_rank(&name).is_some() || name.starts_with("output") || name == READY {
            continue;
        }
        let file = open_of_rank(&entry.path(), false)?;
        let len = file.metadata()?.len();
        let mut offset_bytes = 0;
        // An empty file is sent too: that it is there says something.
        loop {
            let mut bytes =
                vec![0; usize::try_from(len - offset_bytes).map_or(PART_BYTES, |left| left.min(PART_BYTES))];
            file.read_exact_at(&mut bytes, offset_bytes)?;
            let part = bytes.len() as u64;
            say(HeadSays::Part(FilePart { name: name.clone(), offset_bytes, bytes }))?;
            offset_bytes += part;
            if offset_bytes >= len {
                break;
            }
        }
    }
    say(HeadSays::Ready(()))
}

/// Takes what one node says.
struct Receiver<'a> {
    shared: &'a Shared,
    number: usize,
    name: &'a str,
    files: BTreeMap<String, File>,
}

impl Receiver<'_> {
    fn take_all(&mut self, stream: &TcpStream) -> io::Result<()> {
        let mut stream = io::BufReader::new(stream);
        loop {
            match receive_known::<ToHead>(&mut stream)?.says {
                Some(NodeSays::Part(part)) => self.put(&part)?,
                Some(NodeSays::Process(process)) => self.learn(&process),
                Some(NodeSays::Contents(part)) => self.pass_on(part),
                Some(NodeSays::ContentsRecorded(recorded)) => self.note(&recorded),
                Some(NodeSays::Trouble(what)) => self.shared.trouble(format!("{}: {what}", self.name)),
                Some(NodeSays::Done(())) => return Ok(()),
                Some(NodeSays::Hello(_)) | None => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Whether a rank is on this node: whoever says so first is believed.
    fn owns(&self, rank: u32) -> bool {
        let owner = *self.shared.state().node_of_rank.entry(rank).or_insert(self.number);
        if owner != self.number {
            self.shared.trouble(format!("rank {rank} is on two nodes: one MPI job is followed at a time"));
        }
        owner == self.number
    }

    fn put(&mut self, part: &FilePart) -> io::Result<()> {
        let FilePart { name, offset_bytes, bytes } = part;
        let rank = written_by_rank(name).ok_or(io::ErrorKind::InvalidData)?;
        let end_bytes = offset_bytes.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::InvalidData)?;
        if end_bytes > (PAGE_BYTES + MAX_RECORD_BYTES) as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if !self.owns(rank) {
            return Ok(());
        }
        if !self.files.contains_key(name) {
            match make(&self.shared.folder, name) {
                Ok(file) => _ = self.files.insert(name.clone(), file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let name = self.name;
                    self.shared.trouble(format!(
                        "rank {rank} is on {name} and here: one MPI job is followed at a time"
                    ));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        let Some(file) = self.files.get(name) else { return Ok(()) };
        // A page has begun with its first word, which is written last.
        let (first, rest) = bytes.split_at(bytes.len().min(8));
        file.write_all_at(rest, offset_bytes + first.len() as u64)?;
        file.write_all_at(first, *offset_bytes)
    }

    /// Waits until there is room.
    fn pass_on(&self, part: ContentPart) {
        let ContentPart { rank, offset_bytes, bytes } = part;
        if self.owns(rank) {
            // Nobody takes it any more: all is over.
            let _ = self.shared.contents.send(RankAnswers { rank, offset_bytes, polls: 0, bytes });
        }
    }

    fn note(&self, recorded: &ContentsRecorded) {
        let ContentsRecorded { rank, bytes, is_stopped } = *recorded;
        if self.owns(rank) {
            self.shared.state().contents.push(RankContents { rank, bytes, is_stopped });
        }
    }

    fn learn(&self, process: &RemoteProcess) {
        let RemoteProcess { rank, pid, is_running } = *process;
        if self.owns(rank) {
            let of_node = RemoteRank { node: self.name.to_owned(), pid, is_running };
            self.shared.state().ranks.insert(rank, of_node);
        }
    }
}

/// Makes a rank's file, which must not be there. It is read by pages.
fn make(folder: &OutputFolder, name: &str) -> io::Result<File> {
    let file = folder.file(name)?;
    if !name.starts_with(REFUSALS) {
        file.set_len(PAGE_BYTES as u64)?;
    }
    Ok(file)
}

/// Where others reach this node.
fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let of_node = |interface: &nix::ifaddrs::InterfaceAddress| {
        let is_up = interface.flags.contains(InterfaceFlags::IFF_UP);
        is_up && !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK)
    };
    let addresses = getifaddrs()?.filter(of_node).filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    // An address of a link is nothing without the link.
    let is_of_link = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let mut addresses: Vec<IpAddr> = addresses.filter(|ip| !is_of_link(ip)).collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.dedup();
    Ok(addresses)
}

fn with_port(ip: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(ip, port).to_string()
}
