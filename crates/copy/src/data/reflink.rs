//! Sharing blocks instead of copying them (reflinks): for which files it is tried, and what is learnt from that.

use crate::api::options::{Reflink, Sparse};
use crate::data::content::{Ends, Moved, Trouble};
use crate::data::DataCopier;
use crate::sys;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Shorter files that are in memory are not cloned: XFS needs more time for a clone than for a copy, 1.6 s and 1.3
/// for 50,000 of 4 KB. The space is not saved then, unless `Reflink::Always` asks for that. If a file is not in
/// memory a clone saves the reading: 2.2 s and 2.4.
const WORTH_CLONING_BYTES: u64 = 16 << 10;

/// The file system on which clones of all files are quicker: 50,000 with 4 KB took 2.2 s and 3.9, not in memory 2.6
/// and 5.4; 30,000 with 300 bytes, which have no blocks of their own, 1.1 and 1.5.
const SHORT: u64 = sys::BTRFS;

/// The clones that a thread has tried.
#[derive(Default)]
pub(crate) struct Reflinks {
    /// Devices between which blocks cannot be shared.
    refused: Option<(u64, u64)>,
    /// The last attempt was a success.
    work: bool,
}

impl Reflinks {
    /// Returns true if it is known that blocks cannot be shared between two devices.
    pub(crate) fn are_refused(&self, devices: (u64, u64)) -> bool {
        self.refused == Some(devices)
    }

    /// Returns true if the last clone succeeded, so that contents are probably not read.
    pub(crate) fn work(&self) -> bool {
        self.work
    }
}

impl DataCopier<'_> {
    /// Returns true if sharing blocks is wanted, worth it, and not known to be in vain. `to` is anything on the
    /// target's device.
    pub(crate) fn may_clone(&self, size: u64, to: BorrowedFd<'_>, devices: (u64, u64)) -> bool {
        let options = self.context.options;
        match options.reflink {
            Reflink::Never => false,
            Reflink::Always => true,
            Reflink::Auto => {
                options.sparse != Sparse::Never
                    && !self.reflinks.are_refused(devices)
                    && (size >= WORTH_CLONING_BYTES
                        || self.readahead.is_cold()
                        || self.file_system.of(to, devices.1) == SHORT)
            }
        }
    }

    /// Shares the blocks, if that is wanted and works.
    pub(crate) fn cloned(&mut self, ends: Ends<'_>) -> Result<Option<Moved>, Trouble> {
        if !self.may_clone(ends.size, ends.to, ends.devices) {
            return Ok(None);
        }
        let mut done = sys::clone_range(ends.to, ends.from, ends.size);
        if done == Err(Errno::INVAL) && self.context.options.reflink == Reflink::Always {
            // It may have grown since it was looked at: there are no ends within a block, but for a file's own.
            done = rustix::fs::ioctl_ficlone(ends.to, ends.from)
                .and_then(|()| rustix::fs::ftruncate(ends.to, ends.size));
        }
        self.reflinks.work = done.is_ok();
        match done {
            Ok(()) => {
                self.context.observer.progress(ends.size);
                Ok(Some(Moved {
                    shared: ends.size,
                    ..Moved::default()
                }))
            }
            Err(error) if self.context.options.reflink == Reflink::Always => {
                Err(Trouble::Clone(error.into()))
            }
            Err(error) => {
                // Everything else is about this file alone.
                if matches!(
                    error,
                    Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS
                ) {
                    self.reflinks.refused = Some(ends.devices);
                }
                Ok(None)
            }
        }
    }
}
