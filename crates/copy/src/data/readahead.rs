//! Cold sources: files whose contents are on a device are asked for before it is their turn, so that the device has many
//! requests at once and not one from each thread.
//!
//! A share of a batch is asked for while the one before it is copied, in the order of inodes: each file is opened, the
//! kernel told to begin reading it, and closed. Whether that is needed is learnt by the first read of a share, which does
//! not wait: from files in memory it costs nothing more than any other read. Knows nothing of what is copied how.

use crate::sys;
use crate::sys::listing::Listing;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::FileType;
use std::io;
use std::ops::Range;

/// The bytes that are asked for of each file. The kernel's own readahead is better at the rest of a long one, which
/// it reads into large folios: asked for piece by piece, a file of 512 MiB took twice the CPU time.
const REQUEST_BYTES: u64 = 128 << 10;

/// The state of a thread's sources, as far as it is known.
#[derive(Default)]
pub(crate) struct Readahead {
    /// The last look found contents that are not in memory.
    cold: bool,
    /// The next read is to look.
    look: bool,
    /// The file system cannot tell.
    blind: bool,
}

impl Readahead {
    pub(crate) fn is_cold(&self) -> bool {
        self.cold
    }

    /// Returns true if contents are probably in memory, and the next read is not to look.
    pub(crate) fn is_warm(&self) -> bool {
        !self.cold && !self.look
    }

    /// The next file's first read shall look. While sources are cold it would find what was asked for; `ask` looks then.
    pub(crate) fn look(&mut self) {
        self.look = !self.blind && !self.cold;
    }

    /// Reads at an offset until the buffer is full or the file ends.
    pub(crate) fn read(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        if std::mem::take(&mut self.look) {
            done = self.look_at(fd, buffer, offset);
        }
        Ok(done + sys::read_at(fd, &mut buffer[done..], offset + done as u64)?)
    }

    /// Reads what is in memory, and remembers whether that was all.
    fn look_at(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> usize {
        let found = sys::read_cached(fd, buffer, offset);
        self.learn(found, buffer.len())
    }

    /// Learns from a read that does not wait, of `wanted` bytes. Returns how many were found.
    fn learn(&mut self, found: rustix::io::Result<Option<usize>>, wanted: usize) -> usize {
        self.blind = found.is_err();
        let length = found.ok().flatten().unwrap_or(0);
        self.cold = !self.blind && length < wanted;
        length
    }

    /// Asks for some files of a directory, unless the first of them is in memory already.
    pub(crate) fn ask(&mut self, dir: BorrowedFd<'_>, listing: &Listing, share: Range<usize>) {
        let mut look = true;
        for index in share {
            let (name, kind) = listing.get(index);
            if kind != FileType::RegularFile {
                continue;
            }
            // What goes wrong is found again, and told, when the file is copied.
            let Ok(fd) = sys::open_source(dir, name, false, false) else {
                continue;
            };
            if std::mem::take(&mut look) {
                self.look_at(fd.as_fd(), &mut [0], 0);
                if !self.cold {
                    return;
                }
            }
            sys::will_need(fd.as_fd(), 0, REQUEST_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Advice;
    use rustix::io::Errno;
    use std::io::Write;

    /// 4096 bytes that are on the device, and not in memory if the file system has one.
    fn file() -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 4096]).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        file
    }

    /// A read that does not wait has the kernel begin all the same. Where the device is done before the thread looks, as
    /// one that answers at once always is, the contents were in memory; so no file is cold for certain.
    #[test]
    fn what_a_look_finds_tells() {
        let mut readahead = Readahead::default();
        for (found, length, cold) in [(None, 0, true), (Some(4096), 4096, false), (Some(100), 100, true)] {
            assert_eq!(readahead.learn(Ok(found), 4096), length);
            assert_eq!((readahead.is_cold(), readahead.blind), (cold, false));
        }
        // The next share is not looked at: this file system cannot tell.
        assert_eq!(readahead.learn(Err(Errno::OPNOTSUPP), 4096), 0);
        readahead.look();
        assert_eq!(
            (readahead.is_cold(), readahead.blind, readahead.look),
            (false, true, false)
        );
    }

    #[test]
    fn a_look_reads_what_a_read_would() {
        let (file, mut buffer) = (file(), [0; 5000]);
        for _ in 0..2 {
            let mut readahead = Readahead::default();
            readahead.look();
            assert_eq!(readahead.read(file.as_fd(), &mut buffer, 0).unwrap(), 4096);
            assert!(buffer[..4096] == [1; 4096] && !readahead.look);
        }
    }

    /// It may have been asked for.
    #[test]
    fn nobody_looks_while_it_is_cold() {
        let mut readahead = Readahead::default();
        for cold in [true, false] {
            readahead.cold = cold;
            readahead.look();
            assert_eq!(readahead.look, !cold);
        }
    }

    #[test]
    fn no_read_looks_unasked() {
        let mut readahead = Readahead::default();
        assert_eq!(readahead.read(file().as_fd(), &mut [0; 100], 4000).unwrap(), 96);
        assert!(!readahead.is_cold());
    }
}
