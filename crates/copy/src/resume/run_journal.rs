//! The journal of this run, if it has one, and what it says of the request that it is for.

use crate::api::options::{Dereference, Fsync, Method, Options};
use crate::api::target::Target;
use crate::pair::digest::Digest;
use crate::pair::directory::Dir;
use crate::pair::Entry;
use crate::resume::journal::{Asked, Batch, Before, Durable, Journal};
use crate::sys::disk::Disk;
use crate::sys::{self, Stat};
use rustix::fd::AsFd;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Time between barriers. The kernel writes by itself what is older than half a minute, so neither writes more than it
/// would.
const BARRIER_ASKED: Duration = Duration::from_secs(60);
const BARRIER_UNASKED: Duration = Duration::from_secs(300);

/// Returns how sure a journal is that finished files are on the disk.
pub(crate) fn durable(options: &Options) -> Durable {
    match options.fsync {
        Fsync::Each => Durable::Each,
        Fsync::End => Durable::Every(BARRIER_ASKED),
        Fsync::None => Durable::Every(BARRIER_UNASKED),
    }
}

/// Holds the journal for all threads of a run, and makes its head when there is something to write.
pub(crate) struct RunJournal<'a> {
    options: &'a Options,
    sources: &'a [PathBuf],
    target: &'a Target,
    /// The directory that relative sources are in.
    here: PathBuf,
    journal: OnceLock<Journal>,
}

impl<'a> RunJournal<'a> {
    pub(crate) fn new(options: &'a Options, sources: &'a [PathBuf], target: &'a Target) -> RunJournal<'a> {
        RunJournal {
            options,
            sources,
            target,
            here: std::env::current_dir().unwrap_or_default(),
            journal: OnceLock::new(),
        }
    }

    /// Begins to write to this journal. A run has one at most.
    pub(crate) fn begin(&self, journal: Journal) {
        let _ = self.journal.set(journal);
    }

    pub(crate) fn get(&self) -> Option<&Journal> {
        self.journal.get()
    }

    /// Returns true if finished files are worth being written down, as they are except in a dry run.
    pub(crate) fn is_wanted(&self) -> bool {
        let options = self.options;
        let moves = options.method == Method::Contents && !options.attributes_only;
        options.journal && moves && (options.recursive || self.sources.len() > 1)
    }

    /// Returns what earlier runs have finished, if this one continues them.
    pub(crate) fn before(&self) -> Option<&Before> {
        let before = &self.journal.get()?.before;
        before.is_any().then_some(before)
    }

    /// Returns true for an entry of a source that is our own journal, as one is if the target is in the source.
    pub(crate) fn is_named(&self, dir: &Dir, name: &CStr) -> bool {
        // This is called for each entry, and most names end otherwise.
        name.to_bytes().ends_with(b".journal")
            && self
                .journal
                .get()
                .is_some_and(|journal| journal.is_named(name, dir.source.id()))
    }

    /// Waits until what was written is on the disk. After a failure the journal is not written any more: what it says
    /// may not be true.
    pub(crate) fn sync(&self, disk: &Disk) -> io::Result<()> {
        let synced = disk.sync();
        if let (Err(_), Some(journal)) = (&synced, self.journal.get()) {
            journal.lose();
        }
        synced
    }

    /// Writes records that a thread has collected.
    pub(crate) fn append(&self, batch: &mut Batch) {
        if let Some(journal) = self.journal.get() {
            journal.append(batch, &|| self.asked());
        }
    }

    /// Writes down that this directory is merged into.
    pub(crate) fn entered(&self, entry: &Entry<'_>, there: &Stat) {
        if let Some(journal) = self.journal.get() {
            let key = entry.at.dir.key.child(entry.target);
            // A run without `--resume` will hardly be continued: the record is written with the first files.
            journal.entered(key, there, self.options.resume, &|| self.asked());
        }
    }

    /// Writes down that this directory is ours.
    pub(crate) fn made(&self, dir: &Dir, name: &CStr, there: &Stat) {
        if let Some(journal) = self.journal.get() {
            journal.made(dir.key.child(name), there, &|| self.asked());
        }
    }

    /// Ends the journal. It stays with `keep`, because something is left to continue. An error has the name of a journal
    /// that could not be removed.
    pub(crate) fn end(&self, keep: bool) -> Result<(), (CString, io::Error)> {
        match self.journal.get() {
            Some(journal) => journal.finish(keep, &|| self.asked()),
            None => Ok(()),
        }
    }

    /// Returns the names that copies get.
    pub(crate) fn target_names(&self) -> Vec<CString> {
        self.target.names(self.sources)
    }

    /// Returns the first name that a copy gets, or another one if that is the directory itself.
    pub(crate) fn first_name(&self) -> CString {
        let first = &self.sources[..self.sources.len().min(1)];
        let name = self.target.names(first).pop();
        name.filter(|name| name.as_c_str() != c".")
            .unwrap_or_else(|| c"copy".into())
    }

    /// Returns the request in digests, and the first source's path. A path is made absolute without a system call; the
    /// inode tells whether the same file is there.
    pub(crate) fn asked(&self) -> (Asked, Vec<u8>) {
        let names = self.target_names();
        let targets = names
            .iter()
            .fold(Digest::new(), |all, name| all.bytes(name.to_bytes()));
        let follow = self.options.dereference != Dereference::Never;
        let mut sources = Digest::new();
        for source in self.sources {
            let path = absolute(&self.here, source);
            let found = CString::new(path.as_os_str().as_bytes())
                .map_err(std::io::Error::from)
                .and_then(|path| sys::stat_at(rustix::fs::CWD.as_fd(), &path, follow));
            sources = sources
                .bytes(path.as_os_str().as_bytes())
                .word(found.map_or(0, |found| found.id.1));
        }
        let options = format!("{:?}", self.options.meaning());
        let asked = Asked {
            targets: targets.value(),
            sources: sources.value(),
            options: Digest::new().bytes(options.as_bytes()).value(),
        };
        let first = self.sources.first().map(|first| absolute(&self.here, first));
        (asked, first.unwrap_or_default().into_os_string().into_vec())
    }
}

/// Makes a path absolute, without dots and doubled or final slashes.
fn absolute(here: &Path, path: &Path) -> PathBuf {
    here.join(path).components().collect()
}
