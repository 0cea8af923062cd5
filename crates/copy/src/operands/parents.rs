//! `--parents`: a source's whole path is made below the target, directory by directory, as the source has them. What
//! was made gets its metadata when everything is copied; with it, what was there gets what is to be preserved. A
//! component that leads upwards leads to the directory above, and from the target to the target, so that nothing is made
//! outside.

use crate::api::error::{Diagnostic, Refusal, Step};
use crate::api::observer::Kind;
use crate::context::outcome::Outcome;
use crate::entry::dry_run::would_make;
use crate::metadata::xattr;
use crate::pair::digest::Key;
use crate::pair::directory::{Dir, Parts, Slot, State};
use crate::pair::Entry;
use crate::sys::{self, FileId, Stat};
use crate::walk::top::parts_of_top;
use crate::walk::walker::Walker;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

pub(crate) struct Parents {
    /// The target as the user names it.
    target: PathBuf,
    top: Arc<Dir>,
    /// The pair for each path below it, as many as may be open.
    known: HashMap<PathBuf, Arc<Dir>>,
    /// Directories that were made, by their paths below the target. They are reported, and are to be finished.
    made: HashSet<PathBuf>,
    /// Directories that existed, by their paths below the target.
    found: HashSet<PathBuf>,
    unfinished: Vec<Unfinished>,
}

struct Unfinished {
    /// Made by us, or there before.
    state: State,
    below: PathBuf,
    /// The path of the source.
    from: PathBuf,
    stat: Stat,
    id: FileId,
    inherits: bool,
}

impl Parents {
    pub(crate) fn new(target: PathBuf, top: Arc<Dir>) -> Parents {
        Parents {
            target,
            top,
            known: HashMap::new(),
            made: HashSet::new(),
            found: HashSet::new(),
            unfinished: Vec::new(),
        }
    }

    /// Returns true if no more pairs may be open.
    pub(crate) fn is_full(&self, walker: &Walker<'_>) -> bool {
        self.known.len() >= walker.run.limits.keep
    }

    /// Closes them, unless there is something left to be done in them.
    pub(crate) fn let_go(&mut self) {
        self.known.clear();
    }

    /// The name of a source's copy, in the directory of its parents. `a/.` is `a`; `a/..` and `.`
    /// have none, and are merged into it.
    pub(crate) fn last_name(source: &Path) -> CString {
        let name = source.file_name().map_or(&b"."[..], OsStr::as_bytes);
        CString::new(name).expect("the path had no zeros")
    }

    /// The pair whose target is the directory that the source's copy goes to.
    pub(crate) fn of(&mut self, walker: &mut Walker<'_>, source: &Path) -> Outcome<Arc<Dir>> {
        let (unfinished, made) = (self.unfinished.len(), self.made.len());
        let dir = self.walk(walker, source);
        if self.made.len() == made {
            // As with GNU cp, directories that are all there keep their metadata.
            for there in self.unfinished.split_off(unfinished) {
                self.found.remove(&there.below);
                self.known.remove(&there.below);
            }
        }
        dir
    }

    fn walk(&mut self, walker: &mut Walker<'_>, source: &Path) -> Outcome<Arc<Dir>> {
        let mut dir = self.top.clone();
        let (mut from, mut below) = (PathBuf::new(), PathBuf::new());
        for component in above(source).components() {
            from.push(component);
            let name = match component {
                Component::Normal(name) => name,
                Component::ParentDir => {
                    below.pop();
                    dir = self.known.get(&below).unwrap_or(&self.top).clone();
                    continue;
                }
                _ => continue,
            };
            below.push(name);
            if let Some(known) = self.known.get(&below) {
                dir = known.clone();
                continue;
            }
            let next = self.enter(walker, &dir, &from, &below, name)?;
            self.known.insert(below.clone(), next.clone());
            dir = next;
        }
        Ok(dir)
    }

    fn enter(
        &mut self,
        walker: &mut Walker<'_>,
        dir: &Arc<Dir>,
        from: &Path,
        below: &Path,
        name: &OsStr,
    ) -> Outcome<Arc<Dir>> {
        let shown = self.target.join(below);
        let name = CString::new(name.as_bytes()).expect("it was in a path");
        let source = CString::new(from.as_os_str().as_bytes()).expect("it was in a path");
        let found = dir.open().and_then(|at| {
            let fd = sys::open_target_dir(at.source(), &source, true)?;
            Ok((sys::stat(fd.as_fd())?, at))
        });
        let (stat, at) =
            found.map_err(|error| walker.reporter.failed(Step::StatParent, from.into(), error))?;
        let dry = walker.shared.context.options.dry_run;
        let made = match dry {
            true => would_make(&at, &name),
            false => walker.maker.make_closed(&at, &name, &stat),
        };
        let made = match made {
            Ok(()) => true,
            Err(error) if sys::is(&error, &[Errno::EXIST]) => false,
            Err(error) => return Err(walker.reporter.failed(Step::CreateDirectory, shown, error)),
        };
        let (opens, state) = match made && dry {
            true => (c".", State::Imagined),
            false => (name.as_c_str(), State::Existing),
        };
        // What is there may be a link to a directory: the user has named it. What we made is none.
        let follow = !made && !self.made.contains(below);
        let inherits = walker.maker.hands_down(dir);
        let opened = sys::open_target_dir(at.target(), opens, follow).and_then(|target| {
            if made && !dry && dir.inherits && !inherits {
                xattr::drop_lists(target.as_fd())?;
            }
            let here = at.source().try_clone_to_owned()?;
            let label = CString::new(shown.as_os_str().as_bytes())?;
            let parts = parts_of_top(here, target, &label, state)?;
            Ok(Dir::top(parts, dir.key.child(&name)))
        });
        let next = opened.map_err(|error| {
            if !made && sys::is(&error, &[Errno::NOTDIR]) {
                let refused = Diagnostic::Refused {
                    refusal: Refusal::ParentNoDirectory,
                    source: from.into(),
                    target: shown,
                };
                return walker.reporter.tell(&refused);
            }
            walker.reporter.failed(Step::OpenTargetDirectory, shown, error)
        })?;
        walker.shared.watch_disk(&walker.reporter, &next, dir.target.id());
        let ours = made
            || walker
                .copier
                .entries
                .files
                .previous
                .was_made(dir, &name, &next.stat);
        if ours && self.made.insert(below.into()) {
            walker.shared.journal.made(dir, &name, &next.stat);
            let entry = Entry {
                at: &at,
                source: &source,
                target: &name,
            };
            walker.reporter.count(|report| report.directories += 1);
            walker
                .shared
                .copied(&walker.reporter, &entry, Kind::Directory, None);
        } else if ours || !self.found.insert(below.into()) {
            return Ok(next);
        }
        if !dry && (ours || walker.shared.context.options.preserve.of_directories()) {
            self.unfinished.push(Unfinished {
                state: if ours { State::Made } else { State::Existing },
                below: below.into(),
                from: from.into(),
                stat,
                id: next.target.id(),
                inherits,
            });
        }
        Ok(next)
    }

    /// Gives the directories their metadata, the deepest first.
    pub(crate) fn finish(&mut self, walker: &mut Walker<'_>) {
        self.let_go();
        for made in std::mem::take(&mut self.unfinished).into_iter().rev() {
            let path = self.target.join(&made.below);
            match self.open(&made) {
                Ok((from, to)) => finish_one(walker, &made, from, to, path),
                Err(error) => {
                    walker.reporter.failed(Step::OpenTargetDirectory, path, error);
                }
            }
        }
    }

    /// The source, if it is still there, and the target, by its path: what the way leads through may be a link that the
    /// user has put there, and where it ends must be what we made.
    fn open(&self, made: &Unfinished) -> io::Result<(Option<OwnedFd>, OwnedFd)> {
        let at = self.top.open()?;
        let same = |fd: OwnedFd, id| match sys::stat(fd.as_fd())?.id == id {
            true => Ok(fd),
            false => Err(io::Error::other("the directory was replaced by another one")),
        };
        let open = |dir, path: &Path, id| {
            let path = CString::new(path.as_os_str().as_bytes())?;
            same(sys::open_target_dir(dir, &path, true)?, id)
        };
        let from = open(at.source(), &made.from, made.stat.id).ok();
        Ok((from, open(at.target(), &made.below, made.id)?))
    }
}

/// The path to a source's last name: all of it, if there is none.
fn above(source: &Path) -> &Path {
    match source.file_name() {
        Some(_) => source.parent().unwrap_or(Path::new("")),
        None => source,
    }
}

fn finish_one(walker: &mut Walker<'_>, made: &Unfinished, from: Option<OwnedFd>, to: OwnedFd, path: PathBuf) {
    let slot = || Slot::new(c"", made.stat.id, None);
    let parts = Parts {
        source: slot(),
        target: slot(),
        stat: made.stat,
        state: made.state,
        resumed: false,
        inherits: made.inherits,
        part: None,
    };
    let dir = Dir::top(parts, Key::TOP);
    let from = from.as_ref().map(|fd| fd.as_fd());
    walker
        .finisher
        .metadata
        .apply_to_directory(&dir, from, to.as_fd(), path.clone());
    if let Some(from) = from {
        walker.finisher.metadata.held_dir_flags(from, to, path);
    }
}
