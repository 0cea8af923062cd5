//! What an event says, and what follows from it: the one place that reads results and flags.

use crate::backend::{Backend, Calls};
use crate::context::Context;
use crate::core::{Core, State};
use crate::handler::Handler;
use crate::recv::Way;
use crate::table::{Fin, Kind, Phase, SocketId, Tag, What};
use proactor_engine::ring::Event;
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd};

/// Bytes of the buffer that receives after a poll share.
pub(crate) const HOT_BYTES: usize = 64 << 10;

/// Whether an entry ended without saying anything about its socket, and is to be made again.
pub(crate) fn is_transient(errno: i32) -> bool {
    matches!(errno, libc::ECANCELED | libc::EINTR | libc::EAGAIN)
}

/// Whether a send can be done, but not without a copy.
fn is_of_zero_copy(errno: i32) -> bool {
    matches!(
        errno,
        libc::EINVAL | libc::EOPNOTSUPP | libc::ENOMEM | libc::ENOBUFS
    )
}

/// Whether an accept has failed for want of something that others may give back.
fn is_exhausted(errno: i32) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)
}

/// Whether the listener itself is at fault. All other errors of an accept are those of one connection (accept(2)).
fn is_of_the_listener(errno: i32) -> bool {
    matches!(errno, libc::EBADF | libc::EINVAL | libc::ENOTSOCK | libc::EFAULT)
}

impl<B: Backend> Core<B> {
    /// Does what follows from one event.
    #[inline]
    pub(crate) fn dispatch<H: Handler>(&mut self, event: &Event, handler: &mut H) {
        let tag = Tag(event.tag);
        let id = tag.id();
        if tag.is(What::Recv) {
            return self.on_recv(id, event, handler);
        }
        match tag.what() {
            Some(What::Recv) => {}
            Some(What::Send) => self.on_send(id, event, handler),
            Some(What::Poll) => self.on_poll(id, event, handler),
            Some(What::Accept) => self.on_accept(id, event, handler),
            Some(What::Connect) => self.on_connect(id, event, handler),
            Some(What::Stop) => self.on_stop(id),
            Some(What::Message) => self.on_message(id, event, handler),
            Some(What::Room) => self.on_room(id),
            None => {}
        }
    }

    #[inline]
    fn on_recv<H: Handler>(&mut self, id: SocketId, event: &Event, handler: &mut H) {
        let each_bytes = self.backend.buffer_bytes() as i32;
        let state = &mut self.state;
        let Some(slot) = state.table.get_mut(id) else {
            debug_assert!(false, "an event of a slot that was freed: {event:?}");
            return self.give_back(event);
        };
        // A buffer that is not full, of a receive that stays in the ring, is the way of almost all.
        let is_usual = event.more() && slot.reading.way == Way::Pool && (1..each_bytes).contains(&event.res);
        if !is_usual {
            return self.on_unusual_recv(id, event, handler);
        }
        slot.active_ms = state.clock.now_ms;
        let is_open = slot.phase == Phase::Open;
        self.deliver(is_open, id, event, handler);
    }

    #[inline(never)]
    fn on_unusual_recv<H: Handler>(&mut self, id: SocketId, event: &Event, handler: &mut H) {
        let (now_ms, turn) = (self.state.clock.now_ms, self.state.stats.turns);
        let Some(slot) = self.state.table.get_mut(id) else {
            return;
        };
        let ended = !event.more();
        if ended {
            slot.reading.armed = None;
            slot.entries -= 1;
        }
        if event.res <= 0 {
            if ended {
                self.state.list(id);
            }
            self.give_back(event);
            return self.on_no_bytes(id, event.res, handler);
        }
        slot.active_ms = now_ms;
        slot.reading
            .saw_pooled(event.res as usize, self.backend.buffer_bytes(), turn);
        let is_open = slot.phase == Phase::Open;
        if ended || slot.reading.way == Way::Ready {
            self.state.list(id);
        }
        self.deliver(is_open, id, event, handler);
    }

    /// Shows the handler received bytes, and gives their buffer back.
    #[inline(always)]
    fn deliver<H: Handler>(&mut self, is_open: bool, id: SocketId, event: &Event, handler: &mut H) {
        if is_open {
            self.state.stats.receives += 1;
            self.state.stats.received_bytes += event.res as u64;
            let bytes = self.backend.bytes(event);
            handler.received(&mut Context::new(&mut self.state, &mut self.calls), id, bytes);
        }
        self.backend.give_back(event);
    }

    fn give_back(&mut self, event: &Event) {
        if event.buffer_id().is_some() {
            self.backend.give_back(event);
        }
    }

    /// A receive has ended without bytes.
    fn on_no_bytes<H: Handler>(&mut self, id: SocketId, res: i32, handler: &mut H) {
        match -res {
            0 => self.on_end(id, handler),
            // The receive has ended, and is made again when the turn's buffers are back.
            libc::ENOBUFS => {
                self.state.stats.starved += 1;
                self.backend.grow_pool();
                self.state.list(id);
            }
            errno if is_transient(errno) => self.state.list(id),
            errno => self.state.fail(id, errno),
        }
    }

    fn on_poll<H: Handler>(&mut self, id: SocketId, event: &Event, handler: &mut H) {
        let now_ms = self.state.clock.now_ms;
        let Some(slot) = self.state.table.get_mut(id) else {
            debug_assert!(false, "an event of a slot that was freed: {event:?}");
            return;
        };
        if !event.more() {
            slot.reading.armed = None;
            slot.entries -= 1;
            self.state.list(id);
        }
        let slot = self.state.table.get_mut(id).expect("found above");
        if slot.kind == Kind::Datagram {
            return self.on_datagrams(id, event.res, handler);
        }
        if event.res < 0 {
            return self.on_no_bytes(id, event.res, handler);
        }
        let slot = self.state.table.get_mut(id).expect("found above");
        if !slot.wants_bytes() {
            // Level-triggered readiness would be told again and again.
            return self.state.list(id);
        }
        if self.hot.is_empty() {
            self.hot = vec![0; HOT_BYTES].into_boxed_slice();
        }
        match self.calls.recv(slot.fd, &mut self.hot) {
            Ok(0) => self.on_end(id, handler),
            Ok(count) => {
                slot.active_ms = now_ms;
                if self.backend.has_pool() {
                    slot.reading.saw_ready(count, self.backend.buffer_bytes());
                }
                if self.state.is_open(id) {
                    self.state.stats.receives += 1;
                    self.state.stats.received_bytes += count as u64;
                    let bytes = &self.hot[..count];
                    handler.received(&mut Context::new(&mut self.state, &mut self.calls), id, bytes);
                }
            }
            Err(e) => {
                let errno = e.raw_os_error().unwrap_or(libc::EIO);
                self.on_no_bytes(id, -errno, handler);
            }
        }
    }

    /// The peer has sent its last byte.
    fn on_end<H: Handler>(&mut self, id: SocketId, handler: &mut H) {
        let Some(slot) = self.state.table.get_mut(id) else {
            return;
        };
        if std::mem::replace(&mut slot.peer_ended, true) {
            return;
        }
        match slot.phase {
            Phase::Open => handler.ended(&mut Context::new(&mut self.state, &mut self.calls), id),
            Phase::Lingering => slot.phase = Phase::Stopping,
            Phase::Connecting | Phase::Flushing | Phase::Stopping => {}
        }
        self.state.list(id);
    }

    #[inline]
    fn on_send<H: Handler>(&mut self, id: SocketId, event: &Event, handler: &mut H) {
        let now_ms = self.state.clock.now_ms;
        let state = &mut self.state;
        let Some(slot) = state.table.get_mut(id) else {
            debug_assert!(false, "an event of a slot that was freed: {event:?}");
            return;
        };
        if event.more() {
            // A notification follows, until which the memory is the kernel's.
            slot.notifies = true;
            slot.uncopied = event.res;
            slot.active_ms = now_ms;
            return state.list(id);
        }
        let res = match std::mem::take(&mut slot.notifies) {
            true => slot.uncopied,
            false => event.res,
        };
        end_send(&mut self.state, &mut self.calls, id, res, handler);
    }

    fn on_accept<H: Handler>(&mut self, id: SocketId, event: &Event, handler: &mut H) {
        let listening = self.state.table.get_mut(id).is_some_and(|slot| {
            if !event.more() {
                slot.accepting = false;
                slot.entries -= 1;
            }
            slot.phase == Phase::Open
        });
        if !event.more() {
            self.state.list(id);
        }
        if event.res < 0 {
            return self.on_accept_error(id, -event.res, handler);
        }
        let fd = event.res;
        // Linux 6.6 to 6.8 with DEFER_TASKRUN: a multishot accept may give a number that is no descriptor of ours.
        if !self.calls.is_socket(fd) {
            if let Some(slot) = self.state.table.get_mut(id) {
                slot.reading.way = Way::Ready;
            }
            return;
        }
        if !listening {
            return self.calls.close(fd);
        }
        let now_ms = self.state.clock.now_ms;
        let Some(stream) = self.state.table.insert(Kind::Stream, Phase::Open, fd, now_ms) else {
            return self.calls.close(fd);
        };
        self.state.stats.accepted += 1;
        self.state.accepted_one();
        self.state.count_changed();
        self.begin(stream);
        handler.accepted(&mut Context::new(&mut self.state, &mut self.calls), id, stream);
    }

    /// Takes a connection over that was accepted elsewhere.
    pub(crate) fn adopt<H: Handler>(&mut self, connection: OwnedFd, handler: &mut H) {
        let fd = connection.into_raw_fd();
        // The last turn may have been long ago.
        self.state.clock.now_ms = self.state.clock.read_ms();
        let now_ms = self.state.clock.now_ms;
        match self.state.table.insert(Kind::Stream, Phase::Open, fd, now_ms) {
            Some(stream) => {
                self.begin(stream);
                handler.opened(&mut Context::new(&mut self.state, &mut self.calls), stream);
            }
            None => self.calls.close(fd),
        }
    }

    /// Has a stream that has come about receive.
    fn begin(&mut self, id: SocketId) {
        if let Some(slot) = self.state.table.get_mut(id) {
            if !self.backend.has_pool() {
                slot.reading.way = Way::Ready;
            } else if self.state.zero_copy_above != usize::MAX {
                slot.zero_copy = self.calls.is_remote(slot.fd);
            }
        }
        self.state.list(id);
    }

    fn on_accept_error<H: Handler>(&mut self, id: SocketId, errno: i32, handler: &mut H) {
        if !self.state.is_open(id) {
            return;
        }
        let fatal = is_of_the_listener(errno);
        if fatal {
            self.state.fail(id, errno);
        }
        if (is_exhausted(errno) && self.state.hold_accepts()) || fatal {
            let error = io::Error::from_raw_os_error(errno);
            handler.accept_failed(&mut Context::new(&mut self.state, &mut self.calls), id, &error);
        }
    }

    fn on_connect<H: Handler>(&mut self, id: SocketId, event: &Event, handler: &mut H) {
        let Some(slot) = self.state.table.get_mut(id) else {
            return;
        };
        slot.entries -= 1;
        if slot.phase != Phase::Connecting {
            return self.state.list(id);
        }
        if event.res < 0 {
            return self.state.fail(id, -event.res);
        }
        slot.phase = Phase::Open;
        slot.active_ms = self.state.clock.now_ms;
        self.begin(id);
        handler.opened(&mut Context::new(&mut self.state, &mut self.calls), id);
    }

    fn on_stop(&mut self, id: SocketId) {
        if let Some(slot) = self.state.table.get_mut(id) {
            slot.stopping = false;
            slot.entries -= 1;
            self.state.list(id);
        }
    }
}

/// All bytes of a quiet send are sent.
#[inline]
pub(crate) fn on_sent<H: Handler>(state: &mut State, calls: &mut dyn Calls, id: SocketId, handler: &mut H) {
    let Some(slot) = state.table.get_mut(id) else {
        debug_assert!(false, "a send of a slot that was freed");
        return;
    };
    debug_assert!(slot.quiet);
    if !slot.is_usual() || !slot.queue.is_all_in_flight() {
        let count = slot.queue.len_in_flight() as i32;
        return end_send(state, calls, id, count, handler);
    }
    slot.quiet = false;
    slot.entries -= 1;
    slot.active_ms = state.clock.now_ms;
    let count = slot.queue.finish_all(&mut state.spares);
    state.buffered -= count;
    state.stats.sent_bytes += count as u64;
}

/// A send has ended with this result.
#[inline(never)]
fn end_send<H: Handler>(state: &mut State, calls: &mut dyn Calls, id: SocketId, res: i32, handler: &mut H) {
    let now_ms = state.clock.now_ms;
    let Some(slot) = state.table.get_mut(id) else {
        return;
    };
    slot.quiet = false;
    slot.entries -= 1;
    let count = res.max(0) as usize;
    slot.queue.finish(count, &mut state.spares);
    state.buffered -= count;
    state.stats.sent_bytes += count as u64;
    slot.active_ms = now_ms;
    if slot.phase == Phase::Stopping {
        return state.list(id);
    }
    if res < 0 && slot.zero_copy && is_of_zero_copy(-res) {
        slot.zero_copy = false;
        state.list(id);
    } else if res < 0 && !is_transient(-res) {
        return state.fail(id, -res);
    }
    let Some(slot) = state.table.get_mut(id) else {
        return;
    };
    let ends = slot.phase != Phase::Open || slot.fin == Fin::Wanted;
    let has_room = slot.queue.is_full && slot.queue.len() <= state.limits.socket_bytes / 2;
    if has_room {
        slot.queue.is_full = false;
    }
    let is_open = slot.phase == Phase::Open;
    if !slot.queue.is_empty() || ends || slot.reading.armed.is_none() {
        state.list(id);
    }
    if has_room && is_open {
        handler.writable(&mut Context::new(state, calls), id);
    }
}
