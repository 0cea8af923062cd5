//! Opening a FIFO without blocking, with the effects that a blocking open has.
//!
//! A blocking open for reading lets writers in at once and then waits for one. A non-blocking one lets them in too and
//! returns; so it is made early, kept, and handed over when there is a writer.
//! A non-blocking open for writing fails with ENXIO until there is a reader.

use crate::op::{Call, Op, Open, OpenFlags, ReadFile, RwFlags, Step};
use crate::sys::fifo::{has_writer, set_blocking};
use crate::sys::older::Way;
use crate::sys::{self, perform};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

pub(super) struct Fifo {
    held: Option<OwnedFd>,
}

/// How an open that would wait for the other end is tried.
fn without_waiting(o: &Open) -> [u64; 3] {
    [
        (o.flags | OpenFlags::NONBLOCK).how(),
        o.mode.into(),
        o.resolve.bits(),
    ]
}

impl Fifo {
    /// If the op opens a FIFO and would wait for the other end.
    pub(super) fn of(op: &Op) -> Option<Fifo> {
        let (dir, path, flags) = match op {
            Op::Open(o) => (o.dir.fd(), &o.path, o.flags),
            Op::ReadFile(o) => (o.dir.fd(), &o.path, OpenFlags::READ_ONLY),
            Op::WriteFile(o) => (o.dir.fd(), &o.path, o.flags),
            _ => return None,
        };
        let waits = !flags.intersects(OpenFlags::NONBLOCK | OpenFlags::PATH | OpenFlags::READ_WRITE);
        (waits && is_fifo(dir, path)).then_some(Fifo { held: None })
    }

    pub(super) fn attempt(&mut self, op: &mut Op) -> Option<i32> {
        match op {
            Op::Open(o) if o.flags.bits() & libc::O_ACCMODE == libc::O_WRONLY => {
                let how = without_waiting(o);
                match perform::openat2(o.dir.fd(), o.path.as_ptr(), how.as_ptr()) {
                    e if e == -libc::ENXIO => None,
                    fd if fd >= 0 => Some(blocking(sys::owned(fd)).into_raw_fd()),
                    e => Some(e),
                }
            }
            Op::Open(o) => {
                let how = without_waiting(o);
                let opened = self.reader(o.dir.fd(), o.path.as_ptr(), how)?;
                Some(opened.map_or_else(|e| e, |fd| blocking(fd).into_raw_fd()))
            }
            Op::ReadFile(o) => self.read_file(o),
            Op::WriteFile(o) => {
                let flags = OpenFlags::WRITE_ONLY | OpenFlags::NONBLOCK | OpenFlags::CLOEXEC;
                let how = [flags.how(), 0, 0];
                match perform::openat2(o.dir.fd(), o.path.as_ptr(), how.as_ptr()) {
                    e if e == -libc::ENXIO => None,
                    fd if fd >= 0 => {
                        let _keeps_the_reader = sys::owned(fd);
                        Some(perform::perform(op, 0))
                    }
                    e => Some(e),
                }
            }
            other => unreachable!("{} opens nothing", other.name()),
        }
    }

    /// The open end for reading, once there is a writer.
    fn reader(
        &mut self,
        dir: RawFd,
        path: *const libc::c_char,
        how: [u64; 3],
    ) -> Option<Result<OwnedFd, i32>> {
        let fd = match self.held.take() {
            Some(fd) => fd,
            None => match perform::openat2(dir, path, how.as_ptr()) {
                fd if fd >= 0 => sys::owned(fd),
                e => return Some(Err(e)),
            },
        };
        if has_writer(fd.as_raw_fd()) {
            return Some(Ok(fd));
        }
        self.held = Some(fd);
        None
    }

    fn read_file(&mut self, o: &mut ReadFile) -> Option<i32> {
        loop {
            let step = match o.call() {
                Call::Open { dir, path, .. } => {
                    let how = [(libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK) as u64, 0, 0];
                    match self.reader(dir, path, how)? {
                        Ok(fd) => o.opened(fd),
                        Err(e) => o.advance(e),
                    }
                }
                // One that was opened before it came here is not O_NONBLOCK.
                Call::Read { fd, .. } if sys::poll_now(fd, libc::POLLIN) == 0 => return None,
                Call::Read { fd, to, len, offset } => {
                    match perform::rw(
                        Way::Read,
                        fd,
                        &[perform::iovec(to, len)],
                        offset as i64,
                        RwFlags::NONE,
                    ) {
                        e if e == -libc::EAGAIN => return None,
                        res => o.advance(res),
                    }
                }
            };
            if let Step::Done(res) = step {
                return Some(res);
            }
        }
    }
}

fn is_fifo(dir: RawFd, path: &CStr) -> bool {
    // SAFETY: zero is a valid initial value; struct and path outlive the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstatat(dir, path.as_ptr(), &raw mut stat, 0) == 0
            && stat.st_mode & libc::S_IFMT == libc::S_IFIFO
    }
}

fn blocking(fd: OwnedFd) -> OwnedFd {
    set_blocking(fd.as_raw_fd());
    fd
}
