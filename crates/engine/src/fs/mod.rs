//! Files by the names of [`std::fs`], with buffers that are owned.
//!
//! Each function and each [`File`] takes what runs its ops: an [`Io`](crate::Io), or an [`io::Remote`](crate::io::Remote)
//! where tasks move between threads. All are made of ops alone and know no engine: what they do can be done by
//! [`Io::run`](crate::Io::run) as well, with flags that std has no name for. A future that is dropped leaves undone what it
//! has not begun.
//!
//! ```
//! use proactor_engine::{fs, Io};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = &dir.path().join("log");
//! let io = Io::new()?;
//! io.block_on(async {
//!     let log = fs::File::create(&io, path).await?;
//!     log.write_all_at("a record\n", 0).await?;
//!     log.sync_data().await?;
//!     assert_eq!(log.metadata().await?.len(), 9);
//!
//!     // A vector is filled to its capacity, and comes back.
//!     let log = fs::File::open(&io, path).await?;
//!     let word = log.read_exact_at(Vec::with_capacity(6), 2).await?;
//!     assert_eq!(word, b"record");
//!     assert_eq!(fs::read_to_string(&io, path).await?, "a record\n");
//!     Ok::<_, proactor_engine::Error>(())
//! })??;
//! # Ok(()) }
//! ```
//!
//! What no op does, such as [`read_dir`], [`copy`] and [`set_permissions`], a worker does, on every engine.
//!
//! There is no position: reads and writes name their offset, so that many may be in flight on one file. The futures do not
//! borrow what runs them or the file: with a path that is owned, `tokio::spawn(fs::read(&remote, path))` is fine.

mod calls;
mod dir;
mod exact;
mod file;
mod metadata;
mod options;

pub use calls::{canonicalize, copy, create_dir_all, read_link, remove_dir_all, set_permissions, try_exists};
pub use dir::{read_dir, DirEntry, ReadDir};
pub use file::File;
pub use metadata::{FileType, Metadata};
pub use options::OpenOptions;

use crate::buffer::{Buffer, IntoBuffer};
use crate::error::Error;
use crate::io::Runner;
use crate::op::{AtFlags, Link, Mkdir, Name, Operation, ReadFile, Rename, Statx, Symlink, Unlink, WriteFile};
use crate::Failed;
use std::future::Future;
use std::io::ErrorKind;

/// Reads a whole file, in one op ([`ReadFile`]).
///
/// # Errors
/// What the op meets, such as ENOENT; ENOMEM if there is no memory for it.
pub fn read<R: Runner>(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<Vec<u8>, Error>> {
    let run = io.run(ReadFile::new(path));
    async move { Ok(run.await?.into_vec()) }
}

/// Reads a whole file of UTF-8.
///
/// # Errors
/// As [`read`]; an error of the kind `InvalidData`, EILSEQ, if it is something else.
pub fn read_to_string<R: Runner>(
    io: &R,
    path: impl Into<Name>,
) -> impl Future<Output = Result<String, Error>> {
    let path = path.into();
    let run = io.run(ReadFile::new(&path));
    async move {
        String::from_utf8(run.await?.into_vec()).map_err(|error| {
            let error = std::io::Error::new(ErrorKind::InvalidData, error.utf8_error());
            Error::new(libc::EILSEQ, "read_file")
                .with_path(crate::memory::c_string(&path).ok())
                .caused_by(error)
        })
    }
}

/// Makes a file of these bytes, or replaces the contents of the one that is there, in one op ([`WriteFile`]). Gives the
/// buffer back.
///
/// # Errors
/// What the op meets; the file then has what had been written, and the op comes back in the error.
pub fn write<R: Runner, B: Buffer>(
    io: &R,
    path: impl Into<Name>,
    contents: impl IntoBuffer<Buffer = B>,
) -> impl Future<Output = Result<B, Failed<WriteFile<B>>>> {
    let run = io.run(WriteFile::new(path, contents));
    async move { Ok(run.await?.1) }
}

/// What is at `path`; of a symbolic link what it leads to.
///
/// # Errors
/// What statx meets, such as ENOENT.
pub fn metadata<R: Runner>(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<Metadata, Error>> {
    let run = io.run(Metadata::of(Statx::new(path)));
    async move { Ok(Metadata::new(run.await?)) }
}

/// What is at `path`; of a symbolic link the link itself.
///
/// # Errors
/// As [`metadata`].
pub fn symlink_metadata<R: Runner>(
    io: &R,
    path: impl Into<Name>,
) -> impl Future<Output = Result<Metadata, Error>> {
    let mut statx = Metadata::of(Statx::new(path));
    statx.flags |= AtFlags::SYMLINK_NOFOLLOW;
    let run = io.run(statx);
    async move { Ok(Metadata::new(run.await?)) }
}

/// Runs an op that gives nothing.
fn done<R: Runner, O: Operation<Output = ()>>(io: &R, op: O) -> impl Future<Output = Result<(), Error>> {
    let run = io.run(op);
    async move { Ok(run.await?) }
}

/// Renames a file or a directory, and replaces what is at `to`.
///
/// # Errors
/// What renameat2 says.
pub fn rename<R: Runner>(
    io: &R,
    from: impl Into<Name>,
    to: impl Into<Name>,
) -> impl Future<Output = Result<(), Error>> {
    done(io, Rename::new(from, to))
}

/// Removes a file.
///
/// # Errors
/// What unlinkat says.
pub fn remove_file<R: Runner>(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<(), Error>> {
    done(io, Unlink::new(path))
}

/// Removes an empty directory.
///
/// # Errors
/// What unlinkat says.
pub fn remove_dir<R: Runner>(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<(), Error>> {
    done(io, Unlink::directory(path))
}

/// Makes a directory that all may use, but for the umask. With other permission bits: [`Mkdir`].
///
/// # Errors
/// What mkdirat says, such as EEXIST.
pub fn create_dir<R: Runner>(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<(), Error>> {
    done(io, Mkdir::new(path, 0o777))
}

/// Makes a second name, `link`, of the file `original`.
///
/// # Errors
/// What linkat says.
pub fn hard_link<R: Runner>(
    io: &R,
    original: impl Into<Name>,
    link: impl Into<Name>,
) -> impl Future<Output = Result<(), Error>> {
    done(io, Link::new(original, link))
}

/// Makes a symbolic link at `link` that says `original`.
///
/// # Errors
/// What symlinkat says.
pub fn symlink<R: Runner>(
    io: &R,
    original: impl Into<Name>,
    link: impl Into<Name>,
) -> impl Future<Output = Result<(), Error>> {
    done(io, Symlink::new(original, link))
}
