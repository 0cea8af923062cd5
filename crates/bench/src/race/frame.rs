//! Frame of a race: whether system calls can be counted, and the report.

use super::child::{self, Ran};
use super::Common;
use crate::counters::{ByName, Calls, Whom};
use crate::environment::Environment;
use crate::report::{CellReport, Report, FORMAT};
use crate::run::{utc, Counters};
use crate::verdict;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Instant, SystemTime};

pub(super) struct Frame<'a> {
    common: &'a Common,
    begun: Instant,
    started: String,
    environment: Environment,
    counting: Result<(), String>,
}

impl Frame<'_> {
    /// # Errors
    /// If counting is asked for and cannot be done.
    pub fn open(common: &Common) -> Result<Frame<'_>, String> {
        let counting = match common.counters {
            Counters::None => Err("not asked for".to_owned()),
            Counters::Bpf => return Err("--counters bpf is for `bench io`: here it is perf, or none".into()),
            _ => thread::scope(|s| {
                let tried = s.spawn(|| ByName::prepare(Whom::Children));
                tried.join().expect("no panic")
            })
            .map(drop),
        };
        if let (Counters::Perf, Err(why)) = (common.counters, &counting) {
            return Err(format!("--counters perf: {why}"));
        }
        Ok(Frame {
            common,
            begun: Instant::now(),
            started: utc(SystemTime::now()),
            environment: Environment::look(&common.directory),
            counting,
        })
    }

    pub fn counts(&self) -> bool {
        self.counting.is_ok()
    }

    pub fn device(&self) -> Option<&str> {
        self.environment.device.as_ref().map(|device| device.sys.as_str())
    }

    pub fn close(
        mut self,
        cells: Vec<CellReport>,
        left_out: Vec<String>,
        versions: BTreeMap<String, String>,
        stop: &AtomicBool,
    ) -> Report {
        self.environment.versions = versions;
        let mut report = Report {
            format: FORMAT.into(),
            command: self.common.command.clone(),
            started: self.started,
            took_s: self.begun.elapsed().as_secs_f64(),
            seed: self.common.seed,
            rounds: self.common.rounds,
            interrupted: stop.load(Ordering::Relaxed),
            environment: self.environment,
            left_out,
            counters: if self.counting.is_ok() { "perf" } else { "none" }.into(),
            not_seen: match self.counting {
                Ok(()) => vec!["the work of kernel threads for a program, which make no system calls".into()],
                Err(why) => vec![format!("system calls: {why}")],
            },
            cells,
            verdicts: Vec::new(),
        };
        report.verdicts = verdict::verdicts(&report);
        report
    }
}

/// Runs a command with its system calls counted, including those that start it.
pub(super) fn counted(
    command: &mut Command,
    device: Option<&str>,
    stop: &AtomicBool,
) -> Result<(Ran, Calls), String> {
    // The events belong to the thread that starts the child: a separate one, whose own calls are few.
    thread::scope(|scope| {
        let counted = scope.spawn(|| {
            let events = ByName::prepare(Whom::Children)?;
            events.start()?;
            let ran = child::run(command, device, stop);
            let calls = events.stop();
            Ok((ran?, calls?))
        });
        counted.join().expect("no panic")
    })
}
