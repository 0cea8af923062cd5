//! What each thread of a copy has of its own.

use crate::api::copy_method::How;
use crate::api::observer::{Copied, Kind};
use crate::api::options::Options;
use crate::context::reporter::Reporter;
use crate::data::buffer::{self};
use crate::data::DataCopier;
use crate::job::run::Run;
use crate::metadata::MetadataCopier;
use crate::pair::Entry;
use crate::resume::journal_writer::JournalWriter;
use crate::sys::listing;
use crate::uring::Ring;
use crate::walk::block_groups::GroupDirectory;
use crate::walk::queue::Need;
use crate::walk::thread_pool::ThreadPool;
use std::io;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// What a thread has of its own.
pub(crate) struct Worker<'a> {
    pub(crate) run: &'a Run<'a>,
    /// None if it brings nothing that others could do.
    pub(crate) thread_pool: Option<Arc<dyn ThreadPool + 'a>>,
    pub(crate) group_directory: GroupDirectory,
    pub(crate) reporter: Rc<Reporter<'a>>,
    pub(crate) journal: JournalWriter<'a>,
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
        Worker {
            run,
            thread_pool: None,
            group_directory: GroupDirectory::default(),
            reporter: reporter.clone(),
            journal: JournalWriter::new(run),
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
        self.entries = buffer::room(listing::READ_BYTES)?;
        Ok(())
    }

    pub(crate) fn of_pool(
        run: &'a Run<'a>,
        thread_pool: Arc<dyn ThreadPool + 'a>,
        number: usize,
    ) -> Worker<'a> {
        Worker {
            thread_pool: Some(thread_pool),
            group_directory: GroupDirectory::of(number),
            ..Worker::new(run)
        }
    }

    /// Has others start, if the queue has said that they are needed.
    pub(crate) fn call(&self, needed: Option<Need>) {
        if let (Some(need), Some(thread_pool)) = (needed, &self.thread_pool) {
            thread_pool.clone().call(need);
        }
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
        self.run.note_created(entry, kind);
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
