//! Copies from one open file to another, in the kernel where it can and through memory where it cannot.

use crate::memory;
use proactor_engine::op::{Blocking, File, Stop};
use rustix::event::{poll, PollFd, PollFlags};
use rustix::fs::{copy_file_range, fcntl_getfl, fstat, open, sendfile, Mode, OFlags};
use rustix::io::{pread, pwrite, write, Errno, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Bytes copied between two checks for cancellation.
const STEP_BYTES: usize = 16 << 20;
/// Bytes copied through memory at a time.
const MEMORY_BYTES: usize = 256 * 1024;

/// Runs `posix_fadvise(2)` on a range of any length; an `Advise` op has 32 bits for it.
pub fn advise(file: &File, offset: i64, length: i64, advice: i32) -> Blocking {
    let file = file.clone();
    Blocking::new("advise", move |_| {
        // SAFETY: no pointers.
        match unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, length, advice) } {
            0 => Ok(0),
            errno => Err(std::io::Error::from_raw_os_error(errno)),
        }
    })
}

/// Copies at most `count` bytes and returns how many, which is fewer only at the end of the source. The
/// kernel may share the blocks or copy them on the device; where it cannot, they go through memory. EINVAL if
/// the two ranges of one file overlap.
pub fn copy_range(from: &File, from_at: u64, to: File, to_at: u64, count: usize) -> Blocking {
    let mut copy = Copy {
        ends: None,
        from: from.clone(),
        from_at,
        to,
        to_at,
        left: count,
        done: 0,
        by_hand: false,
    };
    Blocking::waiting("copy_range", move |stop| Ok(copy.run(stop)?))
}

/// Sends at most `count` bytes to a socket, a pipe or a file (at its position) and returns how many, which is
/// fewer only at the end of the source. Waits for a descriptor in non-blocking mode.
pub fn send(from: &File, at: u64, to: OwnedFd, count: usize) -> Blocking {
    let mut send = Send {
        source: None,
        from: from.clone(),
        at,
        to,
        left: count,
        done: 0,
        by_hand: false,
        pending: Vec::new(),
    };
    Blocking::waiting("sendfile", move |stop| Ok(send.run(stop)?))
}

/// Opens the file again without O_DIRECT, which would require alignment here; `None` if it is not open with
/// it.
fn plain(file: &File) -> Result<Option<OwnedFd>> {
    let flags = fcntl_getfl(file)?;
    if !flags.contains(OFlags::DIRECT) {
        return Ok(None);
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    open(path, flags & OFlags::RWMODE | OFlags::CLOEXEC, Mode::empty()).map(Some)
}

/// Returns true if the kernel cannot do this between these two files, while reads and writes may work.
fn is_refusal(e: Errno) -> bool {
    [
        Errno::XDEV,
        Errno::INVAL,
        Errno::OPNOTSUPP,
        Errno::NOSYS,
        Errno::PERM,
    ]
    .contains(&e)
}

struct Copy {
    /// Descriptors of both ends, once the copy has begun.
    ends: Option<(Option<OwnedFd>, Option<OwnedFd>)>,
    from: File,
    from_at: u64,
    to: File,
    to_at: u64,
    left: usize,
    done: usize,
    by_hand: bool,
}

impl Copy {
    fn run(&mut self, stop: &Stop<'_>) -> Result<usize> {
        if self.ends.is_none() {
            self.check_overlap()?;
            self.ends = Some((plain(&self.from)?, plain(&self.to)?));
        }
        while self.left > 0 {
            if stop.is_set() {
                return Err(Errno::INTR);
            }
            let copied = if self.by_hand {
                self.through_memory()?
            } else {
                match self.by_kernel() {
                    // The end, or a file that states no size (/proc): only a read can tell.
                    Ok(0) => {
                        self.by_hand = true;
                        continue;
                    }
                    Err(e) if is_refusal(e) => {
                        self.by_hand = true;
                        continue;
                    }
                    result => result?,
                }
            };
            if copied == 0 {
                break;
            }
            self.from_at += copied as u64;
            self.to_at += copied as u64;
            self.done += copied;
            self.left -= copied;
        }
        Ok(self.done)
    }

    fn ends(&self) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        let (from, to) = self.ends.as_ref().map_or((&None, &None), |(from, to)| (from, to));
        (either(from, &self.from), either(to, &self.to))
    }

    /// Fails if the ranges overlap: copying through memory would copy what it has just written.
    fn check_overlap(&self) -> Result<()> {
        let (from, to) = (fstat(&self.from)?, fstat(&self.to)?);
        if (from.st_dev, from.st_ino) == (to.st_dev, to.st_ino) {
            let there = (from.st_size as u64).saturating_sub(self.from_at);
            let len = (self.left as u64).min(there);
            if self.from_at < self.to_at.saturating_add(len) && self.to_at < self.from_at.saturating_add(len)
            {
                return Err(Errno::INVAL);
            }
        }
        Ok(())
    }

    fn by_kernel(&self) -> Result<usize> {
        let (from, to) = self.ends();
        let (mut from_at, mut to_at) = (self.from_at, self.to_at);
        let len = self.left.min(STEP_BYTES);
        copy_file_range(from, Some(&mut from_at), to, Some(&mut to_at), len)
    }

    fn through_memory(&self) -> Result<usize> {
        let (from, to) = self.ends();
        let mut memory = memory::zeroed(self.left.min(MEMORY_BYTES)).map_err(|_| Errno::NOMEM)?;
        let count = pread(from, &mut memory, self.from_at)?;
        if count == 0 {
            return Ok(0);
        }
        // What a short write leaves is read again.
        match pwrite(to, &memory[..count], self.to_at)? {
            0 => Err(Errno::IO),
            written => Ok(written),
        }
    }
}

/// Returns the descriptor to work on.
fn either<'a>(plain: &'a Option<OwnedFd>, file: &'a File) -> BorrowedFd<'a> {
    plain.as_ref().map_or(file.as_fd(), AsFd::as_fd)
}

struct Send {
    /// Descriptor without O_DIRECT, once the transfer has begun.
    source: Option<Option<OwnedFd>>,
    from: File,
    at: u64,
    to: OwnedFd,
    left: usize,
    done: usize,
    by_hand: bool,
    /// Bytes read into memory and not sent yet.
    pending: Vec<u8>,
}

impl Send {
    fn run(&mut self, stop: &Stop<'_>) -> Result<usize> {
        if self.source.is_none() {
            self.source = Some(plain(&self.from)?);
        }
        while self.left > 0 {
            if stop.is_set() {
                return Err(Errno::INTR);
            }
            let sent = if self.by_hand {
                self.through_memory()
            } else {
                let mut at = self.at;
                sendfile(&self.to, self.source(), Some(&mut at), self.left.min(STEP_BYTES))
            };
            match sent {
                Ok(0) if self.by_hand => break,
                Ok(0) => self.by_hand = true,
                Ok(sent) => {
                    self.at += sent as u64;
                    self.done += sent;
                    self.left -= sent;
                }
                Err(Errno::AGAIN) => self.wait_for_room()?,
                Err(e) if is_refusal(e) && !self.by_hand => self.by_hand = true,
                Err(e) => return Err(e),
            }
        }
        Ok(self.done)
    }

    fn source(&self) -> BorrowedFd<'_> {
        either(self.source.as_ref().unwrap_or(&None), &self.from)
    }

    fn through_memory(&mut self) -> Result<usize> {
        if self.pending.is_empty() {
            let mut memory = memory::zeroed(self.left.min(MEMORY_BYTES)).map_err(|_| Errno::NOMEM)?;
            let count = pread(self.source(), &mut memory, self.at)?;
            memory.truncate(count);
            self.pending = memory;
        }
        if self.pending.is_empty() {
            return Ok(0);
        }
        let sent = write(&self.to, &self.pending)?;
        self.pending.drain(..sent);
        Ok(sent)
    }

    /// Waits until the other side accepts bytes, or a signal arrives.
    fn wait_for_room(&self) -> Result<()> {
        poll(&mut [PollFd::new(&self.to, PollFlags::OUT)], None).map(drop)
    }
}
