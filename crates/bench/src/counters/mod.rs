//! Cost of some work to this process: time, CPU, context switches, system calls.
//!
//! Everything is counted for the whole process: all its threads, those that ended meanwhile, and io_uring's
//! workers, which the kernel counts as threads of the process whose ring they serve. Child processes are not
//! counted.

#[cfg(feature = "bpf")]
mod bpf;
// Its tests require no kernel and no clang.
#[cfg(any(feature = "bpf", test))]
mod btf;
mod by_name;
mod of_threads;
mod perf;
mod seen;
mod tracer;

pub use by_name::{ByName, Calls};
pub use of_threads::OfThreads;
pub use perf::Whom;
pub use seen::{Seen, Times};
pub use tracer::Method;
pub(crate) use tracer::Tracer;

use perf::{
    control, explain, open_event, read_count, tracepoint_id, PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_ENABLE,
};
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Counters that run since [`Counters::start`].
#[derive(Debug)]
pub struct Counters {
    started: Instant,
    usage: Usage,
    system_calls: Result<SystemCalls, String>,
}

/// Counts of some work.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Elapsed time.
    pub wall: Duration,
    /// CPU time in user space. The kernel knows the sum of user and system exactly and splits it by sampling
    /// at each tick, so the split of a few milliseconds means little.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Context switches, voluntary and forced.
    pub context_switches: u64,
    /// Context switches of threads that had to wait.
    pub voluntary: u64,
    /// Page faults that needed no device.
    pub minor_faults: u64,
    /// Page faults that needed a device.
    pub major_faults: u64,
    /// Bytes that were read from a block device on behalf of this process: 0 if everything was in the page
    /// cache.
    pub device_read_bytes: u64,
    /// Peak resident memory of the process since its start.
    pub max_rss_bytes: u64,
    /// Number of system calls, or the reason why they could not be counted. It is exact except for the calls
    /// of threads that start or end while the counters are being set up or read.
    pub system_calls: Result<u64, String>,
}

impl Counters {
    /// Starts counting.
    ///
    /// While system calls are counted, each one on the machine takes longer, by about 0.1 microseconds: see
    /// [`without_system_calls`](Self::without_system_calls). Setting up and ending take some 20 ms, which are
    /// not counted.
    pub fn start() -> Self {
        Self::start_with(SystemCalls::prepare())
    }

    /// Starts counting everything except system calls, at no cost to what is measured.
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

    /// Stops counting.
    pub fn stop(self) -> Counts {
        // First, so that only the one call that stops it is counted, which is known.
        let system_calls = self.system_calls.and_then(SystemCalls::finish);
        let usage = Usage::now();
        let before = self.usage;
        Counts {
            wall: self.started.elapsed(),
            user: usage.user.saturating_sub(before.user),
            system: usage.system.saturating_sub(before.system),
            context_switches: usage.switches - before.switches,
            voluntary: usage.voluntary - before.voluntary,
            minor_faults: usage.minor_faults - before.minor_faults,
            major_faults: usage.major_faults - before.major_faults,
            device_read_bytes: (usage.blocks_read - before.blocks_read) * BLOCK_BYTES,
            max_rss_bytes: usage.max_rss_bytes,
            system_calls,
        }
    }
}

/// Unit of `getrusage`, which counts device transfers in sectors.
const BLOCK_BYTES: u64 = 512;

#[derive(Debug)]
struct Usage {
    user: Duration,
    system: Duration,
    switches: u64,
    voluntary: u64,
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
            voluntary: usage.ru_nvcsw as u64,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            blocks_read: usage.ru_inblock as u64,
            max_rss_bytes: usage.ru_maxrss as u64 * 1024,
        }
    }
}

/// Perf events, one for each thread and inherited by the threads that it starts.
#[derive(Debug)]
struct SystemCalls {
    /// Events. The calling thread's is the last: switched on last and off first.
    events: Vec<OwnedFd>,
}

/// Number of scans for threads. A thread that starts another one during a scan may hide it, so scanning is
/// repeated until there is no new one; a program that starts threads all the time is measured with those
/// found by then.
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
                match open_event(id, tid, Whom::Threads) {
                    Ok(event) => events.push(event),
                    Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(e) => return Err(explain(&e)),
                }
            }
        }
        events.push(open_event(id, own, Whom::Threads).map_err(|e| explain(&e))?);
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
            total += read_count(event)?;
        }
        // The call that switched off the calling thread's event was counted.
        Ok(total.saturating_sub(1))
    }
}

fn tasks() -> Result<Vec<i32>, String> {
    let list = fs::read_dir("/proc/self/task").map_err(|e| format!("/proc/self/task: {e}"))?;
    Ok(list
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}
