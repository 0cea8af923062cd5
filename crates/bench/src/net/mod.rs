//! Load on a server: `bench net`.
//!
//! Each round of each cell connects anew and, where the server is a command, starts it anew. The client
//! checks every byte that comes back. Servers are known by their addresses and processes only.

mod client;
pub mod fastio;
mod load;
mod lockstep;
mod server;
mod socket;
mod wire;

pub use load::{Load, Protocol, Published};
pub use socket::Address;

use crate::counters::{Calls, OfThreads};
use crate::environment::Environment;
use crate::report::{Report, Round, Way, FORMAT};
use crate::run::{check_rounds, utc, Counters, Progress, Raw, Schedule};
use crate::subject::Subject;
use crate::tally::Tally;
use crate::usage::Used;
use crate::verdict;
use server::Process;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use wire::Wire;

/// A server, and how it is started.
#[derive(Debug, Clone)]
pub struct Server {
    /// Name in the report.
    pub name: String,
    /// Address that it listens on.
    pub address: Address,
    /// Command that starts it, or its process.
    pub start: Start,
}

/// Ways in which a server is started.
#[derive(Debug, Clone)]
pub enum Start {
    /// It runs already. Its process is not known, so that its costs are not reported.
    Runs,
    /// It runs already, as this process.
    Process(i32),
    /// This command starts it, for each round.
    Command(Vec<OsString>),
}

/// A plan of measurements.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The servers.
    pub servers: Vec<Server>,
    /// The cells, each with the number of its server.
    pub cells: Vec<(usize, Load)>,
    /// Number of rounds.
    pub rounds: u32,
    /// Seed of the contents.
    pub seed: u64,
    /// Way of counting system calls.
    pub counters: Counters,
    /// Cells that cannot be measured here, and why.
    pub left_out: Vec<String>,
    /// Command, for the report.
    pub command: Vec<String>,
}

impl Plan {
    /// Checks everything that can be known to be wrong before a byte is sent.
    ///
    /// # Errors
    /// A sentence about the first error.
    pub fn check(&self) -> Result<(), String> {
        check_rounds(self.rounds)?;
        if self.cells.is_empty() {
            return Err("there is nothing to measure".into());
        }
        for (server, load) in &self.cells {
            load.check()?;
            let start = &self.servers[*server].start;
            if load.lockstep && matches!(start, Start::Runs) {
                return Err("--lockstep measures the server's CPU: name its process with --pid, or start it with -- COMMAND".into());
            }
            if let Start::Process(pid) = start {
                if !Path::new(&format!("/proc/{pid}")).exists() {
                    return Err(format!("--pid {pid}: there is no such process"));
                }
            }
        }
        Ok(())
    }

    fn counting(&self) -> Result<(), String> {
        let any = self
            .servers
            .iter()
            .any(|server| !matches!(server.start, Start::Runs));
        match self.counters {
            Counters::None => Err("not asked for".into()),
            Counters::Bpf => Err("--counters bpf is for `bench io`: here it is perf, or none".into()),
            _ if !any => Err("of no known process: see --pid".into()),
            _ => OfThreads::prepare(&[]).map(drop),
        }
    }
}

/// Measures the plan as `proactor_bench::run::run` does.
///
/// # Errors
/// If nothing could be measured at all.
pub fn run(plan: &Plan, stop: &AtomicBool, on_progress: &mut dyn FnMut(&Progress)) -> Result<Report, String> {
    plan.check()?;
    let counting = plan.counting();
    if let (Counters::Perf | Counters::Bpf, Err(why)) = (plan.counters, &counting) {
        return Err(format!("--counters: {why}"));
    }
    let (begun, started) = (Instant::now(), utc(SystemTime::now()));
    let environment = Environment::look(Path::new("."));
    let schedule = Schedule {
        subjects: plan
            .cells
            .iter()
            .map(|(_, load)| Subject::Net(load.clone()))
            .collect(),
        planned: plan.cells.iter().map(|(_, load)| Some(load.planned())).collect(),
        groups: vec![1; plan.cells.len()],
        rounds: plan.rounds,
        counting: counting.is_ok(),
        seed: plan.seed,
        stop,
    };
    let cells = schedule.measure_each(on_progress, &mut |index, counts| {
        let (server, load) = &plan.cells[index];
        one_round(&plan.servers[*server], load, plan.seed, counts, stop)
    });
    let mut report = Report {
        format: FORMAT.into(),
        command: plan.command.clone(),
        started,
        took_s: begun.elapsed().as_secs_f64(),
        seed: plan.seed,
        rounds: plan.rounds,
        interrupted: stop.load(Ordering::Relaxed),
        environment,
        left_out: plan.left_out.clone(),
        counters: if counting.is_ok() { "perf" } else { "none" }.into(),
        not_seen: match counting {
            Ok(()) => vec!["the work of kernel threads for a server, which make no system calls".into()],
            Err(why) => vec![format!("system calls: {why}")],
        },
        cells,
        verdicts: Vec::new(),
    };
    report.verdicts = verdict::verdicts(&report);
    Ok(report)
}

/// Findings of a round, before they are a [`Round`].
struct Found {
    elapsed: Duration,
    /// Requests that were answered, and their latencies.
    tally: Tally,
    /// Number of requests that were due and had no answer at the end.
    unanswered: Option<u64>,
    used: Used,
    calls: Option<Calls>,
}

fn one_round(
    server: &Server,
    load: &Load,
    seed: u64,
    counts: bool,
    stop: &AtomicBool,
) -> Result<Raw, String> {
    let process = Process::start(server, stop)?;
    let wire = Wire::prepare(load, &server.address, seed)?;
    let found = match load.lockstep {
        true => lockstep::run(&server.address, &wire, load, process.as_ref(), counts, stop)?,
        false => client::run(&server.address, &wire, load, process.as_ref(), counts, stop)?,
    };
    let elapsed_s = found.elapsed.as_secs_f64();
    let all = match load.lockstep {
        true => Way::counted(found.tally.ios, found.tally.bytes, 0.0),
        false => Way::of(&found.tally, elapsed_s),
    };
    Ok(Raw {
        round: Round {
            elapsed_s,
            read: all,
            write: Way::default(),
            all,
            fsyncs: 0,
            submissions: None,
            depth: None,
            together: None,
            used: found.used,
            resident_before: None,
            resident_after: None,
            late_max_s: None,
            unanswered: found.unanswered,
        },
        reads: found.tally,
        writes: Tally::default(),
        calls: found.calls.map(|calls| (calls, None)),
    })
}

/// Counts and times of a server between two moments.
struct Costs<'a> {
    process: Option<&'a Process>,
    before: Option<server::Mark>,
    events: Option<OfThreads>,
}

impl<'a> Costs<'a> {
    fn begin(process: Option<&'a Process>, counts: bool) -> Result<Costs<'a>, String> {
        let events = match process {
            Some(process) if counts => {
                let events = OfThreads::prepare(&process.tasks())?;
                events.start()?;
                Some(events)
            }
            _ => None,
        };
        Ok(Costs {
            process,
            before: process.map(Process::mark),
            events,
        })
    }

    fn end(self) -> Result<(Used, Option<Calls>), String> {
        let used = match (self.process, &self.before) {
            (Some(process), Some(before)) => before.until(&process.mark()),
            _ => Used::default(),
        };
        let total = self.events.map(|events| events.stop()).transpose()?;
        let calls = total.map(|total| Calls {
            total,
            by_name: BTreeMap::new(),
            other: total,
        });
        Ok((used, calls))
    }
}
