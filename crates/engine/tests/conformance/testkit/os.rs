//! System calls that tests make beside the engine, and looks at what a process has.

use super::LONG;
use proactor_engine::op::{File, Handle};
use std::ffi::CString;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Writes all of it with one plain write(2).
pub fn put(fd: &impl AsRawFd, bytes: &[u8]) {
    // SAFETY: the slice outlives the call.
    let written = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    assert_eq!(written, bytes.len() as isize);
}

/// A non-blocking eventfd at 0.
pub fn event() -> OwnedFd {
    // SAFETY: no pointers; the descriptor is fresh.
    unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }
}

pub fn open(path: &Path, flags: i32) -> OwnedFd {
    let path = c_path(path);
    // SAFETY: the path is NUL-terminated; the descriptor is fresh.
    unsafe {
        let fd = libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o644);
        assert!(fd >= 0, "open {path:?}: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

pub fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL in these paths")
}

pub fn file_system(dir: &Path) -> libc::c_long {
    let path = c_path(dir);
    // SAFETY: zero is a valid initial value; path and struct outlive the call.
    unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        assert_eq!(libc::statfs(path.as_ptr(), &raw mut stat), 0);
        stat.f_type
    }
}

/// Whether a descriptor has these events within the time.
pub fn polls(fd: i32, events: i16, timeout: Duration) -> bool {
    let mut entry = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&raw mut entry, 1, timeout.as_millis() as i32) == 1 }
}

/// The handle of a number, which need not be a descriptor's.
pub fn bare(fd: i32) -> Handle {
    // SAFETY: the tests keep what is open under this number, or see that nothing is, until the op has ended.
    unsafe { Handle::from_raw(fd) }
}

pub fn pipe() -> (File, File) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    (File::new(reader), File::new(writer))
}

pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .expect("/proc is mounted")
        .count()
        - 1
}

/// Waits until there are this many threads: one that has been joined may still be listed for a moment.
pub fn wait_for_threads(count: usize) {
    let deadline = Instant::now() + LONG;
    loop {
        let now = threads();
        if now == count {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{now} threads are left instead of {count}"
        );
        std::thread::yield_now();
    }
}

pub fn threads() -> usize {
    std::fs::read_dir("/proc/self/task")
        .expect("/proc is mounted")
        .count()
}

/// Those of this thread and of the workers that it starts.
pub fn drop_capabilities() {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let none = [0u32; 6];
    // SAFETY: a header and two triples of u32, as version 3 has them, alive during the call.
    let ret = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    assert_eq!(ret, 0);
}

/// Somebody who waits for a reader of the FIFO at `path`, and then writes `bytes`.
pub fn writer_that_waits(path: PathBuf, bytes: &'static [u8]) -> JoinHandle<io::Result<()>> {
    let (tell, told) = mpsc::channel();
    let writer = std::thread::spawn(move || {
        // SAFETY: no pointers.
        tell.send(unsafe { libc::gettid() })
            .expect("whoever waits for this");
        std::fs::OpenOptions::new()
            .write(true)
            .open(path)?
            .write_all(bytes)
    });
    let stat = format!("/proc/self/task/{}/stat", told.recv().expect("a thread"));
    let deadline = Instant::now() + LONG;
    // The state follows the name, which is in brackets.
    while !std::fs::read_to_string(&stat).expect("a thread").contains(") S ") {
        assert!(Instant::now() < deadline, "it does not wait");
        std::thread::sleep(Duration::from_millis(1));
    }
    writer
}
