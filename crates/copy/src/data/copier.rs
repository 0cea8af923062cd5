//! What one thread needs to copy contents, and what it has learnt of the file systems.

use crate::context::rate_limit;
use crate::context::Context;
use crate::data::buffer::{Buffer, BUFFER_BYTES};
use crate::data::content::Trouble;
use crate::data::copy_file_range::CopyFileRange;
use crate::data::readahead::Readahead;
use crate::data::reflink::Reflinks;
use crate::sys::FileSystem;
use std::io;

/// Other threads of the copy, which may take parts of a long file.
pub(crate) trait Helpers: Sync {
    /// Counts up to `most` more threads as busy, and returns how many there is room for.
    fn enter(&self, most: usize) -> usize;

    /// Their work is done.
    fn leave(&self, count: usize);
}

/// Copies bytes from one descriptor to another. It knows no names, and leaves it to its caller to report errors.
pub(crate) struct DataCopier<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(super) helpers: &'a dyn Helpers,
    /// Between a read and a write; half of it for each side of a comparison.
    pub(crate) buffer: Buffer,
    pub(crate) reflinks: Reflinks,
    pub(crate) copy_file_range: CopyFileRange,
    pub(crate) file_system: FileSystem,
    pub(crate) readahead: Readahead,
}

impl<'a> DataCopier<'a> {
    /// One without memory, which reads and writes nothing.
    pub(crate) fn new(context: &'a Context<'a>, helpers: &'a dyn Helpers) -> DataCopier<'a> {
        DataCopier {
            context,
            helpers,
            buffer: Buffer::default(),
            reflinks: Reflinks::default(),
            copy_file_range: CopyFileRange::default(),
            file_system: FileSystem::default(),
            readahead: Readahead::default(),
        }
    }

    /// Takes the memory that contents go through.
    pub(crate) fn take_memory(&mut self) -> io::Result<()> {
        self.buffer = Buffer::new(rate_limit::step(self.context.options.bwlimit, BUFFER_BYTES))?;
        Ok(())
    }

    /// Waits until this many bytes may be written.
    pub(crate) fn wait_for_turn(&self, bytes: usize) -> Result<(), Trouble> {
        match self.context.wait_for_turn(bytes) {
            true => Ok(()),
            false => Err(Trouble::Stopped),
        }
    }
}
