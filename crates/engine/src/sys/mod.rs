//! The raw kernel interface. Most of the engine's `unsafe` lives here; it knows nothing above it but op types.

#[cfg(feature = "linux-aio")]
pub(crate) mod aio;
pub(crate) mod close;
pub(crate) mod entries;
pub(crate) mod fifo;
pub(crate) mod fork;
pub(crate) mod interrupt;
pub(crate) mod limits;
pub(crate) mod mount;
pub(crate) mod older;
mod overlay;
pub(crate) mod perform;
pub(crate) mod ring;

use crate::error::Error;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// The most one read or write transfers (Linux, `MAX_RW_COUNT`): INT_MAX rounded down to a page.
pub(crate) const MAX_RW_BYTES: usize = 0x7fff_f000;

/// The most segments of one vectored op (Linux, `UIO_MAXIOV`).
pub(crate) const IOV_MAX: usize = 1024;

/// Turns libc's -1 into an error.
pub(crate) fn check(ret: libc::c_int) -> io::Result<libc::c_int> {
    if ret < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(ret)
    }
}

/// The result as the kernel gives it: a count, or a negated errno.
pub(crate) fn raw(ret: i64) -> i32 {
    if ret < 0 {
        -errno()
    } else {
        // No op returns more than MAX_RW_BYTES.
        ret as i32
    }
}

/// An error in words for a person. `io::Error` by itself has room for words or an errno.
#[derive(Debug)]
struct Explained {
    words: String,
    source: io::Error,
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Explained {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Replaces the text of the error and keeps its kind and errno.
pub(crate) fn in_words(source: io::Error, words: String) -> io::Error {
    io::Error::new(source.kind(), Explained { words, source })
}

/// Adds what the error means or what can be done about it: "Too many open files: raise the limit".
pub(crate) fn explained(source: io::Error, why: &str) -> io::Error {
    let words = match source.raw_os_error() {
        Some(errno) => format!("{}: {why}", strerror(errno)),
        None => format!("{why}: {source}"),
    };
    in_words(source, words)
}

/// The C library's text for an errno. `io::Error` adds " (os error N)".
pub fn strerror(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The errno behind an error of this crate, also where `io::Error` has no room for it: an [`Error`](crate::Error), or one
/// put into words (by [`Config::build`](crate::Config::build)).
pub fn errno_of(error: &io::Error) -> Option<i32> {
    let inner = || {
        let inner = error.get_ref()?;
        match inner.downcast_ref::<Explained>() {
            Some(explained) => errno_of(&explained.source),
            None => inner.downcast_ref::<Error>().map(Error::errno),
        }
    };
    error.raw_os_error().or_else(inner)
}

/// Whether a system call that has worked until now is forbidden for good: a seccomp filter or a closed descriptor. What the
/// kernel was told before goes on.
pub fn is_forbidden(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS | libc::EBADF)
    )
}

pub(crate) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Takes ownership of a descriptor that the kernel has just returned.
pub(crate) fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: callers pass a descriptor fresh from a system call that nobody else has seen.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let made = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).map(owned);
    made.map_err(|e| match e.raw_os_error() {
        // Said, for else it looks as if a file were refused.
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            explained(e, "a seccomp filter or security module forbids eventfd2")
        }
        _ => e,
    })
}

pub(crate) fn chmod(file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::fchmod(file.as_raw_fd(), mode) }).map(drop)
}

/// The ends to read from and to write to. std has it since Rust 1.87.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: the kernel writes two descriptors into the live array.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    Ok((owned(ends[0]), owned(ends[1])))
}

/// Adds one to an eventfd. It can only fail by overflow, and then it is readable anyway.
pub(crate) fn eventfd_signal(fd: RawFd) {
    let one = 1u64;
    // SAFETY: writes eight bytes from a live local.
    let _ = unsafe { libc::write(fd, (&raw const one).cast(), 8) };
}

/// Resets an eventfd, timerfd or the like.
pub(crate) fn eventfd_drain(fd: RawFd) {
    let mut count = 0u64;
    // SAFETY: reads at most eight bytes into a live local; the descriptor is non-blocking.
    let _ = unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
}

/// Makes a timer's descriptor readable at this time, or never.
pub(crate) fn timerfd_set(timer: RawFd, at: Option<Instant>) {
    // 0 would disarm the timer.
    let left = at.map_or(Duration::ZERO, |at| {
        at.saturating_duration_since(Instant::now())
            .max(Duration::from_nanos(1))
    });
    let spec = libc::itimerspec {
        it_interval: timespec(Duration::ZERO),
        it_value: timespec(left),
    };
    // SAFETY: the spec is a live local; the old value is not asked for.
    unsafe { libc::timerfd_settime(timer, 0, &raw const spec, std::ptr::null_mut()) };
}

/// Waits at most this long for something to happen, and says how many of the events are filled in.
pub(crate) fn epoll_wait(
    epoll: RawFd,
    events: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    // Milliseconds, rounded up so that nobody wakes just before the time and spins.
    let timeout_ms = timeout.map_or(-1, |t| {
        i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    });
    // SAFETY: the kernel fills in no more than the slice has, which the caller has lent for as long.
    let count =
        check(unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), events.len() as i32, timeout_ms) })?;
    Ok(count as usize)
}

/// Watches `fd` for input, level-triggered, with its number as data.
pub(crate) fn epoll_add(epoll: RawFd, fd: RawFd) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: fd as u64,
    };
    // SAFETY: the event is a live local that the kernel copies.
    check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) })?;
    Ok(())
}

pub(crate) fn page_size() -> usize {
    // SAFETY: no pointers.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Which of `events` the descriptor has now. Never blocks. Negative errno as POLLNVAL does it.
pub(crate) fn poll_now(fd: RawFd, events: i16) -> i16 {
    let mut entry = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one live pollfd, timeout 0.
    unsafe { libc::poll(&raw mut entry, 1, 0) };
    entry.revents
}

/// Waits until one of two descriptors is readable, or for this long; a negative one is left out.
pub(crate) fn poll_both(fds: [RawFd; 2], timeout: Option<Duration>) -> io::Result<()> {
    let mut entries = fds.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: all integers; zero is a valid value.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    let time = timeout.map(|timeout| {
        time.tv_sec = timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX);
        time.tv_nsec = timeout.subsec_nanos().into();
        &raw const time
    });
    // SAFETY: two live entries, and a time that lives as long as this function, or none.
    let ready = unsafe {
        libc::ppoll(
            entries.as_mut_ptr(),
            2,
            time.unwrap_or(std::ptr::null()),
            std::ptr::null(),
        )
    };
    check(ready).map(drop)
}

/// Whether it is a pipe or a FIFO.
pub(crate) fn is_pipe(fd: RawFd) -> bool {
    perform::fstat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFIFO)
}

/// Whether an error says that there is no descriptor to be had.
pub(crate) fn lacks_descriptor(errno: i32) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE)
}

pub(crate) fn gettid() -> libc::pid_t {
    // SAFETY: no pointers.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

pub(crate) fn dup(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) }).map(owned)
}

pub(crate) fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: duration.as_secs().min(i64::MAX as u64) as libc::time_t,
        tv_nsec: duration.subsec_nanos().into(),
    }
}
