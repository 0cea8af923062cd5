//! `bench files`: asyncio file libraries, from the packages that are installed. The work itself is Python's
//! (`proactor/_bench`); this module has its processes, the page cache and the rounds.

use super::child;
use super::frame::Frame;
use super::Common;
use crate::counters::Calls;
use crate::job::Cache;
use crate::report::{Report, Round, Way};
use crate::run::{Progress, Raw, Schedule};
use crate::subject::{Entry, Subject};
use crate::tally::Tally;
use crate::target::space;
use crate::tree;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// An interpreter that has the package.
#[derive(Debug, Clone)]
pub struct Python {
    /// Program of the interpreter.
    pub program: OsString,
    /// True if only a tenth of the work is wanted.
    pub quick: bool,
}

/// Tasks and versions of an interpreter.
#[derive(Debug, Clone, Deserialize)]
pub struct Offer {
    /// Kinds of work.
    pub tasks: Vec<Task>,
    /// Versions of the interpreter and the packages.
    pub versions: BTreeMap<String, String>,
}

/// One kind of work.
#[derive(Debug, Clone, Deserialize)]
pub struct Task {
    /// Name on the command line.
    pub name: String,
    /// Description, in a line.
    pub about: String,
    /// Total size of its files in bytes; for an older package that does not report it, the size of the
    /// largest task.
    #[serde(default = "largest")]
    pub bytes: u64,
    /// Contenders that can do it.
    pub contenders: Vec<Contender>,
}

/// A package, or a way of using one.
#[derive(Debug, Clone, Deserialize)]
pub struct Contender {
    /// Name on the command line.
    pub name: String,
    /// Reason why it cannot take part.
    pub missing: Option<String>,
}

/// A plan of measurements.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Options that the races share.
    pub common: Common,
    /// Interpreter that runs the work.
    pub python: Python,
    /// Tasks, with the contenders that take part.
    pub tasks: Vec<Task>,
    /// True if every byte is compared, within the time.
    pub verify: bool,
    /// Contenders that are not installed, for the report.
    pub left_out: Vec<String>,
    /// Versions of the interpreter and the packages, for the report.
    pub versions: BTreeMap<String, String>,
}

/// Output of a round.
#[derive(Deserialize)]
struct Said {
    wall_s: f64,
    user_s: f64,
    system_s: f64,
    voluntary: u64,
    involuntary: u64,
    ops: u64,
    bytes: u64,
    latencies_ns: Vec<u64>,
    late_max_s: Option<f64>,
    device_read_bytes: u64,
    calls_by_name: Option<Calls>,
}

fn largest() -> u64 {
    320 << 20
}

impl Python {
    fn step(&self, step: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-m", "proactor._bench", step]);
        if self.quick {
            command.arg("--quick");
        }
        command
    }

    /// Asks the interpreter what can be measured with it.
    ///
    /// # Errors
    /// If it cannot be started, or does not have the package.
    pub fn offer(&self) -> Result<Offer, String> {
        let ran = child::run(&mut self.step("list"), None, &AtomicBool::new(false)).map_err(|e| {
            format!("{e}\nIt has to be a Python that has the package: pip install proactor, or --python FILE")
        })?;
        serde_json::from_slice(&ran.output).map_err(|e| format!("{}: {e}", self.program.to_string_lossy()))
    }
}

impl Plan {
    /// # Errors
    /// What can be known to be wrong before anything is made.
    pub fn check(&self) -> Result<(), String> {
        self.common.check()?;
        if self.tasks.iter().all(|task| task.contenders.is_empty()) {
            return Err("there is nothing to measure".into());
        }
        // They exist at the same time.
        let needed = self.tasks.iter().map(|task| task.bytes).sum();
        space::check(&self.common.directory, needed)
    }
}

/// Measures the plan as `proactor_bench::run::run` does.
///
/// # Errors
/// If nothing could be measured at all.
pub fn run(plan: &Plan, stop: &AtomicBool, on_progress: &mut dyn FnMut(&Progress)) -> Result<Report, String> {
    plan.check()?;
    let frame = Frame::open(&plan.common)?;
    let place = plan.common.place()?;
    let mut pairs: Vec<(&Task, &Contender)> = Vec::new();
    for task in &plan.tasks {
        on_progress(&Progress {
            what: format!("making the files of {}", task.about),
            done: 0,
            of: 0,
            left: None,
        });
        let directory = place.path().join(&task.name);
        fs::create_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let mut make = plan.python.step("make");
        make.arg(&task.name).arg(&directory);
        child::run(&mut make, None, stop)?;
        pairs.extend(task.contenders.iter().map(|contender| (task, contender)));
    }
    let subject = |(task, contender): &(&Task, &Contender)| {
        Subject::Entry(Entry {
            contender: contender.name.clone(),
            task: task.about.clone() + if plan.verify { ", verified" } else { "" },
            cache: plan.common.cache,
        })
    };
    let schedule = Schedule {
        subjects: pairs.iter().map(subject).collect(),
        planned: vec![None; pairs.len()],
        groups: vec![1; pairs.len()],
        rounds: plan.common.rounds,
        counting: frame.counts(),
        seed: plan.common.seed,
        stop,
    };
    let cells = schedule.measure_each(on_progress, &mut |index, counts| {
        let (task, contender) = pairs[index];
        round(plan, task, contender, place.path(), frame.device(), counts, stop)
    });
    place.close().map_err(|e| format!("removing the files: {e}"))?;
    Ok(frame.close(cells, plan.left_out.clone(), plan.versions.clone(), stop))
}

fn round(
    plan: &Plan,
    task: &Task,
    contender: &Contender,
    place: &Path,
    device: Option<&str>,
    counts: bool,
    stop: &AtomicBool,
) -> Result<Raw, String> {
    let failed = |e: std::io::Error| format!("preparing the page cache: {e}");
    let directory = place.join(&task.name);
    let files: Vec<PathBuf> = tree::files(&directory).map_err(failed)?;
    rustix::fs::syncfs(tree::open_dir(&directory).map_err(failed)?).map_err(|e| failed(e.into()))?;
    match plan.common.cache {
        Cache::Dropped => tree::drop_data(&files).map_err(failed)?,
        Cache::Warmed => tree::warm(&files, stop).map_err(failed)?,
        Cache::Left => {}
    }
    let resident_before = tree::resident(&files);
    let mut command = plan.python.step("run");
    command.args([&task.name]).arg(&directory).arg(&contender.name);
    for (wanted, flag) in [(counts, "--count"), (plan.verify, "--verify")] {
        if wanted {
            command.arg(flag);
        }
    }
    let ran = child::run(&mut command, device, stop)?;
    let said: Said = serde_json::from_slice(&ran.output).map_err(|e| format!("{}: {e}", contender.name))?;
    let mut latencies = Tally::default();
    said.latencies_ns
        .iter()
        .for_each(|ns| latencies.record(0, Duration::from_nanos(*ns)));
    let mut used = ran.used;
    // For the work alone; the process's own usage includes the interpreter's start.
    (used.user_s, used.system_s) = (said.user_s, said.system_s);
    (used.voluntary, used.involuntary) = (said.voluntary, said.involuntary);
    used.process_read_bytes = Some(said.device_read_bytes);
    let Way {
        ios,
        bytes,
        iops,
        bytes_per_s,
        ..
    } = Way::counted(said.ops, said.bytes, said.wall_s);
    // Not every op has a time of its own.
    let all = Way {
        ios,
        bytes,
        iops,
        bytes_per_s,
        ..Way::of(&latencies, said.wall_s)
    };
    Ok(Raw {
        round: Round {
            elapsed_s: said.wall_s,
            read: all,
            write: Way::default(),
            all,
            fsyncs: 0,
            submissions: None,
            depth: None,
            together: None,
            used,
            resident_before,
            resident_after: tree::resident(&files),
            late_max_s: said.late_max_s,
            unanswered: None,
        },
        reads: latencies,
        writes: Tally::default(),
        calls: said.calls_by_name.map(|calls| (calls, None)),
    })
}
