//! Activity of a server, as lines of text or of JSON: in one interval, and in total at the end.

use super::flags::StatsForm;
use proactor_net::threads::{self, ThreadUse};
use proactor_net::{Latency, Snapshot, Stats};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Lower bound on the CPU of a thread in the text form, in percent of a processor.
const SHOWN_PERCENT: f64 = 0.5;

/// All counts at one time.
#[derive(Clone)]
struct Sample {
    at: Instant,
    total: Snapshot,
    threads: Vec<ThreadUse>,
}

impl Sample {
    fn take(snapshots: Vec<Snapshot>) -> Self {
        let mut total = Snapshot::default();
        for one in snapshots {
            total.stats += one.stats;
            total.connections += one.connections;
            total.requests += one.requests;
            total.calls += one.calls;
            total.latency.add(&one.latency);
        }
        Sample {
            at: Instant::now(),
            total,
            // Without /proc there is nothing to report about threads.
            threads: threads::all().unwrap_or_default(),
        }
    }
}

/// Takes samples, and reports what happened between two of them.
pub(super) struct Watch {
    form: StatsForm,
    first: Sample,
    last: Sample,
}

#[derive(Serialize)]
struct Thread {
    tid: u32,
    name: String,
    /// True if it runs in the kernel only.
    kernel: bool,
    cpu_s: f64,
    cpu_percent: f64,
    switches: u64,
}

/// Difference of two samples.
#[derive(Serialize)]
struct Interval {
    /// `stats`, or `end` for the total since the start.
    event: &'static str,
    elapsed_s: f64,
    connections: usize,
    accepted: u64,
    closed: u64,
    idle_closed: u64,
    requests: u64,
    requests_per_s: f64,
    received_bytes: u64,
    sent_bytes: u64,
    calls: u64,
    calls_per_request: Option<f64>,
    switches_per_request: Option<f64>,
    cpu_us_per_request: Option<f64>,
    /// Time from the arrival of a request until its reply was sent or queued.
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    direct_sends: u64,
    queued_sends: u64,
    zero_copy_sends: u64,
    starved: u64,
    /// Times that accepting stopped for want of descriptors or memory.
    holds: u64,
    threads: Vec<Thread>,
}

impl Interval {
    fn between(event: &'static str, before: &Sample, after: &Sample) -> Self {
        let elapsed_s = (after.at - before.at).as_secs_f64();
        let (old, new) = (&before.total.stats, &after.total.stats);
        let since = |of: fn(&Stats) -> u64| of(new).saturating_sub(of(old));
        let requests = after.total.requests.saturating_sub(before.total.requests);
        let calls = after.total.calls.saturating_sub(before.total.calls);
        let threads = used(before, after, elapsed_s);
        let per_request = |value: f64| (requests > 0).then(|| value / requests as f64);
        let latency = after.total.latency.since(&before.total.latency);
        Interval {
            event,
            elapsed_s,
            connections: after.total.connections,
            accepted: since(|stats| stats.accepted),
            closed: since(|stats| stats.closed),
            idle_closed: since(|stats| stats.idle_closed),
            requests,
            requests_per_s: requests as f64 / elapsed_s.max(f64::MIN_POSITIVE),
            received_bytes: since(|stats| stats.received_bytes),
            sent_bytes: since(|stats| stats.sent_bytes),
            calls,
            calls_per_request: per_request(calls as f64),
            switches_per_request: per_request(threads.iter().map(|one| one.switches).sum::<u64>() as f64),
            cpu_us_per_request: per_request(threads.iter().map(|one| one.cpu_s).sum::<f64>() * 1e6),
            p50_us: micros(&latency, 0.5),
            p99_us: micros(&latency, 0.99),
            direct_sends: since(|stats| stats.direct_sends),
            queued_sends: since(|stats| stats.queued_sends),
            zero_copy_sends: since(|stats| stats.zero_copy_sends),
            starved: since(|stats| stats.starved),
            holds: since(|stats| stats.holds),
            threads,
        }
    }

    fn text(&self) -> String {
        let mut line = format!(
            "{} connections, {:.0} requests/s",
            self.connections, self.requests_per_s
        );
        // Writing to a String cannot fail, here and below.
        if let (Some(calls), Some(switches)) = (self.calls_per_request, self.switches_per_request) {
            let _ = write!(line, ", per request {calls:.2} calls, {switches:.2} switches");
        }
        if let Some(cpu) = self.cpu_us_per_request {
            let _ = write!(line, ", {cpu:.2} us of CPU");
        }
        if let (Some(p50), Some(p99)) = (self.p50_us, self.p99_us) {
            let _ = write!(line, ", served in {p50:.1} us (p50), {p99:.1} us (p99)");
        }
        for thread in self.threads.iter().filter(|one| one.cpu_percent >= SHOWN_PERCENT) {
            let _ = write!(line, ", {} {:.0} %", thread.name, thread.cpu_percent);
        }
        line
    }
}

fn micros(latency: &Latency, part: f64) -> Option<f64> {
    latency.quantile(part).map(|time| time.as_secs_f64() * 1e6)
}

/// Returns what each thread of the second sample has used since the first.
fn used(before: &Sample, after: &Sample, elapsed_s: f64) -> Vec<Thread> {
    after
        .threads
        .iter()
        .map(|thread| {
            let old = before.threads.iter().find(|old| old.tid == thread.tid);
            let since = |of: fn(&ThreadUse) -> u64| of(thread).saturating_sub(old.map_or(0, of));
            let cpu_s = Duration::from_nanos(since(|one| one.cpu_ns)).as_secs_f64();
            Thread {
                tid: thread.tid,
                name: thread.name.clone(),
                kernel: thread.is_kernel(),
                cpu_s,
                cpu_percent: 100.0 * cpu_s / elapsed_s.max(f64::MIN_POSITIVE),
                switches: since(|one| one.switches),
            }
        })
        .collect()
}

impl Watch {
    /// Takes the first sample, before the server starts.
    pub(super) fn start(form: StatsForm) -> Self {
        let first = Sample::take(Vec::new());
        Watch {
            form,
            last: first.clone(),
            first,
        }
    }

    /// Returns the line for the time since the last one.
    pub(super) fn line(&mut self, snapshots: Vec<Snapshot>) -> String {
        let now = Sample::take(snapshots);
        let interval = Interval::between("stats", &self.last, &now);
        self.last = now;
        self.show(&interval)
    }

    /// Returns the line for the time since the start. Threads that have ended are those of the last sample.
    pub(super) fn end(&self, snapshots: Vec<Snapshot>) -> String {
        let mut now = Sample::take(snapshots);
        for thread in &self.last.threads {
            if !now.threads.iter().any(|one| one.tid == thread.tid) {
                now.threads.push(thread.clone());
            }
        }
        let interval = Interval::between("end", &self.first, &now);
        match self.form {
            StatsForm::Json => self.show(&interval),
            StatsForm::Text => format!(
                "in all {} requests on {} connections in {:.1} s: {}\n",
                interval.requests,
                interval.accepted,
                interval.elapsed_s,
                interval.text()
            ),
        }
    }

    fn show(&self, interval: &Interval) -> String {
        match self.form {
            StatsForm::Text => interval.text() + "\n",
            StatsForm::Json => {
                serde_json::to_string(interval).expect("only strings, numbers and lists") + "\n"
            }
        }
    }
}
