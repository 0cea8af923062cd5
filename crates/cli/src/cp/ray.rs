//! `--ray`: makes a plan, gives the shards to a cluster, and finishes.

use super::json::Event;
use super::settings::Settings;
use super::shards::{failed, one_source, stored};
use super::usage::{Misuse, FAILURE};
use super::watch::Watch;
use super::{conclude, listen, watched};
use crate::{Cluster, Ended, Tasks};
use proactor_bench::units;
use proactor_copy::quote;
use proactor_copy::shards::{finish, plan, Error, Plan};
use proactor_copy::Observer as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Shards for each worker: enough that fast workers take more, and the last ones delay the end little.
const SHARDS_PER_WORKER: usize = 3;

/// Upper bound on the delay before a signal is noticed.
const WAIT: Duration = Duration::from_millis(200);

/// Reasons why not all shards are done.
enum Halt {
    Stopped,
    Lost,
    Error(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Error(error)
    }
}

pub(super) fn run(settings: &Settings, address: &str, cluster: Option<&dyn Cluster>) -> Result<u8, Misuse> {
    let begin = Instant::now();
    let before = if settings.finish {
        Some(stored(settings)?)
    } else {
        None
    };
    let operands = if before.is_none() {
        Some(one_source(settings)?)
    } else {
        None
    };
    let Some(cluster) = cluster else {
        let text = "--ray needs the Python package: pip install 'proactor[ray]', and its proactor command";
        return Err(Misuse::plain(text));
    };
    let jobs = settings.options.jobs.max(1);
    let connected = cluster.connect(address, jobs);
    // Not earlier: connecting may replace our signal handlers.
    let watch = listen(settings)?;
    let mut tasks = match connected {
        Ok(tasks) => tasks,
        Err(text) => {
            complain(&watch, &text);
            watch.screen().flush();
            return Ok(FAILURE);
        }
    };
    if tasks.workers() == 0 {
        let cpus = units::count(jobs as u64, "CPU", "CPUs");
        let text = format!("warning: no machine of the cluster has {cpus} (--jobs): shards wait for one");
        watch.screen().complain(&text);
    }
    let status = watched(settings, &[], &watch, || {
        let (file, plan) = match (before, operands) {
            (Some(before), _) => before,
            (None, Some((source, target))) => {
                let shards = settings
                    .shards
                    .unwrap_or(tasks.workers().max(1) * SHARDS_PER_WORKER);
                let mut options = settings.options.clone();
                options.jobs = jobs;
                match plan(&options, &source, &target, shards, &watch) {
                    Ok(plan) => (plan.records().join("plan.json"), plan),
                    Err(error) => return Err(error),
                }
            }
            (None, None) => unreachable!("one of them was asked for"),
        };
        Ok(distribute(
            settings,
            &plan,
            (&file, address),
            tasks.as_mut(),
            &watch,
            begin,
        ))
    });
    Ok(status.unwrap_or_else(|error| failed(&watch, &error)))
}

fn distribute(
    settings: &Settings,
    plan: &Plan,
    (file, address): (&PathBuf, &str),
    tasks: &mut dyn Tasks,
    watch: &Watch,
    begin: Instant,
) -> u8 {
    let ended = shards(plan, tasks, watch);
    let halt = match ended {
        Ok(()) => match finish(plan, watch) {
            Ok(mut report) if !report.stopped => {
                // All steps together, not the last one alone.
                report.duration = begin.elapsed();
                return conclude(settings, &report, watch);
            }
            Ok(_) => Halt::Stopped,
            Err(error) => Halt::Error(error),
        },
        Err(halt) => halt,
    };
    let status = match halt {
        Halt::Error(error) => failed(watch, &error),
        Halt::Lost => FAILURE,
        Halt::Stopped => {
            complain(watch, "interrupted");
            watch.signals.status().unwrap_or(FAILURE)
        }
    };
    let done = plan
        .missing()
        .map_or(0, |missing| plan.shards().len() - missing.len());
    let of = units::count(plan.shards().len() as u64, "shard", "shards");
    watch.screen().complain(&format!(
        "{done} of {of} done; to go on: proactor cp --ray {address} --finish {}",
        quote::name_if_odd(file)
    ));
    watch.screen().flush();
    status
}

/// Runs the missing shards, and reports each that is done.
fn shards(plan: &Plan, tasks: &mut dyn Tasks, watch: &Watch) -> Result<(), Halt> {
    let missing = plan.missing()?;
    let lost = |text: String| {
        complain(watch, &text);
        Halt::Lost
    };
    if !missing.is_empty() {
        tasks.start(&plan.to_json(), &missing).map_err(lost)?;
    }
    let (mut left, mut failed) = (missing.len(), false);
    while left > 0 {
        if watch.stop() {
            tasks.cancel();
            return Err(Halt::Stopped);
        }
        match tasks.next(WAIT).map_err(lost)? {
            None => continue,
            Some(Ended { shard, problem: None }) => tell(plan, shard, watch)?,
            Some(Ended {
                shard,
                problem: Some(text),
            }) => {
                failed = true;
                complain(watch, &format!("shard {shard}: {text}"));
            }
        }
        left -= 1;
    }
    if failed {
        return Err(Halt::Lost);
    }
    Ok(())
}

/// Reports what keeps a shard, or all of them, from being done.
fn complain(watch: &Watch, text: &str) {
    let mut screen = watch.screen();
    screen.complain(text);
    if watch.json {
        screen.say(&Event::failure(text, None, None).line());
    }
}

fn tell(plan: &Plan, shard: usize, watch: &Watch) -> Result<(), Halt> {
    let Some(report) = plan.report_of(shard, watch)? else {
        return Err(Error::Missing(vec![shard]).into());
    };
    let bytes = report.bytes + report.shared_bytes + report.hole_bytes;
    let files = report.files + report.symlinks + report.specials + report.hard_links;
    watch.files.fetch_add(files, Relaxed);
    watch.bytes.fetch_add(bytes, Relaxed);
    let shards = plan.shards().len();
    if watch.json {
        let line = Event::shard(shard, shards, &report).line();
        watch.screen().say(&line);
    } else if watch.verbose {
        let files = units::count(files, "file", "files");
        let line = format!(
            "shard {shard} of {shards}: {files}, {}",
            units::decimal_bytes(bytes)
        );
        watch.screen().say(&line);
    }
    Ok(())
}
