//! Removal of what earlier runs have begun and no run continues.

use crate::api::error::Step;
use crate::api::options::Dereference;
use crate::context::reporter::Reporter;
use crate::context::Context;
use crate::pair::digest::Key;
use crate::pair::directory::{Dir, Side};
use crate::resume::journal::{self, Partial};
use crate::resume::run_journal::RunJournal;
use crate::sys::listing;
use crate::sys::memory;
use crate::sys::remove::remove;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Partial names of a run end in its id, or in the next free number if a name is taken. No run needs more of them.
pub(crate) const NUMBERS: u32 = 16;

/// Removes what earlier runs have left in directories of the target.
pub(crate) struct Tidier<'a> {
    context: &'a Context<'a>,
    journal: &'a RunJournal<'a>,
    reporter: Rc<Reporter<'a>>,
}

impl<'a> Tidier<'a> {
    pub(crate) fn new(
        context: &'a Context<'a>,
        journal: &'a RunJournal<'a>,
        reporter: Rc<Reporter<'a>>,
    ) -> Tidier<'a> {
        Tidier {
            context,
            journal,
            reporter,
        }
    }

    /// Removes what an earlier run has put into a directory and this one would not.
    pub(crate) fn tidy(&self, dir: &Arc<Dir>) {
        if self.journal.before().is_none() || (dir.state.is_private() && !dir.resumed) {
            return;
        }
        let opened = match dir.open() {
            Ok(opened) => opened,
            // The failure is reported when the directory is filled.
            Err(_) => return,
        };
        if !dir.state.is_private() {
            self.tidy_existing(dir, opened.target(), Some(opened.source()));
            return;
        }
        let gone = |name: &CStr| {
            let source = sys::stat_at(opened.source(), name, false);
            matches!(source, Err(error) if sys::is(&error, &[Errno::NOENT]))
        };
        let listed = sys::open_dir(opened.target(), c".", false).and_then(|fd| {
            let mut buffer = memory::room(listing::READ_BYTES)?;
            listing::each_name(
                fd.as_fd(),
                &mut buffer,
                || self.context.stopped(),
                |name, _| {
                    if gone(name) {
                        self.remove_left(opened.target(), name, shown(dir, name));
                    }
                    Ok(())
                },
            )
        });
        if let Err(error) = listed {
            self.reporter.failed(Step::Remove, shown(dir, c""), error);
        }
    }

    /// Removes what earlier runs have not finished from a directory that others use, and from those in it that are in the
    /// way of no source any more. Trees whose source is still there are gone on with where their name comes up.
    pub(crate) fn tidy_existing(&self, dir: &Dir, target: BorrowedFd<'_>, source: Option<BorrowedFd<'_>>) {
        // With several sources, that another one has it is not known here.
        let sole = self.context.has_one_source;
        let is_source = |name: &CStr| !sole || !source.is_some_and(|at| self.has_lost(at, name));
        let (left, below) = self.left_in(target, dir.key, &is_source);
        self.remove_all(target, left, shown(dir, c""));
        // Each with the directory that it is in: as many are open as there are levels.
        let mut below: Vec<(Option<Arc<OwnedFd>>, CString, Key, PathBuf)> = below
            .into_iter()
            .map(|name| (None, name, dir.key, shown(dir, c"")))
            .collect();
        while let Some((above, name, key, path)) = below.pop() {
            let at = above.as_ref().map_or(target, |above| above.as_fd());
            let Ok(here) = sys::open_target_dir(at, &name, false).map(Arc::new) else {
                continue;
            };
            let (key, path) = (key.child(&name), path.join(OsStr::from_bytes(name.to_bytes())));
            let (left, more) = self.left_in(here.as_fd(), key, &|_| !sole);
            self.remove_all(here.as_fd(), left, path.clone());
            let more = more.into_iter();
            below.extend(more.map(|name| (Some(here.clone()), name, key, path.clone())));
        }
    }

    /// Returns true if a source certainly has no directory of this name.
    fn has_lost(&self, source: BorrowedFd<'_>, name: &CStr) -> bool {
        let follow = self.context.options.dereference == Dereference::Always;
        match sys::stat_at(source, name, follow) {
            Ok(there) => !there.is_dir(),
            Err(error) => sys::is(&error, &[Errno::NOENT]),
        }
    }

    /// Lists what is not finished and has no source in a directory with this key, and the directories that an earlier run
    /// was in and this one will not be. A directory that may not be listed keeps what is in it.
    fn left_in(
        &self,
        target: BorrowedFd<'_>,
        key: Key,
        is_source: &dyn Fn(&CStr) -> bool,
    ) -> (io::Result<Vec<CString>>, Vec<CString>) {
        let (mut left, mut below) = (Vec::new(), Vec::new());
        let Some(before) = self.journal.before() else {
            return (Ok(left), below);
        };
        let is_ours = |partial: &Partial<'_>| {
            let near = |id: &u32| partial.id.wrapping_sub(*id) < NUMBERS;
            !partial.is_journal && before.runs().iter().any(near)
        };
        let listed = journal::each_name(target, usize::MAX, |name, kind| {
            let look = || sys::stat_at(target, name, false);
            if let Some(partial) = Partial::parse(name).filter(is_ours) {
                let of = CString::new(partial.of).expect("it was in a name");
                let goes = |there: Stat| match there.is_dir() {
                    true => before.has_made(key.child(&of), &there) && !is_source(&of),
                    false => true,
                };
                if look().is_ok_and(goes) {
                    left.push(name.into());
                }
            } else if kind != FileType::RegularFile
                && before.was_in(key.child(name), look)
                && !is_source(name)
            {
                below.push(name.into());
            }
        });
        match listed {
            Err(error) if !sys::is(&error, &[Errno::ACCESS]) => (Err(error), below),
            _ => (Ok(left), below),
        }
    }

    fn remove_all(&self, target: BorrowedFd<'_>, left: io::Result<Vec<CString>>, path: PathBuf) {
        match left {
            Ok(left) => {
                for name in left {
                    let path = path.join(OsStr::from_bytes(name.to_bytes()));
                    self.remove_left(target, &name, path);
                }
            }
            Err(error) => {
                self.reporter.failed(Step::Remove, path, error);
            }
        }
    }

    fn remove_left(&self, target: BorrowedFd<'_>, name: &CStr, path: PathBuf) {
        if let Err(error) = remove(target, name) {
            self.reporter.failed(Step::Remove, path, error);
        }
    }
}

/// Returns the path of a name in a target directory as it is shown; `.` for the current directory itself.
pub(crate) fn shown(dir: &Dir, name: &CStr) -> PathBuf {
    let path = dir.path(Side::Target, name);
    if path.as_os_str().is_empty() {
        return ".".into();
    }
    path
}
