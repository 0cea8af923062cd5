//! Asynchronous I/O for Linux: ops go in, completions come out.
//!
//! An [`Op`](op::Op) owns everything it needs: the file, the offset, the flags and the buffer. A [`Driver`] takes it, a
//! backend (io_uring, Linux AIO, POSIX AIO or threads, whichever works here) does it, and a [`Completion`] gives the
//! result and the op with its buffer back. Nothing is borrowed while the kernel works, so nothing can be freed under it.
//!
//! ```
//! use proactor_engine::op::{File, Fsync, Read, Write};
//! use proactor_engine::Driver;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut driver = Driver::new()?;
//! let file = File::new(tempfile::tempfile()?);
//! driver.run(Write::at(&file, 0, "ops go in"))?;
//!
//! let (count, bytes) = driver.run(Read::at(&file, 0, Vec::with_capacity(64)))?;
//! assert_eq!((count, &*bytes), (9, &b"ops go in"[..]));
//!
//! // Each starts when the one before has succeeded.
//! driver.chain((Write::at(&file, 9, ", completions come out"), Fsync::data(&file)))?;
//! # Ok(()) }
//! ```
//!
//! [`Driver::run`], [`Driver::chain`] and [`Driver::each`] wait, and give each result by its type. [`Driver::submit`] and
//! [`Driver::wait`] are what they are made of: an op gets a [`Token`], and comes back in a [`Completion`]. [`Io`] gives
//! futures of ops instead, for whatever executor runs this thread, and [`fs`] has files by the names of std on top of it.
//!
//! Linux only. io_uring from Linux 5.10 on; the other backends on any Linux.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `linux-aio`, `posix-aio` | [`Engine::LinuxAio`] and [`Engine::PosixAio`]; both are default features |
//! | `sim` | [`Engine::Sim`], the seeded simulator for tests |
//! | `futures` | `futures_core::Stream` for [`io::EventStream`] and [`io::EachStream`] |
//!
//! io_uring and threads, of which the automatic choice takes one, are always there.

#![deny(clippy::undocumented_unsafe_blocks)]

mod backend;
pub mod buffer;
mod config;
mod descriptors;
mod driver;
mod error;
pub mod fs;
pub mod guide;
mod inflight;
mod inline;
pub mod io;
pub mod memory;
pub mod op;
pub mod probe;
mod reservation;
pub mod ring;
mod sys;

pub use backend::CancelOutcome;
#[cfg(feature = "sim")]
pub use config::SimConfig;
pub use config::{Config, SqPoll};
pub use descriptors::{set_descriptor_wait, Opens};
pub use driver::{Chain, Completion, Disabled, Driver, Each, Failed, FailedChain, Output, Watched};
pub use error::{Error, Refusal, SubmitError};
pub use inflight::Token;
pub use io::Io;
pub use op::{Options, Priority, PriorityClass};
pub use probe::{Chosen, Engine, Support};
pub use reservation::Reservation;
pub use sys::fork::generation as fork_generation;
pub use sys::limits::{Limit, Resource};
pub use sys::{errno_of, is_forbidden, strerror};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
