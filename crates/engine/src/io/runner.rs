//! What runs ops as futures.

use super::{Io, Remote, RemoteRun, Run};
use crate::driver::Failed;
use crate::op::Operation;
use std::future::Future;

/// What runs ops as futures: an [`Io`], or a [`Remote`], whose futures are `Send`. Code that is written against this, as
/// [`fs`](crate::fs) is, serves tasks that stay in their thread and tasks that move.
pub trait Runner: Clone {
    /// The future of an op.
    type Run<O: Operation>: Future<Output = Result<O::Output, Failed<O>>>;

    /// Runs one op.
    ///
    /// # Errors
    /// What the op meets, or why it was refused; the op comes back in the error.
    fn run<O: Operation>(&self, op: O) -> Self::Run<O>;
}

impl Runner for Io {
    type Run<O: Operation> = Run<O>;

    fn run<O: Operation>(&self, op: O) -> Run<O> {
        Io::run(self, op)
    }
}

impl Runner for Remote {
    type Run<O: Operation> = RemoteRun<O>;

    fn run<O: Operation>(&self, op: O) -> RemoteRun<O> {
        Remote::run(self, op)
    }
}
