//! Servers that the command and the examples run.

mod echo;
mod line;
mod resp;

pub use echo::Echo;
pub use line::{Line, DEFAULT_MAX_LINE};
pub use resp::{Resp, Store, DEFAULT_MAX_MEMORY};

use crate::handler::Handler;
use crate::stats::Stats;

/// A server that counts what it has answered.
pub trait Service: Handler {
    /// Requests answered so far by a service on sockets with these counters.
    fn requests(&self, stats: &Stats) -> u64;
}
