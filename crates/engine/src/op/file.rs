//! Opening and closing.

use super::{Handle, Name, OpenFlags, ResolveFlags};
use std::os::fd::OwnedFd;

/// `openat2(2)`. The completion carries the descriptor; if nobody takes it, it is closed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Open {
    /// The directory that a relative path starts from.
    pub dir: Handle,
    /// The path.
    pub path: Name,
    /// How it is opened. Constructors add `CLOEXEC`.
    pub flags: OpenFlags,
    /// Permission bits of a file that is created.
    pub mode: u32,
    /// Where the path may lead. Linux 5.6; ENOSYS before if there are any.
    pub resolve: ResolveFlags,
    pub(crate) how: [u64; 3],
}

impl Open {
    /// Opens `path` relative to the current directory with these flags and `CLOEXEC`, permission bits 0o666 if it creates.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Open, OpenFlags, Read}};
    /// # let mut driver = Driver::new()?;
    /// let file = driver.run(Open::new("Cargo.toml", OpenFlags::READ_ONLY))?;
    /// let (count, text) = driver.run(Read::at(&file, 0, Vec::with_capacity(9)))?;
    /// assert_eq!((count, &*text), (9, &b"[package]"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(path: impl Into<Name>, flags: OpenFlags) -> Self {
        Open {
            dir: Handle::CWD,
            path: path.into(),
            flags: flags | OpenFlags::CLOEXEC,
            // openat2 refuses a mode when nothing is created.
            mode: if flags.creates() { 0o666 } else { 0 },
            resolve: ResolveFlags::NONE,
            how: [0; 3],
        }
    }

    /// Relative to this directory.
    pub fn dir(mut self, dir: impl Into<Handle>) -> Self {
        self.dir = dir.into();
        self
    }

    /// Permission bits of a file that is created, before the umask.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Where the path may lead.
    pub fn resolve(mut self, resolve: ResolveFlags) -> Self {
        self.resolve = resolve;
        self
    }

    /// Fills in `struct open_how` (flags, mode, resolve: three u64) and returns its address.
    pub(crate) fn prepare(&mut self) -> *const u64 {
        self.how = [self.flags.how(), self.mode.into(), self.resolve.bits()];
        self.how.as_ptr()
    }
}

/// `close(2)`. The descriptor is closed whatever the result, unless the op is cancelled before it starts; then
/// dropping the op closes it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Close {
    pub(crate) fd: Option<OwnedFd>,
}

impl Close {
    /// Takes the descriptor.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Close, Nop}};
    /// # let mut driver = Driver::new()?;
    /// let (reader, writer) = std::io::pipe()?;
    /// driver.run(Close::new(writer))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(fd: impl Into<OwnedFd>) -> Self {
        Close { fd: Some(fd.into()) }
    }
}
