//! Ops of [`proactor_engine`] awaited under tokio.
//!
//! Futures of ops need only a task that takes the driver's turns. [`local`] starts that task in a
//! [`LocalSet`](tokio::task::LocalSet), and returns the [`Io`] that the other tasks of the set use:
//!
//! ```
//! use proactor_engine::op::{Fsync, Write};
//! use proactor_engine::{fs::File, Config};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("log");
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
//! let tasks = tokio::task::LocalSet::new();
//! tasks.block_on(&runtime, async {
//!     let io = proactor_tokio::local(Config::default())?;
//!     let log = File::create(&io, &path).await?;
//!     // Each starts when the one before has succeeded.
//!     let file = log.as_op_file();
//!     io.chain((Write::at(file, 0, "a record\n"), Fsync::data(file))).await?;
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! })?;
//! # assert_eq!(std::fs::read(&path)?, b"a record\n");
//! # Ok(()) }
//! ```
//!
//! Tasks that move between the threads of a runtime share a [`Remote`](proactor_engine::io::Remote), a thread with a
//! driver, whose futures are `Send`. It needs nothing from tokio:
//!
//! ```
//! use proactor_engine::{fs, io::Remote, Config};
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let remote = Remote::new(Config::default())?;
//! let read = tokio::spawn(fs::read(&remote, "Cargo.toml"));
//! assert!(read.await??.starts_with(b"[package]"));
//! # Ok(()) }
//! ```
//!
//! A future that is dropped, by a timeout, `select!`, an abort or the end of the runtime, cancels its op
//! where that is still possible. The op's buffer is freed when the kernel has released it. Dropping the last
//! `Io` or `Remote` waits until every op that changes a file has ended: drop a `Remote` where a thread may
//! wait, for instance after the runtime.

use proactor_engine::io::WeakIo;
use proactor_engine::{Config, Io};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::unix::AsyncFd;
use tokio::io::Interest;

/// Creates a driver for the tasks of this [`LocalSet`](tokio::task::LocalSet), and starts a task of the set
/// that takes its turns. The task ends with the last clone of the [`Io`].
///
/// # Errors
/// As [`Config::build`], and if the descriptor for the runtime cannot be made (EMFILE). If the driver fails
/// later, every op ends with that error ([`Io::fail`]).
///
/// # Panics
/// Outside a `LocalSet`, and in a runtime that was built without `enable_io`.
pub fn local(config: Config) -> io::Result<Io> {
    let io = Io::from(config.build()?);
    take_turns(&io)?;
    Ok(io)
}

/// Starts the task of [`local`] for an existing [`Io`], for example one with registered files.
///
/// # Errors
/// If the descriptor for the runtime cannot be made.
///
/// # Panics
/// As [`local`].
pub fn take_turns(io: &Io) -> io::Result<()> {
    let fd = io.poll_fd()?.try_clone_to_owned()?;
    // Its replacement since tokio 1.54 requires a descriptor that stays the same, as an `OwnedFd` does.
    #[allow(deprecated)]
    let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
    tokio::task::spawn_local(Turns {
        io: io.downgrade(),
        fd,
    });
    Ok(())
}

struct Turns {
    io: WeakIo,
    fd: AsyncFd<OwnedFd>,
}

impl Turns {
    fn turn(&self, io: &Io, cx: &mut Context<'_>) -> io::Result<()> {
        fail(io.poll_turn(cx))?;
        while let Poll::Ready(ready) = self.fd.poll_read_ready(cx) {
            ready?.clear_ready();
            fail(io.poll_turn(cx))?;
            // The runtime reports a descriptor that becomes readable, and not one that still is.
            if self.is_readable()? {
                cx.waker().wake_by_ref();
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_readable(&self) -> io::Result<bool> {
        let mut entry = [PollFd::new(&self.fd, PollFlags::IN)];
        match poll(&mut entry, Some(&Timespec::default())) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(true), // look again
            Err(error) => Err(error.into()),
        }
    }
}

/// Ends the task with the error; a turn ends in no other way.
fn fail(turned: Poll<io::Result<()>>) -> io::Result<()> {
    match turned {
        Poll::Ready(result) => result,
        Poll::Pending => Ok(()),
    }
}

impl Future for Turns {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(io) = self.io.upgrade() else {
            return Poll::Ready(());
        };
        match self.turn(&io, cx) {
            Ok(()) => Poll::Pending,
            Err(error) => {
                io.fail(error);
                Poll::Ready(())
            }
        }
    }
}

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
