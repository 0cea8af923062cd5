//! Where an entry goes: a free name, or what is done about what has the name.

use crate::api::error::{Refusal, Step};
use crate::api::observer::{Copied, Kind, Paths, Question};
use crate::api::options::{Backup, Method, Options, When};
use crate::context::outcome::{End, Outcome};
use crate::context::reporter::Reporter;
use crate::entry::shared::Shared;
use crate::pair::directory::{Opened, State};
use crate::pair::Entry;
use crate::resume::journal::Begun;
use crate::resume::previous_run::PreviousRun;
use crate::sys::{self, Stat};
use rustix::fd::AsFd as _;
use rustix::fs::{Access, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::rc::Rc;

/// The place of a new entry.
pub(crate) enum Destination {
    /// Nothing is there.
    New,
    /// What is there is replaced by a rename.
    Replace(Stat),
    /// It is written into what is there, through a link if `follow`.
    Into { there: Stat, follow: bool },
}

/// Decides where entries go, and reports what speaks against it.
pub(crate) struct Destinations<'a> {
    shared: &'a Shared<'a>,
    previous: Rc<PreviousRun<'a>>,
    reporter: Rc<Reporter<'a>>,
}

impl<'a> Destinations<'a> {
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        previous: Rc<PreviousRun<'a>>,
        reporter: Rc<Reporter<'a>>,
    ) -> Destinations<'a> {
        Destinations {
            shared,
            previous,
            reporter,
        }
    }

    /// Decides about a source that is not a directory. Everything that speaks against it has been told when this fails.
    pub(crate) fn destination(&self, entry: &Entry<'_>, source: &Stat) -> Outcome<Destination> {
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
        follow &= !(self.shared.context.options.preserve.links && linked);
        let there = if follow { behind } else { there };
        match self.previous.left_half(entry, source, &there, follow) {
            Some(Begun::Over(_)) => return Ok(Destination::Into { there, follow }),
            Some(Begun::ToBeMade | Begun::Made(_)) => {
                return self.remove_old(entry).map(|_| Destination::New)
            }
            None => {}
        }
        self.check_existing(entry, source, &there)?;
        if self.shared.context.options.method != Method::Contents || !self.reads(source) {
            return Ok(Destination::Replace(there));
        }
        if self.is_in_place(&there, follow) {
            return Ok(Destination::Into { there, follow });
        }
        self.check_writable(entry, &there)?;
        Ok(Destination::Replace(there))
    }

    /// In a tree that is made in parts: what is there is from another attempt, and of no use.
    fn shared_place(&self, entry: &Entry<'_>) -> Outcome<Destination> {
        // At the first attempt nothing is there, as far as is known.
        let is_first = self.shared.part.shard().is_some_and(|shard| !shard.again);
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

    /// Returns true if the source's contents are copied, and not the thing itself made anew.
    fn reads(&self, source: &Stat) -> bool {
        source.is_file() || (!source.is_symlink() && reads_specials(self.shared.context.options))
    }

    /// Returns true if a link with the target's name stands for what it points to: only where the user has named
    /// it, and not where it is going to be replaced.
    fn follows_target(&self, entry: &Entry<'_>, source: &Stat) -> bool {
        let options = self.shared.context.options;
        entry.at.dir.is_top()
            && self.reads(source)
            && options.method == Method::Contents
            && options.backup == Backup::None
            && !options.overwrite.remove
    }

    /// Makes an empty file where the target's link leads to nothing, if it is to be written through.
    fn place_behind_link(&self, entry: &Entry<'_>, source: &Stat) -> Outcome<Option<Destination>> {
        let options = self.shared.context.options;
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

    /// Examines what the target's link leads to. Returns `None` if it leads to itself and may be replaced by force.
    fn behind_link(&self, entry: &Entry<'_>) -> Outcome<Option<Stat>> {
        match sys::stat_at(entry.at.target(), entry.target, true) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if self.shared.context.options.overwrite.force && sys::is(&error, &[Errno::LOOP]) => {
                Ok(None)
            }
            Err(error) if sys::is(&error, &[Errno::NOENT]) => {
                Err(self.reporter.refused(Refusal::DanglingLink, entry))
            }
            Err(error) => Err(self.reporter.failed(Step::StatTarget, entry.target(), error)),
        }
    }

    /// Fails if something speaks against replacing what is there.
    pub(crate) fn check_existing(&self, entry: &Entry<'_>, source: &Stat, there: &Stat) -> Outcome<()> {
        let leaves_all = matches!(
            self.shared.context.options.overwrite.when,
            When::None | When::NoneFail
        );
        if leaves_all {
            self.check_age(entry, source, there)?;
        }
        let one = there.id == source.id;
        let one_link = one && source.is_symlink() && !self.is_same_name(entry);
        if one_link && self.shared.context.options.backup == Backup::None {
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

    /// Returns true if the source is a link to what it would replace: the link would point to itself, and the file
    /// be gone.
    pub(crate) fn points_to(&self, entry: &Entry<'_>, there: &Stat) -> bool {
        self.shared.context.options.backup == Backup::None
            && there.is_file()
            && sys::stat_at(entry.at.source(), entry.source, true).is_ok_and(|stat| stat.id == there.id)
    }

    /// Returns true if what is there stays as it is, because it exists or is as young, and reports that. `imagined`
    /// is what a dry run would have made.
    pub(crate) fn is_left_alone(&self, entry: &Entry<'_>, source: &Stat, imagined: Option<Stat>) -> bool {
        let there = imagined.or_else(|| sys::stat_at(entry.at.target(), entry.target, false).ok());
        there.is_some_and(|there| self.check_age(entry, source, &there).is_err())
    }

    /// `-n` and `-u`.
    pub(crate) fn check_age(&self, entry: &Entry<'_>, source: &Stat, there: &Stat) -> Outcome<()> {
        match self.shared.context.options.overwrite.when {
            When::NoneFail => Err(self.reporter.refused(Refusal::TargetExists, entry)),
            When::Older if source.mtime > there.mtime => Ok(()),
            // Half of an older source, or what another program has made of that.
            When::None | When::Older if self.previous.was_begun(entry, there).is_some() => {
                Err(self.reporter.refused(Refusal::TargetExists, entry))
            }
            When::None | When::Older => Err(self.skip(entry, source)),
            When::All => Ok(()),
        }
    }

    /// Source and target are names of one file: whether the target can become another file and the source stays.
    fn may_part(&self, entry: &Entry<'_>) -> bool {
        let options = self.shared.context.options;
        let parts = options.overwrite.remove || options.backup != Backup::None;
        let one_name = sys::stat_at(entry.at.source(), entry.source, false)
            .is_ok_and(|stat| stat.nlink == 1 || stat.is_symlink());
        options.method == Method::HardLink || (parts && !one_name && !self.is_same_name(entry))
    }

    /// Returns true if the source and the target are one name in one directory.
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

    pub(crate) fn skip(&self, entry: &Entry<'_>, source: &Stat) -> End {
        self.reporter.count(|report| report.skipped += 1);
        let skipped = Copied {
            kind: Kind::of(source.file_type()),
            bytes: source.size,
            backup: None,
            how: None,
            paths: entry,
        };
        self.shared.context.observer.skipped(&skipped);
        End::Skipped
    }

    fn ask(&self, entry: &Entry<'_>, there: &Stat, source: &Stat) -> Outcome<()> {
        if !self.shared.context.options.overwrite.ask || self.shared.context.options.dry_run {
            return Ok(());
        }
        let writable = !there.is_symlink() && writable(entry.at, entry.target).is_err();
        let question = Question {
            target: &entry.target(),
            unwritable: writable.then(|| there.permissions()),
        };
        // There is one thread, so that questions come one after the other (`limits::most_threads`).
        if self.shared.context.observer.may_overwrite(&question) {
            return Ok(());
        }
        Err(self.skip(entry, source))
    }

    /// Returns true if what is there keeps its inode: it is not a plain file, or it has readers under other names.
    fn is_in_place(&self, there: &Stat, follow: bool) -> bool {
        let options = self.shared.context.options;
        if there.is_symlink() || self.must_go(there) {
            return false;
        }
        // Who may not give files away cannot make another one with the same owner and group.
        let (ours, owner) = (self.shared.context.owner, there.owner());
        let is_ours = owner.0 == ours.0 && (owner.1 == ours.1 || sys::is_own_group(owner.1));
        let gives_up = options.preserve.ownership && owner.0 != ours.0;
        let keeps_owner = self.shared.context.privileged || is_ours || gives_up;
        options.in_place
            || options.attributes_only
            || follow
            || !there.is_file()
            || there.nlink > 1
            || !keeps_owner
    }

    /// Returns true if what is there has to go before something else gets its name: its backup or its other names
    /// keep its contents, so nothing may be written there.
    pub(crate) fn must_go(&self, there: &Stat) -> bool {
        let options = self.shared.context.options;
        let parts = options.preserve.links && there.nlink > 1 && !options.attributes_only;
        parts || options.overwrite.remove || options.backup != Backup::None
    }

    /// Returns true if a new file stands for the one that it replaces, with its owner and permissions. It does not
    /// if that one was to be removed or renamed first.
    pub(crate) fn is_replaced(&self, entry: &Entry<'_>, old: &Stat) -> bool {
        let options = self.shared.context.options;
        let goes = entry.at.dir.state == State::Shared || self.must_go(old);
        old.is_file() && !goes && (!options.overwrite.force || writable(entry.at, entry.target).is_ok())
    }

    /// A file that its owner has protected is not replaced, as it would not be written to.
    fn check_writable(&self, entry: &Entry<'_>, there: &Stat) -> Outcome<()> {
        if self.shared.context.options.overwrite.force || self.must_go(there) || !there.is_file() {
            return Ok(());
        }
        writable(entry.at, entry.target)
            .map_err(|error| self.reporter.failed(Step::CreateFile, entry.target(), error))
    }

    /// Removes what is there. Says whether it was something that can be removed so.
    pub(crate) fn remove_old(&self, entry: &Entry<'_>) -> Outcome<bool> {
        match rustix::fs::unlinkat(entry.at.target(), entry.target, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(error) => Err(self.reporter.failed(Step::Remove, entry.target(), error.into())),
        }
    }

    /// Examines what has got a new file's name meanwhile, if it may be replaced. Otherwise the reason is reported.
    pub(crate) fn replaceable_now(&self, entry: &Entry<'_>) -> Outcome<Option<Stat>> {
        let Some(there) = entry.existing(&self.reporter)? else {
            return Ok(None);
        };
        let follow = entry.at.dir.follows(self.shared.context.options);
        let source = sys::stat_at(entry.at.source(), entry.source, follow)
            .map_err(|error| self.reporter.failed(Step::StatSource, entry.source(), error))?;
        self.check_existing(entry, &source, &there)?;
        Ok(Some(there))
    }
}

/// Returns true if devices, FIFOs and sockets are read, and not made anew.
pub(crate) fn reads_specials(options: &Options) -> bool {
    !options.recursive || options.copy_contents
}

/// Fails if this process may not write to the file.
pub(crate) fn writable(at: &Opened, name: &CStr) -> io::Result<()> {
    rustix::fs::accessat(at.target(), name, Access::WRITE_OK, AtFlags::EACCESS)?;
    Ok(())
}
