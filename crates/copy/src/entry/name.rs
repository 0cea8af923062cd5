//! The last step of an entry: what was made under a partial name gets its final one, and what had that is backed up.

use crate::api::error::{Refusal, Step};
use crate::api::observer::Paths;
use crate::api::options::Backup;
use crate::context::outcome::{End, Outcome};
use crate::context::reporter::Reporter;
use crate::entry::backup;
use crate::entry::destination::Destinations;
use crate::entry::shared::Shared;
use crate::pair::directory::{Opened, Side, State};
use crate::pair::Entry;
use crate::sys::{self, Stat};
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Why a finished file has not got its name.
pub(crate) enum NotNamed {
    /// Nothing can be renamed there, but the file may be writable itself.
    NeedsInPlace(Errno),
    End(End),
}

impl From<End> for NotNamed {
    fn from(end: End) -> NotNamed {
        NotNamed::End(end)
    }
}

/// Gives finished entries their names.
pub(crate) struct Namer<'a> {
    pub(super) shared: &'a Shared<'a>,
    destinations: Rc<Destinations<'a>>,
    pub(super) reporter: Rc<Reporter<'a>>,
}

impl<'a> Namer<'a> {
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        destinations: Rc<Destinations<'a>>,
        reporter: Rc<Reporter<'a>>,
    ) -> Namer<'a> {
        Namer {
            shared,
            destinations,
            reporter,
        }
    }

    /// Gives a finished file its final name. What had it before is backed up or gone.
    pub(crate) fn give_name(
        &self,
        entry: &Entry<'_>,
        partial: &CStr,
        old: Option<&Stat>,
    ) -> Result<Option<PathBuf>, NotNamed> {
        let dir = entry.at.target();
        let named = if old.is_some() {
            let backup = match self.back_up(entry) {
                Ok(backup) => backup,
                Err(end) => {
                    remove_own(entry, partial);
                    return Err(end.into());
                }
            };
            match rustix::fs::renameat(dir, partial, dir, entry.target) {
                Ok(()) => return Ok(backup),
                Err(error) => {
                    if let Some(backup) = backup {
                        self.undo_backup(entry, &backup);
                    }
                    Err(error)
                }
            }
        } else {
            match rename_to_free(entry.at, partial, entry.target) {
                Err(Errno::EXIST) if entry.at.dir.state == State::Shared => self.name_shared(entry, partial),
                Err(Errno::EXIST) => match self.destinations.replaceable_now(entry) {
                    Ok(Some(there)) => return self.give_name(entry, partial, Some(&there)),
                    Ok(None) => Err(Errno::EXIST),
                    Err(end) => {
                        remove_own(entry, partial);
                        return Err(end.into());
                    }
                },
                renamed => renamed,
            }
        };
        let Err(error) = named else { return Ok(None) };
        remove_own(entry, partial);
        let stuck = old.filter(|_| matches!(error, Errno::ACCESS | Errno::PERM | Errno::BUSY));
        let step = match stuck {
            Some(old) if old.is_file() && !self.destinations.must_go(old) => {
                return Err(NotNamed::NeedsInPlace(error))
            }
            Some(_) if self.shared.context.options.backup == Backup::None => Step::Remove,
            _ => Step::Rename,
        };
        Err(self.reporter.failed(step, entry.target(), error.into()).into())
    }

    /// Gives what was renamed to a backup its name again, as nothing new has got it.
    fn undo_backup(&self, entry: &Entry<'_>, backup: &Path) {
        let name = backup.file_name().map(|name| CString::new(name.as_bytes()));
        let Some(Ok(name)) = name else { return };
        if let Err(error) = rename_to_free(entry.at, &name, entry.target) {
            self.reporter.failed(Step::Backup, entry.target(), error.into());
        }
    }

    /// Another attempt seems to have been quicker: if it has made the same, ours goes.
    fn name_shared(&self, entry: &Entry<'_>, partial: &CStr) -> Result<(), Errno> {
        let dir = entry.at.target();
        let times = self.shared.context.options.preserve.timestamps;
        let look = |name: &CStr| {
            let stat = sys::stat_at(dir, name, false).ok()?;
            Some((stat.file_type(), stat.size, times.then_some(stat.mtime)))
        };
        match (look(partial), look(entry.target)) {
            (Some(ours), Some(other)) if ours == other => {
                rustix::fs::unlinkat(dir, partial, AtFlags::empty())
            }
            _ => rustix::fs::renameat(dir, partial, dir, entry.target),
        }
    }

    /// Renames what is there to its backup, if one is wanted. Returns the backup's path.
    pub(crate) fn back_up(&self, entry: &Entry<'_>) -> Outcome<Option<PathBuf>> {
        let options = self.shared.context.options;
        if options.backup == Backup::None {
            return Ok(None);
        }
        if self.backup_is_source(entry) {
            return Err(self.reporter.refused(Refusal::BackupIsSource, entry));
        }
        let name = if options.dry_run {
            backup::name_for
        } else {
            backup::make
        };
        let backup = name(entry.at.target(), entry.target, options);
        match backup {
            Ok(name) => Ok(Some(entry.at.dir.path(Side::Target, &name))),
            Err(error) => Err(self.reporter.failed(Step::Backup, entry.target(), error)),
        }
    }

    /// Returns true if a simple backup would take the source's own name.
    fn backup_is_source(&self, entry: &Entry<'_>) -> bool {
        let options = self.shared.context.options;
        let id = |dir, name: &CStr| sys::stat_at(dir, name, false).ok().map(|stat| stat.id);
        options.backup != Backup::Numbered
            && backup::simple(entry.target, options).is_ok_and(|backup| {
                let there = id(entry.at.target(), &backup);
                there.is_some() && there == id(entry.at.source(), entry.source)
            })
    }
}

/// Removes what we made under this name.
pub(crate) fn remove_own(entry: &Entry<'_>, name: &CStr) {
    // Nothing can be done about a failure, and what went wrong first is reported.
    let _ = rustix::fs::unlinkat(entry.at.target(), name, AtFlags::empty());
}

/// Renames to a name that is free, and fails if it is not.
pub(crate) fn rename_to_free(at: &Opened, from: &CStr, to: &CStr) -> Result<(), Errno> {
    let dir = at.target();
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // The file system cannot do it at once, or a filter knows no renameat2 (EPERM).
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {
            match sys::stat_at(dir, to, false) {
                Ok(_) => Err(Errno::EXIST),
                Err(_) => rustix::fs::renameat(dir, from, dir, to),
            }
        }
        renamed => renamed,
    }
}
