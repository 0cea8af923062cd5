//! `--plan`, `--shard`, `--finish` and `--ray`: a copy in parts.

use super::json::Event;
use super::settings::Settings;
use super::usage::{Misuse, FAILURE};
use super::watch::Watch;
use super::{conclude, listen, ray, target, watched};
use crate::Cluster;
use proactor_bench::units;
use proactor_copy::quote;
use proactor_copy::shards::{finish, plan, run_shard, Error, Plan};
use proactor_copy::{Options, Target};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Default number of shards: enough to keep some twenty machines busy until the end.
const SHARDS: usize = 64;

pub(super) fn run(settings: &Settings, cluster: Option<&dyn Cluster>) -> Result<u8, Misuse> {
    let steps = [settings.plan.is_some(), settings.finish, settings.shard.is_some()];
    if steps.iter().filter(|step| **step).count() > 1 {
        return Err(Misuse::with_hint(
            "--plan, --shard and --finish are mutually exclusive",
        ));
    }
    if let Some(address) = &settings.ray {
        if settings.plan.is_some() || settings.shard.is_some() {
            return Err(Misuse::with_hint("with --ray there is no --plan and no --shard"));
        }
        return ray::run(settings, address, cluster);
    }
    if let Some(file) = &settings.plan {
        let (source, target) = one_source(settings)?;
        return write_plan(settings, Path::new(file), &source, &target);
    }
    if settings.shards.is_some() {
        return Err(Misuse::with_hint("--shards goes with --plan or --ray"));
    }
    let (_, plan) = stored(settings)?;
    let watch = listen(settings)?;
    let done = watched(settings, &[], &watch, || match settings.shard {
        Some(shard) => run_shard(&plan, shard, &watch),
        None => finish(&plan, &watch),
    });
    Ok(match done {
        Ok(report) => conclude(settings, &report, &watch),
        Err(error) => failed(&watch, &error),
    })
}

fn write_plan(settings: &Settings, file: &Path, source: &Path, target: &Path) -> Result<u8, Misuse> {
    let watch = listen(settings)?;
    let shards = settings.shards.unwrap_or(SHARDS);
    let plan = match watched(settings, &[], &watch, || {
        plan(&settings.options, source, target, shards, &watch)
    }) {
        Ok(plan) => plan,
        Err(error) => return Ok(failed(&watch, &error)),
    };
    if let Err(error) = std::fs::write(file, plan.to_json()) {
        let problem = format!("{}: {}", quote::name(file), proactor_copy::reason(&error));
        let kept = plan.records().join("plan.json");
        watch
            .screen()
            .complain(&format!("{problem}; the plan is {}", quote::name(kept)));
        return Ok(FAILURE);
    }
    let mut screen = watch.screen();
    if settings.json {
        screen.say(&Event::plan(&plan, file).line());
    } else {
        screen.say(&sentence(&plan));
    }
    Ok(screen.flush().map_or(0, |_| FAILURE))
}

fn sentence(plan: &Plan) -> String {
    let shards = plan.shards();
    format!(
        "{}, {}, {}",
        units::count(shards.len() as u64, "shard", "shards"),
        units::count(shards.iter().map(|shard| shard.entries).sum(), "entry", "entries"),
        units::decimal_bytes(shards.iter().map(|shard| shard.bytes).sum()),
    )
}

/// Returns the source and the name of the copy.
pub(super) fn one_source(settings: &Settings) -> Result<(PathBuf, PathBuf), Misuse> {
    if !settings.files_from.is_empty() {
        return Err(Misuse::with_hint(
            "no --files-from here: one directory at a time is copied in shards",
        ));
    }
    let (mut sources, target) = target::operands(settings)?;
    let (Some(source), true) = (sources.pop(), sources.is_empty()) else {
        return Err(Misuse::with_hint("one directory at a time is copied in shards"));
    };
    let target = match target {
        Target::As(target) => target,
        Target::Into(directory) => match source.file_name() {
            Some(name) => directory.join(name),
            None => return Err(Misuse::with_hint("the copy needs a name: see -T")),
        },
    };
    Ok((source, target))
}

/// Returns the plan that is the operand.
pub(super) fn stored(settings: &Settings) -> Result<(PathBuf, Plan), Misuse> {
    let [file] = settings.operands.as_slice() else {
        return Err(Misuse::with_hint(
            "one operand, the plan, is needed with --shard and --finish",
        ));
    };
    let jobs = settings.options.jobs;
    let others = Options {
        jobs: 0,
        through_dangling_link: false,
        ..settings.options.clone()
    };
    let sources =
        !settings.files_from.is_empty() || settings.strip_trailing_slashes || settings.no_target_directory;
    let target = settings.target_directory.is_some() || settings.shards.is_some();
    if others != Options::default() || sources || target {
        let text = "options on how files are copied belong to --plan, not to --shard or --finish";
        return Err(Misuse::with_hint(text));
    }
    let problem = |why: String| Misuse::plain(format!("{}: {why}", quote::name(file)));
    let text = std::fs::read(file).map_err(|error| problem(proactor_copy::reason(&error)))?;
    let mut plan = Plan::from_json(&text).map_err(|error| problem(error.to_string()))?;
    if jobs > 0 {
        plan.set_jobs(jobs);
    }
    Ok((absolute(file), plan))
}

fn absolute(file: &OsStr) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.into())
}

/// Reports a failure of the whole step.
pub(super) fn failed(watch: &Watch, error: &Error) -> u8 {
    let cause = match error {
        Error::Io { error, .. } => Some(error),
        _ => None,
    };
    let mut text = cause.map_or_else(|| error.to_string(), proactor_copy::reason);
    if let Some(path) = error.path() {
        text = format!("{}: {text}", quote::name(path));
    }
    let status = watch.signals.status();
    let mut screen = watch.screen();
    match error {
        Error::Stopped => screen.complain("interrupted: nothing is left of the plan"),
        _ => screen.complain(&text),
    }
    if watch.json {
        screen.say(&Event::failure(&text, error.path(), cause).line());
    }
    screen.flush();
    status.unwrap_or(FAILURE)
}
