//! The system interface of counting: perf events on the tracepoint that every system call passes.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub(super) const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
pub(super) const PERF_EVENT_IOC_DISABLE: libc::c_ulong = 0x2401;
/// The request `_IOW('$', 6, char *)`.
const PERF_EVENT_IOC_SET_FILTER: libc::c_ulong =
    0x4000_2406 | ((size_of::<*const u8>() as libc::c_ulong) << 16);

pub(super) fn control(event: &OwnedFd, request: libc::c_ulong) -> Result<(), String> {
    // SAFETY: the descriptor is a perf event of ours, and these requests take no pointer.
    match unsafe { libc::ioctl(event.as_raw_fd(), request as _, 0) } {
        0 => Ok(()),
        _ => Err(format!("switching the count: {}", io::Error::last_os_error())),
    }
}

/// Makes the event count only what passes a filter of the tracing system, such as `id == 0`.
pub(super) fn filter(event: &OwnedFd, expression: &std::ffi::CStr) -> Result<(), String> {
    // SAFETY: the descriptor is a perf event of ours, and the kernel copies the string during the call.
    match unsafe {
        libc::ioctl(
            event.as_raw_fd(),
            PERF_EVENT_IOC_SET_FILTER as _,
            expression.as_ptr(),
        )
    } {
        0 => Ok(()),
        _ => Err(format!("filtering the count: {}", io::Error::last_os_error())),
    }
}

/// Returns the count of an event and those that inherited it.
pub(super) fn read_count(event: &OwnedFd) -> Result<u64, String> {
    let mut count = 0u64;
    // SAFETY: `count` is eight writable bytes, which is what such an event gives.
    match unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) } {
        8 => Ok(count),
        _ => Err(format!("reading the count: {}", io::Error::last_os_error())),
    }
}

/// `struct perf_event_attr` in its first published size (`PERF_ATTR_SIZE_VER0`), which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
/// Excludes child processes. Linux 5.13.
const INHERIT_THREAD: u64 = 1 << 35;

/// Tasks that are counted beside the thread itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// The threads that it starts meanwhile (before Linux 5.13 also its child processes).
    Threads,
    /// These threads, and its child processes with all that they start.
    Children,
}

pub(super) fn open_event(id: u64, tid: i32, whom: Whom) -> io::Result<OwnedFd> {
    let mut last = None;
    let ways: &[u64] = match whom {
        Whom::Threads => &[INHERIT | INHERIT_THREAD, INHERIT],
        Whom::Children => &[INHERIT],
    };
    for inherit in ways {
        let attr = Attr {
            kind: PERF_TYPE_TRACEPOINT,
            size: size_of::<Attr>() as u32,
            config: id,
            flags: DISABLED | *inherit,
            ..Attr::default()
        };
        // SAFETY: `attr` is a whole `perf_event_attr` of the size that it states, and outlives the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attr,
                tid,
                -1,
                -1,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        if fd >= 0 {
            // SAFETY: the kernel has just made this descriptor for us.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
        last = Some(error);
    }
    Err(last.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL)))
}

/// Finds the number of the tracepoint that every system call passes.
pub(super) fn tracepoint_id() -> Result<u64, String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "tracefs").then(|| place.to_owned())
    });
    // An automount appears in the list only after an access to it.
    let usual = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(str::to_owned);
    let mut denied = None;
    for place in mounted.chain(usual) {
        let file = format!("{place}/events/raw_syscalls/sys_enter/id");
        match fs::read_to_string(&file) {
            Ok(text) => return text.trim().parse().map_err(|e| format!("{file}: {e}")),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                denied = Some(format!("{file}: {e}; only root may count system calls here"));
            }
            Err(_) => {}
        }
    }
    Err(denied.unwrap_or_else(|| {
        "no tracefs is mounted (as root: mount -t tracefs tracefs /sys/kernel/tracing), \
         or the kernel has no raw_syscalls tracepoints"
            .into()
    }))
}

pub(super) fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            format!(
                "perf_event_open: {error}: needs root, CAP_PERFMON or kernel.perf_event_paranoid of 1 or less \
                 (it is {}), and a seccomp filter that allows the call",
                paranoid.trim()
            )
        }
        Some(libc::ENOSYS) => format!("perf_event_open: {error}: a kernel without perf, or a seccomp filter"),
        _ => format!("perf_event_open: {error}"),
    }
}
