//! Whole files written in one op: open, write, close. A worker does it, on every backend.

use super::{Handle, Name, Op, OpenFlags};
use crate::buffer::{Buf, Buffer, IntoBuffer};

/// Creates or replaces the contents of a whole file. The result is the number of bytes written. A short write is gone
/// on with; after an error the file holds what had been written by then.
#[derive(Debug)]
#[non_exhaustive]
pub struct WriteFile<B = Buf> {
    /// The directory that a relative path starts from.
    pub dir: Handle,
    /// The path.
    pub path: Name,
    /// The bytes.
    pub data: B,
    /// How the file is opened. Default: `WRITE_ONLY | CREATE | TRUNCATE | CLOEXEC`.
    pub flags: OpenFlags,
    /// Permission bits of a new file before the umask. Default: 0o666.
    pub mode: u32,
    /// Bring data and size to the device before completing.
    pub sync: bool,
}

impl<B: Buffer> WriteFile<B> {
    /// Writes `data` to `path`.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{WriteFile}};
    /// # let mut driver = Driver::new()?;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("file");
    /// let (count, _) = driver.run(WriteFile::new(&path, "text").mode(0o600).sync(true))?;
    /// assert_eq!((count, &*std::fs::read(&path)?), (4, &b"text"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(path: impl Into<Name>, data: impl IntoBuffer<Buffer = B>) -> Self {
        WriteFile {
            dir: Handle::CWD,
            path: path.into(),
            data: data.into_buffer(),
            flags: OpenFlags::WRITE_ONLY | OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::CLOEXEC,
            mode: 0o666,
            sync: false,
        }
    }

    /// Relative to this directory.
    pub fn dir(mut self, dir: impl Into<Handle>) -> Self {
        self.dir = dir.into();
        self
    }

    /// Opens the file with these flags and `CLOEXEC`, instead of `WRITE_ONLY | CREATE | TRUNCATE`.
    pub fn flags(mut self, flags: OpenFlags) -> Self {
        self.flags = flags | OpenFlags::CLOEXEC;
        self
    }

    /// Permission bits of a new file, before the umask.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Whether data and size are brought to the device before it completes.
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }
}

impl<B: Buffer> From<WriteFile<B>> for Op {
    fn from(op: WriteFile<B>) -> Op {
        let WriteFile {
            dir,
            path,
            data,
            flags,
            mode,
            sync,
        } = op;
        Op::WriteFile(WriteFile {
            dir,
            path,
            data: data.into(),
            flags,
            mode,
            sync,
        })
    }
}
