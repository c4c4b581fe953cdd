//! The machine that figures belong to.

use std::fs;
use std::process::Command;

use serde::Serialize;

/// Where and with what it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model name of the first processor.
    pub processor: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// `sysname release` of the running kernel.
    pub kernel: String,
    /// Name and version of the distribution.
    pub system: String,
    /// Load average over one minute before the first measurement.
    pub load_before: f64,
    /// First lines of the versions of what is measured.
    pub versions: Vec<String>,
}

impl Machine {
    /// Looks at this machine.
    pub fn here() -> Self {
        let uname = rustix::system::uname();
        Self {
            processor: field("/proc/cpuinfo", "model name", ':'),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            system: field("/etc/os-release", "PRETTY_NAME", '=').trim_matches('"').to_owned(),
            load_before: load(),
            versions: [
                ["mpirun.openmpi", "--version"],
                ["mpirun.mpich", "--version"],
                ["clang-19", "--version"],
            ]
            .iter()
            .filter_map(|[program, argument]| version(program, argument))
            .collect(),
        }
    }
}

/// Load average over one minute; NaN if the system does not say.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

fn field(file: &str, name: &str, separator: char) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(separator));
    value.map_or("unknown", |(_, value)| value.trim()).to_owned()
}

fn version(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines().map(str::trim).filter(|line| line.chars().any(|c| c.is_ascii_digit()));
    lines.next().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
}
