//! System calls by name, of the thread that asks and all that it starts meanwhile.
//!
//! There is one perf event per name, each with a filter, and one without: the difference is the calls without
//! a name.

use super::perf::Whom;
use super::perf::{
    control, explain, filter, open_event, read_count, tracepoint_id, PERF_EVENT_IOC_DISABLE,
    PERF_EVENT_IOC_ENABLE,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::OwnedFd;

/// System calls made during some work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Number of all calls.
    pub total: u64,
    /// Number of calls by name, of those that have a name here and were made.
    pub by_name: BTreeMap<String, u64>,
    /// Number of the other calls.
    pub other: u64,
}

/// Names of the calls for input and output. Each further name makes every counted call slower.
const NAMES: &[(&str, libc::c_long)] = &[
    ("read", libc::SYS_read),
    ("write", libc::SYS_write),
    ("pread64", libc::SYS_pread64),
    ("pwrite64", libc::SYS_pwrite64),
    ("preadv2", libc::SYS_preadv2),
    ("pwritev2", libc::SYS_pwritev2),
    ("fsync", libc::SYS_fsync),
    ("fdatasync", libc::SYS_fdatasync),
    ("io_submit", libc::SYS_io_submit),
    ("io_getevents", libc::SYS_io_getevents),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("futex", libc::SYS_futex),
    ("epoll_pwait", libc::SYS_epoll_pwait),
    #[cfg(target_arch = "x86_64")]
    ("epoll_wait", libc::SYS_epoll_wait),
    ("clock_nanosleep", libc::SYS_clock_nanosleep),
];

/// Names of the calls that copiers and similar programs make: a round in which they are counted is not timed.
const OF_PROGRAMS: &[(&str, libc::c_long)] = &[
    ("read", libc::SYS_read),
    ("write", libc::SYS_write),
    ("pread64", libc::SYS_pread64),
    ("pwrite64", libc::SYS_pwrite64),
    ("copy_file_range", libc::SYS_copy_file_range),
    ("sendfile", libc::SYS_sendfile),
    ("ioctl", libc::SYS_ioctl),
    ("openat", libc::SYS_openat),
    ("openat2", libc::SYS_openat2),
    ("close", libc::SYS_close),
    ("newfstatat", libc::SYS_newfstatat),
    ("fstat", libc::SYS_fstat),
    ("statx", libc::SYS_statx),
    ("getdents64", libc::SYS_getdents64),
    ("utimensat", libc::SYS_utimensat),
    ("fchmod", libc::SYS_fchmod),
    ("fchown", libc::SYS_fchown),
    ("lseek", libc::SYS_lseek),
    ("mmap", libc::SYS_mmap),
    ("futex", libc::SYS_futex),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("select", SYS_SELECT),
];

#[cfg(target_arch = "x86_64")]
const SYS_SELECT: libc::c_long = libc::SYS_select;
#[cfg(not(target_arch = "x86_64"))]
const SYS_SELECT: libc::c_long = libc::SYS_pselect6;

/// Events that count since [`start`](Self::start).
#[derive(Debug)]
pub struct ByName {
    total: OwnedFd,
    named: Vec<(&'static str, OwnedFd)>,
}

impl ByName {
    /// Makes the events on the calling thread, switched off. Threads that exist already are not counted.
    ///
    /// # Errors
    /// A sentence that says why it cannot be done.
    pub fn prepare(whom: Whom) -> Result<ByName, String> {
        let names = match whom {
            Whom::Threads => NAMES,
            Whom::Children => OF_PROGRAMS,
        };
        let id = tracepoint_id()?;
        // SAFETY: no arguments, cannot fail.
        let own = unsafe { libc::gettid() };
        let event = || open_event(id, own, whom).map_err(|e| explain(&e));
        let named = |&(name, number): &(&'static str, libc::c_long)| {
            let event = event()?;
            let expression = CString::new(format!("id == {number}")).expect("there is no zero in it");
            filter(&event, &expression)?;
            Ok((name, event))
        };
        Ok(ByName {
            total: event()?,
            named: names.iter().map(named).collect::<Result<_, String>>()?,
        })
    }

    /// Starts counting.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn start(&self) -> Result<(), String> {
        // First on and last off: other threads make calls meanwhile, and the total must include all that have
        // a name.
        control(&self.total, PERF_EVENT_IOC_ENABLE)?;
        for (_, event) in &self.named {
            control(event, PERF_EVENT_IOC_ENABLE)?;
        }
        Ok(())
    }

    /// Stops counting, and returns the counts.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn stop(&self) -> Result<Calls, String> {
        for (_, event) in &self.named {
            control(event, PERF_EVENT_IOC_DISABLE)?;
        }
        control(&self.total, PERF_EVENT_IOC_DISABLE)?;
        // The calls that switched the named events on and off, and this one off, were counted.
        let own = 2 * self.named.len() as u64 + 1;
        let total = read_count(&self.total)?.saturating_sub(own);
        let mut by_name = BTreeMap::new();
        for (name, event) in &self.named {
            match read_count(event)? {
                0 => {}
                count => drop(by_name.insert((*name).to_owned(), count)),
            }
        }
        let other = total.saturating_sub(by_name.values().sum());
        Ok(Calls {
            total,
            by_name,
            other,
        })
    }
}
