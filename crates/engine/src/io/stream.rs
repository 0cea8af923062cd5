//! The streams as those of the `futures` crates.

use super::{EachStream, EventStream};
use crate::driver::Failed;
use crate::error::Error;
use crate::op::{Events, Operation};
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

impl Stream for EventStream {
    type Item = Result<Events, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        EventStream::poll_next(self.get_mut(), cx)
    }
}

impl<I: Iterator> Stream for EachStream<I>
where
    I::Item: Operation,
{
    type Item = (usize, Result<<I::Item as Operation>::Output, Failed<I::Item>>);

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        EachStream::poll_next(self.get_mut(), cx)
    }
}
