//! Extended attributes: which of a file's are copied, and how they get from one file to another.

use crate::api::options::{Mode, Options, Wish};
use crate::sys;
use rustix::buffer::spare_capacity;
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Timestamps, XattrFlags, CWD};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::path::Path;

/// Access control lists, as the kernel hands them out: what belongs to permissions, and not to the attributes.
pub(crate) const ACCESS_LIST: &CStr = c"system.posix_acl_access";
pub(crate) const DEFAULT_LIST: &CStr = c"system.posix_acl_default";

/// The attribute that SELinux keeps a context in.
pub(crate) const CONTEXT: &CStr = c"security.selinux";

/// The kernel's bound for a list of names, and for a value (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`).
const MAX_BYTES: usize = 64 << 10;

/// Returns true if the kernel has a policy of SELinux: without one, no context can be preserved or set.
pub fn is_selinux() -> bool {
    Path::new("/sys/fs/selinux/enforce").exists()
}

/// Something that has attributes.
pub(crate) enum Bearer<'a> {
    /// An open file.
    Open(BorrowedFd<'a>),
    /// A file that cannot be opened, by a path from `sys::proc_path` that ends in its name.
    Path(Vec<u8>),
    /// A file that is held but not open for reading, by its path from `sys::proc_path`: that is a link to it.
    Followed(Vec<u8>),
}

/// The kind of attribute that a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    AccessList,
    Context,
    Capability,
    Other,
}

impl Class {
    pub(crate) fn of(name: &CStr) -> Class {
        match name.to_bytes() {
            name if name.starts_with(b"system.") => Class::AccessList,
            name if name == CONTEXT.to_bytes() => Class::Context,
            b"security.capability" => Class::Capability,
            _ => Class::Other,
        }
    }

    /// Returns how much attributes of this class are wanted.
    pub(crate) fn wish(self, options: &Options) -> Wish {
        match self {
            Class::AccessList if options.preserve.mode == Mode::Preserve => Wish::Must,
            Class::AccessList => Wish::No,
            Class::Context if options.context.is_some() => Wish::No,
            Class::Context => options.preserve.context,
            Class::Capability | Class::Other => options.preserve.xattr,
        }
    }
}

impl Bearer<'_> {
    /// Reads the names into `names`, which is empty if there are none or the file system knows no attributes.
    pub(crate) fn list(&self, names: &mut Vec<u8>) -> io::Result<()> {
        fill(names, |buffer| match self {
            Bearer::Open(fd) => rustix::fs::flistxattr(fd, spare_capacity(buffer)),
            Bearer::Path(path) => rustix::fs::llistxattr(path.as_slice(), spare_capacity(buffer)),
            Bearer::Followed(path) => rustix::fs::listxattr(path.as_slice(), spare_capacity(buffer)),
        })
    }

    pub(crate) fn get(&self, name: &CStr, value: &mut Vec<u8>) -> io::Result<()> {
        fill(value, |buffer| match self {
            Bearer::Open(fd) => rustix::fs::fgetxattr(fd, name, spare_capacity(buffer)),
            Bearer::Path(path) => rustix::fs::lgetxattr(path.as_slice(), name, spare_capacity(buffer)),
            Bearer::Followed(path) => rustix::fs::getxattr(path.as_slice(), name, spare_capacity(buffer)),
        })
    }

    pub(crate) fn set(&self, name: &CStr, value: &[u8]) -> io::Result<()> {
        let flags = XattrFlags::empty();
        match self {
            Bearer::Open(fd) => rustix::fs::fsetxattr(fd, name, value, flags)?,
            Bearer::Path(path) => rustix::fs::lsetxattr(path.as_slice(), name, value, flags)?,
            Bearer::Followed(path) => rustix::fs::setxattr(path.as_slice(), name, value, flags)?,
        }
        Ok(())
    }

    /// Sets the permissions, through a link that `Path` ends in: for what is known to be none.
    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        let mode = rustix::fs::Mode::from_raw_mode(mode);
        match self {
            Bearer::Open(fd) => rustix::fs::fchmod(fd, mode)?,
            Bearer::Path(path) | Bearer::Followed(path) => rustix::fs::chmod(path.as_slice(), mode)?,
        }
        Ok(())
    }

    pub(crate) fn set_times(&self, times: &Timestamps) -> io::Result<()> {
        let at = |path: &[u8], flags| rustix::fs::utimensat(CWD, path, times, flags);
        match self {
            Bearer::Open(fd) => rustix::fs::futimens(fd, times)?,
            Bearer::Path(path) => at(path, AtFlags::SYMLINK_NOFOLLOW)?,
            Bearer::Followed(path) => at(path, AtFlags::empty())?,
        }
        Ok(())
    }

    /// Removes one, if it is there.
    pub(crate) fn remove(&self, name: &CStr) -> io::Result<()> {
        let removed = match self {
            Bearer::Open(fd) => rustix::fs::fremovexattr(fd, name),
            Bearer::Path(path) => rustix::fs::lremovexattr(path.as_slice(), name),
            Bearer::Followed(path) => rustix::fs::removexattr(path.as_slice(), name),
        };
        match removed {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Lets a call fill a buffer, and gives it all the room there can be if it needs more.
fn fill(
    buffer: &mut Vec<u8>,
    mut call: impl FnMut(&mut Vec<u8>) -> rustix::io::Result<usize>,
) -> io::Result<()> {
    // What nearly all names and values fit in.
    for room in [1024, MAX_BYTES] {
        buffer.clear();
        buffer.try_reserve(room).map_err(|_| Errno::NOMEM)?;
        match call(buffer) {
            Ok(_) => return Ok(()),
            Err(Errno::RANGE) => {}
            Err(error) => {
                buffer.clear();
                return Err(error.into());
            }
        }
    }
    buffer.clear();
    Err(Errno::RANGE.into())
}

/// Each name in a list of the kernel's.
pub(crate) fn each(names: &[u8]) -> impl Iterator<Item = &CStr> {
    names
        .split_inclusive(|&byte| byte == 0)
        .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

/// The same in the order in which they can be set: with its access control list, a file may be one that its owner may not
/// write to, and other attributes need that.
pub(crate) fn each_to_set(names: &[u8]) -> impl Iterator<Item = &CStr> {
    let is_list = |name: &&CStr| Class::of(name) == Class::AccessList;
    let lists = each(names).filter(is_list);
    each(names).filter(move |name| !is_list(name)).chain(lists)
}

/// Returns true if an error means that there are no such attributes here.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    sys::is(error, &[Errno::OPNOTSUPP, Errno::NOSYS])
}

/// Takes the lists away that a new directory has inherited.
pub(crate) fn drop_lists(dir: BorrowedFd<'_>) -> io::Result<()> {
    let made = Bearer::Open(dir);
    made.remove(DEFAULT_LIST)?;
    made.remove(ACCESS_LIST)
}

/// Takes away what an earlier run has given to a directory of ours, as far as that can be taken; not what the kernel gives
/// to it.
pub(crate) fn drop_given(dir: BorrowedFd<'_>, options: &Options) {
    let made = Bearer::Open(dir);
    let mut names = Vec::new();
    if options.preserve.xattr == Wish::No || made.list(&mut names).is_err() {
        return;
    }
    let given = |name: &&CStr| {
        [&b"user."[..], b"trusted."]
            .iter()
            .any(|space| name.to_bytes().starts_with(space))
    };
    for name in each(&names).filter(given) {
        let _ = made.remove(name);
    }
}

/// Returns the permissions that the list which a directory hands down leaves to owners: all, if it cannot be read.
pub(crate) fn owner_in_list(dir: BorrowedFd<'_>) -> u32 {
    let mut list = Vec::new();
    let read = Bearer::Open(dir).get(DEFAULT_LIST, &mut list);
    // A version of four bytes, then entries of eight: tag, permissions, id, all little-endian (linux/posix_acl_xattr.h).
    let owner = list
        .get(4..)
        .unwrap_or_default()
        .chunks_exact(8)
        .find(|entry| entry[..2] == [1, 0]);
    match (read, owner) {
        (Ok(()), Some(entry)) => u32::from(entry[2] & 7) << 6,
        _ => 0o700,
    }
}

/// Returns true if new files in a directory may get an access control list from it.
pub(crate) fn inherits(dir: BorrowedFd<'_>) -> bool {
    !matches!(
        rustix::fs::fgetxattr(dir, DEFAULT_LIST, &mut [0u8; 0]),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS)
    )
}
