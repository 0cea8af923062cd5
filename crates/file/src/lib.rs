//! Buffered files, without the I/O.
//!
//! A [`Buffered`] holds a file's position and its buffers. Asked for bytes, it returns them if it has them.
//! If not, it names the op that it needs, and its driver (an event loop, a test) submits the op and brings
//! back the result. The op belongs to the file and not to the caller that waits: a caller that goes away
//! loses no bytes, and the next one finds them in the buffer.
//!
//! ```
//! use proactor_engine::{op::{File, Open, OpenFlags}, Driver};
//! use proactor_file::{Buffered, Options, Step};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut driver = Driver::new()?;
//! let file = driver.run(Open::new(c"Cargo.toml", OpenFlags::READ_ONLY))?;
//! let mut file = Buffered::new(file, Options::default());
//! let line = loop {
//!     match file.line(usize::MAX)? {
//!         Step::Ready(length) => break file.unread()[..length].to_vec(),
//!         Step::Blocked => {
//!             let op = file.start().expect("nothing is in flight, so there is an op");
//!             let token = driver.submit(op)?;
//!             let done = driver.completion_of(token)?;
//!             file.finish(done.op, done.result);
//!         }
//!     }
//! };
//! assert_eq!(line, b"[package]\n");
//! # Ok(()) }
//! ```

mod ahead;
mod buffered;
mod copying;
mod creation;
mod direct;
mod directory;
mod in_place;
mod input;
mod lock;
mod long;
mod memory;
mod output;
mod part;
mod reading;
mod running;
mod span;
mod transfer;
mod writing;

pub use buffered::{Buffered, Options, Step};
pub use copying::{advise, copy_range, send};
pub use creation::{Create, Creation};
pub use direct::Direct;
pub use directory::{Batch, Directory, Entry};
pub use lock::Lock;
pub use transfer::Transfer;
