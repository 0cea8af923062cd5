//! What each thread of a copy has of its own.

use crate::api::copy_method::How;
use crate::api::error::{Diagnostic, Refusal, Step};
use crate::api::observer::{Copied, Kind, Paths};
use crate::api::options::Options;
use crate::api::report::Report;
use crate::data::buffer::{self, Buffer, BUFFER_BYTES};
use crate::data::copy_file_range::Offload;
use crate::data::rate_limit;
use crate::data::reflink::Clones;
use crate::entry::Entry;
use crate::job::outcome::End;
use crate::job::run::Run;
use crate::resume::journal::Batch;
use crate::sys::FileSystem;
use crate::uring::Ring;
use crate::walk::block_groups::Nursery;
use crate::walk::listing;
use crate::walk::queue::Need;
use crate::walk::readahead::Ahead;
use crate::walk::thread_pool::Crew;
use std::io;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::Arc;

/// What a thread has of its own.
pub(crate) struct Worker<'a> {
    pub(crate) run: &'a Run<'a>,
    /// None if it brings nothing that others could do.
    pub(crate) crew: Option<Arc<dyn Crew + 'a>>,
    pub(crate) nursery: Nursery,
    pub(crate) report: Report,
    /// What is finished and not written down yet.
    pub(crate) log: Batch,
    /// What contents go through.
    pub(crate) buffer: Buffer,
    /// Attribute names and values.
    pub(crate) names: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) entries: Vec<MaybeUninit<u8>>,
    /// What the entry in hand is of the whole, as long as nobody has told that it is done.
    pub(crate) part: f64,
    pub(crate) clones: Clones,
    pub(crate) offload: Offload,
    pub(crate) file_system: FileSystem,
    pub(crate) ahead: Ahead,
    /// What files are in at once, if the engine is a ring.
    pub(crate) ring: Option<Ring>,
    /// What the kernel says when it is entered: it was there, and was forbidden meanwhile.
    pub(crate) ring_lost: Option<i32>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(run: &'a Run<'a>) -> Worker<'a> {
        Worker {
            run,
            crew: None,
            nursery: Nursery::default(),
            report: Report::default(),
            log: Batch::default(),
            buffer: Buffer::default(),
            names: Vec::new(),
            value: Vec::new(),
            entries: Vec::new(),
            part: 0.0,
            clones: Clones::default(),
            offload: Offload::default(),
            file_system: FileSystem::default(),
            ahead: Ahead::default(),
            ring: None,
            ring_lost: None,
        }
    }

    /// Takes the memory that contents and entries go through.
    pub(crate) fn take_memory(&mut self) -> io::Result<()> {
        self.buffer = Buffer::new(rate_limit::step(self.run.options.bwlimit, BUFFER_BYTES))?;
        self.entries = buffer::room(listing::READ_BYTES)?;
        Ok(())
    }

    pub(crate) fn of_crew(run: &'a Run<'a>, crew: Arc<dyn Crew + 'a>, number: usize) -> Worker<'a> {
        Worker {
            crew: Some(crew),
            nursery: Nursery::of(number),
            ..Worker::new(run)
        }
    }

    /// Has others start, if the schedule has said that they are needed.
    pub(crate) fn call(&self, needed: Option<Need>) {
        if let (Some(need), Some(crew)) = (needed, &self.crew) {
            crew.clone().call(need);
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

    pub(crate) fn advance(&self, part: f64) {
        if self.run.part_of_source.is_some() && part > 0.0 {
            self.run.observer.advanced(part);
        }
    }

    /// Something without contents is copied.
    pub(crate) fn copied(&mut self, entry: &Entry<'_>, kind: Kind, backup: Option<PathBuf>) {
        self.copied_how(entry, kind, 0, backup, None);
    }

    pub(crate) fn copied_how(
        &mut self,
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
        self.run.observer.copied(&copied);
    }
}
