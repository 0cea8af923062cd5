//! Going on where a run was killed: what is in the target already and may stay, what has to go, and which journal tells.
//!
//! Invariant: what stays was finished by us and its source is still what it was; everything else is made again.

use crate::api::error::{Diagnostic, Refusal, Step, Warning};
use crate::api::observer::{Copied, Kind, Paths};
use crate::api::options::{Dereference, Fsync, Options};
use crate::context::outcome::Outcome;
use crate::entry::remove::remove;
use crate::job::names::partial_name;
use crate::job::worker::Worker;
use crate::pair::digest::Key;
use crate::pair::directory::{Dir, Side};
use crate::pair::Entry;
use crate::resume::journal::{self, Begun, Durable, Journal, Partial, Search, Unfit};
use crate::sys::listing::Listing;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Between barriers. The kernel writes by itself what is older than half a minute, so neither writes more than it would.
const BARRIER_ASKED: Duration = Duration::from_secs(60);
const BARRIER_UNASKED: Duration = Duration::from_secs(300);

/// Partial names of a run end in its id, or in the next free number where a name is taken: nobody needs more of them.
pub(crate) const NUMBERS: u32 = 16;

/// File systems with the coarsest times have those of every other second.
const COARSEST_S: i64 = 2;

/// How much of a directory is read for a hint: a thousand names.
const READS_FOR_A_HINT: usize = 1;

/// How sure a journal is.
pub(crate) fn durable(options: &Options) -> Durable {
    match options.fsync {
        Fsync::Each => Durable::Each,
        Fsync::End => Durable::Every(BARRIER_ASKED),
        Fsync::None => Durable::Every(BARRIER_UNASKED),
    }
}

impl Worker<'_> {
    /// Opens this run's journal: a new one, or with `resume` the one that was left. An error has been told, and nothing
    /// is to be copied.
    pub(crate) fn open_journal(&mut self, top: &Arc<Dir>) -> Outcome<()> {
        let run = self.run;
        if !run.is_journaled() {
            return Ok(());
        }
        if run.context.options.dry_run {
            return self.dry_run_resume(top);
        }
        let opened = top.open().and_then(|at| {
            let dir = at.target().try_clone_to_owned()?;
            let partial = run.partial_name(&run.first_name(), 0);
            let disk = run.disks.of(at.target()).ok();
            Ok((
                Journal::new(dir, &partial, run.id, durable(run.context.options), disk)?,
                at,
            ))
        });
        let (mut journal, at) = match opened {
            Ok(opened) => opened,
            Err(error) if run.context.options.resume => {
                return Err(self.reporter.failed(Step::Journal, shown(top, c""), error));
            }
            // Without descriptors for it, the copy says what fails.
            Err(_) => return Ok(()),
        };
        if run.context.options.resume {
            let found = journal::find(at.target(), &run.asked().0, true);
            match found.map_err(|error| self.reporter.failed(Step::Journal, shown(top, c""), error))? {
                Search::Nothing => {}
                Search::Unfit(name, unfit, head) => return Err(self.unfit(top, &name, unfit, &head.source)),
                Search::Found(found) => {
                    let path = shown(top, found.name());
                    journal = journal
                        .go_on(found)
                        .map_err(|error| self.reporter.failed(Step::Journal, path, error))?;
                }
            }
        }
        let begins = !journal.before.is_any();
        let _ = run.journal.set(journal);
        if begins {
            self.hint(top, at.target());
            if run.context.options.resume {
                // Who asks for it wants whatever is made to be found again.
                self.journal.write();
            }
        } else {
            self.tidy_existing(top, at.target(), None);
        }
        Ok(())
    }

    /// What a copy would say of what was left.
    fn dry_run_resume(&mut self, top: &Arc<Dir>) -> Outcome<()> {
        // A target that is not there has nothing.
        let Ok(at) = top.open() else { return Ok(()) };
        if self.options().resume {
            let found = journal::find(at.target(), &self.run.asked().0, false);
            match found.map_err(|error| self.reporter.failed(Step::Journal, shown(top, c""), error))? {
                Search::Unfit(name, unfit, head) => return Err(self.unfit(top, &name, unfit, &head.source)),
                Search::Found(_) => return Ok(()),
                Search::Nothing => {}
            }
        }
        self.hint(top, at.target());
        Ok(())
    }

    fn unfit(&mut self, top: &Dir, name: &CStr, unfit: Unfit, source: &[u8]) -> crate::context::outcome::End {
        let refusal = match unfit {
            Unfit::Busy => Refusal::ResumeBusy,
            Unfit::OtherSource => Refusal::ResumeOtherSource,
            Unfit::OtherOptions => Refusal::ResumeOtherOptions,
            Unfit::Ambiguous => Refusal::ResumeAmbiguous,
        };
        let refused = Diagnostic::Refused {
            refusal,
            source: OsStr::from_bytes(source).into(),
            target: shown(top, name),
        };
        self.reporter.tell(&refused)
    }

    /// Says what an earlier run has left, if it is among the first names.
    fn hint(&mut self, top: &Dir, dir: BorrowedFd<'_>) {
        let targets = self.run.target_names();
        let mut left = Vec::new();
        let see = |name: &CStr, partial: Partial<'_>| {
            if targets.iter().any(|target| target.to_bytes() == partial.of) {
                left.push((CString::from(name), partial.is_journal));
            }
        };
        // If it cannot be read, there is no hint.
        let _ = journal::each_partial(dir, READS_FOR_A_HINT, see);
        for (name, is_journal) in &left {
            let journal = if *is_journal {
                name.clone()
            } else {
                journal::name_of(name)
            };
            let has_journal = *is_journal || left.contains(&(journal.clone(), true));
            let is_dir = || sys::stat_at(dir, name, false).is_ok_and(|stat| stat.is_dir());
            let warning = match has_journal {
                true if !is_journal || journal::is_busy(dir, &journal) => continue,
                true => Warning::LeftJournal,
                false if is_dir() => Warning::LeftTree,
                false => continue,
            };
            self.reporter.tell(&Diagnostic::Warning {
                warning,
                path: shown(top, name),
            });
        }
    }

    /// What an earlier run had begun to write, if it is this file by its inode.
    pub(crate) fn was_begun(&self, entry: &Entry<'_>, there: &Stat) -> Option<Begun> {
        let before = self.run.before()?;
        before.has_begun(entry.at.dir.key.child(entry.target), there)
    }

    /// The same, if nothing else is in it than what is in the source as well: somebody may have written to it since, or
    /// have a new file of that inode.
    pub(crate) fn left_half(
        &mut self,
        entry: &Entry<'_>,
        source: &Stat,
        there: &Stat,
        through_link: bool,
    ) -> Option<Begun> {
        let begun = self.was_begun(entry, there)?;
        if through_link && !matches!(begun, Begun::Over(_)) {
            return None;
        }
        let follow = self.run.follows(&entry.at.dir);
        let open = |dir, name, follow, wanted: &Stat| {
            let fd = sys::open_source(dir, name, follow, false)?;
            let found = sys::stat(fd.as_fd())?;
            Ok::<_, io::Error>((found.id == wanted.id && found.is_file()).then_some(fd))
        };
        let from = open(entry.at.source(), entry.source, follow, source).ok()??;
        let to = open(entry.at.target(), entry.target, through_link, there).ok()??;
        let is_part = self.data.is_part(from.as_fd(), to.as_fd(), there.size);
        matches!(is_part, Ok(true)).then_some(begun)
    }

    /// Whether an earlier run has finished this file. In a directory of ours, what has the name goes if not.
    pub(crate) fn stays(&mut self, entry: &Entry<'_>, source: &Stat) -> Outcome<bool> {
        let dir = &entry.at.dir;
        let private = dir.state.is_private();
        let Some(before) = self.run.before() else {
            return Ok(false);
        };
        if private && !dir.resumed {
            return Ok(false);
        }
        if self.stays_finished(entry, source) {
            return Ok(true);
        }
        let key = dir.key.child(entry.target);
        if before.knows_file(key) {
            self.journal.void(key);
        }
        self.make_room(entry)?;
        Ok(false)
    }

    /// Whether an earlier run has finished this, and it is there.
    pub(crate) fn was_finished(&self, entry: &Entry<'_>, source: &Stat) -> bool {
        let Some(before) = self.run.before() else {
            return false;
        };
        let dir = &entry.at.dir;
        let key = dir.key.child(entry.target);
        // What cannot be looked at is told by whoever wants to write there.
        let there = sys::stat_at(entry.at.target(), entry.target, false);
        there.is_ok_and(|there| {
            self.is_like(source, &there) && before.has_file(key, source, &there, dir.state.is_private())
        })
    }

    /// The same; then it stays, and this has been told.
    pub(crate) fn stays_finished(&mut self, entry: &Entry<'_>, source: &Stat) -> bool {
        let stays = self.was_finished(entry, source);
        if stays {
            self.reporter.count(|report| report.resumed += 1);
            self.run.note_created(entry, Kind::of(source.file_type()));
            self.run.context.observer.resumed(&Copied {
                kind: Kind::of(source.file_type()),
                bytes: if source.is_file() { source.size } else { 0 },
                backup: None,
                how: None,
                paths: entry,
            });
        }
        stays
    }

    /// Whether something looks as what is finished does.
    fn is_like(&self, source: &Stat, there: &Stat) -> bool {
        let apart_s = source.mtime.tv_sec.abs_diff(there.mtime.tv_sec);
        let same_time = !self.options().preserve.timestamps || apart_s <= COARSEST_S.unsigned_abs();
        source.file_type() == there.file_type() && there.size == source.size && same_time
    }

    /// In a directory of ours from an earlier run: removes what has the name.
    pub(crate) fn make_room(&mut self, entry: &Entry<'_>) -> Outcome<()> {
        if !entry.at.dir.resumed {
            return Ok(());
        }
        remove(entry.at.target(), entry.target)
            .map_err(|error| self.reporter.failed(Step::Remove, entry.target(), error))
    }

    /// Whether there is a directory of an earlier run, in a directory of ours. Anything else goes.
    pub(crate) fn left_dir(&mut self, entry: &Entry<'_>) -> Outcome<bool> {
        if !entry.at.dir.resumed {
            return Ok(false);
        }
        let is_dir = self.existing(entry)?.is_some_and(|there| there.is_dir());
        if !is_dir {
            self.make_room(entry)?;
        }
        Ok(is_dir)
    }

    /// The name of a tree that an earlier run has left for this target, if it is surely ours.
    pub(crate) fn left_tree(&mut self, entry: &Entry<'_>) -> Outcome<Option<CString>> {
        let found = self.find_left_tree(entry);
        found.map_err(|(_, error)| self.reporter.failed(Step::StatTarget, entry.target(), error))
    }

    /// What could not even be begun may have a tree of an earlier run, which stays and is told of.
    pub(crate) fn keep_left_tree(&mut self, entry: &Entry<'_>) {
        let dir = &entry.at.dir;
        let is_apart = dir.state.is_private() || self.options().in_place;
        if is_apart || self.options().dry_run || !self.run.part.is_whole() {
            return;
        }
        if let Ok(Some(name)) | Err((name, _)) = self.find_left_tree(entry) {
            self.reporter
                .count(|report| report.partial.push(shown(dir, &name)));
        }
    }

    /// An error has the name that could not be looked at.
    fn find_left_tree(&self, entry: &Entry<'_>) -> Result<Option<CString>, (CString, io::Error)> {
        let Some(before) = self.run.before() else {
            return Ok(None);
        };
        let key = entry.at.dir.key.child(entry.target);
        let numbers = before
            .runs()
            .iter()
            .flat_map(|id| (0..NUMBERS).map(|n| id.wrapping_add(n)));
        let at = entry.at.target();
        for name in numbers.map(|number| partial_name(entry.target, number)) {
            match sys::stat_at(at, &name, false) {
                Ok(there) if !there.is_dir() => {}
                Ok(there) if before.has_made(key, &there) => return Ok(Some(name)),
                Ok(_) => {
                    // It was killed before it wrote that down, and then there is nothing in it. Else it stays.
                    let _ = rustix::fs::unlinkat(at, &name, AtFlags::REMOVEDIR);
                }
                Err(error) if sys::is(&error, &[Errno::NOENT]) => {}
                Err(error) => return Err((name, error)),
            }
        }
        Ok(None)
    }

    /// Whether this directory was made by an earlier run, and not by somebody else.
    pub(crate) fn was_made(&self, dir: &Dir, name: &CStr, there: &Stat) -> bool {
        let before = self.run.before();
        before.is_some_and(|before| before.has_made(dir.key.child(name), there))
    }

    /// Removes what an earlier run has put into a directory and this one would not.
    pub(crate) fn tidy(&mut self, dir: &Arc<Dir>) {
        if self.run.before().is_none() || (dir.state.is_private() && !dir.resumed) {
            return;
        }
        let opened = match dir.open() {
            Ok(opened) => opened,
            // Whoever fills it says so.
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
            self.each_name(fd.as_fd(), |worker, name, _| {
                if gone(name) {
                    worker.remove_left(opened.target(), name, shown(dir, name));
                }
                Ok(())
            })
        });
        if let Err(error) = listed {
            self.reporter.failed(Step::Remove, shown(dir, c""), error);
        }
    }

    /// Removes what earlier runs have not finished from a directory that others use, and from those in it that are in the
    /// way of no source any more. Trees whose source is still there are gone on with where their name comes up.
    fn tidy_existing(&mut self, dir: &Dir, target: BorrowedFd<'_>, source: Option<BorrowedFd<'_>>) {
        // With several sources, that another one has it is not known here.
        let sole = self.run.has_one_source();
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

    /// Whether a source has no directory of this name, for sure.
    fn has_lost(&self, source: BorrowedFd<'_>, name: &CStr) -> bool {
        let follow = self.options().dereference == Dereference::Always;
        match sys::stat_at(source, name, follow) {
            Ok(there) => !there.is_dir(),
            Err(error) => sys::is(&error, &[Errno::NOENT]),
        }
    }

    /// Of a directory with this key: what is not finished and has no source, and the directories that an earlier run was in
    /// and this one will not be. What may not be listed keeps what is in it.
    fn left_in(
        &self,
        target: BorrowedFd<'_>,
        key: Key,
        is_source: &dyn Fn(&CStr) -> bool,
    ) -> (io::Result<Vec<CString>>, Vec<CString>) {
        let (mut left, mut below) = (Vec::new(), Vec::new());
        let Some(before) = self.run.before() else {
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

    fn remove_all(&mut self, target: BorrowedFd<'_>, left: io::Result<Vec<CString>>, path: PathBuf) {
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

    fn remove_left(&mut self, target: BorrowedFd<'_>, name: &CStr, path: PathBuf) {
        if let Err(error) = remove(target, name) {
            self.reporter.failed(Step::Remove, path, error);
        }
    }

    /// Calls a function for each name in a directory of the target, until the run is stopped.
    pub(crate) fn each_name(
        &mut self,
        dir: BorrowedFd<'_>,
        mut visit: impl FnMut(&mut Self, &CStr, FileType) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut more = true;
        while more && !self.run.context.stopped() {
            let mut listing = Listing::default();
            more = listing.read(dir, &mut self.entries)?;
            for (name, kind) in (0..listing.len()).map(|index| listing.get(index)) {
                visit(self, name, kind)?;
            }
        }
        Ok(())
    }
}

fn shown(dir: &Dir, name: &CStr) -> PathBuf {
    let path = dir.path(Side::Target, name);
    if path.as_os_str().is_empty() {
        return ".".into();
    }
    path
}
