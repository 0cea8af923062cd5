//! How many threads a copy has, and how many descriptors each of them may hold.

use crate::api::options::{Engine, Options};
use crate::job::queue::Need;
use crate::sys;
use std::sync::OnceLock;

/// Descriptors left to the rest of the process.
const SPARE_DESCRIPTORS: usize = 64;

/// A thread needs at least these: some levels of directories, a source, a target, and what is examined in between.
const DESCRIPTORS_PER_JOB: usize = 12;

/// Files in flight at once in a ring.
const DEPTH: usize = 64;

/// With room for fewer, threads that wait for the disk one by one are as good.
const LEAST_DEPTH: usize = 4;

/// A file in flight holds itself, its copy, and their directories.
const DESCRIPTORS_PER_FILE: usize = 4;

/// More threads than this wait for each other in the file system and not for the processor.
const MAX_JOBS: usize = 8;

/// Upper bound on the threads that wait for cold sources (docs/internals/copy.md, Measurements).
const MAX_COLD_JOBS: usize = 16;

/// Returns the largest number of threads, with those in reserve.
fn most_threads(options: &Options) -> usize {
    match options.jobs {
        // Questions come one after the other, and what is said about them stays beside them.
        _ if options.overwrite.ask => 1,
        0 if has_reserve(options) => MAX_COLD_JOBS,
        0 => cpus(),
        jobs => jobs,
    }
}

/// Returns true if more threads are started when sources are cold. An explicit `--jobs` is a hard limit, and a ring has
/// enough under way by itself.
fn has_reserve(options: &Options) -> bool {
    options.jobs == 0 && !options.overwrite.ask && options.engine != Engine::Uring
}

fn cpus() -> usize {
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MAX_JOBS)
}

/// Bounds of what the threads of one copy use.
pub(crate) struct Limits {
    /// Levels of a chain of directories that are kept open.
    pub(crate) keep: usize,
    /// Files in a thread's ring; 0 if no thread has one.
    pub(crate) depth: usize,
    /// Threads that copy what is in memory. Looked up when it matters, because that reads the files of a control group.
    jobs: OnceLock<usize>,
    /// Threads, with those in reserve for cold sources.
    most: usize,
    has_reserve: bool,
}

impl Limits {
    pub(crate) fn new(options: &Options) -> Limits {
        let descriptors = sys::descriptor_limit().saturating_sub(SPARE_DESCRIPTORS);
        let most = most_threads(options)
            .min(descriptors / DESCRIPTORS_PER_JOB)
            .max(1);
        let share = descriptors / most;
        // Half of a thread's descriptors are for its ring.
        let depth = (share / 2 / DESCRIPTORS_PER_FILE).min(DEPTH);
        let depth = match options.engine {
            Engine::Uring => depth.max(1),
            Engine::Auto if options.waits_for_disk() && depth >= LEAST_DEPTH => depth,
            Engine::Auto | Engine::Threads => 0,
        };
        let share = if depth > 0 { share - share / 2 } else { share };
        Limits {
            // Each level is two descriptors, and a thread needs a few more for the entry that it copies.
            keep: (share / 2).saturating_sub(4).clamp(2, 64),
            depth,
            jobs: OnceLock::new(),
            most,
            has_reserve: has_reserve(options),
        }
    }

    /// Returns how many threads copy what is in memory.
    pub(crate) fn jobs(&self) -> usize {
        let bound = || match self.has_reserve {
            true => self.most.min(cpus()),
            false => self.most,
        };
        *self.jobs.get_or_init(bound)
    }

    /// Returns how many threads work where there is this need.
    pub(crate) fn threads(&self, need: Need) -> usize {
        match need {
            Need::First => 1,
            Need::Helpers => self.jobs(),
            // Threads that wait for the device wait for the lock of the target directory as well: 50,000 files of 4 KB in
            // one took 1.2 times as long with eight threads as with four.
            Need::Cold => (2 * self.jobs()).clamp(4, MAX_JOBS).min(self.most),
            Need::ColdLong => self.most,
        }
    }
}
