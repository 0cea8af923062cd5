//! Usage of this process as the kernel counts it, thread by thread, and the bytes that the device has moved.
//!
//! Usage is recorded before and after a round: [`Mark::now`], and the difference of two. Reads only /proc and
//! /sys.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// Size of a sector in /sys, whatever the device's is.
const SECTOR_BYTES: u64 = 512;

/// CPU time of threads of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadCpu {
    /// Name of the threads, without a number at its end; `(ended)` for those that were gone at the end.
    pub name: String,
    /// Number of threads.
    pub threads: u32,
    /// CPU seconds, user and system together.
    pub cpu_s: f64,
}

/// Bytes that a device has moved, for all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Bytes read from the device.
    pub read_bytes: u64,
    /// Bytes written to the device.
    pub written_bytes: u64,
}

/// Usage between two marks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// CPU seconds in user space.
    pub user_s: f64,
    /// CPU seconds in the kernel, its threads for this process included (io-wq, SQPOLL).
    pub system_s: f64,
    /// CPU time by thread.
    pub threads: Vec<ThreadCpu>,
    /// Context switches of a thread that had to wait.
    pub voluntary: u64,
    /// Context switches of threads that were preempted.
    pub involuntary: u64,
    /// Page faults that needed no device.
    pub minor_faults: u64,
    /// Page faults that needed a device.
    pub major_faults: u64,
    /// Bytes that were read from the device on behalf of this process (/proc/self/io); `None` where that is
    /// not available.
    pub process_read_bytes: Option<u64>,
    /// Bytes that this process has sent to a device, or made dirty.
    pub process_written_bytes: Option<u64>,
    /// Bytes that the device has moved meanwhile, for all processes.
    pub device: Option<Moved>,
    /// Peak resident memory, the program's own included; `None` if the kernel could not reset it.
    pub peak_rss_bytes: Option<u64>,
}

/// Usage until now.
#[derive(Debug)]
pub struct Mark {
    usage: libc::rusage,
    threads: HashMap<i32, (String, u64)>,
    io: HashMap<String, u64>,
    device: Option<Moved>,
    peak_is_new: bool,
}

impl Mark {
    /// Records the usage until now. `device` is the directory in /sys of the device that is read.
    pub fn now(device: Option<&str>) -> Mark {
        Mark {
            peak_is_new: false,
            // Threads last: reading them costs this one the most.
            device: device.and_then(moved),
            io: fields("/proc/self/io"),
            usage: usage(),
            threads: threads(),
        }
    }

    /// Records the usage until now, and resets the peak of memory.
    pub fn start(device: Option<&str>) -> Mark {
        let peak_is_new = fs::write("/proc/self/clear_refs", "5").is_ok();
        Mark {
            peak_is_new,
            ..Mark::now(device)
        }
    }

    /// Returns the usage since.
    pub fn until(&self, end: &Mark) -> Used {
        let (a, b) = (&self.usage, &end.usage);
        let time = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        let (user_s, system_s) = (
            time(b.ru_utime) - time(a.ru_utime),
            time(b.ru_stime) - time(a.ru_stime),
        );
        let count = |before: i64, after: i64| (after - before).max(0) as u64;
        let io = |name: &str| Some(end.io.get(name)?.saturating_sub(*self.io.get(name)?));
        Used {
            user_s,
            system_s,
            threads: by_thread(&self.threads, &end.threads, user_s + system_s),
            voluntary: count(a.ru_nvcsw, b.ru_nvcsw),
            involuntary: count(a.ru_nivcsw, b.ru_nivcsw),
            minor_faults: count(a.ru_minflt, b.ru_minflt),
            major_faults: count(a.ru_majflt, b.ru_majflt),
            process_read_bytes: io("read_bytes"),
            process_written_bytes: io("write_bytes"),
            device: self.device.zip(end.device).map(|(before, after)| Moved {
                read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
                written_bytes: after.written_bytes.saturating_sub(before.written_bytes),
            }),
            peak_rss_bytes: self.peak_is_new.then(peak_rss).flatten(),
        }
    }
}

/// Returns the usage of each name, and the rest of the sum for threads that are gone.
pub(crate) fn by_thread(
    before: &HashMap<i32, (String, u64)>,
    after: &HashMap<i32, (String, u64)>,
    total_s: f64,
) -> Vec<ThreadCpu> {
    let mut names: HashMap<&str, (u32, u64)> = HashMap::new();
    for (tid, (name, ns)) in after {
        let used = ns.saturating_sub(before.get(tid).map_or(0, |b| b.1));
        if used > 0 {
            let entry = names.entry(name).or_default();
            entry.0 += 1;
            entry.1 += used;
        }
    }
    let mut list: Vec<ThreadCpu> = names
        .into_iter()
        .map(|(name, (threads, ns))| ThreadCpu {
            name: name.to_owned(),
            threads,
            cpu_s: ns as f64 / 1e9,
        })
        .collect();
    let seen: f64 = list.iter().map(|one| one.cpu_s).sum();
    // The two clocks of the kernel are read one after the other: a small difference is not a thread.
    const NOISE_S: f64 = 0.005;
    if total_s - seen > NOISE_S {
        list.push(ThreadCpu {
            name: "(ended)".into(),
            threads: 0,
            cpu_s: total_s - seen,
        });
    }
    list.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
    list
}

fn usage() -> libc::rusage {
    // SAFETY: zeroes are a valid `rusage`, which the kernel overwrites; RUSAGE_SELF and a valid pointer cannot fail.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    }
}

/// Returns the name and CPU nanoseconds of every thread.
fn threads() -> HashMap<i32, (String, u64)> {
    threads_of("self")
}

/// Returns the threads of a process, which is named as in /proc.
pub(crate) fn threads_of(process: &str) -> HashMap<i32, (String, u64)> {
    let list = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten();
    list.filter_map(|entry| {
        let tid = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let ran = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let name = name
            .trim()
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        Some((tid, (name.to_owned(), ran.split(' ').next()?.parse().ok()?)))
    })
    .collect()
}

/// Returns the ids of all threads of this process.
pub fn thread_ids() -> Vec<i32> {
    let list = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    list.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Waits until only these threads are left, but not long: a C library's own may stay a second.
pub fn wait_for_threads_to_end(known: &[i32]) {
    const PATIENCE: Duration = Duration::from_millis(2500);
    let until = std::time::Instant::now() + PATIENCE;
    while thread_ids().iter().any(|tid| !known.contains(tid)) && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Parses `name: value` lines.
fn fields(file: &str) -> HashMap<String, u64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_owned(), value.split_whitespace().next()?.parse().ok()?))
        })
        .collect()
}

pub(crate) fn peak_rss() -> Option<u64> {
    Some(fields("/proc/self/status").get("VmHWM")? * 1024)
}

pub(crate) fn moved(device: &str) -> Option<Moved> {
    let text = fs::read_to_string(format!("{device}/stat")).ok()?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    Some(Moved {
        read_bytes: numbers.get(2)? * SECTOR_BYTES,
        written_bytes: numbers.get(6)? * SECTOR_BYTES,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn burn(time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::black_box(crate::data::mix(1));
        }
    }

    #[test]
    fn by_name_and_ended() {
        let start = Mark::start(None);
        std::thread::scope(|scope| {
            let stays = std::thread::Builder::new().name("stays-7".into());
            let (leave, wait) = std::sync::mpsc::channel::<()>();
            let (done, finished) = std::sync::mpsc::channel();
            let spawned = stays.spawn_scoped(scope, move || {
                burn(Duration::from_millis(60));
                done.send(()).unwrap();
                let _ = wait.recv();
            });
            scope.spawn(|| burn(Duration::from_millis(60))).join().unwrap();
            finished.recv().unwrap();
            let used = start.until(&Mark::now(None));
            drop(leave);
            spawned.unwrap().join().unwrap();
            let cpu = |name: &str| {
                used.threads
                    .iter()
                    .find(|t| t.name == name)
                    .map_or(0.0, |t| t.cpu_s)
            };
            // On a busy machine a thread has less than its time on the clock, and other tests run beside it.
            assert!(cpu("stays") > 0.001, "{used:?}");
            assert!(cpu("(ended)") > 0.001, "{used:?}");
            assert!(used.user_s + used.system_s > 0.002, "{used:?}");
            assert!(
                used.peak_rss_bytes.is_none_or(|bytes| bytes > 1 << 20),
                "{used:?}"
            );
        });
    }
}
