//! One regular file, or what is read like one: where it goes, its contents, its metadata, its name, in this order.

use crate::api::error::{Refusal, Step};
use crate::api::observer::{Kind, Paths};
use crate::api::options::{Backup, Fsync};
use crate::context::outcome::{End, Outcome};
use crate::context::reporter::Reporter;
use crate::data::content::Moved;
use crate::entry::contents::ContentsCopier;
use crate::entry::destination::{Destination, Destinations};
use crate::entry::name::{remove_own, Namer, NotNamed};
use crate::entry::shared::Shared;
use crate::metadata::apply::{FileMetadata, Modes};
use crate::metadata::attributes::Names;
use crate::metadata::MetadataCopier;
use crate::pair::directory::Dir;
use crate::pair::{Entry, Source};
use crate::resume::journal::Begun;
use crate::resume::journal_writer::JournalWriter;
use crate::resume::previous_run::PreviousRun;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, SeekFrom};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::rc::Rc;

/// Decisions about a new file.
pub(crate) struct Prepared {
    names: Names,
    pub(crate) modes: Modes,
    /// It stands for the file that it replaces.
    is_replaced: bool,
    /// It gets its name at once.
    pub(crate) direct: bool,
}

impl Prepared {
    /// Returns what the finished file gets. The owner of new files is known when one has been made.
    pub(crate) fn metadata<'d>(&'d self, entry: &Entry<'_>, old: Option<&'d Stat>) -> FileMetadata<'d> {
        let dir = &entry.at.dir;
        FileMetadata {
            old: old.filter(|_| self.is_replaced),
            owner: dir.owner_of_new.get().copied(),
            may_have_list: dir.inherits,
            is_new: true,
            names: &self.names,
            mode: self.modes.set,
        }
    }
}

/// Why nothing can be created in a directory. /proc says that there is no such file.
const UNCREATED: [Errno; 4] = [Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::NOENT];

/// Copies regular files, and what is read like one.
pub(crate) struct FileCopier<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(crate) reporter: Rc<Reporter<'a>>,
    pub(crate) destinations: Rc<Destinations<'a>>,
    pub(crate) namer: Rc<Namer<'a>>,
    pub(crate) previous: Rc<PreviousRun<'a>>,
    pub(crate) writer: Rc<JournalWriter<'a>>,
    pub(crate) contents: ContentsCopier<'a>,
    pub(crate) metadata: MetadataCopier<'a>,
}

impl FileCopier<'_> {
    pub(crate) fn copy(&mut self, entry: &Entry<'_>, source: &mut Source) -> Outcome<()> {
        if self.previous.stays(entry, &source.stat)? {
            self.metadata.flags_of_finished(entry, source);
            return Ok(());
        }
        let destination = self.destinations.destination(entry, &source.stat)?;
        let options = self.shared.context.options;
        let is_fifo = source.stat.file_type() == FileType::Fifo;
        if is_fifo && !options.dry_run && !options.attributes_only {
            // As long as it has no writer, nothing is made in the target.
            self.contents
                .data
                .wait_for_writer(source.fd.as_fd())
                .map_err(|trouble| self.contents.trouble(entry, trouble))?;
        }
        self.copy_to(entry, source, destination)
    }

    /// Copies a file to where it goes.
    pub(crate) fn copy_to(
        &mut self,
        entry: &Entry<'_>,
        source: &mut Source,
        destination: Destination,
    ) -> Outcome<()> {
        let (moved, backup) = match destination {
            destination if self.shared.context.options.dry_run => {
                let backup = self
                    .namer
                    .dry_run(entry, &destination, (Step::CreateFile, None))?;
                let moved = match self.shared.context.options.attributes_only {
                    true => Moved::default(),
                    false => Moved::all_of(&source.stat),
                };
                (moved, backup)
            }
            Destination::Into { follow, .. } => (self.write_in_place(entry, source, follow)?, None),
            Destination::New => self.create_new(entry, source, None)?,
            Destination::Replace(old) => self.create_new(entry, source, Some(&old))?,
        };
        self.is_copied(entry, source, &moved, backup);
        Ok(())
    }

    /// Counts a file that is in its place, and tells of it.
    pub(crate) fn is_copied(
        &mut self,
        entry: &Entry<'_>,
        source: &Source,
        moved: &Moved,
        backup: Option<PathBuf>,
    ) {
        self.reporter.count(|report| report.files += 1);
        self.reporter.count(|report| report.bytes += moved.written);
        self.reporter.count(|report| report.shared_bytes += moved.shared);
        self.reporter.count(|report| report.hole_bytes += moved.holes);
        let options = self.shared.context.options;
        let how = (!options.dry_run && !options.attributes_only).then(|| {
            let devices = (source.stat.id.0, entry.at.dir.target.id().0);
            moved.how(options, self.contents.data.reflinks.are_refused(devices))
        });
        let bytes = source.stat.size.max(moved.written);
        self.shared
            .copied_how(&self.reporter, entry, Kind::File, bytes, backup, how);
    }

    /// Makes a new file, and gives it its name when it is whole.
    fn create_new(
        &mut self,
        entry: &Entry<'_>,
        source: &mut Source,
        old: Option<&Stat>,
    ) -> Outcome<(Moved, Option<PathBuf>)> {
        let prepared = self.prepare(entry, source, old)?;
        self.create_prepared(entry, source, old, &prepared)
    }

    /// Decides how a new file is made.
    pub(crate) fn prepare(
        &mut self,
        entry: &Entry<'_>,
        source: &mut Source,
        old: Option<&Stat>,
    ) -> Outcome<Prepared> {
        let names = self.attributes_of(entry, source)?;
        let dir = &entry.at.dir;
        let replaced = old.filter(|old| self.destinations.is_replaced(entry, old));
        Ok(Prepared {
            modes: self.metadata.modes(dir, &source.stat, replaced, names.any()),
            is_replaced: replaced.is_some(),
            direct: dir.state.is_private() || (self.shared.context.options.in_place && old.is_none()),
            names,
        })
    }

    pub(crate) fn create_prepared(
        &mut self,
        entry: &Entry<'_>,
        source: &mut Source,
        old: Option<&Stat>,
        prepared: &Prepared,
    ) -> Outcome<(Moved, Option<PathBuf>)> {
        let (name, to) = match self.create(entry, prepared.direct, prepared.modes.create) {
            Ok(created) => created,
            // Nothing can be created beside it, but it may be writable itself. What is to be kept or removed
            // is not written to.
            Err(error) => {
                let step = match old.filter(|_| sys::is(&error, &UNCREATED)) {
                    Some(old) if !self.destinations.must_go(old) => {
                        return Ok((self.write_in_place(entry, source, false)?, None))
                    }
                    Some(_) if self.shared.context.options.backup != Backup::None => Step::Backup,
                    Some(_) => Step::Remove,
                    None => Step::CreateFile,
                };
                return Err(self.reporter.failed(step, entry.target(), error));
            }
        };
        match self.fill(entry, source, to, &prepared.metadata(entry, old)) {
            Ok(moved) => self.named(entry, source, old, prepared, &name, moved),
            Err(end) => {
                remove_own(entry, &name);
                Err(end)
            }
        }
    }

    /// Gives a finished file its name, if it has not got it.
    pub(crate) fn named(
        &mut self,
        entry: &Entry<'_>,
        source: &mut Source,
        old: Option<&Stat>,
        prepared: &Prepared,
        name: &CStr,
        moved: Moved,
    ) -> Outcome<(Moved, Option<PathBuf>)> {
        if prepared.direct {
            return Ok((moved, None));
        }
        match self.namer.give_name(entry, name, old) {
            Ok(backup) => Ok((moved, backup)),
            Err(NotNamed::NeedsInPlace(_)) => Ok((self.again_in_place(entry, source)?, None)),
            Err(NotNamed::End(end)) => Err(end),
        }
    }

    /// Creates the file under its name or a partial one.
    fn create(&mut self, entry: &Entry<'_>, direct: bool, mode: u32) -> std::io::Result<(CString, OwnedFd)> {
        let reads = self.shared.context.options.verify;
        let (name, fd) = if direct {
            self.writer.begun(entry, || Ok(Begun::ToBeMade))?;
            let fd = sys::create(entry.at.target(), entry.target, mode, reads)
                .and_then(|fd| {
                    let noted = self.note_created(entry, fd.as_fd());
                    noted
                        .map(|()| fd)
                        .inspect_err(|_| remove_own(entry, entry.target))
                })
                .inspect_err(|_| self.writer.not_begun(entry))?;
            (entry.target.into(), fd)
        } else {
            self.shared.context.partial(entry.target, |name| {
                sys::create(entry.at.target(), name, mode, reads)
            })?
        };
        self.learn_owner(&entry.at.dir, fd.as_fd());
        Ok((name, fd))
    }

    /// A file that is not finished has its name, where that is so.
    pub(crate) fn note_created(&mut self, entry: &Entry<'_>, made: BorrowedFd<'_>) -> std::io::Result<()> {
        self.writer
            .begun(entry, || Ok(Begun::Made(sys::stat(made)?.id.1)))
    }

    /// The first new file in a directory tells who owns new files there. Without it each file is given its owner.
    pub(crate) fn learn_owner(&self, dir: &Dir, made: BorrowedFd<'_>) {
        if self.shared.context.options.preserve.ownership && dir.owner_of_new.get().is_none() {
            if let Ok(stat) = sys::stat(made) {
                let _ = dir.owner_of_new.set(stat.owner());
            }
        }
    }

    /// Contents and metadata of a new file; closes it.
    fn fill(
        &mut self,
        entry: &Entry<'_>,
        source: &mut Source,
        to: OwnedFd,
        metadata: &FileMetadata<'_>,
    ) -> Outcome<Moved> {
        let failures = self.reporter.failures();
        self.metadata.file_flags(entry, source, to.as_fd());
        let moved = if self.shared.context.options.attributes_only {
            Moved::default()
        } else {
            let device = entry.at.dir.target.id().0;
            self.contents.copy(entry, source, to.as_fd(), device, 1)?
        };
        self.metadata
            .apply_to_file(entry, source.fd.as_fd(), &source.stat, to.as_fd(), metadata);
        if self.shared.context.options.fsync == Fsync::Each {
            rustix::fs::fsync(&to)
                .map_err(|error| self.reporter.failed(Step::Sync, entry.target(), error.into()))?;
        }
        self.close(entry, source, to, &moved, failures)?;
        Ok(moved)
    }

    /// Closes the file, and writes down that it is finished if no failure was added since `failures`.
    fn close(
        &mut self,
        entry: &Entry<'_>,
        source: &Source,
        to: OwnedFd,
        moved: &Moved,
        failures: u64,
    ) -> Outcome<()> {
        let there = self.writer.stat_if_replaceable(entry, || sys::stat(to.as_fd()));
        sys::close(to).map_err(|error| self.reporter.failed(Step::Write, entry.target(), error))?;
        match there {
            Ok(there) if self.reporter.failures() == failures => {
                self.writer
                    .finished(entry, &source.stat, moved.shared, there.as_ref())
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes into the file, device or FIFO that is there, as `cp` does: its other names and its readers see it happen.
    fn write_in_place(&mut self, entry: &Entry<'_>, source: &mut Source, follow: bool) -> Outcome<Moved> {
        let failures = self.reporter.failures();
        let names = self.attributes_of(entry, source)?;
        let to = match self.contents.open_target(entry, follow) {
            Ok(Some(to)) => to,
            Ok(None) => return Err(End::Stopped),
            Err(_)
                if self.shared.context.options.overwrite.force && self.destinations.remove_old(entry)? =>
            {
                return Ok(self.create_new(entry, source, None)?.0);
            }
            Err(error) => return Err(self.reporter.failed(Step::CreateFile, entry.target(), error)),
        };
        let there = sys::stat(to.as_fd())
            .map_err(|error| self.reporter.failed(Step::StatTarget, entry.target(), error))?;
        if there.id == source.stat.id {
            return Err(self.reporter.refused(Refusal::SameFile, entry));
        }
        if there.is_file() && self.shared.context.options.attributes_only {
            self.metadata.file_flags(entry, source, to.as_fd());
        }
        let moved = if self.shared.context.options.attributes_only {
            Moved::default()
        } else if there.is_file() {
            self.writer
                .begun(entry, || Ok(Begun::Over(there.id.1)))
                .and_then(|()| Ok(rustix::fs::ftruncate(&to, 0)?))
                .map_err(|error| self.reporter.failed(Step::Write, entry.target(), error))?;
            self.metadata.file_flags(entry, source, to.as_fd());
            self.contents.copy(entry, source, to.as_fd(), there.id.0, 1)?
        } else {
            self.contents
                .data
                .stream(source.fd.as_fd(), to.as_fd(), None)
                .map_err(|trouble| self.contents.trouble(entry, trouble))?
        };
        if there.is_file() {
            let metadata = FileMetadata {
                old: None,
                owner: Some(there.owner()),
                may_have_list: true,
                is_new: false,
                names: &names,
                mode: self.metadata.mode_in_place(&source.stat),
            };
            self.metadata
                .apply_to_file(entry, source.fd.as_fd(), &source.stat, to.as_fd(), &metadata);
        }
        // A link may have led to another file system, which is not synced in the end.
        let elsewhere = there.id.0 != entry.at.dir.target.id().0;
        let synced = match self.shared.context.options.fsync {
            Fsync::None => false,
            Fsync::End => elsewhere,
            Fsync::Each => true,
        };
        if there.is_file() && synced {
            rustix::fs::fsync(&to)
                .map_err(|error| self.reporter.failed(Step::Sync, entry.target(), error.into()))?;
        }
        self.close(entry, source, to, &moved, failures)?;
        Ok(moved)
    }

    fn again_in_place(&mut self, entry: &Entry<'_>, source: &mut Source) -> Outcome<Moved> {
        source.stat = self.contents.look_again(entry, source)?;
        // What cannot be rewound was read into the partial file, which is gone.
        rustix::fs::seek(&source.fd, SeekFrom::Start(0))
            .map_err(|error| self.reporter.failed(Step::Read, entry.source(), error.into()))?;
        self.write_in_place(entry, source, false)
    }

    fn attributes_of(&mut self, entry: &Entry<'_>, source: &mut Source) -> Outcome<Names> {
        let names = self.metadata.attribute_names(entry, source.fd.as_fd())?;
        source.attributes = names.any();
        Ok(names)
    }
}
