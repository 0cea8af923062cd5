//! The type of the file system that an open file is on, as far as transfers and statx depend on it.
//!
//! The answer is cached by mount, so the kernel is asked once for each. Since Linux 6.8 a mount has
//! a number that is never used again, and statmount tells the type without asking the file system.
//! Older kernels give the number of a block device, and statfs, for which NFS and FUSE ask their
//! server.

use super::{overlay, perform};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// STATX_MNT_ID_UNIQUE (Linux 6.8) asks for the mount's number, which no other mount ever has. Device
/// numbers of tmpfs and NFS, whose major number is 0, pass from one mount to the next.
pub(crate) const UNIQUE_MOUNT: u32 = 0x4000;

/// A type of file system.
struct Type {
    /// Its names in /proc/self/mountinfo.
    names: &'static [&'static str],
    magic: i64,
    /// Tests compare its asynchronous transfers with `pread` and `pwrite`.
    tested: bool,
    /// statx finds all that it reports in memory, once the name is cached.
    local: bool,
}

const OVERLAY: i64 = 0x794c_7630;

/// The types with known traits. All others are neither tested nor local.
#[allow(clippy::unnecessary_cast)] // the C library chooses the constants' type
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
    // As far as its layers are: see `of_layers`.
    Type {
        names: &["overlay"],
        magic: OVERLAY,
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

/// The traits of one mount's file system.
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

    fn and(self, other: Traits) -> Self {
        Traits {
            tested: self.tested && other.tested,
            local: self.local && other.local,
        }
    }
}

/// Tells whether io_uring and Linux AIO transfer on file systems with this name in mountinfo.
pub(crate) fn is_tested(name: &str) -> bool {
    TYPES.iter().any(|kind| kind.tested && kind.names.contains(&name))
}

/// The mounts or devices asked about last, placed by the last bits of their numbers: a question
/// to the kernel costs more than the rest of a cached read's bookkeeping.
static KNOWN: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

/// A flag in `KNOWN`: the file system is local. It is free, as numbers of mounts count from 2^31 and
/// those of devices have 12 and 20 bits in two halves.
const IS_LOCAL: u64 = 1 << 63;
/// A flag in `KNOWN`: the number is that of a device.
const IS_DEVICE: u64 = 1 << 62;
/// A flag in `KNOWN`: the transfers of the file system are tested.
const IS_TESTED: u64 = 1 << 61;

/// Overlays lie on at most this many others (the kernel's FILESYSTEM_MAX_STACK_DEPTH).
const MAX_STACKED: u32 = 2;

/// Returns the traits of the file system of `fd`, whose statx with `UNIQUE_MOUNT` is `stat`.
pub(crate) fn traits(fd: RawFd, stat: &libc::statx) -> Traits {
    traits_of(fd, stat, MAX_STACKED)
}

fn traits_of(fd: RawFd, stat: &libc::statx, stacked: u32) -> Traits {
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
    let mut traits = Traits::of_type(kind);
    if kind == OVERLAY && stacked > 0 {
        let layers = match mount {
            Some(_) => of_layers(fd, stacked),
            None => of_layers_lately(fd, stacked),
        };
        // Without /proc the layers cannot be known. They are asked for again next time.
        let Some(layers) = layers else {
            return traits;
        };
        traits = traits.and(layers);
    }
    if let (Some(entry), Some(key)) = (entry, key) {
        let local = if traits.local { IS_LOCAL } else { 0 };
        let tested = if traits.tested { IS_TESTED } else { 0 };
        entry.store(key | local | tested, Ordering::Relaxed);
    }
    traits
}

/// Returns the traits that all layers of an overlay have. A transfer on its file is done by the
/// layer's file system, with that one's faults.
fn of_layers(fd: RawFd, stacked: u32) -> Option<Traits> {
    let layers = overlay::layers(fd).ok()?;
    let each = layers.iter().filter_map(|layer| {
        let stat = type_and_mount(layer.as_raw_fd())?;
        Some(traits_of(layer.as_raw_fd(), &stat, stacked - 1))
    });
    let all = Traits {
        tested: true,
        local: true,
    };
    Some(each.fold(all, Traits::and))
}

/// An older kernel's mount of an overlay has no number of its own, so its traits are kept for a
/// moment only.
fn of_layers_lately(fd: RawFd, stacked: u32) -> Option<Traits> {
    const KEPT: Duration = Duration::from_secs(1);
    static LATELY: Mutex<Option<(u64, Instant, Traits)>> = Mutex::new(None);
    let mount = overlay::mount_id(fd).ok()?;
    // Another thread's lock may have been copied by a fork: nothing waits for it.
    if let Ok(Some((_, _, traits))) = LATELY
        .try_lock()
        .map(|kept| kept.filter(|(known, since, _)| *known == mount && since.elapsed() < KEPT))
    {
        return Some(traits);
    }
    let traits = of_layers(fd, stacked)?;
    if let Ok(mut kept) = LATELY.try_lock() {
        *kept = Some((mount, Instant::now(), traits));
    }
    Some(traits)
}

/// Asks for a file's type and its mount, which no file system has to look up.
fn type_and_mount(fd: RawFd) -> Option<libc::statx> {
    // SAFETY: zero is a valid value of this plain struct.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let mask = libc::STATX_TYPE | UNIQUE_MOUNT;
    (perform::statx(fd, c"".as_ptr(), flags, mask, &mut stat) >= 0).then_some(stat)
}

/// Tells whether io_uring and Linux AIO may transfer to and from this file.
///
/// They take other ways through a file system than `pread` and `pwrite`, and some file systems are
/// wrong there: io_uring counts a short read of a FUSE file with direct I/O twice (Linux 6.18). Files
/// that are not regular ones may always be queued.
pub(crate) fn may_queue(fd: RawFd) -> bool {
    match type_and_mount(fd) {
        // There is no file: the op fails with that wherever it is done.
        None => true,
        Some(stat) => u32::from(stat.stx_mode) & libc::S_IFMT != libc::S_IFREG || traits(fd, &stat).tested,
    }
}
