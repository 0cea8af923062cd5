//! What a directory holds, read in batches and sorted by inode: on most file systems that is the order on the disk, so
//! that a cold source is read forwards. A batch has a bound, so that a directory of any length needs little memory.

use crate::sys;
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;

/// Entries of one batch, give or take one reading of the kernel's: 5 MB of memory with names of 60 bytes, and enough
/// for the order to matter.
const BATCH: usize = 65_536;

/// One getdents64 fills this: the kernel's work for it takes well under a millisecond.
pub(crate) const READ_BYTES: usize = 64 << 10;

#[derive(Default)]
pub(crate) struct Listing {
    names: Vec<u8>,
    entries: Vec<Listed>,
}

struct Listed {
    ino: u64,
    /// The offset of its name.
    start: u32,
    kind: FileType,
}

impl Listing {
    /// Reads the next batch. Says whether there may be more.
    pub(crate) fn read(&mut self, dir: BorrowedFd<'_>, buffer: &mut [MaybeUninit<u8>]) -> io::Result<bool> {
        self.names.clear();
        self.entries.clear();
        let mut reader = RawDir::new(dir, buffer);
        let mut more = false;
        while let Some(entry) = reader.next() {
            let entry = match entry {
                // It has been removed since it was opened: there is nothing in it.
                Err(Errno::NOENT) => break,
                entry => entry?,
            };
            let name = entry.file_name();
            if name != c"." && name != c".." {
                self.entries.push(Listed {
                    ino: entry.ino(),
                    start: self.names.len() as u32,
                    kind: entry.file_type(),
                });
                self.names.extend_from_slice(name.to_bytes_with_nul());
            }
            if self.entries.len() >= BATCH && reader.is_buffer_empty() {
                more = true;
                break;
            }
        }
        self.entries.sort_unstable_by_key(|entry| entry.ino);
        Ok(more)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The name and the kind of an entry; the kind is unknown where the file system does not tell.
    pub(crate) fn get(&self, index: usize) -> (&CStr, FileType) {
        let entry = &self.entries[index];
        let bytes = &self.names[entry.start as usize..];
        let name = CStr::from_bytes_until_nul(bytes).expect("each name was put in with its zero");
        (name, entry.kind)
    }
}

/// Calls a function for each name in a directory, until it fails or `stopped` returns true.
pub(crate) fn each_name(
    dir: BorrowedFd<'_>,
    buffer: &mut [MaybeUninit<u8>],
    stopped: impl Fn() -> bool,
    mut visit: impl FnMut(&CStr, FileType) -> io::Result<()>,
) -> io::Result<()> {
    let mut more = true;
    while more && !stopped() {
        let mut listing = Listing::default();
        more = listing.read(dir, buffer)?;
        for (name, kind) in (0..listing.len()).map(|index| listing.get(index)) {
            visit(name, kind)?;
        }
    }
    Ok(())
}

/// Counts the entries of a directory.
pub(crate) fn count(dir: BorrowedFd<'_>, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    // With a position of its own.
    let dir = sys::open_dir(dir, c".", false)?;
    let mut reader = RawDir::new(dir, buffer);
    let mut entries: usize = 0;
    while let Some(entry) = reader.next() {
        match entry {
            Err(Errno::NOENT) => break,
            entry => entry?,
        };
        entries += 1;
    }
    // Itself and the one above are not among them.
    Ok(entries.saturating_sub(2))
}

#[cfg(test)]
mod tests {
    use super::{count, Listing, READ_BYTES};
    use crate::sys;
    use rustix::fd::AsFd;
    use std::mem::MaybeUninit;

    #[test]
    fn counting_leaves_the_position_alone() {
        let here = tempfile::tempdir().unwrap();
        for number in 0..1000 {
            std::fs::write(here.path().join(format!("{number}")), "").unwrap();
        }
        let path = std::ffi::CString::new(here.path().as_os_str().as_encoded_bytes()).unwrap();
        let dir = sys::open_dir(rustix::fs::CWD, &path, false).unwrap();
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        assert_eq!(count(dir.as_fd(), &mut buffer).unwrap(), 1000);
        let mut listing = Listing::default();
        assert!(!listing.read(dir.as_fd(), &mut buffer).unwrap());
        assert_eq!(listing.len(), 1000);
        assert_eq!(count(dir.as_fd(), &mut buffer).unwrap(), 1000);
    }
}
