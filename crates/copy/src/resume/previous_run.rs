//! A run that continues an interrupted one: what is in the target already and may stay, and what has to go.
//!
//! Invariant: what stays was finished by us and its source is still what it was; everything else is made again.

use crate::api::error::Step;
use crate::api::observer::{Copied, Kind, Paths};
use crate::context::outcome::Outcome;
use crate::context::reporter::Reporter;
use crate::context::Context;
use crate::data::buffer::{Buffer, BUFFER_BYTES};
use crate::data::verify;
use crate::pair::created::Created;
use crate::pair::directory::Dir;
use crate::pair::part::Part;
use crate::pair::Entry;
use crate::resume::journal::Begun;
use crate::resume::journal_writer::JournalWriter;
use crate::resume::tidy::{shown, NUMBERS};
use crate::sys::names::partial_name;
use crate::sys::remove::remove;
use crate::sys::{self, Stat};
use rustix::fd::AsFd;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::rc::Rc;

/// File systems with the coarsest times have those of every other second.
const COARSEST_S: i64 = 2;

/// The results of earlier runs, if this one continues them.
pub(crate) struct PreviousRun<'a> {
    context: &'a Context<'a>,
    part: &'a Part,
    created: &'a Created,
    writer: Rc<JournalWriter<'a>>,
    reporter: Rc<Reporter<'a>>,
}

impl<'a> PreviousRun<'a> {
    pub(crate) fn new(
        context: &'a Context<'a>,
        part: &'a Part,
        created: &'a Created,
        writer: Rc<JournalWriter<'a>>,
        reporter: Rc<Reporter<'a>>,
    ) -> PreviousRun<'a> {
        PreviousRun {
            context,
            part,
            created,
            writer,
            reporter,
        }
    }

    /// Returns what an earlier run had begun to write, if it is this file by its inode.
    pub(crate) fn was_begun(&self, entry: &Entry<'_>, there: &Stat) -> Option<Begun> {
        let before = self.writer.journal.before()?;
        before.has_begun(entry.at.dir.key.child(entry.target), there)
    }

    /// Returns the same, if nothing else is in it than what is in the source as well. Another program may have written to
    /// it since, or have a new file of that inode.
    pub(crate) fn left_half(
        &self,
        entry: &Entry<'_>,
        source: &Stat,
        there: &Stat,
        through_link: bool,
    ) -> Option<Begun> {
        let begun = self.was_begun(entry, there)?;
        if through_link && !matches!(begun, Begun::Over(_)) {
            return None;
        }
        let follow = entry.at.dir.follows(self.context.options);
        let open = |dir, name, follow, wanted: &Stat| {
            let fd = sys::open_source(dir, name, follow, false)?;
            let found = sys::stat(fd.as_fd())?;
            Ok::<_, io::Error>((found.id == wanted.id && found.is_file()).then_some(fd))
        };
        let from = open(entry.at.source(), entry.source, follow, source).ok()??;
        let to = open(entry.at.target(), entry.target, through_link, there).ok()??;
        let mut buffer = Buffer::new(BUFFER_BYTES).ok()?;
        let is_part = verify::is_part(self.context, &mut buffer, (from.as_fd(), to.as_fd()), there.size);
        matches!(is_part, Ok(true)).then_some(begun)
    }

    /// Returns true if an earlier run has finished this file. If not, what has its name in a directory of ours is removed.
    pub(crate) fn stays(&self, entry: &Entry<'_>, source: &Stat) -> Outcome<bool> {
        let dir = &entry.at.dir;
        let private = dir.state.is_private();
        let Some(before) = self.writer.journal.before() else {
            return Ok(false);
        };
        if private && !dir.resumed {
            return Ok(false);
        }
        if self.stays_finished(entry, source) {
            return Ok(true);
        }
        let key = dir.key.child(entry.target);
        if before.knows_file(key) {
            self.writer.void(key);
        }
        self.make_room(entry)?;
        Ok(false)
    }

    /// Returns true if an earlier run has finished this, and it is there.
    pub(crate) fn was_finished(&self, entry: &Entry<'_>, source: &Stat) -> bool {
        let Some(before) = self.writer.journal.before() else {
            return false;
        };
        let dir = &entry.at.dir;
        let key = dir.key.child(entry.target);
        // What cannot be examined is reported when it is written.
        let there = sys::stat_at(entry.at.target(), entry.target, false);
        there.is_ok_and(|there| {
            self.is_like(source, &there) && before.has_file(key, source, &there, dir.state.is_private())
        })
    }

    /// Returns the same, and reports that it stays.
    pub(crate) fn stays_finished(&self, entry: &Entry<'_>, source: &Stat) -> bool {
        let stays = self.was_finished(entry, source);
        if stays {
            self.reporter.count(|report| report.resumed += 1);
            self.created.note(entry, Kind::of(source.file_type()));
            self.context.observer.resumed(&Copied {
                kind: Kind::of(source.file_type()),
                bytes: if source.is_file() { source.size } else { 0 },
                backup: None,
                how: None,
                paths: entry,
            });
        }
        stays
    }

    /// Returns true if something looks as what is finished does.
    fn is_like(&self, source: &Stat, there: &Stat) -> bool {
        let apart_s = source.mtime.tv_sec.abs_diff(there.mtime.tv_sec);
        let same_time = !self.context.options.preserve.timestamps || apart_s <= COARSEST_S.unsigned_abs();
        source.file_type() == there.file_type() && there.size == source.size && same_time
    }

    /// Removes what has the entry's name in a directory of ours from an earlier run.
    pub(crate) fn make_room(&self, entry: &Entry<'_>) -> Outcome<()> {
        if !entry.at.dir.resumed {
            return Ok(());
        }
        remove(entry.at.target(), entry.target)
            .map_err(|error| self.reporter.failed(Step::Remove, entry.target(), error))
    }

    /// Returns true if a directory of ours has a directory of an earlier run. Anything else is removed.
    pub(crate) fn left_dir(&self, entry: &Entry<'_>) -> Outcome<bool> {
        if !entry.at.dir.resumed {
            return Ok(false);
        }
        let is_dir = entry
            .existing(&self.reporter)?
            .is_some_and(|there| there.is_dir());
        if !is_dir {
            self.make_room(entry)?;
        }
        Ok(is_dir)
    }

    /// Returns the name of a tree that an earlier run has left for this target, if it is certainly ours.
    pub(crate) fn left_tree(&self, entry: &Entry<'_>) -> Outcome<Option<CString>> {
        let found = self.find_left_tree(entry);
        found.map_err(|(_, error)| self.reporter.failed(Step::StatTarget, entry.target(), error))
    }

    /// Reports a tree of an earlier run that stays, because its source could not even be opened.
    pub(crate) fn keep_left_tree(&self, entry: &Entry<'_>) {
        let dir = &entry.at.dir;
        let is_apart = dir.state.is_private() || self.context.options.in_place;
        if is_apart || self.context.options.dry_run || !self.part.is_whole() {
            return;
        }
        if let Ok(Some(name)) | Err((name, _)) = self.find_left_tree(entry) {
            self.reporter
                .count(|report| report.partial.push(shown(dir, &name)));
        }
    }

    /// Looks for such a tree. An error has the name that could not be examined.
    fn find_left_tree(&self, entry: &Entry<'_>) -> Result<Option<CString>, (CString, io::Error)> {
        let Some(before) = self.writer.journal.before() else {
            return Ok(None);
        };
        let key = entry.at.dir.key.child(entry.target);
        let numbers = before
            .runs()
            .iter()
            .flat_map(|id| (0..NUMBERS).map(|n| id.wrapping_add(n)));
        let at = entry.at.target();
        for name in numbers.map(|number| partial_name(entry.target, number)) {
            match sys::stat_at(at, &name, false) {
                Ok(there) if !there.is_dir() => {}
                Ok(there) if before.has_made(key, &there) => return Ok(Some(name)),
                Ok(_) => {
                    // It was killed before it wrote that down, and then there is nothing in it. Else it stays.
                    let _ = rustix::fs::unlinkat(at, &name, AtFlags::REMOVEDIR);
                }
                Err(error) if sys::is(&error, &[Errno::NOENT]) => {}
                Err(error) => return Err((name, error)),
            }
        }
        Ok(None)
    }

    /// Returns true if this directory was made by an earlier run, and not by another program.
    pub(crate) fn was_made(&self, dir: &Dir, name: &CStr, there: &Stat) -> bool {
        let before = self.writer.journal.before();
        before.is_some_and(|before| before.has_made(dir.key.child(name), there))
    }
}
