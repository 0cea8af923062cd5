//! How long what is written stays as it is without reaching the disk: as long as the machine runs and the file system
//! stays mounted.

use crate::pair::digest::Digest;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, StatxFlags};

/// `STATX_MNT_ID_UNIQUE`, since Linux 6.8: an id that no later mount gets. The older one may come again.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The life of the page cache that an open file is in. One that is not known is never the same as another.
pub(super) fn life(fd: impl AsFd) -> u64 {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| {
        let mut bytes = vec![0; 16];
        let _ = rustix::rand::getrandom(bytes.as_mut_slice(), rustix::rand::GetRandomFlags::NONBLOCK);
        bytes
    });
    let mount = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, MNT_ID_UNIQUE)
        .ok()
        .filter(|found| found.stx_mask & MNT_ID_UNIQUE.bits() != 0)
        .map_or(0, |found| found.stx_mnt_id);
    Digest::new().bytes(&boot).word(mount).value()
}
