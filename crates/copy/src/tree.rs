//! Directories: made or merged into, filled, and finished when the last entry below them is.

use crate::dir::{Dir, Opened, Parts, Side, Slot, State};
use crate::entry::Entry;
use crate::error::{Diagnostic, Refusal, Step};
use crate::listing::Listing;
use crate::observer::{Kind, Paths};
use crate::options::{Dereference, Fsync, Mode};
use crate::place::rename_to_free;
use crate::run::{End, Outcome, Worker};
use crate::schedule::{Batch, Job, Schedule, Work, SHARE};
use crate::sys::{self, Stat};
use crate::xattr;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

/// What is less is copied before a second thread has woken up.
const WORTH_SHARING_BYTES: u64 = 8 << 20;

/// What a thread takes at once of large files, so that all are done at the same time.
const SHARE_BYTES: u64 = 4 << 20;

/// What it takes before it knows how large they are.
const FIRST_SHARE: usize = 2;

/// With smaller files the lock of the target directory is held most of the time, and a second thread only waits for it:
/// 100,000 empty files took a third more time with two than with one on ext4.
const WORTH_HELPING_BYTES: u64 = 16 << 10;

/// The target's side of a new pair.
struct Made {
    fd: OwnedFd,
    stat: Stat,
    state: State,
    partial: Option<CString>,
    inherits: bool,
}

impl Worker<'_> {
    /// Works until there is nothing left for anybody.
    pub(crate) fn work(&mut self) {
        let schedule = &self.run.schedule;
        let _end = BreakOff(schedule);
        while let Some(work) = schedule.next() {
            match work {
                Work::Entry(job) => self.job(job),
                Work::Help(batch) => self.help(&batch),
            }
        }
    }

    fn job(&mut self, job: Job) {
        let target = job.target.as_ref().unwrap_or(&job.source);
        if !self.run.stopped() {
            match job.dir.open() {
                Ok(at) => {
                    let (source, target) = (job.source.as_c_str(), target.as_c_str());
                    let entry = Entry {
                        at: &at,
                        source,
                        target,
                    };
                    self.entry(&entry, job.kind);
                }
                Err(error) => {
                    let path = job.dir.path(Side::Source, &job.source);
                    self.failed(Step::StatSource, path, error);
                }
            }
        }
        self.release(job.dir);
    }

    /// Copies a directory: its own entries now, what is in its directories by further jobs.
    pub(crate) fn directory(&mut self, entry: &Entry<'_>) -> Outcome<()> {
        let (fd, stat) = self.open_source_dir(entry)?;
        self.check_source_dir(entry, &stat)?;
        let made = self.target_dir(entry, &stat)?;
        let kind = if made.state == State::Existing {
            Kind::Merged
        } else {
            Kind::Directory
        };
        let partial = made.partial;
        let readable = fd.is_some();
        let parts = Parts {
            source: Slot::new(entry.source, stat.id, fd),
            target: Slot::new(entry.target, made.stat.id, Some(made.fd)).with_partial(partial),
            stat,
            state: made.state,
            inherits: made.inherits,
        };
        let dir = Dir::child(&entry.at.dir, parts, self.run.keep);
        entry.at.dir.add(1);
        if dir.state.is_private() {
            // What it got itself at its creation, its files get.
            let _ = dir.owner_of_new.set(made.stat.owner());
        }
        self.report.directories += 1;
        self.copied(entry, kind, 0, None);
        let crossed = self.options().one_file_system && dir.stat.id.0 != dir.root_device;
        if readable && !crossed {
            self.fill_dir(&dir);
        }
        self.release(dir);
        Ok(())
    }

    /// One that may not be read is looked at all the same: its copy is empty, and has its metadata.
    fn open_source_dir(&mut self, entry: &Entry<'_>) -> Outcome<(Option<OwnedFd>, Stat)> {
        let follow = self.run.follows(&entry.at.dir);
        let opened = sys::open_dir(entry.at.source(), entry.source, follow);
        let found = match opened {
            Ok(fd) => sys::stat(fd.as_fd()).map(|stat| (Some(fd), stat)),
            Err(error) if sys::is(&error, &[Errno::ACCESS]) => {
                let stat = sys::stat_at(entry.at.source(), entry.source, follow);
                self.failed(Step::ReadDirectory, entry.source(), error);
                stat.map(|stat| (None, stat))
            }
            Err(error) => {
                return Err(self.failed(Step::ReadDirectory, entry.source(), error));
            }
        };
        found.map_err(|error| self.failed(Step::StatSource, entry.source(), error))
    }

    fn check_source_dir(&mut self, entry: &Entry<'_>, stat: &Stat) -> Outcome<()> {
        if self.run.roots.lock().unwrap().contains(&stat.id) {
            return Err(self.refuse_itself(entry));
        }
        let loops = self.options().dereference == Dereference::Always;
        if loops && entry.at.dir.is_inside(stat.id) {
            return Err(self.refused(Refusal::Cycle, entry));
        }
        Ok(())
    }

    /// The target was met inside the source: told of with the two paths that the user has named.
    fn refuse_itself(&mut self, entry: &Entry<'_>) -> End {
        let Some(named) = entry.at.dir.named() else {
            return self.refused(Refusal::IntoItself, entry);
        };
        let refused = Diagnostic::Refused {
            refusal: Refusal::IntoItself,
            source: own_path(named, Side::Source),
            target: own_path(named, Side::Target),
        };
        self.tell(&refused)
    }

    /// The directory that the source's entries go to.
    fn target_dir(&mut self, entry: &Entry<'_>, source: &Stat) -> Outcome<Made> {
        if entry.at.dir.state.is_private() {
            return self.make_dir(entry, State::Hidden, source);
        }
        match self.existing(entry)? {
            Some(there) if there.is_dir() => self.existing_dir(entry, source),
            Some(there) => {
                if there.id == source.id {
                    return Err(self.refused(Refusal::SameFile, entry));
                }
                Err(self.refused(Refusal::DirectoryOverFile, entry))
            }
            None if self.options().in_place => self.make_dir(entry, State::Made, source),
            None => self.make_dir(entry, State::Partial, source),
        }
    }

    fn existing_dir(&mut self, entry: &Entry<'_>, source: &Stat) -> Outcome<Made> {
        let opened = sys::open_target_dir(entry.at.target(), entry.target, false)
            .and_then(|fd| sys::stat(fd.as_fd()).map(|stat| (fd, stat)));
        let (fd, stat) =
            opened.map_err(|error| self.failed(Step::OpenTargetDirectory, entry.target(), error))?;
        if stat.id == source.id {
            return Err(self.refused(Refusal::SameFile, entry));
        }
        if entry.at.dir.is_top() {
            self.run.roots.lock().unwrap().insert(stat.id);
        }
        let inherits = xattr::inherits(fd.as_fd());
        Ok(Made {
            fd,
            stat,
            state: State::Existing,
            partial: None,
            inherits,
        })
    }

    /// Makes a directory for us alone; it gets its permissions when it is finished. Where it is to inherit a list, the
    /// kernel needs to know its permissions now.
    fn make_dir(&mut self, entry: &Entry<'_>, state: State, source: &Stat) -> Outcome<Made> {
        let parent = &entry.at.dir;
        let preserves = self.options().preserve.mode == Mode::Preserve;
        let inherits = parent.inherits && !preserves;
        let mode = match self.options().preserve.mode {
            _ if !inherits => 0o700,
            Mode::Fresh => 0o777,
            _ => source.mode & 0o777 | 0o700,
        };
        let make = |name: &CStr| -> io::Result<()> {
            let mode = rustix::fs::Mode::from_raw_mode(mode);
            Ok(rustix::fs::mkdirat(entry.at.target(), name, mode)?)
        };
        let made = match state {
            State::Partial => self.partial(entry.target, make).map(|(name, ())| name),
            _ => make(entry.target).map(|()| entry.target.into()),
        };
        let name = made.map_err(|error| self.failed(Step::CreateDirectory, entry.target(), error))?;
        let opened = sys::open_dir(entry.at.target(), &name, false).and_then(|fd| {
            let stat = sys::stat(fd.as_fd())?;
            if parent.inherits && preserves {
                let made = xattr::Bearer::Open(fd.as_fd());
                made.remove(xattr::DEFAULT_LIST)?;
                made.remove(xattr::ACCESS_LIST)?;
            }
            Ok((fd, stat))
        });
        let (fd, stat) =
            opened.map_err(|error| self.failed(Step::OpenTargetDirectory, entry.target(), error))?;
        if state != State::Hidden {
            self.run.roots.lock().unwrap().insert(stat.id);
        }
        Ok(Made {
            fd,
            stat,
            state,
            partial: (state == State::Partial).then_some(name),
            inherits,
        })
    }

    /// Copies a directory's entries; those that are directories become jobs.
    fn fill_dir(&mut self, dir: &Arc<Dir>) {
        let opened = match dir.open() {
            Ok(opened) => opened,
            Err(error) => {
                self.failed(Step::ReadDirectory, own_path(dir, Side::Source), error);
                return;
            }
        };
        let mut more = true;
        while more && !self.run.stopped() {
            let mut listing = Listing::default();
            more = listing
                .read(opened.source(), &mut self.entries)
                .unwrap_or_else(|error| {
                    self.failed(Step::ReadDirectory, own_path(dir, Side::Source), error);
                    false
                });
            let batch = Arc::new(Batch::new(dir.clone(), listing));
            let mut own = self.run.jobs > 1;
            self.fill_from(&opened, &batch, |worker, mean_bytes| {
                // What the first files of a batch are like, the others will be.
                let worth = mean_bytes >= WORTH_HELPING_BYTES
                    && mean_bytes.saturating_mul(batch.left() as u64) >= WORTH_SHARING_BYTES;
                if own && worth {
                    own = false;
                    worker.run.schedule.offer(&batch);
                }
            });
            self.run.schedule.withdraw(&batch);
        }
    }

    /// Takes entries of a batch until there are none, the next share before the one in hand is copied. Calls a function
    /// after each share, with the mean length of what was written.
    fn fill_from(&mut self, at: &Opened, batch: &Batch, mut after: impl FnMut(&mut Self, u64)) {
        let mut directories = Vec::new();
        let before = self.report.bytes;
        let (mut taken, mut mean_bytes) = (0, 0);
        let mut next = self.take(at, batch, FIRST_SHARE);
        while let Some(share) = next {
            let count = match SHARE_BYTES.checked_div(mean_bytes) {
                _ if taken == 0 => FIRST_SHARE,
                Some(count) => (count as usize).clamp(1, SHARE),
                None => SHARE,
            };
            next = self.take(at, batch, count);
            self.ahead.look();
            taken += share.len() as u64;
            for index in share {
                if self.run.stopped() {
                    break;
                }
                let (name, kind) = batch.listing.get(index);
                let entry = Entry {
                    at,
                    source: name,
                    target: name,
                };
                if kind == FileType::Directory && self.options().recursive {
                    directories.push(entry.later(kind));
                } else {
                    self.entry(&entry, kind);
                }
            }
            mean_bytes = (self.report.bytes - before) / taken;
            after(self, mean_bytes);
        }
        at.dir.add(directories.len());
        self.run.schedule.push(&mut directories);
    }

    /// Takes a share; while sources are cold, asks for its files.
    fn take(&mut self, at: &Opened, batch: &Batch, count: usize) -> Option<std::ops::Range<usize>> {
        let share = batch.take(count)?;
        if self.ahead.is_cold() && !self.run.stopped() {
            self.ahead.ask(at.source(), &batch.listing, share.clone());
        }
        Some(share)
    }

    /// Helps whoever fills a long directory.
    fn help(&mut self, batch: &Arc<Batch>) {
        if batch.dir.join() {
            if let Ok(opened) = batch.dir.open() {
                self.fill_from(&opened, batch, |_, _| {});
            }
            self.release(batch.dir.clone());
        }
        self.run.schedule.withdraw(batch);
    }

    /// One thing in a directory is done. After the last one it is finished, and its parent has one thing less.
    pub(crate) fn release(&mut self, mut dir: Arc<Dir>) {
        while dir.done() {
            if let Some(parent) = dir.parent().cloned() {
                self.finish(&dir);
                dir.reopen_parent();
                dir.source.close();
                dir.target.close();
                dir = parent;
            } else {
                return;
            }
        }
    }

    /// Metadata, and the final name. A tree that was stopped keeps its partial one.
    fn finish(&mut self, dir: &Arc<Dir>) {
        if self.run.stopped() {
            self.report.partial.extend(dir.partial_path());
            return;
        }
        let path = own_path(dir, Side::Target);
        let opened = match dir.open_side(Side::Target) {
            Ok(fd) => fd,
            Err(error) => {
                self.failed(Step::OpenTargetDirectory, path, error);
                return;
            }
        };
        let from = dir.open_side(Side::Source).ok();
        self.dress_dir(dir, from.as_ref().map(|fd| fd.as_fd()), opened.as_fd(), path);
        if let Some(partial) = dir.target.partial() {
            if let Err(End::Failed) = self.name_tree(dir, &opened, &partial) {
                self.report.partial.extend(dir.partial_path());
            }
        }
    }

    fn name_tree(&mut self, dir: &Arc<Dir>, opened: &OwnedFd, partial: &CStr) -> Outcome<()> {
        let path = own_path(dir, Side::Target);
        if self.options().fsync != Fsync::None {
            rustix::fs::syncfs(opened)
                .map_err(|error| self.failed(Step::Sync, path.clone(), error.into()))?;
        }
        let parent = dir.parent().expect("a partial directory is in another");
        let renamed = parent
            .open()
            .and_then(|at| Ok(rename_to_free(&at, partial, dir.target.name())?));
        match renamed {
            Ok(()) => {
                dir.target.renamed();
                Ok(())
            }
            Err(error) => Err(self.failed(Step::Rename, path, error)),
        }
    }
}

/// Lets the other threads go when one panics, as an observer may.
struct BreakOff<'a>(&'a Schedule);

impl Drop for BreakOff<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_off();
        }
    }
}

/// The path of a directory itself.
fn own_path(dir: &Dir, side: Side) -> std::path::PathBuf {
    let name = match side {
        Side::Source => dir.source.name(),
        Side::Target => dir.target.name(),
    };
    dir.parent()
        .map_or_else(Default::default, |parent| parent.path(side, name))
}
