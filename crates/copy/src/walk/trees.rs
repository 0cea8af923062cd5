//! The directories that a run writes to.

use crate::resume::claim::Claims;
use crate::sys::FileId;
use std::collections::HashSet;
use std::sync::Mutex;

/// The directories that a run writes to, so that a copy does not read what it has made itself.
#[derive(Default)]
pub(crate) struct Trees {
    /// Directories that the user has named, and those that were made below. None of them is a source.
    roots: Mutex<HashSet<FileId>>,
    /// The existing directories of the target in which others are made, or in a dry run would be.
    makers: Mutex<HashSet<FileId>>,
    pub(crate) claims: Claims,
}

impl Trees {
    pub(crate) fn add_root(&self, root: FileId) {
        self.roots.lock().unwrap().insert(root);
    }

    pub(crate) fn remove_root(&self, root: FileId) {
        self.roots.lock().unwrap().remove(&root);
    }

    pub(crate) fn is_root(&self, dir: FileId) -> bool {
        self.roots.lock().unwrap().contains(&dir)
    }

    pub(crate) fn add_maker(&self, dir: FileId) {
        self.makers.lock().unwrap().insert(dir);
    }

    /// Returns true if a directory of the source is one in which this run makes others. What is made after a directory
    /// was opened is listed by some file systems, and not by others (Btrfs).
    pub(crate) fn makes_in(&self, source: FileId) -> bool {
        self.makers.lock().unwrap().contains(&source)
    }
}
