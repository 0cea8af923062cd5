//! One entry of a directory: what it is decides how it is copied.

use crate::api::error::{Diagnostic, Refusal, Step, Warning};
use crate::api::observer::Paths;
use crate::api::options::{Dereference, Method};
use crate::context::outcome::{End, Outcome};
use crate::context::reporter::Reporter;
use crate::data::{DataCopier, Helpers};
use crate::entry::contents::ContentsCopier;
use crate::entry::destination::{reads_specials, Destinations};
use crate::entry::farm::FarmLinker;
use crate::entry::hard_links::{Claim, First};
use crate::entry::name::Namer;
use crate::entry::regular_file::FileCopier;
use crate::entry::shared::Shared;
use crate::entry::special::NodeCopier;
use crate::job::queue::Job;
use crate::job::thread_pool::Dispatcher;
use crate::metadata::MetadataCopier;
use crate::pair::{Entry, Source};
use crate::resume::journal_writer::JournalWriter;
use crate::resume::previous_run::PreviousRun;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::io;
use std::rc::Rc;

/// Copies entries that are not directories, for one thread.
pub(crate) struct EntryCopier<'a> {
    pub(crate) shared: &'a Shared<'a>,
    pub(crate) reporter: Rc<Reporter<'a>>,
    dispatcher: Rc<Dispatcher<'a>>,
    pub(crate) files: FileCopier<'a>,
    nodes: NodeCopier<'a>,
    farm: Rc<FarmLinker<'a>>,
}

impl<'a> EntryCopier<'a> {
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        reporter: Rc<Reporter<'a>>,
        dispatcher: Rc<Dispatcher<'a>>,
        helpers: &'a dyn Helpers,
    ) -> EntryCopier<'a> {
        let context = &shared.context;
        let writer = Rc::new(JournalWriter::new(context, &shared.journal));
        let previous = Rc::new(PreviousRun::new(
            context,
            &shared.part,
            &shared.created,
            writer.clone(),
            reporter.clone(),
        ));
        let destinations = Rc::new(Destinations::new(shared, previous.clone(), reporter.clone()));
        let namer = Rc::new(Namer::new(shared, destinations.clone(), reporter.clone()));
        let metadata = || MetadataCopier::new(context, &shared.locks, reporter.clone());
        EntryCopier {
            nodes: NodeCopier {
                shared,
                reporter: reporter.clone(),
                destinations: destinations.clone(),
                namer: namer.clone(),
                previous: previous.clone(),
                writer: writer.clone(),
                metadata: metadata(),
            },
            files: FileCopier {
                shared,
                contents: ContentsCopier::new(DataCopier::new(context, helpers), reporter.clone()),
                metadata: metadata(),
                reporter: reporter.clone(),
                destinations,
                namer,
                previous,
                writer,
            },
            farm: Rc::new(FarmLinker::new(shared, reporter.clone())),
            shared,
            reporter,
            dispatcher,
        }
    }

    /// Copies an entry of any kind but a directory. Errors are reported when this returns. Returns true if it is a
    /// directory, for the walk to copy.
    #[must_use]
    pub(crate) fn copy(&mut self, entry: &Entry<'_>, listed: FileType) -> bool {
        if self.shared.context.stopped() {
            return false;
        }
        let kind = self.kind_of(entry, listed);
        if self.leaves_out(entry, kind.as_ref().ok().copied()) {
            return false;
        }
        let done = match kind {
            Ok(kind) => self.copy_as(entry, kind),
            Err(error) => Err(self.reporter.failed(Step::StatSource, entry.source(), error)),
        };
        match done {
            Err(End::Failed) => self.files.previous.keep_left_tree(entry),
            Err(End::Skipped | End::Stopped) | Ok(()) => {}
            Err(End::Directory) => return true,
            Err(End::TooManyNames) => unreachable!("it is copied then"),
        }
        false
    }

    /// Returns the kind of the entry, after following it if it is to be followed.
    fn kind_of(&self, entry: &Entry<'_>, listed: FileType) -> io::Result<FileType> {
        let follow = entry.at.dir.follows(self.shared.context.options);
        match listed {
            FileType::Symlink if !follow => Ok(listed),
            FileType::Symlink | FileType::Unknown => {
                Ok(sys::stat_at(entry.at.source(), entry.source, follow)?.file_type())
            }
            kind => Ok(kind),
        }
    }

    /// Returns true if an entry of this kind is to be copied at all.
    pub(crate) fn is_wanted(&self, entry: &Entry<'_>, kind: FileType) -> bool {
        let options = self.shared.context.options;
        !self.shared.context.stopped()
            && !self.leaves_out(entry, Some(kind))
            && self.shared.part.is_to_be_copied(entry, options).unwrap_or(false)
    }

    /// Copies an entry of this kind. A directory ends with [`End::Directory`].
    pub(crate) fn copy_as(&mut self, entry: &Entry<'_>, kind: FileType) -> Outcome<()> {
        let options = self.shared.context.options;
        match kind {
            FileType::Directory if options.recursive => Err(End::Directory),
            FileType::Directory => Err(self.reporter.refused(Refusal::OmittingDirectory, entry)),
            _ if !self.shared.part.is_to_be_copied(entry, options)? => Err(End::Skipped),
            _ => match options.method {
                Method::HardLink => self.nodes.link_to_source(entry),
                Method::SymbolicLink => self.nodes.point_to_source(entry),
                Method::Contents => self.contents_as(entry, kind),
            },
        }
    }

    fn contents_as(&mut self, entry: &Entry<'_>, kind: FileType) -> Outcome<()> {
        match kind {
            FileType::RegularFile => self.file(entry, false),
            FileType::Symlink => self.node(entry, NodeCopier::symlink),
            // All but FIFOs are opened as usual: some devices wait then.
            _ if reads_specials(self.shared.context.options) => self.file(entry, kind != FileType::Fifo),
            _ => self.node(entry, NodeCopier::special),
        }
    }

    /// Opens a source file and then examines it, so that what is copied is what was examined. If it is not what it was
    /// listed as, it is copied as what it is, once.
    fn file(&mut self, entry: &Entry<'_>, wait: bool) -> Outcome<()> {
        let follow = entry.at.dir.follows(self.shared.context.options);
        let open = |wait| match self.shared.context.options.dry_run {
            true => sys::hold_source(entry.at.source(), entry.source, follow),
            false => sys::open_source(entry.at.source(), entry.source, follow, wait),
        };
        let mut opened = open(wait);
        if matches!(&opened, Err(error) if sys::is(error, &[Errno::AGAIN])) {
            // Another process has a lease on it, and the kernel asks it to let go: that takes waiting.
            opened = open(true);
        }
        let found = opened.and_then(|fd| {
            let stat = sys::stat(fd.as_fd())?;
            Ok((fd, stat))
        });
        match found {
            Ok((fd, stat)) => self.file_as(entry, fd, stat),
            Err(error) if !follow && sys::is(&error, &[Errno::LOOP, Errno::NXIO]) => {
                match sys::stat_at(entry.at.source(), entry.source, false) {
                    Ok(stat) if !stat.is_file() => self.became(entry, &stat),
                    _ => Err(self.reporter.failed(Step::OpenSource, entry.source(), error)),
                }
            }
            // It cannot even be examined in a directory that may only be listed.
            Err(error) => match sys::stat_at(entry.at.source(), entry.source, follow) {
                Err(unseen) if sys::is(&unseen, &[Errno::ACCESS]) => {
                    Err(self.reporter.failed(Step::StatSource, entry.source(), unseen))
                }
                // A target that stays as it is does not need the source.
                Ok(stat) if stat.is_file() && sys::is(&error, &[Errno::ACCESS]) => {
                    self.files.destinations.destination(entry, &stat)?;
                    Err(self.reporter.failed(Step::OpenSource, entry.source(), error))
                }
                _ => Err(self.reporter.failed(Step::OpenSource, entry.source(), error)),
            },
        }
    }

    /// Copies what was opened as what it is.
    pub(crate) fn file_as(&mut self, entry: &Entry<'_>, fd: OwnedFd, stat: Stat) -> Outcome<()> {
        let is_read = !stat.is_dir() && reads_specials(self.shared.context.options);
        if stat.is_file() || is_read {
            return self.file_once(entry, fd, stat);
        }
        self.became(entry, &stat)
    }

    fn became(&mut self, entry: &Entry<'_>, stat: &Stat) -> Outcome<()> {
        let options = self.shared.context.options;
        match stat.file_type() {
            FileType::Symlink => self.node(entry, NodeCopier::symlink),
            FileType::Directory if options.recursive => Err(End::Directory),
            FileType::Directory => Err(self.reporter.refused(Refusal::OmittingDirectory, entry)),
            _ if reads_specials(options) => {
                // A socket cannot be opened with any flags.
                Err(self
                    .reporter
                    .failed(Step::OpenSource, entry.source(), Errno::NXIO.into()))
            }
            _ => self.node(entry, NodeCopier::special),
        }
    }

    /// Copies an open file, unless a name of it is in the target already: then it becomes another one.
    fn file_once(&mut self, entry: &Entry<'_>, fd: OwnedFd, stat: Stat) -> Outcome<()> {
        let mut source = Source::new(fd, stat);
        self.once(entry, &stat, |copier| copier.files.copy(entry, &mut source))
    }

    /// Makes something without contents, unless a name of it is in the target already.
    fn node(
        &mut self,
        entry: &Entry<'_>,
        make: impl FnOnce(&mut NodeCopier<'a>, &Entry<'_>, &Stat) -> Outcome<()>,
    ) -> Outcome<()> {
        let stat = entry.look(&self.reporter, self.shared.context.options)?;
        self.once(entry, &stat, |copier| make(&mut copier.nodes, entry, &stat))
    }

    /// Makes something, unless a name of it is in the target already.
    fn once(
        &mut self,
        entry: &Entry<'_>,
        stat: &Stat,
        make: impl FnOnce(&mut Self) -> Outcome<()>,
    ) -> Outcome<()> {
        if !entry.is_tracked(self.shared.context.options, stat) {
            self.shared.part.saw(entry, stat);
            return make(self);
        }
        let later = || {
            entry.at.dir.add(1);
            Job::of(entry, stat.file_type())
        };
        let claim = self.shared.links.claim(stat.id, later);
        if matches!(claim, Claim::Later) {
            return Err(End::Skipped);
        }
        self.shared.part.saw(entry, stat);
        match claim {
            Claim::Later => unreachable!("it has returned"),
            Claim::Link(_) if self.farm.link(entry, stat)? => Ok(()),
            Claim::Link(first) => match self.nodes.link_to_first(entry, stat, &first) {
                Err(End::TooManyNames) => self.begin_new_first(entry, stat, &first, make),
                linked => linked,
            },
            Claim::Copy => self.make_first(entry, stat, make),
        }
    }

    /// Makes the first name of a file of several, and lets those jobs go on that wait for it.
    fn make_first(
        &mut self,
        entry: &Entry<'_>,
        stat: &Stat,
        make: impl FnOnce(&mut Self) -> Outcome<()>,
    ) -> Outcome<()> {
        let failures = self.reporter.failures();
        let farm = self.farm.clone();
        let done = farm.once(entry, stat, || make(self));
        let whole = done.is_ok() && self.reporter.failures() == failures;
        let stays = matches!(done, Err(End::Skipped)) && self.nodes.is_up_to_date(entry, stat);
        let first = (done.is_ok() || stays).then(|| First::new(entry, whole));
        let mut waiting = self
            .shared
            .links
            .finished(stat.id, self.names_to_come(stat), first);
        self.dispatcher.push(&mut waiting);
        done
    }

    /// Returns how many names of a file may come; 0 if that is unknown, because links are followed.
    fn names_to_come(&self, stat: &Stat) -> u32 {
        match self.shared.context.options.dereference {
            // A file that is named, and is in a tree that is named, comes once more than it has names.
            Dereference::Never if self.shared.context.has_one_source => stat.nlink,
            _ => 0,
        }
    }

    /// Makes a copy in the place of a name that cannot be had. The names to come are names of the copy.
    fn begin_new_first(
        &mut self,
        entry: &Entry<'_>,
        stat: &Stat,
        first: &First,
        make: impl FnOnce(&mut Self) -> Outcome<()>,
    ) -> Outcome<()> {
        let failures = self.reporter.failures();
        make(self)?;
        self.reporter.tell(&Diagnostic::Warning {
            warning: Warning::NamesSplit,
            path: entry.target(),
        });
        let whole = self.reporter.failures() == failures;
        self.shared.links.renew(stat.id, first, First::new(entry, whole));
        Ok(())
    }
}
