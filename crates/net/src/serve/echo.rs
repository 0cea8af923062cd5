//! Everything that comes goes back.

use super::Service;
use crate::context::Context;
use crate::handler::Handler;
use crate::stats::Stats;
use crate::table::SocketId;

/// A server that sends back what it receives.
#[derive(Debug, Default, Clone, Copy)]
pub struct Echo;

impl Handler for Echo {
    #[inline]
    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
        cx.send(id, bytes);
    }
}

impl Service for Echo {
    /// What one receive brings counts as a request.
    fn requests(&self, stats: &Stats) -> u64 {
        stats.receives
    }
}
