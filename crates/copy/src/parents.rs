//! `--parents`: a source's whole path is made below the target, directory by directory, as the source has them. What
//! was made gets its metadata when everything is copied. Components that lead upwards are left out, so that nothing is
//! made outside the target.

use crate::dir::{Dir, Parts, Slot, State};
use crate::entry::Entry;
use crate::error::Step;
use crate::journal::Key;
use crate::observer::Kind;
use crate::plan::top_of;
use crate::rehearse::would_make;
use crate::run::{Outcome, Worker};
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::Mode;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

pub(crate) struct Parents {
    /// The target as the user names it.
    target: PathBuf,
    /// The pair for each path below it.
    known: HashMap<PathBuf, Arc<Dir>>,
    made: Vec<Made>,
}

struct Made {
    path: PathBuf,
    source: OwnedFd,
    target: OwnedFd,
    stat: Stat,
    inherits: bool,
}

impl Parents {
    pub(crate) fn new(target: PathBuf, top: Arc<Dir>) -> Parents {
        Parents {
            target,
            known: HashMap::from([(PathBuf::new(), top)]),
            made: Vec::new(),
        }
    }

    /// The pair whose target is the directory that the source's copy goes to.
    pub(crate) fn of(&mut self, worker: &mut Worker<'_>, source: &Path) -> Outcome<Arc<Dir>> {
        let mut dir = self.known[Path::new("")].clone();
        let (mut from, mut below) = (PathBuf::new(), PathBuf::new());
        for component in source.parent().unwrap_or(Path::new("")).components() {
            from.push(component);
            let Component::Normal(name) = component else {
                continue;
            };
            below.push(name);
            if let Some(known) = self.known.get(&below) {
                dir = known.clone();
                continue;
            }
            let shown = self.target.join(&below);
            let next = self.enter(worker, &dir, &from, &shown, name)?;
            self.known.insert(below.clone(), next.clone());
            dir = next;
        }
        Ok(dir)
    }

    fn enter(
        &mut self,
        worker: &mut Worker<'_>,
        dir: &Arc<Dir>,
        from: &Path,
        shown: &Path,
        name: &OsStr,
    ) -> Outcome<Arc<Dir>> {
        let name = CString::new(name.as_bytes()).expect("it was in a path");
        let source = CString::new(from.as_os_str().as_bytes()).expect("it was in a path");
        let found = dir.open().and_then(|at| {
            let fd = sys::open_target_dir(at.source(), &source, true)?;
            Ok((sys::stat(fd.as_fd())?, fd, at))
        });
        let (stat, fd, at) = found.map_err(|error| worker.failed(Step::StatParent, from.into(), error))?;
        let dry = worker.options().dry_run;
        let made = match dry {
            true => would_make(&at, &name),
            false => rustix::fs::mkdirat(at.target(), &name, Mode::from_raw_mode(0o700)).map_err(Into::into),
        };
        let made = match made {
            Ok(()) => true,
            Err(error) if sys::is(&error, &[Errno::EXIST]) => false,
            Err(error) => return Err(worker.failed(Step::CreateDirectory, shown.into(), error)),
        };
        let (opens, state) = match made && dry {
            true => (c".", State::Imagined),
            false => (name.as_c_str(), State::Existing),
        };
        // What is there may be a link to a directory: the user has named it.
        let opened = sys::open_target_dir(at.target(), opens, !made).and_then(|target| {
            let here = at.source().try_clone_to_owned()?;
            let label = CString::new(shown.as_os_str().as_bytes())?;
            let key = dir.key.child(&name);
            Ok((top_of(here, target.try_clone()?, &label, state, key)?, target))
        });
        let (next, target) =
            opened.map_err(|error| worker.failed(Step::OpenTargetDirectory, shown.into(), error))?;
        let ours = made || worker.was_made(dir, &name, &next.stat);
        if ours {
            worker.note_made(dir, &name, &next.stat);
            let entry = Entry {
                at: &at,
                source: &source,
                target: &name,
            };
            worker.copied(&entry, Kind::Directory, None);
        }
        if made && !dry {
            self.made.push(Made {
                path: shown.into(),
                source: fd,
                target,
                stat,
                inherits: dir.inherits,
            });
        }
        Ok(next)
    }

    /// Gives the directories that were made their metadata, the deepest first.
    pub(crate) fn finish(&mut self, worker: &mut Worker<'_>) {
        for made in self.made.drain(..).rev() {
            let slot = || Slot::new(c"", made.stat.id, None);
            let parts = Parts {
                source: slot(),
                target: slot(),
                stat: made.stat,
                state: State::Made,
                resumed: false,
                inherits: made.inherits,
                part: None,
            };
            let dir = Dir::top(parts, Key::TOP);
            let from = made.source.as_fd();
            worker.dress_dir(&dir, Some(from), made.target.as_fd(), made.path.clone());
            worker.held_dir_flags(from, made.target, made.path);
        }
    }
}
