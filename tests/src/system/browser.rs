//! A headless browser for tests of pages, driven through WebDriver on the loopback interface.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fantoccini::actions::{InputSource, MOUSE_BUTTON_LEFT, MouseActions, PointerAction};
use fantoccini::key::Key;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::processes::{descendants, is_alive, signal};

const PATIENCE: Duration = Duration::from_secs(60);
/// One at a time: the driver needs a moment to find a free port.
static STARTING: Mutex<()> = Mutex::new(());

/// A browser with one window. Dropping it ends it.
pub struct Browser {
    driver: Child,
    runtime: Runtime,
    client: Option<Client>,
    /// Where the browser keeps its things.
    _profile: TempDir,
}

impl Browser {
    /// Starts one whose user prefers light pages, or dark ones.
    pub fn start(dark: bool) -> Result<Self> {
        let _one = STARTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let profile =
            TempDir::with_prefix("dmscope-browser-").context("cannot make a folder for the browser")?;
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("TMPDIR", profile.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start chromedriver (cargo xtask setup installs it)")?;
        let stdout = driver.stdout.take().context("chromedriver's standard output")?;
        let runtime = Builder::new_current_thread().enable_all().build().context("a runtime")?;
        let mut browser = Self { driver, runtime, client: None, _profile: profile };
        let port = port_of(BufReader::new(stdout))?;
        let client = browser.runtime.block_on(connect(port, dark, browser._profile.path()));
        browser.client = Some(client.context("cannot open a browser")?);
        Ok(browser)
    }

    fn client(&self) -> Result<&Client> {
        self.client.as_ref().context("the browser has ended")
    }

    /// Opens a page from a file, and waits until it is drawn.
    pub fn open(&self, page: &Path) -> Result<()> {
        let url = format!("file://{}", page.display());
        self.runtime.block_on(self.client()?.goto(&url)).with_context(|| format!("cannot open {url}"))?;
        self.wait_for("return performance.getEntriesByName('drawn').length > 0")
            .context("the page was not drawn")
    }

    /// Runs a script in the page; gives what it returns.
    pub fn run(&self, script: &str) -> Result<Value> {
        let result = self.runtime.block_on(self.client()?.execute(script, Vec::new()));
        result.with_context(|| format!("in the page: {script}"))
    }

    /// Runs a script that returns a number.
    pub fn number(&self, script: &str) -> Result<f64> {
        let value = self.run(script)?;
        value.as_f64().with_context(|| format!("{script}: {value} is no number"))
    }

    /// Runs a script that returns a text.
    pub fn text(&self, script: &str) -> Result<String> {
        let value = self.run(script)?;
        value.as_str().map(str::to_owned).with_context(|| format!("{script}: {value} is no text"))
    }

    /// Waits until a script returns true.
    pub fn wait_for(&self, script: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.run(script)? != json!(true) {
            ensure!(Instant::now() < deadline, "it did not come to pass: {script}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Presses the element that a selector finds first.
    pub fn press(&self, selector: &str) -> Result<()> {
        let client = self.client()?;
        self.runtime
            .block_on(async { client.find(Locator::Css(selector)).await?.click().await })
            .with_context(|| format!("cannot press {selector}"))
    }

    /// Presses keys while the element has the focus.
    pub fn keys(&self, selector: &str, keys: &[Key]) -> Result<()> {
        let client = self.client()?;
        let keys: String = keys.iter().copied().map(char::from).collect();
        self.runtime
            .block_on(async { client.find(Locator::Css(selector)).await?.send_keys(&keys).await })
            .with_context(|| format!("cannot type into {selector}"))
    }

    /// Presses the mouse at a point of the window.
    pub fn press_at(&self, x: i64, y: i64) -> Result<()> {
        let mouse = MouseActions::new("mouse".to_owned())
            .then(PointerAction::MoveTo { duration: None, x: x as f64, y: y as f64 })
            .then(PointerAction::Down { button: MOUSE_BUTTON_LEFT })
            .then(PointerAction::Up { button: MOUSE_BUTTON_LEFT });
        self.runtime.block_on(self.client()?.perform_actions(mouse)).context("cannot press the mouse")
    }

    /// Keeps a picture of the window.
    pub fn screenshot(&self, path: &Path) -> Result<()> {
        let picture = self.runtime.block_on(self.client()?.screenshot()).context("no picture")?;
        std::fs::write(path, picture).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Ends it; fails if anything of it is left.
    pub fn end(mut self) -> Result<()> {
        let family = descendants(self.driver.id());
        ensure!(!family.is_empty(), "the driver has no browser");
        if let Some(client) = self.client.take() {
            self.runtime.block_on(client.close()).context("cannot close the browser")?;
        }
        self.driver.kill().context("cannot end the driver")?;
        self.driver.wait().context("waiting for the driver")?;
        let deadline = Instant::now() + PATIENCE;
        while let Some(pid) = family.iter().find(|pid| is_alive(**pid)) {
            ensure!(Instant::now() < deadline, "process {pid} of the browser did not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let family = descendants(self.driver.id());
        // After `end` there is nothing left to do.
        if self.driver.kill().is_ok() {
            let _ = self.driver.wait();
        }
        family.into_iter().filter(|pid| is_alive(*pid)).for_each(|pid| signal(pid, Signal::KILL));
    }
}

/// The driver chooses a free port and says which.
fn port_of(mut output: impl BufRead + Send + 'static) -> Result<u16> {
    let mut line = String::new();
    while output.read_line(&mut line).context("reading what chromedriver says")? > 0 {
        if let Some((_, rest)) = line.split_once("started successfully on port ") {
            // Whatever else it says must find a reader.
            std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
            return rest.trim().trim_end_matches('.').parse().context("chromedriver's port");
        }
        line.clear();
    }
    bail!("chromedriver ended at once")
}

async fn connect(port: u16, dark: bool, profile: &Path) -> Result<Client> {
    let scheme = if dark { 0 } else { 1 };
    let arguments = [
        "--headless=new".to_owned(),
        // Root has no sandbox; the pages are our own.
        "--no-sandbox".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--window-size=1400,1200".to_owned(),
        format!("--blink-settings=preferredColorScheme={scheme}"),
        format!("--user-data-dir={}", profile.join("profile").display()),
    ];
    let capabilities = json!({ "goog:chromeOptions": { "args": arguments } });
    let capabilities = capabilities.as_object().cloned().unwrap_or_default();
    let mut builder = ClientBuilder::new(HttpConnector::new());
    builder.capabilities(capabilities);
    builder.connect(&format!("http://127.0.0.1:{port}")).await.context("cannot connect to chromedriver")
}
