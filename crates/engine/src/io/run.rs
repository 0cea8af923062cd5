//! The future of one op.

use super::Io;
use crate::driver::{finished, Failed};
use crate::error::{Error, Refusal, SubmitError};
use crate::inflight::Token;
use crate::op::{Op, Operation};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// An op that runs. Made by [`Io::run`].
#[must_use = "an op does nothing unless its future is awaited"]
pub struct Run<O: Operation> {
    io: Io,
    state: State,
    is_plain: bool,
    op: PhantomData<fn() -> O>,
}

enum State {
    New(Op),
    /// The queue was full.
    NoRoom(Op),
    InFlight(Token),
    Ended,
}

impl<O: Operation> Run<O> {
    #[inline]
    pub(super) fn new(io: Io, op: O) -> Self {
        let op: Op = op.into();
        Run {
            io,
            is_plain: op.is_plain(),
            state: State::New(op),
            op: PhantomData,
        }
    }

    fn submit(&mut self, op: Op, cx: &Context<'_>) -> Poll<Result<O::Output, Failed<O>>> {
        if !self.is_plain || self.io.has_failed() {
            let failure = || self.io.failure(op.name());
            if let Some(error) = op.without_one_result().or_else(failure) {
                return Poll::Ready(Err(Failed::new(error, Some(O::restore(op)))));
            }
        }
        let is_plain = self.is_plain;
        let token = match self.io.with(|driver| driver.submit_awaited(op, is_plain)) {
            Ok(token) => token,
            Err(refused) => return self.refused(refused, cx),
        };
        self.state = State::InFlight(token);
        let polled = match self.tell(token, cx) {
            None => Poll::Pending,
            Some(unused) => {
                drop(unused);
                self.take(token).unwrap_or(Poll::Pending)
            }
        };
        match self.io.failure("wait") {
            None if polled.is_pending() => self.io.queued(),
            Some(error) if polled.is_pending() => return self.lost(error),
            _ => {}
        }
        polled
    }

    #[cold]
    fn refused(&mut self, refused: SubmitError, cx: &Context<'_>) -> Poll<Result<O::Output, Failed<O>>> {
        if !matches!(refused.refusal, Refusal::Full { .. }) {
            return Poll::Ready(Err(Failed::refused(refused)));
        }
        self.state = State::NoRoom(*refused.op);
        self.io.wait_for_room(cx.waker().clone());
        Poll::Pending
    }

    /// Takes the result, or has the task woken for it.
    #[inline]
    fn wait(&mut self, token: Token, cx: &Context<'_>) -> Poll<Result<O::Output, Failed<O>>> {
        if let Some(polled) = self.take(token) {
            return polled;
        }
        drop(self.tell(token, cx));
        match self.io.failure("wait") {
            Some(error) => self.lost(error),
            None => Poll::Pending,
        }
    }

    /// The result, if the op has ended.
    #[inline(always)]
    fn take(&mut self, token: Token) -> Option<Poll<Result<O::Output, Failed<O>>>> {
        let taken = self.io.0.driver.borrow_mut().take_awaited_as(token, finished)?;
        self.state = State::Ended;
        Some(Poll::Ready(taken))
    }

    /// Has the task woken when the op ends. A waker that comes back is that of before, or the same one if the op has ended.
    #[inline]
    fn tell(&mut self, token: Token, cx: &Context<'_>) -> Option<Waker> {
        // Cloned and dropped while nobody has borrowed the driver: both may run code of the executor's.
        let waker = cx.waker().clone();
        self.io.0.driver.borrow_mut().tell(token, Some(waker))
    }

    #[cold]
    fn lost(&mut self, error: Error) -> Poll<Result<O::Output, Failed<O>>> {
        self.give_up();
        Poll::Ready(Err(Failed::new(error, None)))
    }
}

impl<O: Operation> Unpin for Run<O> {}

impl<O: Operation> Future for Run<O> {
    type Output = Result<O::Output, Failed<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::InFlight(token) = self.state {
            return self.wait(token, cx);
        }
        match std::mem::replace(&mut self.state, State::Ended) {
            State::New(op) | State::NoRoom(op) => self.submit(op, cx),
            State::InFlight(_) | State::Ended => panic!("a future was polled after its end"),
        }
    }
}

impl<O: Operation> Run<O> {
    fn give_up(&mut self) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::InFlight(token) => {
                let waker = self.io.with(|driver| {
                    let waker = driver.tell(token, None);
                    driver.abandon(token);
                    waker
                });
                drop(waker);
            }
            // It may have been this one's turn.
            State::NoRoom(_) => self.io.tell_of_room(1),
            State::New(_) | State::Ended => {}
        }
    }
}

impl<O: Operation> Drop for Run<O> {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.state, State::Ended) {
            self.give_up();
        }
    }
}
