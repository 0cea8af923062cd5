//! Directories of the target: made, or merged into.

use crate::api::error::{Refusal, Step};
use crate::api::observer::Paths;
use crate::api::options::{Mode, When};
use crate::context::outcome::Outcome;
use crate::context::reporter::Reporter;
use crate::entry::destination::{Destination, Destinations};
use crate::entry::name::Namer;
use crate::entry::shared::Shared;
use crate::metadata::apply;
use crate::metadata::inode_flags;
use crate::metadata::xattr;
use crate::pair::directory::{Dir, Opened, State};
use crate::pair::Entry;
use crate::resume::claim::{self, Claimed};
use crate::resume::previous_run::PreviousRun;
use crate::sys::remove::remove;
use crate::sys::{self, Stat};
use crate::walk::block_groups::GroupDirectory;
use crate::walk::run::Run;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::rc::Rc;

/// The target's side of a new pair.
pub(crate) struct Made {
    /// The descriptor; `None` if the directory is only imagined.
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) stat: Stat,
    pub(crate) state: State,
    pub(crate) partial: Option<CString>,
    pub(crate) resumed: bool,
    /// Its name is that of a link to it.
    pub(crate) through_link: bool,
    pub(crate) inherits: bool,
}

/// Makes the directories of one thread.
pub(crate) struct DirectoryMaker<'a> {
    run: &'a Run<'a>,
    shared: &'a Shared<'a>,
    reporter: Rc<Reporter<'a>>,
    destinations: Rc<Destinations<'a>>,
    namer: Rc<Namer<'a>>,
    previous: Rc<PreviousRun<'a>>,
    group_directory: GroupDirectory,
}

impl<'a> DirectoryMaker<'a> {
    /// Makes the maker of the thread with this number.
    pub(crate) fn new(
        run: &'a Run<'a>,
        reporter: Rc<Reporter<'a>>,
        destinations: Rc<Destinations<'a>>,
        namer: Rc<Namer<'a>>,
        previous: Rc<PreviousRun<'a>>,
        number: usize,
    ) -> DirectoryMaker<'a> {
        DirectoryMaker {
            run,
            shared: &run.shared,
            reporter,
            destinations,
            namer,
            previous,
            group_directory: GroupDirectory::of(number),
        }
    }

    /// The directory that the source's entries go to.
    pub(crate) fn target_dir(&mut self, entry: &Entry<'_>, source: &Stat) -> Outcome<Made> {
        if entry.at.dir.state.is_private() {
            return match self.previous.left_dir(entry)? {
                true => self.enter_dir(entry, State::Hidden, entry.target.into(), true),
                false => self.make_dir(entry, State::Hidden, source),
            };
        }
        if !self.shared.part.is_whole() {
            return self.make_dir(entry, State::Shared, source);
        }
        match entry.existing(&self.reporter)? {
            Some(there) if there.is_dir() => {
                self.drop_left_tree(entry)?;
                self.existing_dir(entry, source, false)
            }
            Some(there) if there.is_symlink() && self.keeps_link(entry) => {
                self.existing_dir(entry, source, true)
            }
            Some(there) => {
                if there.id == source.id {
                    return Err(self.reporter.refused(Refusal::SameFile, entry));
                }
                Err(self.reporter.refused(Refusal::DirectoryOverFile, entry))
            }
            None if self.shared.context.options.in_place => self.make_dir(entry, State::Made, source),
            None => self.new_tree(entry, source),
        }
    }

    /// Returns true if a link in the place of a directory stays, and what it leads to is merged into.
    fn keeps_link(&self, entry: &Entry<'_>) -> bool {
        self.shared.context.options.keep_directory_symlink
            && sys::stat_at(entry.at.target(), entry.target, true).is_ok_and(|stat| stat.is_dir())
    }

    fn existing_dir(&self, entry: &Entry<'_>, source: &Stat, through_link: bool) -> Outcome<Made> {
        let opened = sys::open_target_dir(entry.at.target(), entry.target, through_link)
            .and_then(|fd| sys::stat(fd.as_fd()).map(|stat| (fd, stat)));
        let (fd, stat) = opened.map_err(|error| {
            self.reporter
                .failed(Step::OpenTargetDirectory, entry.target(), error)
        })?;
        if stat.id == source.id {
            // All that is in it is there.
            return Err(match self.shared.context.options.overwrite.when {
                When::None => self.destinations.skip(entry, source),
                _ => self.reporter.refused(Refusal::SameFile, entry),
            });
        }
        if entry.at.dir.is_top() {
            self.run.trees.add_root(stat.id);
        }
        let inherits = xattr::inherits(fd.as_fd());
        let ours = self.previous.was_made(&entry.at.dir, entry.target, &stat);
        if !ours {
            self.shared.journal.entered(entry, &stat);
        }
        if ours && self.shared.context.options.preserve.flags {
            inode_flags::unlock(fd.as_fd())
                .map_err(|error| self.reporter.failed(Step::SetFlags, entry.target(), error))?;
        }
        Ok(Made {
            fd: Some(fd),
            stat,
            state: if ours { State::Made } else { State::Existing },
            partial: None,
            resumed: false,
            through_link,
            inherits,
        })
    }

    /// Makes a directory for us alone; it gets its permissions when it is finished. Where it is to inherit a list, the
    /// kernel needs to know its permissions now.
    fn make_dir(&mut self, entry: &Entry<'_>, state: State, source: &Stat) -> Outcome<Made> {
        if self.shared.context.options.dry_run {
            return self.imagine_dir(entry, source);
        }
        let plain = self.hands_down(&entry.at.dir) || self.shared.context.options.preserve.flags;
        let apart = state == State::Hidden && !plain && self.group_directory.make(self.run, entry);
        let make = |name: &CStr| match self.make_closed(entry.at, name, source) {
            // For the same copy, in another part of it.
            Err(error) if sys::is(&error, &[Errno::EXIST]) && state == State::Shared => Ok(()),
            made => made,
        };
        if let Some(partial) = self.shared.part.partial(entry) {
            // It was made when the copy was planned.
            return self.enter_dir(entry, state, partial.into(), false);
        }
        let made = match state {
            State::Partial => self
                .shared
                .context
                .partial(entry.target, make)
                .map(|(name, ())| name),
            _ if apart => Ok(entry.target.into()),
            _ => make(entry.target).map(|()| entry.target.into()),
        };
        let name =
            made.map_err(|error| self.reporter.failed(Step::CreateDirectory, entry.target(), error))?;
        let made = self
            .enter_dir(entry, state, name.clone(), false)
            .inspect_err(|_| {
                if state != State::Shared {
                    // It is empty, and in the way of the next attempt.
                    let _ = rustix::fs::unlinkat(entry.at.target(), &name, AtFlags::REMOVEDIR);
                }
            })?;
        if !matches!(state, State::Hidden | State::Shared) {
            self.shared.journal.made(&entry.at.dir, entry.target, &made.stat);
        }
        Ok(made)
    }

    /// Makes a directory that is closed to all other users, except those that an inherited list gives the right to.
    pub(crate) fn make_closed(&self, at: &Opened, name: &CStr, source: &Stat) -> io::Result<()> {
        let mode = match self.shared.context.options.preserve.mode {
            _ if !self.hands_down(&at.dir) => 0o700,
            Mode::Fresh => apply::fresh_dir(source),
            _ => source.mode & 0o1777 | 0o700,
        };
        let masked = self.shared.context.umask & 0o700 != 0 || at.dir.inherits;
        sys::make_own_dir(at.target(), name, mode, masked)
    }

    /// Returns true if a new directory gets lists from the one that it is in.
    pub(crate) fn hands_down(&self, dir: &Dir) -> bool {
        dir.inherits && self.shared.context.options.preserve.mode != Mode::Preserve
    }

    /// Opens a directory that was made by us, in this run or an earlier one.
    fn enter_dir(&self, entry: &Entry<'_>, state: State, name: CString, resumed: bool) -> Outcome<Made> {
        let of_all = self.shared.part.partial(entry);
        let inherits = self.hands_down(&entry.at.dir);
        let at = entry.at.target();
        let opened = match resumed {
            true => sys::open_own_dir(at, &name),
            false => sys::open_dir(at, &name, false),
        };
        let opened = opened.and_then(|fd| {
            let stat = sys::stat(fd.as_fd())?;
            // It may have its final permissions already.
            let closed = stat.permissions() & 0o7000 | 0o700;
            if resumed && !inherits && stat.permissions() != closed {
                rustix::fs::fchmod(&fd, rustix::fs::Mode::from_raw_mode(closed))?;
            }
            // It may have the final lists as well, which what is still to be made in it would get.
            if (entry.at.dir.inherits || resumed) && !inherits {
                xattr::drop_lists(fd.as_fd())?;
            }
            if resumed {
                // The source may have lost some of them.
                xattr::drop_given(fd.as_fd(), self.shared.context.options);
            }
            Ok((fd, stat))
        });
        let (fd, stat) = opened.map_err(|error| {
            self.reporter
                .failed(Step::OpenTargetDirectory, entry.target(), error)
        })?;
        if of_all.is_some() || !matches!(state, State::Hidden | State::Shared) {
            self.run.trees.add_root(stat.id);
            self.run.trees.add_maker(entry.at.dir.target.id());
        }
        Ok(Made {
            fd: Some(fd),
            stat,
            state,
            partial: of_all
                .map(CString::from)
                .or_else(|| (state == State::Partial).then_some(name)),
            resumed,
            through_link: false,
            inherits,
        })
    }

    /// Makes the tree of a source that was named, unless another copy is making it.
    fn new_tree(&mut self, entry: &Entry<'_>, source: &Stat) -> Outcome<Made> {
        let mut claim = None;
        if entry.at.dir.is_top() && !self.shared.context.options.dry_run {
            match claim::take(entry.at.target(), entry.target) {
                Claimed::Others(process) => {
                    return Err(self.reporter.refused(Refusal::BeingMade { process }, entry))
                }
                Claimed::Ours(claimed) => claim = claimed,
            }
            if entry.existing(&self.reporter)?.is_some() {
                // The copy that had the claim has ended.
                drop(claim);
                return self.target_dir(entry, source);
            }
        }
        let made = match self.previous.left_tree(entry)? {
            Some(name) => self.enter_dir(entry, State::Partial, name, true),
            None => self.make_dir(entry, State::Partial, source),
        }?;
        if let Some(claim) = claim {
            self.run.trees.claims.add(made.stat.id, claim);
        }
        Ok(made)
    }

    /// Removes the tree that an earlier run has left for this target: another program has made the target since.
    fn drop_left_tree(&self, entry: &Entry<'_>) -> Outcome<()> {
        if self.shared.journal.before().is_none()
            || !entry.at.dir.is_top()
            || self.shared.context.options.dry_run
        {
            return Ok(());
        }
        // Its lock, which no process holds any more, goes as well.
        let _claim = claim::take(entry.at.target(), entry.target);
        let Some(name) = self.previous.left_tree(entry)? else {
            return Ok(());
        };
        remove(entry.at.target(), &name)
            .map_err(|error| self.reporter.failed(Step::Remove, entry.target(), error))
    }

    /// A directory that would be made.
    fn imagine_dir(&self, entry: &Entry<'_>, source: &Stat) -> Outcome<Made> {
        let parent = &entry.at.dir;
        if !parent.state.is_private() {
            self.namer
                .dry_run(entry, &Destination::New, (Step::CreateDirectory, None))?;
            self.run.trees.add_maker(parent.target.id());
        }
        Ok(Made {
            fd: None,
            // No file has this number.
            stat: Stat {
                id: (0, 0),
                ..*source
            },
            state: State::Imagined,
            partial: None,
            resumed: false,
            through_link: false,
            inherits: false,
        })
    }
}
