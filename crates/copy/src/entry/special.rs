//! What has no contents: symbolic links, FIFOs, sockets, devices, and further names of a file. Where others can see it,
//! it is made under a partial name, gets its metadata, and is renamed.

use crate::api::error::{Diagnostic, Refusal, Step, Warning};
use crate::api::observer::{Kind, Paths};
use crate::api::options::{Backup, Dereference, Method, When};
use crate::context::outcome::{End, Outcome};
use crate::entry::destination::Destination;
use crate::entry::hard_links::{Claim, First};
use crate::entry::regular_file::NotNamed;
use crate::job::queue::Job;
use crate::job::worker::Worker;
use crate::metadata::apply::times;
use crate::pair::directory::{Side, State};
use crate::pair::Entry;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

impl Worker<'_> {
    /// Makes a symbolic link that points to the same path.
    pub(crate) fn symlink(&mut self, entry: &Entry<'_>) -> Outcome<()> {
        let stat = self.look(entry)?;
        self.once(entry, &stat, |worker| {
            let to = match worker.options().dry_run {
                // Reading it would leave a time of access.
                true => CString::default(),
                false => {
                    rustix::fs::readlinkat(entry.at.source(), entry.source, Vec::new()).map_err(|error| {
                        worker
                            .reporter
                            .failed(Step::ReadLink, entry.source(), error.into())
                    })?
                }
            };
            let make = |dir: BorrowedFd<'_>, name: &CStr| rustix::fs::symlinkat(&to, dir, name);
            worker.put(entry, &stat, (Step::CreateSymlink, None), true, make)
        })
    }

    /// Makes a FIFO, a socket or a device like the source.
    pub(crate) fn special(&mut self, entry: &Entry<'_>) -> Outcome<()> {
        let stat = self.look(entry)?;
        self.once(entry, &stat, |worker| {
            let kind = stat.file_type();
            let step = if kind == FileType::Fifo {
                Step::CreateFifo
            } else {
                Step::CreateSpecial
            };
            let device = rustix::fs::makedev(stat.rdev.0, stat.rdev.1);
            let mode = Mode::from_raw_mode(worker.metadata.mode_of_special(&entry.at.dir, &stat));
            let make = |dir: BorrowedFd<'_>, name: &CStr| rustix::fs::mknodat(dir, name, kind, mode, device);
            worker.put(entry, &stat, (step, None), true, make)
        })
    }

    /// How many names of a file may come; 0 if nobody knows, because links are followed.
    fn names_to_come(&self, stat: &Stat) -> u32 {
        match self.options().dereference {
            // One that is named, and is in a tree that is named, comes once more than it has names.
            Dereference::Never if self.run.context.has_one_source => stat.nlink,
            _ => 0,
        }
    }

    /// Lets those go on who waited for the first name. It is `whole` if nothing went wrong with it.
    pub(crate) fn claimed(&mut self, entry: &Entry<'_>, stat: &Stat, done: bool, whole: bool) {
        let first = done.then(|| First {
            dir: entry.at.dir.clone(),
            name: entry.target.into(),
            whole,
        });
        let mut waiting = self.run.links.finished(stat.id, self.names_to_come(stat), first);
        self.dispatcher.push(&mut waiting);
    }

    fn look(&mut self, entry: &Entry<'_>) -> Outcome<Stat> {
        let follow = entry.at.dir.follows(self.options());
        sys::stat_at(entry.at.source(), entry.source, follow)
            .map_err(|error| self.reporter.failed(Step::StatSource, entry.source(), error))
    }

    /// Makes something, unless a name of it is in the target already.
    pub(crate) fn once(
        &mut self,
        entry: &Entry<'_>,
        stat: &Stat,
        make: impl FnOnce(&mut Self) -> Outcome<()>,
    ) -> Outcome<()> {
        if !entry.is_tracked(self.options(), stat) {
            self.run.part.saw(entry, stat);
            return make(self);
        }
        let later = || {
            entry.at.dir.add(1);
            Job::of(entry, stat.file_type())
        };
        let claim = self.run.links.claim(stat.id, later);
        if matches!(claim, Claim::Later) {
            return Err(End::Skipped);
        }
        self.run.part.saw(entry, stat);
        match claim {
            Claim::Later => unreachable!("it has returned"),
            Claim::Link(_) if self.link_from_farm(entry, stat)? => Ok(()),
            Claim::Link(first) => match self.link_to_first(entry, stat, &first) {
                Err(End::TooManyNames) => self.begin_new_first(entry, stat, &first, make),
                linked => linked,
            },
            Claim::Copy => {
                let failures = self.reporter.failures();
                let done = self.first_of_several(entry, stat, make);
                let whole = done.is_ok() && self.reporter.failures() == failures;
                let stays = matches!(done, Err(End::Skipped)) && self.is_up_to_date(entry, stat);
                self.claimed(entry, stat, done.is_ok() || stays, whole);
                done
            }
        }
    }

    /// `-u`, and what has the name is not older: other names become names of that, as for GNU's.
    fn is_up_to_date(&self, entry: &Entry<'_>, source: &Stat) -> bool {
        self.options().overwrite.when == When::Older
            && !entry.at.dir.state.is_private()
            && sys::stat_at(entry.at.target(), entry.target, false)
                .is_ok_and(|there| !there.is_dir() && source.mtime <= there.mtime)
    }

    /// With `-u`, a file of its own that is as old as the source: a copy that was made without regard to its other names.
    /// One that is younger somebody has changed since.
    fn split_before(&mut self, entry: &Entry<'_>, source: &Stat) -> Outcome<Option<Stat>> {
        let is_old = self.options().overwrite.when == When::Older && !entry.at.dir.state.is_private();
        let there = if is_old {
            entry.existing(&self.reporter)?
        } else {
            None
        };
        let as_old = |there: &Stat| there.file_type() == source.file_type() && there.mtime == source.mtime;
        Ok(there.filter(as_old))
    }

    /// A copy takes the place of the name that cannot be had, and the names to come are names of the copy.
    fn begin_new_first(
        &mut self,
        entry: &Entry<'_>,
        stat: &Stat,
        first: &First,
        make: impl FnOnce(&mut Self) -> Outcome<()>,
    ) -> Outcome<()> {
        let failures = self.reporter.failures();
        make(self)?;
        self.reporter.tell(&Diagnostic::Warning {
            warning: Warning::NamesSplit,
            path: entry.target(),
        });
        let new = First {
            dir: entry.at.dir.clone(),
            name: entry.target.into(),
            whole: self.reporter.failures() == failures,
        };
        self.run.links.renew(stat.id, first, new);
        Ok(())
    }

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
            // An earlier run has met this name first, so that nobody wants to keep or back up what it has made.
            self.remove_old(entry)?;
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
        let options = self.options();
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

    /// `Method::HardLink`: the target becomes another name of the source.
    pub(crate) fn link_to_source(&mut self, entry: &Entry<'_>) -> Outcome<()> {
        let stat = self.look(entry)?;
        self.run.part.saw(entry, &stat);
        let follow = entry.at.dir.follows(self.options());
        let flags = if follow {
            AtFlags::SYMLINK_FOLLOW
        } else {
            AtFlags::empty()
        };
        let there = self.existing_unless_private(entry)?;
        if there.is_some_and(|there| there.id == stat.id) {
            return Ok(());
        }
        let points_there = |there: &Stat| stat.is_symlink() && self.points_to(entry, there);
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
        let stat = self.look(entry)?;
        self.run.part.saw(entry, &stat);
        let path = entry.source();
        let there = self.existing_unless_private(entry)?;
        if there.is_some_and(|there| there.id == stat.id) && !self.replaces() {
            return Err(self.reporter.refused(Refusal::SameFile, entry));
        }
        if let Some(there) = &there {
            self.check_age(entry, &stat, there)?;
        }
        if path.is_relative() && !self.is_current(entry) && !there.is_some_and(|there| there.is_dir()) {
            return Err(self.reporter.refused(Refusal::RelativeLink, entry));
        }
        self.check_replaceable(entry, &stat, there.as_ref(), Step::CreateSymlink)?;
        let to = CString::new(path.as_os_str().as_bytes()).expect("paths are made of names");
        let timed = self.options().preserve.timestamps;
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

    /// Whether the target's directory is the one that relative paths start at.
    fn is_current(&self, entry: &Entry<'_>) -> bool {
        let here = sys::current_dir().and_then(|here| sys::stat(here.as_fd()));
        here.is_ok_and(|here| here.id == entry.at.dir.target.id())
    }

    fn existing_unless_private(&mut self, entry: &Entry<'_>) -> Outcome<Option<Stat>> {
        if entry.at.dir.state.is_private() {
            return Ok(None);
        }
        entry.existing(&self.reporter)
    }

    /// Whether a link may take the place of something.
    fn replaces(&self) -> bool {
        let options = self.options();
        let overwrite = options.overwrite;
        let left = matches!(overwrite.when, When::None | When::NoneFail);
        let asked = overwrite.force || overwrite.remove || overwrite.ask || left;
        asked || options.backup != Backup::None
    }

    /// A link takes the place of something only if that was asked for, and never that of a directory.
    fn check_replaceable(
        &mut self,
        entry: &Entry<'_>,
        source: &Stat,
        there: Option<&Stat>,
        step: Step,
    ) -> Outcome<()> {
        let Some(there) = there else { return Ok(()) };
        if there.is_dir() && self.options().overwrite.when == When::All {
            return Err(self.reporter.refused(Refusal::FileOverDirectory, entry));
        }
        let options = self.options();
        // These go before anything is copied to their place, however that is done.
        let goes = !entry.at.dir.follows(self.options()) && !source.is_file()
            || options.preserve.links && there.nlink > 1;
        if !goes && !self.replaces() {
            self.check_age(entry, source, there)?;
            let error = io::Error::from(Errno::EXIST);
            return Err(self
                .reporter
                .failed_with(step, entry.target(), Some(entry.source()), error));
        }
        Ok(())
    }

    /// Whether what is there stays, unless it is to go in any case: with `--attributes-only`, for it may have contents, and
    /// where links are followed, as for GNU's.
    fn keeps_contents(&self, entry: &Entry<'_>, source: &Stat, there: &Stat) -> bool {
        let options = self.options();
        let goes = options.overwrite.remove
            || options.backup != Backup::None
            || (options.overwrite.force && source.is_symlink());
        let follows = entry.at.dir.follows(self.options());
        let linked = options.preserve.links && there.nlink > 1;
        (options.attributes_only || (follows && !linked)) && !goes && entry.at.dir.state != State::Shared
    }

    /// Makes something that `make` makes under a name, and gives it its metadata unless it is only a name.
    fn put(
        &mut self,
        entry: &Entry<'_>,
        stat: &Stat,
        step: (Step, Option<PathBuf>),
        with_metadata: bool,
        make: impl Fn(BorrowedFd<'_>, &CStr) -> rustix::io::Result<()>,
    ) -> Outcome<()> {
        if with_metadata && self.previous.stays_finished(entry, stat) {
            return Ok(());
        }
        let destination = match self.destination(entry, stat)? {
            Destination::Replace(there) if with_metadata && self.keeps_contents(entry, stat, &there) => {
                let error = Errno::EXIST.into();
                return Err(self.reporter.failed_with(step.0, entry.target(), step.1, error));
            }
            // A name replaces a name, also where contents would be written into what is there.
            Destination::Into { there, .. } => Destination::Replace(there),
            destination => destination,
        };
        self.put_at(entry, stat, destination, step, with_metadata, make)
    }

    fn put_at(
        &mut self,
        entry: &Entry<'_>,
        stat: &Stat,
        destination: Destination,
        step: (Step, Option<PathBuf>),
        with_metadata: bool,
        make: impl Fn(BorrowedFd<'_>, &CStr) -> rustix::io::Result<()>,
    ) -> Outcome<()> {
        let backup = if self.options().dry_run {
            self.dry_run(entry, &destination, step)?
        } else {
            self.put_there(entry, stat, &destination, step, with_metadata, make)?
        };
        let kind = match (with_metadata, self.options().method) {
            (false, Method::SymbolicLink) => Kind::Symlink,
            (false, _) => Kind::HardLink,
            (true, _) => Kind::of(stat.file_type()),
        };
        match kind {
            Kind::HardLink => self.reporter.count(|report| report.hard_links += 1),
            Kind::Symlink => self.reporter.count(|report| report.symlinks += 1),
            _ => self.reporter.count(|report| report.specials += 1),
        }
        self.copied(entry, kind, backup);
        Ok(())
    }

    /// Returns the path of the backup, if there is one.
    fn put_there(
        &mut self,
        entry: &Entry<'_>,
        stat: &Stat,
        destination: &Destination,
        (step, other): (Step, Option<PathBuf>),
        with_metadata: bool,
        make: impl Fn(BorrowedFd<'_>, &CStr) -> rustix::io::Result<()>,
    ) -> Outcome<Option<PathBuf>> {
        let old = match destination {
            Destination::New => None,
            Destination::Replace(old) => Some(old),
            Destination::Into { .. } => unreachable!("`put` has made another one of it"),
        };
        self.previous.make_room(entry)?;
        let keeps_names = !with_metadata && self.options().method == Method::Contents;
        let dir = entry.at.target();
        let private = entry.at.dir.state.is_private();
        let made = if private {
            make(dir, entry.target)
                .map(|()| CString::from(entry.target))
                .map_err(io::Error::from)
        } else {
            self.partial(entry.target, |name| Ok(make(dir, name)?))
                .map(|(name, ())| name)
        };
        let name = match made {
            Ok(name) => name,
            // A link that was asked for by itself is told of as any failure is.
            Err(error) if keeps_names && sys::is(&error, &[Errno::MLINK]) => return Err(End::TooManyNames),
            Err(error) => return Err(self.reporter.failed_with(step, entry.target(), other, error)),
        };
        if with_metadata {
            self.metadata.apply_by_name(entry, stat, &name);
        }
        if with_metadata {
            self.writer.finished_special(entry, stat, &name);
        }
        if private {
            return Ok(None);
        }
        match self.give_name(entry, &name, old) {
            Ok(backup) => Ok(backup),
            Err(NotNamed::End(end)) => Err(end),
            Err(NotNamed::NeedsInPlace(error)) => {
                Err(self.reporter.failed(Step::Rename, entry.target(), error.into()))
            }
        }
    }
}
