//! `Preserve::flags`: what chattr(1) sets of regular files and directories, and of nothing else, for nothing else can be opened
//! without doing something.
//!
//! Most flags are set when a file is made: some count only while it is empty. Those that lock it, append-only and
//! immutable, wait until everything has its name, for what is locked can be neither renamed nor removed.

use crate::api::error::Step;
use crate::api::observer::Paths;
use crate::context::reporter::Reporter;
use crate::metadata::MetadataCopier;
use crate::pair::directory::own_path;
use crate::pair::directory::{Dir, Side};
use crate::pair::Entry;
use crate::pair::Source;
use crate::sys::{self, FileId};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{ioctl_getflags, ioctl_setflags, IFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// `FS_NOCOMP_FL` and `FS_DAX_FL`, which rustix has no names for.
const NO_COMPRESSION: u32 = 0x400;
const DIRECT_ACCESS: u32 = 0x0200_0000;

const LOCKS: IFlags = IFlags::APPEND.union(IFlags::IMMUTABLE);

/// Not how a file system keeps a file (extents, an index, inline data, encryption, verity, case folding), nor projects, which
/// need more than a flag.
const PLAIN: IFlags = IFlags::from_bits_retain(NO_COMPRESSION | DIRECT_ACCESS)
    .union(IFlags::COMPRESSED)
    .union(IFlags::DIRSYNC)
    .union(IFlags::JOURNALING)
    .union(IFlags::NOATIME)
    .union(IFlags::NOCOW)
    .union(IFlags::NODUMP)
    .union(IFlags::NOTAIL)
    .union(IFlags::SECURE_REMOVAL)
    .union(IFlags::SYNC)
    .union(IFlags::TOPDIR)
    .union(IFlags::UNRM);

/// A lock that is set in the end.
struct Lock {
    what: What,
    /// Another one that has its name by then stays as it is.
    id: FileId,
    flags: IFlags,
}

enum What {
    File(Arc<Dir>, CString),
    Directory(Arc<Dir>),
    Held(OwnedFd, PathBuf),
}

impl What {
    fn path(&self) -> PathBuf {
        match self {
            What::File(dir, name) => dir.path(Side::Target, name),
            What::Directory(dir) => own_path(dir, Side::Target),
            What::Held(_, path) => path.clone(),
        }
    }

    /// Returns true if it is in a tree that has not got its name.
    fn is_partial(&self) -> bool {
        let dir = match self {
            What::File(dir, _) | What::Directory(dir) => dir,
            What::Held(..) => return false,
        };
        std::iter::successors(Some(dir), |dir| dir.parent()).any(|dir| dir.target.partial().is_some())
    }

    fn lock(&self, id: FileId, flags: IFlags) -> io::Result<()> {
        let lock = |fd: BorrowedFd<'_>| match sys::stat(fd)?.id == id {
            true => set(fd, flags, LOCKS),
            false => Ok(()),
        };
        match self {
            What::Held(fd, _) => lock(fd.as_fd()),
            What::Directory(dir) => lock(dir.open_side(Side::Target)?.as_fd()),
            What::File(dir, name) => {
                match sys::open_source(dir.open_side(Side::Target)?.as_fd(), name, false, false) {
                    Ok(fd) => lock(fd.as_fd()),
                    // It was not copied, which has been told.
                    Err(error) if sys::is(&error, &[Errno::NOENT]) => Ok(()),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

impl MetadataCopier<'_> {
    /// Gives a file that is still empty the flags of its source.
    pub(crate) fn file_flags(&mut self, entry: &Entry<'_>, source: &Source, to: BorrowedFd<'_>) {
        // The effect of such a call on a device is unknown.
        if !self.context.options.preserve.flags || !source.stat.is_file() {
            return;
        }
        let locks = self.plain_flags(source.fd.as_fd(), to, || entry.target());
        if !locks.is_empty() {
            let what = What::File(entry.at.dir.clone(), entry.target.into());
            self.lock_later(what, sys::stat(to).map(|stat| stat.id), locks);
        }
    }

    /// The locks of a file that an earlier run has finished.
    pub(crate) fn flags_of_finished(&mut self, entry: &Entry<'_>, source: &Source) {
        if !self.context.options.preserve.flags || !source.stat.is_file() {
            return;
        }
        match get(source.fd.as_fd(), LOCKS) {
            Ok(locks) if locks.is_empty() => {}
            Ok(locks) => {
                let what = What::File(entry.at.dir.clone(), entry.target.into());
                let there = sys::stat_at(entry.at.target(), entry.target, false);
                self.lock_later(what, there.map(|stat| stat.id), locks);
            }
            Err(error) => {
                self.reporter.failed(Step::SetFlags, entry.target(), error);
            }
        }
    }

    /// Gives a directory in which all is done the flags of its source.
    pub(crate) fn dir_flags(&mut self, dir: &Arc<Dir>, from: Option<BorrowedFd<'_>>, to: BorrowedFd<'_>) {
        let Some(from) = from.filter(|_| self.context.options.preserve.flags) else {
            return;
        };
        let locks = self.plain_flags(from, to, || own_path(dir, Side::Target));
        if !locks.is_empty() {
            self.lock_later(What::Directory(dir.clone()), Ok(dir.target.id()), locks);
        }
    }

    /// The same for one that is held open until the end.
    pub(crate) fn held_dir_flags(&mut self, from: BorrowedFd<'_>, to: OwnedFd, path: PathBuf) {
        if !self.context.options.preserve.flags {
            return;
        }
        let locks = self.plain_flags(from, to.as_fd(), || path.clone());
        if !locks.is_empty() {
            let id = sys::stat(to.as_fd()).map(|stat| stat.id);
            self.lock_later(What::Held(to, path), id, locks);
        }
    }

    /// Sets all flags but the locks, which it returns.
    fn plain_flags(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        path: impl Fn() -> PathBuf,
    ) -> IFlags {
        let done = match get(from, PLAIN.union(LOCKS)) {
            Ok(flags) => (flags & LOCKS, set(to, flags & PLAIN, PLAIN)),
            Err(error) => (IFlags::empty(), Err(error)),
        };
        if let (_, Err(error)) = done {
            self.reporter.failed(Step::SetFlags, path(), error);
        }
        done.0
    }

    fn lock_later(&self, what: What, id: io::Result<FileId>, flags: IFlags) {
        match id {
            Ok(id) => self.locks.0.lock().unwrap().push(Lock { what, id, flags }),
            Err(error) => {
                self.reporter.failed(Step::SetFlags, what.path(), error);
            }
        }
    }
}

/// The locks that are set when everything has its name.
#[derive(Default)]
pub(crate) struct Locks(Mutex<Vec<Lock>>);

impl Locks {
    /// Locks what is chosen, now that everything has its name.
    pub(crate) fn lock_all(&self, reporter: &Reporter<'_>, chosen: impl Fn(FileId) -> bool) {
        let locks = std::mem::take(&mut *self.0.lock().unwrap());
        let (now, later) = locks.into_iter().partition(|lock: &Lock| chosen(lock.id));
        *self.0.lock().unwrap() = later;
        for Lock { what, id, flags } in now {
            if what.is_partial() {
                continue;
            }
            if let Err(error) = what.lock(id, flags) {
                reporter.failed(Step::SetFlags, what.path(), error);
            }
        }
    }
}

/// Takes the locks off a directory of ours that an earlier run has finished, so that this one can go on in it.
pub(crate) fn unlock(dir: BorrowedFd<'_>) -> io::Result<()> {
    set(dir, IFlags::empty(), LOCKS)
}

/// Returns which of these flags a file has: none, where there are no flags.
fn get(fd: BorrowedFd<'_>, of: IFlags) -> io::Result<IFlags> {
    match ioctl_getflags(fd) {
        Ok(flags) => Ok(flags & of),
        Err(error) if has_none(error) => Ok(IFlags::empty()),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if an error means that there are no flags here. EBADF: the file may not be read, and is only held.
fn has_none(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::BADF
    )
}

/// Gives a file these flags and no others `of` those; as many as can be, if not all can.
fn set(fd: BorrowedFd<'_>, wanted: IFlags, of: IFlags) -> io::Result<()> {
    let now = match ioctl_getflags(fd) {
        Ok(now) => now,
        Err(error) if has_none(error) && wanted.is_empty() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let then = (now - of) | wanted;
    if now == then {
        return Ok(());
    }
    let Err(mut error) = ioctl_setflags(fd, then) else {
        return is_kept(fd, then, of);
    };
    for bit in (0..u32::BITS).map(|bit| IFlags::from_bits_retain(1 << bit)) {
        if (now ^ then).contains(bit) {
            let others = ioctl_getflags(fd)?;
            if let Err(one) = ioctl_setflags(fd, others ^ bit) {
                error = one;
            }
        }
    }
    is_kept(fd, then, of).map_err(|_| error.into())
}

/// Some file systems take what they do not keep.
fn is_kept(fd: BorrowedFd<'_>, wanted: IFlags, of: IFlags) -> io::Result<()> {
    match (ioctl_getflags(fd)? ^ wanted) & of {
        differs if differs.is_empty() => Ok(()),
        _ => Err(Errno::OPNOTSUPP.into()),
    }
}
