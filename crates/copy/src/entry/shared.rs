//! What the threads of a copy share that copy entries.

use crate::api::copy_method::How;
use crate::api::error::Step;
use crate::api::observer::{Copied, Kind, Observer};
use crate::api::options::{Fsync, Options};
use crate::api::target::Target;
use crate::context::reporter::Reporter;
use crate::context::Context;
use crate::entry::hard_links::Links;
use crate::metadata::inode_flags::Locks;
use crate::pair::created::Created;
use crate::pair::directory::{own_path, Dir, Side};
use crate::pair::part::Part;
use crate::pair::Entry;
use crate::resume::run_journal::RunJournal;
use crate::sys::disk::Disks;
use crate::sys::FileId;
use std::path::PathBuf;
use std::sync::Arc;

/// Shared by the threads of a copy.
pub(crate) struct Shared<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) part: Part,
    pub(crate) journal: RunJournal<'a>,
    pub(crate) disks: Disks,
    pub(crate) created: Created,
    pub(crate) links: Links,
    pub(crate) locks: Locks,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(
        options: &'a Options,
        sources: &'a [PathBuf],
        target: &'a Target,
        observer: &'a dyn Observer,
    ) -> Shared<'a> {
        Shared {
            context: Context::new(options, observer, sources.len()),
            part: Part::Whole,
            journal: RunJournal::new(options, sources, target),
            disks: Disks::default(),
            created: Created::new(sources.len() == 1),
            links: Links::default(),
            locks: Locks::default(),
        }
    }

    /// Returns true if everything is to be on the disk in the end. A shard that is done is done on another machine as well.
    pub(crate) fn syncs(&self) -> bool {
        let options = self.context.options;
        !options.dry_run && (options.fsync != Fsync::None || self.part.shard().is_some())
    }

    /// Watches the file system of a directory that is to be synced as well, if it begins below the directory `above`.
    pub(crate) fn watch_disk(&self, reporter: &Reporter<'_>, dir: &Arc<Dir>, above: FileId) {
        if self.syncs() && dir.target.id().0 != above.0 {
            let watched = dir.open().and_then(|at| self.disks.of(at.target()));
            if let Err(error) = watched {
                reporter.failed(Step::Sync, own_path(dir, Side::Target), error);
            }
        }
    }

    /// Reports that something without contents is copied.
    pub(crate) fn copied(
        &self,
        reporter: &Reporter<'_>,
        entry: &Entry<'_>,
        kind: Kind,
        backup: Option<PathBuf>,
    ) {
        self.copied_how(reporter, entry, kind, 0, backup, None);
    }

    /// Reports that an entry is copied, and which way its contents took.
    pub(crate) fn copied_how(
        &self,
        reporter: &Reporter<'_>,
        entry: &Entry<'_>,
        kind: Kind,
        bytes: u64,
        backup: Option<PathBuf>,
        how: Option<How>,
    ) {
        self.created.note(entry, kind);
        reporter.copied(&Copied {
            kind,
            bytes,
            backup,
            how,
            paths: entry,
        });
    }
}
