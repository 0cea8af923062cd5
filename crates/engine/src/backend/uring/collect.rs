//! Getting results out of the ring: reading the completion queue, waiting, cancelling.

use super::Uring;
use crate::backend::{Backend, CancelOutcome, Raw};
use crate::inflight::Token;
use crate::ring::{Entry, CANCEL, HELPER};
use io_uring::opcode;
use std::io;
use std::time::Duration;

/// What counts towards the minimum of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Ops,
    OpsAndEvents,
}

impl Uring {
    /// Reads what is in the completion queue, without a system call.
    pub(super) fn reap(&mut self, done: &mut Vec<Raw>) -> Option<i32> {
        let mut cancelled = None;
        let (watching, in_ring) = (&mut self.watching, &mut self.in_ring);
        let op = |entry: Entry| {
            *in_ring -= usize::from(!entry.more);
            done.push(Raw {
                token: Token(entry.user_data),
                res: entry.res,
                more: entry.more,
                op: None,
            });
        };
        self.ring.reap(op, |entry| match entry.user_data {
            HELPER => *watching = false,
            CANCEL => cancelled = Some(entry.res),
            other => debug_assert!(false, "nobody's entry: {other:#x}"),
        });
        cancelled
    }

    pub(super) fn collect_helper(&mut self, timeout: Duration, done: &mut Vec<Raw>) -> io::Result<()> {
        // The ring tells of the helper, unless the ring polls or somebody watches both.
        if self.in_helper == 0 || (self.watching && !self.ring.iopoll && self.announcer.is_none()) {
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

    pub(super) fn cancel_in_ring(&mut self, token: Token, done: &mut Vec<Raw>) -> CancelOutcome {
        while !self.ring.reserve(1) {
            if self.ring.lost {
                return CancelOutcome::Running;
            }
            std::thread::yield_now();
        }
        self.ring
            .push(&opcode::AsyncCancel::new(token.0).build().user_data(CANCEL));
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
                    let want = if self.ring.iopoll { 0 } else { 1 };
                    // A signal is no reason to leave the answer lying around: the next caller would mistake it for its
                    // own.
                    if self.ring.enter(want, None).is_err() && self.ring.lost {
                        return CancelOutcome::Running;
                    }
                }
            }
        }
    }

    /// How many more completions the wait has to bring.
    fn missing(&self, min: usize, done: usize, count: Count) -> usize {
        if count == Count::Ops {
            return min.saturating_sub(done).min(self.in_ring + self.in_helper);
        }
        let missing = min.saturating_sub(done + self.ring.event_count());
        let awaited = self.ring.waker_fd().is_some() || self.ring.borrowed() > 0;
        match () {
            () if self.ring.was_woken() => 0,
            // A multishot entry or a waker may bring any number.
            () if awaited => missing,
            () => missing.min(self.in_ring + self.in_helper),
        }
    }

    /// See [`Backend::wait`] and [`Backend::wait_events`].
    pub(super) fn wait_for(
        &mut self,
        min: usize,
        timeout: Option<Duration>,
        done: &mut Vec<Raw>,
        count: Count,
    ) -> io::Result<()> {
        if let Some(announcer) = &self.announcer {
            announcer.drain();
        }
        done.append(&mut self.failed);
        self.reap(done);
        self.collect_helper(Duration::ZERO, done)?;
        let missing = self.missing(min, done.len(), count);
        if missing > 0 && self.ring.iopoll && self.in_ring == 0 {
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
            cut_short = self
                .ring
                .enter(if self.ring.iopoll { 0 } else { want }, timeout)?;
        } else if self.ring.needs_enter() {
            self.ring.enter(0, None)?;
        } else if self.announcer.is_none() && !self.ring.iopoll {
            return Ok(()); // the queue has just been read
        }
        // What has come meanwhile is taken now: the descriptor would be readable once more for nothing.
        if let Some(announcer) = &self.announcer {
            announcer.drain();
            // Deferred work signals when it is queued and not when it is done: that signal may just have been eaten.
            if self.ring.has_deferred() {
                self.ring.enter(0, None)?;
            }
        }
        self.reap(done);
        self.collect_helper(Duration::ZERO, done)?;
        if self.ring.iopoll && self.in_ring > 0 {
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
