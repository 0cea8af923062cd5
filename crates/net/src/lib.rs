//! Sockets on a ring: listeners, streams and datagrams whose accepts, receives and sends go to the kernel in one call per turn.
//!
//! A program hands a [`Handler`] to [`Sockets::turn`], which waits, and calls the handler for each thing that has happened:
//! a connection was opened, bytes were received, room was made, a connection was closed. The handler answers through a
//! [`Context`]. On io_uring a socket's receive stays in the ring and fills buffers that all sockets share; where io_uring
//! cannot do that, the same program runs on epoll, and [`Sockets::chosen`] says why.
//!
//! This crate stands on the ring that a [`proactor_engine::Driver`] lends, and must not know ops or files. Invariants: a descriptor is
//! closed only after the last entry that names it has come back, and the memory of a send is the kernel's until then.
//!
//! ```no_run
//! use proactor_net::{Address, Config, Context, Handler, SocketId};
//!
//! struct Echo;
//!
//! impl Handler for Echo {
//!     fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]) {
//!         cx.send(id, bytes);
//!     }
//! }
//!
//! # fn main() -> std::io::Result<()> {
//! let mut sockets = Config::default().build()?;
//! sockets.listen(&"127.0.0.1:7000".parse::<Address>().unwrap())?;
//! loop {
//!     sockets.turn(&mut Echo, None)?;
//! }
//! # }
//! ```

mod address;
mod backend;
mod balance;
mod bind;
mod clock;
mod close;
mod config;
mod context;
mod core;
mod datagram;
mod error;
mod event;
mod group;
mod handler;
mod latency;
mod limits;
mod listen;
pub mod placement;
pub mod probe;
mod recv;
mod send;
pub mod serve;
mod serving;
mod settle;
#[cfg(test)]
mod simulator;
mod sockets;
mod stats;
mod table;
pub mod task;
pub mod threads;
pub mod topology;
mod worker;

pub use address::Address;
pub use config::{Config, Hidden, SendPolicy};
pub use context::Context;
pub use error::Error;
pub use group::{Group, Plan, StartError};
pub use handler::Handler;
pub use latency::Latency;
pub use limits::Limits;
pub use listen::Bound;
pub use sockets::{Chosen, Sockets, Waker};
pub use stats::Stats;
pub use table::SocketId;
pub use worker::{Snapshot, WorkerPlan};
