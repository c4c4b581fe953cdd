//! The bus between nodes: a server, and strangers who talk to it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use tempfile::TempDir;

use super::{Nodes, deadline, patience};

const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
/// As NATS has it.
const PORT: u16 = 4222;

/// A user of the bus who is no administrator, with an account on every machine.
pub const SOME_USER: &str = "daemon";
/// The number of that account.
pub const SOME_UID: u32 = 1;

/// A NATS server in the network of some nodes, set up by the file that the project ships. Dropping it ends it.
pub struct BusServer {
    folder: TempDir,
    address: String,
    /// Where it tells what it counts.
    monitor: String,
    child: Option<Child>,
}

/// What a server has carried since it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct CarriedMessages {
    /// Messages that came in.
    pub in_messages: u64,
    /// Bytes of these.
    pub in_bytes: u64,
    /// Messages that went out: one to several subscribers counts for each.
    pub out_messages: u64,
    /// Bytes of these.
    pub out_bytes: u64,
}

/// An address of this machine where nobody listens.
fn free_address() -> Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr()?.to_string())
}

impl BusServer {
    /// Starts it.
    pub fn start(nodes: &Nodes) -> Result<Self> {
        Self::at(format!("{}:{PORT}", nodes.own_address()))
    }

    /// Starts it for this machine alone, on a port that is free. It tells what it has counted, see [`BusServer::carried`].
    pub fn on_loopback() -> Result<Self> {
        Self::at(free_address()?)
    }

    fn at(address: String) -> Result<Self> {
        let folder = TempDir::with_prefix("bus-").context("cannot make a folder for a bus")?;
        let monitor = free_address()?;
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/nats-server.conf");
        let shipped = fs::read_to_string(&shipped).with_context(|| shipped.display().to_string())?;
        let config = shipped.replace("0.0.0.0:4222", &address).replace("alice", SOME_USER);
        let config = format!("{config}\nhttp: \"{monitor}\"\n");
        fs::write(folder.path().join("server.conf"), config)?;
        for user in ["agent", SOME_USER, "root"] {
            let file = folder.path().join(user);
            fs::write(&file, format!("{user}:CHANGE-{user}\n"))?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let mut server = Self { folder, address, monitor, child: None };
        server.begin()?;
        Ok(server)
    }

    /// The same without users: whoever reaches it may do everything.
    pub fn without_users(nodes: &Nodes) -> Result<Self> {
        let mut server = Self::start(nodes)?;
        server.end();
        let config = format!("listen: \"{}\"\n", server.address);
        fs::write(server.folder.path().join("server.conf"), config)?;
        server.begin()?;
        Ok(server)
    }

    /// Begins anew with encrypted connections only, by a certificate for its address that an authority of its own has signed.
    pub fn encrypt(&mut self) -> Result<()> {
        self.end();
        let folder = self.folder.path();
        let host = self.address.rsplit_once(':').context("an address without a port")?.0;
        fs::write(folder.join("server.ext"), format!("subjectAltName=IP:{host}\n"))?;
        for words in [
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem -out ca.pem",
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=bus -keyout server-key.pem -out server.csr",
            "x509 -req -in server.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile server.ext -out server.pem",
        ] {
            let output = Command::new("openssl").args(words.split(' ')).current_dir(folder).output();
            let output = output.context("cannot start openssl (package openssl)")?;
            ensure!(output.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let path = folder.join("server.conf");
        let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let tls = format!(
            "tls {{ cert_file: \"{}\", key_file: \"{}\" }}",
            file("server.pem"),
            file("server-key.pem")
        );
        fs::write(&path, format!("{}{tls}\n", fs::read_to_string(&path)?))?;
        self.begin()
    }

    /// The certificate of who signed that of the server, after [`BusServer::encrypt`].
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Begins anew with a token that all users share instead of their names; gives the file that it is in.
    pub fn share_token(&mut self) -> Result<PathBuf> {
        self.end();
        let config = format!("listen: \"{}\"\nauthorization {{ token: \"shared-by-all\" }}\n", self.address);
        fs::write(self.folder.path().join("server.conf"), config)?;
        let file = self.folder.path().join("token");
        fs::write(&file, "shared-by-all\n")?;
        self.begin()?;
        Ok(file)
    }

    /// Starts it again, after [`BusServer::end`].
    pub fn begin(&mut self) -> Result<()> {
        let log = fs::File::create(self.folder.path().join("server.log"))?;
        let child = Command::new("nats-server")
            .arg("-c")
            .arg(self.folder.path().join("server.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start nats-server (package nats-server)")?;
        self.child = Some(child);
        let deadline = deadline(PATIENCE);
        while !self.log().contains("Server is ready") {
            ensure!(Instant::now() < deadline, "the bus does not start:\n{}", self.log());
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
    }

    /// What it has carried so far.
    ///
    /// # Errors
    /// It does not say.
    pub fn carried(&self) -> Result<CarriedMessages> {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(&self.monitor)?;
        stream.set_read_timeout(Some(patience(PATIENCE)))?;
        stream.write_all(b"GET /varz HTTP/1.0\r\n\r\n")?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        let body = said.split_once("\r\n\r\n").context("no answer of the bus")?.1;
        let facts: serde_json::Value = serde_json::from_str(body)?;
        let count = |name: &str| facts[name].as_u64().with_context(|| format!("no {name} of the bus"));
        Ok(CarriedMessages {
            in_messages: count("in_msgs")?,
            in_bytes: count("in_bytes")?,
            out_messages: count("out_msgs")?,
            out_bytes: count("out_bytes")?,
        })
    }

    /// Process id of the server.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills it.
    pub fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The credentials of a user: `agent`, `root` or [`SOME_USER`].
    pub fn credentials(&self, user: &str) -> PathBuf {
        self.folder.path().join(user)
    }

    /// Options that connect as a user.
    pub fn options(&self, user: &str) -> Vec<String> {
        let credentials = self.credentials(user).to_string_lossy().into_owned();
        vec!["--bus".into(), self.url(), "--bus-credentials".into(), credentials]
    }
}

impl Drop for BusServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// A program that talks to a bus as a stranger would, by the text of the protocol.
pub struct RawClient(std::net::TcpStream);

impl RawClient {
    /// Connects as a user, and says what the server answers to the first ping.
    pub fn connect(server: &BusServer, user: &str) -> Result<Self> {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(server.address())?;
        stream.set_read_timeout(Some(patience(PATIENCE)))?;
        let hello = format!(
            "CONNECT {{\"verbose\":false,\"user\":\"{user}\",\"pass\":\"CHANGE-{user}\",\"protocol\":1}}\r\nPING\r\n"
        );
        stream.write_all(hello.as_bytes())?;
        let mut said = String::new();
        let mut buffer = [0; 4096];
        while !said.contains("PONG") {
            let len = stream.read(&mut buffer)?;
            ensure!(len > 0, "the bus hung up: {said}");
            said.push_str(&String::from_utf8_lossy(&buffer[..len]));
            if said.contains("-ERR") {
                return Err(anyhow!("the bus refuses {user}: {said}"));
            }
        }
        Ok(Self(stream))
    }

    /// Publishes a message.
    pub fn publish(&mut self, subject: &str, payload: &[u8]) -> Result<()> {
        use std::io::Write;
        self.0.write_all(format!("PUB {subject} {}\r\n", payload.len()).as_bytes())?;
        self.0.write_all(payload)?;
        self.0.write_all(b"\r\n")?;
        Ok(())
    }

    /// Subscribes.
    pub fn subscribe(&mut self, subject: &str) -> Result<()> {
        use std::io::Write;
        self.0.write_all(format!("SUB {subject} 1\r\n").as_bytes())?;
        Ok(())
    }

    /// What the server says within a time.
    pub fn listen(&mut self, time: Duration) -> Result<String> {
        use std::io::Read;
        self.0.set_read_timeout(Some(Duration::from_millis(50)))?;
        let deadline = Instant::now() + time;
        let (mut said, mut buffer) = (String::new(), [0; 65536]);
        while Instant::now() < deadline {
            match self.0.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => said.push_str(&String::from_utf8_lossy(&buffer[..len])),
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(said)
    }
}
