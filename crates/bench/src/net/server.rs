//! The process of a server: its start and end, its threads, and their usage.

use super::socket::{Address, Stream};
use super::{Server, Start};
use crate::usage::{by_thread, threads_of, Used};
use rustix::process::{kill_process_group, waitid, Pid, Signal, WaitId, WaitIdOptions};
use std::collections::HashMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time for a command until its server accepts connections.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time for it to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// Time for which the server of the round before may hold its port.
const LINGER: Duration = Duration::from_secs(1);
/// Time for an attempt to connect.
const PROBE: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(5);

/// A process that serves, with those that it has started.
#[derive(Debug)]
pub(super) struct Process {
    pid: i32,
    child: Option<Child>,
    /// Kernel threads that handle packets for all processes, which are not charged to any.
    ksoftirqd: Vec<i32>,
}

impl Process {
    /// Starts the server if it is a command. `None` if its process is not known.
    pub fn start(server: &Server, stop: &AtomicBool) -> Result<Option<Process>, String> {
        let (pid, child) = match &server.start {
            Start::Runs => return Ok(None),
            Start::Process(pid) => (*pid, None),
            Start::Command(words) => {
                let child = spawn(words, &server.address)?;
                (child.id() as i32, Some(child))
            }
        };
        let mut process = Process {
            pid,
            child,
            ksoftirqd: ksoftirqd(),
        };
        if process.child.is_some() {
            process.wait_until_it_accepts(&server.address, stop)?;
        }
        Ok(Some(process))
    }

    fn wait_until_it_accepts(&mut self, address: &Address, stop: &AtomicBool) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            if accepts(address) {
                return Ok(());
            }
            let child = self.child.as_mut().expect("it was started here");
            if let Ok(Some(status)) = child.try_wait() {
                return Err(format!(
                    "the server ended before it listened on {address}: {status}"
                ));
            }
            if begun.elapsed() > PATIENCE || stop.load(Ordering::Relaxed) {
                return Err(format!("the server does not listen on {address}"));
            }
            thread::sleep(LOOK);
        }
    }

    /// Returns its threads, those of io_uring included, and those of the processes that it has started.
    pub fn tasks(&self) -> Vec<i32> {
        self.processes().into_iter().flat_map(tasks_of).collect()
    }

    fn processes(&self) -> Vec<i32> {
        let mut found = vec![self.pid];
        let mut at = 0;
        while let Some(pid) = found.get(at).copied() {
            at += 1;
            for tid in tasks_of(pid) {
                let children = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
                let children = children.unwrap_or_default();
                found.extend(
                    children
                        .split_whitespace()
                        .filter_map(|word| word.parse::<i32>().ok()),
                );
            }
        }
        found
    }

    /// Returns the CPU nanoseconds of all its threads until now, without the kernel's.
    pub fn cpu_ns(tasks: &[i32]) -> u64 {
        let ran = |tid: &i32| {
            let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        tasks.iter().filter_map(ran).sum()
    }

    pub fn mark(&self) -> Mark {
        let mut mark = Mark::default();
        for pid in self.processes() {
            mark.threads.extend(threads_of(&pid.to_string()));
            for tid in tasks_of(pid) {
                let (voluntary, involuntary) = switches(tid);
                mark.voluntary += voluntary;
                mark.involuntary += involuntary;
            }
            let (user, system) = ticks(pid);
            mark.user_ticks += user;
            mark.system_ticks += system;
        }
        for pid in &self.ksoftirqd {
            mark.threads.extend(threads_of(&pid.to_string()));
        }
        mark
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        let pid = Pid::from_child(child);
        let _ = kill_process_group(pid, Signal::TERM);
        // The process is not reaped before the last signal, so that its group's number stays its own.
        let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let begun = Instant::now();
        while begun.elapsed() < GRACE && matches!(waitid(WaitId::Pid(pid), looking), Ok(None)) {
            thread::sleep(LOOK);
        }
        // Processes that it has started and left behind are in its group.
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = child.wait();
    }
}

/// Usage of a server until now.
#[derive(Debug, Default)]
pub(super) struct Mark {
    threads: HashMap<i32, (String, u64)>,
    voluntary: u64,
    involuntary: u64,
    user_ticks: u64,
    system_ticks: u64,
}

impl Mark {
    /// Returns the usage since. The kernel knows the sum exactly and samples its division.
    pub fn until(&self, end: &Mark) -> Used {
        let threads = by_thread(&self.threads, &end.threads, 0.0);
        let total: f64 = threads.iter().map(|thread| thread.cpu_s).sum();
        let user = end.user_ticks.saturating_sub(self.user_ticks) as f64;
        let system = end.system_ticks.saturating_sub(self.system_ticks) as f64;
        let share = user / (user + system).max(1.0);
        Used {
            user_s: total * share,
            system_s: total * (1.0 - share),
            threads,
            voluntary: end.voluntary.saturating_sub(self.voluntary),
            involuntary: end.involuntary.saturating_sub(self.involuntary),
            ..Used::default()
        }
    }
}

fn spawn(words: &[std::ffi::OsString], address: &Address) -> Result<Child, String> {
    // The ring of a server that has just been ended holds its listener for some milliseconds.
    let begun = Instant::now();
    while is_taken(address) {
        if begun.elapsed() > LINGER {
            return Err(format!("something listens on {address} already"));
        }
        thread::sleep(LOOK);
    }
    let (program, arguments) = words.split_first().ok_or("-- COMMAND: there is none")?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|e| format!("{}: {e}", program.to_string_lossy()))
}

fn accepts(address: &Address) -> bool {
    Stream::connect_within(address, PROBE).is_ok()
}

/// Returns true if something listens there, though its queue may be full.
fn is_taken(address: &Address) -> bool {
    match Stream::connect_within(address, PROBE) {
        Ok(_) => true,
        Err(e) => e.kind() == std::io::ErrorKind::TimedOut,
    }
}

fn tasks_of(pid: i32) -> Vec<i32> {
    let list = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    list.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn switches(tid: i32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    (
        number("voluntary_ctxt_switches:"),
        number("nonvoluntary_ctxt_switches:"),
    )
}

/// Returns user and system ticks, which are sampled.
fn ticks(pid: i32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name is in brackets, and may contain any character.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut numbers = rest.split_whitespace().skip(11).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn ksoftirqd() -> Vec<i32> {
    let list = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = list.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(|pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("ksoftirqd/"))
    })
    .collect()
}
