//! From sources and a target as the user names them to entries in directories, and to threads that copy them.

use crate::api::error::{Diagnostic, Refusal, Step, Warning};
use crate::api::observer::{Observer, Paths as _};
use crate::api::options::{Backup, Options};
use crate::api::report::{self, Report};
use crate::api::target::{last_name, split, Target};
use crate::entry::backup;
use crate::entry::dry_run::imagine;
use crate::job::queue::Job;
use crate::job::thread_pool::ThreadPool;
use crate::operands::missing_target;
use crate::operands::parents::Parents;
use crate::pair::directory::{without_slashes, Dir, Side};
use crate::pair::Entry;
use crate::resume::journal;
use crate::resume::start::JournalOpener;
use crate::sys::{self, Stat};
use crate::walk::run::Run;
use crate::walk::thread_pool::Threads;
use crate::walk::top::open_top;
use crate::walk::walker::Walker;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Up to this many sources that are not directories are copied before another thread has started.
const FEW: usize = 64;

pub(crate) fn copy(
    options: &Options,
    sources: &[PathBuf],
    target: &Target,
    observer: &dyn Observer,
) -> Report {
    if let (Target::As(path), [source]) = (target, sources) {
        if options.overwrite.force && options.backup != Backup::None && path == source && path.is_file() {
            if let Ok(backup) = backup_of(path, options) {
                let options = Options {
                    backup: Backup::None,
                    ..options.clone()
                };
                return copy(&options, sources, &Target::As(backup), observer);
            }
        }
    }
    if let (true, Target::Into(path), [_]) = (options.resume, target, sources) {
        // It may have been killed when the tree had its name already.
        let named = Target::As(path.clone());
        if is_left(options, sources, &named, observer) {
            return copy(options, sources, &named, observer);
        }
    }
    carry_out(&Run::new(options, sources, target, observer), sources, target)
}

/// Does what the run is there for with each source.
pub(crate) fn carry_out(run: &Run<'_>, sources: &[PathBuf], target: &Target) -> Report {
    let begin = Instant::now();
    let mut total = Report::default();
    std::thread::scope(|scope| {
        let mut walker = Walker::new(run, Threads::new(scope, run), 0);
        match Operands::new(target) {
            _ if !walker.has_started() => {}
            Ok(mut operands) => {
                if !run.shared.part.is_whole()
                    || JournalOpener::new(
                        &run.shared.context,
                        &run.shared.journal,
                        &run.shared.disks,
                        walker.reporter.clone(),
                    )
                    .open(&operands.top)
                    .is_ok()
                {
                    operands.watch_disk(&mut walker);
                    operands.add_all(&mut walker, sources, &mut total);
                    operands.copy(&mut walker, &mut total);
                    let is_reported = !total.partial.is_empty() || walker.reporter.has_partial();
                    operands.finish(&mut walker, is_reported);
                }
                let is_left = run.shared.context.stopped()
                    || !total.partial.is_empty()
                    || walker.reporter.has_partial();
                if let Err((name, error)) = run.shared.journal.end(!run.shared.part.is_whole() || is_left) {
                    walker
                        .reporter
                        .failed(Step::Remove, operands.top.path(Side::Target, &name), error);
                }
                // The directory that it was in, which could not be changed then.
                run.shared.locks.lock_all(&walker.reporter, |_| true);
            }
            Err(error) => {
                for source in sources {
                    missing_target::where_no_directory_is(&mut walker, source, target, &error);
                }
            }
        }
        report::add(&mut total, walker.reporter.take());
    });
    total.stopped = run.shared.context.stopped();
    total.duration = begin.elapsed();
    total
}

/// Returns true if a run has left a journal for this very copy.
fn is_left(options: &Options, sources: &[PathBuf], target: &Target, observer: &dyn Observer) -> bool {
    let run = Run::new(options, sources, target, observer);
    let Ok(operands) = Operands::new(target) else {
        return false;
    };
    let found = operands
        .top
        .open()
        .and_then(|at| journal::find(at.target(), &run.shared.journal.asked().0, !options.dry_run));
    matches!(found, Ok(journal::Search::Found(_)))
}

/// The sources that are to be copied next, and those that have been.
struct Operands<'a> {
    /// The target as the user names it.
    target: &'a Path,
    top: Arc<Dir>,
    /// The name of the copy, if there is one for all.
    name: Option<CString>,
    /// The target was named with a slash at its end: only a directory can be made there.
    only_directory: bool,
    jobs: Vec<Job>,
    /// Each name in the target, and what has it.
    seen: HashMap<(PathBuf, CString), Seen>,
    /// The targets of `jobs`.
    pending: BTreeSet<PathBuf>,
    parents: Parents,
}

struct Seen {
    stat: Stat,
    is_dir: bool,
}

impl<'a> Operands<'a> {
    fn new(target: &'a Target) -> io::Result<Operands<'a>> {
        let (directory, name, only_directory) = match target {
            Target::Into(directory) => {
                let directory = without_slashes(directory.as_os_str().as_bytes());
                (OsStr::from_bytes(directory).into(), None, false)
            }
            Target::As(path) if path.as_os_str().is_empty() => return Err(Errno::NOENT.into()),
            Target::As(path) => split(path),
        };
        let is_itself = name.is_some() && directory.as_os_str() == target.path().as_os_str();
        let top = open_top(&directory, is_itself)?;
        Ok(Operands {
            target: target.path(),
            parents: Parents::new(directory, top.clone()),
            top,
            name,
            only_directory,
            jobs: Vec::new(),
            seen: HashMap::new(),
            pending: BTreeSet::new(),
        })
    }

    fn add_all(&mut self, walker: &mut Walker<'_>, sources: &[PathBuf], total: &mut Report) {
        for source in sources {
            if let Err(error) = self.add(walker, source, sources.len() > 1, total) {
                walker.reporter.failed(Step::StatSource, source.clone(), error);
            }
        }
    }

    fn add(
        &mut self,
        walker: &mut Walker<'_>,
        source: &Path,
        several: bool,
        total: &mut Report,
    ) -> io::Result<()> {
        let path = CString::new(source.as_os_str().as_bytes())?;
        let parents = walker.shared.context.options.parents;
        let name = match (&self.name, parents) {
            (Some(name), _) => name.clone(),
            (None, false) => last_name(&path),
            (None, true) => Parents::last_name(source),
        };
        if self.leaves_out(walker, &path, &name)? {
            return Ok(());
        }
        let mut dir = self.top.clone();
        if parents {
            if self.parents.is_full(walker) {
                // Each pair is held open until what is to be put there is.
                self.copy(walker, total);
                self.parents.let_go();
            }
            match self.parents.of(walker, source) {
                Ok(parent) => dir = parent,
                Err(_) => return Ok(()),
            }
        }
        let at = dir.open()?;
        let entry = Entry {
            at: &at,
            source: &path,
            target: &name,
        };
        let stat = || sys::stat_at(at.source(), &path, dir.follows(walker.shared.context.options));
        let mut kind = FileType::Unknown;
        if several || self.only_directory {
            let stat = stat().inspect_err(|_| walker.copier.entries.files.previous.keep_left_tree(&entry))?;
            kind = stat.file_type();
            if self.only_directory && !stat.is_dir() {
                if !(self.target.is_dir()
                    && walker
                        .copier
                        .entries
                        .files
                        .destinations
                        .is_left_alone(&entry, &stat, None))
                {
                    missing_target::where_directories_go(walker, source, self.target, kind);
                }
                return Ok(());
            }
            if !self.is_new(walker, &entry, &stat, total) {
                return Ok(());
            }
        }
        dir.add(1);
        self.jobs.push(Job::of(&entry, kind));
        Ok(())
    }

    /// Returns true if a source is excluded by its own name: before anything is made for it, and before another one
    /// that would have the same target.
    fn leaves_out(&self, walker: &mut Walker<'_>, source: &CStr, target: &CStr) -> io::Result<bool> {
        if walker.shared.context.options.filter.is_empty() {
            return Ok(false);
        }
        let at = self.top.open()?;
        let stat = sys::stat_at(
            at.source(),
            source,
            self.top.follows(walker.shared.context.options),
        );
        let entry = Entry {
            at: &at,
            source,
            target,
        };
        Ok(walker
            .copier
            .entries
            .leaves_out(&entry, stat.ok().map(|stat| stat.file_type())))
    }

    /// Returns true if this copy has not written the entry's target. Two directories become one, in turn.
    fn is_new(
        &mut self,
        walker: &mut Walker<'_>,
        entry: &Entry<'_>,
        stat: &Stat,
        total: &mut Report,
    ) -> bool {
        let is_dir = stat.is_dir();
        if is_dir && !walker.shared.context.options.recursive {
            // It is refused, and leaves its name to others.
            return true;
        }
        let place = entry.at.dir.path(Side::Target, c"");
        self.come_after(walker, &place, entry.target, total);
        let seen = Seen { stat: *stat, is_dir };
        let Some(before) = self.seen.insert((place, entry.target.into()), seen) else {
            return true;
        };
        if before.stat.id == stat.id && (is_dir || walker.shared.context.options.backup == Backup::None) {
            walker.reporter.tell(&Diagnostic::Warning {
                warning: Warning::NamedTwice,
                path: entry.source(),
            });
            return false;
        }
        self.copy(walker, total);
        if is_dir && before.is_dir || walker.shared.context.options.backup == Backup::Numbered {
            return true;
        }
        if !before.is_dir && !walker.shared.created.has(entry) {
            // It was left as it was.
            return true;
        }
        let imagined = walker
            .shared
            .context
            .options
            .dry_run
            .then(|| imagine(walker.shared.context.options, &before.stat));
        if !walker
            .copier
            .entries
            .files
            .destinations
            .is_left_alone(entry, stat, imagined)
        {
            walker.reporter.refused(Refusal::JustCreated, entry);
        }
        false
    }

    /// Sources are copied in the order in which they are named, where one has its copy in that of another: as after `a/.`
    /// a file has that may be in `a` as well.
    fn come_after(&mut self, walker: &mut Walker<'_>, place: &Path, name: &CStr, total: &mut Report) {
        // Without dots.
        let target: PathBuf = place
            .join(OsStr::from_bytes(name.to_bytes()))
            .components()
            .collect();
        let above = target.ancestors().any(|above| self.pending.contains(above));
        let below = self.pending.range(target.clone()..).next();
        if above || below.is_some_and(|below| below.starts_with(&target)) {
            self.copy(walker, total);
        }
        self.pending.insert(target);
    }

    /// Copies what has been added.
    fn copy(&mut self, walker: &mut Walker<'_>, total: &mut Report) {
        self.pending.clear();
        let run = walker.run;
        let is_large = run.shared.context.options.recursive || self.jobs.len() > FEW;
        run.queue.enter();
        let needed = run.queue.push(&mut self.jobs);
        if is_large {
            walker.dispatcher.call(needed);
        }
        let thread_pool = walker.dispatcher.thread_pool.clone();
        // A ring is in a thread that ends, see `uring/lost.rs`.
        let apart = run.shared.context.options.recursive && walker.copier.has_ring();
        let first = thread_pool
            .clone()
            .filter(|_| apart)
            .and_then(ThreadPool::replace);
        if first.is_none() {
            walker.work();
        }
        let others = thread_pool.map_or_else(Vec::new, |thread_pool| thread_pool.dismiss());
        for part in first.into_iter().chain(others) {
            report::add(total, part);
        }
        walker.recover();
    }

    /// Ends the copy, when everything is in its place.
    fn finish(&mut self, walker: &mut Walker<'_>, is_reported: bool) {
        self.parents.finish(walker);
        let run = walker.run;
        let has_journal = |id| run.shared.journal.get().is_some_and(|journal| journal.is_in(id));
        run.shared.locks.lock_all(&walker.reporter, |id| !has_journal(id));
        for disk in run.shared.disks.all() {
            // A tree that has no name because of this is reported already. A barrier may have noticed it unasked.
            let wanted = if disk.has_failed() {
                !is_reported
            } else {
                run.shared.syncs()
            };
            if !wanted {
                continue;
            }
            if let Err(error) = run.shared.journal.sync(&disk) {
                walker
                    .reporter
                    .failed(Step::Sync, self.top.path(Side::Target, c""), error);
            }
        }
    }

    /// Watches from the beginning the disk that is synced in the end.
    fn watch_disk(&self, walker: &mut Walker<'_>) {
        let watched = match walker.shared.syncs() {
            true => self
                .top
                .open()
                .and_then(|at| walker.shared.disks.of(at.target()).map(drop)),
            false => Ok(()),
        };
        if let Err(error) = watched {
            walker
                .reporter
                .failed(Step::Sync, self.top.path(Side::Target, c""), error);
        }
    }
}

/// A file onto itself, by force and with a backup: then the copy is the backup.
fn backup_of(path: &Path, options: &Options) -> io::Result<PathBuf> {
    let (directory, name, _) = split(path);
    let top = open_top(&directory, false)?;
    let name = backup::name_for(top.open()?.target(), &name.unwrap_or_default(), options)?;
    Ok(directory.join(OsStr::from_bytes(name.to_bytes())))
}
