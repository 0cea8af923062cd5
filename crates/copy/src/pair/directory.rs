//! Directories on the way: each is a pair, one of the source and the one of the target that it is copied to.
//!
//! A directory is held open while something below it is to be done, and everything is done relative to it. Of a chain
//! that is deeper than `keep` levels the upper ones are closed again; they are reopened step by step, never through a
//! link, and only if what is there is still the same directory. So neither PATH_MAX nor RLIMIT_NOFILE bounds a tree's
//! depth, and a directory that is swapped for a link is noticed and not followed.

use crate::api::options::{Dereference, Options};
use crate::pair::digest::Key;
use crate::pair::dir_part::DirPart;
use crate::sys::{self, FileId, Stat};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// A pair of directories.
pub(crate) struct Dir {
    parent: Option<Arc<Dir>>,
    depth: usize,
    pub(crate) source: Slot,
    pub(crate) target: Slot,
    /// The source as it was when it was opened: its metadata is given to the target last.
    pub(crate) stat: Stat,
    pub(crate) state: State,
    /// Its part in a copy that is done in parts.
    pub(crate) part: Option<Box<DirPart>>,
    /// Its place, in the words of a journal.
    pub(crate) key: Key,
    /// Ours from an earlier run: there may be something in it.
    pub(crate) resumed: bool,
    /// New files get access control lists from the target directory.
    pub(crate) inherits: bool,
    /// User and group that new files get here; asked for with the first one.
    pub(crate) owner_of_new: OnceLock<(u32, u32)>,
    /// The part of the whole that one entry is; unknown before the directory has been read.
    pub(crate) part_of_entry: OnceLock<f64>,
    /// The device of the source that the user named, for `one_file_system`.
    pub(crate) root_device: u64,
    /// The unfinished tree that it is in, if no other program can see it.
    pub(crate) tree: Option<FileId>,
    /// That tree is to be in a directory that was there, and has its name before everything is done.
    pub(crate) is_part: bool,
    /// The number of entries that are still to be done in here, and the reading of the directory itself.
    pub(crate) pending: AtomicUsize,
    /// That it is not copied into itself has been told.
    pub(crate) refused_itself: Once,
}

/// Something that is done once.
#[derive(Default)]
pub(crate) struct Once(AtomicBool);

impl Once {
    /// Returns true the first time.
    pub(crate) fn is_first(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

/// The state of a target directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It was there before, and others may use it.
    Existing,
    /// Made by us, and under a final name. Its metadata is still to be set.
    Made,
    /// Made by us below one of the third kind: no other program can see it, so files can be created under their final names.
    Hidden,
    /// Made by us under a partial name, to be renamed when all is done.
    Partial,
    /// Not there: a dry run would have made it. For its target stands the nearest directory above that is there.
    Imagined,
    /// Made for a copy in parts: others may be at work in it, for the same copy.
    Shared,
}

impl State {
    /// Returns true if names in it are ours alone, so that nothing is replaced and nothing has to appear at once.
    pub(crate) fn is_private(self) -> bool {
        matches!(self, State::Hidden | State::Partial | State::Imagined)
    }
}

/// One of the two directories of a pair.
pub(crate) struct Slot {
    /// The name as it is shown. That of the topmost pair is a path.
    name: Box<CStr>,
    /// The name that it has until it is finished.
    partial: Mutex<Option<Box<CStr>>>,
    /// It was reached through a link of this name, and is again; it must still be the same directory.
    through_link: bool,
    /// The name `.` in it is the directory itself, and is shown as it is.
    is_itself: bool,
    id: FileId,
    fd: Mutex<Option<Arc<OwnedFd>>>,
}

impl Slot {
    pub(crate) fn new(name: &CStr, id: FileId, fd: Option<OwnedFd>) -> Slot {
        Slot {
            name: name.into(),
            partial: Mutex::new(None),
            through_link: false,
            is_itself: false,
            id,
            fd: Mutex::new(fd.map(Arc::new)),
        }
    }

    pub(crate) fn with_partial(self, partial: Option<CString>) -> Slot {
        *self.partial.lock().unwrap() = partial.map(CString::into_boxed_c_str);
        self
    }

    pub(crate) fn through_link(self, through_link: bool) -> Slot {
        Slot { through_link, ..self }
    }

    pub(crate) fn itself(self, is_itself: bool) -> Slot {
        Slot { is_itself, ..self }
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    pub(crate) fn partial(&self) -> Option<CString> {
        self.partial
            .lock()
            .unwrap()
            .as_ref()
            .map(|name| CString::from(name.clone()))
    }

    /// It has its final name now.
    pub(crate) fn renamed(&self) {
        *self.partial.lock().unwrap() = None;
    }

    fn current_name(&self) -> CString {
        self.partial().unwrap_or_else(|| self.name.clone().into())
    }

    fn held(&self) -> Option<Arc<OwnedFd>> {
        self.fd.lock().unwrap().clone()
    }

    pub(crate) fn close(&self) {
        *self.fd.lock().unwrap() = None;
    }

    fn hold(&self, fd: OwnedFd) -> Arc<OwnedFd> {
        let fd = Arc::new(fd);
        *self.fd.lock().unwrap() = Some(fd.clone());
        fd
    }

    /// Opens it below its parent, and makes sure that it is the same directory.
    fn reopen(&self, parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
        let fd = sys::open_target_dir(parent, name, self.through_link)?;
        if sys::stat(fd.as_fd())?.id != self.id {
            return Err(io::Error::other("the directory was replaced by another one"));
        }
        Ok(fd)
    }
}

/// One of a pair's two directories.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Source,
    Target,
}

/// Both directories of a pair, held open.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) dir: Arc<Dir>,
    source: Arc<OwnedFd>,
    target: Arc<OwnedFd>,
}

impl Opened {
    pub(crate) fn source(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    pub(crate) fn target(&self) -> BorrowedFd<'_> {
        self.target.as_fd()
    }
}

/// The fields of a new pair.
pub(crate) struct Parts {
    pub(crate) source: Slot,
    pub(crate) target: Slot,
    pub(crate) stat: Stat,
    pub(crate) state: State,
    pub(crate) resumed: bool,
    pub(crate) inherits: bool,
    pub(crate) part: Option<Box<DirPart>>,
}

impl Dir {
    /// The pair that the sources named by the user are in.
    pub(crate) fn top(parts: Parts, key: Key) -> Arc<Dir> {
        Arc::new(Dir::new(parts, key, None, 0))
    }

    /// A pair inside another. Closes the ancestor `keep` levels up.
    pub(crate) fn child(parent: &Arc<Dir>, parts: Parts, keep: usize) -> Arc<Dir> {
        // What a user names is where its file system begins.
        let root_device = if parent.is_top() {
            parts.stat.id.0
        } else {
            parent.root_device
        };
        let key = parent.key.child(parts.target.name());
        let dir = Arc::new(Dir::new(parts, key, Some(parent.clone()), root_device));
        let above = std::iter::successors(Some(&dir), |dir| dir.parent.as_ref()).nth(keep);
        if let Some(above) = above.filter(|dir| !dir.is_top()) {
            above.source.close();
            above.target.close();
        }
        dir
    }

    fn new(parts: Parts, key: Key, parent: Option<Arc<Dir>>, root_device: u64) -> Dir {
        let tree = match parts.state {
            State::Partial => Some(parts.target.id),
            State::Hidden => parent.as_ref().and_then(|parent| parent.tree),
            _ => None,
        };
        let is_part = match parts.state {
            State::Partial => parent.as_ref().is_some_and(|parent| !parent.is_top()),
            State::Hidden => parent.as_ref().is_some_and(|parent| parent.is_part),
            _ => false,
        };
        Dir {
            tree,
            is_part,
            depth: parent.as_ref().map_or(0, |parent| parent.depth + 1),
            parent,
            source: parts.source,
            target: parts.target,
            stat: parts.stat,
            state: parts.state,
            part: parts.part,
            key,
            resumed: parts.resumed,
            inherits: parts.inherits,
            owner_of_new: OnceLock::new(),
            part_of_entry: OnceLock::new(),
            root_device,
            pending: AtomicUsize::new(1),
            refused_itself: Once::default(),
        }
    }

    /// Returns the part of the whole that one entry is, as far as that is known.
    pub(crate) fn part(&self) -> f64 {
        self.part_of_entry.get().copied().unwrap_or(0.0)
    }

    pub(crate) fn is_top(&self) -> bool {
        self.parent.is_none()
    }

    pub(crate) fn parent(&self) -> Option<&Arc<Dir>> {
        self.parent.as_ref()
    }

    /// Returns true if symbolic links in the source directory are followed.
    pub(crate) fn follows(&self, options: &Options) -> bool {
        match options.dereference {
            Dereference::Never => false,
            Dereference::CommandLine => self.is_top(),
            Dereference::Always => true,
        }
    }

    fn slot(&self, side: Side) -> &Slot {
        match side {
            Side::Source => &self.source,
            Side::Target => &self.target,
        }
    }

    /// Both directories, reopened if they had been closed.
    pub(crate) fn open(self: &Arc<Dir>) -> io::Result<Opened> {
        Ok(Opened {
            dir: self.clone(),
            source: self.open_side(Side::Source)?,
            target: self.open_side(Side::Target)?,
        })
    }

    /// One directory, reopened from the nearest ancestor that is open. The topmost is always open.
    pub(crate) fn open_side(&self, side: Side) -> io::Result<Arc<OwnedFd>> {
        let mut closed = Vec::new();
        let mut dir = self;
        let mut fd = loop {
            if let Some(fd) = dir.slot(side).held() {
                break fd;
            }
            if !(dir.state == State::Imagined && matches!(side, Side::Target)) {
                closed.push(dir);
            }
            dir = dir
                .parent
                .as_deref()
                .ok_or_else(|| io::Error::other("its directory is closed"))?;
        };
        for dir in closed.into_iter().rev() {
            let slot = dir.slot(side);
            let opened = match slot.reopen(fd.as_fd(), &slot.current_name()) {
                // It was being renamed.
                Err(_) => slot.reopen(fd.as_fd(), &slot.name)?,
                Ok(opened) => opened,
            };
            fd = Arc::new(opened);
        }
        Ok(fd)
    }

    /// Opens the parent's directories again, if they had been closed, from ours and upwards: cheaper than from the top.
    pub(crate) fn reopen_parent(&self) {
        let Some(parent) = &self.parent else { return };
        for side in [Side::Source, Side::Target] {
            let above = parent.slot(side);
            let (None, Some(fd)) = (above.held(), self.slot(side).held()) else {
                continue;
            };
            // If it does not work, `open_side` tries from the top and tells.
            if let Ok(fd) = above.reopen(fd.as_fd(), c"..") {
                above.hold(fd);
            }
        }
    }

    /// The pair above this one, or this one, that the user has named.
    pub(crate) fn named(&self) -> Option<&Dir> {
        std::iter::successors(Some(self), |dir| dir.parent.as_deref())
            .find(|dir| dir.parent.as_ref().is_some_and(|parent| parent.is_top()))
    }

    /// The pair of the unfinished tree that it is in.
    pub(crate) fn unfinished_tree(&self) -> Option<&Dir> {
        std::iter::successors(Some(self), |dir| dir.parent.as_deref())
            .find(|dir| self.tree == Some(dir.target.id))
    }

    /// The names that lead from the source that the user has named to one in this directory.
    pub(crate) fn names_below_named<'d>(&'d self, name: &'d CStr) -> Vec<&'d [u8]> {
        let mut names = vec![name.to_bytes()];
        let mut dir = self;
        while let Some(parent) = dir.parent.as_deref().filter(|parent| !parent.is_top()) {
            names.push(dir.source.name().to_bytes());
            dir = parent;
        }
        names.reverse();
        names
    }

    /// Returns true if a source directory is this one or above it.
    pub(crate) fn is_inside(&self, source: FileId) -> bool {
        std::iter::successors(Some(self), |dir| dir.parent.as_deref())
            .any(|dir| !dir.is_top() && dir.source.id == source)
    }

    /// The path of a name in this directory, as the user would write it.
    pub(crate) fn path(&self, side: Side, name: &CStr) -> PathBuf {
        let mut names = vec![name];
        let mut dir = Some(self);
        while let Some(this) = dir {
            let slot = this.slot(side);
            names.pop_if(|name| slot.is_itself && *name == c".");
            names.push(slot.name());
            dir = this.parent.as_deref();
        }
        let (last, above) = names.split_first().expect("the given one, or what it is in");
        let above = above.iter().rev().map(|name| match side {
            Side::Source => without_slashes(name.to_bytes()),
            Side::Target => name.to_bytes(),
        });
        above
            .chain([last.to_bytes()])
            .map(|name| Path::new(OsStr::from_bytes(name)))
            .collect()
    }

    /// Returns the path that it has until it is finished.
    pub(crate) fn partial_path(&self) -> Option<PathBuf> {
        let partial = self.target.partial()?;
        Some(self.parent.as_ref()?.path(Side::Target, &partial))
    }

    /// Adds entries that are to be done in here. A thread that has such an entry in hand may add others.
    pub(crate) fn add(&self, count: usize) {
        let before = self.pending.fetch_add(count, Ordering::Relaxed);
        debug_assert!(before > 0, "a finished directory has nothing more to do");
    }

    /// Adds one, unless everything is done already.
    pub(crate) fn join(&self) -> bool {
        let add = |pending| (pending > 0).then_some(pending + 1);
        self.pending
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    /// One thing is done. Says whether it was the last.
    pub(crate) fn done(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Drop for Dir {
    /// Lets go of a long chain link by link instead of by recursion.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut dir) = next.and_then(Arc::into_inner) {
            next = dir.parent.take();
        }
    }
}

/// A directory's path as it stands before a name in it: without the slashes at its end.
pub(crate) fn without_slashes(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte != b'/') {
        Some(last) => &path[..=last],
        None => &path[..path.len().min(1)],
    }
}

/// The path of a directory itself.
pub(crate) fn own_path(dir: &Dir, side: Side) -> PathBuf {
    let name = match side {
        Side::Source => dir.source.name(),
        Side::Target => dir.target.name(),
    };
    dir.parent()
        .map_or_else(Default::default, |parent| parent.path(side, name))
}
