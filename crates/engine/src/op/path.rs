//! Ops on paths. Each path is relative to its directory handle; [`Handle::CWD`] is the current directory.

use super::{AtFlags, Handle, Name, RenameFlags, StatxMask};
use std::fmt;

/// `statx(2)`. Read the answer with [`Statx::stat`].
#[non_exhaustive]
pub struct Statx {
    /// The directory.
    pub dir: Handle,
    /// The path; empty with `EMPTY_PATH` for the directory handle itself.
    pub path: Name,
    /// How the path is found.
    pub flags: AtFlags,
    /// What to ask for.
    pub mask: StatxMask,
    pub(crate) stat: Box<libc::statx>,
}

impl Statx {
    /// The basic fields of `path`, following links.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Statx, StatxMask}};
    /// # let mut driver = Driver::new()?;
    /// let stat = driver.run(Statx::new("Cargo.toml").mask(StatxMask::SIZE))?;
    /// assert_eq!(stat.stx_size, std::fs::metadata("Cargo.toml")?.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(path: impl Into<Name>) -> Self {
        Statx {
            dir: Handle::CWD,
            path: path.into(),
            flags: AtFlags::NONE,
            mask: StatxMask::BASIC,
            // SAFETY: `statx` is plain integers; zero is a valid value.
            stat: Box::new(unsafe { std::mem::zeroed() }),
        }
    }

    /// The basic fields of an open file.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{File, Statx}};
    /// # let mut driver = Driver::new()?;
    /// # let file = File::new(tempfile::tempfile()?);
    /// assert_eq!(driver.run(Statx::of(&file))?.stx_size, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(file: impl Into<Handle>) -> Self {
        Statx {
            dir: file.into(),
            flags: AtFlags::EMPTY_PATH,
            ..Self::new(c"")
        }
    }

    /// Relative to this directory.
    pub fn dir(mut self, dir: impl Into<Handle>) -> Self {
        self.dir = dir.into();
        self
    }

    /// How the path is found.
    pub fn flags(mut self, flags: AtFlags) -> Self {
        self.flags = flags;
        self
    }

    /// What to ask for; `BASIC` if nothing is said.
    pub fn mask(mut self, mask: StatxMask) -> Self {
        self.mask = mask;
        self
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
#[non_exhaustive]
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
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Rename, RenameFlags}};
    /// # let mut driver = Driver::new()?;
    /// # let dir = tempfile::tempdir()?;
    /// # let (draft, target) = (dir.path().join("draft"), dir.path().join("target"));
    /// std::fs::write(&draft, "text")?;
    /// driver.run(Rename::new(&draft, &target).flags(RenameFlags::NO_REPLACE))?;
    /// assert!(target.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(from: impl Into<Name>, to: impl Into<Name>) -> Self {
        Rename {
            from_dir: Handle::CWD,
            from: from.into(),
            to_dir: Handle::CWD,
            to: to.into(),
            flags: RenameFlags::NONE,
        }
    }

    /// The old name is relative to this directory.
    pub fn from_dir(mut self, dir: impl Into<Handle>) -> Self {
        self.from_dir = dir.into();
        self
    }

    /// The new name is relative to this directory.
    pub fn to_dir(mut self, dir: impl Into<Handle>) -> Self {
        self.to_dir = dir.into();
        self
    }

    /// What happens to what is at the new name.
    pub fn flags(mut self, flags: RenameFlags) -> Self {
        self.flags = flags;
        self
    }
}

/// `unlinkat(2)`.
#[derive(Debug)]
#[non_exhaustive]
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
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Unlink}};
    /// # let mut driver = Driver::new()?;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("file");
    /// std::fs::write(&path, "")?;
    /// driver.run(Unlink::new(&path))?;
    /// assert!(!path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(path: impl Into<Name>) -> Self {
        Unlink {
            dir: Handle::CWD,
            path: path.into(),
            flags: AtFlags::NONE,
        }
    }

    /// Removes an empty directory.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Unlink}};
    /// # let mut driver = Driver::new()?;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("folder");
    /// std::fs::create_dir(&path)?;
    /// driver.run(Unlink::directory(&path))?;
    /// assert!(!path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn directory(path: impl Into<Name>) -> Self {
        Unlink {
            flags: AtFlags::REMOVE_DIR,
            ..Self::new(path)
        }
    }

    /// Relative to this directory.
    pub fn dir(mut self, dir: impl Into<Handle>) -> Self {
        self.dir = dir.into();
        self
    }

    /// `REMOVE_DIR` to remove a directory.
    pub fn flags(mut self, flags: AtFlags) -> Self {
        self.flags = flags;
        self
    }
}

/// `mkdirat(2)`.
#[derive(Debug)]
#[non_exhaustive]
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
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Mkdir}};
    /// # let mut driver = Driver::new()?;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("folder");
    /// driver.run(Mkdir::new(&path, 0o755))?;
    /// assert!(path.is_dir());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(path: impl Into<Name>, mode: u32) -> Self {
        Mkdir {
            dir: Handle::CWD,
            path: path.into(),
            mode,
        }
    }

    /// Relative to this directory.
    pub fn dir(mut self, dir: impl Into<Handle>) -> Self {
        self.dir = dir.into();
        self
    }
}

/// `linkat(2)`.
#[derive(Debug)]
#[non_exhaustive]
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
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Link}};
    /// # let mut driver = Driver::new()?;
    /// # let dir = tempfile::tempdir()?;
    /// # let (path, other) = (dir.path().join("file"), dir.path().join("other"));
    /// std::fs::write(&path, "text")?;
    /// driver.run(Link::new(&path, &other))?;
    /// assert_eq!(std::fs::read(&other)?, b"text");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(from: impl Into<Name>, to: impl Into<Name>) -> Self {
        Link {
            from_dir: Handle::CWD,
            from: from.into(),
            to_dir: Handle::CWD,
            to: to.into(),
            flags: AtFlags::NONE,
        }
    }

    /// The old name is relative to this directory.
    pub fn from_dir(mut self, dir: impl Into<Handle>) -> Self {
        self.from_dir = dir.into();
        self
    }

    /// The new name is relative to this directory.
    pub fn to_dir(mut self, dir: impl Into<Handle>) -> Self {
        self.to_dir = dir.into();
        self
    }

    /// How the file is found.
    pub fn flags(mut self, flags: AtFlags) -> Self {
        self.flags = flags;
        self
    }
}

/// `symlinkat(2)`.
#[derive(Debug)]
#[non_exhaustive]
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
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Symlink}};
    /// # let mut driver = Driver::new()?;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("link");
    /// driver.run(Symlink::new("target", &path))?;
    /// assert_eq!(std::fs::read_link(&path)?.as_os_str(), "target");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(target: impl Into<Name>, path: impl Into<Name>) -> Self {
        Symlink {
            target: target.into(),
            dir: Handle::CWD,
            path: path.into(),
        }
    }

    /// The path of the link is relative to this directory.
    pub fn dir(mut self, dir: impl Into<Handle>) -> Self {
        self.dir = dir.into();
        self
    }
}
