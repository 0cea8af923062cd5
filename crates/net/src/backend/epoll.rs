//! Sockets on epoll, where the ring cannot receive for them.
//!
//! The events are those of the ring: an accept gives descriptors, a send gives a count, and a `Stop` gives each entry that it
//! has ended an event with ECANCELED. Interest is level-triggered and changed before the next wait, once for each descriptor.

use super::calls::System;
use super::{Backend, Calls, Ending};
use crate::recv::Way;
use crate::table::Tag;
use proactor_engine::ring::Event;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{SocketAddrAny, SocketFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// IORING_CQE_F_MORE: more events of the same entry come.
const MORE: u32 = 2;
/// Events of one wait.
const MAX_EVENTS: usize = 256;
/// Connections that one listener gives in a turn, so that others are served too.
const MAX_ACCEPTS: usize = 64;
/// The key of the waker's descriptor.
const WAKE: u64 = u64::MAX;

/// What is asked for on one descriptor.
#[derive(Default)]
struct Interest {
    accept: Option<(Tag, bool)>,
    connect: Option<Tag>,
    read: Option<Tag>,
    send: Option<(Tag, *const u8, usize)>,
    room: Option<Tag>,
    /// What the kernel watches.
    watched: EventFlags,
    /// It is in `changed`.
    listed: bool,
}

impl Interest {
    fn wanted(&self) -> EventFlags {
        let mut flags = EventFlags::empty();
        if self.accept.is_some() {
            flags |= EventFlags::IN;
        }
        if self.read.is_some() {
            flags |= EventFlags::IN | EventFlags::RDHUP;
        }
        if self.connect.is_some() || self.send.is_some() || self.room.is_some() {
            flags |= EventFlags::OUT;
        }
        flags
    }
}

pub(crate) struct Epoll {
    set: OwnedFd,
    waker: Arc<OwnedFd>,
    /// By descriptor.
    interests: Vec<Interest>,
    changed: Vec<RawFd>,
    /// Events that verbs have made themselves.
    made: Vec<Event>,
    found: Vec<epoll::Event>,
    calls: System,
}

fn event(tag: Tag, res: i32, more: bool) -> Event {
    Event {
        tag: tag.0,
        res,
        flags: if more { MORE } else { 0 },
    }
}

fn result(result: io::Result<usize>) -> i32 {
    match result {
        Ok(count) => count as i32,
        Err(e) => -e.raw_os_error().unwrap_or(libc::EIO),
    }
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let waker = Arc::new(rustix::event::eventfd(0, flags)?);
        epoll::add(&set, &waker, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Epoll {
            set,
            waker,
            interests: Vec::new(),
            changed: Vec::new(),
            made: Vec::new(),
            found: Vec::with_capacity(MAX_EVENTS),
            calls: System::default(),
        })
    }

    /// System calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.made
    }

    pub(crate) fn waker(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.waker)
    }

    /// The descriptor that is readable when a turn has something to do.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.set.as_raw_fd()
    }

    fn interest(&mut self, fd: RawFd) -> &mut Interest {
        let index = fd as usize;
        if index >= self.interests.len() {
            // allocates: an entry for each descriptor
            self.interests.resize_with(index + 1, Interest::default);
        }
        let interest = &mut self.interests[index];
        if !interest.listed {
            interest.listed = true;
            self.changed.push(fd);
        }
        interest
    }

    /// Tells the kernel what is asked for now.
    fn update(&mut self) -> io::Result<()> {
        while let Some(fd) = self.changed.pop() {
            let interest = &mut self.interests[fd as usize];
            interest.listed = false;
            let wanted = interest.wanted();
            if wanted == interest.watched {
                continue;
            }
            // SAFETY: a descriptor with entries is open.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
            let data = EventData::new_u64(fd as u64);
            self.calls.made += 1;
            if wanted.is_empty() {
                // Hang-ups are told of what is in the set whether asked for or not, for ever.
                epoll::delete(&self.set, borrowed)?;
            } else if interest.watched.is_empty() {
                epoll::add(&self.set, borrowed, data, wanted)?;
            } else {
                epoll::modify(&self.set, borrowed, data, wanted)?;
            }
            interest.watched = wanted;
        }
        Ok(())
    }

    fn accept_ready(&mut self, fd: RawFd, events: &mut Vec<Event>) {
        for _ in 0..MAX_ACCEPTS {
            let Some((tag, once)) = self.interests[fd as usize].accept else {
                return;
            };
            // SAFETY: the listener has an entry, so it is open.
            let listener = unsafe { BorrowedFd::borrow_raw(fd) };
            self.calls.made += 1;
            let accepted = rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
            let (res, more) = match accepted {
                Ok(socket) => (std::os::fd::IntoRawFd::into_raw_fd(socket), !once),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => continue,
                Err(errno) => (-errno.raw_os_error(), false),
            };
            events.push(event(tag, res, more));
            if !more {
                self.interest(fd).accept = None;
            }
        }
    }

    fn ready(&mut self, fd: RawFd, flags: EventFlags, events: &mut Vec<Event>) {
        let ended = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        if self.interests[fd as usize].accept.is_some() {
            return self.accept_ready(fd, events);
        }
        if flags.contains(EventFlags::OUT) || ended {
            if let Some(tag) = self.interests[fd as usize].connect {
                self.interest(fd).connect = None;
                // SAFETY: the socket has an entry, so it is open.
                let error = rustix::net::sockopt::socket_error(unsafe { BorrowedFd::borrow_raw(fd) });
                let res = match error {
                    Ok(Ok(())) => 0,
                    Ok(Err(errno)) | Err(errno) => -errno.raw_os_error(),
                };
                events.push(event(tag, res, false));
                return;
            }
            if let Some((tag, start, len)) = self.interests[fd as usize].send {
                // SAFETY: the caller of `send` keeps the memory until the event.
                let bytes = unsafe { std::slice::from_raw_parts(start, len) };
                let res = result(self.calls.send(fd, bytes));
                if res != -libc::EAGAIN {
                    self.interest(fd).send = None;
                    events.push(event(tag, res, false));
                }
            }
        }
        if flags.contains(EventFlags::OUT) || ended {
            if let Some(tag) = self.interest(fd).room.take() {
                events.push(event(tag, 0, false));
            }
        }
        if let Some(tag) = self.interests[fd as usize].read {
            if ended || flags.intersects(EventFlags::IN | EventFlags::RDHUP) {
                events.push(event(tag, flags.bits() as i32 & 0xffff, true));
            }
        }
    }
}

impl Backend for Epoll {
    type Calls = System;

    fn has_pool(&self) -> bool {
        false
    }

    fn buffer_bytes(&self) -> usize {
        0
    }

    fn accept(&mut self, fd: RawFd, once: bool, tag: Tag) -> io::Result<()> {
        self.interest(fd).accept = Some((tag, once));
        Ok(())
    }

    fn connect(&mut self, fd: RawFd, address: SocketAddrAny, tag: Tag) -> io::Result<()> {
        // SAFETY: the caller has just made the descriptor.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        self.calls.made += 1;
        match rustix::net::connect(socket, &address) {
            Ok(()) => self.made.push(event(tag, 0, false)),
            Err(rustix::io::Errno::INPROGRESS) => self.interest(fd).connect = Some(tag),
            // EAGAIN: a Unix listener's backlog is full. epoll never tells when that is over, so the error is the caller's.
            Err(errno) => self.made.push(event(tag, -errno.raw_os_error(), false)),
        }
        Ok(())
    }

    fn recv(&mut self, fd: RawFd, way: Way, tag: Tag) -> io::Result<()> {
        debug_assert_eq!(way, Way::Ready);
        self.interest(fd).read = Some(tag);
        Ok(())
    }

    fn await_room(&mut self, fd: RawFd, tag: Tag) -> io::Result<()> {
        self.interest(fd).room = Some(tag);
        Ok(())
    }

    unsafe fn send(&mut self, fd: RawFd, bytes: *const u8, len: usize, _: bool, tag: Tag) -> io::Result<()> {
        self.interest(fd).send = Some((tag, bytes, len));
        Ok(())
    }

    fn stop(&mut self, fd: RawFd, which: Ending<'_>, tag: Tag) -> io::Result<()> {
        let interest = self.interest(fd);
        let ends = |of: Tag| match which {
            Ending::One(one) => of == one,
            Ending::All(_) => true,
        };
        let ended = [
            interest.accept.take_if(|(tag, _)| ends(*tag)).map(|(tag, _)| tag),
            interest.connect.take_if(|tag| ends(*tag)),
            interest.read.take_if(|tag| ends(*tag)),
            interest.send.take_if(|(tag, ..)| ends(*tag)).map(|(tag, ..)| tag),
            interest.room.take_if(|tag| ends(*tag)),
        ];
        // allocates: five at most
        self.made.extend(
            ended
                .into_iter()
                .flatten()
                .map(|tag| event(tag, -libc::ECANCELED, false)),
        );
        self.made.push(event(tag, 0, false));
        Ok(())
    }

    fn has_work(&self) -> bool {
        !self.changed.is_empty() || !self.made.is_empty()
    }

    fn release(&mut self, fd: RawFd) {
        let Some(interest) = self.interests.get_mut(fd as usize) else {
            return;
        };
        if !std::mem::replace(&mut interest.watched, EventFlags::empty()).is_empty() {
            self.calls.made += 1;
            // SAFETY: the caller closes the descriptor later. Closing would not take it out of the set where a child process
            // has a copy of it.
            let _ = epoll::delete(&self.set, unsafe { BorrowedFd::borrow_raw(fd) });
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.update()?;
        let timeout = if self.made.is_empty() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        let timeout = timeout.map(|timeout| rustix::event::Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        events.append(&mut self.made);
        self.found.clear();
        let room = rustix::buffer::spare_capacity(&mut self.found);
        self.calls.made += 1;
        match epoll::wait(&self.set, room, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let found = std::mem::take(&mut self.found);
        for one in &found {
            let (data, flags) = (one.data.u64(), one.flags);
            if data == WAKE {
                let _ = rustix::io::read(self.waker.as_fd(), &mut [0u8; 8]);
            } else {
                self.ready(data as RawFd, flags, events);
            }
        }
        self.found = found;
        Ok(())
    }

    fn bytes(&mut self, _: &Event) -> &[u8] {
        unreachable!("there is no pool")
    }

    fn give_back(&mut self, _: &Event) {}

    fn grow_pool(&mut self) {}

    fn drain(&mut self, _: &mut Vec<Event>) -> bool {
        // The kernel reads no memory of ours by itself.
        true
    }
}
