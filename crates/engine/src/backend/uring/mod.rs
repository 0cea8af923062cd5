//! io_uring.
//!
//! What the ring lacks on this kernel goes to the helper, whose descriptor the ring itself watches, so that one wait
//! serves both. Invariant: an entry is pushed only for an op in its slab slot, which does not move until its completion
//! queue entry has been read.

mod announce;
mod collect;
mod setup;
mod sqe;

use super::helper::Helper;
use super::{Backend, CancelOutcome, Raw, Taken};
use crate::config::Config;
use crate::inflight::{Slot, Token};
use crate::op::{Op, OpKind};
use crate::probe::Support;
use crate::sys;
use io_uring::{opcode, squeue, types, IoUring};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use announce::Announcer;
use setup::Native;

/// `user_data` of entries that are no op's. Tokens have the top bit clear.
const HELPER: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;
pub(crate) struct Uring {
    /// Dropped first, by hand: in a forked child only its descriptor may be closed.
    ring: ManuallyDrop<IoUring>,
    forked: bool,
    /// io_uring_enter is forbidden since: nothing can be submitted or cancelled any more.
    lost: bool,
    native: Native,
    helper: Option<Helper>,
    max_threads: Option<usize>,
    /// A poll on the helper's descriptor is in the ring.
    watching: bool,
    announcer: Option<Announcer>,
    /// Ops whose last completion queue entry has not come.
    in_ring: usize,
    in_helper: usize,
    /// Ops that found no helper: it could not be made.
    failed: Vec<Raw>,
    fixed_files: FixedFiles,
    driver_id: u64,
    /// The entry before the next one is linked to it.
    chaining: bool,
}

/// Free places in the table of registered files, which is made on first use.
struct FixedFiles {
    room: u32,
    made: bool,
    free: VecDeque<u32>,
}

impl Uring {
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        let (ring, native) = setup::ring(config)?;
        Ok(Uring {
            ring: ManuallyDrop::new(ring),
            forked: false,
            lost: false,
            failed: Vec::new(),
            native,
            helper: None,
            max_threads: config.max_threads,
            watching: false,
            announcer: None,
            in_ring: 0,
            in_helper: 0,
            driver_id: config.driver_id,
            chaining: false,
            fixed_files: FixedFiles {
                room: config.fixed_files,
                made: false,
                free: VecDeque::new(),
            },
        })
    }

    fn helper(&mut self) -> io::Result<&mut Helper> {
        if self.helper.is_none() {
            let helper = Helper::new(self.max_threads)?;
            if let Some(announcer) = &self.announcer {
                announcer.add(helper.poll_fd())?;
            }
            self.helper = Some(helper);
        }
        Ok(self.helper.as_mut().expect("made above"))
    }

    /// Room for this many entries in one piece, after handing what is there to the kernel if need be.
    fn reserve(&mut self, entries: usize) -> bool {
        let room = |ring: &mut IoUring| {
            let sq = ring.submission();
            sq.capacity() - sq.len()
        };
        if room(&mut self.ring) >= entries {
            return true;
        }
        // With SQPOLL the kernel thread may need a moment to take them; the op waits in the backlog meanwhile.
        if let Err(e) = self.ring.submit() {
            self.lost |= sys::is_forbidden(&e);
        }
        room(&mut self.ring) >= entries
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what the entry points to is in a slab slot, in the helper or static, and stays there until its
        // completion has been read (`Backend::submit`'s contract). `reserve` has made room.
        unsafe { self.ring.submission().push(entry).expect("room was reserved") }
    }

    /// Whether nobody who watches the ring would hear of the op's completion.
    fn goes_unheard(&self, op: &Op) -> bool {
        self.announcer.is_some() && announce::would_go_unheard(op)
    }

    /// Lets the ring tell when the helper has something.
    fn watch_helper(&mut self) {
        let Some(helper) = &self.helper else { return };
        if self.watching || self.in_helper == 0 || self.native.iopoll {
            return;
        }
        let fd = types::Fd(helper.poll_fd());
        if self.reserve(1) {
            self.push(
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
        self.native.support(kind)
    }

    fn features(&self) -> Vec<&'static str> {
        self.native.features.clone()
    }

    fn submit(&mut self, token: Token, slot: &mut Slot) -> Taken {
        // With DEFER_TASKRUN the ring completes an op when it is entered again; an eventfd has to hear of it at once,
        // whoever is or is not waiting, and that a worker can do.
        let notifies = slot.options.notify.is_some();
        if notifies || self.goes_unheard(&slot.op) || !self.native.has(&slot.op) {
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
        if !self.reserve(1) {
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
        self.push(&entry.flags(flags).user_data(token.0));
        self.in_ring += 1;
        Taken::Yes
    }

    fn links(&mut self, ops: &[Op]) -> bool {
        // The kernel's own thread (SQPOLL) may take the first entries before the others are there, and what it takes at once
        // is all that it links.
        if self.native.sqpoll {
            return false;
        }
        let in_ring = |op: &Op| self.native.has(op) && !self.goes_unheard(op);
        ops.iter()
            .enumerate()
            .all(|(i, op)| in_ring(op) && self.native.links(op, i + 1 == ops.len()))
            && self.reserve(ops.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // Only a wait in the ring needs the ring to watch, and such a wait sees to it itself.
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        self.enter(0, None).map(drop)
    }

    fn wait(&mut self, min: usize, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()> {
        self.wait_for(min, timeout, done)
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
        self.ring.submitter().register_eventfd(announcer.eventfd())?;
        // What completed before the registration has signalled nothing.
        if self.in_ring > 0 || !self.failed.is_empty() {
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
        self.forked = true;
        if let Some(helper) = &mut self.helper {
            helper.forget_threads();
        }
    }

    fn register_file(&mut self, fd: BorrowedFd<'_>) -> io::Result<Option<u32>> {
        let table = &mut self.fixed_files;
        if !table.made {
            // An empty table of -1 entries works since Linux 5.5; the sparse registration only since 5.19.
            self.ring
                .submitter()
                .register_files(&vec![-1; table.room as usize])?;
            table.made = true;
            table.free = (0..table.room).collect();
        }
        let index = table
            .free
            .pop_front()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENFILE))?;
        match self
            .ring
            .submitter()
            .register_files_update(index, &[fd.as_raw_fd()])
        {
            Ok(_) => Ok(Some(index)),
            Err(e) => {
                table.free.push_back(index);
                Err(e)
            }
        }
    }

    fn unregister_file(&mut self, index: u32) -> io::Result<()> {
        // Entries that name the place must have been read before it is empty.
        while !self.ring.submission().is_empty() {
            self.ring.submit()?;
            std::thread::yield_now();
        }
        self.ring.submitter().register_files_update(index, &[-1])?;
        // Last in the queue, so that a stale handle is unlikely to meet another file.
        self.fixed_files.free.push_back(index);
        Ok(())
    }

    unsafe fn register_buffers(&mut self, iovecs: &[libc::iovec]) -> io::Result<()> {
        // SAFETY: the caller keeps the memory until the ring is gone.
        unsafe { self.ring.submitter().register_buffers(iovecs) }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.forked {
            // The queues were never mapped here (MADV_DONTFORK). Whatever lies at their addresses now is not ours to
            // unmap.
            // SAFETY: the descriptor is this process's copy; the ring that it belongs to is not used or dropped any more.
            unsafe { libc::close(self.ring.as_raw_fd()) };
            return;
        }
        // SAFETY: dropped only here, and not used after.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }
}
