//! Directories: made or merged into, and finished when the last entry below them is. `entries.rs` is about what is in them.

use crate::api::error::{Diagnostic, Refusal, Step};
use crate::api::observer::{Kind, Paths};
use crate::api::options::{Dereference, Fsync, Mode, When};
use crate::context::outcome::{End, Outcome};
use crate::entry::destination::rename_to_free;
use crate::job::queue::{Job, Queue, Work};
use crate::job::worker::Worker;
use crate::metadata::apply;
use crate::metadata::inode_flags;
use crate::metadata::xattr;
use crate::pair::directory::{own_path, Dir, Opened, Parts, Side, Slot, State};
use crate::pair::Entry;
use crate::sys::{self, FileId, Stat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

/// The target's side of a new pair.
pub(crate) struct Made {
    /// None if it is only imagined.
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) stat: Stat,
    pub(crate) state: State,
    pub(crate) partial: Option<CString>,
    pub(crate) resumed: bool,
    /// Its name is that of a link to it.
    pub(crate) through_link: bool,
    pub(crate) inherits: bool,
}

impl Worker<'_> {
    /// Works until there is nothing left for anybody.
    pub(crate) fn work(&mut self) {
        let queue = &self.run.queue;
        let _end = BreakOff(queue);
        loop {
            let work = queue.ready().or_else(|| {
                // Nobody waits for somebody else with files in hand.
                self.settle();
                queue.next()
            });
            let Some(work) = work else { break };
            match work {
                Work::Entry(job) => self.job(job),
                Work::Help(batch) => self.help(&batch),
            }
        }
        self.writer.hold();
    }

    fn job(&mut self, job: Job) {
        let target = job.target.as_ref().unwrap_or(&job.source);
        if !self.run.context.stopped() {
            match job.dir.open() {
                Ok(at) => {
                    let (source, target) = (job.source.as_c_str(), target.as_c_str());
                    let entry = Entry {
                        at: &at,
                        source,
                        target,
                    };
                    self.part = match job.dir.is_top() {
                        true => self.run.context.part_of_source.unwrap_or(0.0),
                        false => job.dir.part(),
                    };
                    self.entry(&entry, job.kind);
                    // A directory that is filled has taken it.
                    let part = std::mem::take(&mut self.part);
                    self.reporter.advance(part);
                }
                Err(error) => {
                    let path = job.dir.path(Side::Source, &job.source);
                    self.reporter.failed(Step::StatSource, path, error);
                }
            }
        }
        self.release(job.dir);
    }

    /// Copies a directory: its own entries now, what is in its directories by further jobs.
    pub(crate) fn directory(&mut self, entry: &Entry<'_>) -> Outcome<()> {
        let (opened, stat) = self.open_source_dir(entry)?;
        let part = self.run.part.of_directory(entry, &stat)?;
        let own = part.as_ref().is_none_or(|part| part.own);
        self.check_source_dir(entry, &stat)?;
        let made = self.target_dir(entry, &stat)?;
        let fd = match opened {
            Ok(fd) => Some(fd),
            Err(error) => {
                if !self.run.part.fails_silently(entry) {
                    self.reporter.failed(Step::ReadDirectory, entry.source(), error);
                }
                None
            }
        };
        let kind = if made.state == State::Existing {
            Kind::Merged
        } else {
            Kind::Directory
        };
        let partial = made.partial;
        let readable = fd.is_some();
        let parts = Parts {
            source: Slot::new(entry.source, stat.id, fd),
            target: Slot::new(entry.target, made.stat.id, made.fd)
                .with_partial(partial)
                .through_link(made.through_link),
            stat,
            state: made.state,
            resumed: made.resumed,
            inherits: made.inherits,
            part,
        };
        let dir = Dir::child(&entry.at.dir, parts, self.run.limits.keep);
        self.watch_disk(&dir, entry.at.dir.target.id());
        entry.at.dir.add(1);
        if dir.state.is_private() && !dir.resumed {
            // What it got itself at its creation, its files get.
            let _ = dir.owner_of_new.set(made.stat.owner());
        }
        if own {
            self.reporter.count(|report| report.directories += 1);
            self.copied(entry, kind, None);
        }
        let crossed = self.options().one_file_system && dir.stat.id.0 != dir.root_device;
        self.tidier.tidy(&dir);
        if readable && !crossed && self.run.part.is_finish() {
            self.sweep_dir(&dir);
        } else if readable && !crossed {
            if self.run.makes_in(dir.source.id()) {
                self.refuse_itself(&dir, entry);
            }
            self.fill_dir(&dir);
        }
        self.release(dir);
        Ok(())
    }

    /// One that may not be read is looked at all the same: its copy is empty, and has its metadata.
    fn open_source_dir(&mut self, entry: &Entry<'_>) -> Outcome<(io::Result<OwnedFd>, Stat)> {
        let follow = entry.at.dir.follows(self.options());
        let open = if self.options().dry_run {
            sys::open_dir_unnoticed
        } else {
            sys::open_dir
        };
        let opened = open(entry.at.source(), entry.source, follow);
        let found = match opened {
            Ok(fd) => sys::stat(fd.as_fd()).map(|stat| (Ok(fd), stat)),
            Err(error) if sys::is(&error, &[Errno::ACCESS]) => {
                let stat = sys::stat_at(entry.at.source(), entry.source, follow);
                stat.map(|stat| (Err(error), stat))
            }
            Err(error) => {
                return Err(self.reporter.failed(Step::ReadDirectory, entry.source(), error));
            }
        };
        found.map_err(|error| self.reporter.failed(Step::StatSource, entry.source(), error))
    }

    fn check_source_dir(&mut self, entry: &Entry<'_>, stat: &Stat) -> Outcome<()> {
        if self.run.roots.lock().unwrap().contains(&stat.id) {
            // What was made has been told of with the directory that it is in, which may or may not have listed it.
            let told = !entry.at.dir.is_top() && self.run.makes_in(entry.at.dir.source.id());
            return Err(if told {
                End::Skipped
            } else {
                self.refuse_itself(&entry.at.dir, entry)
            });
        }
        let loops = self.options().dereference == Dereference::Always;
        if loops && entry.at.dir.is_inside(stat.id) {
            return Err(self.reporter.refused(Refusal::Cycle, entry));
        }
        Ok(())
    }

    /// The target was met inside the source: told of with the two paths that the user has named.
    fn refuse_itself(&mut self, inside: &Dir, entry: &Entry<'_>) -> End {
        let Some(named) = inside.named() else {
            return self.reporter.refused(Refusal::IntoItself, entry);
        };
        // Several of the directories that are copied to may be in it.
        if !named.refused_itself.is_first() {
            return End::Skipped;
        }
        let refused = Diagnostic::Refused {
            refusal: Refusal::IntoItself,
            source: own_path(named, Side::Source),
            target: own_path(named, Side::Target),
        };
        self.reporter.tell(&refused)
    }

    /// The directory that the source's entries go to.
    pub(crate) fn target_dir(&mut self, entry: &Entry<'_>, source: &Stat) -> Outcome<Made> {
        if entry.at.dir.state.is_private() {
            return match self.previous.left_dir(entry)? {
                true => self.enter_dir(entry, State::Hidden, entry.target.into(), true),
                false => self.make_dir(entry, State::Hidden, source),
            };
        }
        if !self.run.part.is_whole() {
            return self.make_dir(entry, State::Shared, source);
        }
        match entry.existing(&self.reporter)? {
            Some(there) if there.is_dir() => {
                self.drop_left_tree(entry)?;
                self.existing_dir(entry, source, false)
            }
            Some(there) if there.is_symlink() && self.keeps_link(entry) => {
                self.existing_dir(entry, source, true)
            }
            Some(there) => {
                if there.id == source.id {
                    return Err(self.reporter.refused(Refusal::SameFile, entry));
                }
                Err(self.reporter.refused(Refusal::DirectoryOverFile, entry))
            }
            None if self.options().in_place => self.make_dir(entry, State::Made, source),
            None => self.new_tree(entry, source),
        }
    }

    /// Whether a link in the place of a directory stays, and what it leads to is merged into.
    fn keeps_link(&self, entry: &Entry<'_>) -> bool {
        self.options().keep_directory_symlink
            && sys::stat_at(entry.at.target(), entry.target, true).is_ok_and(|stat| stat.is_dir())
    }

    fn existing_dir(&mut self, entry: &Entry<'_>, source: &Stat, through_link: bool) -> Outcome<Made> {
        let opened = sys::open_target_dir(entry.at.target(), entry.target, through_link)
            .and_then(|fd| sys::stat(fd.as_fd()).map(|stat| (fd, stat)));
        let (fd, stat) = opened.map_err(|error| {
            self.reporter
                .failed(Step::OpenTargetDirectory, entry.target(), error)
        })?;
        if stat.id == source.id {
            // All that is in it is there.
            return Err(match self.options().overwrite.when {
                When::None => self.skip(entry, source),
                _ => self.reporter.refused(Refusal::SameFile, entry),
            });
        }
        if entry.at.dir.is_top() {
            self.run.roots.lock().unwrap().insert(stat.id);
        }
        let inherits = xattr::inherits(fd.as_fd());
        let ours = self.previous.was_made(&entry.at.dir, entry.target, &stat);
        if !ours {
            self.run.journal.entered(entry, &stat);
        }
        if ours && self.options().preserve.flags {
            inode_flags::unlock(fd.as_fd())
                .map_err(|error| self.reporter.failed(Step::SetFlags, entry.target(), error))?;
        }
        Ok(Made {
            fd: Some(fd),
            stat,
            state: if ours { State::Made } else { State::Existing },
            partial: None,
            resumed: false,
            through_link,
            inherits,
        })
    }

    /// Makes a directory for us alone; it gets its permissions when it is finished. Where it is to inherit a list, the
    /// kernel needs to know its permissions now.
    pub(crate) fn make_dir(&mut self, entry: &Entry<'_>, state: State, source: &Stat) -> Outcome<Made> {
        if self.options().dry_run {
            return self.imagine_dir(entry, source);
        }
        let apart = state == State::Hidden && self.make_apart(entry);
        let make = |name: &CStr| match self.make_closed(entry.at, name, source) {
            // For the same copy, in another part of it.
            Err(error) if sys::is(&error, &[Errno::EXIST]) && state == State::Shared => Ok(()),
            made => made,
        };
        if let Some(partial) = self.run.part.partial(entry) {
            // It was made when the copy was planned.
            return self.enter_dir(entry, state, partial.into(), false);
        }
        let made = match state {
            State::Partial => self.partial(entry.target, make).map(|(name, ())| name),
            _ if apart => Ok(entry.target.into()),
            _ => make(entry.target).map(|()| entry.target.into()),
        };
        let name =
            made.map_err(|error| self.reporter.failed(Step::CreateDirectory, entry.target(), error))?;
        let made = self
            .enter_dir(entry, state, name.clone(), false)
            .inspect_err(|_| {
                if state != State::Shared {
                    // It is empty, and in the way of the next attempt.
                    let _ = rustix::fs::unlinkat(entry.at.target(), &name, AtFlags::REMOVEDIR);
                }
            })?;
        if !matches!(state, State::Hidden | State::Shared) {
            self.run.journal.made(&entry.at.dir, entry.target, &made.stat);
        }
        Ok(made)
    }

    /// Makes a directory in which nobody else can do anything, but who a list that it inherits gives the right to.
    pub(crate) fn make_closed(&self, at: &Opened, name: &CStr, source: &Stat) -> io::Result<()> {
        let mode = match self.options().preserve.mode {
            _ if !self.hands_down(&at.dir) => 0o700,
            Mode::Fresh => 0o777,
            _ => source.mode & 0o1777 | 0o700,
        };
        let masked = self.run.context.umask & 0o700 != 0 || at.dir.inherits;
        sys::make_own_dir(at.target(), name, mode, masked)
    }

    /// Whether a new directory gets lists from the one that it is in.
    pub(crate) fn hands_down(&self, dir: &Dir) -> bool {
        dir.inherits && self.options().preserve.mode != Mode::Preserve
    }

    /// Opens a directory that was made by us, in this run or an earlier one.
    pub(crate) fn enter_dir(
        &mut self,
        entry: &Entry<'_>,
        state: State,
        name: CString,
        resumed: bool,
    ) -> Outcome<Made> {
        let of_all = self.run.part.partial(entry);
        let inherits = self.hands_down(&entry.at.dir);
        let at = entry.at.target();
        let opened = match resumed {
            true => sys::open_own_dir(at, &name),
            false => sys::open_dir(at, &name, false),
        };
        let opened = opened.and_then(|fd| {
            let stat = sys::stat(fd.as_fd())?;
            // It may have its final permissions already.
            let closed = stat.permissions() & 0o7000 | 0o700;
            if resumed && !inherits && stat.permissions() != closed {
                rustix::fs::fchmod(&fd, rustix::fs::Mode::from_raw_mode(closed))?;
            }
            // It may have the final lists as well, which what is still to be made in it would get.
            if (entry.at.dir.inherits || resumed) && !inherits {
                xattr::drop_lists(fd.as_fd())?;
            }
            if resumed {
                // The source may have lost some of them.
                xattr::drop_given(fd.as_fd(), self.options());
            }
            Ok((fd, stat))
        });
        let (fd, stat) = opened.map_err(|error| {
            self.reporter
                .failed(Step::OpenTargetDirectory, entry.target(), error)
        })?;
        if of_all.is_some() || !matches!(state, State::Hidden | State::Shared) {
            self.run.roots.lock().unwrap().insert(stat.id);
            self.run.makers.lock().unwrap().insert(entry.at.dir.target.id());
        }
        Ok(Made {
            fd: Some(fd),
            stat,
            state,
            partial: of_all
                .map(CString::from)
                .or_else(|| (state == State::Partial).then_some(name)),
            resumed,
            through_link: false,
            inherits,
        })
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
        if self.options().dry_run {
            return;
        }
        if self.run.context.stopped() {
            self.reporter
                .count(|report| report.partial.extend(dir.partial_path()));
            return;
        }
        if !self.run.part.is_to_be_finished(dir) {
            return;
        }
        let path = own_path(dir, Side::Target);
        let opened = match dir.open_side(Side::Target) {
            Ok(fd) => fd,
            Err(error) => {
                self.reporter.failed(Step::OpenTargetDirectory, path, error);
                return;
            }
        };
        self.remove_nurseries(dir, opened.as_fd());
        let from = dir.open_side(Side::Source).ok();
        let from = from.as_ref().map(|fd| fd.as_fd());
        self.metadata.apply_to_directory(dir, from, opened.as_fd(), path);
        self.metadata.dir_flags(dir, from, opened.as_fd());
        self.keep_last(dir);
        if let Some(partial) = dir.target.partial() {
            if let Err(End::Failed) = self.name_tree(dir, &opened, &partial) {
                self.reporter
                    .count(|report| report.partial.extend(dir.partial_path()));
            }
            self.run.claims.release(dir.target.id());
        }
    }

    /// Where another file system begins below the target, it is to be synced as well.
    pub(crate) fn watch_disk(&mut self, dir: &Arc<Dir>, above: FileId) {
        if self.run.syncs() && dir.target.id().0 != above.0 {
            let watched = dir.open().and_then(|at| self.run.disks.of(at.target()));
            if let Err(error) = watched {
                self.reporter
                    .failed(Step::Sync, own_path(dir, Side::Target), error);
            }
        }
    }

    /// What changes the directory last is that its journal goes.
    fn keep_last(&self, dir: &Dir) {
        let journal = self.run.journal.get();
        if let Some(journal) = journal.filter(|journal| journal.is_in(dir.target.id())) {
            let timed = self.options().preserve.timestamps;
            journal.outlives(timed.then(|| apply::times(&dir.stat)));
        }
    }

    fn name_tree(&mut self, dir: &Arc<Dir>, opened: &OwnedFd, partial: &CStr) -> Outcome<()> {
        let path = own_path(dir, Side::Target);
        if self.options().fsync != Fsync::None {
            let disk = self.run.disks.of(opened.as_fd());
            let synced = disk.and_then(|disk| self.run.journal.sync(&disk));
            synced.map_err(|error| self.reporter.failed(Step::Sync, path.clone(), error))?;
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
            Err(error) if sys::is(&error, &[Errno::EXIST]) && self.merges_instead(dir, parent) => {
                self.merge_again(dir, parent, partial);
                Ok(())
            }
            Err(error) => Err(self.reporter.failed(Step::Rename, path, error)),
        }
    }
}

/// Lets the other threads go when one panics, as an observer may.
struct BreakOff<'a>(&'a Queue);

impl Drop for BreakOff<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_off();
        }
    }
}
