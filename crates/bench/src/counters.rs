//! What a stretch of work cost this process: time, CPU, context switches, system calls.
//!
//! Everything is of the whole process: all its threads, those that ended meanwhile, and io_uring's workers, which the
//! kernel counts as threads of the process whose ring they serve. Child processes are not counted.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Counters that run since [`Counters::start`].
#[derive(Debug)]
pub struct Counters {
    started: Instant,
    usage: Usage,
    system_calls: Result<SystemCalls, String>,
}

/// What was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Time on the clock.
    pub wall: Duration,
    /// CPU time in user space. The kernel knows the sum of user and system exactly and splits it by sampling at each
    /// tick, so the split of a few milliseconds means little.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Context switches, voluntary and forced.
    pub context_switches: u64,
    /// Page faults that needed no device.
    pub minor_faults: u64,
    /// Page faults that needed one.
    pub major_faults: u64,
    /// Bytes that were read from a block device on behalf of this process: 0 if everything was in the page cache.
    pub device_read_bytes: u64,
    /// The most memory the process had resident, ever.
    pub max_rss_bytes: u64,
    /// System calls, or why they could not be counted. Exact but for those of threads that start or end while the
    /// counters are being set up or read.
    pub system_calls: Result<u64, String>,
}

impl Counters {
    /// Starts counting.
    ///
    /// While system calls are counted, each one on the machine takes longer, by about 0.1 microseconds: see
    /// [`without_system_calls`](Self::without_system_calls). Setting up and ending take some 20 ms, outside of what is
    /// counted.
    pub fn start() -> Self {
        Self::start_with(SystemCalls::prepare())
    }

    /// Starts counting all but the system calls, at no cost to what is measured.
    pub fn without_system_calls() -> Self {
        Self::start_with(Err("not asked for".into()))
    }

    fn start_with(prepared: Result<SystemCalls, String>) -> Self {
        Counters {
            started: Instant::now(),
            usage: Usage::now(),
            // Last, so that the set-up's own calls are not counted.
            system_calls: prepared.and_then(SystemCalls::enable),
        }
    }

    /// Ends counting.
    pub fn stop(self) -> Counts {
        // First, so that only the one call that does it is counted, and that is known.
        let system_calls = self.system_calls.and_then(SystemCalls::finish);
        let usage = Usage::now();
        let before = self.usage;
        Counts {
            wall: self.started.elapsed(),
            user: usage.user.saturating_sub(before.user),
            system: usage.system.saturating_sub(before.system),
            context_switches: usage.switches - before.switches,
            minor_faults: usage.minor_faults - before.minor_faults,
            major_faults: usage.major_faults - before.major_faults,
            device_read_bytes: (usage.blocks_read - before.blocks_read) * BLOCK_BYTES,
            max_rss_bytes: usage.max_rss_bytes,
            system_calls,
        }
    }
}

/// `getrusage` counts the device in sectors.
const BLOCK_BYTES: u64 = 512;

#[derive(Debug)]
struct Usage {
    user: Duration,
    system: Duration,
    switches: u64,
    minor_faults: u64,
    major_faults: u64,
    blocks_read: u64,
    max_rss_bytes: u64,
}

impl Usage {
    fn now() -> Self {
        // SAFETY: zeroes are a valid `rusage`, which the kernel overwrites; RUSAGE_SELF and a valid pointer cannot fail.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        let time =
            |t: libc::timeval| Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64);
        Usage {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            blocks_read: usage.ru_inblock as u64,
            max_rss_bytes: usage.ru_maxrss as u64 * 1024,
        }
    }
}

/// One perf event per thread, each inherited by the threads that it starts.
#[derive(Debug)]
struct SystemCalls {
    /// That of the calling thread is the last: switched on last and off first.
    events: Vec<OwnedFd>,
}

/// A thread that starts another while we look may leave it out, so look again until there is no new one; a program that
/// starts threads all the time is measured with what was found by then.
const SCANS: usize = 3;

impl SystemCalls {
    fn prepare() -> Result<Self, String> {
        let id = tracepoint_id()?;
        // SAFETY: no arguments, cannot fail.
        let own = unsafe { libc::gettid() };
        let mut known = vec![own];
        let mut events = Vec::new();
        for _ in 0..SCANS {
            let fresh: Vec<i32> = tasks()?.into_iter().filter(|tid| !known.contains(tid)).collect();
            if fresh.is_empty() {
                break;
            }
            for tid in fresh {
                known.push(tid);
                match open_event(id, tid) {
                    Ok(event) => events.push(event),
                    Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(e) => return Err(explain(&e)),
                }
            }
        }
        events.push(open_event(id, own).map_err(|e| explain(&e))?);
        Ok(SystemCalls { events })
    }

    fn enable(self) -> Result<Self, String> {
        for event in &self.events {
            control(event, PERF_EVENT_IOC_ENABLE)?;
        }
        Ok(self)
    }

    fn finish(self) -> Result<u64, String> {
        for event in self.events.iter().rev() {
            control(event, PERF_EVENT_IOC_DISABLE)?;
        }
        let mut total = 0;
        for event in &self.events {
            let mut count = 0u64;
            // SAFETY: `count` is eight writable bytes, which is what such an event gives.
            let n = unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) };
            if n != 8 {
                return Err(format!("reading the count: {}", io::Error::last_os_error()));
            }
            total += count;
        }
        // The call that switched off the calling thread's event was made while it was on.
        Ok(total.saturating_sub(1))
    }
}

const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
const PERF_EVENT_IOC_DISABLE: libc::c_ulong = 0x2401;

fn control(event: &OwnedFd, request: libc::c_ulong) -> Result<(), String> {
    // SAFETY: the descriptor is a perf event of ours, and these requests take no pointer.
    match unsafe { libc::ioctl(event.as_raw_fd(), request as _, 0) } {
        0 => Ok(()),
        _ => Err(format!("switching the count: {}", io::Error::last_os_error())),
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
/// Not by child processes. Linux 5.13.
const INHERIT_THREAD: u64 = 1 << 35;

fn open_event(id: u64, tid: i32) -> io::Result<OwnedFd> {
    let mut last = None;
    for inherit in [INHERIT | INHERIT_THREAD, INHERIT] {
        let attr = Attr {
            kind: PERF_TYPE_TRACEPOINT,
            size: size_of::<Attr>() as u32,
            config: id,
            flags: DISABLED | inherit,
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

fn tasks() -> Result<Vec<i32>, String> {
    let list = fs::read_dir("/proc/self/task").map_err(|e| format!("/proc/self/task: {e}"))?;
    Ok(list
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

/// Finds the number of the tracepoint that every system call passes.
fn tracepoint_id() -> Result<u64, String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "tracefs").then(|| place.to_owned())
    });
    // An automount appears in the list only once somebody has looked into it.
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

fn explain(error: &io::Error) -> String {
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
