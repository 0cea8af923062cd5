//! A dry run: everything is looked at and decided as in a real one, and nothing is made.
//!
//! A directory that would be made is imagined: it has no descriptor, and nothing is in it (`State::Imagined`). Sources are
//! held and not opened, so that no device and no process at the other end of a FIFO notices, and directories are read without
//! a trace where the kernel lets us.

use crate::api::error::Step;
use crate::api::observer::Paths;
use crate::api::options::{Backup, Options};
use crate::context::outcome::Outcome;
use crate::entry::destination::{writable, Destination};
use crate::entry::name::Namer;
use crate::pair::directory::Opened;
use crate::pair::Entry;
use crate::sys::{self, Stat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// `mkdirat` in a dry run: fails where that would.
pub(crate) fn would_make(at: &Opened, name: &CStr) -> io::Result<()> {
    if at.dir.state.is_private() {
        return Ok(());
    }
    match sys::stat_at(at.target(), name, false) {
        Ok(_) => Err(Errno::EXIST.into()),
        Err(error) if sys::is(&error, &[Errno::NOENT]) => writable(at, c"."),
        Err(error) => Err(error),
    }
}

impl Namer<'_> {
    /// Fails if something cannot be made in its place, as far as permissions tell. Returns the path of the backup
    /// that would be made. `step` is what would fail, and `other` its other path.
    pub(crate) fn dry_run(
        &self,
        entry: &Entry<'_>,
        destination: &Destination,
        (step, other): (Step, Option<PathBuf>),
    ) -> Outcome<Option<PathBuf>> {
        if entry.at.dir.state.is_private() {
            return Ok(None);
        }
        let options = self.shared.context.options;
        let beside = writable(entry.at, c".");
        let itself = || writable(entry.at, entry.target);
        let (step, possible) = match destination {
            Destination::New => (step, beside),
            Destination::Into { .. } if options.overwrite.force => (step, itself().or(beside)),
            Destination::Into { .. } => (step, itself()),
            Destination::Replace(_) if options.backup != Backup::None => (Step::Backup, beside),
            Destination::Replace(_) if options.overwrite.remove => (Step::Remove, beside),
            // A file that cannot be replaced is written to.
            Destination::Replace(_) if step == Step::CreateFile => (step, beside.or_else(|_| itself())),
            Destination::Replace(_) => (step, beside),
        };
        possible.map_err(|error| self.reporter.failed_with(step, entry.target(), other, error))?;
        match destination {
            Destination::Replace(_) => self.back_up(entry),
            Destination::New | Destination::Into { .. } => Ok(None),
        }
    }
}

/// Returns the copy of a file that a dry run would have made, as far as its age is concerned.
pub(crate) fn imagine(options: &Options, source: &Stat) -> Stat {
    let mut copy = *source;
    if !options.preserve.timestamps {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        copy.mtime.tv_sec = now.as_secs() as i64;
        copy.mtime.tv_nsec = now.subsec_nanos() as _;
    }
    copy
}
