//! What futures need of a driver: results that stay in their slots, and waits that another thread can end.

use super::Driver;
use crate::error::{Error, SubmitError};
use crate::inflight::Token;
use crate::op::{Op, Options};
use crate::ring::Waker;
use crate::{sys, Output};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::task;
use std::time::Duration;

impl Driver {
    /// As `submit`; the result is taken by `take_awaited`.
    #[inline]
    pub(crate) fn submit_awaited(&mut self, op: Op, is_plain: bool) -> Result<Token, SubmitError> {
        self.accept(op, is_plain, Options::default(), true)
    }

    /// The op and its result, if it has ended.
    #[inline]
    pub(crate) fn take_awaited(&mut self, token: Token) -> Option<(Op, Result<Output, Error>)> {
        self.slab.take_done(token)
    }

    /// As `take_awaited`, made into something on the way.
    #[inline(always)]
    pub(crate) fn take_awaited_as<R>(
        &mut self,
        token: Token,
        make: impl FnOnce(Op, Result<Output, Error>) -> R,
    ) -> Option<R> {
        let slot = self.slab.done(token)?;
        let result = slot.take_result()?;
        let made = make(slot.vacate(), result);
        self.slab.vacated(token);
        Some(made)
    }

    /// Sets who is told of the next completion of this op, and gives back who was told before. Whoever drops that must not
    /// have borrowed the driver: it may be the last owner of a task.
    #[inline]
    pub(crate) fn tell(&mut self, token: Token, waker: Option<task::Waker>) -> Option<task::Waker> {
        match self.slab.get_mut(token) {
            Some(slot) => std::mem::replace(&mut slot.waker, waker),
            None => waker,
        }
    }

    /// Whether somebody is to be woken.
    pub(crate) fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Moves those that are to be woken, once nobody has borrowed the driver, into an empty vector.
    pub(crate) fn take_woken(&mut self, into: &mut Vec<task::Waker>) {
        std::mem::swap(&mut self.woken, into);
    }

    /// Has everybody woken who is told of an op.
    pub(crate) fn wake_all(&mut self) {
        for at in 0..self.slab.slots() {
            let slot = self.slab.token_at(at).and_then(|token| self.slab.get_mut(token));
            let waker = slot.and_then(|slot| slot.waker.take());
            self.woken.extend(waker); // allocates: one waker for each op that is awaited at most
        }
    }

    /// How many more ops would be accepted.
    pub(crate) fn room(&self) -> usize {
        self.bound.saturating_sub(self.slab.len() + self.ready.len())
    }

    /// A waker that ends a wait of this driver from any thread: [`wait_events`](Self::wait_events), and that of the executor
    /// of an [`Io`](crate::Io).
    ///
    /// # Errors
    /// EMFILE if its descriptor cannot be made; an error in a forked child.
    pub fn waker(&mut self) -> io::Result<Waker> {
        self.check_fork()?;
        if self.lends() {
            return self.backend.waker();
        }
        let event = match &self.wake_event {
            Some(event) => Arc::clone(event),
            None => Arc::clone(self.wake_event.insert(Arc::new(sys::eventfd()?))),
        };
        Ok(Waker::of(event))
    }

    /// Submits what is queued and collects what has completed. With `wait` it waits for something to complete, unless a
    /// future is to be woken already, `timeout` passes or a waker is used. Completions that are ready and that nobody collects
    /// do not end the wait: it would spin. A signal ends it without an error.
    pub(crate) fn turn(&mut self, wait: bool, timeout: Option<Duration>) -> io::Result<()> {
        self.check_fork()?;
        self.pump();
        let wait = wait && self.woken.is_empty();
        let result = match self.lends() {
            true => self.turn_ring(usize::from(wait), timeout),
            false => self.turn_elsewhere(wait, timeout),
        };
        match result {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }

    /// A ring that polls its device can wait for nothing else.
    fn lends(&mut self) -> bool {
        !self.iopoll && self.backend.ring().is_some()
    }

    fn turn_ring(&mut self, min: usize, timeout: Option<Duration>) -> io::Result<()> {
        let mut raw = std::mem::take(&mut self.raw);
        let timeout = if min == 0 { Some(Duration::ZERO) } else { timeout };
        let result = self.backend.wait_events(min, timeout, &mut raw, &mut Vec::new());
        for one in raw.drain(..) {
            self.finish(one, false);
        }
        self.raw = raw;
        let more = !self.backlog.is_empty() || !self.parking.is_empty();
        self.pump();
        match result {
            Ok(_) if more => self.backend.flush(),
            result => result.map(drop),
        }
    }

    fn turn_elsewhere(&mut self, wait: bool, timeout: Option<Duration>) -> io::Result<()> {
        let fd = self.eventfd()?;
        self.backend.flush()?;
        let before = self.ready.len();
        self.collect(0, None)?;
        if wait && self.woken.is_empty() && self.ready.len() == before {
            let event = self.wake_event.as_ref().map_or(-1, |event| event.as_raw_fd());
            sys::poll_both([fd, event], timeout)?;
            self.collect(0, None)?;
        }
        if let Some(event) = &self.wake_event {
            sys::eventfd_drain(event.as_raw_fd());
        }
        Ok(())
    }
}
