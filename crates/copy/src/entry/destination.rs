//! Where an entry goes: a free name, or what is done about what has the name.

use crate::api::error::{Refusal, Step};
use crate::api::observer::{Copied, Kind, Paths, Question};
use crate::api::options::{Backup, Method, When};
use crate::context::outcome::{End, Outcome};
use crate::entry::backup;
use crate::entry::regular_file::NotNamed;
use crate::job::worker::Worker;
use crate::pair::directory::{Opened, State};
use crate::pair::Entry;
use crate::resume::journal::Begun;
use crate::sys::{self, Stat};
use rustix::fd::AsFd as _;
use rustix::fs::{Access, AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where something goes.
pub(crate) enum Destination {
    /// Nothing is there.
    New,
    /// What is there is replaced by a rename.
    Replace(Stat),
    /// It is written into what is there, through a link if `follow`.
    Into { there: Stat, follow: bool },
}

impl Worker<'_> {
    /// Decides about a source that is not a directory. Everything that speaks against it has been told when this fails.
    pub(crate) fn destination(&mut self, entry: &Entry<'_>, source: &Stat) -> Outcome<Destination> {
        if entry.at.dir.state.is_private() {
            return Ok(Destination::New);
        }
        if entry.at.dir.state == State::Shared {
            return self.shared_place(entry);
        }
        let Some(there) = entry.existing(&self.reporter)? else {
            return Ok(Destination::New);
        };
        let mut follow = there.is_symlink() && self.follows_target(entry, source);
        if follow {
            if let Some(destination) = self.place_behind_link(entry, source)? {
                return Ok(destination);
            }
        }
        let behind = match follow {
            true => self.behind_link(entry)?,
            false => Some(there),
        };
        follow &= behind.is_some();
        let behind = behind.unwrap_or(there);
        // What is behind the link has other names, which are to stay what they are: the link goes.
        let linked = !behind.is_dir() && behind.nlink > 1 && behind.id != source.id;
        follow &= !(self.options().preserve.links && linked);
        let there = if follow { behind } else { there };
        match self.previous.left_half(entry, source, &there, follow) {
            Some(Begun::Over(_)) => return Ok(Destination::Into { there, follow }),
            Some(Begun::ToBeMade | Begun::Made(_)) => {
                return self.remove_old(entry).map(|_| Destination::New)
            }
            None => {}
        }
        self.check_existing(entry, source, &there)?;
        if self.options().method != Method::Contents || !self.reads(source) {
            return Ok(Destination::Replace(there));
        }
        if self.is_in_place(&there, follow) {
            return Ok(Destination::Into { there, follow });
        }
        self.check_writable(entry, &there)?;
        Ok(Destination::Replace(there))
    }

    /// In a tree that is made in parts: what is there is from another attempt, and of no use.
    fn shared_place(&mut self, entry: &Entry<'_>) -> Outcome<Destination> {
        // At the first attempt nothing is there, as far as is known.
        let is_first = self.run.part.shard().is_some_and(|shard| !shard.again);
        let there = if is_first {
            None
        } else {
            entry.existing(&self.reporter)?
        };
        match there {
            None => Ok(Destination::New),
            Some(there) if there.is_dir() => Err(self.reporter.refused(Refusal::FileOverDirectory, entry)),
            Some(there) => Ok(Destination::Replace(there)),
        }
    }

    /// Whether the source's contents are copied, and not the thing itself made anew.
    fn reads(&self, source: &Stat) -> bool {
        source.is_file() || (!source.is_symlink() && self.reads_specials())
    }

    /// Whether a link with the target's name stands for what it points to: only where the user has named it, and not
    /// where it is going to be replaced.
    fn follows_target(&self, entry: &Entry<'_>, source: &Stat) -> bool {
        let options = self.options();
        entry.at.dir.is_top()
            && self.reads(source)
            && options.method == Method::Contents
            && options.backup == Backup::None
            && !options.overwrite.remove
    }

    /// Makes an empty file where the target's link leads to nothing, if it is to be written through.
    fn place_behind_link(&mut self, entry: &Entry<'_>, source: &Stat) -> Outcome<Option<Destination>> {
        let options = self.options();
        let dangles = || {
            let behind = sys::stat_at(entry.at.target(), entry.target, true);
            behind.is_err_and(|error| sys::is(&error, &[Errno::NOENT]))
        };
        if !options.through_dangling_link || !dangles() {
            return Ok(None);
        }
        if options.dry_run {
            return Ok(Some(Destination::New));
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(source.permissions() & 0o777);
        rustix::fs::openat(entry.at.target(), entry.target, flags, mode)
            .map_err(io::Error::from)
            .and_then(|made| sys::stat(made.as_fd()))
            .map(|there| Some(Destination::Into { there, follow: true }))
            .map_err(|error| self.reporter.failed(Step::CreateFile, entry.target(), error))
    }

    /// What the target's link leads to. Nothing if it leads to itself and may be replaced by force.
    fn behind_link(&mut self, entry: &Entry<'_>) -> Outcome<Option<Stat>> {
        match sys::stat_at(entry.at.target(), entry.target, true) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if self.options().overwrite.force && sys::is(&error, &[Errno::LOOP]) => Ok(None),
            Err(error) if sys::is(&error, &[Errno::NOENT]) => {
                Err(self.reporter.refused(Refusal::DanglingLink, entry))
            }
            Err(error) => Err(self.reporter.failed(Step::StatTarget, entry.target(), error)),
        }
    }

    /// What speaks against touching what is there.
    pub(crate) fn check_existing(&mut self, entry: &Entry<'_>, source: &Stat, there: &Stat) -> Outcome<()> {
        let leaves_all = matches!(self.options().overwrite.when, When::None | When::NoneFail);
        if leaves_all {
            self.check_age(entry, source, there)?;
        }
        let one = there.id == source.id;
        let one_link = one && source.is_symlink() && !self.is_same_name(entry);
        if one_link && self.options().backup == Backup::None {
            // Another name of it: it is there.
            return Err(End::Skipped);
        }
        let one = one && !one_link && !self.may_part(entry);
        if one || (source.is_symlink() && self.points_to(entry, there)) {
            return Err(self.reporter.refused(Refusal::SameFile, entry));
        }
        self.check_age(entry, source, there)?;
        if there.is_dir() {
            return Err(self.reporter.refused(Refusal::FileOverDirectory, entry));
        }
        self.ask(entry, there, source)
    }

    /// Whether the source is a link to what it would replace: the link would point to itself, and the file be gone.
    pub(crate) fn points_to(&self, entry: &Entry<'_>, there: &Stat) -> bool {
        self.options().backup == Backup::None
            && there.is_file()
            && sys::stat_at(entry.at.source(), entry.source, true).is_ok_and(|stat| stat.id == there.id)
    }

    /// Whether what is there stays as it is, because it exists or is as young; this has been told.
    /// What a dry run would have made is not there to be looked at.
    pub(crate) fn is_left_alone(&mut self, entry: &Entry<'_>, source: &Stat, imagined: Option<Stat>) -> bool {
        let there = imagined.or_else(|| sys::stat_at(entry.at.target(), entry.target, false).ok());
        there.is_some_and(|there| self.check_age(entry, source, &there).is_err())
    }

    /// `-n` and `-u`.
    pub(crate) fn check_age(&mut self, entry: &Entry<'_>, source: &Stat, there: &Stat) -> Outcome<()> {
        match self.options().overwrite.when {
            When::NoneFail => Err(self.reporter.refused(Refusal::TargetExists, entry)),
            When::Older if source.mtime > there.mtime => Ok(()),
            // Half of an older source, or what somebody has made of that.
            When::None | When::Older if self.previous.was_begun(entry, there).is_some() => {
                Err(self.reporter.refused(Refusal::TargetExists, entry))
            }
            When::None | When::Older => Err(self.skip(entry, source)),
            When::All => Ok(()),
        }
    }

    /// Source and target are names of one file: whether the target can become another file and the source stays.
    fn may_part(&self, entry: &Entry<'_>) -> bool {
        let options = self.options();
        let parts = options.overwrite.remove || options.backup != Backup::None;
        let one_name = sys::stat_at(entry.at.source(), entry.source, false)
            .is_ok_and(|stat| stat.nlink == 1 || stat.is_symlink());
        options.method == Method::HardLink || (parts && !one_name && !self.is_same_name(entry))
    }

    /// Whether the source and the target are one name in one directory.
    fn is_same_name(&self, entry: &Entry<'_>) -> bool {
        let last = |name: &CStr| {
            name.to_bytes()
                .rsplit(|&byte| byte == b'/')
                .next()
                .map(<[u8]>::to_vec)
        };
        if last(entry.source) != last(entry.target) {
            return false;
        }
        let parent = match entry.source.to_bytes().iter().rposition(|&byte| byte == b'/') {
            Some(at) => CString::new(&entry.source.to_bytes()[..=at]).expect("it was a name"),
            None => c".".into(),
        };
        let ids = sys::stat_at(entry.at.source(), &parent, true)
            .and_then(|source| Ok(source.id == sys::stat(entry.at.target())?.id));
        // Where it cannot be known, it may be.
        ids.unwrap_or(true)
    }

    pub(crate) fn skip(&mut self, entry: &Entry<'_>, source: &Stat) -> End {
        self.reporter.count(|report| report.skipped += 1);
        let skipped = Copied {
            kind: Kind::of(source.file_type()),
            bytes: source.size,
            backup: None,
            how: None,
            paths: entry,
        };
        self.run.context.observer.skipped(&skipped);
        End::Skipped
    }

    fn ask(&mut self, entry: &Entry<'_>, there: &Stat, source: &Stat) -> Outcome<()> {
        if !self.options().overwrite.ask || self.options().dry_run {
            return Ok(());
        }
        let writable = !there.is_symlink() && writable(entry.at, entry.target).is_err();
        let question = Question {
            target: &entry.target(),
            unwritable: writable.then(|| there.permissions()),
        };
        // There is one thread, so that questions come one after the other (`limits::most_threads`).
        if self.run.context.observer.may_overwrite(&question) {
            return Ok(());
        }
        Err(self.skip(entry, source))
    }

    /// Whether what is there keeps its inode: it is no plain file, or has readers that its name does not tell of.
    fn is_in_place(&self, there: &Stat, follow: bool) -> bool {
        let options = self.options();
        if there.is_symlink() || self.must_go(there) {
            return false;
        }
        // Who may not give files away cannot make another one with the same owner and group.
        let (ours, owner) = (self.run.context.owner, there.owner());
        let is_ours = owner.0 == ours.0 && (owner.1 == ours.1 || sys::is_own_group(owner.1));
        let gives_up = options.preserve.ownership && owner.0 != ours.0;
        let keeps_owner = self.run.context.privileged || is_ours || gives_up;
        options.in_place
            || options.attributes_only
            || follow
            || !there.is_file()
            || there.nlink > 1
            || !keeps_owner
    }

    /// Whether what is there has to go before something else gets its name: a backup of it or its other names keep what is
    /// in it, so that nothing may be written there.
    pub(crate) fn must_go(&self, there: &Stat) -> bool {
        let options = self.options();
        let parts = options.preserve.links && there.nlink > 1 && !options.attributes_only;
        parts || options.overwrite.remove || options.backup != Backup::None
    }

    /// Whether a new file stands for the one that it replaces, with its owner and permissions: not where that one was
    /// to be removed or renamed first, and is therefore another file.
    pub(crate) fn is_replaced(&self, entry: &Entry<'_>, old: &Stat) -> bool {
        let options = self.options();
        let goes = entry.at.dir.state == State::Shared || self.must_go(old);
        old.is_file() && !goes && (!options.overwrite.force || writable(entry.at, entry.target).is_ok())
    }

    /// A file that its owner has protected is not replaced, as it would not be written to.
    fn check_writable(&mut self, entry: &Entry<'_>, there: &Stat) -> Outcome<()> {
        if self.options().overwrite.force || self.must_go(there) || !there.is_file() {
            return Ok(());
        }
        writable(entry.at, entry.target)
            .map_err(|error| self.reporter.failed(Step::CreateFile, entry.target(), error))
    }

    /// Gives a finished file its final name. What had it before is backed up or gone.
    pub(crate) fn give_name(
        &mut self,
        entry: &Entry<'_>,
        partial: &CStr,
        old: Option<&Stat>,
    ) -> Result<Option<PathBuf>, NotNamed> {
        let dir = entry.at.target();
        let named = if old.is_some() {
            let backup = match self.back_up(entry) {
                Ok(backup) => backup,
                Err(end) => {
                    self.remove_own(entry, partial);
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
                Err(Errno::EXIST) => match self.replaceable_now(entry) {
                    Ok(Some(there)) => return self.give_name(entry, partial, Some(&there)),
                    Ok(None) => Err(Errno::EXIST),
                    Err(end) => {
                        self.remove_own(entry, partial);
                        return Err(end.into());
                    }
                },
                renamed => renamed,
            }
        };
        let Err(error) = named else { return Ok(None) };
        self.remove_own(entry, partial);
        let stuck = old.filter(|_| matches!(error, Errno::ACCESS | Errno::PERM | Errno::BUSY));
        let step = match stuck {
            Some(old) if old.is_file() && !self.must_go(old) => return Err(NotNamed::NeedsInPlace(error)),
            Some(_) if self.options().backup == Backup::None => Step::Remove,
            _ => Step::Rename,
        };
        Err(self.reporter.failed(step, entry.target(), error.into()).into())
    }

    /// Gives what was renamed to a backup its name again, as nothing new has got it.
    fn undo_backup(&mut self, entry: &Entry<'_>, backup: &Path) {
        let name = backup.file_name().map(|name| CString::new(name.as_bytes()));
        let Some(Ok(name)) = name else { return };
        if let Err(error) = rename_to_free(entry.at, &name, entry.target) {
            self.reporter.failed(Step::Backup, entry.target(), error.into());
        }
    }

    /// Another attempt seems to have been quicker: if it has made the same, ours goes.
    fn name_shared(&self, entry: &Entry<'_>, partial: &CStr) -> Result<(), Errno> {
        let dir = entry.at.target();
        let times = self.options().preserve.timestamps;
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
    pub(crate) fn back_up(&mut self, entry: &Entry<'_>) -> Outcome<Option<PathBuf>> {
        let options = self.options();
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
            Ok(name) => Ok(Some(
                entry.at.dir.path(crate::pair::directory::Side::Target, &name),
            )),
            Err(error) => Err(self.reporter.failed(Step::Backup, entry.target(), error)),
        }
    }

    /// Whether a simple backup would take the source's own name.
    fn backup_is_source(&self, entry: &Entry<'_>) -> bool {
        let options = self.options();
        let id = |dir, name: &CStr| sys::stat_at(dir, name, false).ok().map(|stat| stat.id);
        options.backup != Backup::Numbered
            && backup::simple(entry.target, options).is_ok_and(|backup| {
                let there = id(entry.at.target(), &backup);
                there.is_some() && there == id(entry.at.source(), entry.source)
            })
    }

    /// Removes what is there. Says whether it was something that can be removed so.
    pub(crate) fn remove_old(&mut self, entry: &Entry<'_>) -> Outcome<bool> {
        match rustix::fs::unlinkat(entry.at.target(), entry.target, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(error) => Err(self.reporter.failed(Step::Remove, entry.target(), error.into())),
        }
    }
}

/// Whether the file may be written to by who we are.
pub(crate) fn writable(at: &Opened, name: &CStr) -> io::Result<()> {
    rustix::fs::accessat(at.target(), name, Access::WRITE_OK, AtFlags::EACCESS)?;
    Ok(())
}

/// Renames to a name that nobody has, and fails if somebody has it.
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
