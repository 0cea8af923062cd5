//! `proactor cp`: GNU cp's command line, and more, for the copier of `proactor_copy`.
//!
//! From the command line (`flags`, `wishes`, `target`) to the copier's options, and from what it tells (`watch`) to
//! sentences (`say`), lines (`screen`, `progress`) and JSON. Knows nothing of how files are copied.

mod flags;
mod json;
mod lists;
mod progress;
mod quote;
mod ray;
mod say;
mod screen;
mod shards;
mod signals;
mod stats;
mod target;
mod units;
mod usage;
mod values;
mod watch;
mod wishes;

use crate::Cluster;
use proactor_copy::{copy, Report};
use signals::Signals;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use usage::Misuse;
use watch::Watch;
use wishes::Wishes;

pub(crate) use usage::report as report_usage;
pub(crate) use wishes::Cp;

/// 0 if all was copied, 1 if anything was not, 130 or 143 if a signal ended it.
pub(crate) fn run(args: &Cp, cluster: Option<&dyn Cluster>) -> u8 {
    let done = args.wishes().and_then(|wishes| {
        if shards::are_meant(&args.flags) {
            shards::run(args, wishes, cluster)
        } else {
            whole(args, &wishes)
        }
    });
    done.unwrap_or_else(|misuse| misuse.report())
}

fn whole(args: &Cp, wishes: &Wishes) -> Result<u8, Misuse> {
    let (sources, target) = target::operands(&args.flags, wishes.target_directory.as_deref())?;
    let watch = listen(args, wishes)?;
    let report = watched(wishes, &watch, || {
        copy(&wishes.options, &sources, &target, &watch)
    });
    Ok(conclude(args, &report, &watch))
}

fn listen(args: &Cp, wishes: &Wishes) -> Result<Watch, Misuse> {
    let removes = wishes.options.overwrite.force || wishes.options.overwrite.remove;
    let signals =
        Signals::listen().map_err(|error| Misuse::plain(format!("signals: {}", say::reason(&error))))?;
    Ok(Watch::new(args.flags.verbose, args.flags.json, removes, signals))
}

/// Does something, and shows its progress where that is wanted.
fn watched<T>(wishes: &Wishes, watch: &Watch, work: impl FnOnce() -> T) -> T {
    let Some(form) = progress::form(wishes.progress) else {
        return work();
    };
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel();
        scope.spawn(move || progress::show(form, watch, &ended));
        let result = work();
        drop(done);
        result
    })
}

fn conclude(args: &Cp, report: &Report, watch: &Watch) -> u8 {
    let mut screen = watch.screen();
    let status = match watch.signals.status() {
        Some(status) => {
            screen.complain(&stats::interrupted(report));
            status
        }
        None => u8::from(report.failures > 0 || watch.declined.load(Relaxed)),
    };
    if args.flags.json {
        screen.say(&json::Event::report(report, status).line());
    } else if args.flags.stats {
        stats::lines(report).iter().for_each(|line| screen.say(line));
    }
    if let Some(error) = screen.flush() {
        screen.complain(&format!("write error: {}", say::reason(&error)));
        return status.max(1);
    }
    status
}
