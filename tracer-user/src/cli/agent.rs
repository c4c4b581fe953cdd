//! `dmscope agent`.

use analyzer::visible::visible;
use anyhow::{Result, bail};

use super::args::AgentArgs;
use super::bus;
use super::signals::stop_on_signals;
use crate::cluster::agent::{self, AgentSettings};

/// Takes care of this node until it is told to stop. What happens is said on standard error, a line each.
///
/// # Errors
/// No bus is named, or it refuses us.
pub fn run(args: &AgentArgs) -> Result<()> {
    let Some(nats) = bus::settings(&args.bus, "dmscope agent")? else {
        bail!("an agent needs a bus: give --bus nats://HOST:PORT")
    };
    let settings = AgentSettings {
        nats,
        operators: args.operator.clone(),
        most_budget: args.most_budget,
        trusts_everybody: args.trust_everybody,
        stop: stop_on_signals()?,
    };
    agent::run(&settings, &mut |line| eprintln!("dmscope agent: {}", visible(line)))
}
