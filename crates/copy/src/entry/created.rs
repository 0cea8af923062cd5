//! What this copy has made of the sources that were named, so that no other one takes the place of it.
//!
//! Directories are not among it: they are merged. Neither is what was left as it was.

use crate::api::observer::Kind;
use crate::job::run::Run;
use crate::pair::Entry;
use crate::sys::FileId;
use std::collections::HashSet;
use std::ffi::CString;
use std::sync::Mutex;

/// Names in directories of the target.
#[derive(Default)]
pub(crate) struct Created(Mutex<HashSet<(FileId, CString)>>);

impl Run<'_> {
    /// Notes that an entry has its place, where another source may be named that has the same.
    pub(crate) fn note_created(&self, entry: &Entry<'_>, kind: Kind) {
        let is_dir = matches!(kind, Kind::Directory | Kind::Merged);
        if entry.at.dir.is_top() && !is_dir && !self.has_one_source() {
            let destination = (entry.at.dir.target.id(), entry.target.into());
            self.created.0.lock().unwrap().insert(destination);
        }
    }

    /// Whether this copy has made what has the entry's place.
    pub(crate) fn has_created(&self, entry: &Entry<'_>) -> bool {
        let destination = (entry.at.dir.target.id(), entry.target.into());
        self.created.0.lock().unwrap().contains(&destination)
    }
}
