//! The CPU that a server needs for one wake-up that finds exactly K ready connections.
//!
//! Client and server share one processor. The server has SCHED_BATCH, under which it never preempts the client when it wakes: it
//! begins when the client sleeps, and finds all requests there. The client sleeps for longer than the server needs, so that it
//! does not preempt the server either. A real-time client would do that too, but the kernel then leaves packets to ksoftirqd.

use super::client::{connect, Connection};
use super::load::Load;
use super::server::Process;
use super::socket::Address;
use super::wire::Wire;
use super::{Costs, Found};
use crate::tally::Tally;
use crate::usage::{ThreadCpu, Used};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Upper bound on the time of a wake-up: beyond it, bytes are lost or the server is stuck.
const PATIENCE: Duration = Duration::from_secs(5);
/// First sleep in microseconds, for each request; later ones follow the time that the server needs.
const FIRST_SLEEP_US: f64 = 20.0;
const LONGER: f64 = 1.2;
const SHORTER: f64 = 0.998;
/// Number of wake-ups that are not measured: caches and the length of the sleep settle.
const WARM_UP: u32 = 20;
const MAX_SLEEP_S: f64 = 0.1;
/// Divisor of the number of wake-ups that gives the rank of the percentile.
const LEAST_DISTURBED: usize = 10;
/// Lower bound on wake-ups: fewer are not conclusive.
const FEWEST: usize = 20;

/// Runs one round.
pub(super) fn run(
    address: &Address,
    wire: &Wire,
    load: &Load,
    process: Option<&Process>,
    counts: bool,
    stop: &AtomicBool,
) -> Result<Found, String> {
    let process = process.ok_or("lock-step takes a process")?;
    let mut connections = connect(address, load.connections)?;
    let mut step = Step {
        wire,
        load,
        tasks: Vec::new(),
        sleep_s: FIRST_SLEEP_US * 1e-6 * f64::from(load.connections * load.depth),
        buffer: vec![0; 1 << 20],
        bytes: 0,
    };
    // A server with a thread for each connection has all of them after this.
    step.wake_up(&mut connections)?;
    step.tasks = process.tasks();
    let _placed = Placed::together(&step.tasks)?;
    for _ in 0..WARM_UP {
        step.wake_up(&mut connections)?;
    }
    let costs = Costs::begin(Some(process), counts)?;
    let begun = Instant::now();
    let runtime = Duration::from_millis(load.runtime_ms);
    let (mut each_ns, mut all_wake_ups) = (Vec::new(), 0u64);
    step.bytes = 0;
    while begun.elapsed() < runtime && !stop.load(Ordering::Relaxed) {
        all_wake_ups += 1;
        each_ns.extend(step.wake_up(&mut connections)?);
    }
    let elapsed = begun.elapsed();
    let (mut used, calls) = costs.end()?;
    if each_ns.len() < FEWEST {
        return Err(format!(
            "{} of {all_wake_ups} wake-ups were undisturbed: a longer --duration has more",
            each_ns.len()
        ));
    }
    each_ns.sort_unstable();
    let wake_up_s = each_ns[each_ns.len() / LEAST_DISTURBED] as f64 / 1e9;
    if wake_up_s == 0.0 {
        return Err("the process used no CPU: it is not the one that serves".into());
    }
    charge(&mut used, wake_up_s * all_wake_ups as f64);
    let requests = u64::from(load.connections) * u64::from(load.depth) * all_wake_ups;
    Ok(Found {
        elapsed,
        tally: Tally::untimed(requests, step.bytes),
        unanswered: None,
        used,
        calls,
    })
}

/// Replaces the sum by the tenth percentile of the wake-ups times their number: other programs disturb the
/// rest.
fn charge(used: &mut Used, total_s: f64) {
    let before = used.user_s + used.system_s;
    let share = if before > 0.0 { used.user_s / before } else { 0.0 };
    (used.user_s, used.system_s) = (total_s * share, total_s * (1.0 - share));
    used.threads = vec![ThreadCpu {
        name: "tenth percentile of the wake-ups".into(),
        threads: 1,
        cpu_s: total_s,
    }];
}

struct Step<'a> {
    wire: &'a Wire,
    load: &'a Load,
    tasks: Vec<i32>,
    sleep_s: f64,
    buffer: Vec<u8>,
    bytes: u64,
}

impl Step<'_> {
    /// Sends, waits, reads, and returns the server's CPU in nanoseconds. `None` if the client woke too early.
    fn wake_up(&mut self, connections: &mut [Connection]) -> Result<Option<u64>, String> {
        let before = Process::cpu_ns(&self.tasks);
        for connection in &mut *connections {
            (0..self.load.depth).for_each(|_| connection.ask(self.wire, Instant::now()));
            if !connection.flush()? {
                return Err(
                    "--size times --depth does not fit into a socket's buffer: lock-step sends all at once"
                        .into(),
                );
            }
        }
        let disturbed = !self.wait_until_all_is_served(connections)?;
        let used = Process::cpu_ns(&self.tasks) - before;
        for connection in connections {
            while connection.expected_len(self.wire) > 0 {
                let bytes = &mut self.bytes;
                connection.read(self.wire, &mut self.buffer, |_, len| *bytes += len as u64)?;
            }
        }
        Ok((!disturbed).then_some(used))
    }

    /// Returns true if one sleep was enough.
    fn wait_until_all_is_served(&mut self, connections: &[Connection]) -> Result<bool, String> {
        let begun = Instant::now();
        let mut sleeps = 0;
        loop {
            thread::sleep(Duration::from_secs_f64(self.sleep_s));
            sleeps += 1;
            if connections.iter().all(|one| self.is_served(one)) {
                break;
            }
            if begun.elapsed() > PATIENCE {
                return Err("the server did not answer all requests of a wake-up".into());
            }
        }
        self.sleep_s = match sleeps {
            1 => self.sleep_s * SHORTER,
            _ => (self.sleep_s * LONGER).min(MAX_SLEEP_S),
        };
        Ok(sleeps == 1)
    }

    fn is_served(&self, connection: &Connection) -> bool {
        let wanted = connection.expected_len(self.wire) as u64;
        rustix::io::ioctl_fionread(connection.stream()).is_ok_and(|there| there >= wanted)
    }
}

/// Threads that share one processor until this is dropped, and the client with them.
struct Placed {
    before: Vec<(i32, libc::cpu_set_t, Option<i32>)>,
}

impl Placed {
    fn together(tasks: &[i32]) -> Result<Placed, String> {
        // SAFETY: no arguments.
        let cpu = unsafe { libc::sched_getcpu() }.max(0) as usize;
        // SAFETY: no arguments.
        let own = unsafe { libc::gettid() };
        let mut placed = Placed { before: Vec::new() };
        for tid in tasks.iter().copied().chain([own]) {
            let Some(cpus) = affinity(tid) else { continue };
            // SAFETY: a call without pointers.
            let policy = unsafe { libc::sched_getscheduler(tid) };
            let changes_policy = tid != own && policy == libc::SCHED_OTHER;
            placed.before.push((tid, cpus, changes_policy.then_some(policy)));
            let moved = set_affinity(tid, &only(cpu));
            if !moved || (changes_policy && !set_policy(tid, libc::SCHED_BATCH)) {
                return Err(format!(
                    "thread {tid}: {}; lock-step changes the processor and the policy of the server's threads",
                    std::io::Error::last_os_error()
                ));
            }
        }
        Ok(placed)
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        for (tid, cpus, policy) in &self.before {
            set_affinity(*tid, cpus);
            if let Some(policy) = policy {
                set_policy(*tid, *policy);
            }
        }
    }
}

fn only(cpu: usize) -> libc::cpu_set_t {
    // SAFETY: zeroes are an empty set, and the number is one that the kernel gave.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        set
    }
}

fn affinity(tid: i32) -> Option<libc::cpu_set_t> {
    // SAFETY: zeroes are a valid set, of the size that is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(tid, size_of::<libc::cpu_set_t>(), &raw mut set) == 0).then_some(set)
    }
}

fn set_affinity(tid: i32, cpus: &libc::cpu_set_t) -> bool {
    // SAFETY: the set is valid, and of the size that is given.
    unsafe { libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), cpus) == 0 }
}

fn set_policy(tid: i32, policy: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters are valid for the call.
    unsafe { libc::sched_setscheduler(tid, policy, &raw const parameters) == 0 }
}
