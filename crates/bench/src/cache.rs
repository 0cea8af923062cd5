//! A file's pages in the page cache: written out, dropped, filled, and counted.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Share of the files that is in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resident {
    /// Number of pages in the cache.
    pub pages: u64,
    /// Number of pages of the files, as far as they are used.
    pub of: u64,
}

/// Passes of reading files to have them in the page cache.
const WARM_TRIES: u32 = 3;

/// Upper bound on pages that are read again: larger files may have no room.
const REREAD_PAGES: u64 = 1 << 20;

impl Resident {
    /// Returns the share, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.pages as f64 / self.of.max(1) as f64
    }
}

/// Writes dirty pages to the device, and then drops the file from the cache, where the file system allows it.
///
/// # Errors
/// A write-back that failed.
pub fn write_and_drop(file: &File) -> io::Result<()> {
    rustix::fs::fdatasync(file)?;
    // A hint: `resident` tells whether it was followed.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}

/// Reads the first `len` bytes into the cache, or fewer when `stop` becomes true.
///
/// # Errors
/// Those of reading.
pub fn warm(file: &File, len: u64, stop: &AtomicBool) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < len && !stop.load(Ordering::Relaxed) {
        let part = buffer.len().min((len - offset) as usize);
        match file.read_at(&mut buffer[..part], offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => offset += n as u64,
        }
    }
    Ok(())
}

/// Reads files until they are in the page cache. A machine's host or its agents may take pages away at any
/// time, also with most of the memory free: on one machine, a pass every five seconds took some of the pages
/// that had been read just before.
///
/// # Errors
/// Those of reading.
pub fn fill(
    mut read: impl FnMut() -> io::Result<()>,
    look: impl Fn() -> Option<Resident>,
    stop: &AtomicBool,
) -> io::Result<()> {
    for _ in 0..WARM_TRIES {
        read()?;
        let done = look().is_none_or(|found| found.pages == found.of || found.of > REREAD_PAGES);
        if done || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

/// Counts the cached pages of the first `len` bytes: with cachestat (Linux 6.5), else with mincore. `None` if
/// neither can tell.
pub fn resident(file: &File, len: u64) -> Option<Resident> {
    let page = rustix::param::page_size() as u64;
    let of = len.div_ceil(page);
    let pages = cachestat(file, len).or_else(|| mincore(file, len, of))?;
    // A large folio at the end may reach beyond.
    Some(Resident {
        pages: pages.min(of),
        of,
    })
}

/// System call number, which is the same on every architecture, as all from 424 on.
const SYS_CACHESTAT: libc::c_long = 451;

fn cachestat(file: &File, len: u64) -> Option<u64> {
    let range = [0u64, len];
    // Cached, dirty, under write-back, evicted, recently evicted.
    let mut counts = [0u64; 5];
    // SAFETY: both are as large as the kernel's structures and outlive the call.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            range.as_ptr(),
            counts.as_mut_ptr(),
            0,
        )
    };
    (result == 0).then_some(counts[0])
}

fn mincore(file: &File, len: u64, pages: u64) -> Option<u64> {
    let mut present = proactor_engine::memory::zeroed(pages as usize).ok()?;
    // SAFETY: a new mapping, never read through; it is unmapped before the file is closed. `present` has a byte for
    // each of its pages.
    let looked = unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            len as usize,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        if start == libc::MAP_FAILED {
            return None;
        }
        let looked = libc::mincore(start, len as usize, present.as_mut_ptr());
        libc::munmap(start, len as usize);
        looked
    };
    (looked == 0).then(|| present.iter().filter(|byte| **byte & 1 != 0).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_until_it_is_there() {
        let (missing, reads) = (std::cell::Cell::new(2), std::cell::Cell::new(0));
        let passes = |lost: u64, of: u64, stop: bool| {
            missing.set(lost);
            reads.set(0);
            let read = || {
                reads.set(reads.get() + 1);
                missing.set(missing.get().saturating_sub(1));
                Ok(())
            };
            let look = || {
                Some(Resident {
                    pages: of - missing.get(),
                    of,
                })
            };
            fill(read, look, &AtomicBool::new(stop)).unwrap();
            reads.get()
        };
        assert_eq!(passes(1, 10, false), 1);
        assert_eq!(passes(2, 10, false), 2);
        assert_eq!(passes(9, 10, false), WARM_TRIES);
        assert_eq!(passes(9, 10, true), 1);
        assert_eq!(passes(9, REREAD_PAGES + 1, false), 1);
    }

    /// Checks that the two ways of counting agree, and that a page that was read is cached.
    #[test]
    fn looked_at() {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let len = 64 * rustix::param::page_size() as u64;
        file.write_all_at(&vec![1; len as usize], 0).unwrap();
        let all = mincore(&file, len, 64);
        assert_eq!(all, Some(64));
        assert!(cachestat(&file, len).is_none_or(|pages| pages == 64));
        write_and_drop(&file).unwrap();
        let dropped = resident(&file, len).unwrap();
        assert_eq!(Some(dropped.pages), mincore(&file, len, 64));
        let go_on = AtomicBool::new(false);
        warm(&file, len, &AtomicBool::new(true)).unwrap();
        assert_eq!(
            resident(&file, len),
            Some(dropped),
            "told to stop before the first byte"
        );
        let look = || resident(&file, len);
        fill(|| warm(&file, len, &go_on), look, &go_on).unwrap();
        assert_eq!(look().unwrap(), Resident { pages: 64, of: 64 });
        assert_eq!(
            warm(&file, len + 1, &go_on).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
