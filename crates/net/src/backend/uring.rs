//! Entries of a ring that a driver lends.

mod room;

use super::calls::System;
use super::messages::Messages;
use super::{Backend, Ending};
use crate::address::Address;
use crate::config::{Config, Hidden};
use crate::recv::Way;
use crate::table::{SocketId, Tag, What};
use proactor_engine::ring::{
    lent_user_data, opcode, quiet_user_data, squeue, types, BufferRing, Event, Waker,
};
use proactor_engine::{Completion, Driver, Engine};
use room::Room;
use rustix::net::addr::SocketAddrArg;
use rustix::net::SocketAddrAny;
use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Events that the kernel may report before this thread looks: multishot entries fill the completion queue by themselves.
const COMPLETIONS_PER_ENTRY: u32 = 4;

/// The tag of an entry whose event says nothing.
const NOBODY: u64 = 0xf;

/// A send of which no event tells if all is sent.
///
/// It does not wait (MSG_DONTWAIT), so it has ended when the kernel has taken its entry. MSG_WAITALL makes one that was short a
/// failure, which has an event in spite of IOSQE_CQE_SKIP_SUCCESS.
struct Quiet {
    tag: Tag,
    fd: RawFd,
}

pub(crate) struct Uring {
    driver: Driver,
    pool: BufferRing,
    demand: Demand,
    messages: Option<Messages>,
    /// What the next wait hands over.
    entries: Vec<squeue::Entry>,
    hidden: Hidden,
    /// Addresses of connects in the ring, until their events.
    connecting: HashMap<u64, Box<Sockaddr>>,
    /// By the slot's index: the descriptor of the send that the ring has, and that is not quiet.
    sending: Vec<RawFd>,
    has_quiet_sends: bool,
    quiet: Vec<Quiet>,
    /// All that is in `quiet` has ended.
    quiet_ended: bool,
    /// Memory for the tags of sends that had an event.
    told: Vec<u64>,
    /// By tag: sends that the kernel did not take. A poll for room is in the ring in their place.
    blocked: HashMap<u64, Room>,
    completions: Vec<Completion>,
}

/// An address as the kernel reads it.
struct Sockaddr {
    storage: libc::sockaddr_storage,
    len: u32,
}

impl Sockaddr {
    fn new(address: &SocketAddrAny) -> Box<Self> {
        // SAFETY: zeroes are a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        // SAFETY: the closure gets a valid address of `len` bytes, which is at most a sockaddr_storage, and only reads it.
        let len = unsafe {
            address.with_sockaddr(|start, len| {
                let to = (&raw mut storage).cast::<u8>();
                std::ptr::copy_nonoverlapping(start.cast::<u8>(), to, len as usize);
                len
            })
        };
        Box::new(Sockaddr { storage, len })
    }
}

/// How many buffers the pool needs.
struct Demand {
    /// Buffers from which on those that are given back are kept from the kernel.
    target: u16,
    least: u16,
    /// The most events of a wait since `waits` was 0: as many buffers were in use, at most.
    most: usize,
    waits: u32,
}

/// After so many waits in a row that needed a quarter of the pool, or less, it is halved.
const CALM_WAITS: u32 = 1000;

impl Demand {
    fn new(least: u16) -> Self {
        Demand {
            target: least,
            least,
            most: 0,
            waits: 0,
        }
    }

    fn starved(&mut self, count: u16) {
        self.target = count.saturating_mul(2);
        (self.most, self.waits) = (0, 0);
    }

    #[inline]
    fn saw(&mut self, events: usize) {
        if self.target == self.least {
            return;
        }
        self.most = self.most.max(events);
        self.waits += 1;
        if self.waits == CALM_WAITS {
            if self.most <= usize::from(self.target / 4) {
                self.target = (self.target / 2).max(self.least);
            }
            (self.most, self.waits) = (0, 0);
        }
    }
}

impl Uring {
    pub(crate) fn buffers(&self) -> usize {
        usize::from(self.pool.count())
    }

    /// Makes a ring on which sockets can be.
    ///
    /// # Errors
    /// Why it cannot be had, in words.
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        let base = config.attach.clone().unwrap_or_else(Driver::builder);
        let mut builder = base
            .engine(Engine::IoUring)
            .depth(config.entries)
            .cq_entries(config.entries.saturating_mul(COMPLETIONS_PER_ENTRY).min(65_536))
            .user_spin(config.user_spin)
            .no_iowait(true);
        builder = builder.hide_defer_taskrun(config.hidden.defer_taskrun);
        if let Some(busy_poll) = config.napi {
            builder = builder.napi(busy_poll);
        }
        if let Some(worker) = config.sqpoll {
            builder = builder.sqpoll(worker);
        }
        if let Some(count) = config.io_workers {
            builder = builder.io_workers(count, count);
        }
        if let Some(cpus) = &config.io_worker_cpus {
            // allocates: an entry for each processor
            builder = builder.io_worker_cpus(cpus.iter().map(|cpu| *cpu as usize).collect());
        }
        let mut driver = builder.build()?;
        let pool = driver.buffer_ring(config.max_buffers, config.buffers, config.buffer_bytes)?;
        // Every wait needs something that can end it.
        driver.waker()?;
        Ok(Uring {
            driver,
            pool,
            demand: Demand::new(config.buffers),
            messages: None,
            entries: Vec::new(),
            hidden: config.hidden,
            connecting: HashMap::new(),
            sending: Vec::new(),
            // A kernel worker takes an entry before it has sent.
            has_quiet_sends: config.sqpoll.is_none() && config.attach.is_none() && !config.hidden.quiet_sends,
            quiet: Vec::new(),
            quiet_ended: false,
            told: Vec::new(),
            blocked: HashMap::new(),
            completions: Vec::new(),
        })
    }

    pub(crate) fn waker(&mut self) -> io::Result<Waker> {
        self.driver.waker()
    }

    pub(crate) fn driver(&mut self) -> &mut Driver {
        &mut self.driver
    }

    #[inline]
    fn push(&mut self, entry: squeue::Entry, tag: Tag) -> io::Result<()> {
        self.entries.push(entry.user_data(lent_user_data(tag.0)));
        Ok(())
    }

    /// Puts what was pushed into the ring. What finds no room there is put in before the next wait.
    fn hand_over(&mut self) -> io::Result<()> {
        // SAFETY: entries name descriptors, which the table keeps open until the last event; provided buffers; addresses, which
        // are kept in `connecting`; and bytes to send, for which the caller of `send` answers.
        let pushed = unsafe { self.driver.push_all(&self.entries) }?;
        if pushed == self.entries.len() {
            self.entries.clear();
        } else {
            self.entries.drain(..pushed);
        }
        Ok(())
    }
}

#[inline]
fn note_sending(sending: &mut Vec<RawFd>, tag: Tag, fd: RawFd) {
    let at = tag.id().index();
    if sending.len() <= at {
        // allocates: four bytes a socket
        sending.resize(at + 1, -1);
    }
    sending[at] = fd;
}

// Without MSG_DONTWAIT the kernel polls for room itself. Where the peer has ended its side, that poll ends at once, and after
// 128 of them (APOLL_MAX_RETRY) a thread of io-wq waits: one for each such peer that does not read.
const SEND_FLAGS: libc::c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

impl Backend for Uring {
    type Calls = System;

    fn has_pool(&self) -> bool {
        true
    }

    fn buffer_bytes(&self) -> usize {
        self.pool.each_bytes()
    }

    fn accept(&mut self, fd: RawFd, once: bool, tag: Tag) -> io::Result<()> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = types::Fd(fd);
        let entry = if once || self.hidden.multishot_accept {
            opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut())
                .flags(flags)
                .build()
        } else {
            opcode::AcceptMulti::new(fd).flags(flags).build()
        };
        self.push(entry, tag)
    }

    fn connect(&mut self, fd: RawFd, address: SocketAddrAny, tag: Tag) -> io::Result<()> {
        let address = Sockaddr::new(&address);
        let entry =
            opcode::Connect::new(types::Fd(fd), (&raw const address.storage).cast(), address.len).build();
        self.push(entry, tag)?;
        self.connecting.insert(tag.0, address);
        Ok(())
    }

    #[inline]
    fn recv(&mut self, fd: RawFd, way: Way, tag: Tag) -> io::Result<()> {
        let fd = types::Fd(fd);
        let entry = match way {
            Way::Pool => opcode::RecvMulti::new(fd, self.pool.id()).build(),
            // Not multishot, which tells of new bytes only and not of those that a short `recv` has left.
            Way::Ready => opcode::PollAdd::new(fd, (libc::POLLIN | libc::POLLRDHUP) as u32).build(),
        };
        self.push(entry, tag)
    }

    #[inline]
    unsafe fn send(
        &mut self,
        fd: RawFd,
        bytes: *const u8,
        len: usize,
        zero_copy: bool,
        tag: Tag,
    ) -> io::Result<()> {
        note_sending(&mut self.sending, tag, fd);
        let (fd, len) = (types::Fd(fd), len as u32);
        let entry = if zero_copy {
            opcode::SendZc::new(fd, bytes, len).flags(SEND_FLAGS).build()
        } else {
            opcode::Send::new(fd, bytes, len).flags(SEND_FLAGS).build()
        };
        self.push(entry, tag)
    }

    #[inline]
    fn has_quiet_sends(&self) -> bool {
        self.has_quiet_sends
    }

    #[inline]
    unsafe fn send_quietly(&mut self, fd: RawFd, bytes: *const u8, len: usize, tag: Tag) -> io::Result<()> {
        let entry = opcode::Send::new(types::Fd(fd), bytes, len as u32)
            .flags(SEND_FLAGS | libc::MSG_WAITALL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(quiet_user_data(tag.0));
        self.entries.push(entry);
        self.quiet.push(Quiet { tag, fd });
        Ok(())
    }

    #[inline]
    fn each_sent(&mut self, mut tell: impl FnMut(SocketId)) {
        if std::mem::take(&mut self.quiet_ended) {
            self.quiet.drain(..).for_each(|one| tell(one.tag.id()));
        }
    }

    fn recv_messages(&mut self, fd: RawFd, tag: Tag) -> io::Result<bool> {
        if self.messages.is_none() {
            // Where there is no memory for it, datagrams are received after a poll.
            self.messages = Messages::new(&mut self.driver).ok();
        }
        let Some(messages) = &self.messages else {
            return Ok(false);
        };
        let header = &raw const *messages.header;
        let entry = opcode::RecvMsgMulti::new(types::Fd(fd), header, messages.pool.id()).build();
        self.push(entry, tag)?;
        Ok(true)
    }

    fn await_room(&mut self, fd: RawFd, tag: Tag) -> io::Result<()> {
        self.push(
            opcode::PollAdd::new(types::Fd(fd), libc::POLLOUT as u32).build(),
            tag,
        )
    }

    fn stop(&mut self, fd: RawFd, which: Ending<'_>, tag: Tag) -> io::Result<()> {
        let one = match which {
            // A cancellation by tag now and then misses a multishot entry that is about to be armed again; one by descriptor
            // does not.
            Ending::All(_) if !self.hidden.cancel_by_descriptor => {
                let all = types::CancelBuilder::fd(types::Fd(fd)).all();
                return self.push(opcode::AsyncCancel2::new(all).build(), tag);
            }
            Ending::All(tags) => tags.first().copied(),
            Ending::One(one) => Some(one),
        };
        let entry = match one {
            Some(one) => opcode::AsyncCancel::new(lent_user_data(one.0)).build(),
            None => opcode::Nop::new().build(),
        };
        self.push(entry, tag)
    }

    fn has_work(&self) -> bool {
        !self.entries.is_empty()
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.hand_over()?;
        let all_are_queued = self.entries.is_empty();
        let result = self.driver.wait_events(1, timeout, &mut self.completions, events);
        self.demand.saw(events.len());
        if !self.connecting.is_empty() {
            for event in events.iter().filter(|event| Tag(event.tag).is(What::Connect)) {
                self.connecting.remove(&event.tag);
            }
        }
        self.hold_blocked(events);
        self.quiet_ended = !self.quiet.is_empty() && all_are_queued && self.driver.has_handed_over()?;
        match result {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            result => result.map(drop),
        }
    }

    #[inline]
    fn bytes(&mut self, event: &Event) -> &[u8] {
        let id = event.buffer_id().expect("the event has a buffer");
        // SAFETY: the event is of this pool, and its buffer has not been given back.
        unsafe { self.pool.bytes(id, event.res.max(0) as usize) }
    }

    #[inline]
    fn give_back(&mut self, event: &Event) {
        let id = event.buffer_id().expect("the event has a buffer");
        // SAFETY: as above; the caller's slice has ended.
        unsafe {
            if self.pool.count() > self.demand.target {
                self.pool.withhold(id);
            } else {
                self.pool.give_back(id);
            }
        }
    }

    fn message(&mut self, event: &Event) -> (Option<Address>, &[u8]) {
        self.messages
            .as_ref()
            .expect("there are events of it")
            .read(event)
    }

    fn give_back_message(&mut self, event: &Event) {
        self.messages
            .as_mut()
            .expect("there are events of it")
            .give_back(event);
    }

    fn grow_pool(&mut self) {
        self.demand.starved(self.pool.count());
        self.pool.grow(self.demand.target);
    }

    fn drain(&mut self, events: &mut Vec<Event>) -> bool {
        let drained = self.driver.drain_events(events).is_ok();
        if !drained {
            std::mem::forget(std::mem::take(&mut self.connecting));
            std::mem::forget(self.messages.take());
        }
        drained
    }
}
