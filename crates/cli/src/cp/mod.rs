//! `proactor cp`: GNU cp's command line, and more, for the copier of `proactor_copy`.
//!
//! From the command line (`flags`, `wishes`, `target`) to the copier's options, and from what it tells (`watch`) to
//! sentences (`say`), lines (`screen`, `progress`) and JSON. Knows nothing of how files are copied.

mod flags;
mod json;
mod lists;
mod progress;
mod quote;
mod say;
mod screen;
mod stats;
mod target;
mod units;
mod usage;
mod values;
mod watch;
mod wishes;

use crate::signals::Signals;
use proactor_copy::{copy, Options, Report, Target};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use usage::Misuse;
use watch::Watch;
use wishes::Wishes;

pub(crate) use usage::report as report_usage;
pub(crate) use wishes::Cp;

/// 0 if all was copied, 1 if anything was not, 130 or 143 if a signal ended it.
pub(crate) fn run(args: &Cp) -> u8 {
    match prepare(args) {
        Ok((wishes, sources, target, watch)) => {
            for warning in &wishes.warnings {
                watch.screen().complain(&format!("warning: {warning}"));
            }
            let report = watched(&wishes, &sources, &target, &watch);
            conclude(args, &report, &watch)
        }
        Err(misuse) => misuse.report(),
    }
}

fn prepare(args: &Cp) -> Result<(Wishes, Vec<PathBuf>, Target, Watch), Misuse> {
    let wishes = args.wishes()?;
    let (sources, target) = target::operands(&args.flags, wishes.target_directory.as_deref())?;
    let signals =
        Signals::listen().map_err(|error| Misuse::plain(format!("signals: {}", say::reason(&error))))?;
    let watch = Watch::new(&args.flags, progress::form(wishes.progress).is_some(), signals);
    Ok((wishes, sources, target, watch))
}

fn watched(wishes: &Wishes, sources: &[PathBuf], target: &Target, watch: &Watch) -> Report {
    let copy = |options: &Options| copy(options, sources, target, watch);
    let Some(form) = progress::form(wishes.progress) else {
        return copy(&wishes.options);
    };
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel();
        let known_bytes = progress::known_bytes(sources);
        scope.spawn(move || progress::show(form, watch, known_bytes, &ended));
        let report = copy(&wishes.options);
        drop(done);
        report
    })
}

fn conclude(args: &Cp, report: &Report, watch: &Watch) -> u8 {
    let mut screen = watch.screen();
    let status = match watch.signals.status() {
        Some(status) => {
            screen.complain(&stats::interrupted(report, args.flags.dry_run));
            status
        }
        None => u8::from(report.failures > 0 || watch.declined.load(Relaxed)),
    };
    if args.flags.json {
        screen.say(&json::Event::report(report, status, args.flags.dry_run).line());
    } else if args.flags.stats || args.flags.dry_run {
        stats::lines(report, args.flags.dry_run)
            .iter()
            .for_each(|line| screen.say(line));
    }
    if let Some(error) = screen.flush() {
        screen.complain(&format!("write error: {}", say::reason(&error)));
        return status.max(1);
    }
    status
}
