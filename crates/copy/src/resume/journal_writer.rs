//! The records of one thread: what is finished, and what is not and could be taken for it.

use crate::api::options::{Backup, When};
use crate::context::Context;
use crate::pair::digest::Key;
use crate::pair::Entry;
use crate::resume::journal::{Batch, Begun};
use crate::resume::run_journal::RunJournal;
use crate::sys::{self, Stat};
use std::cell::RefCell;
use std::ffi::CStr;
use std::io;

/// Writes the journal for one thread: records are collected, and written together.
pub(crate) struct JournalWriter<'a> {
    context: &'a Context<'a>,
    pub(crate) journal: &'a RunJournal<'a>,
    /// Records that are not written yet.
    batch: RefCell<Batch>,
}

impl<'a> JournalWriter<'a> {
    pub(crate) fn new(context: &'a Context<'a>, journal: &'a RunJournal<'a>) -> JournalWriter<'a> {
        JournalWriter {
            context,
            journal,
            batch: RefCell::default(),
        }
    }

    /// Writes what was collected.
    fn write(&self) {
        self.journal.append(&mut self.batch.borrow_mut());
    }

    /// Withdraws what an earlier run has written of this file.
    pub(crate) fn void(&self, key: Key) {
        self.batch.borrow_mut().void(key);
        self.write();
    }

    /// Writes down that a file is finished, with this many bytes shared. Where others may put another file in its place,
    /// `there` is what it is now.
    pub(crate) fn finished(&self, entry: &Entry<'_>, source: &Stat, shared: u64, there: Option<&Stat>) {
        if !self.is_noted(entry) {
            return;
        }
        let key = entry.at.dir.key.child(entry.target);
        self.batch.borrow_mut().finished(key, source, shared, there);
        if self.batch.borrow().is_due() || (there.is_some() && self.counts_twice(entry, source)) {
            self.write();
        }
    }

    /// Writes down that a link, a FIFO or a device is about to get its name, where it may not simply be made again.
    pub(crate) fn finished_special(&self, entry: &Entry<'_>, source: &Stat, name: &CStr) {
        if !self.is_unseen(entry) && self.is_noted(entry) && self.counts_twice(entry, source) {
            if let Ok(there) = sys::stat_at(entry.at.target(), name, false) {
                self.finished(entry, source, 0, Some(&there));
            }
        }
    }

    /// Returns true if the entry is on the disk that barriers are about.
    fn is_noted(&self, entry: &Entry<'_>) -> bool {
        let journal = self.journal.get();
        journal.is_some_and(|journal| journal.device == entry.at.dir.target.id().0)
    }

    /// Returns true if doing it twice is not the same as once: there would be a backup of the new file, a failure or a
    /// question; or the file would be left alone, and its other names would not know of it.
    fn counts_twice(&self, entry: &Entry<'_>, source: &Stat) -> bool {
        let options = self.context.options;
        let overwrite = options.overwrite;
        let follows = !source.is_file() && entry.at.dir.follows(options);
        let fails = overwrite.ask || overwrite.when == When::NoneFail || follows;
        let splits = overwrite.when != When::All && entry.is_tracked(options, source);
        options.backup != Backup::None || fails || splits
    }

    /// Writes down that a file that others can see is being written, where half of a file would be taken for one that is
    /// to be kept.
    pub(crate) fn begun(
        &self,
        entry: &Entry<'_>,
        begun: impl FnOnce() -> io::Result<Begun>,
    ) -> io::Result<()> {
        if !self.keeps_halves(entry) {
            return Ok(());
        }
        let begun = begun()?;
        let key = entry.at.dir.key.child(entry.target);
        self.batch.borrow_mut().begun(key, begun);
        self.write();
        if let Some(journal) = self.journal.get() {
            journal.settle();
        }
        Ok(())
    }

    /// Withdraws that: nothing was made there, and nothing will be. What is there one day belongs to another program.
    pub(crate) fn not_begun(&self, entry: &Entry<'_>) {
        if self.keeps_halves(entry) {
            self.void(entry.at.dir.key.child(entry.target));
        }
    }

    /// Returns true if half of a file would be left alone or backed up.
    fn keeps_halves(&self, entry: &Entry<'_>) -> bool {
        let options = self.context.options;
        let overwrite = options.overwrite;
        let keeps = options.backup != Backup::None || overwrite.ask || overwrite.when != When::All;
        keeps && !entry.at.dir.state.is_private() && self.is_noted(entry)
    }

    /// Leaves records that are not written yet to the thread that writes next.
    pub(crate) fn hold(&self) {
        if let Some(journal) = self.journal.get() {
            journal.hold(&mut self.batch.borrow_mut());
        }
    }

    /// Examines a new file that others may replace. Returns `None` if no other program can.
    pub(crate) fn stat_if_replaceable(
        &self,
        entry: &Entry<'_>,
        look: impl FnOnce() -> io::Result<Stat>,
    ) -> io::Result<Option<Stat>> {
        if self.is_unseen(entry) || self.journal.get().is_none() {
            return Ok(None);
        }
        look().map(Some)
    }

    /// Returns true if no other program sees the entry before everything is done: the only tree of a copy has its name
    /// then, and no journal is left.
    fn is_unseen(&self, entry: &Entry<'_>) -> bool {
        let dir = &entry.at.dir;
        dir.state.is_private() && !dir.is_part && self.context.has_one_source
    }
}
