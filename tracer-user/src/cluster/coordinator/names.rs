//! Names of code places, asked of the nodes whose files they are in.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use analyzer::input::Symbol;
use analyzer::tape::{file_on_node, node_of_file};
use analyzer::wire::FileId;

use crate::cluster::bus::{Bus, BusError, Inbox};
use crate::cluster::protocol::{self, CodeNames, DownMessage, UserSubjects};
use crate::host::files::OpenedFile;
use crate::host::unique_word::unique_word;
use crate::session::NameSource;

/// How long an answer is waited for: a file with much debug information takes a while.
const PATIENCE: Duration = Duration::from_secs(3);
/// Places of one question: so that its answer fits into a message.
const MOST_PLACES: usize = 256;

/// What the agents of nodes are called, by the number of the node.
pub type AgentNames = Arc<Mutex<Vec<String>>>;

/// See the [module](self).
pub struct NodeNames {
    bus: Arc<dyn Bus>,
    subjects: UserSubjects,
    session: String,
    agents: AgentNames,
    reply: String,
    inbox: Inbox,
    asked: HashSet<(FileId, u64)>,
}

impl NodeNames {
    /// For one session.
    ///
    /// # Errors
    /// No bus.
    pub fn new(
        bus: Arc<dyn Bus>,
        subjects: UserSubjects,
        session: &str,
        agents: AgentNames,
    ) -> Result<Self, BusError> {
        let word = unique_word().map_err(|error| BusError::NoConnection(error.to_string()))?;
        let reply = subjects.inbox(&word);
        let inbox = bus.subscribe(&format!("{reply}.*"))?;
        Ok(Self { bus, subjects, session: session.to_owned(), agents, reply, inbox, asked: HashSet::new() })
    }

    /// Asks a node; gives how many answers will come.
    fn ask(&self, node: usize, places: &[(FileId, u64)]) -> usize {
        let agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(agent) = agents.get(node) else { return 0 };
        let subject = self.subjects.down(&self.session, agent);
        let reply = format!("{}.{node}", self.reply);
        let questions =
            places.chunks(MOST_PLACES).map(|some| protocol::bytes(&DownMessage::Name(some.to_vec())));
        questions
            .filter(|question| self.bus.publish(&subject, Some(&reply), question.clone()).is_ok())
            .count()
    }
}

impl NameSource for NodeNames {
    /// Files are the nodes'.
    fn know(&mut self, _files: Vec<(FileId, Arc<OpenedFile>)>) {}

    fn resolve(&mut self, places: Vec<(FileId, u64)>) -> Vec<Symbol> {
        let mut by_node: BTreeMap<usize, Vec<(FileId, u64)>> = BTreeMap::new();
        for (file, offset_bytes) in places {
            let node = node_of_file(file);
            if self.asked.insert((file, offset_bytes)) {
                by_node.entry(node).or_default().push((file_on_node(node, file), offset_bytes));
            }
        }
        let mut missing: usize = by_node.iter().map(|(node, places)| self.ask(*node, places)).sum();
        let until = Instant::now() + PATIENCE;
        let mut symbols = Vec::new();
        while missing > 0
            && let Some(left) = until.checked_duration_since(Instant::now())
            && let Ok(Some(message)) = self.inbox.next(left)
        {
            if message.is_unheard {
                missing -= 1;
                continue;
            }
            let node = message.subject.rsplit('.').next().and_then(|node| node.parse().ok());
            let (Some(node), Ok(names)) = (node, protocol::parse::<CodeNames>(&message.payload)) else {
                continue;
            };
            missing -= 1;
            symbols.extend(names.symbols.into_iter().map(|symbol| of_all(node, symbol)));
        }
        symbols
    }
}

/// A name, as all nodes together call its file.
fn of_all(node: usize, symbol: Symbol) -> Symbol {
    Symbol { file: file_on_node(node, symbol.file), ..symbol }
}
