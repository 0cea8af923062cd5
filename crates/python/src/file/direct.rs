//! Opening with O_DIRECT.

use proactor_engine::op::{File, FileKind};
use proactor_engine::Error;
use proactor_file::Direct;
use std::os::fd::AsRawFd;
use std::sync::Arc;

const NO_DIRECT: &str =
    "direct=True, and this file cannot be used with O_DIRECT (a matter of its file system)";
const NOT_DIRECT: &str = "direct=True, and this descriptor was not opened with O_DIRECT";

/// The size of a buffer in bytes, unless the caller names one. One block is read ahead at most, so that a short one would
/// leave the device idle.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;

/// What a file that was just opened needs for O_DIRECT.
pub(super) fn of(file: &File) -> Result<Arc<Direct>, Error> {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags & libc::O_DIRECT == 0 {
        return Err(Error::new(libc::EINVAL, "open").with_hint(NOT_DIRECT));
    }
    // A pipe takes the flag for something else.
    match (file.kind(), Direct::of(file)) {
        (Ok(FileKind::Disk), Ok(direct)) => Ok(Arc::new(direct)),
        _ => Err(refused()),
    }
}

/// What EINVAL from an open with O_DIRECT means.
pub(super) fn refused() -> Error {
    Error::new(libc::EINVAL, "open").with_hint(NO_DIRECT)
}
