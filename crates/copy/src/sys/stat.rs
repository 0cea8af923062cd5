//! What the kernel says of a file.

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp, Timespec};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;

/// A file's device and inode.
pub(crate) type FileId = (u64, u64);

/// The metadata of a file, as far as it is needed.
#[derive(Clone, Copy)]
pub(crate) struct Stat {
    pub(crate) id: FileId,
    /// Type and permissions.
    pub(crate) mode: u32,
    pub(crate) nlink: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u64,
    /// The number of blocks of 512 bytes.
    pub(crate) blocks: u64,
    /// The device that a device file stands for.
    pub(crate) rdev: (u32, u32),
    pub(crate) atime: Timespec,
    pub(crate) mtime: Timespec,
    pub(crate) ctime: Timespec,
}

impl Stat {
    pub(crate) fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    pub(crate) fn is_file(&self) -> bool {
        self.file_type() == FileType::RegularFile
    }

    pub(crate) fn is_symlink(&self) -> bool {
        self.file_type() == FileType::Symlink
    }

    /// Permissions with the set-id and sticky bits.
    pub(crate) fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }

    pub(crate) fn owner(&self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    /// Returns true if contents or metadata were changed between the two looks.
    pub(crate) fn differs(&self, later: &Stat) -> bool {
        (self.size, self.mtime, self.ctime) != (later.size, later.mtime, later.ctime)
    }

    #[allow(clippy::unnecessary_cast)] // their types differ from architecture to architecture
    fn of(from: &rustix::fs::Stat) -> Stat {
        use rustix::fs::{major, minor};
        let time = |seconds: i64, nanoseconds: u64| Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds as _,
        };
        let device = from.st_dev as u64;
        let special = from.st_rdev as u64;
        Stat {
            id: (
                u64::from(major(device)) << 32 | u64::from(minor(device)),
                from.st_ino as u64,
            ),
            mode: from.st_mode as u32,
            nlink: from.st_nlink as u32,
            uid: from.st_uid,
            gid: from.st_gid,
            size: from.st_size as u64,
            blocks: from.st_blocks as u64,
            rdev: (major(special), minor(special)),
            atime: time(from.st_atime as i64, from.st_atime_nsec as u64),
            mtime: time(from.st_mtime as i64, from.st_mtime_nsec as u64),
            ctime: time(from.st_ctime as i64, from.st_ctime_nsec as u64),
        }
    }

    fn new(from: &Statx) -> Stat {
        let time = |t: StatxTimestamp| Timespec {
            tv_sec: t.tv_sec,
            tv_nsec: t.tv_nsec.into(),
        };
        Stat {
            id: (
                u64::from(from.stx_dev_major) << 32 | u64::from(from.stx_dev_minor),
                from.stx_ino,
            ),
            mode: from.stx_mode.into(),
            nlink: from.stx_nlink,
            uid: from.stx_uid,
            gid: from.stx_gid,
            size: from.stx_size,
            blocks: from.stx_blocks,
            rdev: (from.stx_rdev_major, from.stx_rdev_minor),
            atime: time(from.stx_atime),
            mtime: time(from.stx_mtime),
            ctime: time(from.stx_ctime),
        }
    }
}

/// Linux before 4.11. A filter that is older than the call answers with EPERM.
const NO_STATX: Errno = Errno::NOSYS;

/// Looks at an open file.
pub(crate) fn stat(fd: BorrowedFd<'_>) -> io::Result<Stat> {
    match rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS) {
        Err(NO_STATX | Errno::PERM) => Ok(Stat::of(&rustix::fs::fstat(fd)?)),
        found => Ok(Stat::new(&found?)),
    }
}

/// Looks at a name, and through it if it is a link and `follow` says so.
pub(crate) fn stat_at(dir: BorrowedFd<'_>, name: &CStr, follow: bool) -> io::Result<Stat> {
    let flags = if follow {
        AtFlags::empty()
    } else {
        AtFlags::SYMLINK_NOFOLLOW
    };
    match rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS) {
        Err(NO_STATX | Errno::PERM) => Ok(Stat::of(&rustix::fs::statat(dir, name, flags)?)),
        found => Ok(Stat::new(&found?)),
    }
}
