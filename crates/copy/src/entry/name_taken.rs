//! A new tree or file whose name somebody else has taken meanwhile: what was made is merged into what is there, as if
//! the copy had come to it a moment later.

use crate::api::error::{Refusal, Step};
use crate::api::observer::Paths;
use crate::context::outcome::Outcome;
use crate::job::queue::Job;
use crate::job::worker::Worker;
use crate::pair::directory::own_path;
use crate::pair::directory::{Dir, Side, State};
use crate::pair::Entry;
use crate::resume::claim::{self, Claimed};
use crate::sys::remove::remove;
use crate::sys::{self, Stat};
use crate::walk::directory::Made;
use rustix::fs::FileType;
use std::ffi::CStr;
use std::sync::Arc;

impl Worker<'_> {
    /// Makes the tree of a source that was named, unless another copy is making it.
    pub(crate) fn new_tree(&mut self, entry: &Entry<'_>, source: &Stat) -> Outcome<Made> {
        let mut claim = None;
        if entry.at.dir.is_top() && !self.options().dry_run {
            match claim::take(entry.at.target(), entry.target) {
                Claimed::Others(process) => {
                    return Err(self.reporter.refused(Refusal::BeingMade { process }, entry))
                }
                Claimed::Ours(claimed) => claim = claimed,
            }
            if entry.existing(&self.reporter)?.is_some() {
                // The copy that had the claim has ended.
                drop(claim);
                return self.target_dir(entry, source);
            }
        }
        let made = match self.previous.left_tree(entry)? {
            Some(name) => self.enter_dir(entry, State::Partial, name, true),
            None => self.make_dir(entry, State::Partial, source),
        }?;
        if let Some(claim) = claim {
            self.run.claims.add(made.stat.id, claim);
        }
        Ok(made)
    }

    /// Removes the tree that an earlier run has left for this target: somebody else has made the target since.
    pub(crate) fn drop_left_tree(&mut self, entry: &Entry<'_>) -> Outcome<()> {
        if self.run.journal.before().is_none() || !entry.at.dir.is_top() || self.options().dry_run {
            return Ok(());
        }
        // Its lock, which nobody holds any more, goes as well.
        let _claim = claim::take(entry.at.target(), entry.target);
        let Some(name) = self.previous.left_tree(entry)? else {
            return Ok(());
        };
        remove(entry.at.target(), &name)
            .map_err(|error| self.reporter.failed(Step::Remove, entry.target(), error))
    }

    /// Whether a finished tree cannot get its name because a directory has it, and is merged into that.
    pub(crate) fn merges_instead(&self, dir: &Dir, parent: &Arc<Dir>) -> bool {
        let looks = || {
            let at = parent.open()?;
            sys::stat_at(at.target(), dir.target.name(), false)
        };
        // What is locked already cannot be removed.
        self.run.part.is_whole()
            && !self.options().preserve.flags
            && looks().is_ok_and(|there| there.is_dir())
    }

    /// Gives up a finished tree, and has its source copied again into the directory that has its name.
    pub(crate) fn merge_again(&mut self, dir: &Arc<Dir>, parent: &Arc<Dir>, partial: &CStr) {
        let removed = parent.open().and_then(|at| remove(at.target(), partial));
        if let Err(error) = removed {
            self.reporter
                .failed(Step::Remove, own_path(dir, Side::Target), error);
            self.reporter
                .count(|report| report.partial.extend(dir.partial_path()));
            return;
        }
        self.run.links.forget(dir.target.id());
        self.run.roots.lock().unwrap().remove(&dir.target.id());
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

    /// What has got a new file's name meanwhile, if it may be replaced. What speaks against that has been told.
    pub(crate) fn replaceable_now(&mut self, entry: &Entry<'_>) -> Outcome<Option<Stat>> {
        let Some(there) = entry.existing(&self.reporter)? else {
            return Ok(None);
        };
        let follow = entry.at.dir.follows(self.options());
        let source = sys::stat_at(entry.at.source(), entry.source, follow)
            .map_err(|error| self.reporter.failed(Step::StatSource, entry.source(), error))?;
        self.check_existing(entry, &source, &there)?;
        Ok(Some(there))
    }
}
