//! One copy under way: what all its threads share.

use crate::api::observer::Observer;
use crate::api::options::Options;
use crate::api::target::Target;
use crate::data::Helpers;
use crate::entry::shared::Shared;
use crate::job::limits::Limits;
use crate::job::queue::{Need, Queue};
use crate::pair::directory::Dir;
use crate::uring::Lost;
use crate::walk::block_groups::GroupDirectories;
use crate::walk::trees::Trees;
use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::Mutex;

/// Shared by the threads of a copy.
pub(crate) struct Run<'a> {
    pub(crate) shared: Shared<'a>,
    pub(crate) queue: Queue,
    pub(crate) limits: Limits,
    pub(crate) trees: Trees,
    pub(crate) group_directories: GroupDirectories,
    /// Files in rings that may not be entered any more.
    pub(crate) lost: Mutex<Vec<Lost>>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        options: &'a Options,
        sources: &'a [PathBuf],
        target: &'a Target,
        observer: &'a dyn Observer,
    ) -> Run<'a> {
        Run {
            shared: Shared::new(options, sources, target, observer),
            queue: Queue::default(),
            limits: Limits::new(options),
            trees: Trees::default(),
            group_directories: GroupDirectories::default(),
            lost: Mutex::default(),
        }
    }

    /// Returns true for an entry of a source that is our own journal or lock, as one is if the target is in the source.
    pub(crate) fn is_own(&self, dir: &Dir, name: &CStr) -> bool {
        self.shared.journal.is_named(dir, name) || self.trees.claims.is_lock(name, dir.source.id())
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
