//! io_uring.
//!
//! What the ring lacks on this kernel goes to the helper, whose descriptor the ring itself watches, so that one wait
//! serves both. Invariant: an entry is pushed only for an op in its slab slot, which does not move until its completion
//! queue entry has been read.

mod announce;
mod collect;
mod native;
mod sqe;

use super::helper::Helper;
use super::{Backend, CancelOutcome, Raw, Taken};
use crate::config::Config;
use crate::inflight::{Slot, Token};
use crate::op::{Op, OpKind};
use crate::probe::Support;
use crate::ring::{Event, Ring, Waker, HELPER};
use io_uring::{opcode, squeue, types};
use std::collections::TryReserveError;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use announce::Announcer;
use collect::Count;

pub(crate) struct Uring {
    ring: Ring,
    helper: Option<Helper>,
    max_threads: Option<usize>,
    /// A poll on the helper's descriptor is in the ring.
    watching: bool,
    announcer: Option<Announcer>,
    /// Ops whose last completion queue entry has not come.
    in_ring: usize,
    in_helper: usize,
    /// There is memory for so many ops.
    room: usize,
    /// Ops that found no helper: it could not be made.
    failed: Vec<Raw>,
    driver_id: u64,
    /// The entry before the next one is linked to it.
    chaining: bool,
}

/// A driver that is not enabled yet moves to another thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Uring>();
};

impl Uring {
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        Ok(Uring {
            ring: Ring::new(config)?,
            failed: Vec::new(),
            helper: None,
            max_threads: config.max_threads,
            watching: false,
            announcer: None,
            in_ring: 0,
            in_helper: 0,
            room: 0,
            driver_id: config.driver_id,
            chaining: false,
        })
    }

    fn helper(&mut self) -> io::Result<&mut Helper> {
        if self.helper.is_none() {
            let mut helper = Helper::new(self.max_threads)?;
            let room = helper.make_room(self.room);
            room.map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
            if let Some(announcer) = &self.announcer {
                announcer.add(helper.poll_fd())?;
            }
            self.helper = Some(helper);
        }
        Ok(self.helper.as_mut().expect("made above"))
    }

    /// Whether nobody who watches the ring would hear of the op's completion.
    fn goes_unheard(&self, op: &Op) -> bool {
        self.announcer.is_some() && announce::would_go_unheard(op)
    }

    #[inline(never)]
    fn submit_any(&mut self, token: Token, slot: &mut Slot) -> Taken {
        // With DEFER_TASKRUN the ring completes an op when it is entered again; an eventfd has to hear of it at once,
        // whoever is or is not waiting, and that a worker can do.
        let notifies = slot.options.notify.is_some();
        if notifies || self.goes_unheard(&slot.op) || !self.ring.has(&slot.op) {
            match self.helper() {
                Ok(helper) => {
                    helper.submit(token, slot);
                    self.in_helper += 1;
                }
                Err(e) => {
                    let errno = e.raw_os_error().unwrap_or(libc::EMFILE);
                    self.failed.push(Raw::failed(token, slot, errno));
                    self.wake();
                }
            }
            return Taken::Yes;
        }
        if !self.ring.reserve(1) {
            return Taken::Full;
        }
        let mut flags = squeue::Flags::empty();
        if slot.link {
            flags |= squeue::Flags::IO_LINK;
        }
        if sqe::needs_worker(&mut slot.op, slot.skip) {
            flags |= squeue::Flags::ASYNC;
        }
        let follows = std::mem::replace(&mut self.chaining, slot.link);
        let places = sqe::Places {
            // The kernel looks up what has a place when it begins with an op (Linux 5.18), which may be after the place has
            // got another file: in a worker, or after the op before it.
            files: (!follows && !flags.contains(squeue::Flags::ASYNC)).then_some(self.driver_id),
            buffers: self.driver_id,
        };
        let entry = sqe::build(&mut slot.op, slot.skip, slot.options.priority, &places);
        self.ring.push(&entry.flags(flags).user_data(token.0));
        self.in_ring += 1;
        Taken::Yes
    }

    /// Lets the ring tell when the helper has something.
    fn watch_helper(&mut self) {
        let Some(helper) = &self.helper else { return };
        if self.watching || self.in_helper == 0 || self.ring.iopoll {
            return;
        }
        let fd = types::Fd(helper.poll_fd());
        if self.ring.reserve(1) {
            self.ring.push(
                &opcode::PollAdd::new(fd, libc::POLLIN as u32)
                    .build()
                    .user_data(HELPER),
            );
            self.watching = true;
        }
    }
}

impl Backend for Uring {
    fn support(&self, kind: OpKind) -> Support {
        self.ring.support(kind)
    }

    fn features(&self) -> Vec<&'static str> {
        self.ring.features.clone()
    }

    fn make_room(&mut self, ops: usize) -> Result<(), TryReserveError> {
        if let Some(helper) = &mut self.helper {
            helper.make_room(ops)?;
        }
        self.failed.try_reserve(ops.saturating_sub(self.failed.len()))?;
        self.room = ops;
        Ok(())
    }

    fn submit(&mut self, token: Token, slot: &mut Slot) -> Taken {
        // A single transfer to which nothing below applies.
        let alone = !self.chaining && !slot.link && slot.options.notify.is_none();
        if alone && self.announcer.is_none() && self.ring.transfers {
            let priority = slot.options.priority;
            if let Some(entry) = sqe::single(&mut slot.op, slot.skip, priority, self.driver_id) {
                if !self.ring.push_or_flush(&entry.user_data(token.0)) {
                    return Taken::Full;
                }
                self.in_ring += 1;
                return Taken::Yes;
            }
        }
        self.submit_any(token, slot)
    }

    fn links(&mut self, ops: &[Op]) -> bool {
        // The kernel's own thread (SQPOLL) may take the first entries before the others are there, and what it takes at once
        // is all that it links.
        if self.ring.sqpoll {
            return false;
        }
        let in_ring = |op: &Op| self.ring.has(op) && !self.goes_unheard(op);
        ops.iter()
            .enumerate()
            .all(|(i, op)| in_ring(op) && self.ring.links(op, i + 1 == ops.len()))
            // allocates: room in the submission queue, no memory
            && self.ring.reserve(ops.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // Only a wait in the ring needs the ring to watch, and such a wait sees to it itself.
        if self.ring.queued() == 0 {
            return Ok(());
        }
        self.ring.enter(0, None).map(drop)
    }

    fn wait(&mut self, min: usize, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()> {
        self.wait_for(min, timeout, done, Count::Ops)
    }

    fn wait_events(
        &mut self,
        min: usize,
        timeout: Option<Duration>,
        done: &mut Vec<Raw>,
        events: &mut Vec<Event>,
    ) -> io::Result<bool> {
        self.ring.arm_waker();
        let result = self.wait_for(min, timeout, done, Count::OpsAndEvents);
        let woken = self.ring.take_events(events);
        result.map(|()| woken)
    }

    fn ring(&mut self) -> Option<&mut Ring> {
        Some(&mut self.ring)
    }

    fn waker(&mut self) -> io::Result<Waker> {
        let announced = self.ring.waker_fd().is_some();
        let waker = self.ring.waker()?;
        if let (Some(announcer), Some(fd), false) = (&self.announcer, self.ring.waker_fd(), announced) {
            announcer.add(fd)?;
        }
        Ok(waker)
    }

    fn cancel(&mut self, token: Token, done: &mut Vec<Raw>) -> CancelOutcome {
        done.append(&mut self.failed);
        let before = done.len();
        let outcome = self
            .helper
            .as_mut()
            .map_or(CancelOutcome::Finished, |h| h.cancel(token, done));
        self.in_helper -= done.len() - before;
        let found = done.iter().any(|raw| raw.token == token);
        match outcome {
            CancelOutcome::Finished if !found && self.in_ring > 0 => self.cancel_in_ring(token, done),
            outcome => outcome,
        }
    }

    fn eventfd(&mut self) -> io::Result<RawFd> {
        if let Some(announcer) = &self.announcer {
            return Ok(announcer.as_raw_fd());
        }
        let announcer = Announcer::new()?;
        if let Some(helper) = &self.helper {
            announcer.add(helper.poll_fd())?;
        }
        if let Some(fd) = self.ring.waker_fd() {
            announcer.add(fd)?;
        }
        self.ring.submitter().register_eventfd(announcer.eventfd())?;
        // What completed before the registration has signalled nothing.
        if self.in_ring > 0 || self.ring.borrowed() > 0 || !self.failed.is_empty() {
            announcer.signal();
        }
        Ok(self.announcer.insert(announcer).as_raw_fd())
    }

    fn wake(&mut self) {
        if let Some(announcer) = &self.announcer {
            announcer.signal();
        }
    }

    fn forget_threads(&mut self) {
        self.ring.forget();
        if let Some(helper) = &mut self.helper {
            helper.forget_threads();
        }
    }

    fn register_file(&mut self, fd: BorrowedFd<'_>) -> io::Result<Option<u32>> {
        self.ring.register_file(fd).map(Some)
    }

    fn unregister_file(&mut self, index: u32) -> io::Result<()> {
        self.ring.unregister_file(index)
    }

    unsafe fn register_buffers(&mut self, iovecs: &[libc::iovec]) -> io::Result<()> {
        // SAFETY: the caller keeps the memory until the ring is gone.
        unsafe { self.ring.submitter().register_buffers(iovecs) }
    }
}
