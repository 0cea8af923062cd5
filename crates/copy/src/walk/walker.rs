//! One thread of a copy: it takes jobs, copies entries, and walks over directories.

use crate::api::error::{Diagnostic, Refusal, Step};
use crate::api::observer::{Kind, Paths};
use crate::api::options::Dereference;
use crate::api::report::Report;
use crate::context::outcome::{End, Outcome};
use crate::context::reporter::Reporter;
use crate::entry::shared::Shared;
use crate::entry::EntryCopier;
use crate::job::queue::{Job, Queue, Work};
use crate::job::thread_pool::{Dispatcher, ThreadPool};
use crate::pair::directory::{own_path, Dir, Parts, Side, Slot, State};
use crate::pair::Entry;
use crate::resume::tidy::Tidier;
use crate::sys::listing;
use crate::sys::memory;
use crate::sys::{self, Stat};
use crate::uring::RingCopier;
use crate::walk::finish::DirectoryFinisher;
use crate::walk::maker::DirectoryMaker;
use crate::walk::run::Run;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::sync::Arc;

/// Walks over the directories of a copy, for one thread.
pub(crate) struct Walker<'a> {
    pub(crate) run: &'a Run<'a>,
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) reporter: Rc<Reporter<'a>>,
    pub(crate) dispatcher: Rc<Dispatcher<'a>>,
    pub(crate) copier: RingCopier<'a>,
    pub(crate) maker: DirectoryMaker<'a>,
    pub(crate) finisher: DirectoryFinisher<'a>,
    tidier: Tidier<'a>,
    /// Memory that the kernel lists directories in.
    pub(super) buffer: Vec<MaybeUninit<u8>>,
    /// The part of the whole that the job in hand is, until it is reported as done.
    pub(super) part: f64,
}

impl<'a> Walker<'a> {
    /// Makes the walker of the thread with this number.
    pub(crate) fn new(run: &'a Run<'a>, thread_pool: Arc<dyn ThreadPool + 'a>, number: usize) -> Walker<'a> {
        let shared = &run.shared;
        let reporter = Rc::new(Reporter::new(&shared.context));
        let dispatcher = Rc::new(Dispatcher::new(&run.queue, Some(thread_pool)));
        let entries = EntryCopier::new(shared, reporter.clone(), dispatcher.clone(), run);
        let files = &entries.files;
        Walker {
            run,
            shared,
            maker: DirectoryMaker::new(
                run,
                reporter.clone(),
                files.destinations.clone(),
                files.namer.clone(),
                files.previous.clone(),
                number,
            ),
            finisher: DirectoryFinisher::new(run, reporter.clone(), dispatcher.clone()),
            tidier: Tidier::new(&shared.context, &shared.journal, reporter.clone()),
            copier: RingCopier::new(entries, &run.lost),
            dispatcher,
            reporter,
            buffer: Vec::new(),
            part: 0.0,
        }
    }

    /// Takes the memory that contents and listings go through, and makes the ring if one is wanted. An error says why it
    /// cannot be had.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        self.take_memory()?;
        self.copier.start(self.run.limits.depth)
    }

    fn take_memory(&mut self) -> io::Result<()> {
        self.copier.entries.files.contents.data.take_memory()?;
        self.buffer = memory::room(listing::READ_BYTES)?;
        Ok(())
    }

    /// Does the same, and reports a failure. Returns true if the walker can work.
    pub(crate) fn has_started(&mut self) -> bool {
        if self.take_memory().is_err() {
            self.reporter.tell(&Diagnostic::NoMemory);
            return false;
        }
        let started = self.copier.start(self.run.limits.depth);
        if let Err(error) = &started {
            self.reporter.tell(&Diagnostic::NoEngine {
                engine: "uring".into(),
                errno: proactor_engine::errno_of(error).unwrap_or(Errno::OPNOTSUPP.raw_os_error()),
                reason: error.to_string(),
            });
        }
        started.is_ok()
    }

    /// Copies files of rings that may not be entered any more, whose threads have ended, and what waited for them.
    pub(crate) fn recover(&mut self) {
        if self.copier.recover() {
            self.land();
            self.run.queue.enter();
            self.work();
        }
    }

    /// Copies an entry of any kind.
    fn copy(&mut self, entry: &Entry<'_>, kind: FileType) {
        if self.copier.entries.copy(entry, kind) {
            self.walk(entry);
        }
    }

    /// Copies an entry of a directory, or begins to.
    pub(super) fn begin(&mut self, entry: &Entry<'_>, kind: FileType) {
        if self.copier.begin(entry, kind) {
            self.walk(entry);
        }
        self.land();
    }

    /// Ends what was begun.
    fn settle(&mut self) {
        self.copier.settle();
        self.land();
    }

    /// Releases the directories of files that have left the ring, and copies directories that were found in their place.
    fn land(&mut self) {
        while let Some((at, name)) = self.copier.directories.pop() {
            let entry = Entry {
                at: &at,
                source: &name,
                target: &name,
            };
            self.walk(&entry);
            self.finisher.release(at.dir);
        }
        while let Some(dir) = self.copier.finished.pop() {
            self.finisher.release(dir);
        }
    }

    /// Copies an entry that is a directory. Errors are reported when this returns.
    fn walk(&mut self, entry: &Entry<'_>) {
        if let Err(End::Failed) = self.directory(entry) {
            self.copier.entries.files.previous.keep_left_tree(entry);
        }
    }

    /// Takes the report of what this thread has done.
    pub(crate) fn report(&self) -> Report {
        self.reporter.take()
    }

    /// Works until no thread has anything left to do.
    pub(crate) fn work(&mut self) {
        let queue = &self.run.queue;
        let _end = BreakOff(queue);
        loop {
            let work = queue.ready().or_else(|| {
                // No thread waits for another one with files in its ring.
                self.settle();
                queue.next()
            });
            let Some(work) = work else { break };
            match work {
                Work::Entry(job) => self.job(job),
                Work::Help(batch) => self.help(&batch),
            }
        }
        self.copier.entries.files.writer.hold();
    }

    fn job(&mut self, job: Job) {
        let target = job.target.as_ref().unwrap_or(&job.source);
        if !self.shared.context.stopped() {
            match job.dir.open() {
                Ok(at) => {
                    let (source, target) = (job.source.as_c_str(), target.as_c_str());
                    let entry = Entry {
                        at: &at,
                        source,
                        target,
                    };
                    self.part = match job.dir.is_top() {
                        true => self.shared.context.part_of_source.unwrap_or(0.0),
                        false => job.dir.part(),
                    };
                    self.copy(&entry, job.kind);
                    // A directory that is filled has taken it.
                    let part = std::mem::take(&mut self.part);
                    self.reporter.advance(part);
                }
                Err(error) => {
                    let path = job.dir.path(Side::Source, &job.source);
                    self.reporter.failed(Step::StatSource, path, error);
                }
            }
        }
        self.finisher.release(job.dir);
    }

    /// Copies a directory: its own entries now, what is in its directories by further jobs.
    fn directory(&mut self, entry: &Entry<'_>) -> Outcome<()> {
        let (opened, stat) = self.open_source_dir(entry)?;
        let part = self.shared.part.of_directory(entry, &stat)?;
        let own = part.as_ref().is_none_or(|part| part.own);
        self.check_source_dir(entry, &stat)?;
        let made = self.maker.target_dir(entry, &stat)?;
        let fd = match opened {
            Ok(fd) => Some(fd),
            Err(error) => {
                if !self.shared.part.fails_silently(entry) {
                    self.reporter.failed(Step::ReadDirectory, entry.source(), error);
                }
                None
            }
        };
        let kind = if made.state == State::Existing {
            Kind::Merged
        } else {
            Kind::Directory
        };
        let partial = made.partial;
        let readable = fd.is_some();
        let parts = Parts {
            source: Slot::new(entry.source, stat.id, fd),
            target: Slot::new(entry.target, made.stat.id, made.fd)
                .with_partial(partial)
                .through_link(made.through_link),
            stat,
            state: made.state,
            resumed: made.resumed,
            inherits: made.inherits,
            part,
        };
        let dir = Dir::child(&entry.at.dir, parts, self.run.limits.keep);
        self.shared
            .watch_disk(&self.reporter, &dir, entry.at.dir.target.id());
        entry.at.dir.add(1);
        if dir.state.is_private() && !dir.resumed {
            // What it got itself at its creation, its files get.
            let _ = dir.owner_of_new.set(made.stat.owner());
        }
        if own {
            self.reporter.count(|report| report.directories += 1);
            self.shared.copied(&self.reporter, entry, kind, None);
        }
        let crossed = self.shared.context.options.one_file_system && dir.stat.id.0 != dir.root_device;
        self.tidier.tidy(&dir);
        if readable && !crossed && self.shared.part.is_finish() {
            self.sweep_dir(&dir);
        } else if readable && !crossed {
            if self.run.trees.makes_in(dir.source.id()) {
                self.refuse_itself(&dir, entry);
            }
            self.fill_dir(&dir);
        }
        self.finisher.release(dir);
        Ok(())
    }

    /// One that may not be read is looked at all the same: its copy is empty, and has its metadata.
    fn open_source_dir(&self, entry: &Entry<'_>) -> Outcome<(io::Result<OwnedFd>, Stat)> {
        let follow = entry.at.dir.follows(self.shared.context.options);
        let open = if self.shared.context.options.dry_run {
            sys::open_dir_unnoticed
        } else {
            sys::open_dir
        };
        let opened = open(entry.at.source(), entry.source, follow);
        let found = match opened {
            Ok(fd) => sys::stat(fd.as_fd()).map(|stat| (Ok(fd), stat)),
            Err(error) if sys::is(&error, &[Errno::ACCESS]) => {
                let stat = sys::stat_at(entry.at.source(), entry.source, follow);
                stat.map(|stat| (Err(error), stat))
            }
            Err(error) => {
                return Err(self.reporter.failed(Step::ReadDirectory, entry.source(), error));
            }
        };
        found.map_err(|error| self.reporter.failed(Step::StatSource, entry.source(), error))
    }

    fn check_source_dir(&self, entry: &Entry<'_>, stat: &Stat) -> Outcome<()> {
        if self.run.trees.is_root(stat.id) {
            // What was made is reported with the directory that it is in, which may or may not have listed it.
            let told = !entry.at.dir.is_top() && self.run.trees.makes_in(entry.at.dir.source.id());
            return Err(if told {
                End::Skipped
            } else {
                self.refuse_itself(&entry.at.dir, entry)
            });
        }
        let loops = self.shared.context.options.dereference == Dereference::Always;
        if loops && entry.at.dir.is_inside(stat.id) {
            return Err(self.reporter.refused(Refusal::Cycle, entry));
        }
        Ok(())
    }

    /// Reports that the target was met inside the source, with the two paths that the user has named.
    fn refuse_itself(&self, inside: &Dir, entry: &Entry<'_>) -> End {
        let Some(named) = inside.named() else {
            return self.reporter.refused(Refusal::IntoItself, entry);
        };
        // Several of the directories that are copied to may be in it.
        if !named.refused_itself.is_first() {
            return End::Skipped;
        }
        let refused = Diagnostic::Refused {
            refusal: Refusal::IntoItself,
            source: own_path(named, Side::Source),
            target: own_path(named, Side::Target),
        };
        self.reporter.tell(&refused)
    }
}

/// Lets the other threads go when one panics, as an observer may.
struct BreakOff<'a>(&'a Queue);

impl Drop for BreakOff<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_off();
        }
    }
}
