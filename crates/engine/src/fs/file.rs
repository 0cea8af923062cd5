//! An open file and what runs its ops.

use super::{done, exact, Metadata, OpenOptions};
use crate::buffer::{Buffer, IntoBuffer};
use crate::error::Error;
use crate::io::{Io, Runner};
use crate::op::{self, Fsync, Name, Read, Statx, Truncate, Write};
use crate::Failed;
use std::fmt;
use std::future::Future;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// An open file, by the names of [`std::fs::File`]. Clones share it; it is closed when the last one, and the last op on it,
/// is gone.
///
/// A buffer moves into a read or a write and comes back with the result, or in the error. A vector is filled to its
/// capacity, as by [`Read`]; a [`Slice`](crate::buffer::Slice) of a buffer is that part and no more.
#[derive(Clone)]
pub struct File<R = Io> {
    io: R,
    file: op::File,
}

impl File {
    /// Other ways to open one, on any [`Runner`].
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }
}

impl<R: Runner> File<R> {
    /// A file that is open already, whose ops run on `io`.
    pub fn new(io: &R, file: op::File) -> Self {
        File { io: io.clone(), file }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// What openat2 says, such as ENOENT.
    pub fn open(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<Self, Error>> {
        OpenOptions::new().read(true).open(io, path)
    }

    /// Opens a file for writing; one that is there is emptied.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn create(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<Self, Error>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        options.open(io, path)
    }

    /// Makes a file, for reading and writing.
    ///
    /// # Errors
    /// As [`open`](Self::open); EEXIST if it is there.
    pub fn create_new(io: &R, path: impl Into<Name>) -> impl Future<Output = Result<Self, Error>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(io, path)
    }

    /// Reads once, at `offset`: the number of bytes, which is 0 at the end of the file and may be less than there is room
    /// for.
    ///
    /// # Errors
    /// What the read meets. The buffer is in the op that comes back.
    pub fn read_at<B: Buffer>(&self, buffer: impl IntoBuffer<Buffer = B>, offset: u64) -> R::Run<Read<B>> {
        self.io.run(Read::at(&self.file, offset, buffer))
    }

    /// Reads from `offset` until the buffer is full.
    ///
    /// # Errors
    /// What a read meets. One of the kind `UnexpectedEof` if the file ends before: the buffer that comes back has what was there.
    pub fn read_exact_at<B: Buffer>(
        &self,
        buffer: impl IntoBuffer<Buffer = B>,
        offset: u64,
    ) -> impl Future<Output = Result<B, Failed<Read<B>>>> {
        exact::read(self.io.clone(), Read::at(&self.file, offset, buffer))
    }

    /// Writes once, at `offset`: the number of bytes, which may be fewer than the buffer has.
    ///
    /// # Errors
    /// What the write meets. The buffer is in the op that comes back.
    pub fn write_at<B: Buffer>(&self, buffer: impl IntoBuffer<Buffer = B>, offset: u64) -> R::Run<Write<B>> {
        self.io.run(Write::at(&self.file, offset, buffer))
    }

    /// Writes all bytes of the buffer from `offset` on, and gives it back.
    ///
    /// # Errors
    /// What a write meets. What had been written by then stays written; the buffer is in the op that comes back.
    pub fn write_all_at<B: Buffer>(
        &self,
        buffer: impl IntoBuffer<Buffer = B>,
        offset: u64,
    ) -> impl Future<Output = Result<B, Failed<Write<B>>>> {
        exact::write(self.io.clone(), Write::at(&self.file, offset, buffer))
    }

    /// Brings data and metadata to the device.
    ///
    /// # Errors
    /// What fsync says. A write-back that failed is told once to each open file.
    pub fn sync_all(&self) -> impl Future<Output = Result<(), Error>> {
        done(&self.io, Fsync::new(&self.file))
    }

    /// Brings data to the device, and the metadata that is needed to find it.
    ///
    /// # Errors
    /// As [`sync_all`](Self::sync_all).
    pub fn sync_data(&self) -> impl Future<Output = Result<(), Error>> {
        done(&self.io, Fsync::data(&self.file))
    }

    /// Sets the length in bytes; what is added reads as zeros.
    ///
    /// # Errors
    /// What ftruncate says.
    pub fn set_len(&self, len: u64) -> impl Future<Output = Result<(), Error>> {
        done(&self.io, Truncate::new(&self.file, len))
    }

    /// What the file is, how long, whose and from when.
    ///
    /// # Errors
    /// What statx says.
    pub fn metadata(&self) -> impl Future<Output = Result<Metadata, Error>> {
        let run = self.io.run(Metadata::of(Statx::of(&self.file)));
        async move { Ok(Metadata::new(run.await?)) }
    }

    pub(super) fn runner(&self) -> &R {
        &self.io
    }

    /// The file, for ops of one's own.
    pub fn as_op_file(&self) -> &op::File {
        &self.file
    }

    /// The file without what runs its ops.
    pub fn into_op_file(self) -> op::File {
        self.file
    }
}

impl<R> AsFd for File<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl<R> AsRawFd for File<R> {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl<R> fmt::Debug for File<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("File").field(&self.as_raw_fd()).finish()
    }
}
