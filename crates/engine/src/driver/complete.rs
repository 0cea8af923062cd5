//! From a backend's raw result to what the caller gets.

use super::Driver;
use crate::backend::Raw;
use crate::descriptors;
use crate::error::Error;
use crate::inflight::{Ended, Slot, State, Token};
use crate::op::{Events, File, Op, OpKind, Step};
use crate::sys::{self, perform};
use std::os::fd::{AsRawFd, IntoRawFd};

/// What an op that succeeded has brought, besides what is in the op itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// Bytes transferred; 0 for ops that transfer nothing.
    Count(usize),
    /// The file that an `Open` has opened. Closed if it is dropped.
    File(File),
    /// What a `Poll` has found.
    Events(Events),
}

/// The end of one op, or one event of a multishot op.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub struct Completion {
    /// Which op.
    pub token: Token,
    /// The caller's number ([`Driver::submit_with_data`]), or 0.
    pub data: u64,
    /// How it went.
    pub result: Result<Output, Error>,
    /// The op with its buffers. `None` while a multishot op goes on.
    pub op: Option<Op>,
    /// Whether there will be another completion for this token.
    pub more: bool,
}

/// A completion that nobody has taken yet, without the op and its result, which are in the slot.
pub(crate) struct Ready {
    pub(crate) token: Token,
    data: u64,
    /// Of a multishot op that goes on.
    events: Option<Events>,
}

impl Ready {
    /// Whether there will be another completion for this token.
    pub(crate) fn more(&self) -> bool {
        self.events.is_some()
    }
}

impl Completion {
    /// An op that has failed, for who hands completions on and will get none for it.
    pub fn lost(token: Token, error: Error) -> Self {
        Completion {
            token,
            data: 0,
            result: Err(error),
            op: None,
            more: false,
        }
    }

    /// The number of bytes.
    ///
    /// # Errors
    /// The op's own; EINVAL for an op that gives something else.
    #[inline(always)]
    pub fn count(&self) -> Result<usize, Error> {
        match &self.result {
            Ok(Output::Count(count)) => Ok(*count),
            _ => Err(self.error_or("the result is not a number of bytes: it is in `result`")),
        }
    }

    /// What a `Poll` has found.
    ///
    /// # Errors
    /// The op's own; EINVAL for an op that gives something else.
    pub fn events(&self) -> Result<Events, Error> {
        match &self.result {
            Ok(Output::Events(events)) => Ok(*events),
            _ => Err(self.error_or("the result is no events: it is in `result`")),
        }
    }

    /// The file that an `Open` has opened.
    ///
    /// # Errors
    /// The op's own; EINVAL for an op that gives something else.
    pub fn into_file(self) -> Result<File, Error> {
        match self.result {
            Ok(Output::File(file)) => Ok(file),
            _ => Err(self.error_or("the result is no file: it is in `result`")),
        }
    }

    /// The op's own error, or that somebody asks it for what it does not give.
    #[inline(never)]
    fn error_or(&self, hint: &'static str) -> Error {
        match &self.result {
            Err(error) => error.clone(),
            Ok(_) => {
                // A multishot op that goes on is a poll.
                let op = self.op.as_ref().map_or(OpKind::Poll.name(), Op::name);
                Error::new(libc::EINVAL, op).with_hint(hint)
            }
        }
    }
}

const IN_ITS_SLOT: &str = "it stays in its slot until it is handed out";

/// ERESTARTSYS and its kin (Linux, `include/linux/errno.h`), which io_uring's workers let through instead of EINTR.
const RESTARTS: [i32; 4] = [512, 513, 514, 516];

/// Events that do not go away: to poll again would be to spin.
const HANG_UP: i32 = (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) as i32;

impl Driver {
    /// How many of the `missing` completions the backend may wait for. An op that is not with it yet takes the place of one
    /// that completes, and what is in flight beside that one may never complete (a read of an idle pipe).
    pub(super) fn at_once(&self, missing: usize) -> usize {
        match self.slab.len() > self.in_flight {
            true => missing.min(1),
            false => missing,
        }
    }

    /// A poll that goes on has found something.
    fn tell_events(&mut self, raw: &Raw) {
        let (mut events, mut data) = (Events::from_bits(raw.res as u16), 0);
        if let Some(slot) = self.slab.get_mut(raw.token) {
            data = slot.options.data;
            if let Op::Poll(poll) = &slot.op {
                events = poll.asked_for(raw.res);
            }
            self.woken.extend(slot.waker.take()); // allocates: one waker for each op that is awaited at most
        }
        self.ready.push_back(Ready {
            token: raw.token,
            data,
            events: Some(events),
        });
    }

    /// Takes a raw result: goes on with ops of several steps, starts linked ones, or makes the op ready.
    /// `inline`: the result did not come from the backend.
    #[inline(never)]
    pub(super) fn finish(&mut self, raw: Raw, inline: bool) {
        if !self.finish_single(&raw) {
            self.finish_any(raw, inline);
        }
    }

    /// As `finish`, if it is the result of a single read or write that has succeeded, and with which nothing else begins.
    #[inline(always)]
    fn finish_single(&mut self, raw: &Raw) -> bool {
        let Some(slot) = self.slab.get_mut(raw.token) else {
            return false;
        };
        let Some(count) = single_count(slot, raw) else {
            return false;
        };
        self.in_flight -= usize::from(slot.state == State::InFlight);
        let ended = slot.end(Ok(Output::Count(count)));
        self.tell_ended(raw.token, ended);
        true
    }

    /// As `finish_single`, of one that nobody else waits for: its completion goes right to `out`, if there is room.
    #[inline(always)]
    pub(super) fn hand_out_single(&mut self, raw: &Raw, out: &mut Vec<Completion>) -> bool {
        let (Some(place), Some(slot)) = (out.spare_capacity_mut().first_mut(), self.slab.get_mut(raw.token))
        else {
            return false;
        };
        if slot.awaited || slot.waker.is_some() {
            return false;
        }
        let Some(count) = single_count(slot, raw) else {
            return false;
        };
        self.in_flight -= usize::from(slot.state == State::InFlight);
        slot.vacate_into(raw.token, Ok(Output::Count(count)), place);
        // SAFETY: it has just been written.
        unsafe { out.set_len(out.len() + 1) };
        self.slab.has_ended();
        self.slab.vacated(raw.token);
        self.pending -= 1;
        true
    }

    #[inline(never)]
    fn finish_any(&mut self, mut raw: Raw, inline: bool) {
        let token = raw.token;
        let Some(slot) = self.slab.get_mut(token) else {
            debug_assert!(false, "a result for an op that is not in flight");
            return;
        };
        if raw.more {
            if !slot.abandoned {
                self.tell_events(&raw);
            }
            return;
        }
        if slot.state == State::InFlight {
            self.in_flight -= usize::from(!slot.is_timer);
            slot.state = State::Waiting;
        }
        if slot.permit.is_some() || slot.parked_ms != 0 || sys::lacks_descriptor(-raw.res) || slot.is_timer {
            match self.descriptor_told(raw, inline) {
                Some(told) => raw = told,
                None => return,
            }
        }
        let Some(slot) = self.slab.get_mut(token) else {
            return;
        };
        // A multishot poll that found the completion queue full ends without an error: start it again.
        let polls = matches!(&slot.op, Op::Poll(o) if o.multishot) && raw.res & HANG_UP == 0;
        if polls && raw.res > 0 && !slot.cancelled && !inline {
            self.backlog.push_back(token);
            self.tell_events(&raw);
            return;
        }
        if let (true, Some(fd)) = (inline, &slot.options.notify) {
            sys::eventfd_signal(fd.as_raw_fd());
        }
        let mut res = raw.res;
        match raw.op {
            Some(op) => slot.op = *op,
            None if inline => {}
            // A socket refuses any offset but 0, where a pipe takes it for none; the wish is the same. What is linked or
            // notified has had its consequences.
            None if res == -libc::ESPIPE
                && !(slot.cancelled || slot.link || slot.options.notify.is_some())
                && slot.op.drop_offset() =>
            {
                self.backlog.push_front(token);
                return;
            }
            None => {
                if let Op::Close(close) = &mut slot.op {
                    // Cancelled before it began: dropping the op closes the descriptor. Otherwise the ring has closed it, even
                    // after an error. What comes from elsewhere brings the op, with the descriptor if that was not tried.
                    if res != -libc::ECANCELED {
                        let _ = close.fd.take().map(IntoRawFd::into_raw_fd);
                    }
                }
                if let Op::ReadFile(read) = &mut slot.op {
                    let cancelled = slot.cancelled;
                    match read.advance(res) {
                        Step::Again if !cancelled => {
                            self.backlog.push_front(token);
                            return;
                        }
                        Step::Again => res = -libc::ECANCELED,
                        Step::Done(done) => res = done,
                    }
                }
            }
        }
        self.complete(token, res);
    }

    /// Completes one op and, if it breaks a chain, all that would have followed. (A loop: a chain may be long.)
    fn complete(&mut self, token: Token, res: i32) {
        let mut current = Some((token, res));
        while let Some((token, res)) = current.take() {
            // A successor that was cancelled by itself is gone.
            let Some(slot) = self.slab.get_mut(token) else {
                return;
            };
            let (skip, next) = (slot.skip, slot.next.take());
            let res = if RESTARTS.contains(&-res) {
                -libc::EINTR
            } else {
                res
            };
            // The kernel got a worker out of the call by a signal. (close(2) has closed the descriptor all the same.)
            let interrupted = slot.cancelled && res == -libc::EINTR && !matches!(slot.op, Op::Close(_));
            match &mut slot.op {
                Op::ReadFile(read) => read.release(),
                Op::Close(_) => descriptors::released(),
                _ => {}
            }
            let iopoll = self.iopoll;
            let result = outcome(
                &mut slot.op,
                if interrupted { -libc::ECANCELED } else { res },
                skip,
            )
            .map_err(|error| explained(error, &slot.op, iopoll));
            match next {
                Some(next) if !is_whole(&slot.op, &result) => current = Some((next, -libc::ECANCELED)),
                Some(next) if self.slab.get_mut(next).is_some() => self.backlog.push_front(next),
                _ => {}
            }
            self.hand_over(token, result);
        }
    }

    /// The backend is done with this op: whoever waits for it gets it, or it is dropped.
    fn hand_over(&mut self, token: Token, result: Result<Output, Error>) {
        let Some(slot) = self.slab.get_mut(token) else {
            return;
        };
        if slot.abandoned {
            let waker = slot.waker.take();
            self.woken.extend(waker); // allocates: one waker for each op that is awaited at most
                                      // Op, buffer and, after an open, the descriptor are dropped here.
            drop(self.slab.remove(token));
            return;
        }
        slot.permit = None;
        slot.options.notify = None;
        let ended = slot.end(result);
        self.tell_ended(token, ended);
    }

    /// An op has ended: whoever waits for it is told.
    #[inline(always)]
    fn tell_ended(&mut self, token: Token, ended: Ended) {
        self.slab.has_ended();
        if let Some(waker) = ended.waker {
            self.woken.push(waker); // allocates: one waker for each op that is awaited at most
        }
        if ended.awaited {
            self.pending -= 1;
            return;
        }
        self.ready.push_back(Ready {
            token,
            data: ended.data,
            events: None,
        });
    }

    /// Makes a completion of one that is taken out of `ready`.
    #[inline(always)]
    pub(super) fn completion(&mut self, ready: Ready) -> Completion {
        let Ready { token, data, events } = ready;
        if let Some(events) = events {
            return Completion {
                token,
                data,
                result: Ok(Output::Events(events)),
                op: None,
                more: true,
            };
        }
        self.pending -= 1;
        let slot = self.slab.done(token).expect(IN_ITS_SLOT);
        let completion = Completion {
            token,
            data,
            result: slot.take_result().expect(IN_ITS_SLOT),
            op: Some(slot.vacate()),
            more: false,
        };
        self.slab.vacated(token);
        completion
    }

    /// Moves the first `count` completions, for which there is room, into `out`.
    pub(super) fn hand_out(&mut self, count: usize, out: &mut Vec<Completion>) {
        for _ in 0..count {
            let Some(ready) = self.ready.pop_front() else {
                return;
            };
            let token = ready.token;
            if ready.more() {
                out.push(self.completion(ready)); // allocates: there is room
                continue;
            }
            let slot = self.slab.done(token).expect(IN_ITS_SLOT);
            let result = slot.take_result().expect(IN_ITS_SLOT);
            let place = out.spare_capacity_mut().first_mut().expect("there is room");
            slot.vacate_into(token, result, place);
            // SAFETY: it has just been written.
            unsafe { out.set_len(out.len() + 1) };
            self.slab.vacated(token);
            self.pending -= 1;
        }
    }

    pub(super) fn drop_ready(&mut self) {
        while let Some(ready) = self.ready.pop_front() {
            drop(self.completion(ready));
        }
    }
}

/// The bytes of a single read or write that has succeeded, and with which nothing else begins. The buffer is told.
#[inline(always)]
fn single_count(slot: &mut Slot, raw: &Raw) -> Option<usize> {
    let others = slot.abandoned || slot.next.is_some() || slot.options.notify.is_some();
    if raw.res < 0 || others || raw.op.is_some() {
        return None;
    }
    let count = slot.skip + raw.res as usize;
    match &mut slot.op {
        Op::Read(op) => op.filled(count),
        Op::Write(_) => {}
        _ => return None,
    }
    Some(count)
}

/// The error of a transfer that the kernel has refused without a word why, with what to do about it.
fn explained(error: Error, op: &Op, iopoll: bool) -> Error {
    if !matches!(error.errno(), libc::EINVAL | libc::EOPNOTSUPP) {
        return error;
    }
    let direct = perform::transfer_file(op).is_some_and(|file| file.facts().is_ok_and(|facts| facts.direct));
    match error.errno() {
        libc::EINVAL if direct => error.with_hint("O_DIRECT needs memory, offset and length aligned"),
        libc::EOPNOTSUPP if direct && iopoll => error.with_hint("the device has no poll queues for iopoll"),
        _ => error,
    }
}

/// The rule of the ring: a failed or short op breaks the chain.
pub(super) fn is_whole(op: &Op, result: &Result<Output, Error>) -> bool {
    match (result, op) {
        (Ok(Output::Count(count)), Op::Read(o)) => *count == o.buffer.capacity(),
        (Ok(Output::Count(count)), Op::Write(o)) => *count == o.buffer.len(),
        (Ok(Output::Count(count)), Op::ReadV(o)) => *count == o.total_len(),
        (Ok(Output::Count(count)), Op::WriteV(o)) => *count == o.total_len(),
        (Ok(Output::Count(count)), Op::Splice(o)) => *count == o.len as usize,
        (result, _) => result.is_ok(),
    }
}

/// Reads the kernel's number for this op, and updates the op's buffers and descriptors.
pub(crate) fn outcome(op: &mut Op, res: i32, skip: usize) -> Result<Output, Error> {
    // A transfer that was partly done before it failed has succeeded in part, as a system call would say.
    let res = if res < 0 && skip > 0 { 0 } else { res };
    match (res, &mut *op) {
        // The ring's way of saying that the time has passed.
        (_, Op::Timeout(_)) if res == -libc::ETIME => Ok(Output::Count(0)),
        (..0, _) => {
            perform::filled(op, 0);
            let error = op.error(-res);
            Err(match op {
                // What ends a cancelled op is no error of the function's.
                Op::Blocking(o) if res != -libc::ECANCELED => error.with_cause(o.take_cause()),
                _ => error,
            })
        }
        (_, Op::Open(_)) => Ok(Output::File(File::counted(sys::owned(res)))),
        (_, Op::Poll(poll)) => Ok(Output::Events(poll.asked_for(res))),
        // Beyond 2 GiB the number does not fit into a raw result.
        (_, Op::ReadFile(o)) => Ok(Output::Count(o.len())),
        (_, Op::WriteFile(o)) => Ok(Output::Count(o.data.len())),
        (_, Op::Blocking(o)) => Ok(Output::Count(o.count)),
        _ => {
            let total = skip + res as usize;
            perform::filled(op, total);
            Ok(Output::Count(total))
        }
    }
}

#[cfg(test)]
mod tests;
