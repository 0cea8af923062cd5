//! The future of one op.

use super::Io;
use crate::driver::{finished, Failed};
use crate::error::Refusal;
use crate::inflight::Token;
use crate::op::{Op, Operation};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// An op that runs. Made by [`Io::run`].
#[must_use = "an op does nothing unless its future is awaited"]
pub struct Run<O: Operation> {
    io: Io,
    state: State,
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
    pub(super) fn new(io: Io, op: O) -> Self {
        Run {
            io,
            state: State::New(op.into()),
            op: PhantomData,
        }
    }

    fn submit(&mut self, op: Op, cx: &Context<'_>) -> Poll<Result<O::Output, Failed<O>>> {
        if let Some(error) = op.without_one_result() {
            return Poll::Ready(Err(Failed::new(error, Some(O::restore(op)))));
        }
        if let Some(error) = self.io.failure(op.name()) {
            return Poll::Ready(Err(Failed::new(error, Some(O::restore(op)))));
        }
        match self.io.with(|driver| driver.submit_awaited(op)) {
            Ok(token) => {
                let polled = self.wait(token, cx);
                if polled.is_pending() {
                    self.io.queued();
                }
                polled
            }
            Err(refused) if matches!(refused.refusal, Refusal::Full { .. }) => {
                self.state = State::NoRoom(*refused.op);
                self.io.wait_for_room(cx.waker().clone());
                Poll::Pending
            }
            Err(refused) => Poll::Ready(Err(Failed::refused(refused))),
        }
    }

    fn wait(&mut self, token: Token, cx: &Context<'_>) -> Poll<Result<O::Output, Failed<O>>> {
        // Cloned and dropped while nobody has borrowed the driver: both may run code of the executor's.
        let waker = cx.waker().clone();
        let (done, before) = self.io.with(|driver| match driver.take_awaited(token) {
            Some(done) => (Some(done), Some(waker)),
            None => (None, driver.tell(token, Some(waker))),
        });
        drop(before);
        if let Some((op, result)) = done {
            return Poll::Ready(finished(op, result));
        }
        self.state = State::InFlight(token);
        match self.io.failure("wait") {
            Some(error) => {
                self.give_up();
                Poll::Ready(Err(Failed::new(error, None)))
            }
            None => Poll::Pending,
        }
    }
}

impl<O: Operation> Unpin for Run<O> {}

impl<O: Operation> Future for Run<O> {
    type Output = Result<O::Output, Failed<O>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::New(op) | State::NoRoom(op) => self.submit(op, cx),
            State::InFlight(token) => self.wait(token, cx),
            State::Ended => panic!("a future was polled after its end"),
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
    fn drop(&mut self) {
        self.give_up();
    }
}
