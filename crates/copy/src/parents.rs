//! `--parents`: a source's whole path is made below the target, directory by directory, as the source has them. What
//! was made gets its metadata when everything is copied. Components that lead upwards are left out, so that nothing is
//! made outside the target.

use crate::dir::{Dir, Parts, Slot, State};
use crate::error::Step;
use crate::plan::top_of;
use crate::run::{Outcome, Worker};
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::io;
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
            match from.metadata() {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(worker.failed(Step::StatParent, from, Errno::NOTDIR.into())),
                Err(error) => return Err(worker.failed(Step::StatParent, from, error)),
            }
            let next = self
                .enter(&dir, &from, &shown, name)
                .map_err(|error| worker.failed(Step::CreateDirectory, shown, error))?;
            self.known.insert(below.clone(), next.clone());
            dir = next;
        }
        Ok(dir)
    }

    fn enter(
        &mut self,
        dir: &Arc<Dir>,
        from: &Path,
        shown: &Path,
        name: &std::ffi::OsStr,
    ) -> io::Result<Arc<Dir>> {
        let at = dir.open()?;
        let name = CString::new(name.as_bytes())?;
        let from = CString::new(from.as_os_str().as_bytes())?;
        let made = match rustix::fs::mkdirat(at.target(), &name, rustix::fs::Mode::from_raw_mode(0o700)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        // What is there may be a link to a directory: the user has named it.
        let target = sys::open_target_dir(at.target(), &name, !made)?;
        let source = sys::open_target_dir(at.source(), &from, true)?;
        let here = at.source().try_clone_to_owned()?;
        let next = top_of(
            here,
            target.try_clone()?,
            &CString::new(shown.as_os_str().as_bytes())?,
        )?;
        if made {
            self.made.push(Made {
                path: shown.into(),
                stat: sys::stat(source.as_fd())?,
                source,
                target,
                inherits: dir.inherits,
            });
        }
        Ok(next)
    }

    /// Gives the directories that were made their metadata, the deepest first.
    pub(crate) fn finish(&mut self, worker: &mut Worker<'_>) {
        for made in self.made.drain(..).rev() {
            let slot = || Slot::new(c"", made.stat.id, None);
            let dir = Dir::top(Parts {
                source: slot(),
                target: slot(),
                stat: made.stat,
                state: State::Made,
                inherits: made.inherits,
            });
            worker.dress_dir(&dir, Some(made.source.as_fd()), made.target.as_fd(), made.path);
        }
    }
}
