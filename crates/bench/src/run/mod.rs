//! Rounds: every cell once a round, each round in another order, so that a slow minute affects all of them.

mod clock;
mod rounds;
mod session;

pub use clock::Progress;
pub(crate) use clock::{seconds_of, utc};
pub(crate) use rounds::{Raw, Schedule};

use crate::counters::Method;
use crate::environment::Environment;
use crate::job::{Cell, Rw};
use crate::refuse;
use crate::report::{Report, FORMAT};
use crate::target::{Needs, Place, Target};
use crate::usage;
use crate::verdict;
use session::Session;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

/// Upper bound on rounds: more add no information, and take days.
pub const MAX_ROUNDS: u32 = 10_000;

pub(crate) fn check_rounds(rounds: u32) -> Result<(), String> {
    match rounds {
        0 => Err("--rounds 0 measures nothing".into()),
        1..=MAX_ROUNDS => Ok(()),
        _ => Err(format!("--rounds {rounds}: at most {MAX_ROUNDS}")),
    }
}

/// Ways of counting system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counters {
    /// Count them where the kernel allows it.
    Auto,
    /// Do not count them.
    None,
    /// Count them with perf events; an error if that is not possible.
    Perf,
    /// Count them with BPF; an error if that is not possible. For `bench io` only.
    Bpf,
}

/// A plan of measurements.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Cells to measure.
    pub cells: Vec<Cell>,
    /// Numbers of cells that follow each other and run at once.
    pub groups: Vec<usize>,
    /// Place of the files.
    pub place: Place,
    /// Number of rounds.
    pub rounds: u32,
    /// Seed of the offsets and contents.
    pub seed: u64,
    /// Way of counting system calls.
    pub counters: Counters,
    /// Command, for the report.
    pub command: Vec<String>,
    /// Engines that were left out, and why, for the report.
    pub left_out: Vec<String>,
}

impl Plan {
    /// Returns the cells that run at once, group by group.
    pub fn group_cells(&self) -> impl Iterator<Item = &[Cell]> {
        let mut rest = self.cells.as_slice();
        self.groups.iter().map(move |size| {
            let (group, behind) = rest.split_at(*size);
            rest = behind;
            group
        })
    }

    /// Returns the requirements on the files.
    pub fn needs(&self) -> Needs {
        let any = |what: fn(&Cell) -> bool| self.cells.iter().any(what);
        let most = |what: fn(&Cell) -> u64| self.cells.iter().map(what).max().unwrap_or(0);
        Needs {
            size: most(|c| c.size),
            jobs: self.group_cells().map(jobs_of).max().unwrap_or(0),
            copies: any(|c| c.rw == Rw::Copy),
            writes: any(|c| c.rw.writes() && c.rw != Rw::Copy),
            verify: any(|c| c.verify),
            direct: self
                .cells
                .iter()
                .filter(|c| c.direct)
                .map(|c| 1 << (c.bs | c.write_bytes()).trailing_zeros())
                .min(),
        }
    }

    /// Checks everything that can be known to be wrong before a byte is written.
    ///
    /// # Errors
    /// A sentence about the first error.
    pub fn check(&self, here: &Environment) -> Result<(), String> {
        if self.cells.is_empty() {
            return Err("there is nothing to measure".into());
        }
        check_rounds(self.rounds)?;
        assert_eq!(
            self.groups.iter().sum::<usize>(),
            self.cells.len(),
            "each is in one group"
        );
        let checked = self.cells.iter().filter(|c| c.verify).count();
        if checked != 0 && checked != self.cells.len() {
            return Err("--verify is for all cells or for none: others would write other bytes".into());
        }
        self.cells.iter().try_for_each(|cell| refuse::cell(cell, here))?;
        Target::check(&self.place, &self.needs())
    }

    /// Returns the path in whose file system the work happens.
    pub fn path(&self) -> &std::path::Path {
        match &self.place {
            Place::Directory(path) | Place::File { path, .. } => path,
        }
    }
}

/// Returns the number of jobs of cells that run at once.
fn jobs_of(group: &[Cell]) -> u32 {
    group.iter().map(|cell| cell.numjobs).fold(0, u32::saturating_add)
}

/// Returns the way to count, and what it cannot see; or why there is none.
///
/// # Errors
/// If a way is required, and it does not work.
fn method(wanted: Counters) -> Result<Result<(Method, Vec<String>), String>, String> {
    let tried = |method: Method| method.try_out().map(|blind_to| (method, blind_to));
    match wanted {
        Counters::None => Ok(Err("not asked for".into())),
        Counters::Perf => tried(Method::Perf)
            .map(Ok)
            .map_err(|why| format!("--counters perf: {why}")),
        Counters::Bpf => tried(Method::Bpf)
            .map(Ok)
            .map_err(|why| format!("--counters bpf: {why}")),
        // A build without BPF, or a user without the right, loses nothing that perf has, and the report says
        // what is missing.
        Counters::Auto => Ok(tried(Method::Bpf).or_else(|no_bpf| match tried(Method::Perf) {
            Ok((method, mut blind_to)) => {
                blind_to.push(format!("counts by BPF: {no_bpf}"));
                Ok((method, blind_to))
            }
            Err(no_perf) => Err(format!("by BPF: {no_bpf}; by perf: {no_perf}")),
        })),
    }
}

/// Measures the plan. `on_progress` is called with the progress, on the calling thread. When `stop` becomes true,
/// the current round is given up and the report has those before it.
///
/// # Errors
/// If nothing could be measured at all: see [`Plan::check`], and the errors of making the files.
pub fn run(plan: &Plan, stop: &AtomicBool, on_progress: &mut dyn FnMut(&Progress)) -> Result<Report, String> {
    let here = Environment::look(plan.path());
    plan.check(&here)?;
    let counting = method(plan.counters)?;
    let method = counting.as_ref().ok().map(|(method, _)| *method);
    let begun = Instant::now();
    let started = utc(SystemTime::now());
    let known_threads = usage::thread_ids();
    let target = Target::make(&plan.place, &plan.needs(), plan.seed, stop, &mut |done, of| {
        on_progress(&Progress {
            what: format!("filling {} of {} MiB", done >> 20, of >> 20),
            done: 0,
            of: 0,
            left: None,
        });
    })?;
    let mut session = Session {
        plan,
        target,
        stop,
        device: here.device.as_ref().map(|d| d.sys.clone()),
        generation: 0,
        known_threads,
        method,
    };
    let cells = session.measure(on_progress);
    let mut report = Report {
        format: FORMAT.into(),
        command: plan.command.clone(),
        started,
        took_s: begun.elapsed().as_secs_f64(),
        seed: plan.seed,
        rounds: plan.rounds,
        interrupted: stop.load(Ordering::Relaxed),
        environment: here,
        left_out: plan.left_out.clone(),
        counters: method.map_or("none", Method::name).into(),
        not_seen: match counting {
            Ok((_, blind_to)) => blind_to,
            Err(why) => vec![format!("system calls: {why}")],
        },
        cells,
        verdicts: Vec::new(),
    };
    report.verdicts = verdict::verdicts(&report);
    Ok(report)
}
