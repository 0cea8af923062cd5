//! One copy under way: what all its workers share, and what each has of its own.

use crate::api::observer::Observer;
use crate::api::options::{Dereference, Engine, Fsync, Method, Options};
use crate::context::Context;
use crate::data::Helpers;
use crate::entry::created::Created;
use crate::entry::hard_links::Links;
use crate::job::names::{partial_name, random_u64};
use crate::metadata::inode_flags::Lock;
use crate::operands::plan;
use crate::pair::digest::Digest;
use crate::pair::directory::Dir;
use crate::pair::Entry;
use crate::resume::claim::Claims;
use crate::resume::journal::{Asked, Batch, Before, Journal};
use crate::shards::Part;
use crate::sys::disk::{Disk, Disks};
use crate::sys::{self, FileId, Stat};
use crate::uring::{self, Lost};
use crate::walk::block_groups::GroupDirectories;
use crate::walk::queue::{Need, Queue};
use crate::walk::thread_pool::{self};
use crate::Target;
use rustix::fd::AsFd;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// Descriptors left to the rest of the process.
const SPARE_DESCRIPTORS: usize = 64;

/// What a worker needs at least: some levels of directories, a source, a target, and what is looked at in between.
const DESCRIPTORS_PER_JOB: usize = 12;

/// What all workers share.
pub(crate) struct Run<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) part: Part,
    sources: &'a [PathBuf],
    target: &'a Target,
    /// Where relative sources begin.
    here: PathBuf,
    /// What is finished, for a run that goes on with this one.
    pub(crate) journal: OnceLock<Journal>,
    pub(crate) disks: Disks,
    /// Partial names end in it.
    pub(crate) id: u32,
    pub(crate) links: Links,
    pub(crate) queue: Queue,
    /// Where this run writes to: what the user has named, and what was made below. None of them is a source.
    pub(crate) roots: Mutex<HashSet<FileId>>,
    /// The existing directories of the target in which others are made, or in a dry run would be.
    pub(crate) makers: Mutex<HashSet<FileId>>,
    pub(crate) created: Created,
    pub(crate) claims: Claims,
    pub(crate) group_directories: Mutex<GroupDirectories>,
    /// What is locked when everything has its name.
    pub(crate) locks: Mutex<Vec<Lock>>,
    /// What was in rings that may not be entered any more.
    pub(crate) lost: Mutex<Vec<Lost>>,
    /// Levels of a chain of directories that are kept open.
    pub(crate) keep: usize,
    /// Threads that copy what is in memory: looked up when it matters, for that takes a while (the files of a control
    /// group).
    jobs: OnceLock<usize>,
    /// Threads, with those besides for cold sources.
    most: usize,
    /// Files in a worker's ring; 0 where none has one.
    pub(crate) depth: usize,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        options: &'a Options,
        sources: &'a [PathBuf],
        target: &'a Target,
        observer: &'a dyn Observer,
    ) -> Run<'a> {
        let descriptors = sys::descriptor_limit().saturating_sub(SPARE_DESCRIPTORS);
        let most = thread_pool::most_threads(options)
            .min(descriptors / DESCRIPTORS_PER_JOB)
            .max(1);
        let share = descriptors / most;
        // Half of what a worker may have open is for its ring.
        let depth = (share / 2 / uring::DESCRIPTORS_PER_FILE).min(uring::DEPTH);
        let depth = match options.engine {
            Engine::Uring => depth.max(1),
            Engine::Auto if options.waits_for_disk() && depth >= uring::LEAST_DEPTH => depth,
            Engine::Auto | Engine::Threads => 0,
        };
        let share = if depth > 0 { share - share / 2 } else { share };
        Run {
            context: Context::new(options, observer, sources.len()),
            part: Part::Whole,
            sources,
            target,
            here: std::env::current_dir().unwrap_or_default(),
            journal: OnceLock::new(),
            disks: Disks::default(),
            id: random_u64() as u32,
            links: Links::default(),
            queue: Queue::default(),
            roots: Mutex::default(),
            makers: Mutex::default(),
            created: Created::default(),
            claims: Claims::default(),
            group_directories: Mutex::default(),
            locks: Mutex::default(),
            lost: Mutex::default(),
            // Each level is two descriptors, and a worker needs a few more for what it has in hand.
            keep: (share / 2).saturating_sub(4).clamp(2, 64),
            jobs: OnceLock::new(),
            most,
            depth,
        }
    }

    /// Whether a directory of the source is one in which this run makes others. What is made after a directory was opened
    /// is listed by some file systems, and not by others (Btrfs).
    pub(crate) fn makes_in(&self, source: FileId) -> bool {
        self.makers.lock().unwrap().contains(&source)
    }

    /// How many threads copy what is in memory.
    pub(crate) fn jobs(&self) -> usize {
        let bound = || match thread_pool::has_reserve(self.context.options) {
            true => self.most.min(thread_pool::cpus()),
            false => self.most,
        };
        *self.jobs.get_or_init(bound)
    }

    /// How many threads are to be at work.
    pub(crate) fn threads(&self, need: Need) -> usize {
        match need {
            Need::First => 1,
            Need::Helpers => self.jobs(),
            // These wait for the lock of the directory that they are made in as well: 50,000 of 4 KB in one took 1.2 times
            // as long with eight threads as with four.
            Need::Cold => (2 * self.jobs()).clamp(4, thread_pool::MAX_JOBS).min(self.most),
            Need::ColdLong => self.most,
        }
    }

    /// Whether contents are copied, and not only looked at or named.
    pub(crate) fn copies_contents(&self) -> bool {
        let options = self.context.options;
        options.method == Method::Contents && !options.attributes_only && !options.dry_run
    }

    /// Whether only one path was named.
    pub(crate) fn has_one_source(&self) -> bool {
        self.sources.len() == 1
    }

    pub(crate) fn follows(&self, dir: &Dir) -> bool {
        match self.context.options.dereference {
            Dereference::Never => false,
            Dereference::CommandLine => dir.is_top(),
            Dereference::Always => true,
        }
    }

    /// Whether further names of this file may come.
    pub(crate) fn tracks(&self, entry: &Entry<'_>, stat: &Stat) -> bool {
        self.context.options.preserve.links && (stat.nlink > 1 || self.follows(&entry.at.dir))
    }

    /// A name for something that is not finished: `NAME.partial-` and this run's id, or so many after it where that is
    /// taken.
    pub(crate) fn partial_name(&self, name: &CStr, attempt: u32) -> CString {
        partial_name(name, self.id.wrapping_add(attempt))
    }
}

/// What a run was asked to do, as far as its journal needs to know.
impl Run<'_> {
    /// Whether finished files are worth being written down, as they are but in a dry run.
    pub(crate) fn is_journaled(&self) -> bool {
        let options = self.context.options;
        let moves = options.method == Method::Contents && !options.attributes_only;
        options.journal && moves && (options.recursive || self.sources.len() > 1)
    }

    /// What earlier runs have finished, if this one goes on with them.
    pub(crate) fn before(&self) -> Option<&Before> {
        let before = &self.journal.get()?.before;
        before.is_any().then_some(before)
    }

    /// Whether an entry of a source is our own journal or lock, as it is where the source has the target in it.
    pub(crate) fn is_own(&self, dir: &Dir, name: &CStr) -> bool {
        self.is_journal(dir, name) || self.is_claim(name, dir.source.id())
    }

    fn is_journal(&self, dir: &Dir, name: &CStr) -> bool {
        // Each entry is asked for: most have another end.
        name.to_bytes().ends_with(b".journal")
            && self
                .journal
                .get()
                .is_some_and(|journal| journal.is_named(name, dir.source.id()))
    }

    /// Whether everything is to be on the disk in the end. A shard that is done is done on another machine as well.
    pub(crate) fn syncs(&self) -> bool {
        !self.context.options.dry_run
            && (self.context.options.fsync != Fsync::None || self.part.shard().is_some())
    }

    /// Waits until what was written is on the disk. If it is not, nothing that is written
    /// down is true.
    pub(crate) fn sync(&self, disk: &Disk) -> io::Result<()> {
        let synced = disk.sync();
        if let (Err(_), Some(journal)) = (&synced, self.journal.get()) {
            journal.lose();
        }
        synced
    }

    pub(crate) fn write_down(&self, batch: &mut Batch) {
        if let Some(journal) = self.journal.get() {
            journal.append(batch, &|| self.asked());
        }
    }

    /// Nothing is left to go on with, or with `keep` something is. An error has the name of the journal that stays.
    pub(crate) fn end_journal(&self, keep: bool) -> Result<(), (CString, io::Error)> {
        match self.journal.get() {
            Some(journal) => journal.finish(keep, &|| self.asked()),
            None => Ok(()),
        }
    }

    /// The names that copies get.
    pub(crate) fn target_names(&self) -> Vec<CString> {
        plan::target_names(self.sources, self.target)
    }

    /// The first of them.
    pub(crate) fn first_name(&self) -> CString {
        let first = &self.sources[..self.sources.len().min(1)];
        let name = plan::target_names(first, self.target).pop();
        name.filter(|name| name.as_c_str() != c".")
            .unwrap_or_else(|| c"copy".into())
    }

    /// In digests, and the first source's path. A path is made absolute without a look at the disk; the inode tells
    /// whether the same is there.
    pub(crate) fn asked(&self) -> (Asked, Vec<u8>) {
        let names = self.target_names();
        let targets = names
            .iter()
            .fold(Digest::new(), |all, name| all.bytes(name.to_bytes()));
        let follow = self.context.options.dereference != Dereference::Never;
        let mut sources = Digest::new();
        for source in self.sources {
            let path = absolute(&self.here, source);
            let found = CString::new(path.as_os_str().as_bytes())
                .map_err(std::io::Error::from)
                .and_then(|path| sys::stat_at(rustix::fs::CWD.as_fd(), &path, follow));
            sources = sources
                .bytes(path.as_os_str().as_bytes())
                .word(found.map_or(0, |found| found.id.1));
        }
        let options = format!("{:?}", self.context.options.meaning());
        let asked = Asked {
            targets: targets.value(),
            sources: sources.value(),
            options: Digest::new().bytes(options.as_bytes()).value(),
        };
        let first = self.sources.first().map(|first| absolute(&self.here, first));
        (asked, first.unwrap_or_default().into_os_string().into_vec())
    }
}

/// Without dots and doubled or final slashes.
fn absolute(here: &Path, path: &Path) -> PathBuf {
    here.join(path).components().collect()
}

impl Helpers for Run<'_> {
    fn enter(&self, most: usize) -> usize {
        let all = self.threads(Need::ColdLong);
        self.queue.enter_others(most, self.jobs(), all)
    }

    fn leave(&self, count: usize) {
        self.queue.leave(count);
    }
}
