//! One entry of a directory: what it is decides how it is copied.

pub(crate) mod backup;
mod contents;
pub(crate) mod destination;
pub(crate) mod dry_run;
mod excluded;
mod farm;
pub(crate) mod hard_links;
pub(crate) mod name_taken;
pub(crate) mod regular_file;
pub(crate) mod special;

use crate::api::error::{Refusal, Step};
use crate::api::observer::Paths;
use crate::api::options::Method;
use crate::context::outcome::{End, Outcome};
use crate::job::worker::Worker;
use crate::pair::Entry;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::FileType;
use rustix::io::Errno;

impl Worker<'_> {
    /// Copies an entry of any kind. What goes wrong has been told when this returns.
    pub(crate) fn entry(&mut self, entry: &Entry<'_>, listed: FileType) {
        if self.run.context.stopped() {
            return;
        }
        let kind = self.kind_of(entry, listed);
        if self.leaves_out(entry, kind.as_ref().ok().copied()) {
            return;
        }
        match kind {
            Ok(kind) => match self.entry_as(entry, kind) {
                Err(End::Failed) => self.previous.keep_left_tree(entry),
                Err(End::Skipped | End::Stopped) | Ok(()) => {}
                Err(End::TooManyNames) => unreachable!("it is copied then"),
            },
            Err(error) => {
                self.reporter.failed(Step::StatSource, entry.source(), error);
                self.previous.keep_left_tree(entry);
            }
        }
    }

    /// What the entry is, after following it if it is to be followed.
    fn kind_of(&self, entry: &Entry<'_>, listed: FileType) -> std::io::Result<FileType> {
        let follow = entry.at.dir.follows(self.options());
        match listed {
            FileType::Symlink if !follow => Ok(listed),
            FileType::Symlink | FileType::Unknown => {
                Ok(sys::stat_at(entry.at.source(), entry.source, follow)?.file_type())
            }
            kind => Ok(kind),
        }
    }

    /// Whether the entry is to be copied at all, of which kind it is known to be.
    pub(crate) fn is_wanted(&mut self, entry: &Entry<'_>, kind: FileType) -> bool {
        !self.run.context.stopped()
            && !self.leaves_out(entry, Some(kind))
            && self
                .run
                .part
                .is_to_be_copied(entry, self.options())
                .unwrap_or(false)
    }

    pub(crate) fn entry_as(&mut self, entry: &Entry<'_>, kind: FileType) -> Outcome<()> {
        match kind {
            FileType::Directory if self.options().recursive => self.directory(entry),
            FileType::Directory => Err(self.reporter.refused(Refusal::OmittingDirectory, entry)),
            _ if !self.run.part.is_to_be_copied(entry, self.options())? => Err(End::Skipped),
            _ => match self.options().method {
                Method::HardLink => self.link_to_source(entry),
                Method::SymbolicLink => self.point_to_source(entry),
                Method::Contents => self.contents_as(entry, kind),
            },
        }
    }

    fn contents_as(&mut self, entry: &Entry<'_>, kind: FileType) -> Outcome<()> {
        match kind {
            FileType::RegularFile => self.file(entry, false),
            FileType::Symlink => self.symlink(entry),
            // What is not a FIFO is opened as usual: there are devices that wait then.
            _ if self.reads_specials() => self.file(entry, kind != FileType::Fifo),
            _ => self.special(entry),
        }
    }

    /// Devices, FIFOs and sockets are read, and not made anew.
    pub(crate) fn reads_specials(&self) -> bool {
        !self.options().recursive || self.options().copy_contents
    }

    /// Opens a source file and looks at it: in this order, so that what is copied is what was looked at. If it is not
    /// what it was listed as, it is copied as what it is, once.
    fn file(&mut self, entry: &Entry<'_>, wait: bool) -> Outcome<()> {
        let follow = entry.at.dir.follows(self.options());
        let open = |wait| match self.options().dry_run {
            true => sys::hold_source(entry.at.source(), entry.source, follow),
            false => sys::open_source(entry.at.source(), entry.source, follow, wait),
        };
        let mut opened = open(wait);
        if matches!(&opened, Err(error) if sys::is(error, &[Errno::AGAIN])) {
            // Somebody has a lease on it, and is told to let go: that takes waiting.
            opened = open(true);
        }
        let found = opened.and_then(|fd| {
            let stat = sys::stat(fd.as_fd())?;
            Ok((fd, stat))
        });
        match found {
            Ok((fd, stat)) => self.file_as(entry, fd, stat),
            Err(error) if !follow && sys::is(&error, &[Errno::LOOP, Errno::NXIO]) => {
                match sys::stat_at(entry.at.source(), entry.source, false) {
                    Ok(stat) if !stat.is_file() => self.became(entry, &stat),
                    _ => Err(self.reporter.failed(Step::OpenSource, entry.source(), error)),
                }
            }
            // It cannot even be looked at in a directory that may only be listed.
            Err(error) => match sys::stat_at(entry.at.source(), entry.source, follow) {
                Err(unseen) if sys::is(&unseen, &[Errno::ACCESS]) => {
                    Err(self.reporter.failed(Step::StatSource, entry.source(), unseen))
                }
                // What stays as it is need not be read.
                Ok(stat) if stat.is_file() && sys::is(&error, &[Errno::ACCESS]) => {
                    self.destination(entry, &stat)?;
                    Err(self.reporter.failed(Step::OpenSource, entry.source(), error))
                }
                _ => Err(self.reporter.failed(Step::OpenSource, entry.source(), error)),
            },
        }
    }

    /// Copies what was opened as what it is.
    pub(crate) fn file_as(&mut self, entry: &Entry<'_>, fd: OwnedFd, stat: Stat) -> Outcome<()> {
        if stat.is_file() || (!stat.is_dir() && self.reads_specials()) {
            return self.file_once(entry, fd, stat);
        }
        self.became(entry, &stat)
    }

    fn became(&mut self, entry: &Entry<'_>, stat: &Stat) -> Outcome<()> {
        match stat.file_type() {
            FileType::Symlink => self.symlink(entry),
            FileType::Directory if self.options().recursive => self.directory(entry),
            FileType::Directory => Err(self.reporter.refused(Refusal::OmittingDirectory, entry)),
            _ if self.reads_specials() => {
                // A socket cannot be opened, whatever it is asked for.
                Err(self
                    .reporter
                    .failed(Step::OpenSource, entry.source(), Errno::NXIO.into()))
            }
            _ => self.special(entry),
        }
    }
}
