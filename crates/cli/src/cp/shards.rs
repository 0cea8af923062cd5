//! `--plan`, `--shard`, `--finish` and `--ray`: a copy in parts.

use super::flags::Flags;
use super::json::Event;
use super::usage::{Misuse, FAILURE};
use super::watch::Watch;
use super::wishes::{Cp, Wishes};
use super::{conclude, listen, ray, target, units, watched};
use crate::Cluster;
use proactor_copy::quote;
use proactor_copy::shards::{finish, plan, run_shard, Error, Plan};
use proactor_copy::{Options, Target};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Default number of shards: enough to keep some twenty machines busy until the end.
const SHARDS: usize = 64;

pub(super) fn are_meant(flags: &Flags) -> bool {
    let numbers = !flags.shard.is_empty() || !flags.shards.is_empty();
    !flags.plan.is_empty() || flags.finish || !flags.ray.is_empty() || numbers
}

pub(super) fn run(args: &Cp, wishes: Wishes, cluster: Option<&dyn Cluster>) -> Result<u8, Misuse> {
    let flags = &args.flags;
    let steps = [!flags.plan.is_empty(), flags.finish, wishes.shard.is_some()];
    if flags.shard.len() > 1 {
        return Err(Misuse::with_hint(
            "--shard is given once: one shard is copied at a time",
        ));
    }
    if flags.plan.len() > 1 {
        return Err(Misuse::with_hint(
            "--plan is given once: a plan is written to one file",
        ));
    }
    if flags.ray.len() > 1 {
        return Err(Misuse::with_hint(
            "--ray is given once: one cluster copies the shards",
        ));
    }
    if steps.iter().filter(|step| **step).count() > 1 {
        return Err(Misuse::with_hint(
            "--plan, --shard and --finish are mutually exclusive",
        ));
    }
    if let Some(address) = flags.ray.first() {
        if !flags.plan.is_empty() || wishes.shard.is_some() {
            return Err(Misuse::with_hint("with --ray there is no --plan and no --shard"));
        }
        return ray::run(args, &wishes, address, cluster);
    }
    if let Some(file) = flags.plan.first() {
        let (source, target) = one_source(flags, &wishes)?;
        return write_plan(args, &wishes, Path::new(file), &source, &target);
    }
    if wishes.shards.is_some() {
        return Err(Misuse::with_hint("--shards goes with --plan or --ray"));
    }
    let (_, plan) = stored(flags, &wishes)?;
    let watch = listen(args, &wishes)?;
    let done = watched(&wishes, &[], &watch, || match wishes.shard {
        Some(shard) => run_shard(&plan, shard, &watch),
        None => finish(&plan, &watch),
    });
    Ok(match done {
        Ok(report) => conclude(args, &report, &watch),
        Err(error) => failed(&watch, &error),
    })
}

fn write_plan(args: &Cp, wishes: &Wishes, file: &Path, source: &Path, target: &Path) -> Result<u8, Misuse> {
    let watch = listen(args, wishes)?;
    let shards = wishes.shards.unwrap_or(SHARDS);
    let plan = match watched(wishes, &[], &watch, || {
        plan(&wishes.options, source, target, shards, &watch)
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
    if args.flags.json {
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
        units::bytes(shards.iter().map(|shard| shard.bytes).sum()),
    )
}

/// Returns the source and the name of the copy.
pub(super) fn one_source(flags: &Flags, wishes: &Wishes) -> Result<(PathBuf, PathBuf), Misuse> {
    if !flags.files_from.is_empty() {
        return Err(Misuse::with_hint(
            "no --files-from here: one directory at a time is copied in shards",
        ));
    }
    let (mut sources, target) = target::operands(flags, wishes.target_directory.as_deref())?;
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
pub(super) fn stored(flags: &Flags, wishes: &Wishes) -> Result<(PathBuf, Plan), Misuse> {
    let [file] = flags.operands.as_slice() else {
        return Err(Misuse::with_hint(
            "one operand, the plan, is needed with --shard and --finish",
        ));
    };
    let jobs = wishes.options.jobs;
    let others = Options {
        jobs: 0,
        through_dangling_link: false,
        ..wishes.options.clone()
    };
    let sources = !flags.files_from.is_empty() || flags.strip_trailing_slashes || flags.no_target_directory;
    let target = wishes.target_directory.is_some() || wishes.shards.is_some();
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
