//! From one open file to another, by the kernel where it can and by hand where not.

use proactor::op::{Blocking, File, Stop};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Between two looks at whether to stop.
const STEP_BYTES: usize = 16 << 20;
/// Copied by hand at a time.
const MEMORY_BYTES: usize = 256 * 1024;

/// `posix_fadvise(2)` on a range of any length; an `Advise` op has 32 bits for it.
pub fn advise(file: &File, offset: i64, length: i64, advice: i32) -> Blocking {
    let file = file.clone();
    Blocking::new("advise", move |_| {
        // SAFETY: no pointers.
        match unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, length, advice) } {
            0 => Ok(0),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    })
}

/// Copies at most `count` bytes; the result says how many, fewer only at the end of the source. The kernel may share or
/// copy them on the device; where it cannot, they go through memory. EINVAL if the two ranges of one file overlap.
pub fn copy_range(from: &File, from_at: u64, to: File, to_at: u64, count: usize) -> Blocking {
    let mut copy = Copy {
        ends: None,
        from: from.clone(),
        from_at: from_at as i64,
        to,
        to_at: to_at as i64,
        left: count,
        done: 0,
        by_hand: false,
    };
    Blocking::waiting("copy_range", move |stop| copy.run(stop))
}

/// Sends at most `count` bytes to a socket, a pipe or a file (at its position); the result says how many, fewer only at
/// the end of the source. One in non-blocking mode is waited for.
pub fn send(from: &File, at: u64, to: OwnedFd, count: usize) -> Blocking {
    let mut send = Send {
        source: None,
        from: from.clone(),
        at: at as i64,
        to,
        left: count,
        done: 0,
        by_hand: false,
        pending: Vec::new(),
    };
    Blocking::waiting("sendfile", move |stop| send.run(stop))
}

/// The file again without O_DIRECT, which would ask for alignment here; `None` if it has none.
fn plain(file: &File) -> io::Result<Option<OwnedFd>> {
    let fd = file.as_raw_fd();
    // SAFETY: no pointers.
    let flags = checked(unsafe { libc::fcntl(fd, libc::F_GETFL) } as isize)? as i32;
    if flags & libc::O_DIRECT == 0 {
        return Ok(None);
    }
    let path = CString::new(format!("/proc/self/fd/{fd}"))?;
    let flags = flags & libc::O_ACCMODE | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated; the result is a new descriptor of ours.
    unsafe {
        let fd = checked(libc::open(path.as_ptr(), flags) as isize)?;
        Ok(Some(OwnedFd::from_raw_fd(fd as RawFd)))
    }
}

fn checked(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn interrupted<T>() -> io::Result<T> {
    Err(io::Error::from_raw_os_error(libc::EINTR))
}

/// Whether the kernel cannot do this between these two files, but reads and writes may.
fn is_refusal(e: &io::Error) -> bool {
    let refusals = [
        libc::EXDEV,
        libc::EINVAL,
        libc::EOPNOTSUPP,
        libc::ENOSYS,
        libc::EPERM,
    ];
    e.raw_os_error().is_some_and(|errno| refusals.contains(&errno))
}

fn pread(fd: RawFd, at: i64, memory: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the slice is alive and this long.
    checked(unsafe { libc::pread(fd, memory.as_mut_ptr().cast(), memory.len(), at) })
}

struct Copy {
    /// The descriptors to work on, once it has begun.
    ends: Option<(Option<OwnedFd>, Option<OwnedFd>)>,
    from: File,
    from_at: i64,
    to: File,
    to_at: i64,
    left: usize,
    done: usize,
    by_hand: bool,
}

impl Copy {
    fn run(&mut self, stop: &Stop<'_>) -> io::Result<usize> {
        let (from, to) = self.ends()?;
        while self.left > 0 {
            if stop.is_set() {
                return interrupted();
            }
            let copied = if self.by_hand {
                self.through_memory(from, to)?
            } else {
                match self.by_kernel(from, to) {
                    // The end, or a file that states no size (/proc): a read knows.
                    Ok(0) => {
                        self.by_hand = true;
                        continue;
                    }
                    Err(e) if is_refusal(&e) => {
                        self.by_hand = true;
                        continue;
                    }
                    result => result?,
                }
            };
            if copied == 0 {
                break;
            }
            self.from_at += copied as i64;
            self.to_at += copied as i64;
            self.done += copied;
            self.left -= copied;
        }
        Ok(self.done)
    }

    fn ends(&mut self) -> io::Result<(RawFd, RawFd)> {
        let ends = match &self.ends {
            Some(ends) => ends,
            None => {
                self.check_overlap()?;
                self.ends.insert((plain(&self.from)?, plain(&self.to)?))
            }
        };
        let fd = |plain: &Option<OwnedFd>, file: &File| {
            plain.as_ref().map_or(file.as_raw_fd(), AsRawFd::as_raw_fd)
        };
        Ok((fd(&ends.0, &self.from), fd(&ends.1, &self.to)))
    }

    /// By hand it would copy what it has just written.
    fn check_overlap(&self) -> io::Result<()> {
        let (from, to) = (stat(&self.from)?, stat(&self.to)?);
        if (from.st_dev, from.st_ino) == (to.st_dev, to.st_ino) {
            let there = from.st_size.saturating_sub(self.from_at).max(0);
            let len = i64::try_from(self.left).unwrap_or(i64::MAX).min(there);
            if self.from_at < self.to_at.saturating_add(len) && self.to_at < self.from_at.saturating_add(len)
            {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
        }
        Ok(())
    }

    fn by_kernel(&self, from: RawFd, to: RawFd) -> io::Result<usize> {
        let (mut from_at, mut to_at) = (self.from_at, self.to_at);
        let len = self.left.min(STEP_BYTES);
        // SAFETY: the offsets are live locals.
        checked(unsafe { libc::copy_file_range(from, &raw mut from_at, to, &raw mut to_at, len, 0) })
    }

    fn through_memory(&self, from: RawFd, to: RawFd) -> io::Result<usize> {
        let mut memory = vec![0; self.left.min(MEMORY_BYTES)];
        let count = pread(from, self.from_at, &mut memory)?;
        if count == 0 {
            return Ok(0);
        }
        // What a short write leaves is read again.
        // SAFETY: the slice is alive and this long.
        let written = checked(unsafe { libc::pwrite(to, memory.as_ptr().cast(), count, self.to_at) })?;
        if written == 0 {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(written)
    }
}

fn stat(file: &File) -> io::Result<libc::stat> {
    // SAFETY: zero is a valid initial value; the struct outlives the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        checked(libc::fstat(file.as_raw_fd(), &raw mut stat) as isize)?;
        Ok(stat)
    }
}

struct Send {
    /// Without O_DIRECT, once it has begun.
    source: Option<Option<OwnedFd>>,
    from: File,
    at: i64,
    to: OwnedFd,
    left: usize,
    done: usize,
    by_hand: bool,
    /// Read by hand, and not sent yet.
    pending: Vec<u8>,
}

impl Send {
    fn run(&mut self, stop: &Stop<'_>) -> io::Result<usize> {
        let source = match &self.source {
            Some(source) => source,
            None => self.source.insert(plain(&self.from)?),
        };
        let from = source.as_ref().map_or(self.from.as_raw_fd(), AsRawFd::as_raw_fd);
        while self.left > 0 {
            if stop.is_set() {
                return interrupted();
            }
            let sent = if self.by_hand {
                self.through_memory(from)
            } else {
                let mut at = self.at;
                let len = self.left.min(STEP_BYTES);
                // SAFETY: the offset is a live local.
                checked(unsafe { libc::sendfile(self.to.as_raw_fd(), from, &raw mut at, len) })
            };
            match sent {
                Ok(0) if self.by_hand => break,
                Ok(0) => self.by_hand = true,
                Ok(sent) => {
                    self.at += sent as i64;
                    self.done += sent;
                    self.left -= sent;
                }
                Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => self.wait_for_room()?,
                Err(e) if is_refusal(&e) && !self.by_hand => self.by_hand = true,
                Err(e) => return Err(e),
            }
        }
        Ok(self.done)
    }

    fn through_memory(&mut self, from: RawFd) -> io::Result<usize> {
        if self.pending.is_empty() {
            self.pending.resize(self.left.min(MEMORY_BYTES), 0);
            let count = pread(from, self.at, &mut self.pending).inspect_err(|_| self.pending.clear())?;
            self.pending.truncate(count);
        }
        if self.pending.is_empty() {
            return Ok(0);
        }
        // SAFETY: the vector is alive and this long.
        let sent = checked(unsafe {
            libc::write(
                self.to.as_raw_fd(),
                self.pending.as_ptr().cast(),
                self.pending.len(),
            )
        })?;
        self.pending.drain(..sent);
        Ok(sent)
    }

    /// Until the other side has taken something, or a signal has come.
    fn wait_for_room(&self) -> io::Result<()> {
        let mut entry = libc::pollfd {
            fd: self.to.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one live pollfd.
        checked(unsafe { libc::poll(&raw mut entry, 1, -1) } as isize).map(drop)
    }
}
