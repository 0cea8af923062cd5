//! Hard links across shards: a shard that copies a file of several names puts its copy into a directory beside the tree,
//! under a name that every machine makes from the same facts. A shard that meets another name of the file links to that.
//!
//! Two shards may copy a file at the same time. Only one of them can put it there, and the other one takes that.

use crate::api::error::Step;
use crate::api::observer::{Kind, Paths as _};
use crate::context::outcome::{End, Outcome};
use crate::context::reporter::Reporter;
use crate::entry::shared::Shared;
use crate::pair::part::Part;
use crate::pair::Entry;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::rc::Rc;

/// Makes the name that a file has in the farm: its inode and file system, and its size and time when it was copied. A file
/// that was changed, or has taken over another one's inode, has another name.
fn name_in_farm(entry: &Entry<'_>, stat: &Stat) -> CString {
    let volume = entry.at.dir.part.as_ref().map_or(0, |part| part.volume);
    let (seconds, nanoseconds) = (stat.mtime.tv_sec, stat.mtime.tv_nsec);
    let name = format!(
        "{volume:x}-{:x}-{:x}-{seconds:x}-{nanoseconds:x}",
        stat.id.1, stat.size
    );
    CString::new(name).expect("digits")
}

/// Links names of files to their copies in the farm.
pub(crate) struct FarmLinker<'a> {
    shared: &'a Shared<'a>,
    reporter: Rc<Reporter<'a>>,
}

impl<'a> FarmLinker<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>, reporter: Rc<Reporter<'a>>) -> FarmLinker<'a> {
        FarmLinker { shared, reporter }
    }

    /// Makes a file of several names, unless another shard has made it: then its name becomes a further one.
    pub(crate) fn once(
        &self,
        entry: &Entry<'_>,
        stat: &Stat,
        make: impl FnOnce() -> Outcome<()>,
    ) -> Outcome<()> {
        let Some(farm) = farm_of(&self.shared.part) else {
            return make();
        };
        let name = name_in_farm(entry, stat);
        let was_first = self.was_first(entry, farm, &name);
        if !was_first && self.link(entry, stat)? {
            return Ok(());
        }
        let before = self.reporter.linkable();
        make()?;
        match sys::link_at((entry.at.target(), entry.target), (farm, &name), AtFlags::empty()) {
            Ok(()) => {
                // Only the report of a further attempt depends on it.
                let _ = rustix::fs::symlinkat(place_of(entry), farm, first_of(&name));
                Ok(())
            }
            // It has as many names as it can have, or cannot have any: the others become copies.
            Err(Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP) => Ok(()),
            Err(Errno::EXIST) => {
                if self.take(entry, farm, &name)? && !was_first {
                    self.reporter.count_as_links(before);
                }
                Ok(())
            }
            Err(error) => Err(self.failed(entry, error.into())),
        }
    }

    /// Returns true if an earlier attempt has put the file there from this very name: then it is copied, and no
    /// link.
    fn was_first(&self, entry: &Entry<'_>, farm: BorrowedFd<'_>, name: &CStr) -> bool {
        let again = self.shared.part.shard().is_some_and(|shard| shard.again);
        let first = || rustix::fs::readlinkat(farm, first_of(name), Vec::new());
        again && first().is_ok_and(|first| first == place_of(entry))
    }

    /// Makes a name of a file that some shard has copied. Says whether there is one.
    pub(crate) fn link(&self, entry: &Entry<'_>, stat: &Stat) -> Outcome<bool> {
        let Some(farm) = farm_of(&self.shared.part) else {
            return Ok(false);
        };
        let taken = self.take(entry, farm, &name_in_farm(entry, stat))?;
        if taken {
            self.reporter.count(|report| report.hard_links += 1);
            self.shared.copied(&self.reporter, entry, Kind::HardLink, None);
        }
        Ok(taken)
    }

    fn failed(&self, entry: &Entry<'_>, error: io::Error) -> End {
        self.reporter
            .failed_with(Step::CreateHardLink, entry.target(), Some(entry.source()), error)
    }

    /// Gives what is in the farm the entry's name, whatever has it.
    fn take(&self, entry: &Entry<'_>, farm: BorrowedFd<'_>, name: &CStr) -> Outcome<bool> {
        let dir = entry.at.target();
        let link = |to: &CStr| rustix::fs::linkat(farm, name, dir, to, AtFlags::empty());
        let done = match link(entry.target) {
            Ok(()) => return Ok(true),
            // Not there, or with as many names as it can have: it is copied, or linked to a copy of this shard.
            Err(Errno::NOENT | Errno::MLINK) => return Ok(false),
            Err(Errno::EXIST) => {
                let id = |dir, name: &CStr| sys::stat_at(dir, name, false).map(|stat| stat.id);
                match (id(dir, entry.target), id(farm, name)) {
                    (Ok(there), Ok(here)) if there == here => return Ok(true),
                    _ => self.shared.context.partial(entry.target, |partial| {
                        link(partial)?;
                        let renamed = rustix::fs::renameat(dir, partial, dir, entry.target);
                        if renamed.is_err() {
                            let _ = rustix::fs::unlinkat(dir, partial, AtFlags::empty());
                        }
                        Ok::<(), io::Error>(renamed?)
                    }),
                }
            }
            Err(error) => Err(error.into()),
        };
        match done {
            Err(error) if sys::is(&error, &[Errno::MLINK]) => Ok(false),
            done => done.map(|_| true).map_err(|error| self.failed(entry, error)),
        }
    }
}

/// The name of the note about which name of a file was copied.
fn first_of(name: &CStr) -> CString {
    CString::new([name.to_bytes(), b".first"].concat()).expect("no zeros")
}

/// Returns a number that tells a name in the tree from all others.
fn place_of(entry: &Entry<'_>) -> CString {
    let place = entry
        .at
        .dir
        .part
        .as_ref()
        .map_or(0, |part| part.place(entry.source));
    CString::new(format!("{place:x}")).expect("digits")
}

fn farm_of(part: &Part) -> Option<BorrowedFd<'_>> {
    part.shard().map(|shard| shard.farm.as_fd())
}
