//! What each thread of a copy has of its own.

use crate::api::copy_method::How;
use crate::api::observer::{Copied, Kind};
use crate::api::options::Options;
use crate::context::outcome::Outcome;
use crate::context::reporter::Reporter;
use crate::data::DataCopier;
use crate::job::run::Run;
use crate::job::thread_pool::{Dispatcher, ThreadPool};
use crate::metadata::MetadataCopier;
use crate::pair::directory::Dir;
use crate::pair::Entry;
use crate::resume::journal_writer::JournalWriter;
use crate::resume::previous_run::PreviousRun;
use crate::resume::start::JournalOpener;
use crate::resume::tidy::Tidier;
use crate::sys::listing;
use crate::sys::memory;
use crate::uring::Ring;
use crate::walk::block_groups::GroupDirectory;
use std::io;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// What a thread has of its own.
pub(crate) struct Worker<'a> {
    pub(crate) run: &'a Run<'a>,
    pub(crate) dispatcher: Rc<Dispatcher<'a>>,
    pub(crate) group_directory: GroupDirectory,
    pub(crate) reporter: Rc<Reporter<'a>>,
    pub(crate) writer: Rc<JournalWriter<'a>>,
    pub(crate) previous: Rc<PreviousRun<'a>>,
    pub(crate) tidier: Tidier<'a>,
    pub(crate) data: DataCopier<'a>,
    pub(crate) metadata: MetadataCopier<'a>,
    pub(crate) entries: Vec<MaybeUninit<u8>>,
    /// What the entry in hand is of the whole, as long as nobody has told that it is done.
    pub(crate) part: f64,
    /// What files are in at once, if the engine is a ring.
    pub(crate) ring: Option<Ring>,
    /// What the kernel says when it is entered: it was there, and was forbidden meanwhile.
    pub(crate) ring_lost: Option<i32>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(run: &'a Run<'a>) -> Worker<'a> {
        let reporter = Rc::new(Reporter::new(&run.context));
        let writer = Rc::new(JournalWriter::new(&run.context, &run.journal));
        Worker {
            run,
            dispatcher: Rc::new(Dispatcher::new(&run.queue, None)),
            group_directory: GroupDirectory::default(),
            reporter: reporter.clone(),
            previous: Rc::new(PreviousRun::new(
                &run.context,
                &run.part,
                &run.created,
                writer.clone(),
                reporter.clone(),
            )),
            writer,
            tidier: Tidier::new(&run.context, &run.journal, reporter.clone()),
            metadata: MetadataCopier::new(&run.context, &run.locks, reporter),
            entries: Vec::new(),
            part: 0.0,
            data: DataCopier::new(&run.context, run),
            ring: None,
            ring_lost: None,
        }
    }

    /// Takes the memory that contents and entries go through.
    pub(crate) fn take_memory(&mut self) -> io::Result<()> {
        self.data.take_memory()?;
        self.entries = memory::room(listing::READ_BYTES)?;
        Ok(())
    }

    pub(crate) fn of_pool(
        run: &'a Run<'a>,
        thread_pool: Arc<dyn ThreadPool + 'a>,
        number: usize,
    ) -> Worker<'a> {
        Worker {
            dispatcher: Rc::new(Dispatcher::new(&run.queue, Some(thread_pool))),
            group_directory: GroupDirectory::of(number),
            ..Worker::new(run)
        }
    }

    pub(crate) fn open_journal(&self, top: &Arc<Dir>) -> Outcome<()> {
        let run = self.run;
        JournalOpener::new(&run.context, &run.journal, &run.disks, self.reporter.clone()).open(top)
    }

    pub(crate) fn options(&self) -> &'a Options {
        self.run.context.options
    }

    /// Something without contents is copied.
    pub(crate) fn copied(&self, entry: &Entry<'_>, kind: Kind, backup: Option<PathBuf>) {
        self.copied_how(entry, kind, 0, backup, None);
    }

    pub(crate) fn copied_how(
        &self,
        entry: &Entry<'_>,
        kind: Kind,
        bytes: u64,
        backup: Option<PathBuf>,
        how: Option<How>,
    ) {
        self.run.created.note(entry, kind);
        let copied = Copied {
            kind,
            bytes,
            backup,
            how,
            paths: entry,
        };
        self.reporter.copied(&copied);
    }
}
