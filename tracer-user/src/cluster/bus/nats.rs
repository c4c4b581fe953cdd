//! NATS: a thread of its own has the client's runtime; everybody else sends it commands and never waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerError, StatusCode};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::credentials::Credentials;
use super::{Bus, BusError, BusEvent, BusFacts, BusMessage, Inbox, InboxSender, SharedInbox};

/// Bytes that may wait to be sent, while a server is away or slow.
const MOST_WAITING_BYTES: usize = 64 << 20;
/// For how long a server is waited for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For how long the last messages may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// How soon a server that has gone is noticed, and tried again.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const MOST_RECONNECT_DELAY: Duration = Duration::from_secs(2);

/// Where a server is, and who connects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NatsSettings {
    /// Addresses of the servers of one cluster: `nats://host:port`, `tls://host:port`.
    pub urls: Vec<String>,
    /// Who connects; none: nobody in particular.
    pub credentials: Option<Credentials>,
    /// A file with certificates of who signs those of servers; none: those that the machine trusts.
    pub root_certificates: Option<PathBuf>,
    /// Files with a certificate that tells who connects, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// What the server's administrator sees.
    pub name: String,
}

enum BusCommand {
    Publish { subject: String, reply: Option<String>, payload: Vec<u8> },
    Subscribe { subjects: String, inbox: InboxSender },
    Flush(Sender<()>),
    Close,
}

/// A connection to a NATS server.
pub struct NatsBus {
    commands: mpsc::UnboundedSender<BusCommand>,
    waiting_bytes: Arc<AtomicUsize>,
    events: Receiver<BusEvent>,
    facts: BusFacts,
    thread: Option<JoinHandle<()>>,
}

impl NatsBus {
    /// Connects.
    ///
    /// # Errors
    /// There is no server, or it does not let us in: why, and what to do.
    pub fn connect(settings: NatsSettings) -> Result<Self, BusError> {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (connected, connection) = bounded(1);
        let (event_sender, events) = unbounded();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let of_thread = Arc::clone(&waiting_bytes);
        let thread = std::thread::Builder::new().name("dms-bus".into());
        let thread = thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => {
                    runtime.block_on(serve(settings, event_sender, connected, receiver, of_thread));
                }
                Err(error) => {
                    let why = format!("cannot start what talks to the bus: {error}");
                    let _ = connected.send(Err(BusError::NoConnection(why)));
                }
            }
        });
        let thread = thread
            .map_err(|error| BusError::NoConnection(format!("cannot start a thread for the bus: {error}")))?;
        let facts = connection.recv().map_err(|_| BusError::Closed)??;
        Ok(Self { commands, waiting_bytes, events, facts, thread: Some(thread) })
    }

    fn send(&self, command: BusCommand) -> Result<(), BusError> {
        self.commands.send(command).map_err(|_| BusError::Closed)
    }
}

impl Bus for NatsBus {
    fn publish(&self, subject: &str, reply: Option<&str>, payload: Vec<u8>) -> Result<(), BusError> {
        let bytes = payload.len();
        if bytes > self.facts.most_bytes {
            return Err(BusError::TooLarge { bytes, most_bytes: self.facts.most_bytes });
        }
        let waiting_bytes = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if waiting_bytes + bytes > MOST_WAITING_BYTES {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(BusError::Full { waiting_bytes });
        }
        self.send(BusCommand::Publish {
            subject: subject.to_owned(),
            reply: reply.map(str::to_owned),
            payload,
        })
    }

    fn subscribe(&self, subjects: &str) -> Result<Inbox, BusError> {
        let (sender, inbox) = Inbox::pair();
        self.send(BusCommand::Subscribe { subjects: subjects.to_owned(), inbox: sender })?;
        Ok(inbox)
    }

    fn subscribe_into(&self, subjects: &str, inbox: &SharedInbox) -> Result<(), BusError> {
        self.send(BusCommand::Subscribe { subjects: subjects.to_owned(), inbox: inbox.sender.clone() })
    }

    fn events(&self) -> Receiver<BusEvent> {
        self.events.clone()
    }

    fn facts(&self) -> BusFacts {
        self.facts
    }

    fn flush(&self, limit: Duration) -> bool {
        let (done, is_done) = bounded(1);
        self.send(BusCommand::Flush(done)).is_ok() && is_done.recv_timeout(limit).is_ok()
    }
}

impl Drop for NatsBus {
    fn drop(&mut self) {
        let _ = self.send(BusCommand::Close);
        let Some(thread) = self.thread.take() else { return };
        let until = Instant::now() + CLOSE_TIMEOUT;
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        // One that waits for a server that is away ends with the process.
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

/// Connects, and does what it is told until it is told to stop.
async fn serve(
    settings: NatsSettings,
    events: Sender<BusEvent>,
    connected: Sender<Result<BusFacts, BusError>>,
    mut commands: mpsc::UnboundedReceiver<BusCommand>,
    waiting_bytes: Arc<AtomicUsize>,
) {
    let client = match connect(settings, events).await {
        Ok(client) => client,
        Err(error) => {
            let _ = connected.send(Err(error));
            return;
        }
    };
    let info = client.server_info();
    let facts = BusFacts { authenticates: info.auth_required, most_bytes: info.max_payload };
    let _ = connected.send(Ok(facts));
    while let Some(command) = commands.recv().await {
        match command {
            BusCommand::Publish { subject, reply, payload } => {
                let bytes = payload.len();
                // Waits while the server is away: what comes meanwhile waits behind it, up to a bound.
                let _ = match reply {
                    Some(reply) => client.publish_with_reply(subject, reply, payload.into()).await,
                    None => client.publish(subject, payload.into()).await,
                };
                waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            BusCommand::Subscribe { subjects, inbox } => {
                if let Ok(subscriber) = client.subscribe(subjects).await {
                    tokio::spawn(forward(subscriber, inbox));
                }
            }
            BusCommand::Flush(done) => {
                if client.flush().await.is_ok() {
                    let _ = done.send(());
                }
            }
            BusCommand::Close => break,
        }
        // The client sends late unless it is told to.
        if commands.is_empty() {
            let _ = client.flush().await;
        }
    }
    // What was published is sent, if the server is there.
    let _ = tokio::time::timeout(Duration::from_secs(1), client.flush()).await;
}

async fn forward(mut subscriber: async_nats::Subscriber, inbox: InboxSender) {
    while let Some(message) = next(&mut subscriber).await {
        // The server answers itself where nobody hears a question.
        let is_unheard = message.status == Some(StatusCode::NO_RESPONDERS);
        if message.status.is_some() && !is_unheard {
            continue;
        }
        let message = BusMessage {
            subject: message.subject.to_string(),
            reply: message.reply.map(|reply| reply.to_string()),
            payload: message.payload.into(),
            is_unheard,
        };
        if !inbox.put(message) {
            let _ = subscriber.unsubscribe().await;
            return;
        }
    }
}

/// The next message of a subscription.
async fn next(subscriber: &mut async_nats::Subscriber) -> Option<async_nats::Message> {
    use futures_util::StreamExt;
    subscriber.next().await
}

async fn connect(settings: NatsSettings, events: Sender<BusEvent>) -> Result<Client, BusError> {
    let server = settings.urls.join(", ");
    let refused =
        |why: String| BusError::NoConnection(format!("cannot connect to the bus at {server}: {why}"));
    let options = options(&settings).map_err(|error| refused(error.to_string()))?;
    let options = options.event_callback(move |event| {
        let events = events.clone();
        async move {
            if let Some(event) = told(event) {
                let _ = events.send(event);
            }
        }
    });
    let connection = tokio::time::timeout(CONNECT_TIMEOUT, options.connect(settings.urls.clone())).await;
    match connection {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(refused(reason(error.kind(), &error.to_string()))),
        Err(_) => Err(refused(reason(ConnectErrorKind::TimedOut, ""))),
    }
}

fn options(settings: &NatsSettings) -> std::io::Result<ConnectOptions> {
    let options = ConnectOptions::new()
        .name(&settings.name)
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .reconnect_delay_callback(|attempts| {
            Duration::from_millis(100 << attempts.min(5)).min(MOST_RECONNECT_DELAY)
        });
    let options = match settings.credentials.clone() {
        None => options,
        Some(Credentials::Jwt(text)) => options.credentials(&text)?,
        Some(Credentials::Key(seed)) => options.nkey(seed),
        Some(Credentials::Password { user, password }) => options.user_and_password(user, password),
        Some(Credentials::Token(token)) => options.token(token),
    };
    let options = match settings.root_certificates.clone() {
        None => options,
        Some(file) => options.add_root_certificates(file).require_tls(true),
    };
    Ok(match settings.certificate.clone() {
        None => options,
        Some((certificate, key)) => options.add_client_certificate(certificate, key),
    })
}

fn told(event: Event) -> Option<BusEvent> {
    match event {
        Event::Connected => Some(BusEvent::Connected),
        Event::Disconnected => Some(BusEvent::Disconnected),
        Event::SlowConsumer(_) | Event::ServerError(ServerError::SlowConsumer(_)) => Some(BusEvent::TooSlow),
        Event::ServerError(error) => Some(BusEvent::Refused(error.to_string())),
        Event::ClientError(error) => Some(BusEvent::Refused(error.to_string())),
        Event::LameDuckMode | Event::Draining | Event::Closed => None,
    }
}

/// Why there is no connection, and what to do.
fn reason(kind: ConnectErrorKind, text: &str) -> String {
    // The client tells of certificates that it does not trust as of any trouble with a connection.
    let kind = if text.contains("certificate") { ConnectErrorKind::Tls } else { kind };
    let why = match kind {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            "the server does not know these credentials; give --bus-credentials FILE, as its administrator has told you"
        }
        ConnectErrorKind::Dns => "no such host; check the name in --bus",
        ConnectErrorKind::ServerParse => "this is no address; write nats://HOST:PORT",
        ConnectErrorKind::Tls => {
            "no encrypted connection could be made; --bus-ca FILE names who signed the server's certificate"
        }
        ConnectErrorKind::TimedOut => {
            "it does not answer; check host and port, and whether a firewall is in between"
        }
        ConnectErrorKind::Io | ConnectErrorKind::MaxReconnects => "is a NATS server running there?",
    };
    let text = text.trim();
    if text.is_empty() { why.to_owned() } else { format!("{why} ({text})") }
}
