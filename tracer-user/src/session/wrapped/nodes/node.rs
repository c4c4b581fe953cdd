//! The side of a node that the job was not started on: shares a folder with the ranks there, and tells the head what they write.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, read, read_dir, remove_dir_all, write};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use analyzer::tape::RankAnswers;
use anyhow::{Context, Result, bail};
use replay::shared_page::{FORMAT_BYTES, PAGE_BYTES, PageState, PageText, SharedPage};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::content_rings::{ContentRings, RankContents};
use super::super::pages::{Pages, RankFile};
use super::super::places_of_calls::place_text;
use super::super::shared_folder::locked;
use super::super::stuck::may_wait;
use super::frames::{
    ContentPart, ContentsRecorded, FilePart, HeadSays, Hello, NodeSays, PAGED_FILES, RANKS, READY, REFUSALS,
    RemoteProcess, ToHead, ToNode, receive_known, send, written_by_rank,
};

/// The variable that says where the head is: `WORD,ADDRESS,ADDRESS;PROGRAM`.
const VARIABLE: &str = "DMSCOPE_NODES";
/// The same for the process that stays, which nothing of the job's environment concerns.
const STAYS: &str = "DMSCOPE_NODE_STAYS";
/// What ranks have written is sent after this time.
const PERIOD: Duration = Duration::from_millis(50);
/// The same where ranks write much.
const SHORT_PERIOD: Duration = Duration::from_millis(1);
/// How long one address is tried.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// How long it may take to get all files.
const READY_PATIENCE: Duration = Duration::from_secs(120);

/// Serves the ranks of this node, which have the folder. The first of them calls this program, and waits for its end: a second
/// process stays until the head is gone.
///
/// # Errors
/// The head cannot be reached. Ranks are told.
pub fn serve(folder: &Path) -> Result<()> {
    if std::env::var_os(STAYS).is_some() {
        let served = serve_here(folder);
        if let Err(error) = &served {
            // If not even this can be written, ranks give up by themselves.
            let _ = write(folder.join(READY), format!("{error:#}"));
        }
        return served;
    }
    start_the_one_that_stays(folder)?;
    let deadline = Instant::now() + READY_PATIENCE;
    loop {
        match read(folder.join(READY)) {
            Ok(why) if why.is_empty() => return Ok(()),
            Ok(why) => bail!("{}", String::from_utf8_lossy(&why)),
            Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
            Err(_) => {
                bail!("the node that the job was started on did not send its files within {READY_PATIENCE:?}")
            }
        }
    }
}

/// In a session of its own: whoever ends the ranks of this node does not end it.
fn start_the_one_that_stays(folder: &Path) -> Result<()> {
    let mut command = Command::new(std::env::current_exe().context("where is this program?")?);
    command.arg("share-ranks").arg(folder).current_dir("/");
    command.env_clear().envs(std::env::var_os(VARIABLE).map(|value| (VARIABLE, value))).env(STAYS, "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // What ranks have from their launcher is theirs: it waits until they have closed it.
    let alone = || {
        rustix::process::setsid()?;
        // SAFETY: a system call that closes nothing before exec.
        match unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: system calls alone, between fork and exec.
    unsafe { command.pre_exec(alone) };
    // It is nobody's to wait for.
    command.spawn().map(drop).context("cannot start a process for this node")
}

fn serve_here(folder: &Path) -> Result<()> {
    let variable = std::env::var(VARIABLE).with_context(|| format!("{VARIABLE} is not set"))?;
    let (head, _) = variable.split_once(';').with_context(|| format!("{VARIABLE} is not whole"))?;
    let mut words = head.split(',');
    let word = words.next().unwrap_or_default().to_owned();
    let stream = connect(words)?;
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let hello = Hello { word, node, format: FORMAT_BYTES.to_vec() };
    send(&mut &stream, &ToHead { says: Some(NodeSays::Hello(hello)) }).context("cannot speak to the head")?;
    // Else another session of this user may take it for one that a killed session has left.
    let _lock = locked(folder).context("the shared folder")?;
    take_files(&stream, folder)?;
    let rings = ContentRings::prepared(folder)?;
    write(folder.join(READY), "").context("the shared folder")?;
    let ended = NodeShare::new(folder, stream, rings)?.run();
    // What ranks still write there, nobody reads.
    let _ = remove_dir_all(folder);
    ended
}

fn connect<'a>(addresses: impl Iterator<Item = &'a str>) -> Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses.filter_map(|text| text.parse::<SocketAddr>().ok()) {
        match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last).context(
        "this node cannot reach the one that the job was started on: does a firewall close its TCP ports for others?",
    )
}

/// What ranks read.
fn take_files(stream: &TcpStream, folder: &Path) -> Result<()> {
    let mut stream = stream;
    loop {
        let frame: ToNode =
            receive_known(&mut stream).context("the node that the job was started on is gone")?;
        match frame.says {
            Some(HeadSays::Part(part)) => put(folder, &part).context("the shared folder")?,
            Some(HeadSays::Ready(())) => return Ok(()),
            Some(HeadSays::Refused(why)) => bail!(why),
            Some(HeadSays::Kill(()) | HeadSays::Finish(())) | None => bail!("the job has ended already"),
        }
    }
}

fn put(folder: &Path, part: &FilePart) -> io::Result<()> {
    if part.name.contains('/') || part.name.starts_with('.') {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(folder.join(&part.name))?;
    file.write_all_at(&part.bytes, part.offset_bytes)
}

struct NodeShare {
    folder: PathBuf,
    stream: TcpStream,
    from_head: Receiver<ToNode>,
    files: Vec<SharedFiles>,
    /// None: contents are not recorded.
    rings: Option<ContentRings>,
    /// Names of files with refusals that were sent.
    refusals: Vec<String>,
    processes: BTreeMap<u32, LocalRank>,
    /// A replay: it may be asked where ranks wait.
    is_replay: bool,
}

/// Files of one kind.
struct SharedFiles {
    prefix: &'static str,
    pages: Pages,
    /// What was sent last of each rank's page.
    sent: BTreeMap<u32, [u8; PAGE_BYTES]>,
}

/// A rank's process here.
struct LocalRank {
    told: RemoteProcess,
    /// None: it was gone before.
    handle: Option<OwnedFd>,
    /// Of the call that it waits in: how many calls it had begun, and where it is.
    waits_in: (u64, String),
}

impl NodeShare {
    fn new(folder: &Path, stream: TcpStream, rings: Option<ContentRings>) -> Result<Self> {
        let (sender, from_head) = channel();
        let mut reads = stream.try_clone().context("the connection to the head")?;
        // Ends with the connection, or with the process.
        thread::spawn(
            move || while receive_known(&mut reads).is_ok_and(|frame| sender.send(frame).is_ok()) {},
        );
        let files = |prefix| SharedFiles { prefix, pages: Pages::named(prefix), sent: BTreeMap::new() };
        Ok(Self {
            folder: folder.to_owned(),
            stream,
            from_head,
            files: PAGED_FILES.map(files).into(),
            rings,
            refusals: Vec::new(),
            processes: BTreeMap::new(),
            is_replay: folder.join("job").exists(),
        })
    }

    /// Until the head is gone, or has all that there is.
    fn run(mut self) -> Result<()> {
        let mut period = PERIOD;
        loop {
            let asked = match self.from_head.recv_timeout(period) {
                Ok(frame) => frame.says,
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            if asked == Some(HeadSays::Kill(())) {
                self.kill_ranks();
            }
            let is_last = asked == Some(HeadSays::Finish(()));
            self.tell()?;
            // Ranks may wait for room.
            period = if self.tell_contents(is_last)? { SHORT_PERIOD } else { PERIOD };
            if is_last {
                self.say(NodeSays::Done(()))?;
            }
        }
    }

    fn say(&self, says: NodeSays) -> Result<()> {
        say(&self.stream, says)
    }

    /// Sends what is new.
    fn tell(&mut self) -> Result<()> {
        let mut files = std::mem::take(&mut self.files);
        for SharedFiles { prefix, pages, sent } in &mut files {
            pages.look(&self.folder)?;
            for (rank, file, page) in pages.iter_mut() {
                if *prefix == RANKS {
                    self.tell_process(rank, &page)?;
                }
                let last = sent.entry(rank).or_insert([0; PAGE_BYTES]);
                self.tell_file(&format!("{prefix}{rank}"), rank, file, &page, last)?;
            }
        }
        self.files = files;
        self.tell_refusals()
    }

    /// Sends what is new of contents; whether there was much. `is_last`: the job has ended.
    fn tell_contents(&mut self, is_last: bool) -> Result<bool> {
        let Some(rings) = &mut self.rings else { return Ok(false) };
        let (mut sent, mut trouble) = (Ok(()), Vec::new());
        let mut give = |part: RankAnswers| {
            let RankAnswers { rank, offset_bytes, bytes, .. } = part;
            if sent.is_ok() {
                sent = say(&self.stream, NodeSays::Contents(ContentPart { rank, offset_bytes, bytes }));
            }
        };
        let is_filled = rings.take(&self.folder, is_last, &mut give, &mut |what| trouble.push(what));
        sent?;
        trouble.into_iter().try_for_each(|what| say(&self.stream, NodeSays::Trouble(what)))?;
        if is_last {
            for RankContents { rank, bytes, is_stopped } in rings.recorded() {
                let recorded = ContentsRecorded { rank, bytes, is_stopped };
                say(&self.stream, NodeSays::ContentsRecorded(recorded))?;
            }
        }
        Ok(is_filled)
    }

    /// What is behind the page first: the page says how much it is.
    fn tell_file(
        &mut self,
        name: &str,
        rank: u32,
        file: &mut RankFile,
        page: &SharedPage,
        last: &mut [u8; PAGE_BYTES],
    ) -> Result<()> {
        while let Some((offset_bytes, bytes)) = file.take(page)? {
            let offset_bytes = offset_bytes + PAGE_BYTES as u64;
            self.say(NodeSays::Part(FilePart { name: name.to_owned(), offset_bytes, bytes }))?;
        }
        // The number of a process means another one where this is read, if any.
        page.pid.store(0, Relaxed);
        if let Some(LocalRank { waits_in: (_, place), .. }) = self.processes.get(&rank)
            && page.text(PageText::Place).is_empty()
        {
            page.set_text(PageText::Place, place);
        }
        let now = page.to_bytes();
        let Some((offset_bytes, bytes)) = changed(last, &now) else { return Ok(()) };
        let part = FilePart { name: name.to_owned(), offset_bytes, bytes: bytes.to_vec() };
        *last = now;
        self.say(NodeSays::Part(part))
    }

    fn tell_process(&mut self, rank: u32, page: &SharedPage) -> Result<()> {
        let pid = page.pid.load(Relaxed);
        let process = RemoteProcess { rank, pid, is_running: may_wait(page) };
        let calls = page.calls.load(Relaxed);
        let is_waiting = self.is_replay && page.state() == PageState::InCall;
        let local = self.processes.entry(rank).or_insert_with(|| LocalRank {
            told: RemoteProcess::default(),
            handle: Pid::from_raw(pid.cast_signed())
                .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
            waits_in: (0, String::new()),
        });
        if local.waits_in.0 != calls {
            local.waits_in = (calls, String::new());
        } else if is_waiting && local.waits_in.1.is_empty() {
            local.waits_in.1 = place_text(page).unwrap_or_default();
        }
        if local.told == process {
            return Ok(());
        }
        local.told = process.clone();
        self.say(NodeSays::Process(process))
    }

    fn tell_refusals(&mut self) -> Result<()> {
        for entry in read_dir(&self.folder).context("the shared folder")?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_refusal = name.starts_with(REFUSALS) && written_by_rank(&name).is_some();
            if !is_refusal || self.refusals.contains(&name) {
                continue;
            }
            let Some(bytes) = whole(&entry.path()) else { continue };
            self.refusals.push(name.clone());
            self.say(NodeSays::Part(FilePart { name, offset_bytes: 0, bytes }))?;
        }
        Ok(())
    }

    fn kill_ranks(&self) {
        for handle in self.processes.values().filter_map(|rank| rank.handle.as_ref()) {
            // It may be gone.
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }
}

fn say(mut stream: &TcpStream, says: NodeSays) -> Result<()> {
    send(&mut stream, &ToHead { says: Some(says) }).context("the head is gone")
}

/// A small file; none while nothing is in it.
fn whole(path: &Path) -> Option<Vec<u8>> {
    const MOST_BYTES: u64 = 1 << 16;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(File::open(path).ok()?, MOST_BYTES), &mut bytes).ok()?;
    (!bytes.is_empty()).then_some(bytes)
}

/// From the first byte to the last that is another one than before.
fn changed<'a>(before: &[u8], now: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let differs = |(a, b): (&u8, &u8)| a != b;
    let first = before.iter().zip(now).position(differs)?;
    let last = before.iter().zip(now).rposition(differs)?;
    Some((first as u64, &now[first..=last]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_sent() {
        let before = [0, 1, 2, 3, 4, 5];
        assert_eq!(changed(&before, &before), None);
        assert_eq!(changed(&before, &[0, 9, 2, 8, 4, 5]), Some((1, &[9, 2, 8][..])));
        assert_eq!(changed(&before, &[7, 1, 2, 3, 4, 6]), Some((0, &[7, 1, 2, 3, 4, 6][..])));
    }
}
