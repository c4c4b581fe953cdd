//! Puts the job and its analyses together, and nothing else.

mod elsewhere;
mod links;
mod movements;
mod node;
mod one_sided;
mod pace;
mod rounds;
mod session;
mod times;

pub use movements::DataMovement;
pub use node::{Letter, LetterTo, NodePipeline};
pub use session::{Depth, LastCall, Pipeline};
pub use times::TimesPipeline;
