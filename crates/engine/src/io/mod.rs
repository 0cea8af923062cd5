//! Futures of ops, for whatever executor runs this thread.
//!
//! An [`Io`] is a [`Driver`] that tasks share. Its futures use nothing but [`std::future`] and
//! [`std::task`]: no runtime, no globals, no thread of their own. An executor runs tasks and, when none is left to run,
//! calls [`Io::turn`]; [`Io::block_on`] is the smallest one.
//!
//! ```
//! use proactor_engine::op::{Open, OpenFlags, Read};
//! use proactor_engine::Io;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let io = Io::new()?;
//! let text = io.block_on(async {
//!     let file = io.run(Open::new("Cargo.toml", OpenFlags::READ_ONLY)).await?;
//!     let (_, bytes) = io.run(Read::at(&file, 0, Vec::with_capacity(64))).await?;
//!     Ok::<_, proactor_engine::Error>(bytes)
//! })??;
//! assert!(text.starts_with(b"[package]"));
//! # Ok(()) }
//! ```
//!
//! A future that is dropped cancels its op where that is still possible; the op's buffer is freed, and the descriptor of
//! an open closed, when the kernel has let go of it.

mod block_on;
mod chain;
mod each;
mod events;
mod remote;
mod run;
mod runner;
#[cfg(feature = "futures")]
mod stream;

pub use chain::RunChain;
pub use each::EachStream;
pub use events::EventStream;
pub use remote::{Remote, RemoteRun};
pub use run::Run;
pub use runner::Runner;

use crate::driver::{driver_error, Chain};
use crate::error::Error;
use crate::op::{Operation, Poll};
use crate::ring::Waker;
use crate::{sys, Config, Driver};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::task;
use std::time::Duration;

/// A driver that the tasks of one thread share. Clones are of the same driver.
#[derive(Clone)]
pub struct Io(Rc<Shared>);

struct Shared {
    driver: RefCell<Driver>,
    /// Tasks whose op found the queue full.
    for_room: RefCell<VecDeque<task::Waker>>,
    /// Who polls `poll_turn`, until an op is queued.
    submitter: RefCell<Option<task::Waker>>,
    poll_fd: OnceCell<OwnedFd>,
    /// Empty; kept for its memory.
    woken: Cell<Vec<task::Waker>>,
    /// Why nobody takes turns any more.
    failure: OnceCell<io::Error>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Who takes the turns learns that there are none left to take.
        if let Some(waker) = self.submitter.take() {
            waker.wake();
        }
    }
}

/// An [`Io`] that does not keep the driver: for who takes the turns and is to end with the last of those who use it.
#[derive(Clone)]
pub struct WeakIo(Weak<Shared>);

impl WeakIo {
    /// The `Io`, unless all are gone. Then the waker that was last given to [`Io::poll_turn`] has been used.
    pub fn upgrade(&self) -> Option<Io> {
        self.0.upgrade().map(Io)
    }
}

impl fmt::Debug for WeakIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakIo").finish_non_exhaustive()
    }
}

impl Io {
    /// With the default configuration on the best backend that works here.
    ///
    /// # Errors
    /// As [`Config::build`].
    pub fn new() -> io::Result<Self> {
        Config::default().build().map(Io::from)
    }

    /// Runs one op. Nothing is submitted before the future is polled for the first time, and nothing is in the kernel's hands
    /// before the next [`turn`](Self::turn), so that the ops of many tasks share a call. Where the driver's queue is full the future waits for room.
    ///
    /// # Errors
    /// What the op meets, or why it was refused; the op comes back in the error.
    #[inline]
    pub fn run<O: Operation>(&self, op: O) -> Run<O> {
        Run::new(self.clone(), op)
    }

    /// Runs a tuple or vector of ops one after the other, each when the one before has succeeded in full. See
    /// [`Driver::chain`].
    ///
    /// # Errors
    /// The first that failed, that was short, or that was refused; then none has been started.
    pub fn chain<C: Chain>(&self, chain: C) -> RunChain<C> {
        RunChain::new(self.clone(), chain)
    }

    /// Polls a descriptor again and again: [`EventStream::next`] gives each time's events.
    pub fn events(&self, poll: Poll) -> EventStream {
        EventStream::new(self.clone(), poll)
    }

    /// Submits what tasks have asked for, waits until something has completed, `timeout` has passed or a
    /// [`waker`](Self::waker) is used, and wakes the tasks. `None`: for ever. A signal ends the wait without an error.
    ///
    /// # Errors
    /// What the kernel says when it cannot be waited for; an error in a forked child.
    pub fn turn(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.with(|driver| driver.turn(true, timeout))
    }

    /// As [`turn`](Self::turn), without waiting, for a task of an executor that sleeps elsewhere, on
    /// [`poll_fd`](Self::poll_fd) among others: it polls this when that descriptor is readable, and the waker of `cx` is used
    /// when a task has asked for an op. So the ops of all tasks that run before this one is polled again share a call.
    /// The one task that does this comes to an end by an error, which it tells [`fail`](Self::fail), or with the last `Io` if it
    /// has a [`WeakIo`].
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    pub fn poll_turn(&self, cx: &mut task::Context<'_>) -> task::Poll<io::Result<()>> {
        let before = self.0.submitter.replace(Some(cx.waker().clone()));
        drop(before);
        match self.with(|driver| driver.turn(false, Some(Duration::ZERO))) {
            Ok(()) => task::Poll::Pending,
            Err(error) => task::Poll::Ready(Err(error)),
        }
    }

    /// Ends every op that is awaited, and every later one, with this error: what took the turns cannot go on. What the kernel
    /// works on keeps its memory until the driver is dropped.
    pub fn fail(&self, error: io::Error) {
        let _ = self.0.failure.set(error); // the first one counts
        self.with(Driver::wake_all);
        self.tell_of_room(usize::MAX);
    }

    fn has_failed(&self) -> bool {
        self.0.failure.get().is_some()
    }

    /// The error of an op that nobody will take a turn for.
    fn failure(&self, op: &'static str) -> Option<Error> {
        self.0.failure.get().map(|error| driver_error(error, op))
    }

    /// One that does not keep the driver.
    pub fn downgrade(&self) -> WeakIo {
        WeakIo(Rc::downgrade(&self.0))
    }

    /// Runs ops with up to `depth` in flight (at least 1): [`EachStream::next`] gives the results as they end, each with the
    /// position of its op, from 0. The next ops are taken when there is room for them.
    ///
    /// ```
    /// use proactor_engine::{op::ReadFile, Io};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let io = Io::new()?;
    /// let paths = [c"Cargo.toml", c"src/lib.rs"];
    /// io.block_on(async {
    ///     let mut reads = io.each(16, paths.map(ReadFile::new));
    ///     while let Some((at, contents)) = reads.next().await {
    ///         println!("{:?}: {} bytes", paths[at], contents?.len());
    ///     }
    ///     Ok::<_, proactor_engine::Error>(())
    /// })??;
    /// # Ok(()) }
    /// ```
    ///
    /// An op that is refused or fails ends with its error; the others go on.
    pub fn each<I>(&self, depth: usize, ops: I) -> EachStream<I::IntoIter>
    where
        I: IntoIterator,
        I::Item: Operation,
    {
        EachStream::new(self.clone(), depth, ops.into_iter())
    }

    /// A descriptor that polls readable while something has completed, for another event loop, which then polls
    /// [`poll_turn`](Self::poll_turn). Do not read from it or close it.
    ///
    /// # Errors
    /// EMFILE if it cannot be made.
    pub fn poll_fd(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(fd) = self.0.poll_fd.get() {
            return Ok(fd.as_fd());
        }
        // One of its own: `with` can replace the driver, and with it the driver's.
        let fd = self.with(Driver::eventfd).and_then(sys::dup)?;
        Ok(self.0.poll_fd.get_or_init(|| fd).as_fd())
    }

    /// What ends [`turn`](Self::turn) from any thread.
    ///
    /// # Errors
    /// EMFILE if its descriptor cannot be made.
    pub fn waker(&self) -> io::Result<Waker> {
        self.with(Driver::waker)
    }

    /// Works with the driver itself: to register files and buffers, say. Completions of ops that are submitted here are
    /// collected here, with [`Driver::completion_of`].
    ///
    /// # Panics
    /// If `work` uses this `Io` again.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&mut Driver) -> R) -> R {
        let (result, woken) = {
            let mut driver = self.0.driver.borrow_mut();
            let result = work(&mut driver);
            (result, driver.has_woken())
        };
        if woken || !self.0.for_room.borrow().is_empty() {
            self.wake_tasks();
        }
        result
    }

    /// Wakes those whose op has ended, and those for which there is room now.
    fn wake_tasks(&self) {
        let mut woken = self.0.woken.take();
        let room = {
            let mut driver = self.0.driver.borrow_mut();
            driver.take_woken(&mut woken);
            driver.room()
        };
        // A waker may poll or drop a task, which comes back here: nothing is borrowed any more.
        woken.drain(..).for_each(task::Waker::wake);
        self.0.woken.set(woken);
        self.tell_of_room(room);
    }

    /// An op is queued: somebody has to take a turn.
    fn queued(&self) {
        let submitter = self.0.submitter.take();
        if let Some(waker) = submitter {
            waker.wake();
        }
    }

    fn tell_of_room(&self, room: usize) {
        for _ in 0..room {
            let Some(waker) = self.0.for_room.borrow_mut().pop_front() else {
                return;
            };
            waker.wake();
        }
    }

    fn wait_for_room(&self, waker: task::Waker) {
        // allocates: one waker for each task that waits
        self.0.for_room.borrow_mut().push_back(waker);
    }
}

impl From<Driver> for Io {
    fn from(driver: Driver) -> Self {
        Io(Rc::new(Shared {
            driver: RefCell::new(driver),
            for_room: RefCell::default(),
            submitter: RefCell::default(),
            poll_fd: OnceCell::new(),
            woken: Cell::default(),
            failure: OnceCell::new(),
        }))
    }
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").finish_non_exhaustive()
    }
}
