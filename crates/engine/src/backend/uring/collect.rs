//! Getting results out of the ring: reading the completion queue, waiting, cancelling.

use super::{Uring, CANCEL, HELPER};
use crate::backend::{Backend, CancelOutcome, Raw};
use crate::inflight::Token;
use crate::sys;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{cqueue, opcode};
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

impl Uring {
    /// Reads what is in the completion queue, without a system call.
    pub(super) fn reap(&mut self, done: &mut Vec<Raw>) -> Option<i32> {
        let mut cancelled = None;
        for entry in self.ring.completion() {
            match entry.user_data() {
                HELPER => self.watching = false,
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

    pub(super) fn collect_helper(&mut self, timeout: Duration, done: &mut Vec<Raw>) -> io::Result<()> {
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
    pub(super) fn needs_enter(&mut self) -> bool {
        let sq = self.ring.submission();
        !sq.is_empty() || sq.taskrun() || sq.cq_overflow() || self.native.iopoll
    }

    /// One io_uring_enter. True: its wait was cut short, by a signal or by a timeout op.
    pub(super) fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<bool> {
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
            Err(e) => {
                self.lost |= sys::is_forbidden(&e);
                Err(e)
            }
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

    pub(super) fn cancel_in_ring(&mut self, token: Token, done: &mut Vec<Raw>) -> CancelOutcome {
        while !self.reserve(1) {
            if self.lost {
                return CancelOutcome::Running;
            }
            std::thread::yield_now();
        }
        self.push(&opcode::AsyncCancel::new(token.0).build().user_data(CANCEL));
        loop {
            match self.reap(done) {
                Some(0) => return CancelOutcome::Cancelled,
                // ENOENT may mean that it is complete, and also that the device has it or that it waits for the one
                // that it is linked to.
                Some(e) if e == -libc::EALREADY => return CancelOutcome::Running,
                // Now and then a worker drops the op while the kernel looks for it: not found, and cancelled all the same.
                Some(_) => {
                    let ended = done.iter().find(|raw| raw.token == token && !raw.more);
                    return match ended.map(|raw| raw.res) {
                        Some(res) if res == -libc::ECANCELED => CancelOutcome::Cancelled,
                        Some(_) => CancelOutcome::Finished,
                        None => CancelOutcome::Running,
                    };
                }
                None => {
                    let want = if self.native.iopoll { 0 } else { 1 };
                    // A signal is no reason to leave the answer lying around: the next caller would mistake it for its
                    // own.
                    if self.enter(want, None).is_err() && self.lost {
                        return CancelOutcome::Running;
                    }
                }
            }
        }
    }

    /// See [`Backend::wait`].
    pub(super) fn wait_for(
        &mut self,
        min: usize,
        timeout: Option<Duration>,
        done: &mut Vec<Raw>,
    ) -> io::Result<()> {
        if let Some(announcer) = &self.announcer {
            announcer.drain();
        }
        done.append(&mut self.failed);
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
            // The watch may just have been spent, on results of which these were not enough or on none at all.
            self.watch_helper();
            // The helper's results are not entries of the ring: wait for one thing at a time while it is busy.
            let want = if self.in_helper > 0 { 1 } else { missing };
            cut_short = self.enter(if self.native.iopoll { 0 } else { want }, timeout)?;
        } else if self.needs_enter() {
            self.enter(0, None)?;
        }
        // What has come meanwhile is taken now: the descriptor would be readable once more for nothing.
        if let Some(announcer) = &self.announcer {
            announcer.drain();
            let sq = self.ring.submission();
            // Deferred work signals when it is queued and not when it is done: that signal may just have been eaten.
            if sq.taskrun() || sq.cq_overflow() {
                drop(sq);
                self.enter(0, None)?;
            }
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
}
