//! The steps of a copy in parts: a plan is made, its shards are run, and the tree is finished.

use super::observers::{Quiet, Recorder};
use super::place::{is_below, open_parent, source_of, Place};
use super::plan::{Identity, Plan, Shard, VERSION};
use super::records::{self, name_of, Done, Records};
use super::Error;
use crate::api::error::{Diagnostic, Warning};
use crate::api::json::Name;
use crate::api::observer::Observer;
use crate::api::options::{Backup, Options, Overwrite};
use crate::api::report::{self, Report};
use crate::pair::part::{Checksum, Part, Scales, Shard as Attempted};
use crate::pair::range::Range;
use crate::sys;
use crate::sys::names::{beside, random_u64};
use crate::walk::run::Run;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::Mode;
use rustix::io::Errno;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// [`finish`] waits this long for attempts that have not noticed yet that another one was quicker.
const PATIENCE: Duration = Duration::from_secs(5);

/// Walks a directory, makes its directories in a new tree beside `target`, and cuts what is in them into at most so
/// many shards of about the same cost. Files are not split.
///
/// `target` must be free. The tree is invisible until [`finish`]: options about what exists already mean nothing.
/// What cannot be read is passed over here, and reported by the shard that meets it.
pub fn plan(
    options: &Options,
    source: &Path,
    target: &Path,
    shards: usize,
    observer: &dyn Observer,
) -> Result<Plan, Error> {
    let options = of_new_tree(options)?;
    let (source, target) = (absolute(source)?, absolute(target)?);
    let (stat, _) = source_of(&source, &options)?;
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(Error::TargetExists(target));
    };
    // Without a slash at its end.
    let target = parent.join(name);
    let name = CString::new(name.as_bytes()).expect("it was in a path");
    let parent = open_parent(&target)?;
    if is_below(parent.as_fd(), stat.id).map_err(|error| Error::io(&target, error))? {
        return Err(Error::IntoItself(source));
    }
    match sys::stat_at(parent.as_fd(), &name, false) {
        Err(error) if sys::is(&error, &[Errno::NOENT]) => {}
        Err(error) => return Err(Error::io(&target, error)),
        Ok(_) => return Err(Error::TargetExists(target)),
    }
    let number = random_u64() as u32;
    let named = |what: &str| Name(beside(&name, what, number));
    let mut plan = Plan {
        version: VERSION,
        partial: named("partial"),
        records: named("shards"),
        from: Identity::of(&stat),
        source,
        target,
        options,
        digest: 0,
        shards: Vec::new(),
    };
    let records = Records::make(parent.as_fd(), &plan.records.0, plan.records())?;
    let planned = plan.fill(parent.as_fd(), &records, shards.max(1), observer);
    if planned.is_err() {
        // There is nothing in it but directories of ours. The first error is reported.
        let _ = std::fs::remove_dir_all(plan.partial());
        let _ = records.remove(parent.as_fd(), &plan.records.0);
    }
    planned.map(|()| plan)
}

impl Plan {
    fn fill(
        &mut self,
        parent: BorrowedFd<'_>,
        records: &Records,
        shards: usize,
        observer: &dyn Observer,
    ) -> Result<(), Error> {
        rustix::fs::mkdirat(parent, &self.partial.0, Mode::from_raw_mode(0o700))
            .map_err(|error| Error::io(&self.partial(), error.into()))?;
        self.weigh(shards, observer)?;
        records.write(records::PLAN, self.to_json().as_bytes())
    }

    fn weigh(&mut self, shards: usize, observer: &dyn Observer) -> Result<(), Error> {
        let quiet = Quiet(observer);
        let part = Part::Plan {
            top: self.top(),
            scales: Scales::of(shards),
        };
        let (report, part) = self.run(&quiet, part, |_| Ok(()), |report, run| (report, run.shared.part))?;
        if report.stopped {
            return Err(Error::Stopped);
        }
        if report.directories == 0 && report.excluded > 0 {
            return Err(Error::Unfit("with a pattern that leaves out the source itself"));
        }
        let Part::Plan { scales, .. } = part else {
            unreachable!("it was put there");
        };
        self.digest = scales.checksum.value();
        let (cuts, weights) = scales.pieces.into_inner().unwrap_or_default().cut(shards);
        let mut from = None;
        for (at, weight) in weights.into_iter().enumerate() {
            let to = cuts.get(at).cloned();
            self.shards.push(Shard {
                range: Range { from, to: to.clone() },
                entries: weight.entries,
                bytes: weight.bytes,
            });
            from = to;
        }
        Ok(())
    }
}

/// The path from the root on.
fn absolute(path: &Path) -> Result<PathBuf, Error> {
    // The library's error of an empty path is none of the kernel's.
    let absolute = match path.as_os_str().is_empty() {
        true => Err(Errno::NOENT.into()),
        false => std::path::absolute(path),
    };
    absolute.map_err(|error| Error::io(path, error))
}

/// The options of a copy that makes a new tree.
pub(super) fn of_new_tree(options: &Options) -> Result<Options, Error> {
    let unfit = [
        (!options.recursive, "without recursion"),
        (options.parents, "with --parents"),
        (options.in_place, "with --in-place"),
        (options.overwrite.ask, "with questions"),
        (options.preserve.flags, "with --preserve=flags"),
        (
            options.dry_run,
            "with --dry-run: without --plan it says what would be copied",
        ),
        (
            options.resume,
            "with --resume: a shard that is run again goes on by itself",
        ),
    ];
    if let Some((_, why)) = unfit.into_iter().find(|(unfit, _)| *unfit) {
        return Err(Error::Unfit(why));
    }
    Ok(Options {
        overwrite: Overwrite::default(),
        backup: Backup::None,
        ..options.clone()
    })
}

/// Copies what is in a shard. Running one that is done returns its report; one that failed in part or was ended in
/// the middle goes on with what is missing. It may be run twice at the same time.
///
/// The report has what an earlier attempt had finished as `resumed`. `Report::stopped` if the observer asked to stop:
/// then the shard is not done.
pub fn run_shard(plan: &Plan, shard: usize, observer: &dyn Observer) -> Result<Report, Error> {
    plan.check(shard)?;
    let begin = Instant::now();
    let place = Place::open(plan)?;
    let record = name_of(shard);
    let before = place.records.done(&record)?;
    if let Some(done) = before.as_ref().filter(|done| done.report.failures == 0) {
        return Ok(done.report.clone());
    }
    place.check(plan)?;
    let (attempt, again) = place.records.begin(shard)?;
    let again = again || before.is_some();
    let part = Part::Shard {
        top: plan.top(),
        shard: Attempted {
            range: plan.shards[shard].range.clone(),
            again,
            checksum: Checksum::default(),
            farm: place.records.farm()?,
        }
        .into(),
    };
    let done_by_other = || before.is_none() && matches!(place.records.done(&record), Ok(Some(_)));
    let recorder = Recorder::new(observer, &done_by_other);
    let open_journal = |run: &Run<'_>| {
        let journal = place.records.journal(shard, run)?;
        run.shared.journal.begin(journal);
        Ok(())
    };
    let record_done = |mut report: Report, run: Run<'_>| {
        if report.stopped {
            report.partial = vec![plan.partial()];
            return Ok(report);
        }
        report.duration = begin.elapsed();
        let done = Done {
            report: report.clone(),
            told: recorder.told(),
            digest: run.shared.part.shard().map_or(0, |shard| shard.checksum.value()),
        };
        place.records.write_done(&record, &done)?;
        // With the record, the journal is not read again.
        let _ = run.shared.journal.end(report.failures > 0);
        Ok(report)
    };
    let report = plan.run(&recorder, part, open_journal, record_done)??;
    if report.stopped && observer.stop() {
        return Ok(report);
    }
    let other = if report.stopped {
        place.records.done(&record)?
    } else {
        None
    };
    attempt.end();
    Ok(other.map_or(report, |other| other.report))
}

/// Gives the directories their metadata and the tree its name, and removes the records. Every shard must be done.
///
/// The report is that of all shards together; its duration is that of this call. What they have told is not told
/// again. Finishing again after an interruption goes on.
pub fn finish(plan: &Plan, observer: &dyn Observer) -> Result<Report, Error> {
    let begin = Instant::now();
    let place = Place::open(plan)?;
    if place.named(plan)? {
        // An earlier one has got as far as this.
        let all = match place.records.done(records::ALL)? {
            Some(all) => all,
            // It was killed when the last record had gone, and what was in it is not known any more.
            None if place.records.is_empty()? => Done::default(),
            None => return Err(Error::io(&plan.partial(), Errno::NOENT.into())),
        };
        place.records.remove(place.parent.as_fd(), &plan.records.0)?;
        return Ok(all.report);
    }
    let all = collect(plan, &place)?;
    let mut total = all.report;
    place.check(plan)?;
    wait_for_attempts(&place.records)?;
    if all.digest != plan.digest && total.failures == 0 {
        observer.diagnostic(&Diagnostic::Warning {
            warning: Warning::ChangedSincePlanned,
            path: plan.source.clone(),
        });
    }
    let part = Part::Finish { top: plan.top() };
    let report = plan.run(observer, part, |_| Ok(()), |report, _| report)?;
    let is_named = place.named(plan)?;
    let stopped = report.stopped;
    report::add(&mut total, report);
    total.stopped = stopped;
    if !is_named {
        total.partial = vec![plan.partial()];
    } else {
        place.records.remove(place.parent.as_fd(), &plan.records.0)?;
    }
    total.duration = begin.elapsed();
    Ok(total)
}

/// Adds up what the shards have done.
fn collect(plan: &Plan, place: &Place) -> Result<Done, Error> {
    let mut all = Done::default();
    let mut missing = Vec::new();
    for shard in 0..plan.shards.len() {
        match place.records.done(&name_of(shard))? {
            None => missing.push(shard),
            Some(done) => {
                report::add(&mut all.report, done.report);
                all.digest = all.digest.wrapping_add(done.digest);
            }
        }
    }
    if !missing.is_empty() {
        return Err(Error::Missing(missing));
    }
    place.records.write_done(records::ALL, &all)?;
    Ok(all)
}

fn wait_for_attempts(records: &Records) -> Result<(), Error> {
    let begin = Instant::now();
    while let Some(who) = records.running()? {
        if begin.elapsed() > PATIENCE {
            return Err(Error::Running(who));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
