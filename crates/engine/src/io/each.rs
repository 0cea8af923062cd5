//! Many ops of one kind, some in flight at a time, as futures.

use super::Io;
use crate::driver::{typed, Failed};
use crate::error::{Refusal, SubmitError};
use crate::inflight::TokenMap;
use crate::op::{Op, Operation};
use std::future::poll_fn;
use std::iter::{Enumerate, Fuse};
use std::task::{Context, Poll, Waker};

/// Results of ops as they end. Made by [`Io::each`].
///
/// If it is dropped before the end, what is in flight is cancelled where that is possible, and the rest is not taken. New ops
/// are taken only while it is polled.
#[must_use = "nothing is submitted before the first result is asked for"]
pub struct EachStream<I: Iterator> {
    io: Io,
    ops: Enumerate<Fuse<I>>,
    /// Taken, and there was no room for it.
    held: Option<(usize, Op)>,
    depth: usize,
    /// The position of each op in flight.
    flying: TokenMap<usize>,
    /// Whom all ops in flight tell.
    waker: Option<Waker>,
}

impl<I: Iterator> Unpin for EachStream<I> {}

/// The position of an op, and its result.
type Ended<O> = (usize, Result<<O as Operation>::Output, Failed<O>>);

impl<I: Iterator> EachStream<I>
where
    I::Item: Operation,
{
    pub(super) fn new(io: Io, depth: usize, ops: I) -> Self {
        EachStream {
            io,
            ops: ops.fuse().enumerate(),
            held: None,
            depth: depth.max(1),
            flying: TokenMap::default(),
            waker: None,
        }
    }

    /// The next result and the position of its op. `None` when all have ended.
    pub async fn next(&mut self) -> Option<Ended<I::Item>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`next`](Self::next), for hand-written futures and streams.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Ended<I::Item>>> {
        let mut queued = false;
        let filled = self.fill(cx, &mut queued);
        if queued {
            self.io.queued();
        }
        if let Err((at, failed)) = filled {
            return Poll::Ready(Some((at, Err(failed))));
        }
        let flying = &self.flying;
        let done = self
            .io
            .with(|driver| driver.take_ready(|ready| !ready.more() && flying.contains_key(&ready.token)));
        if let Some(completion) = done {
            let at = self.flying.remove(&completion.token).unwrap_or_default();
            return Poll::Ready(Some((at, typed(completion))));
        }
        if let Some(error) = self.io.failure("wait") {
            return Poll::Ready(self.lose_one().map(|at| (at, Err(Failed::new(error, None)))));
        }
        if self.flying.is_empty() && self.held.is_none() {
            return Poll::Ready(None);
        }
        self.tell(cx);
        Poll::Pending
    }

    /// Submits as many as may be in flight. The position and the error of one that is refused.
    fn fill(&mut self, cx: &Context<'_>, queued: &mut bool) -> Result<(), (usize, Failed<I::Item>)> {
        while self.flying.len() < self.depth {
            let next = self.held.take();
            let Some((at, op)) = next.or_else(|| self.ops.next().map(|(at, op)| (at, op.into()))) else {
                break;
            };
            let refusal = op.without_one_result().or_else(|| self.io.failure(op.name()));
            if let Some(error) = refusal {
                return Err((at, Failed::new(error, Some(I::Item::restore(op)))));
            }
            let waker = cx.waker().clone();
            let submitted = self.io.with(|driver| {
                let token = driver.submit(op)?;
                Ok((token, driver.tell(token, Some(waker))))
            });
            match submitted {
                Ok((token, unused)) => {
                    // It comes back where the op has ended at once.
                    *queued |= unused.is_none();
                    self.flying.insert(token, at);
                }
                Err(refused) => return self.refused(at, refused, cx),
            }
        }
        Ok(())
    }

    /// One without room is held back.
    fn refused(
        &mut self,
        at: usize,
        refused: SubmitError,
        cx: &Context<'_>,
    ) -> Result<(), (usize, Failed<I::Item>)> {
        if !matches!(refused.refusal, Refusal::Full { .. }) {
            return Err((at, Failed::refused(refused)));
        }
        self.held = Some((at, *refused.op));
        if self.flying.is_empty() {
            self.io.wait_for_room(cx.waker().clone());
        }
        Ok(())
    }

    /// Has the ops in flight tell this task, where they told another one.
    fn tell(&mut self, cx: &Context<'_>) {
        let same = self
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()));
        if same {
            return;
        }
        self.tell_all(Some(cx.waker()));
        self.waker = Some(cx.waker().clone());
    }

    /// Gives one up after the driver has failed: its position.
    fn lose_one(&mut self) -> Option<usize> {
        let (&token, &at) = self.flying.iter().next()?;
        self.flying.remove(&token);
        self.io.with(|driver| driver.abandon(token));
        Some(at)
    }
}

impl<I: Iterator> EachStream<I> {
    /// The wakers from before are dropped when nobody has borrowed the driver.
    fn tell_all(&self, waker: Option<&Waker>) {
        let flying = self.flying.keys();
        let before: Vec<_> = self
            .io
            .with(|driver| flying.map(|&token| driver.tell(token, waker.cloned())).collect()); // allocates: one for each op in flight
        drop(before);
    }
}

impl<I: Iterator> Drop for EachStream<I> {
    fn drop(&mut self) {
        self.tell_all(None);
        let flying = std::mem::take(&mut self.flying);
        self.io
            .with(|driver| flying.keys().for_each(|&token| driver.abandon(token)));
        if self.held.is_some() {
            // It may have been this one's turn.
            self.io.tell_of_room(1);
        }
    }
}
