//! What a run writes down for the one that may have to go on with it: what is finished, and what is not and could be
//! taken for it.

use crate::api::options::{Backup, When};
use crate::job::run::Run;
use crate::pair::digest::Key;
use crate::pair::directory::Dir;
use crate::pair::Entry;
use crate::resume::journal::{Batch, Begun};
use crate::sys::{self, Stat};
use std::ffi::CStr;
use std::io;

/// Writes the journal for one thread: records are collected, and written together.
pub(crate) struct JournalWriter<'a> {
    run: &'a Run<'a>,
    /// What is finished and not written yet.
    batch: Batch,
}

impl<'a> JournalWriter<'a> {
    pub(crate) fn new(run: &'a Run<'a>) -> JournalWriter<'a> {
        JournalWriter {
            run,
            batch: Batch::default(),
        }
    }

    /// Writes what was collected.
    pub(crate) fn write(&mut self) {
        self.run.write_down(&mut self.batch);
    }

    /// What an earlier run has written of this file is not so any more.
    pub(crate) fn void(&mut self, key: Key) {
        self.batch.void(key);
        self.write();
    }

    /// Writes down that a file is finished, with so many bytes shared. Where others may put another one in its place,
    /// `there` is what it is now.
    pub(crate) fn finished(&mut self, entry: &Entry<'_>, source: &Stat, shared: u64, there: Option<&Stat>) {
        if !self.is_noted(entry) {
            return;
        }
        let key = entry.at.dir.key.child(entry.target);
        self.batch.finished(key, source, shared, there);
        if self.batch.is_due() || (there.is_some() && self.counts_twice(entry, source)) {
            self.write();
        }
    }

    /// Writes down that a link, a FIFO or a device is about to get its name, where it may not simply be made again.
    pub(crate) fn finished_special(&mut self, entry: &Entry<'_>, source: &Stat, name: &CStr) {
        if !self.is_unseen(entry) && self.is_noted(entry) && self.counts_twice(entry, source) {
            if let Ok(there) = sys::stat_at(entry.at.target(), name, false) {
                self.finished(entry, source, 0, Some(&there));
            }
        }
    }

    /// Whether this is on the disk that barriers are about.
    fn is_noted(&self, entry: &Entry<'_>) -> bool {
        let journal = self.run.journal.get();
        journal.is_some_and(|journal| journal.device == entry.at.dir.target.id().0)
    }

    /// Whether to do it twice is not the same as once: there would be a backup of the new file, a failure or a question; or
    /// it would be left alone, and its other names would not know of it.
    fn counts_twice(&self, entry: &Entry<'_>, source: &Stat) -> bool {
        let overwrite = self.run.context.options.overwrite;
        let follows = !source.is_file() && self.run.follows(&entry.at.dir);
        let fails = overwrite.ask || overwrite.when == When::NoneFail || follows;
        let splits = overwrite.when != When::All && self.run.tracks(entry, source);
        self.run.context.options.backup != Backup::None || fails || splits
    }

    /// Writes down that a file that others can see is being written, where the half of one would be taken for what
    /// somebody wants to keep.
    pub(crate) fn begun(
        &mut self,
        entry: &Entry<'_>,
        begun: impl FnOnce() -> io::Result<Begun>,
    ) -> io::Result<()> {
        if !self.keeps_halves(entry) {
            return Ok(());
        }
        let begun = begun()?;
        self.batch.begun(entry.at.dir.key.child(entry.target), begun);
        self.run.write_down(&mut self.batch);
        if let Some(journal) = self.run.journal.get() {
            journal.settle();
        }
        Ok(())
    }

    /// Nothing was made there, and nothing will be: what is there one day is somebody else's.
    pub(crate) fn not_begun(&mut self, entry: &Entry<'_>) {
        if self.keeps_halves(entry) {
            self.batch.void(entry.at.dir.key.child(entry.target));
            self.write();
        }
    }

    /// Whether half of a file would be left alone or backed up.
    fn keeps_halves(&self, entry: &Entry<'_>) -> bool {
        let overwrite = self.run.context.options.overwrite;
        let keeps =
            self.run.context.options.backup != Backup::None || overwrite.ask || overwrite.when != When::All;
        keeps && !entry.at.dir.state.is_private() && self.is_noted(entry)
    }

    /// Leaves what is not written down yet to whoever writes next.
    pub(crate) fn hold(&mut self) {
        if let Some(journal) = self.run.journal.get() {
            journal.hold(&mut self.batch);
        }
    }

    /// What a new file is that others may replace; `None` where nobody else can.
    pub(crate) fn stat_if_replaceable(
        &self,
        entry: &Entry<'_>,
        look: impl FnOnce() -> io::Result<Stat>,
    ) -> io::Result<Option<Stat>> {
        if self.is_unseen(entry) || self.run.journal.get().is_none() {
            return Ok(None);
        }
        look().map(Some)
    }

    /// Whether nobody sees it before everything is done: the only tree of a copy has its name then, and no journal is left.
    fn is_unseen(&self, entry: &Entry<'_>) -> bool {
        let dir = &entry.at.dir;
        dir.state.is_private() && !dir.is_part && self.run.has_one_source()
    }

    /// Writes down that this directory is merged into.
    pub(crate) fn entered(&self, entry: &Entry<'_>, there: &Stat) {
        if let Some(journal) = self.run.journal.get() {
            let run = self.run;
            let key = entry.at.dir.key.child(entry.target);
            // Who does not ask to go on will hardly do so: then it is written with the first files.
            journal.entered(key, there, run.context.options.resume, &|| run.asked());
        }
    }

    /// Writes down that this directory is ours.
    pub(crate) fn made(&self, dir: &Dir, name: &CStr, there: &Stat) {
        if let Some(journal) = self.run.journal.get() {
            let run = self.run;
            journal.made(dir.key.child(name), there, &|| run.asked());
        }
    }
}
