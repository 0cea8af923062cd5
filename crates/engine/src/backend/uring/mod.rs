//! io_uring.
//!
//! What the ring lacks on this kernel goes to the helper, whose descriptor the ring itself watches, so that one wait
//! serves both. Invariant: an entry is pushed only for an op in its slab slot, which does not move until its completion
//! queue entry has been read.

mod announce;
mod setup;
mod sqe;

use super::helper::Helper;
use super::{Backend, CancelOutcome, Raw, Taken};
use crate::config::Config;
use crate::inflight::{Slot, Token};
use crate::op::{Op, OpKind};
use crate::probe::Support;
use crate::sys;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{cqueue, opcode, squeue, types, IoUring};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use announce::Announcer;
use setup::Native;

/// `user_data` of entries that are no op's. Tokens have the top bit clear.
const HELPER: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;
/// Added to an op's token: the entry that notifies of it.
const NOTIFY: u64 = 1 << 63;

/// What an eventfd is written to notify: it must outlive any entry.
static ONE: u64 = 1;

/// Entries that one op may need: itself and its notification.
const ENTRIES_PER_OP: usize = 2;

pub(crate) struct Uring {
    /// Dropped first, by hand: in a forked child only its descriptor may be closed.
    ring: ManuallyDrop<IoUring>,
    forked: bool,
    native: Native,
    helper: Option<Helper>,
    max_threads: usize,
    /// A poll on the helper's descriptor is in the ring.
    watching: bool,
    announcer: Option<Announcer>,
    /// Ops whose last completion queue entry has not come.
    in_ring: usize,
    in_helper: usize,
    /// Ops that notify, with their results once they are there. Each is complete when its notification is: the
    /// kernel may write that only when it is entered again.
    notifying: HashMap<Token, i32>,
    /// Ops that found no helper: it could not be made.
    failed: Vec<Raw>,
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
            ring: ManuallyDrop::new(ring),
            forked: false,
            notifying: HashMap::new(),
            failed: Vec::new(),
            native,
            helper: None,
            max_threads: config.max_threads,
            watching: false,
            announcer: None,
            in_ring: 0,
            in_helper: 0,
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
                CANCEL => cancelled = Some(entry.result()),
                data if data & NOTIFY != 0 => {
                    let token = Token(data & !NOTIFY);
                    let res = self.notifying.remove(&token).unwrap_or(-libc::EIO);
                    self.in_ring -= 1;
                    done.push(Raw::new(token, res));
                }
                token if !self.notifying.is_empty() && self.notifying.contains_key(&Token(token)) => {
                    self.notifying.insert(Token(token), entry.result());
                }
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

    fn collect_helper(&mut self, timeout: Duration, done: &mut Vec<Raw>) -> io::Result<()> {
        // The ring tells of the helper, unless the ring polls or somebody watches both.
        if self.in_helper == 0 || (self.watching && !self.native.iopoll && self.announcer.is_none()) {
            return Ok(());
        }
        let before = done.len();
        let result = self
            .helper
            .as_mut()
            .map_or(Ok(()), |h| h.wait(Some(timeout), done));
        self.in_helper -= done[before..].iter().filter(|raw| !raw.more).count();
        result
    }

    /// Whether completions need a system call to appear: deferred task work, an overflown queue, device polling.
    fn needs_enter(&mut self) -> bool {
        let sq = self.ring.submission();
        !sq.is_empty() || sq.taskrun() || sq.cq_overflow() || self.native.iopoll
    }

    /// One io_uring_enter. True: its wait was cut short, by a signal or by a timeout op.
    fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<bool> {
        let queued = self.ring.submission().len();
        let want = want.min(self.ring.completion().capacity());
        let start = Instant::now();
        // GETEVENTS also flushes an overflown completion queue and runs deferred task work.
        let result = match timeout {
            _ if want == 0 => self.enter_now().map(|()| 0),
            None => self.ring.submit_and_wait(want),
            Some(timeout) if self.native.timed_wait => {
                let timespec = Timespec::new()
                    .sec(timeout.as_secs())
                    .nsec(timeout.subsec_nanos());
                let args = SubmitArgs::new().timespec(&timespec);
                self.ring.submitter().submit_with_args(want, &args)
            }
            Some(timeout) => self.wait_by_poll(timeout).map(|()| 0),
        };
        match result {
            // A call that has submitted returns that number even if a signal has ended its wait.
            Ok(submitted) => Ok(submitted > 0
                && submitted == queued
                && self.ring.completion().len() < want
                && timeout.is_none_or(|timeout| start.elapsed() < timeout)),
            // EBUSY: completions have to be read before more can be submitted. ETIME: the time has passed.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::ETIME | libc::EAGAIN)) => Ok(false),
            Err(e) => Err(e),
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
                // ENOENT may mean that it is complete, and also that the device has it or that it waits for the one
                // that it is linked to.
                Some(e) if e == -libc::EALREADY => return CancelOutcome::Running,
                Some(_) if done.iter().any(|raw| raw.token == token && !raw.more) => {
                    return CancelOutcome::Finished
                }
                Some(_) => return CancelOutcome::Running,
                None => {
                    let want = if self.native.iopoll { 0 } else { 1 };
                    // A signal is no reason to leave the answer lying around: the next caller would mistake it for its
                    // own.
                    let _ = self.enter(want, None).map(drop);
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
        let notifies = slot.options.notify.is_some();
        // A polled ring cannot write to an eventfd.
        let unheard = self.announcer.is_some() && announce::would_go_unheard(&slot.op);
        if unheard || !self.native.has(&slot.op) || (notifies && self.native.iopoll) {
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
        if sqe::opens(&mut slot.op) {
            // The ring's own attempt adds O_NONBLOCK: a FIFO opens without a writer, or fails with ENXIO. What can be
            // opened without a worker the driver has tried.
            flags |= squeue::Flags::ASYNC;
        }
        let entry = sqe::build(&mut slot.op, slot.skip, slot.options.priority, self.driver_id);
        self.push(&entry.flags(flags).user_data(token.0));
        if let Some(fd) = notify {
            let write = opcode::Write::new(types::Fd(fd), (&raw const ONE).cast(), 8);
            self.push(&write.build().user_data(NOTIFY | token.0));
            self.notifying.insert(token, -libc::EIO);
        }
        self.in_ring += 1;
        Taken::Yes
    }

    fn links(&mut self, ops: &[Op]) -> bool {
        ops.iter()
            .enumerate()
            .all(|(i, op)| self.native.has(op) && self.native.links(op, i + 1 == ops.len()))
            && self.reserve(ops.len() * ENTRIES_PER_OP)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.watch_helper();
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        self.enter(0, None).map(drop)
    }

    fn wait(&mut self, min: usize, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()> {
        if let Some(announcer) = &self.announcer {
            announcer.drain();
        }
        done.append(&mut self.failed);
        self.watch_helper();
        self.reap(done);
        self.collect_helper(Duration::ZERO, done)?;
        let pending = self.in_ring + self.in_helper;
        let missing = min.saturating_sub(done.len()).min(pending);
        if missing > 0 && self.native.iopoll && self.in_ring == 0 {
            // The ring cannot watch the helper, and there is nothing to poll for.
            return self.collect_helper(timeout.unwrap_or(Duration::MAX), done);
        }
        let before = done.len();
        let mut cut_short = false;
        if missing > 0 {
            // The helper's results are not entries of the ring: wait for one thing at a time while it is busy.
            let want = if self.in_helper > 0 { 1 } else { missing };
            cut_short = self.enter(if self.native.iopoll { 0 } else { want }, timeout)?;
        } else if self.needs_enter() {
            self.enter(0, None)?;
        }
        self.reap(done);
        self.collect_helper(Duration::ZERO, done)?;
        if self.native.iopoll && self.in_ring > 0 {
            // A polled device announces nothing: whoever watches has to look.
            self.wake();
        }
        // A timeout op ends the wait of io_uring_enter too. If none has, it was a signal, and the owner of its handler
        // waits to hear of it.
        if cut_short && !done[before..].iter().any(|raw| raw.res == -libc::ETIME) {
            return Err(io::Error::from_raw_os_error(libc::EINTR));
        }
        Ok(())
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
        announcer.signal();
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
