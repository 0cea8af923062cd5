//! The events of a descriptor, again and again.

use super::Io;
use crate::driver::Output;
use crate::error::Error;
use crate::inflight::Token;
use crate::op::{Events, Op, Poll as PollOp};
use std::future::poll_fn;
use std::task::{Context, Poll};

/// A multishot poll as a stream of events. Made by [`Io::events`]; dropping it ends the poll.
#[must_use = "nothing is polled before `next` is awaited"]
pub struct EventStream {
    io: Io,
    state: State,
}

enum State {
    New(Op),
    InFlight(Token),
    Ended,
}

impl EventStream {
    pub(super) fn new(io: Io, poll: PollOp) -> Self {
        let poll = PollOp {
            multishot: true,
            ..poll
        };
        EventStream {
            io,
            state: State::New(poll.into()),
        }
    }

    /// The next events. `None` after the end: an error, or a descriptor whose peer has hung up.
    ///
    /// # Errors
    /// What the poll meets; EAGAIN if the driver's queue is full.
    pub async fn next(&mut self) -> Option<Result<Events, Error>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`next`](Self::next), for hand-written futures and streams.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Events, Error>>> {
        let is_new = matches!(self.state, State::New(_));
        let token = match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => return Poll::Ready(None),
            State::InFlight(token) => token,
            State::New(op) => {
                let name = op.name();
                if let Some(error) = self.io.failure(name) {
                    return Poll::Ready(Some(Err(error)));
                }
                match self.io.with(|driver| driver.submit(op)) {
                    Ok(token) => token,
                    Err(refused) => return Poll::Ready(Some(Err(refused.refusal.into_error(name)))),
                }
            }
        };
        let waker = cx.waker().clone();
        let (completion, before) = self
            .io
            .with(|driver| match driver.take_ready(|c| c.token == token) {
                Some(completion) => (Some(completion), Some(waker)),
                None => (None, driver.tell(token, Some(waker))),
            });
        drop(before);
        let Some(completion) = completion else {
            self.state = State::InFlight(token);
            if let Some(error) = self.io.failure("poll") {
                self.give_up();
                return Poll::Ready(Some(Err(error)));
            }
            if is_new {
                self.io.queued();
            }
            return Poll::Pending;
        };
        if completion.more {
            self.state = State::InFlight(token);
        }
        Poll::Ready(match completion.result {
            Ok(Output::Events(events)) => Some(Ok(events)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl EventStream {
    fn give_up(&mut self) {
        if let State::InFlight(token) = std::mem::replace(&mut self.state, State::Ended) {
            let waker = self.io.with(|driver| {
                let waker = driver.tell(token, None);
                driver.abandon(token);
                waker
            });
            drop(waker);
        }
    }
}
