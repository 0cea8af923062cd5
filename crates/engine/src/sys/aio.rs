//! Linux native AIO by raw system calls: libc has none of it.

use super::{errno, timespec};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

pub(crate) const CMD_PREAD: u16 = 0;
pub(crate) const CMD_PWRITE: u16 = 1;
/// Since Linux 4.18, on a kernel workqueue.
pub(crate) const CMD_FSYNC: u16 = 2;
/// As `CMD_FSYNC`.
pub(crate) const CMD_FDSYNC: u16 = 3;
/// Linux 4.19. EINVAL on files with more than one wait queue.
pub(crate) const CMD_POLL: u16 = 5;
pub(crate) const CMD_PREADV: u16 = 7;
pub(crate) const CMD_PWRITEV: u16 = 8;

/// `resfd` gets one added at completion.
const FLAG_RESFD: u32 = 1;
/// `reqprio` is valid. Linux 4.18.
const FLAG_IOPRIO: u32 = 2;

/// `struct iocb`. The kernel copies it in `io_submit`, writes `key` back, and knows the request by its address, which
/// `io_cancel` must be given again.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Iocb {
    pub(crate) data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    /// Linux 4.13; before that a reserved field that must be 0.
    pub(crate) rw_flags: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    pub(crate) opcode: u16,
    reqprio: i16,
    pub(crate) fd: u32,
    pub(crate) buf: u64,
    pub(crate) len: u64,
    pub(crate) offset: i64,
    reserved2: u64,
    flags: u32,
    resfd: u32,
}

impl Iocb {
    pub(crate) fn set_priority(&mut self, raw: u16) {
        if raw != 0 {
            self.flags |= FLAG_IOPRIO;
            self.reqprio = raw as i16;
        }
    }

    pub(crate) fn set_eventfd(&mut self, fd: RawFd) {
        self.flags |= FLAG_RESFD;
        self.resfd = fd as u32;
    }

    /// The eventfd that the completion signals.
    pub(crate) fn eventfd(&self) -> Option<RawFd> {
        (self.flags & FLAG_RESFD != 0).then_some(self.resfd as RawFd)
    }
}

/// `struct io_event`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event {
    pub(crate) data: u64,
    obj: u64,
    pub(crate) res: i64,
    res2: i64,
}

/// `io_getevents` takes the old, long-sized `timespec` on every architecture.
#[repr(C)]
struct OldTimespec {
    seconds: libc::c_long,
    nanoseconds: libc::c_long,
}

/// One AIO context, destroyed on drop: about 30 ms, an RCU grace period.
pub(crate) struct Context {
    /// 0 after `forget`.
    id: libc::c_ulong,
}

impl Context {
    /// Room for `depth` requests in flight.
    pub(crate) fn new(depth: u32) -> io::Result<Self> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: the kernel writes one context id to a live, zeroed local.
        if unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut id) } < 0 {
            return Err(explain(io::Error::last_os_error(), depth));
        }
        let context = Context { id };
        // A filter may let contexts be made and not be used.
        // SAFETY: nothing is submitted.
        let usable = unsafe { context.submit(&[]) }.map_err(io::Error::from_raw_os_error);
        usable
            .and_then(|_| context.events(0, &mut [Event::default()], Some(Duration::ZERO)))
            .map_err(|e| explain(e, depth))?;
        Ok(context)
    }

    /// Hands these to the kernel. The number taken, or the errno with which the first was refused.
    ///
    /// # Safety
    /// Each points to an `Iocb` that stays there until the request's event has been read, as does what it describes.
    pub(crate) unsafe fn submit(&self, iocbs: &[*mut Iocb]) -> Result<usize, i32> {
        // SAFETY: the array is live during the call, and the caller vouches for what it points to.
        let ret = unsafe {
            libc::syscall(
                libc::SYS_io_submit,
                self.id,
                iocbs.len() as libc::c_long,
                iocbs.as_ptr(),
            )
        };
        usize::try_from(ret).map_err(|_| errno())
    }

    /// Reads events: at least `min` of them, unless the timeout passes first.
    pub(crate) fn events(
        &self,
        min: usize,
        events: &mut [Event],
        timeout: Option<Duration>,
    ) -> io::Result<usize> {
        let spec = timeout.map(|t| {
            let spec = timespec(t);
            OldTimespec {
                seconds: libc::c_long::try_from(spec.tv_sec).unwrap_or(libc::c_long::MAX),
                nanoseconds: spec.tv_nsec as libc::c_long,
            }
        });
        // SAFETY: the kernel writes at most `events.len()` events and reads the timeout; both outlive the call.
        let ret = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.id,
                min as libc::c_long,
                events.len() as libc::c_long,
                events.as_mut_ptr(),
                spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            )
        };
        match usize::try_from(ret).map_err(|_| io::Error::last_os_error()) {
            // The kernel says so of a call that does not wait and finds no event, while it has a signal for the thread, or
            // work of a ring that is taken down.
            Err(e) if e.kind() == io::ErrorKind::Interrupted && timeout == Some(Duration::ZERO) => Ok(0),
            other => other,
        }
    }

    /// Asks for one request to stop. True: it will, and its event still comes. False: this kind cannot be stopped
    /// (reads, writes and syncs never can), or it is about to complete.
    ///
    /// # Safety
    /// `iocb` is a live one, submitted to this context.
    pub(crate) unsafe fn cancel(&self, iocb: *mut Iocb) -> bool {
        let mut unused = Event::default();
        // SAFETY: the caller vouches for the iocb; the event is a live local, unused since Linux 3.x.
        let ret = unsafe { libc::syscall(libc::SYS_io_cancel, self.id, iocb, &raw mut unused) };
        ret == 0 || errno() == libc::EINPROGRESS
    }

    /// In a forked child. The id means nothing here, for contexts are not inherited, but a context that the child
    /// makes may get the same one: destroying it would hit the wrong context.
    pub(crate) fn forget(&mut self) {
        self.id = 0;
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.id != 0 {
            // SAFETY: made in `new`, destroyed only here. Waits for requests that are still in flight.
            unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
        }
    }
}

/// Why there is no context, in words.
fn explain(e: io::Error, depth: u32) -> io::Error {
    let number = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/fs/{name}")).unwrap_or_default();
        text.trim().parse::<u64>().ok()
    };
    let why = match e.raw_os_error() {
        Some(libc::EAGAIN) => match (number("aio-nr"), number("aio-max-nr")) {
            (Some(used), Some(max)) => format!(
                "no room for {depth} requests: fs.aio-max-nr is {max} and {used} are taken by all processes; \
                 raise it (sysctl fs.aio-max-nr) or choose a smaller depth"
            ),
            _ => format!("no room for {depth} requests below fs.aio-max-nr"),
        },
        Some(libc::ENOSYS) => {
            "this kernel has no Linux AIO (built without CONFIG_AIO), or a seccomp filter hides it".into()
        }
        Some(libc::EPERM | libc::EACCES) => "a seccomp filter or security module forbids Linux AIO".into(),
        Some(libc::EINVAL) => format!("a queue of {depth} requests is more than the kernel can hold"),
        Some(libc::ENOMEM) => "not enough memory for the completion ring".into(),
        _ => "io_setup failed".into(),
    };
    super::explained(e, &why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structs_have_the_size_of_the_kernels() {
        assert_eq!(size_of::<Iocb>(), 64);
        assert_eq!(size_of::<Event>(), 32);
    }

    #[test]
    fn too_great_a_depth_is_explained() {
        // The kernel refuses more than twice fs.aio-max-nr before it counts, so nobody else's room is touched.
        let max = std::fs::read_to_string("/proc/sys/fs/aio-max-nr").unwrap();
        let max: u32 = max.trim().parse().unwrap_or(u32::MAX / 4);
        if max > 1 << 24 {
            return; // EINVAL comes first then.
        }
        let Err(e) = Context::new(max * 2 + 1) else {
            panic!("more than fs.aio-max-nr was granted");
        };
        assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
        let text = e.to_string();
        assert!(
            text.contains(&format!("fs.aio-max-nr is {max}")) && text.contains("sysctl"),
            "{text}"
        );
    }

    #[test]
    fn a_missing_system_call_is_explained() {
        let text = explain(io::Error::from_raw_os_error(libc::ENOSYS), 8).to_string();
        assert!(text.contains("CONFIG_AIO"), "{text}");
    }
}
