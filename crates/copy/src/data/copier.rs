//! What one thread needs to copy contents, and what it has learnt of the file systems.

use crate::data::buffer::{Buffer, BUFFER_BYTES};
use crate::data::copy_file_range::CopyFileRange;
use crate::data::rate_limit;
use crate::data::reflink::Reflinks;
use crate::job::run::Run;
use crate::sys::FileSystem;
use crate::walk::readahead::Readahead;
use std::io;

/// Copies bytes from one descriptor to another. It knows no names and tells nobody of errors: its caller does.
pub(crate) struct DataCopier<'a> {
    pub(crate) run: &'a Run<'a>,
    /// Between a read and a write; half of it for each side of a comparison.
    pub(crate) buffer: Buffer,
    pub(crate) reflinks: Reflinks,
    pub(crate) copy_file_range: CopyFileRange,
    pub(crate) file_system: FileSystem,
    pub(crate) readahead: Readahead,
}

impl<'a> DataCopier<'a> {
    /// One without memory, which reads and writes nothing.
    pub(crate) fn new(run: &'a Run<'a>) -> DataCopier<'a> {
        DataCopier {
            run,
            buffer: Buffer::default(),
            reflinks: Reflinks::default(),
            copy_file_range: CopyFileRange::default(),
            file_system: FileSystem::default(),
            readahead: Readahead::default(),
        }
    }

    /// Takes the memory that contents go through.
    pub(crate) fn take_memory(&mut self) -> io::Result<()> {
        self.buffer = Buffer::new(rate_limit::step(self.run.options.bwlimit, BUFFER_BYTES))?;
        Ok(())
    }
}
