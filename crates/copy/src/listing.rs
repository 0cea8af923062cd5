//! What a directory holds, read in batches and sorted by inode: on most file systems that is the order on the disk, so
//! that a cold source is read forwards. A batch has a bound, so that a directory of any length needs little memory.

use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, RawDir};
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;

/// Entries of one batch, give or take one reading of the kernel's: 5 MB of memory with names of 60 bytes, and enough
/// for the order to matter.
const BATCH: usize = 65_536;

/// What one getdents64 fills: the kernel's work for it takes well under a millisecond.
pub(crate) const READ_BYTES: usize = 64 << 10;

#[derive(Default)]
pub(crate) struct Listing {
    names: Vec<u8>,
    entries: Vec<Listed>,
}

struct Listed {
    ino: u64,
    /// Where its name begins.
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
            let entry = entry?;
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
