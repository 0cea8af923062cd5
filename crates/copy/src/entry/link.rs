//! Names of what exists: further names of a file that is in the target already, and links to the source.

use crate::api::error::{Refusal, Step};
use crate::api::observer::Paths;
use crate::api::options::{Backup, When};
use crate::context::outcome::Outcome;
use crate::entry::destination::Destination;
use crate::entry::hard_links::First;
use crate::entry::special::NodeCopier;
use crate::metadata::apply::times;
use crate::pair::directory::Side;
use crate::pair::Entry;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;

impl NodeCopier<'_> {
    /// Gives another name to a file that is in the target already.
    pub(crate) fn link_to_first(&mut self, entry: &Entry<'_>, stat: &Stat, first: &First) -> Outcome<()> {
        let step = (
            Step::CreateHardLink,
            Some(first.dir.path(Side::Target, &first.name)),
        );
        let opened = match first.dir.open_side(Side::Target) {
            Ok(opened) => opened,
            Err(error) => return Err(self.reporter.failed_with(step.0, entry.target(), step.1, error)),
        };
        let link = |dir: BorrowedFd<'_>, name: &CStr| {
            sys::link_at((opened.as_fd(), &first.name), (dir, name), AtFlags::empty())
        };
        if self.is_linked_already(entry, stat, (opened.as_fd(), &first.name)) {
            return Ok(());
        }
        if !entry.at.dir.state.is_private() && self.previous.was_finished(entry, stat) {
            // An earlier run has met this name first, so what it has made is neither to be kept nor backed up.
            self.destinations.remove_old(entry)?;
        }
        match self.split_before(entry, stat)? {
            Some(there) => self.put_at(entry, stat, Destination::Replace(there), step, false, link)?,
            None => self.put(entry, stat, step, false, link)?,
        }
        if first.whole && stat.is_file() {
            // A run that goes on may meet this name first.
            if let Ok(there) = self
                .writer
                .stat_if_replaceable(entry, || sys::stat_at(opened.as_fd(), &first.name, false))
            {
                self.writer.finished(entry, stat, stat.size, there.as_ref());
            }
        }
        Ok(())
    }

    /// The target is a name of that file already: a rename from one to the other would do nothing at all.
    fn is_linked_already(&self, entry: &Entry<'_>, source: &Stat, first: (BorrowedFd<'_>, &CStr)) -> bool {
        let dir = &entry.at.dir;
        if dir.state.is_private() && !dir.resumed {
            return false;
        }
        let look = |dir, name| sys::stat_at(dir, name, false).ok();
        let there = look(entry.at.target(), entry.target);
        let is_linked =
            there.is_some_and(|there| look(first.0, first.1).is_some_and(|first| first.id == there.id));
        let options = self.shared.context.options;
        // In a dry run that one has not been replaced, as it would be.
        let renewed = options.dry_run
            && !options.attributes_only
            && match options.overwrite.when {
                When::All => true,
                When::Older => there.is_some_and(|there| source.mtime > there.mtime),
                When::None | When::NoneFail => false,
            };
        is_linked && !renewed
    }

    /// With `-u`, a file of its own that is as old as the source: a copy that was made without regard to its other names.
    /// One that is younger was changed since.
    fn split_before(&self, entry: &Entry<'_>, source: &Stat) -> Outcome<Option<Stat>> {
        let is_old =
            self.shared.context.options.overwrite.when == When::Older && !entry.at.dir.state.is_private();
        let there = if is_old {
            entry.existing(&self.reporter)?
        } else {
            None
        };
        let as_old = |there: &Stat| there.file_type() == source.file_type() && there.mtime == source.mtime;
        Ok(there.filter(as_old))
    }

    /// `-u`, and what has the name is not older: other names become names of that, as for GNU's.
    pub(super) fn is_up_to_date(&self, entry: &Entry<'_>, source: &Stat) -> bool {
        self.shared.context.options.overwrite.when == When::Older
            && !entry.at.dir.state.is_private()
            && sys::stat_at(entry.at.target(), entry.target, false)
                .is_ok_and(|there| !there.is_dir() && source.mtime <= there.mtime)
    }

    /// `Method::HardLink`: the target becomes another name of the source.
    pub(crate) fn link_to_source(&mut self, entry: &Entry<'_>) -> Outcome<()> {
        let stat = entry.look(&self.reporter, self.shared.context.options)?;
        self.shared.part.saw(entry, &stat);
        let follow = entry.at.dir.follows(self.shared.context.options);
        let flags = if follow {
            AtFlags::SYMLINK_FOLLOW
        } else {
            AtFlags::empty()
        };
        let there = self.existing_unless_private(entry)?;
        if there.is_some_and(|there| there.id == stat.id) {
            return Ok(());
        }
        let points_there = |there: &Stat| stat.is_symlink() && self.destinations.points_to(entry, there);
        if !self.replaces() && there.as_ref().is_some_and(points_there) {
            // The link would take the place of the file that it points to. GNU's cp leaves both, with status 0.
            return Ok(());
        }
        self.check_replaceable(entry, &stat, there.as_ref(), Step::CreateHardLink)?;
        let link = |dir: BorrowedFd<'_>, name: &CStr| {
            sys::link_at((entry.at.source(), entry.source), (dir, name), flags)
        };
        let step = (Step::CreateHardLink, Some(entry.source()));
        self.put(entry, &stat, step, false, link)
    }

    /// `Method::SymbolicLink`: the target points to the source's path, which must be absolute, or mean the same there.
    pub(crate) fn point_to_source(&mut self, entry: &Entry<'_>) -> Outcome<()> {
        let stat = entry.look(&self.reporter, self.shared.context.options)?;
        self.shared.part.saw(entry, &stat);
        let path = entry.source();
        let there = self.existing_unless_private(entry)?;
        if there.is_some_and(|there| there.id == stat.id) && !self.replaces() {
            return Err(self.reporter.refused(Refusal::SameFile, entry));
        }
        if let Some(there) = &there {
            self.destinations.check_age(entry, &stat, there)?;
        }
        if path.is_relative() && !self.is_current(entry) && !there.is_some_and(|there| there.is_dir()) {
            return Err(self.reporter.refused(Refusal::RelativeLink, entry));
        }
        self.check_replaceable(entry, &stat, there.as_ref(), Step::CreateSymlink)?;
        let to = CString::new(path.as_os_str().as_bytes()).expect("paths are made of names");
        let timed = self.shared.context.options.preserve.timestamps;
        let make = |dir: BorrowedFd<'_>, name: &CStr| {
            rustix::fs::symlinkat(&to, dir, name)?;
            if timed {
                // Not every file system keeps times of links.
                let _ = rustix::fs::utimensat(dir, name, &times(&stat), AtFlags::SYMLINK_NOFOLLOW);
            }
            Ok(())
        };
        self.put(entry, &stat, (Step::CreateSymlink, Some(path)), false, make)
    }

    /// Returns true if the target's directory is the one that relative paths start at.
    fn is_current(&self, entry: &Entry<'_>) -> bool {
        let here = sys::current_dir().and_then(|here| sys::stat(here.as_fd()));
        here.is_ok_and(|here| here.id == entry.at.dir.target.id())
    }

    fn existing_unless_private(&self, entry: &Entry<'_>) -> Outcome<Option<Stat>> {
        if entry.at.dir.state.is_private() {
            return Ok(None);
        }
        entry.existing(&self.reporter)
    }

    /// Returns true if a link may take the place of something.
    fn replaces(&self) -> bool {
        let options = self.shared.context.options;
        let overwrite = options.overwrite;
        let left = matches!(overwrite.when, When::None | When::NoneFail);
        let asked = overwrite.force || overwrite.remove || overwrite.ask || left;
        asked || options.backup != Backup::None
    }

    /// A link takes the place of something only if that was asked for, and never that of a directory.
    fn check_replaceable(
        &self,
        entry: &Entry<'_>,
        source: &Stat,
        there: Option<&Stat>,
        step: Step,
    ) -> Outcome<()> {
        let Some(there) = there else { return Ok(()) };
        if there.is_dir() && self.shared.context.options.overwrite.when == When::All {
            return Err(self.reporter.refused(Refusal::FileOverDirectory, entry));
        }
        let options = self.shared.context.options;
        // These go before anything is copied to their place, however that is done.
        let goes = !entry.at.dir.follows(self.shared.context.options) && !source.is_file()
            || options.preserve.links && there.nlink > 1;
        if !goes && !self.replaces() {
            self.destinations.check_age(entry, source, there)?;
            let error = io::Error::from(Errno::EXIST);
            return Err(self
                .reporter
                .failed_with(step, entry.target(), Some(entry.source()), error));
        }
        Ok(())
    }
}
