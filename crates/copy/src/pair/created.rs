//! What this copy has made of the sources that were named, so that no other source takes the place of it.
//!
//! Directories are not among it: they are merged. Neither is what was left as it was.

use crate::api::observer::Kind;
use crate::pair::Entry;
use crate::sys::FileId;
use std::collections::HashSet;
use std::ffi::CString;
use std::sync::Mutex;

/// Names in directories of the target.
pub(crate) struct Created {
    names: Mutex<HashSet<(FileId, CString)>>,
    has_one_source: bool,
}

impl Created {
    pub(crate) fn new(has_one_source: bool) -> Created {
        Created {
            names: Mutex::default(),
            has_one_source,
        }
    }

    /// Notes that an entry has its place, where another source may be named that has the same.
    pub(crate) fn note(&self, entry: &Entry<'_>, kind: Kind) {
        let is_dir = matches!(kind, Kind::Directory | Kind::Merged);
        if entry.at.dir.is_top() && !is_dir && !self.has_one_source {
            let destination = (entry.at.dir.target.id(), entry.target.into());
            self.names.lock().unwrap().insert(destination);
        }
    }

    /// Returns true if this copy has made what has the entry's place.
    pub(crate) fn has(&self, entry: &Entry<'_>) -> bool {
        let destination = (entry.at.dir.target.id(), entry.target.into());
        self.names.lock().unwrap().contains(&destination)
    }
}
