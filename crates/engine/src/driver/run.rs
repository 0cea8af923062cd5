//! One op from submission to result.

use super::{Completion, Driver, Output, Ready};
use crate::error::{Error, Refusal, SubmitError};
use crate::inflight::Token;
use crate::op::{Op, Operation};
use crate::sys::errno_of;
use std::fmt;
use std::io;

/// Why an op has failed, and the op itself with its buffer.
pub struct Failed<O>(Box<Parts<O>>);

struct Parts<O> {
    error: Error,
    op: Option<O>,
}

impl<O> Failed<O> {
    pub(crate) fn new(error: Error, op: Option<O>) -> Self {
        Failed(Box::new(Parts { error, op }))
    }

    /// The error: errno, op, path, and what to do about it.
    pub fn error(&self) -> &Error {
        &self.0.error
    }

    /// The error number, as in `errno(3)`: EAGAIN if the driver's queue is full.
    pub fn errno(&self) -> i32 {
        self.0.error.errno()
    }

    /// The op, to be changed and submitted again. `None` if the driver itself has failed and still works on it; its
    /// buffer is then freed when the kernel has let go of it.
    pub fn into_op(self) -> Option<O> {
        self.0.op
    }

    /// Both of them.
    pub fn into_parts(self) -> (Error, Option<O>) {
        (self.0.error, self.0.op)
    }
}

impl<O: Operation> Failed<O> {
    pub(crate) fn refused(refused: SubmitError) -> Self {
        let error = refused.refusal.into_error(refused.op.name());
        Failed::new(error, Some(O::restore(*refused.op)))
    }
}

impl<O> fmt::Debug for Failed<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Failed").field(self.error()).finish()
    }
}

impl<O> fmt::Display for Failed<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

impl<O> std::error::Error for Failed<O> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error().source()
    }
}

impl<O> From<Failed<O>> for Error {
    fn from(failed: Failed<O>) -> Self {
        failed.0.error
    }
}

impl<O> From<Failed<O>> for io::Error {
    fn from(failed: Failed<O>) -> Self {
        failed.0.error.into()
    }
}

impl Refusal {
    /// As an error of the op that was refused.
    pub(crate) fn into_error(self, op: &'static str) -> Error {
        match self {
            Refusal::Invalid(error) => error,
            Refusal::Full { .. } => Error::new(libc::EAGAIN, op)
                .with_hint("the driver's queue is full: collect completions before submitting more"),
            Refusal::Forked => Error::new(libc::EINVAL, op)
                .with_hint("this driver belongs to the parent process: make a new one after fork()"),
        }
    }
}

/// The result of a completed op by its type.
pub(crate) fn typed<O: Operation>(completion: Completion) -> Result<O::Output, Failed<O>> {
    let op = completion.op.expect("the last completion of an op has it");
    finished(op, completion.result)
}

/// The result of an op by its type.
#[inline(always)]
pub(crate) fn finished<O: Operation>(op: Op, result: Result<Output, Error>) -> Result<O::Output, Failed<O>> {
    match result {
        Ok(output) => Ok(O::output(op, output)),
        Err(error) => Err(Failed::new(error, Some(O::restore(op)))),
    }
}

impl Driver {
    /// Submits one op, waits for it, and gives its result by its type. Others that complete meanwhile stay ready.
    ///
    /// ```
    /// use proactor_engine::{Driver, op::{Open, OpenFlags, Read}};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut driver = Driver::new()?;
    /// let file = driver.run(Open::new("Cargo.toml", OpenFlags::READ_ONLY))?;
    /// let (count, bytes) = driver.run(Read::at(&file, 0, Vec::with_capacity(4096)))?;
    /// assert_eq!(count, bytes.len());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What the op met, or why it was refused ([`submit`](Self::submit)); the op comes back in the error. A multishot
    /// poll, which has no single result, is refused with EINVAL.
    pub fn run<O: Operation>(&mut self, op: O) -> Result<O::Output, Failed<O>> {
        let op: Op = op.into();
        if let Some(error) = op.without_one_result() {
            return Err(Failed::new(error, Some(O::restore(op))));
        }
        let name = op.name();
        let token = self.submit(op).map_err(Failed::refused)?;
        match self.completion_of(token) {
            Ok(completion) => typed(completion),
            Err(error) => {
                self.abandon(token);
                Err(Failed::new(driver_error(&error, name), None))
            }
        }
    }

    /// Collects exactly `count` completions into `out`, or as many as are pending, and goes on after a signal.
    /// Returns how many were added.
    ///
    /// # Errors
    /// What the backend meets, but `Interrupted`. What has been collected by then is in `out`.
    pub fn wait_for(&mut self, count: usize, out: &mut Vec<Completion>) -> io::Result<usize> {
        let before = out.len();
        loop {
            let missing = count - (out.len() - before);
            match self.wait(missing, missing, None, out) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => {
                    other?;
                    return Ok(out.len() - before);
                }
            }
        }
    }

    /// Waits for the last completion of one op, and goes on after a signal. Others that come meanwhile stay ready.
    ///
    /// # Errors
    /// EINVAL if there is no such op, or its completion has been collected; otherwise what the backend meets.
    pub fn completion_of(&mut self, token: Token) -> io::Result<Completion> {
        self.check_fork()?;
        loop {
            if let Some(completion) = self.take_ready(|ready| ready.token == token && !ready.more()) {
                return Ok(completion);
            }
            if self.slab.get_mut(token).is_none_or(|slot| slot.abandoned) {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            self.advance()?;
        }
    }

    /// The first ready completion that is asked for.
    pub(crate) fn take_ready(&mut self, wanted: impl FnMut(&Ready) -> bool) -> Option<Completion> {
        let at = self.ready.iter().position(wanted)?;
        let ready = self.ready.remove(at)?;
        let completion = self.completion(ready);
        self.announce();
        Some(completion)
    }

    /// Waits until something has completed. A signal is no error.
    pub(super) fn advance(&mut self) -> io::Result<()> {
        self.pump();
        match self.collect(1, None) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }
}

impl Op {
    /// Why there is no single result to wait for.
    pub(crate) fn without_one_result(&self) -> Option<Error> {
        match self {
            Op::Poll(poll) if poll.multishot => Some(
                self.error(libc::EINVAL)
                    .with_hint("a multishot poll has many results: submit it, or use Io::events"),
            ),
            _ => None,
        }
    }
}

/// The error of an op whose driver cannot go on.
pub(crate) fn driver_error(error: &io::Error, op: &'static str) -> Error {
    Error::new(errno_of(error).unwrap_or(libc::EIO), op).with_hint("the driver cannot wait for completions")
}
