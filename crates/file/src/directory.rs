//! Reading a directory: a worker fills a batch of entries, and the caller takes them out.
//!
//! The kernel has no asynchronous getdents64, and cannot say whether a call would wait. This module does no
//! I/O itself: the op does.

use crate::memory;
use proactor_engine::op::{Blocking, File};
use proactor_engine::Opens;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The op's name in errors.
const NAME: &str = "scandir";

/// Size in bytes of the first batch: a thousand entries with short names.
const FIRST_BYTES: usize = 32 * 1024;
/// Size in bytes of later batches: a wake-up costs as much as 100 entries.
const LATER_BYTES: usize = 128 * 1024;
/// Upper bound on a batch, whatever the caller asks for: the memory is touched before it is filled.
const MOST_BYTES: usize = 1 << 20;
/// Size in bytes that fits every entry: a name of 255 bytes after `NAME_AT` others, padded.
const LONGEST_BYTES: usize = 280;

/// A directory, given by its path or by a descriptor of the caller's. The first read opens it.
#[derive(Clone)]
pub struct Directory(Arc<Mutex<State>>);

struct State {
    source: Source,
    open: Option<File>,
    /// Entries that have been read and not taken yet.
    batch: Batch,
    limit: usize,
}

enum Source {
    Path(CString),
    Descriptor(RawFd),
}

impl Directory {
    /// Names a directory by its path.
    pub fn at(path: CString) -> Self {
        Self::new(Source::Path(path))
    }

    /// Names the directory that is open as `fd`, which stays the caller's. As with `os.scandir`, reading
    /// moves its position, which is reset to the beginning at the end.
    pub fn of(fd: RawFd) -> Self {
        Self::new(Source::Descriptor(fd))
    }

    fn new(source: Source) -> Self {
        Directory(Arc::new(Mutex::new(State {
            source,
            open: None,
            batch: Batch::default(),
            limit: FIRST_BYTES,
        })))
    }

    /// Opens the directory if it is not open yet, and reads a batch of at most `most_bytes` (by default a
    /// sensible size). One read at a time.
    pub fn read(&self, most_bytes: Option<usize>) -> Blocking {
        let directory = self.clone();
        let mut op = Blocking::new(NAME, move |_| directory.state().read(most_bytes).map(|()| 0));
        op.opens = self.state().open.is_none().then_some(Opens::Kept);
        op
    }

    /// Takes the batch that has been read.
    pub fn take(&self) -> Batch {
        std::mem::take(&mut self.state().batch)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn read(&mut self, most_bytes: Option<usize>) -> io::Result<()> {
        let fd = match &self.open {
            Some(fd) => fd.as_raw_fd(),
            None => self.open.insert(File::counted(self.source.open()?)).as_raw_fd(),
        };
        let mut bytes = memory::zeroed(most_bytes.unwrap_or(self.limit).min(MOST_BYTES))?;
        let (mut filled, mut is_last) = (0, false);
        // Learning that there is no more takes another call, and would take another wake-up.
        while !is_last && (filled == 0 || filled + LONGEST_BYTES <= bytes.len()) {
            match entries(fd, &mut bytes[filled..]) {
                Ok(0) => is_last = true,
                Ok(count) => filled += count,
                // The next read will meet it again.
                Err(_) if filled > 0 => break,
                Err(e) => return Err(e),
            }
        }
        bytes.truncate(filled);
        self.batch = Batch {
            bytes,
            at: 0,
            is_last,
        };
        self.limit = LATER_BYTES;
        Ok(())
    }
}

/// Calls getdents64(2) and returns the number of bytes that hold entries now; 0 at the end.
fn entries(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is alive and of this size.
    let read = unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len()) };
    usize::try_from(read).or_else(|_| match io::Error::last_os_error() {
        // Removed meanwhile: as empty as readdir(3) finds it.
        e if e.raw_os_error() == Some(libc::ENOENT) => Ok(0),
        e => Err(e),
    })
}

impl Drop for State {
    fn drop(&mut self) {
        if let (Some(fd), Source::Descriptor(_)) = (&self.open, &self.source) {
            // SAFETY: no pointers. The caller's descriptor shares the position.
            unsafe { libc::lseek(fd.as_raw_fd(), 0, libc::SEEK_SET) };
        }
    }
}

impl Source {
    fn open(&self) -> io::Result<OwnedFd> {
        // SAFETY: the path is NUL-terminated and outlives the call; a descriptor that is returned is ours.
        unsafe {
            let fd = match self {
                Source::Path(path) => {
                    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC | libc::O_NONBLOCK;
                    libc::open(path.as_ptr(), flags)
                }
                Source::Descriptor(fd) => libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, 0),
            };
            match fd {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(OwnedFd::from_raw_fd(fd)),
            }
        }
    }
}

/// Entries of one read, as the kernel wrote them.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    at: usize,
    is_last: bool,
}

/// One entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Name, without a NUL.
    pub name: &'a [u8],
    /// Inode number.
    pub inode: u64,
    /// Type: `DT_REG` and so on, or DT_UNKNOWN where the file system does not say.
    pub kind: u8,
}

// `struct linux_dirent64`: the inode number, an offset, the record's length, the kind, the name with a NUL and padding.
const LENGTH_AT: usize = 16;
const KIND_AT: usize = 18;
const NAME_AT: usize = 19;

impl Batch {
    /// Returns true if nothing was read (`.` and `..` count as entries here).
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns true if the directory has no more entries than these.
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// Takes the next entry, skipping `.` and `..`; `None` at the end of the batch.
    pub fn take(&mut self) -> Option<Entry<'_>> {
        loop {
            let record = self.bytes.get(self.at..).filter(|rest| rest.len() > NAME_AT)?;
            let length = usize::from(u16::from_ne_bytes([record[LENGTH_AT], record[LENGTH_AT + 1]]));
            let start = self.at + NAME_AT;
            let end = self.at + length;
            assert!(start < end && end <= self.bytes.len(), "a broken directory entry");
            let name_bytes = self.bytes[start..end].iter().position(|byte| *byte == 0);
            let name = start..start + name_bytes.unwrap_or(end - start);
            if !matches!(&self.bytes[name.clone()], b"." | b"..") {
                let record = &self.bytes[self.at..end];
                self.at = end;
                return Some(Entry {
                    name: &self.bytes[name],
                    inode: u64::from_ne_bytes(std::array::from_fn(|at| record[at])),
                    kind: record[KIND_AT],
                });
            }
            self.at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proactor_engine::Driver;
    use std::collections::BTreeSet;
    use std::fs;

    /// Returns all names, read in batches of this size.
    fn names(
        directory: &Directory,
        most_bytes: Option<usize>,
    ) -> Result<Vec<Vec<u8>>, proactor_engine::Error> {
        let mut driver = Driver::new().expect("a driver");
        let mut found = Vec::new();
        loop {
            driver.run(directory.read(most_bytes))?;
            let mut batch = directory.take();
            while let Some(entry) = batch.take() {
                found.push(entry.name.to_vec());
            }
            if batch.is_last() {
                return Ok(found);
            }
        }
    }

    fn path_of(folder: &tempfile::TempDir) -> CString {
        CString::new(folder.path().as_os_str().as_encoded_bytes()).expect("a path")
    }

    #[test]
    fn all_entries_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let expected: BTreeSet<_> = (0..500)
            .map(|number| format!("{number:0>40}").into_bytes())
            .collect();
        for name in &expected {
            fs::write(
                folder.path().join(std::str::from_utf8(name).expect("digits")),
                b"",
            )
            .expect("a file");
        }
        for most_bytes in [None, Some(300)] {
            let found = names(&Directory::at(path_of(&folder)), most_bytes).expect("names");
            assert_eq!(found.len(), 500);
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }

    #[test]
    fn a_short_one_takes_one_read() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("file"), b"").expect("a file");
        let directory = Directory::at(path_of(&folder));
        let mut driver = Driver::new().expect("a driver");
        driver.run(directory.read(None)).expect("a batch");
        let batch = directory.take();
        assert!(batch.is_last() && !batch.is_empty());
    }

    #[test]
    fn a_descriptor_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("file"), b"").expect("a file");
        let open = fs::File::open(folder.path()).expect("a directory");
        for _ in 0..2 {
            let found = names(&Directory::of(open.as_raw_fd()), None).expect("names");
            assert_eq!(found, [b"file"]);
        }
    }

    #[test]
    fn kinds_and_numbers() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("below")).expect("a folder");
        let directory = Directory::at(path_of(&folder));
        let mut driver = Driver::new().expect("a driver");
        driver.run(directory.read(None)).expect("a batch");
        let mut batch = directory.take();
        let entry = batch.take().expect("an entry");
        assert_eq!(entry.name, b"below");
        assert!([libc::DT_DIR, libc::DT_UNKNOWN].contains(&entry.kind));
        let inode = fs::metadata(folder.path().join("below"))
            .expect("its status")
            .ino();
        assert_eq!(entry.inode, inode);
        assert_eq!(batch.take(), None);
    }

    #[test]
    fn errors() {
        let missing = names(&Directory::at(c"/nothing/here".to_owned()), None);
        assert_eq!(missing.expect_err("no directory").errno(), libc::ENOENT);
        let file = names(&Directory::at(c"/proc/self/status".to_owned()), None);
        assert_eq!(file.expect_err("no directory").errno(), libc::ENOTDIR);
        let closed = names(&Directory::of(-1), None);
        assert_eq!(closed.expect_err("no descriptor").errno(), libc::EBADF);
    }

    #[test]
    fn removed_is_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = fs::File::open(folder.path()).expect("a directory");
        folder.close().expect("removed");
        let found = names(&Directory::of(open.as_raw_fd()), None).expect("nothing");
        assert!(found.is_empty());
    }
}
