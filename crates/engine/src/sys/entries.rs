//! The entries of an open directory, as getdents64 gives them.

use std::ffi::OsStr;
use std::io;
use std::mem::offset_of;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

/// Where the parts of a `struct linux_dirent64` are; its length is in it, and the name ends with a NUL byte.
const LEN: usize = offset_of!(libc::dirent64, d_reclen);
const TYPE: usize = offset_of!(libc::dirent64, d_type);
const NAME: usize = offset_of!(libc::dirent64, d_name);

/// What one entry says.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a OsStr,
    pub(crate) ino: u64,
    /// The type bits of a mode, 0 if the file system does not say.
    pub(crate) kind: libc::mode_t,
}

/// Reads as many entries as there is room for, from the directory's position on; 0 bytes at the end.
pub(crate) fn read(dir: RawFd, into: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into the live slice.
    let count = unsafe { libc::syscall(libc::SYS_getdents64, dir, into.as_mut_ptr(), into.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// The entries in what [`read`] has filled.
pub(crate) fn entries(mut bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(bytes.get(LEN..LEN + 2)?.try_into().ok()?));
        let (entry, rest) = bytes.split_at_checked(len.max(NAME))?;
        bytes = rest;
        let name = entry[NAME..].split(|&byte| byte == 0).next()?;
        Some(Entry {
            name: OsStr::from_bytes(name),
            ino: u64::from_ne_bytes(entry[..8].try_into().ok()?),
            // DT_* are the type bits of a mode, shifted.
            kind: libc::mode_t::from(entry[TYPE]) << 12,
        })
    })
}

/// The mode of a name in the directory; of a link its own.
pub(crate) fn mode(dir: RawFd, name: &OsStr) -> io::Result<libc::mode_t> {
    let mut path = [0_u8; 256];
    let Some(fits) = path.get_mut(..name.len()) else {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    };
    fits.copy_from_slice(name.as_bytes());
    // SAFETY: plain integers.
    let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: a live struct, and bytes that end with a NUL: a name has at most 255.
    let result = unsafe {
        libc::fstatat64(
            dir,
            path.as_ptr().cast(),
            &raw mut stat,
            libc::AT_SYMLINK_NOFOLLOW,
        )
    };
    match result {
        0 => Ok(stat.st_mode),
        _ => Err(io::Error::last_os_error()),
    }
}
