//! Datagrams: received with their sender, and sent together at the end of a turn.
//!
//! On a ring the receive of a UDP socket stays in the ring and takes buffers of a pool of its own. Everything else is received
//! after a poll: Unix datagrams may be longer than any buffer, and are measured first. What a turn sends on one socket goes to
//! the kernel in one `sendmmsg`, which keeps the order and tells which message was refused. Entries of a ring would do neither:
//! they overtake each other when the socket is full. Invariant: a datagram is sent whole, or told as failed.

use crate::address::Address;
use crate::backend::{Backend, Calls};
use crate::context::Context;
use crate::core::{Core, State};
use crate::event::{is_transient, HOT_BYTES};
use crate::handler::Handler;
use crate::recv::Way;
use crate::table::{Kind, Phase, SocketId, Tag, What};
use proactor_engine::memory;
use proactor_engine::ring::Event;
use rustix::net::addr::SocketAddrArg;
use std::collections::VecDeque;
use std::io;

/// Datagrams that one socket receives after a poll, so that others are served too.
const MAX_RECEIVES: usize = 64;
/// Datagrams of one `sendmmsg`.
const MAX_SENDS: usize = 64;

/// A datagram to be sent.
pub(crate) struct Message {
    to: Option<(Address, Name)>,
    bytes: Vec<u8>,
}

/// An address as the kernel reads it.
struct Name {
    storage: Box<libc::sockaddr_storage>,
    len: u32,
}

impl Name {
    fn new(address: &Address) -> rustix::io::Result<Self> {
        let any = address.to_any()?;
        // SAFETY: zeroes are a valid sockaddr_storage.
        let mut storage: Box<libc::sockaddr_storage> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: the closure gets a valid address of `len` bytes, at most a sockaddr_storage, and only reads it.
        let len = unsafe {
            any.with_sockaddr(|start, len| {
                let to = (&raw mut *storage).cast::<u8>();
                std::ptr::copy_nonoverlapping(start.cast::<u8>(), to, len as usize);
                len
            })
        };
        Ok(Name { storage, len })
    }
}

impl Message {
    /// Where its bytes are, for a call that only reads them.
    pub(crate) fn place(&self) -> libc::iovec {
        libc::iovec {
            iov_base: self.bytes.as_ptr().cast_mut().cast(),
            iov_len: self.bytes.len(),
        }
    }

    /// The header of a message whose bytes are at `place`.
    pub(crate) fn header(&self, place: &mut libc::iovec) -> libc::mmsghdr {
        // SAFETY: zeroes are a valid mmsghdr.
        let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        header.msg_hdr.msg_iov = place;
        header.msg_hdr.msg_iovlen = 1;
        if let Some((_, name)) = &self.to {
            header.msg_hdr.msg_name = (&raw const *name.storage).cast_mut().cast();
            header.msg_hdr.msg_namelen = name.len;
        }
        header
    }
}

/// What one socket has to send.
pub(crate) struct Outbox {
    is_inet: bool,
    waiting: VecDeque<Message>,
    bytes: usize,
    /// A datagram was not taken, and less than half of the bound has not been seen since.
    is_full: bool,
    /// The kernel had no room for the first one.
    is_held: bool,
    failed: VecDeque<(Option<Address>, io::Error)>,
}

impl Outbox {
    pub(crate) fn new(is_inet: bool) -> Self {
        Outbox {
            is_inet,
            waiting: VecDeque::new(),
            bytes: 0,
            is_full: false,
            is_held: false,
            failed: VecDeque::new(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a poll tells when the kernel has room for the first datagram. If the queue of another Unix socket is full, it
    /// does so only on a socket that is connected to it, and a poll of any other one would never wait.
    fn can_wait(&self) -> bool {
        self.is_inet || self.waiting.front().is_some_and(|message| message.to.is_none())
    }

    /// Sends what waits, as far as the kernel takes it.
    fn flush(&mut self, send: &mut dyn FnMut(&[Message]) -> io::Result<usize>) -> Flushed {
        let mut flushed = Flushed::default();
        let before = self.bytes;
        while !self.is_held && !self.waiting.is_empty() {
            let some = &self.waiting.make_contiguous()[..];
            match send(&some[..some.len().min(MAX_SENDS)]) {
                Ok(count) => {
                    for message in self.waiting.drain(..count) {
                        self.bytes -= message.bytes.len();
                        flushed.sent_bytes += message.bytes.len() as u64;
                    }
                    flushed.sends += 1;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && self.can_wait() => self.is_held = true,
                Err(e) => {
                    let message = self.waiting.pop_front().expect("there is one");
                    self.bytes -= message.bytes.len();
                    self.failed.push_back((message.to.map(|(address, _)| address), e));
                }
            }
        }
        flushed.fewer_bytes = before - self.bytes;
        flushed
    }
}

#[derive(Default)]
struct Flushed {
    sends: u64,
    sent_bytes: u64,
    fewer_bytes: usize,
}

/// Whether an error is one of a datagram that was sent before, and not of the socket.
fn is_of_a_datagram(errno: i32) -> bool {
    matches!(
        errno,
        libc::ECONNREFUSED
            | libc::ECONNRESET
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENETDOWN
            | libc::EMSGSIZE
            | libc::EACCES
            | libc::EPROTO
            | libc::ENOPROTOOPT
    )
}

fn no_memory() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}

impl State {
    pub(crate) fn send_datagram(&mut self, id: SocketId, to: Option<&Address>, bytes: &[u8]) -> bool {
        let is_open = self.is_open(id);
        let Some(outbox) = self.outboxes.get_mut(&id).filter(|_| is_open) else {
            return false;
        };
        let is_alone = outbox.waiting.is_empty();
        if outbox.is_full || (!is_alone && outbox.bytes + bytes.len() > self.limits.socket_bytes) {
            outbox.is_full = true;
            self.list(id);
            return false;
        }
        match to.map(|to| Ok((to.clone(), Name::new(to)?))).transpose() {
            Ok(to) => {
                let mut copy = Vec::new();
                if memory::append(&mut copy, bytes).is_ok() {
                    outbox.waiting.push_back(Message { to, bytes: copy });
                    outbox.bytes += bytes.len();
                    self.buffered += bytes.len();
                    self.check_memory();
                } else {
                    outbox.failed.push_back((to.map(|(to, _)| to), no_memory()));
                }
            }
            Err::<_, rustix::io::Errno>(errno) => outbox.failed.push_back((to.cloned(), errno.into())),
        }
        self.list(id);
        true
    }
}

impl<B: Backend> Core<B> {
    /// Sends what waits, tells what has failed, and puts into the backend what is missing there.
    #[inline(never)]
    pub(crate) fn settle_datagram<H: Handler>(&mut self, id: SocketId, handler: &mut H) -> io::Result<()> {
        self.flush(id, handler);
        let Some(slot) = self.state.table.get_mut(id) else {
            return Ok(());
        };
        let waits = self
            .state
            .outboxes
            .get(&id)
            .is_some_and(|outbox| outbox.bytes > 0);
        if slot.phase == Phase::Flushing && !waits {
            slot.phase = Phase::Stopping;
        }
        if slot.phase == Phase::Stopping {
            if slot.entries > 0 {
                return self.stop_all(id);
            }
            self.finish_datagram(id, handler);
            return Ok(());
        }
        let is_held = self.state.outboxes.get(&id).is_some_and(|outbox| outbox.is_held);
        if is_held && !slot.awaits_room {
            self.backend.await_room(slot.fd, Tag::new(id, What::Room))?;
            slot.awaits_room = true;
            slot.entries += 1;
        }
        let wanted = slot.phase == Phase::Open && !slot.reading.paused;
        match slot.reading.armed {
            None if wanted => {
                self.arm_datagrams(id)?;
                self.state.stats.armed += 1;
            }
            Some(armed) if !wanted && !slot.stopping => {
                let what = match armed {
                    Way::Pool => What::Message,
                    Way::Ready => What::Poll,
                };
                let one = crate::backend::Ending::One(Tag::new(id, what));
                self.backend.stop(slot.fd, one, Tag::new(id, What::Stop))?;
                slot.stopping = true;
                slot.entries += 1;
            }
            _ => {}
        }
        if let Some(slot) = self.state.table.get_mut(id) {
            slot.listed = false;
        }
        Ok(())
    }

    fn arm_datagrams(&mut self, id: SocketId) -> io::Result<()> {
        let is_inet = self.state.outboxes.get(&id).is_some_and(|outbox| outbox.is_inet);
        let Some(slot) = self.state.table.get_mut(id) else {
            return Ok(());
        };
        let pooled = is_inet
            && slot.reading.way == Way::Pool
            && self.backend.recv_messages(slot.fd, Tag::new(id, What::Message))?;
        slot.reading.way = if pooled { Way::Pool } else { Way::Ready };
        if !pooled {
            self.backend.recv(slot.fd, Way::Ready, Tag::new(id, What::Poll))?;
        }
        slot.reading.armed = Some(slot.reading.way);
        slot.entries += 1;
        Ok(())
    }

    /// Sends what waits and tells what has failed. What handlers send meanwhile goes too; what fails of it is told in the next
    /// turn, since a handler may send again whatever fails.
    fn flush<H: Handler>(&mut self, id: SocketId, handler: &mut H) {
        self.send_waiting(id);
        let failed = self
            .state
            .outboxes
            .get_mut(&id)
            .map(|outbox| std::mem::take(&mut outbox.failed));
        for (to, error) in failed.into_iter().flatten() {
            let mut cx = Context::new(&mut self.state, &mut self.calls);
            handler.datagram_failed(&mut cx, id, to.as_ref(), &error);
        }
        let bound = self.state.limits.socket_bytes / 2;
        if let Some(outbox) = self.state.outboxes.get_mut(&id) {
            if outbox.is_full && outbox.bytes <= bound {
                outbox.is_full = false;
                handler.writable(&mut Context::new(&mut self.state, &mut self.calls), id);
            }
        }
        self.send_waiting(id);
        if self
            .state
            .outboxes
            .get(&id)
            .is_some_and(|outbox| !outbox.failed.is_empty())
        {
            self.state.later.push(id);
        }
    }

    fn send_waiting(&mut self, id: SocketId) {
        let Core { state, calls, .. } = self;
        let (Some(slot), Some(outbox)) = (state.table.get(id), state.outboxes.get_mut(&id)) else {
            return;
        };
        if slot.phase == Phase::Stopping || outbox.waiting.is_empty() {
            return;
        }
        let fd = slot.fd;
        let flushed = outbox.flush(&mut |messages| calls.send_all_to(fd, messages));
        state.buffered -= flushed.fewer_bytes;
        state.stats.direct_sends += flushed.sends;
        state.stats.sent_bytes += flushed.sent_bytes;
    }

    /// A receive of the pool: a datagram, or the end of the receive.
    #[inline(never)]
    pub(crate) fn on_message<H: Handler>(&mut self, id: SocketId, event: &Event, handler: &mut H) {
        let Some(slot) = self.state.table.get_mut(id) else {
            debug_assert!(false, "an event of a slot that was freed: {event:?}");
            return self.backend.give_back_message(event);
        };
        if !event.more() {
            slot.reading.armed = None;
            slot.entries -= 1;
            self.state.list(id);
        }
        let is_open = self.state.is_open(id);
        if event.res >= 0 {
            if is_open {
                let (from, bytes) = self.backend.message(event);
                self.state.stats.receives += 1;
                self.state.stats.received_bytes += bytes.len() as u64;
                let mut cx = Context::new(&mut self.state, &mut self.calls);
                handler.datagram(&mut cx, id, from.as_ref(), bytes);
            }
        } else if event.res == -libc::ENOBUFS {
            self.state.stats.starved += 1;
        } else if is_open {
            self.on_no_datagram(id, -event.res, handler);
        }
        self.backend.give_back_message(event);
    }

    fn on_no_datagram<H: Handler>(&mut self, id: SocketId, errno: i32, handler: &mut H) {
        if is_transient(errno) {
            return;
        }
        if is_of_a_datagram(errno) {
            let error = io::Error::from_raw_os_error(errno);
            let mut cx = Context::new(&mut self.state, &mut self.calls);
            return handler.datagram_failed(&mut cx, id, None, &error);
        }
        self.end_datagram(id, errno);
    }

    fn end_datagram(&mut self, id: SocketId, errno: i32) {
        if let Some(slot) = self.state.table.get_mut(id) {
            slot.errno = errno;
            slot.phase = Phase::Stopping;
            self.state.list(id);
        }
    }

    /// There is something to receive.
    #[inline(never)]
    pub(crate) fn on_datagrams<H: Handler>(&mut self, id: SocketId, res: i32, handler: &mut H) {
        if res < 0 {
            return self.on_no_datagram(id, -res, handler);
        }
        for _ in 0..MAX_RECEIVES {
            let Some(slot) = self.state.table.get(id) else {
                return;
            };
            if slot.phase != Phase::Open || slot.reading.paused {
                // Level-triggered readiness would be told again and again.
                return self.state.list(id);
            }
            let fd = slot.fd;
            match self.receive_one(id, fd) {
                Ok((len, from)) => {
                    self.state.stats.receives += 1;
                    self.state.stats.received_bytes += len as u64;
                    let bytes = &self.hot[..len];
                    let mut cx = Context::new(&mut self.state, &mut self.calls);
                    handler.datagram(&mut cx, id, from.as_ref(), bytes);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.raw_os_error().is_none() => {
                    let mut cx = Context::new(&mut self.state, &mut self.calls);
                    handler.datagram_failed(&mut cx, id, None, &no_memory());
                }
                Err(e) => self.on_no_datagram(id, e.raw_os_error().unwrap_or(libc::EIO), handler),
            }
        }
    }

    fn receive_one(&mut self, id: SocketId, fd: i32) -> io::Result<(usize, Option<Address>)> {
        let is_inet = self.state.outboxes.get(&id).is_some_and(|outbox| outbox.is_inet);
        let len = if is_inet { 0 } else { self.calls.next_len(fd)? };
        let wanted = len.max(HOT_BYTES);
        if self.hot.len() < wanted {
            let Ok(larger) = memory::zeroed(wanted) else {
                // It is thrown away, or it would be tried again and again.
                self.calls.recv_from(fd, &mut [])?;
                return Err(io::ErrorKind::OutOfMemory.into());
            };
            self.hot = larger.into_boxed_slice();
        }
        let (len, from) = self.calls.recv_from(fd, &mut self.hot)?;
        // A Unix socket without a name is nobody that could be answered.
        let has_name =
            |address: &Address| !matches!(address, Address::Unix(path) if path.as_os_str().is_empty());
        Ok((len, from.and_then(Address::from_any).filter(has_name)))
    }

    /// There is room to send again.
    #[inline(never)]
    pub(crate) fn on_room(&mut self, id: SocketId) {
        if let Some(slot) = self.state.table.get_mut(id) {
            slot.awaits_room = false;
            slot.entries -= 1;
            self.state.list(id);
        }
        if let Some(outbox) = self.state.outboxes.get_mut(&id) {
            outbox.is_held = false;
        }
    }

    fn finish_datagram<H: Handler>(&mut self, id: SocketId, handler: &mut H) {
        let Some(slot) = self.state.table.get(id) else {
            return;
        };
        debug_assert!(slot.entries == 0 && slot.kind == Kind::Datagram);
        let errno = slot.errno;
        self.backend.release(slot.fd);
        self.calls.close(slot.fd);
        self.state.table.remove(id);
        if let Some(outbox) = self.state.outboxes.remove(&id) {
            self.state.buffered -= outbox.bytes;
        }
        self.state.check_hold(true);
        let error = (errno != 0).then(|| io::Error::from_raw_os_error(errno));
        let mut cx = Context::new(&mut self.state, &mut self.calls);
        handler.closed(&mut cx, id, error.as_ref());
    }
}
