//! `proactor cp`: GNU cp's command line, and more, for the copier of `proactor_copy`.
//!
//! The modules `flags`, `settings` and `target` turn the command line into the copier's options. `watch` turns
//! its events into sentences (`say`), lines (`screen`, `progress`) and JSON. None of them knows how files are
//! copied.

mod abbreviations;
mod debug;
mod flags;
mod json;
mod lists;
mod progress;
mod ray;
mod screen;
mod settings;
mod shards;
mod stats;
mod target;
mod usage;
mod watch;
mod words;

use crate::progress::form;
use crate::signals::Signals;
use crate::Cluster;
use proactor_copy::{copy, Report};
use settings::Settings;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use usage::Misuse;
use watch::Watch;

pub(crate) use flags::Cp;
pub(crate) use usage::report as report_usage;

/// Runs the copy. Returns 0 if all was copied, 1 if anything was not, and 129, 130 or 143 if a signal ended
/// it.
pub(crate) fn run(args: &Cp, cluster: Option<&dyn Cluster>) -> u8 {
    let done = args.settings().and_then(|settings| match settings.is_sharded() {
        true => shards::run(&settings, cluster),
        false => whole(&settings),
    });
    done.unwrap_or_else(|misuse| misuse.report())
}

fn whole(settings: &Settings) -> Result<u8, Misuse> {
    let (sources, target) = target::operands(settings)?;
    let watch = listen(settings)?;
    let report = watched(settings, &sources, &watch, || {
        copy(&settings.options, &sources, &target, &watch)
    });
    Ok(conclude(settings, &report, &watch))
}

fn listen(settings: &Settings) -> Result<Watch, Misuse> {
    let signals = Signals::listen()
        .map_err(|error| Misuse::plain(format!("signals: {}", proactor_copy::reason(&error))))?;
    let watch = Watch::new(settings, form(settings.progress).is_some(), signals);
    for warning in &settings.warnings {
        watch.screen().complain(&format!("warning: {warning}"));
    }
    Ok(watch)
}

/// Runs `work`, and shows its progress if that is wanted.
fn watched<T>(settings: &Settings, sources: &[PathBuf], watch: &Watch, work: impl FnOnce() -> T) -> T {
    let Some(form) = form(settings.progress) else {
        return work();
    };
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel();
        let known_bytes = progress::known_bytes(sources);
        let show = move || progress::show(form, watch, known_bytes, &ended);
        // Without a thread, nothing is shown.
        let _ = thread::Builder::new().spawn_scoped(scope, show);
        let result = work();
        drop(done);
        result
    })
}

fn conclude(settings: &Settings, report: &Report, watch: &Watch) -> u8 {
    let mut screen = watch.screen();
    let status = match watch.signals.status() {
        Some(status) => {
            // A step of a plan cannot be repeated with another option.
            let is_step = settings.shard.is_some() || settings.finish;
            let again = if is_step { "the same command" } else { "--resume" };
            screen.complain(&stats::interrupted(report, settings.options.dry_run, again));
            status
        }
        None => {
            let of_patterns = stats::nothing(report).filter(|_| settings.shard.is_none());
            for line in stats::left(report).iter().chain(&of_patterns) {
                screen.complain(line);
            }
            u8::from(report.failures > 0 || watch.declined.load(Relaxed))
        }
    };
    if settings.json {
        screen.say(&json::Event::report(report, status, settings.options.dry_run).line());
    } else if settings.stats || settings.options.dry_run {
        stats::lines(report, settings.options.dry_run)
            .iter()
            .for_each(|line| screen.say(line));
    }
    if let Some(error) = screen.flush() {
        screen.complain(&format!("write error: {}", proactor_copy::reason(&error)));
        return status.max(1);
    }
    status
}
