//! One copy under way: what all its workers share, and what each has of its own.

use crate::ahead::Ahead;
use crate::buffer::Buffer;
use crate::error::{Diagnostic, Refusal, Step};
use crate::links::Links;
use crate::listing;
use crate::observer::{Copied, Kind, Observer, Paths};
use crate::options::{Dereference, Options};
use crate::report::Report;
use crate::schedule::Schedule;
use crate::sys::{self, FileId};
use crate::{dir, entry::Entry};
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Mutex;

/// What a file's contents go through: it stays in a core's second-level cache between the read and the write.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

/// The longest name that file systems take.
const NAME_MAX: usize = 255;

/// Descriptors left to the rest of the process.
const SPARE_DESCRIPTORS: usize = 64;

/// What a worker needs at least: some levels of directories, a source, a target, and what is looked at in between.
const DESCRIPTORS_PER_JOB: usize = 12;

/// Why an entry is not copied. Whoever returns it has told the observer.
#[derive(Debug)]
pub(crate) enum End {
    /// It failed, and the failure is counted.
    Failed,
    /// It is to be left as it is, or somebody else does it.
    Skipped,
    /// The copy was asked to stop.
    Stopped,
}

pub(crate) type Outcome<T> = Result<T, End>;

/// What all workers share.
pub(crate) struct Run<'a> {
    pub(crate) options: &'a Options,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) links: Links,
    pub(crate) schedule: Schedule,
    /// Where this run writes to: what the user has named, and what was made below. None of them is a source.
    pub(crate) roots: Mutex<HashSet<FileId>>,
    /// Held while a question is being answered.
    pub(crate) asking: Mutex<()>,
    pub(crate) umask: u32,
    pub(crate) privileged: bool,
    /// Who we are: user and group.
    pub(crate) owner: (u32, u32),
    /// Levels of a chain of directories that are kept open.
    pub(crate) keep: usize,
    pub(crate) jobs: usize,
    next_partial: AtomicU32,
    stopped: AtomicBool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(options: &'a Options, observer: &'a dyn Observer) -> Run<'a> {
        let jobs = match options.jobs {
            // Questions come one after the other, and what is said about them stays beside them.
            _ if options.overwrite.ask => 1,
            0 => std::thread::available_parallelism()
                .map_or(1, usize::from)
                .min(MAX_JOBS),
            jobs => jobs,
        };
        let descriptors = sys::descriptor_limit().saturating_sub(SPARE_DESCRIPTORS);
        let jobs = jobs.min(descriptors / DESCRIPTORS_PER_JOB).max(1);
        Run {
            options,
            observer,
            links: Links::default(),
            schedule: Schedule::default(),
            roots: Mutex::default(),
            asking: Mutex::default(),
            umask: sys::umask(),
            privileged: rustix::process::geteuid().is_root(),
            owner: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
            // Each level is two descriptors, and a worker needs a few more for what it has in hand.
            keep: (descriptors / jobs / 2).saturating_sub(4).clamp(2, 64),
            jobs,
            next_partial: AtomicU32::new(random()),
            stopped: AtomicBool::new(false),
        }
    }

    /// Whether to end now. Once it is so, it stays so.
    pub(crate) fn stopped(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) {
            return true;
        }
        let stop = self.observer.stop();
        if stop {
            self.stopped.store(true, Ordering::Relaxed);
        }
        stop
    }

    pub(crate) fn follows(&self, dir: &dir::Dir) -> bool {
        match self.options.dereference {
            Dereference::Never => false,
            Dereference::CommandLine => dir.is_top(),
            Dereference::Always => true,
        }
    }

    /// A name for something that is not finished: `NAME.partial-` and eight digits that this run uses once.
    pub(crate) fn partial_name(&self, name: &CStr) -> CString {
        let number = self.next_partial.fetch_add(1, Ordering::Relaxed);
        let suffix = format!(".partial-{number:08x}");
        let name = name.to_bytes();
        let kept = &name[..name.len().min(NAME_MAX - suffix.len())];
        CString::new([kept, suffix.as_bytes()].concat()).expect("a name has no zero in it")
    }
}

/// More threads than this wait for each other in the file system and not for the processor.
const MAX_JOBS: usize = 8;

fn random() -> u32 {
    let mut bytes = [0; 4];
    // Names made from it only have to be unlikely, and are tried again: whatever is in there will do.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    u32::from_ne_bytes(bytes) ^ std::process::id()
}

/// What a thread has of its own.
pub(crate) struct Worker<'a> {
    pub(crate) run: &'a Run<'a>,
    pub(crate) report: Report,
    /// One byte longer than what is asked for at once, to notice a file that grows.
    pub(crate) buffer: Buffer,
    /// Attribute names and values.
    pub(crate) names: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) entries: Vec<MaybeUninit<u8>>,
    /// Devices between which blocks cannot be shared.
    pub(crate) no_clone: Option<(u64, u64)>,
    pub(crate) ahead: Ahead,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(run: &'a Run<'a>) -> Worker<'a> {
        Worker {
            run,
            report: Report::default(),
            buffer: Buffer::new(BUFFER_BYTES),
            names: Vec::new(),
            value: Vec::new(),
            entries: vec![MaybeUninit::uninit(); listing::READ_BYTES],
            no_clone: None,
            ahead: Ahead::default(),
        }
    }

    pub(crate) fn options(&self) -> &'a Options {
        self.run.options
    }

    pub(crate) fn tell(&mut self, diagnostic: &Diagnostic) -> End {
        self.report.failures += u64::from(diagnostic.is_failure());
        self.run.observer.diagnostic(diagnostic);
        End::Failed
    }

    pub(crate) fn failed(&mut self, step: Step, path: PathBuf, error: io::Error) -> End {
        self.failed_with(step, path, None, error)
    }

    pub(crate) fn failed_with(
        &mut self,
        step: Step,
        path: PathBuf,
        other: Option<PathBuf>,
        error: io::Error,
    ) -> End {
        let failed = Diagnostic::Failed {
            step,
            path,
            other,
            error,
        };
        self.tell(&failed)
    }

    pub(crate) fn refused(&mut self, refusal: Refusal, entry: &Entry<'_>) -> End {
        let refused = Diagnostic::Refused {
            refusal,
            source: entry.source(),
            target: entry.target(),
        };
        self.tell(&refused)
    }

    pub(crate) fn copied(&mut self, entry: &Entry<'_>, kind: Kind, bytes: u64, backup: Option<PathBuf>) {
        let copied = Copied {
            kind,
            bytes,
            backup,
            paths: entry,
        };
        self.run.observer.copied(&copied);
    }
}

/// Adds up what two threads have done.
pub(crate) fn add(total: &mut Report, part: Report) {
    total.files += part.files;
    total.directories += part.directories;
    total.symlinks += part.symlinks;
    total.hard_links += part.hard_links;
    total.specials += part.specials;
    total.skipped += part.skipped;
    total.failures += part.failures;
    total.bytes += part.bytes;
    total.shared_bytes += part.shared_bytes;
    total.hole_bytes += part.hole_bytes;
    total.partial.extend(part.partial);
}
