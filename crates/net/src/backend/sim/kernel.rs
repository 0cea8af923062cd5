//! Descriptors, entries and events of the simulated kernel.

use super::{Connection, Faults, Random, Settings};
use crate::table::{SocketId, Tag};
use proactor_engine::ring::Event;
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;

const BUFFER: u32 = 1;
const MORE: u32 = 2;
const NOTIFICATION: u32 = 8;
const POLLIN: i32 = 1;
/// A number that is no descriptor.
const NO_SOCKET: RawFd = 10_000;
/// The first descriptor; lower ones are files of the process.
pub(super) const FIRST_FD: RawFd = 3;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Object {
    Listener,
    Stream(usize),
}

pub(super) enum Job {
    Accept {
        once: bool,
    },
    Connect,
    Recv,
    Poll,
    Send {
        start: *const u8,
        copy: Vec<u8>,
        zero_copy: bool,
        /// No event is to tell of it if all is sent.
        is_quiet: bool,
    },
    /// A send that is done and whose memory the kernel still has.
    Notify {
        start: *const u8,
        copy: Vec<u8>,
        end: usize,
    },
    Stop(Option<Vec<Tag>>),
}

pub(super) struct Entry {
    pub(super) fd: RawFd,
    pub(super) tag: Tag,
    pub(super) job: Job,
    cancelled: bool,
}

pub(crate) struct Kernel {
    random: Random,
    pub(crate) faults: Faults,
    pub(crate) settings: Settings,
    pub(super) objects: Vec<Option<Object>>,
    pub(super) entries: Vec<Entry>,
    /// Events that were not collected yet, with their descriptors.
    pub(super) posted: Vec<(RawFd, Event)>,
    /// Sockets whose quiet sends have ended, which was not told yet.
    pub(super) sent: Vec<SocketId>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) backlog: VecDeque<usize>,
    /// Buffers, with the bytes of those that are not in the pool.
    pub(crate) buffers: Vec<Option<Vec<u8>>>,
    pub(super) is_full: bool,
    /// The last wait found nothing.
    pub(crate) idle: bool,
    /// It would have slept for ever.
    pub(crate) asleep: bool,
    /// And nothing may follow from it before the next turn: a quiet send whose end somebody waits for is not slept on.
    pub(crate) sleeps: bool,
}

impl Kernel {
    pub(crate) fn new(random: Random, settings: Settings) -> Self {
        Kernel {
            random,
            faults: settings.faults.clone(),
            buffers: vec![None; settings.buffers],
            settings,
            objects: Vec::new(),
            entries: Vec::new(),
            posted: Vec::new(),
            sent: Vec::new(),
            connections: Vec::new(),
            backlog: VecDeque::new(),
            is_full: false,
            idle: false,
            asleep: false,
            sleeps: false,
        }
    }

    pub(super) fn chance(&mut self, rate: usize) -> bool {
        rate > 0 && self.random.chance(rate)
    }

    /// A part of what could be done at once.
    pub(super) fn part(&mut self, whole: usize) -> usize {
        let short = self.faults.short;
        if whole > 1 && self.chance(short) {
            1 + self.random.below(whole - 1)
        } else {
            whole
        }
    }

    pub(super) fn transient(&mut self) -> Option<i32> {
        let rate = self.faults.transient;
        let errnos = [libc::ECANCELED, libc::EINTR, libc::EAGAIN];
        self.chance(rate).then(|| errnos[self.random.below(3)])
    }

    fn new_fd(&mut self, object: Object) -> Option<RawFd> {
        let free = self.objects.iter().position(Option::is_none);
        let at = free.unwrap_or(self.objects.len());
        if at >= self.settings.max_fds {
            return None;
        }
        if at == self.objects.len() {
            self.objects.push(None);
        }
        self.objects[at] = Some(object);
        Some(FIRST_FD + at as RawFd)
    }

    pub(crate) fn new_listener(&mut self) -> Option<RawFd> {
        self.new_fd(Object::Listener)
    }

    /// A socket for a connect, and the number of its connection.
    pub(crate) fn new_socket(&mut self) -> Option<(RawFd, usize)> {
        let number = self.connections.len();
        let fd = self.new_fd(Object::Stream(number))?;
        self.connections.push(Connection::new(self.settings.socket_bytes));
        Some((fd, number))
    }

    /// A peer connects to the listeners.
    pub(crate) fn peer_connects(&mut self) -> usize {
        let number = self.connections.len();
        self.connections.push(Connection::new(self.settings.socket_bytes));
        self.connections[number].established = true;
        self.backlog.push_back(number);
        number
    }

    pub(super) fn object(&self, fd: RawFd) -> Option<Object> {
        let at = usize::try_from(fd - FIRST_FD).ok()?;
        self.objects.get(at).copied().flatten()
    }

    /// The connection that a descriptor is of.
    pub(crate) fn number(&self, fd: RawFd) -> usize {
        match self.object(fd) {
            Some(Object::Stream(number)) => number,
            other => panic!("descriptor {fd} is {other:?}"),
        }
    }

    pub(super) fn connection(&mut self, fd: RawFd) -> &mut Connection {
        let number = self.number(fd);
        &mut self.connections[number]
    }

    pub(crate) fn has_listener(&self) -> bool {
        self.objects.contains(&Some(Object::Listener))
    }

    pub(crate) fn open_fds(&self) -> usize {
        self.objects.iter().flatten().count()
    }

    /// Entries of a socket whose last event was not collected.
    pub(crate) fn entries_of(&self, id: SocketId) -> usize {
        let running = self.entries.iter().filter(|entry| entry.tag.id() == id).count();
        let is_last = |event: &Event| Tag(event.tag).id() == id && !event.more();
        let sent = self.sent.iter().filter(|&&one| one == id).count();
        running + sent + self.posted.iter().filter(|(_, event)| is_last(event)).count()
    }

    /// Whether a receive or a poll of a socket is under way.
    pub(crate) fn receives(&self, id: SocketId) -> bool {
        let receives = |entry: &Entry| matches!(entry.job, Job::Recv | Job::Poll);
        self.entries
            .iter()
            .any(|entry| entry.tag.id() == id && receives(entry))
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.posted.is_empty()
    }

    fn post(&mut self, at: usize, res: i32, flags: u32) {
        let (fd, tag) = (self.entries[at].fd, self.entries[at].tag);
        self.posted.push((
            fd,
            Event {
                tag: tag.0,
                res,
                flags,
            },
        ));
    }

    /// Posts the last event of an entry.
    fn end(&mut self, at: usize, res: i32, flags: u32) {
        self.post(at, res, flags & !MORE);
        self.entries.remove(at);
    }

    /// Posts an event of an entry that goes on if it can. False: it has ended.
    fn go_on(&mut self, at: usize, res: i32, flags: u32) -> bool {
        let rate = self.faults.drop_more;
        let goes_on = self.posted.len() < self.settings.completions && !self.chance(rate);
        if goes_on {
            self.post(at, res, flags | MORE);
        } else {
            self.end(at, res, flags);
        }
        goes_on
    }

    /// Lets all entries do what they can; `all`: none is late.
    pub(super) fn progress(&mut self, all: bool) {
        let mut at = 0;
        while at < self.entries.len() {
            let late = self.faults.late;
            if !all && self.chance(late) {
                at += 1;
                continue;
            }
            let tag = self.entries[at].tag;
            self.advance(at);
            at += usize::from(self.entries.get(at).is_some_and(|entry| entry.tag == tag));
        }
    }

    pub(super) fn advance(&mut self, at: usize) {
        if self.entries[at].cancelled {
            return self.end(at, -libc::ECANCELED, 0);
        }
        let fails = match self.entries[at].job {
            Job::Stop(_) | Job::Connect | Job::Notify { .. } => None,
            _ => self.transient(),
        };
        if let Some(errno) = fails {
            self.check_memory(at);
            return self.end(at, -errno, 0);
        }
        match &mut self.entries[at].job {
            Job::Accept { once } => {
                let once = *once;
                self.accept(at, once);
            }
            Job::Connect => {
                let refused = self.faults.refused;
                let is_refused = self.chance(refused);
                let fd = self.entries[at].fd;
                self.connection(fd).established = !is_refused;
                self.end(at, if is_refused { -libc::ECONNREFUSED } else { 0 }, 0);
            }
            Job::Recv => self.recv(at),
            Job::Poll => {
                let fd = self.entries[at].fd;
                let tag = self.entries[at].tag;
                if self.connection(fd).is_readable() {
                    if self.settings.has_pool {
                        self.end(at, POLLIN, 0);
                    } else if !self.posted.iter().any(|(_, event)| event.tag == tag.0) {
                        let twice = self.faults.told_twice;
                        if self.go_on(at, POLLIN, 0) && self.chance(twice) {
                            self.go_on(at, POLLIN, 0);
                        }
                    }
                }
            }
            Job::Send { .. } => self.send(at),
            Job::Notify { end, .. } => {
                let end = *end;
                let fd = self.entries[at].fd;
                // The peer's kernel has it, or the connection is no more.
                if self.connection(fd).has_arrived(end) {
                    self.check_memory(at);
                    self.end(at, 0, NOTIFICATION);
                }
            }
            Job::Stop(tags) => {
                let tags = tags.take();
                self.stop(at, tags.as_deref());
            }
        }
    }

    fn accept(&mut self, at: usize, once: bool) {
        while let Some(&number) = self.backlog.front() {
            let (refused, no_socket) = (self.faults.refused, self.faults.no_socket);
            if !once && self.chance(no_socket) {
                if !self.go_on(at, NO_SOCKET, 0) {
                    return;
                }
                continue;
            }
            if self.chance(refused) {
                return self.end(at, -libc::ECONNABORTED, 0);
            }
            let Some(fd) = self.new_fd(Object::Stream(number)) else {
                return self.end(at, -libc::EMFILE, 0);
            };
            self.backlog.pop_front();
            if once {
                return self.end(at, fd, 0);
            }
            if !self.go_on(at, fd, 0) {
                return;
            }
        }
    }

    fn recv(&mut self, at: usize) {
        let fd = self.entries[at].fd;
        while self.connection(fd).is_readable() {
            let no_buffers = self.faults.no_buffers;
            let free = self.buffers.iter().position(Option::is_none);
            let Some(id) = free.filter(|_| !self.chance(no_buffers)) else {
                return self.end(at, -libc::ENOBUFS, 0);
            };
            let most = self.part(self.settings.buffer_bytes);
            let flags = BUFFER | (id as u32) << 16;
            match self.connection(fd).receive(most).expect("it is readable") {
                Err(errno) => return self.end(at, -errno, 0),
                // The kernel has chosen a buffer before it knew of the end.
                Ok(bytes) if bytes.is_empty() => {
                    let with_buffer = self.random.chance(500);
                    self.buffers[id] = with_buffer.then_some(bytes);
                    let flags = if with_buffer { flags } else { 0 };
                    let twice = self.faults.told_twice;
                    if self.chance(twice) {
                        return self.post(at, 0, flags | MORE);
                    }
                    return self.end(at, 0, flags);
                }
                Ok(bytes) => {
                    let count = bytes.len() as i32;
                    self.buffers[id] = Some(bytes);
                    if !self.go_on(at, count, flags) {
                        return;
                    }
                }
            }
        }
    }

    fn send(&mut self, at: usize) {
        self.check_memory(at);
        let fd = self.entries[at].fd;
        let Job::Send {
            start,
            copy,
            zero_copy,
            ..
        } = &self.entries[at].job
        else {
            return;
        };
        let (start, bytes, zero_copy) = (*start, copy.clone(), *zero_copy);
        let most = self.part(bytes.len());
        let Some(result) = self.connection(fd).transmit(&bytes, most) else {
            return;
        };
        let res = result.map_or_else(|errno| -errno, |count| count as i32);
        // A failed one may have a notification, too.
        if zero_copy && (res > 0 || self.random.chance(500)) {
            self.post(at, res, MORE);
            let end = self.connection(fd).transmitted();
            self.entries[at].job = Job::Notify {
                start,
                copy: bytes,
                end,
            };
        } else {
            self.end(at, res, 0);
        }
    }

    /// The memory of a send is what it was when the entry was made.
    pub(super) fn check_memory(&self, at: usize) {
        if let Job::Send { start, copy, .. } | Job::Notify { start, copy, .. } = &self.entries[at].job {
            // SAFETY: the caller of `send` keeps the memory until the event, which has not been posted.
            let bytes = unsafe { std::slice::from_raw_parts(*start, copy.len()) };
            assert!(bytes == copy, "the memory of a send was changed");
        }
    }

    /// The end of a program does not wait for a peer.
    pub(super) fn check_notification(&mut self, at: usize) {
        if let Job::Notify { end, .. } = self.entries[at].job {
            let fd = self.entries[at].fd;
            assert!(
                self.connection(fd).has_arrived(end),
                "a notification is waited for that only the peer can bring"
            );
        }
    }

    fn stop(&mut self, at: usize, tags: Option<&[Tag]>) {
        let (fd, missed) = (self.entries[at].fd, self.faults.missed);
        let mut found = 0;
        for other in 0..self.entries.len() {
            let entry = &self.entries[other];
            let named = tags.is_none_or(|tags| tags.contains(&entry.tag)) && entry.fd == fd && other != at;
            // A notification cannot be cancelled.
            if named && !matches!(entry.job, Job::Stop(_) | Job::Notify { .. }) && !self.chance(missed) {
                self.check_memory(other);
                self.entries[other].cancelled = true;
                found += 1;
            }
        }
        self.end(at, if found > 0 { found } else { -libc::ENOENT }, 0);
    }

    pub(super) fn push(&mut self, fd: RawFd, tag: Tag, job: Job) -> io::Result<()> {
        assert!(
            self.object(fd).is_some(),
            "an entry names descriptor {fd}, which is closed"
        );
        assert!(
            !self.entries.iter().any(|entry| entry.tag == tag),
            "two entries {:?} of {:?}",
            tag.what(),
            tag.id()
        );
        assert!(!self.sleeps, "{:?} waited for a quiet send", tag.id());
        let rate = self.faults.would_block;
        self.is_full |= self.chance(rate);
        if self.is_full {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.entries.push(Entry {
            fd,
            tag,
            job,
            cancelled: false,
        });
        Ok(())
    }

    pub(super) fn collect(&mut self, events: &mut Vec<Event>) {
        let late = self.faults.late;
        let mut count = self.posted.len();
        if self.chance(late) {
            count = 1 + self.random.below(count);
        }
        for _ in 0..count {
            let length = self.posted.len();
            let at = self.random.below(length);
            let tag = self.posted[at].1.tag;
            let first = self.posted.iter().position(|(_, event)| event.tag == tag);
            events.push(self.posted.remove(first.expect("one has the tag")).1);
        }
    }
}
