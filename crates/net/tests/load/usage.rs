//! What a process uses, and how much a soak does.

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::time::{Duration, Instant};

/// This share of a soak's rounds or connections, in percent: `PROACTOR_SOAK`.
pub fn soaked(whole: usize) -> usize {
    let percent = std::env::var("PROACTOR_SOAK").map_or(100, |text| text.parse().expect("a percentage"));
    // Two rounds at least: what the second leaves is compared with the first.
    (whole * percent / 100).max(2)
}

pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

/// What a process has and has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub descriptors: usize,
    pub threads: usize,
    pub resident_kb: usize,
    /// CPU time that it has used.
    pub cpu_ms: u64,
}

impl Usage {
    pub fn of(pid: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        Usage {
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
            threads: number("Threads:"),
            resident_kb: number("VmRSS:"),
            cpu_ms: cpu_ms(pid),
        }
    }
}

/// User and system time, kernel threads of the process among them.
fn cpu_ms(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name may have spaces; after it come the state and, as 12th and 13th, the times.
    let (_, numbers) = text.rsplit_once(") ").unwrap();
    let ticks = numbers.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    ticks * 1000 / rustix::param::clock_ticks_per_second()
}

/// Waits until a process has no more descriptors than these.
pub fn settle(pid: u32, descriptors: usize) {
    let began = Instant::now();
    while Usage::of(pid).descriptors > descriptors {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "descriptors are left: {:?}, and {descriptors} before",
            Usage::of(pid)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
