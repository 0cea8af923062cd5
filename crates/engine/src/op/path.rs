//! Ops on paths. Each path is relative to its directory handle; [`Handle::CWD`] is the current directory.

use super::{AtFlags, Handle, Name, RenameFlags};
use std::fmt;

/// `statx(2)`. Read the answer with [`Statx::stat`].
pub struct Statx {
    /// The directory.
    pub dir: Handle,
    /// The path; empty with `EMPTY_PATH` for the directory handle itself.
    pub path: Name,
    /// How the path is found.
    pub flags: AtFlags,
    /// `STATX_*`: what to ask for.
    pub mask: u32,
    pub(crate) stat: Box<libc::statx>,
}

impl Statx {
    /// The basic fields of `path`, following links.
    pub fn new(path: impl Into<Name>) -> Self {
        Statx {
            dir: Handle::CWD,
            path: path.into(),
            flags: AtFlags::NONE,
            mask: libc::STATX_BASIC_STATS,
            // SAFETY: `statx` is plain integers; zero is a valid value.
            stat: Box::new(unsafe { std::mem::zeroed() }),
        }
    }

    /// The basic fields of an open file.
    pub fn of(file: impl Into<Handle>) -> Self {
        Statx {
            dir: file.into(),
            flags: AtFlags::EMPTY_PATH,
            ..Self::new(c"")
        }
    }

    /// The answer, after a completion without error.
    pub fn stat(&self) -> &libc::statx {
        &self.stat
    }
}

impl fmt::Debug for Statx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statx")
            .field("dir", &self.dir)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// `renameat2(2)`.
#[derive(Debug)]
pub struct Rename {
    /// Directory of `from`.
    pub from_dir: Handle,
    /// The old name.
    pub from: Name,
    /// Directory of `to`.
    pub to_dir: Handle,
    /// The new name.
    pub to: Name,
    /// What happens to what is at the new name.
    pub flags: RenameFlags,
}

impl Rename {
    /// Replaces what is at `to`.
    pub fn new(from: impl Into<Name>, to: impl Into<Name>) -> Self {
        Rename {
            from_dir: Handle::CWD,
            from: from.into(),
            to_dir: Handle::CWD,
            to: to.into(),
            flags: RenameFlags::NONE,
        }
    }
}

/// `unlinkat(2)`.
#[derive(Debug)]
pub struct Unlink {
    /// The directory.
    pub dir: Handle,
    /// The path.
    pub path: Name,
    /// `REMOVE_DIR` to remove a directory.
    pub flags: AtFlags,
}

impl Unlink {
    /// Removes a file.
    pub fn new(path: impl Into<Name>) -> Self {
        Unlink {
            dir: Handle::CWD,
            path: path.into(),
            flags: AtFlags::NONE,
        }
    }

    /// Removes an empty directory.
    pub fn directory(path: impl Into<Name>) -> Self {
        Unlink {
            flags: AtFlags::REMOVE_DIR,
            ..Self::new(path)
        }
    }
}

/// `mkdirat(2)`.
#[derive(Debug)]
pub struct Mkdir {
    /// The directory.
    pub dir: Handle,
    /// The path.
    pub path: Name,
    /// Permission bits before the umask.
    pub mode: u32,
}

impl Mkdir {
    /// A new directory with these permission bits.
    pub fn new(path: impl Into<Name>, mode: u32) -> Self {
        Mkdir {
            dir: Handle::CWD,
            path: path.into(),
            mode,
        }
    }
}

/// `linkat(2)`.
#[derive(Debug)]
pub struct Link {
    /// Directory of `from`.
    pub from_dir: Handle,
    /// The existing name.
    pub from: Name,
    /// Directory of `to`.
    pub to_dir: Handle,
    /// The new name.
    pub to: Name,
    /// `SYMLINK_FOLLOW`, `EMPTY_PATH`.
    pub flags: AtFlags,
}

impl Link {
    /// A second name for a file.
    pub fn new(from: impl Into<Name>, to: impl Into<Name>) -> Self {
        Link {
            from_dir: Handle::CWD,
            from: from.into(),
            to_dir: Handle::CWD,
            to: to.into(),
            flags: AtFlags::NONE,
        }
    }
}

/// `symlinkat(2)`.
#[derive(Debug)]
pub struct Symlink {
    /// What the link says.
    pub target: Name,
    /// The directory of the link.
    pub dir: Handle,
    /// The link's path.
    pub path: Name,
}

impl Symlink {
    /// A link at `path` that says `target`.
    pub fn new(target: impl Into<Name>, path: impl Into<Name>) -> Self {
        Symlink {
            target: target.into(),
            dir: Handle::CWD,
            path: path.into(),
        }
    }
}
