//! What has to be in the backend for each socket, compared with what is there.
//!
//! It is the only place that pushes entries.

use crate::backend::{Backend, Calls, Ending};
use crate::core::{Core, Hold};
use crate::handler::Handler;
use crate::recv::Way;
use crate::stats::Stats;
use crate::table::{Fin, Kind, Phase, Slot, SocketId, Tag, What};
use rustix::net::{Shutdown, SocketAddrAny};
use std::io;

impl Slot {
    /// Whether bytes are to be received: for the handler, or to be thrown away before the stream is closed.
    pub(crate) fn wants_bytes(&self) -> bool {
        !self.peer_ended
            && match self.phase {
                Phase::Open => !self.reading.paused && !self.queue.is_full,
                Phase::Flushing | Phase::Lingering => true,
                Phase::Connecting | Phase::Stopping => false,
            }
    }
}

impl<B: Backend> Core<B> {
    pub(crate) fn settle_all<H: Handler>(&mut self, handler: &mut H) -> io::Result<()> {
        match self.start_connects().and_then(|()| self.settle_listed(handler)) {
            // The kernel takes nothing before its completions are read: go on in the next turn.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            result => result,
        }
    }

    fn settle_listed<H: Handler>(&mut self, handler: &mut H) -> io::Result<()> {
        while !self.state.todo.is_empty() {
            let todo = std::mem::take(&mut self.state.todo);
            for (at, &id) in todo.iter().enumerate() {
                if let Err(e) = self.settle(id, handler) {
                    // allocates: eight bytes a socket
                    self.state.todo.splice(0..0, todo[at..].iter().copied());
                    return Err(e);
                }
            }
            if self.state.todo.is_empty() {
                self.state.todo = todo;
                self.state.todo.clear();
            }
        }
        Ok(())
    }

    fn start_connects(&mut self) -> io::Result<()> {
        let connects = std::mem::take(&mut self.state.connects);
        for (at, (id, address)) in connects.iter().enumerate() {
            if let Err(e) = self.start_connect(*id, address.clone()) {
                // allocates: an entry for each connection that is being made
                self.state.connects = connects[at..].to_vec();
                return Err(e);
            }
        }
        Ok(())
    }

    fn start_connect(&mut self, id: SocketId, address: SocketAddrAny) -> io::Result<()> {
        let Some(slot) = self
            .state
            .table
            .get_mut(id)
            .filter(|slot| slot.phase == Phase::Connecting)
        else {
            return Ok(());
        };
        self.backend
            .connect(slot.fd, address, Tag::new(id, What::Connect))?;
        slot.entries += 1;
        Ok(())
    }

    /// Pushes what a socket's state calls for and the backend does not have. A socket is off the list once that is done.
    #[inline]
    fn settle<H: Handler>(&mut self, id: SocketId, handler: &mut H) -> io::Result<()> {
        let zero_copy_above = self.state.zero_copy_above;
        let Some(slot) = self.state.table.get_mut(id) else {
            return Ok(());
        };
        match slot.kind {
            Kind::Listener => return self.settle_listener(id),
            Kind::Datagram => return self.settle_datagram(id, handler),
            Kind::Stream | Kind::Free => {}
        }
        // Accepting may wait for the bytes to be sent.
        let is_awaited = self.state.hold == Hold::Memory;
        if slot.is_usual() && !is_awaited && self.backend.has_quiet_sends() {
            if let Some(bytes) = slot.queue.start_all() {
                return push_quietly(slot, id, &mut self.backend, &mut self.state.stats, bytes);
            }
        }
        if slot.phase == Phase::Open && slot.fin != Fin::Wanted {
            self.hurries |= slot.quiet;
            return push_missing(
                slot,
                id,
                &mut self.backend,
                &mut self.state.stats,
                zero_copy_above,
            );
        }
        self.hurries |= slot.quiet;
        if !self.settle_end(id, handler)? {
            return Ok(());
        }
        match self.state.table.get_mut(id) {
            Some(slot) if slot.phase == Phase::Connecting => slot.listed = false,
            Some(slot) => {
                push_missing(
                    slot,
                    id,
                    &mut self.backend,
                    &mut self.state.stats,
                    zero_copy_above,
                )?;
            }
            None => {}
        }
        Ok(())
    }

    /// What a stream needs that is being closed or shut down. False: there is nothing else to do for it.
    fn settle_end<H: Handler>(&mut self, id: SocketId, handler: &mut H) -> io::Result<bool> {
        let Some(slot) = self.state.table.get_mut(id) else {
            return Ok(false);
        };
        let sent = slot.queue.is_empty() && !slot.queue.is_in_flight();
        if slot.fin == Fin::Wanted && sent {
            self.calls.shutdown(slot.fd, Shutdown::Write);
            slot.fin = Fin::Sent;
        }
        if slot.phase == Phase::Flushing && sent {
            if slot.fin != Fin::Sent {
                self.calls.shutdown(slot.fd, Shutdown::Write);
                slot.fin = Fin::Sent;
            }
            if slot.peer_ended || self.state.limits.linger.is_zero() {
                slot.phase = Phase::Stopping;
            } else {
                slot.phase = Phase::Lingering;
                self.state.linger(id);
            }
        }
        let slot = self.state.table.get_mut(id).expect("found above");
        if slot.phase != Phase::Stopping {
            return Ok(true);
        }
        if slot.entries == 0 {
            self.finish(id, handler);
        } else {
            self.stop_all(id)?;
        }
        Ok(false)
    }

    /// Ends all entries of a socket that is stopping.
    pub(crate) fn stop_all(&mut self, id: SocketId) -> io::Result<()> {
        let Some(slot) = self.state.table.get_mut(id) else {
            return Ok(());
        };
        if slot.notifies && slot.entries == 1 {
            // Nothing can end this but the network, or the end of the connection.
            if !std::mem::replace(&mut slot.purged, true) {
                self.calls.disconnect(slot.fd);
            }
            slot.listed = false;
            return Ok(());
        }
        if !slot.stopping {
            let mut tags = [Tag(0); 5];
            let pooled = match slot.kind {
                Kind::Datagram => What::Message,
                _ => What::Recv,
            };
            let in_flight = [
                (slot.accepting, What::Accept),
                (slot.awaits_room, What::Room),
                (slot.reading.armed == Some(Way::Pool), pooled),
                (slot.reading.armed == Some(Way::Ready), What::Poll),
                (slot.queue.is_in_flight(), What::Send),
            ];
            let mut count = 0;
            for (_, what) in in_flight.into_iter().filter(|(is, _)| *is) {
                tags[count] = Tag::new(id, what);
                count += 1;
            }
            if count == 0 {
                // A connect is all that it can be.
                tags[0] = Tag::new(id, What::Connect);
                count = 1;
            }
            self.backend
                .stop(slot.fd, Ending::All(&tags[..count]), Tag::new(id, What::Stop))?;
            // After the entries were asked to end: closing alone ends none of them, and a shutdown ends what the cancellation
            // has missed.
            match slot.kind {
                // A shutdown would send an end before the reset.
                Kind::Stream if slot.resets => self.calls.disconnect(slot.fd),
                Kind::Stream => {
                    self.calls.shutdown(slot.fd, Shutdown::Both);
                    slot.fin = Fin::Sent;
                }
                Kind::Listener | Kind::Datagram | Kind::Free => {}
            }
            slot.stopping = true;
            slot.entries += 1;
        }
        slot.listed = false;
        Ok(())
    }

    fn settle_listener(&mut self, id: SocketId) -> io::Result<()> {
        let free = self.state.limits.max_connections > self.state.table.streams();
        let wanted = self.state.hold == Hold::No && free;
        // With a bound, one at a time: the kernel would accept more than there is room for.
        let bounded = self.state.limits.max_connections != usize::MAX;
        let Some(slot) = self.state.table.get_mut(id) else {
            return Ok(());
        };
        if slot.phase == Phase::Stopping {
            if slot.entries > 0 {
                return self.stop_all(id);
            }
            self.backend.release(slot.fd);
            self.calls.close(slot.fd);
            self.state.table.remove(id);
            self.state.listeners.retain(|&other| other != id);
            return Ok(());
        }
        if wanted && !slot.accepting {
            let once = bounded || slot.reading.way == Way::Ready;
            self.backend.accept(slot.fd, once, Tag::new(id, What::Accept))?;
            slot.accepting = true;
            slot.entries += 1;
            self.state.stats.armed += 1;
        } else if !wanted && slot.accepting && !slot.stopping {
            let ending = Ending::One(Tag::new(id, What::Accept));
            self.backend.stop(slot.fd, ending, Tag::new(id, What::Stop))?;
            slot.stopping = true;
            slot.entries += 1;
        }
        if let Some(slot) = self.state.table.get_mut(id) {
            slot.listed = false;
        }
        Ok(())
    }
}

/// Pushes a send of whose end nobody needs to hear at once.
#[inline]
fn push_quietly<B: Backend>(
    slot: &mut Slot,
    id: SocketId,
    backend: &mut B,
    stats: &mut Stats,
    (start, len): (*const u8, usize),
) -> io::Result<()> {
    // SAFETY: as in `push_missing`.
    let pushed = unsafe { backend.send_quietly(slot.fd, start, len, Tag::new(id, What::Send)) };
    if pushed.is_err() {
        slot.queue.revoke();
        return pushed;
    }
    slot.quiet = true;
    slot.entries += 1;
    slot.listed = false;
    stats.queued_sends += 1;
    Ok(())
}

/// Pushes the send and the receive of a stream that is not stopping, where the backend does not have them.
#[inline]
fn push_missing<B: Backend>(
    slot: &mut Slot,
    id: SocketId,
    backend: &mut B,
    stats: &mut Stats,
    zero_copy_above: usize,
) -> io::Result<()> {
    if let Some((start, len)) = slot.queue.start() {
        let zero_copy = slot.zero_copy && len >= zero_copy_above;
        let tag = Tag::new(id, What::Send);
        // SAFETY: the queue keeps the memory as it is until `finish`, which follows the last event; the sockets are dropped only
        // after the backend is drained.
        let pushed = unsafe { backend.send(slot.fd, start, len, zero_copy, tag) };
        if let Err(e) = pushed {
            slot.queue.revoke();
            return Err(e);
        }
        slot.entries += 1;
        stats.queued_sends += 1;
        stats.zero_copy_sends += u64::from(zero_copy);
    }
    let wanted = slot.wants_bytes();
    let what_of = |way| if way == Way::Pool { What::Recv } else { What::Poll };
    match slot.reading.armed {
        None if wanted => {
            let way = slot.reading.way;
            backend.recv(slot.fd, way, Tag::new(id, what_of(way)))?;
            slot.reading.armed = Some(way);
            slot.entries += 1;
            stats.armed += 1;
        }
        Some(armed) if (!wanted || armed != slot.reading.way) && !slot.stopping => {
            let ending = Ending::One(Tag::new(id, what_of(armed)));
            backend.stop(slot.fd, ending, Tag::new(id, What::Stop))?;
            slot.stopping = true;
            slot.entries += 1;
        }
        _ => {}
    }
    slot.listed = false;
    Ok(())
}
