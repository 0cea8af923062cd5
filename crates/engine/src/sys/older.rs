//! Substitutes for system calls that a seccomp filter does not know.
//!
//! Old container hosts have filters that answer an unknown call with EPERM. The C library substitutes
//! an older call only after ENOSYS, so this module does it after EPERM. If EPERM was the file's own
//! answer, the older call gives the same one.

use super::raw;
use crate::op::RwFlags;
use std::os::fd::RawFd;

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

impl Way {
    /// Calls `preadv2` or `pwritev2` (Linux 4.6).
    ///
    /// # Safety
    /// The segments must be valid for the transfer.
    pub(super) unsafe fn call(self, fd: RawFd, iovecs: &[libc::iovec], offset: i64, flags: RwFlags) -> i32 {
        let (ptr, count) = (iovecs.as_ptr(), iovecs.len() as i32);
        // SAFETY: as promised by the caller.
        raw(unsafe {
            match self {
                Way::Read => libc::preadv2(fd, ptr, count, offset, flags.bits()),
                Way::Write => libc::pwritev2(fd, ptr, count, offset, flags.bits()),
            }
        } as i64)
    }

    /// Makes the older call after `call` got EPERM. Returns EOPNOTSUPP for flags that it lacks.
    ///
    /// # Safety
    /// As `call`.
    #[cold]
    pub(super) unsafe fn call_older(
        self,
        fd: RawFd,
        iovecs: &[libc::iovec],
        offset: i64,
        flags: RwFlags,
    ) -> i32 {
        if flags != RwFlags::NONE {
            // Without a descriptor the call itself answers EBADF, and only a filter answers EPERM.
            // SAFETY: there are no segments.
            let forbidden = unsafe { self.call(-1, &[], 0, RwFlags::NONE) } == -libc::EPERM;
            return if forbidden {
                -libc::EOPNOTSUPP
            } else {
                -libc::EPERM
            };
        }
        let (ptr, count) = (iovecs.as_ptr(), iovecs.len() as i32);
        // SAFETY: as promised by the caller.
        raw(unsafe {
            match (self, offset) {
                (Way::Read, ..0) => libc::readv(fd, ptr, count),
                (Way::Read, _) => libc::preadv(fd, ptr, count, offset),
                (Way::Write, ..0) => libc::writev(fd, ptr, count),
                (Way::Write, _) => libc::pwritev(fd, ptr, count, offset),
            }
        } as i64)
    }
}

/// Fills a `statx` struct by `fstatat(2)`, except for the time of birth, the attributes and the mount.
///
/// The path must be NUL-terminated and outlive the call.
#[cold]
#[allow(clippy::unnecessary_cast)] // the fields' types depend on the architecture
pub(super) fn statx(dir: RawFd, path: *const libc::c_char, flags: i32, to: &mut libc::statx) -> i32 {
    const SYNC_TYPE: i32 = libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;
    // SAFETY: zero is a valid initial value; the struct outlives the call, and the caller promises
    // that for the path.
    let (res, stat) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        let res = libc::fstatat(dir, path, &raw mut stat, flags & !SYNC_TYPE);
        (raw(res.into()), stat)
    };
    if res < 0 {
        return res;
    }
    let time = |seconds: i64, nanoseconds: i64| {
        // SAFETY: zero is a valid value of this plain struct.
        let mut time: libc::statx_timestamp = unsafe { std::mem::zeroed() };
        (time.tv_sec, time.tv_nsec) = (seconds, nanoseconds as u32);
        time
    };
    // SAFETY: zero is a valid value of this plain struct.
    *to = unsafe { std::mem::zeroed() };
    to.stx_mask = libc::STATX_BASIC_STATS;
    to.stx_blksize = stat.st_blksize as u32;
    to.stx_nlink = stat.st_nlink as u32;
    (to.stx_uid, to.stx_gid) = (stat.st_uid, stat.st_gid);
    to.stx_mode = stat.st_mode as u16;
    to.stx_ino = stat.st_ino as u64;
    to.stx_size = stat.st_size as u64;
    to.stx_blocks = stat.st_blocks as u64;
    to.stx_atime = time(stat.st_atime as i64, stat.st_atime_nsec as i64);
    to.stx_mtime = time(stat.st_mtime as i64, stat.st_mtime_nsec as i64);
    to.stx_ctime = time(stat.st_ctime as i64, stat.st_ctime_nsec as i64);
    (to.stx_dev_major, to.stx_dev_minor) = (libc::major(stat.st_dev) as u32, libc::minor(stat.st_dev) as u32);
    (to.stx_rdev_major, to.stx_rdev_minor) =
        (libc::major(stat.st_rdev) as u32, libc::minor(stat.st_rdev) as u32);
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    /// Both calls give the same facts.
    #[test]
    fn statx_by_fstatat_says_the_same() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"some bytes").unwrap();
        for path in [file.path().to_str().unwrap(), "/dev/null", "/"] {
            let path = std::ffi::CString::new(path).unwrap();
            // SAFETY: zero is a valid initial value.
            let (mut newer, mut older): (libc::statx, libc::statx) = unsafe { std::mem::zeroed() };
            let mask = libc::STATX_BASIC_STATS;
            // SAFETY: path and struct outlive the call.
            let res = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, mask, &raw mut newer) };
            assert_eq!(res, 0);
            assert_eq!(statx(libc::AT_FDCWD, path.as_ptr(), 0, &mut older), 0);
            let all = |s: &libc::statx| {
                let times = [s.stx_atime, s.stx_mtime, s.stx_ctime].map(|t| (t.tv_sec, t.tv_nsec));
                let devices = [
                    s.stx_dev_major,
                    s.stx_dev_minor,
                    s.stx_rdev_major,
                    s.stx_rdev_minor,
                ];
                let numbers = [s.stx_ino, s.stx_size, s.stx_blocks, s.stx_blksize.into()];
                let who = [s.stx_nlink, s.stx_uid, s.stx_gid, s.stx_mode.into()];
                (times, devices, numbers, who)
            };
            assert_eq!(all(&newer), all(&older), "{path:?}");
            assert_eq!(older.stx_mask, libc::STATX_BASIC_STATS);
        }
    }

    #[test]
    fn transfers_by_older_calls() {
        let file = tempfile::tempfile().unwrap();
        let fd = file.as_raw_fd();
        let part = |bytes: &mut [u8]| crate::sys::perform::iovec(bytes.as_ptr(), bytes.len());
        let older = |way: Way, iovec, offset, flags| {
            // SAFETY: the segment is one of the live buffers below.
            unsafe { way.call_older(fd, &[iovec], offset, flags) }
        };
        assert_eq!(
            older(Way::Write, part(&mut b"abc".to_owned()), -1, RwFlags::NONE),
            3
        );
        assert_eq!(
            older(Way::Write, part(&mut b"XY".to_owned()), 1, RwFlags::NONE),
            2
        );
        let mut buffer = [0; 4];
        assert_eq!(older(Way::Read, part(&mut buffer), 0, RwFlags::NONE), 3);
        assert_eq!(&buffer[..3], b"aXY");
        assert_eq!(
            older(Way::Read, part(&mut buffer), -1, RwFlags::NONE),
            0,
            "at the end"
        );
        let refused = older(Way::Read, part(&mut buffer), 0, RwFlags::NOWAIT);
        assert_eq!(
            refused,
            -libc::EPERM,
            "here the newer calls are known, so the file meant it"
        );
    }
}
