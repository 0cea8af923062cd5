//! Ops that wait: for a descriptor to be ready, or for a time. One epoll instance, no threads.

use super::raw_of;
use crate::backend::Raw;
use crate::inflight::Token;
use crate::op::{Handle, Op, RwFlags};
use crate::sys::{self, perform};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, TryReserveError};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// epoll data of the mailbox's eventfd and of the timer. Tokens have the top bit clear.
const MAILBOX: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
/// Events taken from the kernel in one call.
const BATCH: usize = 64;

pub(crate) enum Readiness {
    /// It waits for the device at most: a worker's business.
    None,
    Events(u32),
    Time(Duration),
}

struct Watched {
    op: Box<Op>,
    /// A duplicate: epoll takes a descriptor once only, and two ops may wait for the same one. It also keeps the file
    /// open as an in-flight op of the ring does.
    fd: OwnedFd,
    events: u32,
    skip: usize,
}

pub(super) struct Reactor {
    epoll: OwnedFd,
    timer: OwnedFd,
    watched: HashMap<Token, Watched>,
    timeouts: HashMap<Token, Box<Op>>,
    deadlines: BinaryHeap<Reverse<(Instant, Token)>>,
    mailbox: RawFd,
}

/// Ops that became ready but cannot be done without blocking after all: for the pool.
pub(super) type ForPool = Vec<(Token, Box<Op>, usize)>;

impl Reactor {
    pub(super) fn new(mailbox: RawFd) -> io::Result<Self> {
        // SAFETY: no pointers.
        let (epoll, timer) = unsafe {
            let epoll = sys::owned(sys::check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?);
            let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
            (
                epoll,
                sys::owned(sys::check(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags))?),
            )
        };
        let reactor = Reactor {
            epoll,
            timer,
            watched: HashMap::new(),
            timeouts: HashMap::new(),
            deadlines: BinaryHeap::new(),
            mailbox,
        };
        reactor.control(libc::EPOLL_CTL_ADD, mailbox, libc::EPOLLIN as u32, MAILBOX)?;
        reactor.control(
            libc::EPOLL_CTL_ADD,
            reactor.timer.as_raw_fd(),
            libc::EPOLLIN as u32,
            TIMER,
        )?;
        Ok(reactor)
    }

    /// Makes room for so many ops in all.
    pub(super) fn make_room(&mut self, ops: usize) -> Result<(), TryReserveError> {
        self.watched.try_reserve(ops.saturating_sub(self.watched.len()))?;
        self.timeouts
            .try_reserve(ops.saturating_sub(self.timeouts.len()))?;
        self.deadlines
            .try_reserve(ops.saturating_sub(self.deadlines.len()))
    }

    pub(super) fn epoll_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    fn control(&self, action: i32, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: the event is a live local that the kernel copies.
        sys::check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), action, fd, &raw mut event) })?;
        Ok(())
    }

    pub(super) fn after(&mut self, token: Token, op: Box<Op>, after: Duration) {
        // A time that the clock cannot hold never comes.
        if let Some(deadline) = Instant::now().checked_add(after) {
            self.deadlines.push(Reverse((deadline, token)));
        }
        self.timeouts.insert(token, op);
        self.arm_timer();
    }

    fn arm_timer(&mut self) {
        while let Some(Reverse((_, token))) = self.deadlines.peek() {
            if self.timeouts.contains_key(token) {
                break;
            }
            self.deadlines.pop();
        }
        let Some(Reverse((deadline, _))) = self.deadlines.peek() else {
            return;
        };
        sys::timerfd_set(self.timer.as_raw_fd(), Some(*deadline));
    }

    /// Waits for `events` on the op's file, then does the op. EPERM: this file is always ready.
    pub(super) fn watch(
        &mut self,
        token: Token,
        op: Box<Op>,
        events: u32,
        skip: usize,
    ) -> Result<(), (Box<Op>, io::Error)> {
        let fd = match &*op {
            Op::Poll(o) => o.file.fd(),
            other => perform::transfer_file(other)
                .expect("only polls and transfers are watched")
                .fd(),
        };
        let fd = match sys::dup(fd) {
            Ok(fd) => fd,
            Err(e) => return Err((op, e)),
        };
        let multishot = matches!(&*op, Op::Poll(o) if o.multishot);
        // The ring's multishot poll reports each wake-up once, as edge triggering does.
        let mode = if multishot {
            libc::EPOLLET
        } else {
            libc::EPOLLONESHOT
        } as u32;
        if let Err(e) = self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), events | mode, token.0) {
            return Err((op, e));
        }
        self.watched.insert(token, Watched { op, fd, events, skip });
        Ok(())
    }

    pub(super) fn remove(&mut self, token: Token) -> Option<Box<Op>> {
        if let Some(op) = self.timeouts.remove(&token) {
            return Some(op);
        }
        let watched = self.watched.remove(&token)?;
        // Closing alone would not do: the file lives on behind the descriptor that this is a duplicate of.
        let _ = self.control(libc::EPOLL_CTL_DEL, watched.fd.as_raw_fd(), 0, 0);
        Some(watched.op)
    }

    /// Waits at most this long for something to happen, and finishes what has become possible.
    pub(super) fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<ForPool> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        let count = sys::epoll_wait(self.epoll.as_raw_fd(), &mut events, timeout)?;
        let mut for_pool = Vec::new();
        for event in &events[..count] {
            match event.u64 {
                MAILBOX => sys::eventfd_drain(self.mailbox),
                TIMER => {
                    sys::eventfd_drain(self.timer.as_raw_fd());
                    self.expire(done);
                }
                token => self.ready(Token(token), event.events, done, &mut for_pool),
            }
        }
        Ok(for_pool)
    }

    fn expire(&mut self, done: &mut Vec<Raw>) {
        let now = Instant::now();
        while let Some(Reverse((deadline, token))) = self.deadlines.peek().copied() {
            if deadline > now {
                break;
            }
            self.deadlines.pop();
            if let Some(op) = self.timeouts.remove(&token) {
                done.push(raw_of(token, 0, op));
            }
        }
        self.arm_timer();
    }

    fn ready(&mut self, token: Token, events: u32, done: &mut Vec<Raw>, for_pool: &mut ForPool) {
        let Some(watched) = self.watched.get_mut(&token) else {
            return;
        };
        if let Op::Poll(poll) = &*watched.op {
            if poll.multishot {
                done.push(Raw {
                    token,
                    res: events as i32,
                    more: true,
                    op: None,
                });
            } else if let Some(op) = self.remove(token) {
                done.push(raw_of(token, events as i32, op));
            }
            return;
        }
        match without_waiting(&mut watched.op, watched.skip, watched.fd.as_raw_fd()) {
            // Somebody else was faster: wait again.
            e if e == -libc::EAGAIN => {
                let (fd, events) = (watched.fd.as_raw_fd(), watched.events | libc::EPOLLONESHOT as u32);
                let _ = self.control(libc::EPOLL_CTL_MOD, fd, events, token.0);
            }
            // This file knows no RWF_NOWAIT (a terminal): readiness has to do.
            e if e == -libc::EOPNOTSUPP || e == -libc::EINVAL => {
                let skip = watched.skip;
                if let Some(op) = self.remove(token) {
                    for_pool.push((token, op, skip));
                }
            }
            res => {
                if let Some(op) = self.remove(token) {
                    done.push(raw_of(token, res, op));
                }
            }
        }
    }
}

/// The result of a transfer that has one without waiting. None: a poll, a file that has to be waited for, or one that knows
/// no RWF_NOWAIT.
pub(super) fn at_once(op: &mut Op, skip: usize) -> Option<i32> {
    let fd = perform::transfer_file(op)?.fd();
    let res = without_waiting(op, skip, fd);
    (res != -libc::EAGAIN && res != -libc::EOPNOTSUPP).then_some(res)
}

/// Does a transfer with RWF_NOWAIT added, on the duplicate: the op's own descriptor may have been closed meanwhile.
fn without_waiting(op: &mut Op, skip: usize, fd: RawFd) -> i32 {
    let Some((file, flags)) = target(op) else {
        return -libc::EINVAL;
    };
    let own = (std::mem::replace(file, Handle::raw(fd)), *flags);
    *flags = own.1 | RwFlags::NOWAIT;
    let res = perform::perform(op, skip);
    if let Some((file, flags)) = target(op) {
        (*file, *flags) = own;
    }
    res
}

fn target(op: &mut Op) -> Option<(&mut Handle, &mut RwFlags)> {
    match op {
        Op::Read(o) => Some((&mut o.file, &mut o.flags)),
        Op::Write(o) => Some((&mut o.file, &mut o.flags)),
        Op::ReadV(o) => Some((&mut o.file, &mut o.flags)),
        Op::WriteV(o) => Some((&mut o.file, &mut o.flags)),
        _ => None,
    }
}
