//! What a backend falls back on: a bounded pool of worker threads for calls that block, and a readiness reactor for
//! ops that wait for a peer or for a time.
//!
//! Ops handed over here are moved out of their slab slots and belong to the worker or the reactor until they are done,
//! so that even a worker stuck for ever in the kernel cannot see its memory freed.

mod mailbox;
mod pool;
mod reactor;

pub(crate) use mailbox::Mailbox;

use crate::backend::{CancelOutcome, Raw};
use crate::inflight::{Slot, Token};
use crate::op::{Facts, FileKind, Nop, Op, Options, RwFlags};
use crate::sys::perform;
use pool::Pool;
use reactor::Reactor;
pub(crate) use reactor::Readiness;
use std::collections::TryReserveError;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Helper {
    mailbox: Arc<Mailbox>,
    pool: Pool,
    reactor: Reactor,
}

impl Helper {
    /// Starts no thread before the first job.
    pub(crate) fn new(max_threads: Option<usize>) -> io::Result<Self> {
        let mailbox = Arc::new(Mailbox::new()?);
        let reactor = Reactor::new(mailbox.eventfd())?;
        Ok(Helper {
            pool: Pool::new(max_threads, Arc::clone(&mailbox)),
            mailbox,
            reactor,
        })
    }

    /// Makes room for so many ops in all.
    pub(crate) fn make_room(&mut self, ops: usize) -> Result<(), TryReserveError> {
        self.mailbox.make_room(ops)?;
        self.pool.make_room(ops)?;
        self.reactor.make_room(ops)
    }

    /// Where results from other threads arrive.
    #[cfg(any(feature = "linux-aio", feature = "posix-aio"))]
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Takes the op out of its slot and finds the right place for it.
    pub(crate) fn submit(&mut self, token: Token, slot: &mut Slot) {
        let op = Box::new(std::mem::replace(&mut slot.op, Op::Nop(Nop)));
        slot.stoppable |=
            waits_for_peer(&op) || matches!(&*op, Op::WriteFile(o) if perform::writes_to_stream(o));
        self.submit_op(token, op, slot.skip, &slot.options);
    }

    /// As `submit`, for an op that has left its slot already.
    pub(crate) fn submit_op(&mut self, token: Token, op: Box<Op>, skip: usize, options: &Options) {
        // Only a worker can signal the eventfd at the moment of completion, whoever is or is not waiting.
        let readiness = if options.notify.is_some() {
            Readiness::None
        } else {
            readiness(&op)
        };
        match readiness {
            Readiness::None => self.pool.submit(token, op, skip, options.clone()),
            Readiness::Time(after) => self.reactor.after(token, op, after),
            Readiness::Events(events) => self.when_ready(token, op, skip, events, options),
        }
    }

    fn when_ready(&mut self, token: Token, mut op: Box<Op>, skip: usize, events: u32, options: &Options) {
        // A listening socket refuses a read, but is not ready for one before somebody connects.
        if let Some(res) = reactor::at_once(&mut op, skip) {
            return self.mailbox.post(raw_of(token, res, op));
        }
        if let Err((op, e)) = self.reactor.watch(token, op, events, skip) {
            match e.raw_os_error() {
                // As below, and what is asked for is not so and never will be: the ring's answer.
                Some(libc::EPERM) if perform::is_poll_in_vain(&op) => {
                    self.mailbox.post(raw_of(token, -libc::EINVAL, op));
                }
                // Always ready, so epoll refuses it: regular files.
                Some(libc::EPERM) => self.pool.submit(token, op, skip, options.clone()),
                errno => self.mailbox.post(raw_of(token, -errno.unwrap_or(libc::EIO), op)),
            }
        }
    }

    /// Waits for anything to happen, at most this long, and collects what is done.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()> {
        let before = done.len();
        self.mailbox.take(done);
        let timeout = if done.len() > before {
            Some(Duration::ZERO)
        } else {
            timeout
        };
        let again = self.reactor.wait(timeout, done)?;
        for (token, op, skip) in again {
            self.pool.submit(token, op, skip, Default::default());
        }
        self.mailbox.take(done);
        Ok(())
    }

    pub(crate) fn cancel(&mut self, token: Token, done: &mut Vec<Raw>) -> CancelOutcome {
        match self.reactor.remove(token) {
            Some(op) => {
                done.push(raw_of(token, -libc::ECANCELED, op));
                CancelOutcome::Cancelled
            }
            None => {
                let outcome = self.pool.cancel(token, done);
                if outcome == CancelOutcome::Finished {
                    self.mailbox.take_one(token, done);
                }
                outcome
            }
        }
    }

    /// Readable while there is something to collect.
    pub(crate) fn poll_fd(&self) -> RawFd {
        self.reactor.epoll_fd()
    }

    pub(crate) fn forget_threads(&mut self) {
        self.pool.forget_threads();
        // The mailbox is theirs too, and never dropped.
        // SAFETY: only the helper's drop is to come, which does not use the descriptor.
        unsafe { libc::close(self.mailbox.eventfd()) };
    }

    pub(crate) fn wake(&self) {
        self.mailbox.wake();
    }
}

pub(crate) fn raw_of(token: Token, res: i32, op: Box<Op>) -> Raw {
    Raw {
        token,
        res,
        more: false,
        op: Some(op),
    }
}

/// What an op has to wait for before it can be done without blocking.
pub(crate) fn readiness(op: &Op) -> Readiness {
    match op {
        Op::Poll(o) => return Readiness::Events(u32::from(o.events.bits())),
        Op::Timeout(o) => return Readiness::Time(o.after),
        _ => {}
    }
    match op {
        _ if nowait(op) || is_empty(op) || !waits_for_peer(op) || has_wrong_mode(op) => Readiness::None,
        Op::Read(_) | Op::ReadV(_) => Readiness::Events(libc::EPOLLIN as u32),
        _ => Readiness::Events(libc::EPOLLOUT as u32),
    }
}

/// A transfer of no bytes, which never waits.
fn is_empty(op: &Op) -> bool {
    match op {
        Op::Read(o) => o.buffer.capacity() == 0,
        Op::Write(o) => o.buffer.len() == 0,
        Op::ReadV(o) => o.total_len() == 0,
        Op::WriteV(o) => o.total_len() == 0,
        _ => false,
    }
}

/// A transfer on a pipe, socket or terminal.
pub(crate) fn waits_for_peer(op: &Op) -> bool {
    perform::transfer_file(op).is_some_and(|file| {
        matches!(
            file.facts(),
            Ok(Facts {
                kind: FileKind::Stream,
                ..
            })
        )
    })
}

/// Read of what is open for writing only, or the other way round: EBADF at once, where readiness may never come.
fn has_wrong_mode(op: &Op) -> bool {
    let Some(file) = perform::transfer_file(op) else {
        return false;
    };
    let wrong = match op {
        Op::Read(_) | Op::ReadV(_) => libc::O_WRONLY,
        _ => libc::O_RDONLY,
    };
    // SAFETY: no pointers.
    unsafe { libc::fcntl(file.fd(), libc::F_GETFL) & libc::O_ACCMODE == wrong }
}

/// Whether the caller wants EAGAIN instead of a wait, or something that only the call itself can judge.
fn nowait(op: &Op) -> bool {
    let flags = match op {
        Op::Read(o) => o.flags,
        Op::Write(o) => o.flags,
        Op::ReadV(o) => o.flags,
        Op::WriteV(o) => o.flags,
        _ => return false,
    };
    flags.contains(RwFlags::NOWAIT) || flags.has_unknown()
}
