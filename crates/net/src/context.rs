//! What a handler can do.

use crate::address::Address;
use crate::backend::Calls;
use crate::core::State;
use crate::error::Error;
use crate::limits::Limits;
use crate::listen::{self, Bound};
use crate::send::{Way, COPIED_BYTES};
use crate::stats::Stats;
use crate::table::{Fin, Kind, Phase, SocketId};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The sockets of a turn, as a handler sees them.
pub struct Context<'a> {
    state: &'a mut State,
    calls: &'a mut dyn Calls,
}

impl<'a> Context<'a> {
    #[inline]
    pub(crate) fn new(state: &'a mut State, calls: &'a mut dyn Calls) -> Self {
        Context { state, calls }
    }

    #[cfg(test)]
    pub(crate) fn state(&mut self) -> &mut State {
        self.state
    }

    /// Sends bytes: what the kernel does not take at once is copied and sent in order. Returns false if the stream has more
    /// unsent bytes than its bound ([`Limits::socket_bytes`]), or is not open any more: send no more before
    /// [`Handler::writable`](crate::Handler::writable). Nothing is lost meanwhile. Without memory for the bytes the
    /// stream ends with ENOMEM.
    #[inline]
    pub fn send(&mut self, id: SocketId, bytes: &[u8]) -> bool {
        let state = &mut *self.state;
        let Some(slot) = state.table.get_mut(id) else {
            return false;
        };
        if slot.phase != Phase::Open || slot.fin != Fin::No {
            return false;
        }
        if state.way == Way::Direct || bytes.len() >= COPIED_BYTES {
            return self.send_at_once(id, bytes);
        }
        state.enqueue(id, bytes)
    }

    /// Sends by a call, unless bytes are queued already or are not to be copied.
    #[inline(never)]
    fn send_at_once(&mut self, id: SocketId, bytes: &[u8]) -> bool {
        let state = &mut *self.state;
        let Some(slot) = state.table.get_mut(id) else {
            return false;
        };
        let uncopied = slot.zero_copy && bytes.len() >= state.zero_copy_above;
        if uncopied || !slot.queue.is_empty() {
            return state.enqueue(id, bytes);
        }
        state.stats.direct_sends += 1;
        match self.calls.send(slot.fd, bytes) {
            Ok(count) => {
                slot.active_ms = state.clock.now_ms;
                state.stats.sent_bytes += count as u64;
                state.enqueue(id, &bytes[count..])
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                state.enqueue(id, bytes)
            }
            Err(e) => {
                state.fail(id, e.raw_os_error().unwrap_or(libc::EIO));
                false
            }
        }
    }

    /// Opens a socket for datagrams, UDP or Unix, bound to `local`: port 0 lets the kernel choose one. With a `peer` it
    /// sends there, and receives from there alone.
    ///
    /// # Errors
    /// Those of bind(2) and connect(2), with the address.
    pub fn open_datagram(&mut self, local: &Address, peer: Option<&Address>) -> Result<SocketId, Error> {
        listen::open_datagram(self.state, local, peer)
    }

    /// Sends a datagram with the others of this turn; `to` is None on a socket with a peer. Returns false if the socket has
    /// more unsent bytes than its bound ([`Limits::socket_bytes`]), or is not open: the datagram is not taken, and there is
    /// room after [`Handler::writable`](crate::Handler::writable). What the kernel refuses is told by
    /// [`Handler::datagram_failed`](crate::Handler::datagram_failed).
    pub fn send_to(&mut self, id: SocketId, to: Option<&Address>, bytes: &[u8]) -> bool {
        self.state.send_datagram(id, to, bytes)
    }

    /// Closes a stream or datagram socket once everything is sent; what comes meanwhile is thrown away. Closes a listener. Does nothing to
    /// what is closed already.
    pub fn close(&mut self, id: SocketId) {
        if let Some(slot) = self.state.table.get(id) {
            if slot.kind == Kind::Listener && slot.phase == Phase::Open {
                self.calls.stop_listening(slot.fd);
            }
        }
        self.state.close(id);
    }

    /// Closes a stream at once, with what is not sent yet thrown away; the peer gets a reset.
    pub fn abort(&mut self, id: SocketId) {
        let state = &mut *self.state;
        let Some(slot) = state.table.get_mut(id) else {
            return;
        };
        if slot.kind == Kind::Stream {
            self.calls.reset_on_close(slot.fd);
            slot.resets = true;
        }
        slot.phase = Phase::Stopping;
        state.buffered -= slot.queue.discard(&mut state.spares);
        state.list(id);
    }

    /// Shuts a stream's sending side down once everything is sent. It still receives.
    pub fn shutdown(&mut self, id: SocketId) {
        let Some(slot) = self.state.table.get_mut(id) else {
            return;
        };
        if slot.fin == Fin::No && slot.phase == Phase::Open {
            slot.fin = Fin::Wanted;
            self.state.list(id);
        }
    }

    /// Stops receiving from a stream, so that TCP slows its peer down. Bytes that the kernel has put into buffers already still
    /// come.
    pub fn pause(&mut self, id: SocketId) {
        self.set_paused(id, true);
    }

    /// Receives again after [`pause`](Self::pause).
    pub fn resume(&mut self, id: SocketId) {
        self.set_paused(id, false);
    }

    fn set_paused(&mut self, id: SocketId, paused: bool) {
        if let Some(slot) = self.state.table.get_mut(id) {
            slot.reading.paused = paused;
            self.state.list(id);
        }
    }

    /// Listens on an address.
    ///
    /// # Errors
    /// Those of bind(2) and listen(2), with the address.
    pub fn listen(&mut self, address: &Address, backlog: u32, reuse_port: bool) -> Result<SocketId, Error> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        listen::listen(self.state, address, backlog, reuse_port)
    }

    /// Takes over a listener that was bound before, perhaps in another thread.
    ///
    /// # Errors
    /// EMFILE if there are too many sockets, with the address.
    pub fn adopt(&mut self, bound: Bound) -> Result<SocketId, Error> {
        listen::adopt(self.state, bound)
    }

    /// Begins to connect; [`Handler::opened`](crate::Handler::opened) or [`Handler::closed`](crate::Handler::closed) tells what
    /// became of it.
    ///
    /// # Errors
    /// EMFILE and the like if no socket can be made, with the address.
    pub fn connect(&mut self, address: &Address) -> Result<SocketId, Error> {
        listen::connect(self.state, address)
    }

    /// Gives a connection away of which nothing is in the backend and nothing is to be sent, as in
    /// [`Handler::opened`](crate::Handler::opened). Its [`Handler::closed`](crate::Handler::closed) is not called.
    pub(crate) fn detach(&mut self, id: SocketId) -> Option<OwnedFd> {
        let state = &mut *self.state;
        let slot = state.table.get(id)?;
        if slot.entries > 0
            || slot.phase != Phase::Open
            || !slot.queue.is_empty()
            || slot.kind != Kind::Stream
        {
            return None;
        }
        // SAFETY: the slot owns the descriptor, no entry names it, and it is removed here.
        let connection = unsafe { OwnedFd::from_raw_fd(slot.fd) };
        state.table.remove(id);
        // There is room for one more.
        state.list_listeners();
        Some(connection)
    }

    /// The address of a stream's peer. None if there is no such stream, or its peer has no address.
    pub fn peer(&self, id: SocketId) -> Option<Address> {
        self.state.table.get(id).and_then(|slot| listen::peer(slot.fd))
    }

    /// The address that a socket is bound to.
    pub fn local(&self, id: SocketId) -> Option<Address> {
        self.state.table.get(id).and_then(|slot| listen::local(slot.fd))
    }

    /// Unsent bytes of a stream or of a datagram socket.
    pub fn unsent(&self, id: SocketId) -> usize {
        match self.state.table.get(id) {
            Some(slot) if slot.kind == Kind::Datagram => self.state.outboxes[&id].bytes(),
            Some(slot) => slot.queue.len(),
            None => 0,
        }
    }

    /// Whether a stream can be sent to.
    pub fn is_open(&self, id: SocketId) -> bool {
        self.state.is_open(id)
    }

    /// Streams that are not closed yet.
    pub fn connections(&self) -> usize {
        self.state.table.streams()
    }

    /// All streams and listeners that are not closed yet.
    pub fn ids(&self) -> Vec<SocketId> {
        // allocates: eight bytes a socket
        self.state.table.ids().collect()
    }

    /// All listeners that are not closed yet.
    pub fn listeners(&self) -> Vec<SocketId> {
        self.state.listeners.clone()
    }

    /// What has happened so far.
    pub fn stats(&self) -> Stats {
        self.state.stats
    }

    /// The bounds.
    pub fn limits(&self) -> Limits {
        self.state.limits
    }
}
