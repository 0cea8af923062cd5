//! io_uring.
//!
//! What the ring lacks on this kernel goes to the helper, whose descriptor the ring itself watches, so that one wait
//! serves both. Invariant: an entry is pushed only for an op in its slab slot, which does not move until its completion
//! queue entry has been read.

mod setup;
mod sqe;
mod watch;

use super::helper::Helper;
use super::{Backend, CancelOutcome, Raw, Taken};
use crate::config::Config;
use crate::inflight::{Slot, Token};
use crate::op::{Op, OpKind};
use crate::probe::Support;
use crate::sys;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{cqueue, opcode, squeue, types, IoUring};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use setup::Native;
use watch::Watch;

/// `user_data` of entries that are no op's. Tokens have the top bit clear.
const HELPER: u64 = u64::MAX;
const NOTIFY: u64 = u64::MAX - 1;
const CANCEL: u64 = u64::MAX - 2;

/// What an eventfd is written to notify: it must outlive any entry.
static ONE: u64 = 1;

/// Entries that one op may need: itself and its notification.
const ENTRIES_PER_OP: usize = 2;

pub(crate) struct Uring {
    ring: IoUring,
    native: Native,
    helper: Option<Helper>,
    max_threads: usize,
    /// A poll on the helper's descriptor is in the ring.
    watching: bool,
    /// Ops whose last completion queue entry has not come.
    in_ring: usize,
    in_helper: usize,
    watch: Option<Watch>,
    fixed_files: FixedFiles,
    driver_id: u64,
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
            ring,
            native,
            helper: None,
            max_threads: config.max_threads,
            watching: false,
            in_ring: 0,
            in_helper: 0,
            watch: None,
            driver_id: config.driver_id,
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
            if let Some(watch) = &self.watch {
                sys::epoll_add(watch.epoll.as_raw_fd(), helper.poll_fd())?;
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
        let _ = self.ring.submit();
        room(&mut self.ring) >= entries
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what the entry points to is in a slab slot, in the helper or static, and stays there until its
        // completion has been read (`Backend::submit`'s contract). `reserve` has made room.
        unsafe { self.ring.submission().push(entry).expect("room was reserved") }
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

    /// Reads what is in the completion queue, without a system call.
    fn reap(&mut self, done: &mut Vec<Raw>) -> Option<i32> {
        let mut cancelled = None;
        for entry in self.ring.completion() {
            match entry.user_data() {
                HELPER => self.watching = false,
                NOTIFY => {}
                CANCEL => cancelled = Some(entry.result()),
                token => {
                    let more = cqueue::more(entry.flags());
                    self.in_ring -= usize::from(!more);
                    done.push(Raw {
                        token: Token(token),
                        res: entry.result(),
                        more,
                        op: None,
                    });
                }
            }
        }
        cancelled
    }

    fn collect_helper(&mut self, done: &mut Vec<Raw>) -> io::Result<()> {
        if self.in_helper == 0 || (self.watching && !self.native.iopoll) {
            return Ok(());
        }
        let before = done.len();
        if let Some(helper) = &mut self.helper {
            helper.wait(Some(Duration::ZERO), done)?;
        }
        self.in_helper -= done[before..].iter().filter(|raw| !raw.more).count();
        Ok(())
    }

    /// Whether completions need a system call to appear: deferred task work, an overflown queue, device polling.
    fn needs_enter(&mut self) -> bool {
        let sq = self.ring.submission();
        !sq.is_empty() || sq.taskrun() || sq.cq_overflow() || self.native.iopoll
    }

    fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        // GETEVENTS also flushes an overflown completion queue and runs deferred task work.
        let result = match timeout {
            _ if want == 0 => self.enter_now(),
            None => self.ring.submit_and_wait(want).map(drop),
            Some(timeout) if self.native.timed_wait => {
                let timespec = Timespec::new()
                    .sec(timeout.as_secs())
                    .nsec(timeout.subsec_nanos());
                let args = SubmitArgs::new().timespec(&timespec);
                self.ring.submitter().submit_with_args(want, &args).map(drop)
            }
            Some(timeout) => self.wait_by_poll(timeout),
        };
        match result {
            // EBUSY: completions have to be read before more can be submitted. ETIME: the time has passed.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::ETIME | libc::EAGAIN)) => Ok(()),
            other => other,
        }
    }

    fn enter_now(&mut self) -> io::Result<()> {
        const GETEVENTS: u32 = 1;
        let queued = self.ring.submission().len() as u32;
        if self.native.sqpoll {
            self.ring.submit()?;
        }
        // SAFETY: no argument is passed; the entries were pushed under the contract of `push`.
        unsafe {
            self.ring
                .submitter()
                .enter::<libc::sigset_t>(queued, 0, GETEVENTS, None)?;
        }
        Ok(())
    }

    /// Linux 5.10 has no timeout in io_uring_enter; the ring's own descriptor polls readable instead.
    fn wait_by_poll(&mut self, timeout: Duration) -> io::Result<()> {
        self.ring.submit()?;
        let mut entry = libc::pollfd {
            fd: self.ring.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout_ms = i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        // SAFETY: one live pollfd.
        sys::check(unsafe { libc::poll(&raw mut entry, 1, timeout_ms) }).map(drop)
    }

    fn cancel_in_ring(&mut self, token: Token, done: &mut Vec<Raw>) -> CancelOutcome {
        while !self.reserve(1) {
            std::thread::yield_now();
        }
        self.push(&opcode::AsyncCancel::new(token.0).build().user_data(CANCEL));
        loop {
            match self.reap(done) {
                Some(0) => return CancelOutcome::Cancelled,
                Some(e) if e == -libc::EALREADY => return CancelOutcome::Running,
                Some(_) => return CancelOutcome::Finished,
                None => {
                    let want = if self.native.iopoll { 0 } else { 1 };
                    // A signal is no reason to leave the answer lying around: the next caller would mistake it for its
                    // own.
                    let _ = self.enter(want, None);
                }
            }
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
        if !self.native.has(&slot.op) || (self.watch.is_some() && watch::would_go_unheard(&slot.op)) {
            let Ok(helper) = self.helper() else {
                return Taken::Full;
            };
            helper.submit(token, slot);
            self.in_helper += 1;
            return Taken::Yes;
        }
        if !self.reserve(ENTRIES_PER_OP) {
            return Taken::Full;
        }
        let notify = slot.options.notify.as_ref().map(AsRawFd::as_raw_fd);
        let mut flags = squeue::Flags::empty();
        if slot.link {
            flags |= squeue::Flags::IO_LINK;
        }
        if notify.is_some() {
            // Hard: the notification follows whether the op succeeds or not.
            flags |= squeue::Flags::IO_HARDLINK;
        }
        let entry = sqe::build(&mut slot.op, slot.skip, slot.options.priority, self.driver_id);
        self.push(&entry.flags(flags).user_data(token.0));
        if let Some(fd) = notify {
            let write = opcode::Write::new(types::Fd(fd), (&raw const ONE).cast(), 8);
            self.push(&write.build().user_data(NOTIFY));
        }
        self.in_ring += 1;
        Taken::Yes
    }

    fn links(&mut self, ops: &[Op]) -> bool {
        // A whole-file read is several entries, of which only the first is known now.
        ops.iter()
            .all(|op| self.native.has(op) && !matches!(op, Op::ReadFile(_)))
            && self.reserve(ops.len() * ENTRIES_PER_OP)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.watch_helper();
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        self.enter(0, None)
    }

    fn wait(&mut self, min: usize, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()> {
        if let Some(watch) = &self.watch {
            sys::eventfd_drain(watch.eventfd.as_raw_fd());
        }
        if self.in_ring + self.in_helper == 0 {
            // Only entries of our own can be there: notifications, stale watches, wake-ups.
            self.reap(done);
            return self.flush();
        }
        self.watch_helper();
        self.reap(done);
        self.collect_helper(done)?;
        let missing = min.saturating_sub(done.len());
        if missing > 0 {
            // The helper's results are not entries of the ring: wait for one thing at a time while it is busy.
            let want = if self.in_helper > 0 {
                1
            } else {
                missing.min(self.in_ring)
            };
            self.enter(if self.native.iopoll { 0 } else { want }, timeout)?;
        } else if self.needs_enter() {
            self.enter(0, None)?;
        } else {
            return Ok(());
        }
        self.reap(done);
        self.collect_helper(done)?;
        // The watch is one-shot, and may have told of something that was collected already.
        self.flush()
    }

    fn cancel(&mut self, token: Token, done: &mut Vec<Raw>) -> CancelOutcome {
        let before = done.len();
        let outcome = self
            .helper
            .as_mut()
            .map_or(CancelOutcome::Finished, |h| h.cancel(token, done));
        self.in_helper -= done.len() - before;
        match outcome {
            CancelOutcome::Finished if self.in_ring > 0 => self.cancel_in_ring(token, done),
            outcome => outcome,
        }
    }

    fn eventfd(&mut self) -> io::Result<RawFd> {
        if self.watch.is_none() {
            let watch = Watch::new(&self.ring)?;
            if let Some(helper) = &self.helper {
                sys::epoll_add(watch.epoll.as_raw_fd(), helper.poll_fd())?;
            }
            self.watch = Some(watch);
        }
        Ok(self.watch.as_ref().map_or(-1, |watch| watch.epoll.as_raw_fd()))
    }

    fn wake(&mut self) {
        if let Some(watch) = &self.watch {
            sys::eventfd_signal(watch.eventfd.as_raw_fd());
        }
    }

    fn forget_threads(&mut self) {
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
