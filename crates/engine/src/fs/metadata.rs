//! What statx says of a file.

use crate::op::{Statx, StatxMask};
use std::fmt;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

/// What a name is: a regular file, a directory, a link or something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileType(libc::mode_t);

impl FileType {
    pub(super) fn of(mode: libc::mode_t) -> Self {
        FileType(mode & libc::S_IFMT)
    }

    /// Whether it is a regular file.
    pub fn is_file(self) -> bool {
        self.0 == libc::S_IFREG
    }

    /// Whether it is a directory.
    pub fn is_dir(self) -> bool {
        self.0 == libc::S_IFDIR
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(self) -> bool {
        self.0 == libc::S_IFLNK
    }

    /// The type bits of a mode, such as `S_IFIFO`.
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// What a file is, how long, whose and from when.
#[derive(Clone)]
pub struct Metadata(Box<libc::statx>);

impl Metadata {
    pub(super) fn new(stat: libc::statx) -> Self {
        Metadata(Box::new(stat))
    }

    /// The op that asks for it.
    pub(super) fn of(mut statx: Statx) -> Statx {
        statx.mask |= StatxMask::BTIME;
        statx
    }

    /// What it is.
    pub fn file_type(&self) -> FileType {
        FileType::of(self.mode())
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type().is_file()
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type().is_dir()
    }

    /// Whether it is a symbolic link, which only [`symlink_metadata`](super::symlink_metadata) tells of.
    pub fn is_symlink(&self) -> bool {
        self.file_type().is_symlink()
    }

    /// The permission bits, for [`set_permissions`](super::set_permissions).
    pub fn permissions(&self) -> Permissions {
        Permissions::from_mode(self.mode() & 0o7777)
    }

    /// The size in bytes.
    #[allow(clippy::len_without_is_empty)] // as in std
    pub fn len(&self) -> u64 {
        self.0.stx_size
    }

    /// The type and the permission bits, as `st_mode` has them.
    pub fn mode(&self) -> u32 {
        self.0.stx_mode.into()
    }

    /// The owner's number.
    pub fn uid(&self) -> u32 {
        self.0.stx_uid
    }

    /// The group's number.
    pub fn gid(&self) -> u32 {
        self.0.stx_gid
    }

    /// The number of the inode.
    pub fn ino(&self) -> u64 {
        self.0.stx_ino
    }

    /// How many names it has.
    pub fn nlink(&self) -> u64 {
        self.0.stx_nlink.into()
    }

    /// When its contents were changed.
    pub fn modified(&self) -> SystemTime {
        time(&self.0.stx_mtime)
    }

    /// When it was read, as far as the file system keeps that.
    pub fn accessed(&self) -> SystemTime {
        time(&self.0.stx_atime)
    }

    /// When it was made. `None` if the file system does not know.
    pub fn created(&self) -> Option<SystemTime> {
        (self.0.stx_mask & libc::STATX_BTIME != 0).then(|| time(&self.0.stx_btime))
    }

    /// All that statx has said.
    pub fn as_statx(&self) -> &libc::statx {
        &self.0
    }
}

fn time(stamp: &libc::statx_timestamp) -> SystemTime {
    let seconds = Duration::from_secs(stamp.tv_sec.unsigned_abs());
    let whole = match stamp.tv_sec {
        ..0 => SystemTime::UNIX_EPOCH - seconds,
        _ => SystemTime::UNIX_EPOCH + seconds,
    };
    whole + Duration::from_nanos(stamp.tv_nsec.into())
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata")
            .field("mode", &format_args!("{:o}", self.mode()))
            .field("len", &self.len())
            .field("modified", &self.modified())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch() {
        // SAFETY: plain integers.
        let mut stamp: libc::statx_timestamp = unsafe { std::mem::zeroed() };
        stamp.tv_sec = -2;
        stamp.tv_nsec = 500_000_000;
        assert_eq!(time(&stamp), SystemTime::UNIX_EPOCH - Duration::from_millis(1500));
        stamp.tv_sec = 2;
        assert_eq!(time(&stamp), SystemTime::UNIX_EPOCH + Duration::from_millis(2500));
    }
}
