//! System calls of io_uring that the `io-uring` crate offers only on its own terms.

use super::check;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

// Values of the kernel's interface (include/uapi/linux/io_uring.h).
pub(crate) const ENTER_GETEVENTS: u32 = 1;
pub(crate) const ENTER_SQ_WAKEUP: u32 = 1 << 1;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
/// Linux 6.15.
pub(crate) const ENTER_NO_IOWAIT: u32 = 1 << 7;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

/// Linux 6.9.
const REGISTER_NAPI: u32 = 27;

/// A ring's descriptor, or the index under which this thread has registered it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RingFd {
    Descriptor(RawFd),
    Registered(u32),
}

/// `struct io_uring_getevents_arg`.
#[repr(C)]
struct GetEventsArg {
    sigmask: u64,
    sigmask_sz: u32,
    min_wait_usec: u32,
    ts: u64,
}

/// Calls io_uring_enter. A `timeout` needs the feature EXT_ARG (Linux 5.11). Returns how many entries were submitted.
pub(crate) fn enter(
    ring: RingFd,
    to_submit: u32,
    min_complete: u32,
    flags: u32,
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let (fd, flags) = match ring {
        RingFd::Descriptor(fd) => (fd, flags),
        RingFd::Registered(index) => (index as RawFd, flags | ENTER_REGISTERED_RING),
    };
    let time = timeout.map(super::timespec);
    let arg = time.as_ref().map(|time| GetEventsArg {
        sigmask: 0,
        sigmask_sz: 0,
        min_wait_usec: 0,
        ts: std::ptr::from_ref(time) as u64,
    });
    let (flags, pointer, size) = match &arg {
        Some(arg) => (
            flags | ENTER_EXT_ARG,
            std::ptr::from_ref(arg),
            size_of::<GetEventsArg>(),
        ),
        None => (flags, std::ptr::null(), 0),
    };
    // SAFETY: the argument and the time that it names are live locals, which the kernel only reads during the call. On
    // every 64-bit Linux `timespec` has the layout of `__kernel_timespec`. What the queued entries name is their pusher's concern.
    let ret = unsafe {
        libc::syscall(
            libc::SYS_io_uring_enter,
            fd,
            to_submit,
            min_complete,
            flags,
            pointer,
            size,
        )
    };
    if ret < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(ret as usize)
    }
}

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct RsrcUpdate {
    offset: u32,
    resv: u32,
    data: u64,
}

/// Registers a ring's descriptor with this thread, so that an enter need not look it up (Linux 5.18; 16 a thread).
pub(crate) fn register_descriptor(ring: RawFd) -> io::Result<u32> {
    let mut update = RsrcUpdate {
        offset: u32::MAX,
        resv: 0,
        data: ring as u64,
    };
    register(ring, REGISTER_RING_FDS, &mut update)?;
    Ok(update.offset)
}

/// Takes a registration back. In another thread than the one that made it there is none, and nothing happens.
pub(crate) fn unregister_descriptor(ring: RawFd, index: u32) {
    let mut update = RsrcUpdate {
        offset: index,
        resv: 0,
        data: 0,
    };
    let _ = register(ring, UNREGISTER_RING_FDS, &mut update); // the thread's end takes it back as well
}

fn register(ring: RawFd, opcode: u32, update: &mut RsrcUpdate) -> io::Result<()> {
    // SAFETY: one live update, which the kernel reads and writes during the call.
    let ret = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            ring,
            opcode,
            std::ptr::from_mut(update),
            1,
        )
    };
    check(ret as libc::c_int).map(drop)
}

/// `struct io_uring_napi`.
#[repr(C)]
struct Napi {
    busy_poll_us: u32,
    prefer_busy_poll: u8,
    pad: [u8; 3],
    resv: u64,
}

/// Has waits of the ring poll the devices of its sockets for so long. Linux 6.9.
pub(crate) fn register_napi(ring: RawFd, busy_poll: Duration) -> io::Result<()> {
    let mut napi = Napi {
        busy_poll_us: u32::try_from(busy_poll.as_micros()).unwrap_or(u32::MAX),
        prefer_busy_poll: 1,
        pad: [0; 3],
        resv: 0,
    };
    // SAFETY: one argument, a live local of the kernel's layout, to which the kernel writes the settings before.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_register, ring, REGISTER_NAPI, &raw mut napi, 1) };
    check(result as i32).map(drop)
}
