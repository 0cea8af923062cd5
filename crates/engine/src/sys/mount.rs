//! What kind of file system an open file is on, as far as reads and statx depend on it.
//!
//! Must not block, and asks the kernel once per mount. Linux 6.8 numbers mounts for ever, and tells a mount's kind without
//! asking the file system. Before, a block device's number has to do, and statfs, for which NFS and FUSE ask their server.

use super::perform;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// STATX_MNT_ID_UNIQUE, Linux 6.8: a number that no other mount ever has, also of tmpfs and NFS, whose devices' numbers
/// (with the major 0) go from one mount to the next.
pub(crate) const UNIQUE_MOUNT: u32 = 0x4000;

/// One type of file system.
struct Type {
    /// As /proc/self/mountinfo has it.
    names: &'static [&'static str],
    magic: i64,
    /// Its asynchronous transfers were compared with `pread` and `pwrite` by tests.
    tested: bool,
    /// It has in memory all that statx asks for, once the name is cached. (An overlay asks those below.)
    local: bool,
}

/// The types of which something is known. Every other one is neither tested nor local.
#[allow(clippy::unnecessary_cast)] // the type of the numbers is the C library's choice
const TYPES: &[Type] = &[
    Type {
        names: &["ext2", "ext3", "ext4"],
        magic: libc::EXT4_SUPER_MAGIC as i64,
        tested: true,
        local: true,
    },
    Type {
        names: &["xfs"],
        magic: libc::XFS_SUPER_MAGIC as i64,
        tested: true,
        local: true,
    },
    Type {
        names: &["btrfs"],
        magic: libc::BTRFS_SUPER_MAGIC as i64,
        tested: true,
        local: true,
    },
    Type {
        names: &["tmpfs", "devtmpfs"],
        magic: libc::TMPFS_MAGIC as i64,
        tested: true,
        local: true,
    },
    Type {
        names: &["overlay"],
        magic: libc::OVERLAYFS_SUPER_MAGIC as i64,
        tested: true,
        local: true,
    },
    Type {
        names: &["f2fs"],
        magic: libc::F2FS_SUPER_MAGIC as i64,
        tested: false,
        local: true,
    },
];

/// What is known of the file system of one mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits {
    pub(crate) tested: bool,
    pub(crate) local: bool,
}

impl Traits {
    const UNKNOWN: Traits = Traits {
        tested: false,
        local: false,
    };

    fn of_type(magic: i64) -> Self {
        let known = TYPES.iter().find(|kind| kind.magic == magic);
        known.map_or(Self::UNKNOWN, |kind| Traits {
            tested: kind.tested,
            local: kind.local,
        })
    }
}

/// Whether transfers on file systems with this name in /proc/self/mountinfo go to the kernel's queues.
pub(crate) fn is_tested(name: &str) -> bool {
    TYPES.iter().any(|kind| kind.tested && kind.names.contains(&name))
}

/// Mounts, or devices, that were asked about last, by their numbers' last bits: to ask costs more than all the rest.
static KNOWN: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

/// In an entry of `KNOWN`: its file system is local. Numbers of mounts begin at 2^31 and count, those of devices have 12
/// and 20 bits in two halves.
const IS_LOCAL: u64 = 1 << 63;
/// In an entry of `KNOWN`: it is the number of a device.
const IS_DEVICE: u64 = 1 << 62;
/// In an entry of `KNOWN`: its file system's transfers were tested.
const IS_TESTED: u64 = 1 << 61;

/// The file system of the file `fd`, of which statx with `UNIQUE_MOUNT` has said `stat`.
pub(crate) fn traits(fd: RawFd, stat: &libc::statx) -> Traits {
    let (key, mount) = if stat.stx_mask & UNIQUE_MOUNT != 0 {
        (Some(stat.stx_mnt_id), Some(stat.stx_mnt_id))
    } else {
        let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
        ((stat.stx_dev_major != 0).then_some(device | IS_DEVICE), None)
    };
    let entry = key.map(|key| &KNOWN[(key % 8) as usize]);
    if let (Some(entry), Some(key)) = (entry, key) {
        let known = entry.load(Ordering::Relaxed);
        if known & !(IS_LOCAL | IS_TESTED) == key {
            return Traits {
                tested: known & IS_TESTED != 0,
                local: known & IS_LOCAL != 0,
            };
        }
    }
    let kind = mount.and_then(perform::file_system_of_mount);
    let Some(kind) = kind.or_else(|| perform::file_system(fd).ok()) else {
        return Traits::UNKNOWN;
    };
    let traits = Traits::of_type(kind);
    if let (Some(entry), Some(key)) = (entry, key) {
        let local = if traits.local { IS_LOCAL } else { 0 };
        let tested = if traits.tested { IS_TESTED } else { 0 };
        entry.store(key | local | tested, Ordering::Relaxed);
    }
    traits
}

/// Whether the kernel's queues (io_uring, Linux AIO) may transfer to and from this file.
///
/// They go other ways through a file system than `pread` and `pwrite`, and not all file systems are right there: of a FUSE
/// file that is opened with direct I/O, io_uring counts a short read twice (Linux 6.18). True for everything that is not a
/// regular file.
pub(crate) fn may_queue(fd: RawFd) -> bool {
    // SAFETY: zero is a valid value of this plain struct.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let mask = libc::STATX_TYPE | UNIQUE_MOUNT;
    if perform::statx(fd, c"".as_ptr(), flags, mask, &mut stat) < 0 {
        // No file: the op says so wherever it is done.
        return true;
    }
    u32::from(stat.stx_mode) & libc::S_IFMT != libc::S_IFREG || traits(fd, &stat).tested
}
