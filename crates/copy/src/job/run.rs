//! One copy under way: what all its workers share, and what each has of its own.

use crate::api::observer::Observer;
use crate::api::options::{Fsync, Options};
use crate::api::target::Target;
use crate::context::Context;
use crate::data::Helpers;
use crate::entry::hard_links::Links;
use crate::job::limits::Limits;
use crate::job::queue::{Need, Queue};
use crate::metadata::inode_flags::Lock;
use crate::pair::created::Created;
use crate::pair::directory::Dir;
use crate::pair::part::Part;
use crate::resume::claim::Claims;
use crate::resume::run_journal::RunJournal;
use crate::sys::disk::Disks;
use crate::sys::FileId;
use crate::uring::Lost;
use crate::walk::block_groups::GroupDirectories;
use std::collections::HashSet;
use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::Mutex;

/// What all workers share.
pub(crate) struct Run<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) part: Part,
    pub(crate) journal: RunJournal<'a>,
    pub(crate) disks: Disks,
    pub(crate) links: Links,
    pub(crate) queue: Queue,
    /// Where this run writes to: what the user has named, and what was made below. None of them is a source.
    pub(crate) roots: Mutex<HashSet<FileId>>,
    /// The existing directories of the target in which others are made, or in a dry run would be.
    pub(crate) makers: Mutex<HashSet<FileId>>,
    pub(crate) created: Created,
    pub(crate) claims: Claims,
    pub(crate) group_directories: Mutex<GroupDirectories>,
    /// What is locked when everything has its name.
    pub(crate) locks: Mutex<Vec<Lock>>,
    /// What was in rings that may not be entered any more.
    pub(crate) lost: Mutex<Vec<Lost>>,
    pub(crate) limits: Limits,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        options: &'a Options,
        sources: &'a [PathBuf],
        target: &'a Target,
        observer: &'a dyn Observer,
    ) -> Run<'a> {
        Run {
            context: Context::new(options, observer, sources.len()),
            part: Part::Whole,
            journal: RunJournal::new(options, sources, target),
            disks: Disks::default(),
            links: Links::default(),
            queue: Queue::default(),
            roots: Mutex::default(),
            makers: Mutex::default(),
            created: Created::new(sources.len() == 1),
            claims: Claims::default(),
            group_directories: Mutex::default(),
            locks: Mutex::default(),
            lost: Mutex::default(),
            limits: Limits::new(options),
        }
    }

    /// Whether a directory of the source is one in which this run makes others. What is made after a directory was opened
    /// is listed by some file systems, and not by others (Btrfs).
    pub(crate) fn makes_in(&self, source: FileId) -> bool {
        self.makers.lock().unwrap().contains(&source)
    }

    /// Returns true for an entry of a source that is our own journal or lock, as one is if the target is in the source.
    pub(crate) fn is_own(&self, dir: &Dir, name: &CStr) -> bool {
        self.journal.is_named(dir, name) || self.claims.is_lock(name, dir.source.id())
    }

    /// Returns true if everything is to be on the disk in the end. A shard that is done is done on another machine as well.
    pub(crate) fn syncs(&self) -> bool {
        !self.context.options.dry_run
            && (self.context.options.fsync != Fsync::None || self.part.shard().is_some())
    }
}

impl Helpers for Run<'_> {
    fn enter(&self, most: usize) -> usize {
        let all = self.limits.threads(Need::ColdLong);
        self.queue.enter_others(most, self.limits.jobs(), all)
    }

    fn leave(&self, count: usize) {
        self.queue.leave(count);
    }
}
