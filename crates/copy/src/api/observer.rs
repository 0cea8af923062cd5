//! Who hears what a copy does, and answers its questions.

use crate::api::copy_method::How;
use crate::api::error::Diagnostic;
use rustix::fs::FileType;
use std::path::{Path, PathBuf};

/// Hears what a copy does. Workers call it from several threads at once, and wait for it: be brief.
pub trait Observer: Sync {
    /// One entry is copied. It is not called for an entry that failed or was skipped.
    fn copied(&self, entry: &Copied<'_>) {
        let _ = entry;
    }

    /// An existing target was left as it is.
    fn skipped(&self, entry: &Copied<'_>) {
        let _ = entry;
    }

    /// An entry was left out. Only its kind and its source are known.
    fn excluded(&self, entry: &Copied<'_>) {
        let _ = entry;
    }

    /// A file was finished by an earlier run already.
    fn resumed(&self, entry: &Copied<'_>) {
        let _ = entry;
    }

    /// Tells how many bytes of a file were dealt with since the last call: copied, shared, or passed over as a
    /// hole.
    fn progress(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Tells which part of the whole, which is 1, was done since the last call; only if `measures` returns true. It
    /// is an estimate, because the whole is never seen at once: all sources count the same, and so do all entries
    /// of a directory.
    fn advanced(&self, part: f64) {
        let _ = part;
    }

    /// Returns true if `advanced` is to be called. Long directories are read twice then, as their entries are
    /// counted first.
    fn measures(&self) -> bool {
        false
    }

    /// Something went wrong, or looks wrong. The copy goes on with the next entry.
    fn diagnostic(&self, diagnostic: &Diagnostic);

    /// May this existing target be overwritten? Asked only with `Overwrite::ask`, one question at a time. By default
    /// it may not.
    fn may_overwrite(&self, question: &Question<'_>) -> bool {
        let _ = question;
        false
    }

    /// Returns true if the copy is to end now. It is asked between files and between chunks of one. A file in the
    /// middle is taken back.
    fn stop(&self) -> bool {
        false
    }
}

/// An entry that was copied or passed over.
pub struct Copied<'a> {
    /// The kind of the entry.
    pub kind: Kind,
    /// The length of its contents.
    pub bytes: u64,
    /// The name that its target had before, if there was a backup.
    pub backup: Option<PathBuf>,
    /// The way in which its contents were copied; `None` if it has none, or none were copied.
    pub how: Option<How>,
    pub(crate) paths: &'a dyn Paths,
}

impl Copied<'_> {
    /// The source, as it was named. Made when asked for.
    pub fn source(&self) -> PathBuf {
        self.paths.source()
    }

    /// The target, under its final name. Made when asked for.
    pub fn target(&self) -> PathBuf {
        self.paths.target()
    }
}

/// The two paths of an entry, put together only when they are asked for.
pub(crate) trait Paths {
    fn source(&self) -> PathBuf;
    fn target(&self) -> PathBuf;
}

/// The kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file, or what was read like one.
    File,
    /// A directory that was made.
    Directory,
    /// A directory that was there already.
    Merged,
    /// A symbolic link.
    Symlink,
    /// Another name of a file.
    HardLink,
    /// A FIFO, socket or device.
    Special,
}

impl Kind {
    pub(crate) fn of(kind: FileType) -> Kind {
        match kind {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink,
            _ => Kind::Special,
        }
    }
}

/// An existing target.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Its path.
    pub target: &'a Path,
    /// Its permissions, if it cannot be written as it is.
    pub unwritable: Option<u32>,
}
