//! Sockets as futures, for programs that are written with `async`, in one thread and without a runtime of others.
//!
//! [`Group::block_on`](crate::Group::block_on) runs a future and all that it has [`spawn`]ed. They are woken by standard wakers, so
//! futures of other crates work as well, from any thread. Invariant: the kernel never has memory of a future: what comes is copied
//! out of the pool, and what goes into a socket's queue, so a future may be dropped at any time and loses no byte.
//!
//! ```no_run
//! use proactor_net::{task, Config, Group};
//!
//! # fn main() -> std::io::Result<()> {
//! Group::block_on(Config::default(), async {
//!     let mut listener = task::Listener::bind(&"127.0.0.1:7000".parse()?)?;
//!     loop {
//!         let mut stream = listener.accept().await?;
//!         task::spawn(async move {
//!             let mut buffer = [0; 4096];
//!             while let Ok(count @ 1..) = stream.read(&mut buffer).await {
//!                 if stream.write_all(&buffer[..count]).await.is_err() {
//!                     break;
//!                 }
//!             }
//!         });
//!     }
//! })?
//! # }
//! ```

mod executor;
mod mail;
mod sockets;

pub use executor::{sleep, spawn};
pub use sockets::{Datagram, Listener, ReadHalf, Stream, WriteHalf};

pub(crate) use executor::block_on;
