//! Opening and closing.

use super::{Handle, Name, ResolveFlags};
use std::os::fd::OwnedFd;

/// `openat2(2)`. The completion carries the descriptor; if nobody takes it, it is closed.
#[derive(Debug)]
pub struct Open {
    /// The directory that a relative path starts from.
    pub dir: Handle,
    /// The path.
    pub path: Name,
    /// `O_*`. Constructors add O_CLOEXEC.
    pub flags: u64,
    /// Permission bits of a file that is created.
    pub mode: u64,
    /// Where the path may lead. Linux 5.6; ENOSYS before if there are any.
    pub resolve: ResolveFlags,
    pub(crate) how: [u64; 3],
}

impl Open {
    /// Opens `path` relative to the current directory with these `O_*` flags and O_CLOEXEC, mode 0o666 if it creates.
    pub fn new(path: impl Into<Name>, flags: i32) -> Self {
        // O_TMPFILE contains O_DIRECTORY.
        let creates = flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
        Open {
            dir: Handle::CWD,
            path: path.into(),
            flags: (flags | libc::O_CLOEXEC) as u32 as u64,
            // openat2 refuses a mode when nothing is created.
            mode: if creates { 0o666 } else { 0 },
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
        self.mode = mode.into();
        self
    }

    /// Where the path may lead.
    pub fn resolve(mut self, resolve: ResolveFlags) -> Self {
        self.resolve = resolve;
        self
    }

    /// Fills in `struct open_how` (flags, mode, resolve: three u64) and returns its address.
    pub(crate) fn prepare(&mut self) -> *const u64 {
        self.how = [self.flags, self.mode, self.resolve.bits()];
        self.how.as_ptr()
    }
}

/// `close(2)`. The descriptor is closed whatever the result, unless the op is cancelled before it starts; then
/// dropping the op closes it.
#[derive(Debug)]
pub struct Close {
    pub(crate) fd: Option<OwnedFd>,
}

impl Close {
    /// Takes the descriptor.
    pub fn new(fd: impl Into<OwnedFd>) -> Self {
        Close { fd: Some(fd.into()) }
    }
}
