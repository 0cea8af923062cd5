//! What each thread of this process has used, the kernel's own among them: those that poll a ring's queue (`iou-sqp-`) and those
//! that do work which blocks (`iou-wrk-`) are the process's too.

use std::fs;
use std::io;

/// What a thread has used since it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadUse {
    /// The thread's number.
    pub tid: u32,
    /// Its name, of at most 15 bytes.
    pub name: String,
    /// Processor time.
    pub cpu_ns: u64,
    /// Times that it gave the processor up or lost it.
    pub switches: u64,
}

impl ThreadUse {
    /// Whether the kernel runs it, and not code of this process.
    pub fn is_kernel(&self) -> bool {
        self.name.starts_with("iou-")
    }
}

/// All threads of this process, by number.
///
/// # Errors
/// If /proc cannot be read. A thread that ends meanwhile is left out.
pub fn all() -> io::Result<Vec<ThreadUse>> {
    let mut threads: Vec<ThreadUse> = fs::read_dir("/proc/self/task")?
        .filter_map(|entry| one(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .collect();
    threads.sort_by_key(|thread| thread.tid);
    Ok(threads)
}

fn one(tid: u32) -> Option<ThreadUse> {
    let read = |file: &str| fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).ok();
    let stat = read("stat")?;
    let (name, fields) = split_stat(&stat)?;
    let cpu_ns = read("schedstat")
        .and_then(|text| text.split_ascii_whitespace().next()?.parse().ok())
        // Without CONFIG_SCHED_INFO.
        .or_else(|| ticks_ns(fields))?;
    Some(ThreadUse {
        tid,
        name: name.to_owned(),
        cpu_ns,
        switches: switches(&read("status")?),
    })
}

/// The name, which may hold spaces and parentheses, and what follows it.
fn split_stat(stat: &str) -> Option<(&str, &str)> {
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(") ")?;
    Some((name, fields))
}

/// User and system time of /proc's `stat`, which are counted in hundredths of a second.
fn ticks_ns(fields: &str) -> Option<u64> {
    const NANOS_PER_TICK: u64 = 10_000_000;
    let mut times = fields.split(' ').skip(11);
    let mut next = || times.next()?.parse::<u64>().ok();
    Some((next()? + next()?) * NANOS_PER_TICK)
}

fn switches(status: &str) -> u64 {
    status
        .lines()
        .filter_map(|line| line.split_once("ctxt_switches:")?.1.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0";
        let (name, fields) = split_stat(stat).unwrap();
        assert_eq!(name, "a) b (c");
        assert_eq!(ticks_ns(fields), Some(420_000_000));
        assert_eq!(
            switches("x:\t1\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n"),
            7
        );
    }

    #[test]
    fn a_thread_that_works_is_seen() {
        let name = "busy-thread";
        let busy = std::thread::Builder::new().name(name.into()).spawn(|| {
            let begin = std::time::Instant::now();
            while begin.elapsed().as_millis() < 20 {}
            all().unwrap()
        });
        let threads = busy.unwrap().join().unwrap();
        let found = threads.iter().find(|thread| thread.name == name).unwrap();
        assert!(found.cpu_ns > 0 && !found.is_kernel());
    }
}
