//! The end of directories: metadata, and the name of a new tree, when the last entry below is done.
//!
//! If another program has taken the name meanwhile, the tree is merged into what is there, as if the copy had come to it
//! a moment later.

use crate::api::error::Step;
use crate::api::options::Fsync;
use crate::context::outcome::{End, Outcome};
use crate::context::reporter::Reporter;
use crate::entry::name::rename_to_free;
use crate::entry::shared::Shared;
use crate::job::queue::Job;
use crate::job::thread_pool::Dispatcher;
use crate::metadata::apply;
use crate::metadata::MetadataCopier;
use crate::pair::directory::{own_path, Dir, Side};
use crate::sys;
use crate::sys::remove::remove;
use crate::walk::run::Run;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::CStr;
use std::rc::Rc;
use std::sync::Arc;

/// Finishes directories.
pub(crate) struct DirectoryFinisher<'a> {
    run: &'a Run<'a>,
    shared: &'a Shared<'a>,
    reporter: Rc<Reporter<'a>>,
    dispatcher: Rc<Dispatcher<'a>>,
    pub(crate) metadata: MetadataCopier<'a>,
}

impl<'a> DirectoryFinisher<'a> {
    pub(crate) fn new(
        run: &'a Run<'a>,
        reporter: Rc<Reporter<'a>>,
        dispatcher: Rc<Dispatcher<'a>>,
    ) -> DirectoryFinisher<'a> {
        let shared = &run.shared;
        DirectoryFinisher {
            run,
            shared,
            metadata: MetadataCopier::new(&shared.context, &shared.locks, reporter.clone()),
            reporter,
            dispatcher,
        }
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
        if self.shared.context.options.dry_run {
            return;
        }
        if self.shared.context.stopped() {
            self.reporter
                .count(|report| report.partial.extend(dir.partial_path()));
            return;
        }
        if !self.shared.part.is_to_be_finished(dir) {
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
        self.run
            .group_directories
            .remove(&self.reporter, dir, opened.as_fd());
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
            self.run.trees.claims.release(dir.target.id());
        }
    }

    /// Notes that the last change of the directory is the removal of its journal.
    fn keep_last(&self, dir: &Dir) {
        let journal = self.shared.journal.get();
        if let Some(journal) = journal.filter(|journal| journal.is_in(dir.target.id())) {
            let timed = self.shared.context.options.preserve.timestamps;
            journal.outlives(timed.then(|| apply::times(&dir.stat)));
        }
    }

    fn name_tree(&mut self, dir: &Arc<Dir>, opened: &OwnedFd, partial: &CStr) -> Outcome<()> {
        let path = own_path(dir, Side::Target);
        if self.shared.context.options.fsync != Fsync::None {
            let disk = self.shared.disks.of(opened.as_fd());
            let synced = disk.and_then(|disk| self.shared.journal.sync(&disk));
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

    /// Returns true if a finished tree cannot get its name because a directory has it, and is merged into that.
    fn merges_instead(&self, dir: &Dir, parent: &Arc<Dir>) -> bool {
        let looks = || {
            let at = parent.open()?;
            sys::stat_at(at.target(), dir.target.name(), false)
        };
        // What is locked already cannot be removed.
        self.shared.part.is_whole()
            && !self.shared.context.options.preserve.flags
            && looks().is_ok_and(|there| there.is_dir())
    }

    /// Gives up a finished tree, and has its source copied again into the directory that has its name.
    fn merge_again(&mut self, dir: &Arc<Dir>, parent: &Arc<Dir>, partial: &CStr) {
        let removed = parent.open().and_then(|at| remove(at.target(), partial));
        if let Err(error) = removed {
            self.reporter
                .failed(Step::Remove, own_path(dir, Side::Target), error);
            self.reporter
                .count(|report| report.partial.extend(dir.partial_path()));
            return;
        }
        self.shared.links.forget(dir.target.id());
        self.run.trees.remove_root(dir.target.id());
        parent.add(1);
        let (source, target) = (dir.source.name(), dir.target.name());
        let job = Job {
            dir: parent.clone(),
            source: source.into(),
            target: (source != target).then(|| target.into()),
            kind: FileType::Directory,
        };
        self.dispatcher.push(&mut vec![job]);
    }
}
