//! Files in flight, each with what is known of it while one of its ops is in the ring.

use crate::context::outcome::Outcome;
use crate::context::Context;
use crate::data::content::Moved;
use crate::entry::regular_file::Prepared;
use crate::entry::EntryCopier;
use crate::pair::directory::Opened;
use crate::pair::{Entry, Source};
use crate::sys::Stat;
use proactor_engine::buffer::AlignedBuf;
use rustix::fd::OwnedFd;
use std::ffi::CString;
use std::io;

/// A file that is being copied: an op of it is in the ring.
pub(super) struct Flight {
    pub(super) at: Opened,
    pub(super) name: CString,
    pub(super) stage: Stage,
}

/// The op of a file, and what is known of the file then.
pub(super) enum Stage {
    Open,
    Read(Box<Task>),
    Create(Box<Task>, AlignedBuf),
    Write(Box<Task>, New),
    /// To the disk, to be read from there.
    Flush(Box<Task>, New),
    ReadBack(Box<Task>, New),
    Sync(Box<Task>, New),
    Close(Box<Task>, Created),
}

/// A file whose source has been examined.
pub(super) struct Task {
    pub(super) source: Source,
    pub(super) old: Option<Stat>,
    pub(super) prepared: Prepared,
    /// Partial names that were taken.
    pub(super) attempt: u32,
}

/// A new file that is open.
pub(super) struct New {
    pub(super) name: CString,
    pub(super) to: OwnedFd,
    pub(super) moved: Moved,
    /// Nothing has gone wrong with it, so that it may be written down as finished.
    pub(super) whole: bool,
}

/// A new file that is being closed.
pub(super) struct Created {
    pub(super) name: CString,
    pub(super) moved: Moved,
    pub(super) whole: bool,
    /// The finished file, for a journal.
    pub(super) there: io::Result<Option<Stat>>,
}

/// A file that waits until the ring holds no descriptors any more.
pub(super) struct Later {
    pub(super) at: Opened,
    pub(super) name: CString,
    /// Its state, if it has been examined.
    pub(super) task: Option<Box<Task>>,
}

pub(super) fn entry<'e>(at: &'e Opened, name: &'e CString) -> Entry<'e> {
    Entry {
        at,
        source: name,
        target: name,
    }
}

impl Task {
    /// Returns the name that the new file is created under.
    pub(super) fn name_of_new(&self, context: &Context<'_>, name: &CString) -> CString {
        if self.prepared.direct {
            name.clone()
        } else {
            context.partial_name(name, self.attempt)
        }
    }

    /// Copies the file by plain calls.
    pub(super) fn copy(mut self: Box<Task>, entries: &mut EntryCopier<'_>, entry: &Entry<'_>) -> Outcome<()> {
        let files = &mut entries.files;
        let made = files.create_prepared(entry, &mut self.source, self.old.as_ref(), &self.prepared);
        made.map(|(moved, backup)| files.is_copied(entry, &self.source, &moved, backup))
    }
}
