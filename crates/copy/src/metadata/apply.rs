//! What a file has besides its contents: owner, attributes, permissions, times, set in this order.
//!
//! The owner first: a change of it takes set-id bits and capabilities away. The permissions after the attributes, so
//! that a file is closed until its access control list is there. Everything through a descriptor, or for what has none
//! by name in a held directory and never through a link.
//!
//! The rule for new files: if a file gets its owner, its permissions and nothing else at its creation, it is created
//! with its final permissions. If anything is still to be changed that decides who may read it (owner, group, a list, a
//! directory that hands lists down), it is created for us alone (0600), and opened to others by the last `fchmod`.

use crate::api::error::Step;
use crate::api::observer::Paths;
use crate::api::options::{Mode, Options};
use crate::metadata::attributes::Names;
use crate::metadata::xattr::{self, Bearer};
use crate::metadata::MetadataCopier;
use crate::pair::directory::Dir;
use crate::pair::Entry;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, Gid, Timestamps, Uid};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::path::{Path, PathBuf};

/// Set-id bits, which make a program run as another user: never given to a file whose owner is another one than asked for.
const SET_ID: u32 = 0o6000;

/// The mode that a file is created with, and the one that it gets last.
pub(crate) struct Modes {
    pub(crate) create: u32,
    pub(crate) set: Option<u32>,
}

/// The metadata that a finished file gets.
pub(crate) struct FileMetadata<'a> {
    /// The file that it replaces.
    pub(crate) old: Option<&'a Stat>,
    /// The owner that it has now, if that is known.
    pub(crate) owner: Option<(u32, u32)>,
    /// It may have an access control list of its own or its directory's.
    pub(crate) may_have_list: bool,
    /// It was made for this, and no other program has it open.
    pub(crate) is_new: bool,
    pub(crate) names: &'a Names,
    pub(crate) mode: Option<u32>,
}

impl MetadataCopier<'_> {
    /// The rule for new files, see above.
    pub(crate) fn modes(&self, dir: &Dir, source: &Stat, old: Option<&Stat>, attributes: bool) -> Modes {
        let preserve = self.context.options.preserve;
        let free = match preserve.mode {
            Mode::Fresh => 0o666,
            Mode::Preserve | Mode::Inherit => source.mode & 0o777,
        };
        let last = match (preserve.mode, old) {
            (Mode::Preserve, _) => source.permissions(),
            (_, Some(old)) => self.kept_permissions(old, source),
            (_, None) => free & !self.context.umask,
        };
        let stays = !preserve.ownership || dir.owner_of_new.get() == Some(&source.owner());
        let closed = Modes {
            create: 0o600,
            set: Some(last),
        };
        if !stays || attributes || old.is_some() {
            return closed;
        }
        if dir.inherits {
            // What the directory hands down is cut by these bits, as for any new file, or taken away.
            let kept = preserve.mode != Mode::Preserve;
            return if kept {
                Modes {
                    create: free,
                    set: None,
                }
            } else {
                closed
            };
        }
        let created = free & !self.context.umask;
        Modes {
            create: free,
            set: (created != last).then_some(last),
        }
    }

    /// Returns the permissions that a file keeps when it is written to: not its set-id bits, unless we may set them
    /// for any owner and its owner stays. The kernel does the same, and leaves a file that its group may not execute
    /// its set-group-id bit.
    fn kept_permissions(&self, old: &Stat, source: &Stat) -> u32 {
        let gives_away = self.context.options.preserve.ownership && old.owner() != source.owner();
        let lost = match (self.context.privileged, gives_away) {
            (true, false) => 0,
            (true, true) if old.mode & 0o010 == 0 => SET_ID & 0o4000,
            _ => SET_ID,
        };
        old.permissions() & !lost
    }

    /// The permissions of a file that was written in place.
    pub(crate) fn mode_in_place(&self, source: &Stat) -> Option<u32> {
        (self.context.options.preserve.mode == Mode::Preserve).then(|| source.permissions())
    }

    /// Gives a file everything but its contents. A failure is reported, and the rest is done.
    pub(crate) fn apply_to_file(
        &mut self,
        entry: &Entry<'_>,
        from: BorrowedFd<'_>,
        source: &Stat,
        to: BorrowedFd<'_>,
        metadata: &FileMetadata<'_>,
    ) {
        let lost = self.give_owner(entry, source, metadata.old, metadata.owner, |uid, gid| {
            rustix::fs::fchown(to, uid, gid)
        });
        if let Some(old) = metadata.old {
            self.keep_old_attributes(entry, old, to);
        }
        let to_bearer = Bearer::Open(to);
        if metadata.names.any() {
            if metadata.is_new && (metadata.may_have_list || self.context.umask & 0o200 != 0) {
                // Attributes may be set by who may write to the file, which the mask or a list may have taken from us.
                // If it cannot be had, they tell.
                let _ = rustix::fs::fchmod(to, rustix::fs::Mode::from_raw_mode(0o600));
            }
            self.give_attributes(&entry.target(), &Bearer::Open(from), &to_bearer, metadata.names);
        }
        self.give_context(|| entry.target(), &to_bearer);
        let listed = !metadata.may_have_list
            || self.drop_lists(&entry.target(), &to_bearer, metadata.names, &[xattr::ACCESS_LIST]);
        if let Some(mode) = metadata.mode {
            let mode = if lost { mode & !SET_ID } else { mode };
            let set = rustix::fs::fchmod(to, rustix::fs::Mode::from_raw_mode(mode));
            if let (Err(error), true) = (set, listed) {
                self.reporter.failed(Step::SetMode, entry.target(), error.into());
            }
        }
        if self.context.options.preserve.timestamps {
            if let Err(error) = rustix::fs::futimens(to, &times(source)) {
                self.reporter.failed(Step::SetTimes, entry.target(), error.into());
            }
        }
    }

    /// Gives a finished directory everything. It is ours until here.
    pub(crate) fn apply_to_directory(
        &mut self,
        dir: &Dir,
        from: Option<BorrowedFd<'_>>,
        to: BorrowedFd<'_>,
        path: PathBuf,
    ) {
        let preserve = self.context.options.preserve;
        let made = dir.state != crate::pair::directory::State::Existing;
        let owned =
            dir.state.is_private() && !dir.resumed && dir.owner_of_new.get() == Some(&dir.stat.owner());
        let lost = preserve.ownership && !owned && {
            let chown = |uid, gid| rustix::fs::chownat(to, c"", uid, gid, AtFlags::EMPTY_PATH);
            self.change_owner(path.clone(), dir.stat.owner(), None, chown)
        };
        let bearer = match sys::is_only_held(to) {
            true => Bearer::Followed(sys::proc_path(to, None)),
            false => Bearer::Open(to),
        };
        let listed = from.is_none_or(|from| self.apply_directory_attributes(from, &bearer, &path, made));
        self.give_context(|| path.clone(), &bearer);
        let mode = match preserve.mode {
            Mode::Preserve => Some(dir.stat.permissions()),
            _ if !made => None,
            // The list decides, but we had to have all rights ourselves.
            _ if dir.inherits => {
                let own = dir.stat.mode & xattr::owner_in_list(to);
                sys::stat(to).ok().map(|now| now.mode & (0o7077 | own))
            }
            Mode::Inherit => Some(dir.stat.mode & 0o1777 & !self.context.umask),
            Mode::Fresh => Some(fresh_dir(&dir.stat) & !self.context.umask),
        };
        if let Some(mode) = mode {
            if let (Err(error), true) = (self.dir_mode(to, &bearer, mode, lost), listed) {
                self.reporter.failed(Step::SetMode, path.clone(), error);
            }
        }
        if preserve.timestamps {
            if let Err(error) = bearer.set_times(&times(&dir.stat)) {
                self.reporter.failed(Step::SetTimes, path, error);
            }
        }
    }

    /// Says whether no list is left that should have gone.
    fn apply_directory_attributes(
        &mut self,
        from: BorrowedFd<'_>,
        to: &Bearer<'_>,
        path: &Path,
        made: bool,
    ) -> bool {
        let mut bearer = Bearer::Open(from);
        let mut names = self.names_of(&bearer);
        if matches!(&names, Err(error) if sys::is(error, &[Errno::BADF])) {
            // It may not be read, and is only held.
            bearer = Bearer::Followed(sys::proc_path(from, None));
            names = self.names_of(&bearer);
        }
        match names {
            Ok(names) => {
                self.give_attributes(path, &bearer, to, &names);
                let lists = [xattr::ACCESS_LIST, xattr::DEFAULT_LIST];
                made || self.drop_lists(path, to, &names, &lists)
            }
            Err(error) => {
                self.reporter.failed(Step::SetXattr, path.into(), error);
                true
            }
        }
    }

    /// A directory keeps the set-group-id bit that it has inherited, unless permissions are preserved.
    fn dir_mode(&self, to: BorrowedFd<'_>, bearer: &Bearer<'_>, mode: u32, lost: bool) -> io::Result<()> {
        let mode = if self.context.options.preserve.mode == Mode::Preserve {
            if lost {
                mode & !SET_ID
            } else {
                mode
            }
        } else {
            mode | (sys::stat(to)?.mode & 0o2000)
        };
        bearer.set_mode(mode)
    }

    /// Gives something that has no descriptor everything, by its name in the target directory.
    pub(crate) fn apply_by_name(&mut self, entry: &Entry<'_>, source: &Stat, name: &CStr) {
        let dir = entry.at.target();
        let here = entry.at.dir.owner_of_new.get().copied();
        let lost = self.give_owner(entry, source, None, here, |uid, gid| {
            rustix::fs::chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
        });
        let from = Bearer::Path(sys::proc_path(entry.at.source(), Some(entry.source)));
        let to = Bearer::Path(sys::proc_path(dir, Some(name)));
        self.give_context(|| entry.target(), &to);
        match self.names_of(&from) {
            Ok(names) => {
                self.give_attributes(&entry.target(), &from, &to, &names);
                if entry.at.dir.inherits && !source.is_symlink() {
                    self.drop_lists(&entry.target(), &to, &names, &[xattr::ACCESS_LIST]);
                }
            }
            // Without /proc there is no way to them.
            Err(error) if sys::is(&error, &[Errno::NOENT]) => {}
            Err(error) => {
                self.reporter.failed(Step::SetXattr, entry.source(), error);
            }
        }
        if !source.is_symlink() {
            self.mode_by_name(entry, source, name, lost);
        }
        if self.context.options.preserve.timestamps {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            if let Err(error) = rustix::fs::utimensat(dir, name, &times(source), flags) {
                self.reporter.failed(Step::SetTimes, entry.target(), error.into());
            }
        }
    }

    /// Returns the mode that a FIFO, a socket or a device is made with: closed, if anything is still to be changed.
    pub(crate) fn mode_of_special(&self, dir: &Dir, source: &Stat) -> u32 {
        match self.context.options.preserve.mode {
            _ if !keeps_inherited(self.context.options, dir) => 0o600,
            Mode::Fresh => fresh_special(source),
            Mode::Preserve | Mode::Inherit => source.mode & 0o777,
        }
    }

    fn mode_by_name(&mut self, entry: &Entry<'_>, source: &Stat, name: &CStr, lost: bool) {
        if keeps_inherited(self.context.options, &entry.at.dir) {
            return;
        }
        let mode = match self.context.options.preserve.mode {
            Mode::Preserve if lost => source.permissions() & !SET_ID,
            Mode::Preserve => source.permissions(),
            Mode::Inherit => source.mode & 0o777 & !self.context.umask,
            Mode::Fresh => fresh_special(source) & !self.context.umask,
        };
        let set = || {
            let fd = sys::open_path(entry.at.target(), name)?;
            if sys::stat(fd.as_fd())?.file_type() != source.file_type() {
                return Err(io::Error::other("it was replaced by something else"));
            }
            let path = sys::proc_path(fd.as_fd(), None);
            let mode = rustix::fs::Mode::from_raw_mode(mode);
            rustix::fs::chmod(path.as_slice(), mode)?;
            Ok(())
        };
        if let Err(error) = set() {
            self.reporter.failed(Step::SetMode, entry.target(), error);
        }
    }

    /// Sets the owner that something should have, if it has not got it already. Says whether it could not be had.
    fn give_owner(
        &mut self,
        entry: &Entry<'_>,
        source: &Stat,
        old: Option<&Stat>,
        here: Option<(u32, u32)>,
        chown: impl Fn(Option<Uid>, Option<Gid>) -> rustix::io::Result<()>,
    ) -> bool {
        let owner = match old {
            _ if self.context.options.preserve.ownership => source.owner(),
            Some(old) => old.owner(),
            None => return false,
        };
        let group = old.map(|old| old.owner().1);
        here != Some(owner) && self.change_owner(entry.target(), owner, group, chown)
    }

    /// Changes the owner. If the group cannot be had, a file in the place of another one gets that one's `group`.
    /// Returns true if something could not be had.
    fn change_owner(
        &mut self,
        path: PathBuf,
        (uid, gid): (u32, u32),
        group: Option<u32>,
        chown: impl Fn(Option<Uid>, Option<Gid>) -> rustix::io::Result<()>,
    ) -> bool {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        match chown(Some(uid), Some(gid)) {
            Ok(()) => false,
            Err(Errno::PERM | Errno::INVAL) if !self.context.privileged => {
                // Giving files away needs a privilege; one of our own groups does not.
                let group = group.map(Gid::from_raw);
                let _ = chown(None, Some(gid)).or_else(|_| chown(None, group));
                true
            }
            Err(error) => {
                self.reporter.failed(Step::SetOwner, path, error.into());
                true
            }
        }
    }
}

/// Returns true for something that keeps the permissions it was made with: these cut what its directory hands down, and
/// not the umask.
fn keeps_inherited(options: &Options, dir: &Dir) -> bool {
    let preserve = options.preserve;
    dir.inherits && preserve.mode != Mode::Preserve && !preserve.ownership
}

/// Returns both times of a file that a copy gets.
pub(crate) fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: stat.atime,
        last_modification: stat.mtime,
    }
}

/// Permissions of a new directory that gets none of its source's. The sticky bit is none of those that a umask has.
pub(crate) fn fresh_dir(source: &Stat) -> u32 {
    0o777 | source.mode & 0o1000
}

/// The permissions, before the umask, of a new FIFO, socket or device that takes none from its source: bind(2) gives
/// a socket all of them, mkfifo(1) and mknod(1) give the others no right to execute.
fn fresh_special(source: &Stat) -> u32 {
    match source.file_type() {
        FileType::Socket => 0o777,
        _ => 0o666,
    }
}
