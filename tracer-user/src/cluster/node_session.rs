//! A node's part of a session: a process of its own, which an agent starts, and which ends when its agent or its coordinator
//! is gone. The job goes on.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use analyzer::options::Options;
use analyzer::wire::FileId;
use anyhow::{Context, Result, ensure};
use crossbeam_channel::{Receiver, Sender, never, select, unbounded};
use serde::{Deserialize, Serialize};

use super::bus::{Bus, BusError, BusMessage, Inbox, NatsBus, NatsSettings};
use super::peers::PeerLetters;
use super::protocol::{
    self, CodeNames, CountingWishes, DownMessage, JobOnNode, NodeIdentity, SessionWishes, UpMessage,
    UserSubjects, WantedJob,
};
use super::uplink::{FilesForNames, TapeFeed, Uplink, WordSink};
use crate::budget::Budget;
use crate::host::files::OpenedFile;
use crate::host::jobs::NewDaemons;
use crate::host::sandbox::receive;
use crate::host::symbols::Symbols;
use crate::host::{self, NodeJob, clock};
use crate::kernel::{Features, HolderPlace, LoadSettings};
use crate::plan::PlanOptions;
use crate::session::{self, ExpectedJob, FromNodes, NodePart, Outlets, Settings};

/// From when a job has its name its ranks start within this time.
const DAEMONS_TIMEOUT: Duration = Duration::from_secs(60);
/// Where a launcher is quick they are there within this time: it is looked all the time.
const QUICK_DAEMONS: Duration = Duration::from_secs(3);
/// Later it is looked only so often.
const SLOW_PERIOD: Duration = Duration::from_millis(10);
/// How long the last messages of a session may take.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What an agent tells the process that it starts.
#[derive(Serialize, Deserialize)]
pub struct NodeSessionOrder {
    /// The bus.
    pub nats: NatsSettings,
    /// The user whose session it is.
    pub user: String,
    /// The node.
    pub node: NodeIdentity,
    /// What the session is called.
    pub session: String,
    /// The node's number in it.
    pub number: u32,
    /// The job.
    pub job: WantedJob,
    /// The only user whose jobs may be watched; none: everybody's.
    pub only_user: Option<u32>,
    /// How it is watched.
    pub wishes: SessionWishes,
}

/// Carries out the order that comes on standard input.
///
/// # Errors
/// There is none, or no bus. What goes wrong after that is told to the coordinator.
pub fn serve() -> Result<()> {
    // It is a socket: see the agent.
    let stdin = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned()?;
    let mut agent = UnixStream::from(stdin);
    let order: NodeSessionOrder = receive(&mut agent).context("no order from an agent")?;
    let subjects = UserSubjects::of(&order.user);
    let bus: Arc<dyn Bus> = Arc::new(NatsBus::connect(order.nats.clone())?);
    let uplink = Uplink::new(Arc::clone(&bus), &subjects.up(&order.session, &order.node.agent));
    let down =
        [order.node.agent.as_str(), "all"].map(|node| bus.subscribe(&subjects.down(&order.session, node)));
    let flags = Flags::default();
    match carry_out(&order, agent, down, &uplink, &flags) {
        Ok(control) => {
            // One that was stopped by anybody else may go on in another session.
            let is_job_over = !flags.stop.load(Ordering::Relaxed) || flags.is_asked.load(Ordering::Relaxed);
            uplink.say(&UpMessage::Ended { is_job_over });
            // Who finds something in the last inputs wants to know what it is called.
            let _ = control.join();
        }
        Err(error) => uplink.say(&UpMessage::Failed(format!("{error:#}"))),
    }
    uplink.flush(LAST_WORDS);
    Ok(())
}

/// What the session and the thread that listens tell each other.
#[derive(Clone, Default)]
struct Flags {
    /// The session is to end.
    stop: Arc<AtomicBool>,
    /// The coordinator has asked for that.
    is_asked: Arc<AtomicBool>,
}

fn carry_out(
    order: &NodeSessionOrder,
    agent: UnixStream,
    down: [Result<Inbox, BusError>; 2],
    uplink: &Uplink,
    flags: &Flags,
) -> Result<JoinHandle<()>> {
    let (files, new_files) = unbounded();
    let (names, new_names) = unbounded();
    let [own, all] = down;
    let (to_part, words) = unbounded();
    let nodes: Arc<AtomicU32> = Arc::default();
    let begins = Arc::new(AtomicBool::new(matches!(order.job, WantedJob::Running(_))));
    let control = Control {
        inboxes: [own?, all?],
        to_part,
        begins: Arc::clone(&begins),
        nodes: Arc::clone(&nodes),
        agent_is_gone: until_closed(agent)?,
        new_files,
        names,
        symbols: Symbols::default(),
        uplink: uplink.clone(),
        flags: flags.clone(),
        ends_after: order.wishes.ends_after(),
        heard: Instant::now(),
    };
    let thread = std::thread::Builder::new().name("dms-control".into());
    let control =
        thread.spawn(move || control.serve()).context("cannot start a thread for the coordinator")?;
    let outlets = Outlets {
        tape: None,
        feed: Some(Box::new(TapeFeed::new(uplink.clone(), Arc::clone(&begins)))),
        names: Box::new(FilesForNames(files)),
    };
    let part = match order.wishes.whole {
        true => None,
        false => {
            let subjects = UserSubjects::of(&order.user);
            let letters = PeerLetters::new(uplink.clone(), subjects, &order.session, order.number, words)?;
            Some(NodePart { number: order.number, letters: Box::new(letters), nodes })
        }
    };
    let settings = settings(&order.wishes, outlets, part, Arc::clone(&flags.stop));
    let mut sink = WordSink(uplink.clone());
    match &order.job {
        WantedJob::Running(meant) => session::attach(&job(meant)?, settings, &mut sink).map(|_| ())?,
        WantedJob::Expected(command) => {
            let mut daemons = ExpectedDaemons {
                new: NewDaemons::since_now(),
                names: new_names,
                name: None,
                only_user: order.only_user,
                begins,
            };
            let job = ExpectedJob {
                command,
                uid: order.only_user.unwrap_or(0),
                ready: &mut || uplink.say(&UpMessage::Ready),
                daemons: &mut || daemons.look(),
            };
            session::expect(job, settings, &mut sink)?;
        }
    }
    Ok(control)
}

/// Waits for a job that is expected: for its name, and then for what starts its ranks here.
struct ExpectedDaemons {
    new: NewDaemons,
    names: Receiver<String>,
    /// And since when it is known.
    name: Option<(String, Instant)>,
    only_user: Option<u32>,
    /// Set when there are some.
    begins: Arc<AtomicBool>,
}

impl ExpectedDaemons {
    /// The daemons that are here by now; none: there will not be any.
    fn look(&mut self) -> Option<Vec<u32>> {
        if let Ok(name) = self.names.try_recv() {
            self.name = Some((name, Instant::now()));
        }
        let Some((name, since)) = &self.name else { return Some(Vec::new()) };
        if since.elapsed() > QUICK_DAEMONS {
            std::thread::sleep(SLOW_PERIOD);
        }
        let daemons = self.new.of_job(name, self.only_user);
        self.begins.store(!daemons.is_empty(), Ordering::Relaxed);
        (!daemons.is_empty() || since.elapsed() <= DAEMONS_TIMEOUT).then_some(daemons)
    }
}

/// The job that was meant, if it is still that one.
fn job(meant: &JobOnNode) -> Result<NodeJob> {
    let job = host::job_of(meant.rank_pid)?;
    let rank = job.ranks.iter().find(|rank| rank.pid == meant.rank_pid);
    ensure!(
        rank.is_some_and(|rank| rank.start_ticks == meant.rank_start_ticks),
        "process {} is another one by now: the job has ended",
        meant.rank_pid
    );
    Ok(job)
}

fn settings(
    wishes: &SessionWishes,
    outlets: Outlets,
    part: Option<NodePart>,
    stop: Arc<AtomicBool>,
) -> Settings {
    let CountingWishes { context_window, max_age_ops, pack_uniqueness_max } = wishes.counting;
    Settings {
        kernel: LoadSettings {
            ring_bytes: wishes.ring_bytes,
            alloc_min_bytes: wishes.alloc_min_bytes,
            without: Features::default(),
            holder: HolderPlace::Process,
            ..LoadSettings::default()
        },
        plan: PlanOptions {
            libraries: wishes.libraries.clone(),
            returns: wishes.returns,
            copies: !wishes.calls_only,
            allocations: !wishes.calls_only,
            engine: wishes.engine,
            ..PlanOptions::default()
        },
        analysis: Options { context_window, max_age_ops, pack_uniqueness_max, ..Options::default() },
        duration: None,
        only_job: wishes.only_job,
        budget: wishes.budget.map(|share| Budget { share }),
        outlets,
        part,
        page_calls: None,
        stop,
    }
}

/// Hears when the other side of a socket is gone.
fn until_closed(mut socket: UnixStream) -> Result<Receiver<()>> {
    let (sender, closed) = unbounded();
    let thread = std::thread::Builder::new().name("dms-agent".into());
    let wait = move || {
        // Nothing more is said on it.
        let _ = std::io::copy(&mut socket, &mut std::io::sink());
        drop(sender);
    };
    thread.spawn(wait).context("cannot start a thread for the agent")?;
    Ok(closed)
}

/// Listens to the coordinator and the agent.
struct Control {
    inboxes: [Inbox; 2],
    agent_is_gone: Receiver<()>,
    new_files: Receiver<Vec<(FileId, Arc<OpenedFile>)>>,
    /// What a job is called that is expected.
    names: Sender<String>,
    /// What the analysis is to know of other nodes.
    to_part: Sender<FromNodes>,
    /// There is, or was, something to analyze.
    begins: Arc<AtomicBool>,
    /// How many nodes take part.
    nodes: Arc<AtomicU32>,
    symbols: Symbols,
    uplink: Uplink,
    flags: Flags,
    /// A coordinator that was not heard of for so long is gone.
    ends_after: Duration,
    /// When it was last heard of.
    heard: Instant,
}

impl Control {
    /// Until nothing more is needed, or nobody is there to need it.
    fn serve(mut self) {
        let period = Duration::from_millis(500);
        let mut new_files = self.new_files.clone();
        loop {
            let [own, all] = &self.inboxes;
            let message = select! {
                recv(own.receiver()) -> message => message.ok().map(|message| own.took(message)),
                recv(all.receiver()) -> message => message.ok().map(|message| all.took(message)),
                recv(self.agent_is_gone) -> _ => return self.end("its agent has ended"),
                recv(new_files) -> files => {
                    match files {
                        Ok(files) => self.symbols.know(files),
                        Err(_) => new_files = never(),
                    }
                    None
                }
                default(period) => None,
            };
            if let Some(message) = message
                && self.take(&message) == Goes::Away
            {
                return self.flags.stop.store(true, Ordering::Relaxed);
            }
            if self.heard.elapsed() > self.ends_after {
                return self.end("its coordinator is gone");
            }
        }
    }

    fn end(&self, why: &str) {
        self.uplink.say(&UpMessage::Notice(format!("the session ends: {why}")));
        self.flags.stop.store(true, Ordering::Relaxed);
    }

    fn take(&mut self, message: &BusMessage) -> Goes {
        let arrived_ns = clock::monotonic_ns();
        // What is not understood is of another version, or no coordinator's.
        let Ok(word) = protocol::parse::<DownMessage>(&message.payload) else { return Goes::On };
        self.heard = Instant::now();
        match word {
            DownMessage::Alive { nodes } => self.nodes.store(nodes, Ordering::Relaxed),
            DownMessage::Job(name) => {
                // Nobody waits for it in a session of a job that runs.
                let _ = self.names.send(name);
            }
            DownMessage::Gone(node) => {
                let _ = self.to_part.send(FromNodes::Gone(node));
            }
            // What confirms it is the analysis; as long as there is none there is nothing to tell.
            DownMessage::Round(round) if !self.begins.load(Ordering::Relaxed) => {
                self.uplink.say(&UpMessage::Confirmed { round });
            }
            DownMessage::Round(number) => {
                let _ = self.to_part.send(FromNodes::Round { number, at_ns: arrived_ns });
            }
            DownMessage::Stop => {
                self.flags.is_asked.store(true, Ordering::Relaxed);
                self.flags.stop.store(true, Ordering::Relaxed);
            }
            DownMessage::Leave => return Goes::Away,
            DownMessage::Ping { sent_ns } => {
                let node_ns = clock::monotonic_ns();
                let held_ns = node_ns.saturating_sub(arrived_ns);
                self.uplink.say(&UpMessage::Pong { sent_ns, node_ns, held_ns });
            }
            DownMessage::Name(places) => {
                while let Ok(files) = self.new_files.try_recv() {
                    self.symbols.know(files);
                }
                let symbols = self.symbols.resolve(places);
                if let Some(reply) = &message.reply {
                    self.uplink.answer(reply, &CodeNames { symbols });
                }
            }
        }
        Goes::On
    }
}

/// What a word means for the one who hears it.
#[derive(PartialEq, Eq)]
enum Goes {
    On,
    Away,
}
