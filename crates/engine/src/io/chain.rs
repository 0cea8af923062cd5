//! The future of a chain of ops.

use super::Io;
use crate::driver::{gathered, not_started, Chain, End, FailedChain};
use crate::error::Refusal;
use crate::inflight::Token;
use crate::op::Op;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A chain that runs. Made by [`Io::chain`].
#[must_use = "a chain does nothing unless its future is awaited"]
pub struct RunChain<C: Chain> {
    io: Io,
    state: State,
    chain: PhantomData<fn() -> C>,
}

enum State {
    New(Vec<Op>),
    /// The queue was full.
    NoRoom(Vec<Op>),
    /// The ops, and what those at the front of them have given.
    InFlight(Vec<Token>, Vec<End>),
    Ended,
}

impl<C: Chain> RunChain<C> {
    pub(super) fn new(io: Io, chain: C) -> Self {
        RunChain {
            io,
            state: State::New(chain.into_ops()),
            chain: PhantomData,
        }
    }

    fn submit(&mut self, ops: Vec<Op>, cx: &Context<'_>) -> Poll<Result<C::Output, FailedChain<C>>> {
        if let Some(error) = self.io.failure("chain") {
            return Poll::Ready(Err(not_started(ops, Refusal::Invalid(error))));
        }
        match self.io.with(|driver| driver.accept_linked(ops, true)) {
            Ok(tokens) => {
                let polled = self.wait(tokens, Vec::new(), cx);
                if polled.is_pending() {
                    self.io.queued();
                }
                polled
            }
            Err((ops, Refusal::Full { bound })) if ops.len() <= bound => {
                self.state = State::NoRoom(ops);
                self.io.wait_for_room(cx.waker().clone());
                Poll::Pending
            }
            Err((ops, refusal)) => Poll::Ready(Err(not_started(ops, refusal))),
        }
    }

    fn wait(
        &mut self,
        tokens: Vec<Token>,
        mut ends: Vec<End>,
        cx: &Context<'_>,
    ) -> Poll<Result<C::Output, FailedChain<C>>> {
        let waker = cx.waker().clone();
        let before = self.io.with(|driver| {
            while let Some(&token) = tokens.get(ends.len()) {
                match driver.take_awaited(token) {
                    Some((op, result)) => ends.push(End::Finished(op, result)),
                    None => return driver.tell(token, Some(waker)),
                }
            }
            Some(waker)
        });
        drop(before);
        if ends.len() == tokens.len() {
            return Poll::Ready(gathered(ends));
        }
        if let Some(error) = self.io.failure("wait") {
            let rest = tokens.len() - ends.len();
            self.state = State::InFlight(tokens, Vec::new());
            self.give_up();
            let lost = std::iter::repeat_with(|| End::Not(error.clone(), None));
            ends.extend(lost.take(rest)); // allocates: an end for each op of the caller's
            return Poll::Ready(gathered(ends));
        }
        self.state = State::InFlight(tokens, ends);
        Poll::Pending
    }
}

impl<C: Chain> Unpin for RunChain<C> {}

impl<C: Chain> Future for RunChain<C> {
    type Output = Result<C::Output, FailedChain<C>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::New(ops) | State::NoRoom(ops) => self.submit(ops, cx),
            State::InFlight(tokens, ends) => self.wait(tokens, ends, cx),
            State::Ended => panic!("a future was polled after its end"),
        }
    }
}

impl<C: Chain> RunChain<C> {
    fn give_up(&mut self) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::InFlight(tokens, ends) => {
                let rest = &tokens[ends.len()..];
                let waker = rest
                    .first()
                    .and_then(|&first| self.io.with(|driver| driver.tell(first, None)));
                // From the end, so that none of them starts because the one before it has ended.
                self.io
                    .with(|driver| rest.iter().rev().for_each(|&token| driver.abandon(token)));
                drop(waker);
            }
            State::NoRoom(_) => self.io.tell_of_room(1),
            State::New(_) | State::Ended => {}
        }
    }
}

impl<C: Chain> Drop for RunChain<C> {
    fn drop(&mut self) {
        self.give_up();
    }
}
