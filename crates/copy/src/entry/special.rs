//! What has no contents: symbolic links, FIFOs, sockets, devices, and names of what exists. Where others can see it, it is
//! made under a partial name, gets its metadata, and is renamed.

use crate::api::error::Step;
use crate::api::observer::{Kind, Paths};
use crate::api::options::{Backup, Method};
use crate::context::outcome::{End, Outcome};
use crate::context::reporter::Reporter;
use crate::entry::destination::{Destination, Destinations};
use crate::entry::name::{Namer, NotNamed};
use crate::entry::shared::Shared;
use crate::metadata::MetadataCopier;
use crate::pair::directory::State;
use crate::pair::Entry;
use crate::resume::journal_writer::JournalWriter;
use crate::resume::previous_run::PreviousRun;
use crate::sys::{self, Stat};
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

/// Makes what has no contents.
pub(crate) struct NodeCopier<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) reporter: Rc<Reporter<'a>>,
    pub(super) destinations: Rc<Destinations<'a>>,
    pub(super) namer: Rc<Namer<'a>>,
    pub(super) previous: Rc<PreviousRun<'a>>,
    pub(super) writer: Rc<JournalWriter<'a>>,
    pub(super) metadata: MetadataCopier<'a>,
}

impl NodeCopier<'_> {
    /// Makes a symbolic link that points to the same path.
    pub(super) fn symlink(&mut self, entry: &Entry<'_>, stat: &Stat) -> Outcome<()> {
        let to = match self.shared.context.options.dry_run {
            // Reading it would change its time of access.
            true => CString::default(),
            false => rustix::fs::readlinkat(entry.at.source(), entry.source, Vec::new())
                .map_err(|error| self.reporter.failed(Step::ReadLink, entry.source(), error.into()))?,
        };
        let make = |dir: BorrowedFd<'_>, name: &CStr| rustix::fs::symlinkat(&to, dir, name);
        self.put(entry, stat, (Step::CreateSymlink, None), true, make)
    }

    /// Makes a FIFO, a socket or a device like the source.
    pub(super) fn special(&mut self, entry: &Entry<'_>, stat: &Stat) -> Outcome<()> {
        let kind = stat.file_type();
        let step = if kind == FileType::Fifo {
            Step::CreateFifo
        } else {
            Step::CreateSpecial
        };
        let device = rustix::fs::makedev(stat.rdev.0, stat.rdev.1);
        let mode = Mode::from_raw_mode(self.metadata.mode_of_special(&entry.at.dir, stat));
        let make = |dir: BorrowedFd<'_>, name: &CStr| rustix::fs::mknodat(dir, name, kind, mode, device);
        self.put(entry, stat, (step, None), true, make)
    }

    /// Returns true if what is there stays, unless it is to go in any case: with `--attributes-only`, because it
    /// may have contents, and where links are followed, as with GNU's cp.
    fn keeps_contents(&self, entry: &Entry<'_>, source: &Stat, there: &Stat) -> bool {
        let options = self.shared.context.options;
        let goes = options.overwrite.remove
            || options.backup != Backup::None
            || (options.overwrite.force && source.is_symlink());
        let follows = entry.at.dir.follows(self.shared.context.options);
        let linked = options.preserve.links && there.nlink > 1;
        (options.attributes_only || (follows && !linked)) && !goes && entry.at.dir.state != State::Shared
    }

    /// Makes something that `make` makes under a name, and gives it its metadata unless it is only a name.
    pub(super) fn put(
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
        let destination = match self.destinations.destination(entry, stat)? {
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

    pub(super) fn put_at(
        &mut self,
        entry: &Entry<'_>,
        stat: &Stat,
        destination: Destination,
        step: (Step, Option<PathBuf>),
        with_metadata: bool,
        make: impl Fn(BorrowedFd<'_>, &CStr) -> rustix::io::Result<()>,
    ) -> Outcome<()> {
        let backup = if self.shared.context.options.dry_run {
            self.namer.dry_run(entry, &destination, step)?
        } else {
            self.put_there(entry, stat, &destination, step, with_metadata, make)?
        };
        let kind = match (with_metadata, self.shared.context.options.method) {
            (false, Method::SymbolicLink) => Kind::Symlink,
            (false, _) => Kind::HardLink,
            (true, _) => Kind::of(stat.file_type()),
        };
        match kind {
            Kind::HardLink => self.reporter.count(|report| report.hard_links += 1),
            Kind::Symlink => self.reporter.count(|report| report.symlinks += 1),
            _ => self.reporter.count(|report| report.specials += 1),
        }
        self.shared.copied(&self.reporter, entry, kind, backup);
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
        let keeps_names = !with_metadata && self.shared.context.options.method == Method::Contents;
        let dir = entry.at.target();
        let private = entry.at.dir.state.is_private();
        let made = if private {
            make(dir, entry.target)
                .map(|()| CString::from(entry.target))
                .map_err(io::Error::from)
        } else {
            self.shared
                .context
                .partial(entry.target, |name| Ok(make(dir, name)?))
                .map(|(name, ())| name)
        };
        let name = match made {
            Ok(name) => name,
            // A link that was asked for by itself is reported as any failure is.
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
        match self.namer.give_name(entry, &name, old) {
            Ok(backup) => Ok(backup),
            Err(NotNamed::End(end)) => Err(end),
            Err(NotNamed::NeedsInPlace(error)) => {
                Err(self.reporter.failed(Step::Rename, entry.target(), error.into()))
            }
        }
    }
}
