//! The end of a socket: flush, shut down, linger, end the entries, close; and ends that time brings.

use crate::backend::{Backend, Calls};
use crate::context::Context;
use crate::core::{Core, Hold, State};
use crate::handler::Handler;
use crate::table::{Fin, Kind, Phase, SocketId, Tag, What};
use rustix::net::Shutdown;
use std::io;
use std::time::Duration;

/// An idle stream is noticed after at most this part more of its time.
const SWEEPS_PER_IDLE: u64 = 8;

impl State {
    /// Ends a socket because of an error.
    pub(crate) fn fail(&mut self, id: SocketId, errno: i32) {
        let Some(slot) = self.table.get_mut(id) else {
            return;
        };
        if slot.errno == 0 && slot.phase != Phase::Stopping {
            slot.errno = errno;
        }
        slot.phase = Phase::Stopping;
        self.buffered -= slot.queue.discard(&mut self.spares);
        self.list(id);
    }

    /// Closes a stream once everything is sent.
    pub(crate) fn close(&mut self, id: SocketId) {
        let Some(slot) = self.table.get_mut(id) else {
            return;
        };
        match (slot.kind, slot.phase) {
            (Kind::Stream | Kind::Datagram, Phase::Open) => slot.phase = Phase::Flushing,
            (_, Phase::Connecting) | (Kind::Listener, _) => slot.phase = Phase::Stopping,
            _ => return,
        }
        self.list(id);
    }

    pub(crate) fn linger(&mut self, id: SocketId) {
        let until = self.clock.now_ms + self.limits.linger.as_millis() as u64;
        self.lingering.push_back((until, id));
    }

    /// The time that a wait may take, with what has to be done by the clock.
    pub(crate) fn shorten(&self, timeout: Option<Duration>) -> Option<Duration> {
        match self.next_timer() {
            Some(left) => Some(timeout.map_or(left, |timeout| timeout.min(left))),
            None => timeout,
        }
    }

    /// The time until something has to be done by the clock.
    pub(crate) fn next_timer(&self) -> Option<Duration> {
        let mut next = u64::MAX;
        if !self.later.is_empty() {
            return Some(Duration::ZERO);
        }
        if let Some(&(until, _)) = self.lingering.front() {
            next = next.min(until);
        }
        if let Hold::Until(until) = self.hold {
            next = next.min(until);
        }
        if self.limits.idle.is_some() && self.table.streams() > 0 {
            next = next.min(self.next_sweep_ms);
        }
        // One more, for the clock is read in whole milliseconds.
        (next != u64::MAX).then(|| Duration::from_millis(next.saturating_sub(self.clock.read_ms()) + 1))
    }

    /// Does what the clock asks for.
    pub(crate) fn expire(&mut self) {
        self.check_hold(false);
        for id in std::mem::take(&mut self.later) {
            self.list(id);
        }
        let now_ms = self.clock.now_ms;
        while let Some(&(until, id)) = self.lingering.front() {
            if until > now_ms {
                break;
            }
            self.lingering.pop_front();
            let Some(slot) = self.table.get_mut(id) else {
                continue;
            };
            if slot.phase == Phase::Lingering {
                slot.phase = Phase::Stopping;
                self.list(id);
            }
        }
        let Some(idle) = self.limits.idle else { return };
        if now_ms < self.next_sweep_ms {
            return;
        }
        let idle_ms = (idle.as_millis() as u64).max(1);
        self.next_sweep_ms = now_ms + (idle_ms / SWEEPS_PER_IDLE).max(1);
        let is_idle = |state: &State, id: SocketId| {
            state.table.get(id).is_some_and(|slot| {
                slot.kind == Kind::Stream && now_ms.saturating_sub(slot.active_ms) >= idle_ms
            })
        };
        // allocates: eight bytes a socket
        let idle: Vec<SocketId> = self.table.ids().filter(|&id| is_idle(self, id)).collect();
        for id in idle {
            let Some(slot) = self.table.get(id) else { continue };
            if slot.phase != Phase::Stopping {
                self.stats.idle_closed += 1;
                self.fail(id, libc::ETIMEDOUT);
            }
        }
    }
}

impl<B: Backend> Core<B> {
    /// Closes the descriptor of a stream that no entry names, and tells of it.
    pub(crate) fn finish<H: Handler>(&mut self, id: SocketId, handler: &mut H) {
        let Some(slot) = self.state.table.get_mut(id) else {
            return;
        };
        debug_assert!(slot.entries == 0 && slot.phase == Phase::Stopping);
        let errno = slot.errno;
        let unsent = slot.queue.discard(&mut self.state.spares);
        if slot.fin != Fin::Sent {
            // Closing sends nothing where a forked child has a copy of the descriptor.
            self.calls.shutdown(slot.fd, Shutdown::Both);
        }
        self.backend.release(slot.fd);
        self.calls.close(slot.fd);
        self.state.buffered -= unsent;
        self.state.table.remove(id);
        self.state.stats.closed += 1;
        self.state.check_hold(true);
        self.state.count_changed();
        let error = (errno != 0).then(|| io::Error::from_raw_os_error(errno));
        handler.closed(
            &mut Context::new(&mut self.state, &mut self.calls),
            id,
            error.as_ref(),
        );
    }
}

impl<B: Backend> Drop for Core<B> {
    fn drop(&mut self) {
        // The kernel keeps the memory of sends that it has not copied until their peers have them, or the connection ends.
        // allocates: eight bytes a socket
        let ids: Vec<SocketId> = self.state.table.ids().collect();
        for id in ids {
            if let Some(slot) = self.state.table.get(id) {
                if slot.zero_copy && slot.queue.is_in_flight() {
                    self.calls.disconnect(slot.fd);
                }
            }
        }
        let mut events = Vec::new();
        let drained = self.backend.drain(&mut events);
        // Connections that were accepted meanwhile, or after the last turn.
        for event in &events {
            let accepted = Tag(event.tag).what() == Some(What::Accept) && event.res >= 0;
            if accepted && self.calls.is_socket(event.res) {
                self.calls.close(event.res);
            }
        }
        if !drained {
            // The kernel may still read from the queues.
            std::mem::forget(std::mem::take(&mut self.state.table));
            return;
        }
        // allocates: eight bytes a socket
        let ids: Vec<SocketId> = self.state.table.ids().collect();
        for id in ids {
            if let Some(slot) = self.state.table.get(id) {
                self.calls.close(slot.fd);
            }
        }
    }
}
