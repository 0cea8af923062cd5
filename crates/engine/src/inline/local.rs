//! Whether statx of an open file is answered from memory: on local file systems it is, once the name is cached.
//!
//! Must not block, and asks the kernel once per mount. Linux 6.8 numbers mounts for ever, and tells a mount's kind without
//! asking the file system. Before, a block device's number has to do, and statfs, for which NFS asks its server.

use crate::sys::perform;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// STATX_MNT_ID_UNIQUE, Linux 6.8: a number that no other mount ever has, also of tmpfs and NFS, whose devices' numbers
/// (with the major 0) go from one mount to the next.
pub(super) const UNIQUE_MOUNT: u32 = 0x4000;

/// The file systems that have in memory all that statx asks for, once the name is cached. (An overlay asks those below.)
#[allow(clippy::unnecessary_cast)] // their type is the C library's choice
const LOCAL: [i64; 6] = [
    libc::BTRFS_SUPER_MAGIC as i64,
    libc::EXT4_SUPER_MAGIC as i64, // ext2 and ext3 too
    libc::F2FS_SUPER_MAGIC as i64,
    libc::OVERLAYFS_SUPER_MAGIC as i64,
    libc::TMPFS_MAGIC as i64,
    libc::XFS_SUPER_MAGIC as i64,
];

/// Mounts, or devices, that were asked about last, by their numbers' last bits: to ask costs more than all the rest.
static KNOWN: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

/// In an entry of `KNOWN`: it is local. Numbers of mounts begin at 2^31 and count, those of devices have 32 bits twice.
const IS_LOCAL: u64 = 1 << 63;
/// In an entry of `KNOWN`: it is the number of a device.
const IS_DEVICE: u64 = 1 << 62;

/// The file `fd`, of which statx with `UNIQUE_MOUNT` has said `stat`.
pub(super) fn is_local(fd: RawFd, stat: &libc::statx) -> bool {
    let (key, mount) = if stat.stx_mask & UNIQUE_MOUNT != 0 {
        (Some(stat.stx_mnt_id), Some(stat.stx_mnt_id))
    } else {
        // Linux's major numbers have 12 bits.
        let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
        ((stat.stx_dev_major != 0).then_some(device | IS_DEVICE), None)
    };
    let entry = key.map(|key| &KNOWN[(key % 8) as usize]);
    if let (Some(entry), Some(key)) = (entry, key) {
        let known = entry.load(Ordering::Relaxed);
        if known & !IS_LOCAL == key {
            return known & IS_LOCAL != 0;
        }
    }
    let kind = mount.and_then(perform::file_system_of_mount);
    let Some(kind) = kind.or_else(|| perform::file_system(fd).ok()) else {
        return false;
    };
    let local = LOCAL.contains(&kind);
    if let (Some(entry), Some(key)) = (entry, key) {
        entry.store(key | if local { IS_LOCAL } else { 0 }, Ordering::Relaxed);
    }
    local
}
