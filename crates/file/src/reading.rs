//! Reading: the unread bytes, and how many are missing.

use crate::buffered::{Buffered, Step};
use crate::input::Input;
use proactor_engine::Error;

/// Upper bound in bytes on one read: a longer copy of cached pages would delay the event loop.
pub(crate) const MOST: usize = 1 << 20;
/// Lower bound in bytes on a read towards the end of a file. Files of `/proc/sys` answer only the first read,
/// and a pipe has a page or more at a time.
const LEAST_TO_THE_END: usize = 32 * 1024;

impl Buffered {
    /// Returns the bytes that have been read and not consumed.
    pub fn unread(&self) -> &[u8] {
        self.input.unread()
    }

    /// Consumes `count` of the unread bytes.
    pub fn consume(&mut self, count: usize) {
        self.input.consume(count);
        self.position += count as u64;
        self.input.shrink(self.block);
    }

    /// Makes `count` bytes unread, or all up to the end, and returns how many of the `count` there are.
    ///
    /// # Errors
    /// The error of a failed read or flush; [`Error::is_out_of_memory`] where there is no memory for the
    /// bytes.
    pub fn fill(&mut self, count: usize) -> Result<Step<usize>, Error> {
        self.fill_by(count, 0)
    }

    /// Does the same for a caller that wants `most` bytes, or all up to the end, and does not know how many
    /// there are. An op reads at least as much as is unread already, so that the number of ops grows with the
    /// logarithm of the size.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub fn fill_towards(&mut self, count: usize, most: usize) -> Result<Step<usize>, Error> {
        let unread = self.unread().len();
        self.fill_by(
            count,
            LEAST_TO_THE_END.max(unread).min(most.saturating_sub(unread)),
        )
    }

    /// Fills with ops of at least `least` bytes, or a block.
    fn fill_by(&mut self, count: usize, least: usize) -> Result<Step<usize>, Error> {
        if self.unread().len() < count {
            self.use_ahead(count);
        }
        let unread = self.unread().len();
        if unread >= count || self.at_end {
            return Ok(Step::Ready(unread.min(count)));
        }
        if let Some(error) = self.read_error.take() {
            return Err(error);
        }
        if self.flush()? == Step::Blocked || self.flight.is_some() && !self.is_reading_ahead() {
            return Ok(Step::Blocked);
        }
        self.want((count - unread).max(self.block).max(least))?;
        Ok(Step::Blocked)
    }

    /// Schedules a read of at most `count` more bytes.
    fn want(&mut self, count: usize) -> Result<(), Error> {
        let missing = count.min(MOST);
        // What is read ahead goes to memory of its own.
        // allocates: fallible, as `memory::reserve`
        if self.flight.is_none() && self.input.reserve(missing).is_err() {
            if self.seekable {
                // They can be read again, and the caller may need their memory to go on.
                self.input = Input::default();
                self.forget();
            }
            return Err(Error::out_of_memory("read"));
        }
        self.missing = missing;
        Ok(())
    }

    /// Makes bytes unread by one read of at most `count` bytes (or a block), and returns how many there are.
    /// 0 is the end.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub fn fill_some(&mut self, count: usize) -> Result<Step<usize>, Error> {
        if self.unread().is_empty() {
            self.use_ahead(count);
        }
        match self.unread().len() {
            0 if count > 0 && self.fill(1)? == Step::Blocked => {
                if self.missing > 0 {
                    self.want(count.max(self.block))?;
                }
                Ok(Step::Blocked)
            }
            0 => Ok(Step::Ready(0)),
            unread => Ok(Step::Ready(unread)),
        }
    }

    /// Makes `count` bytes unread, or all up to the end; of a pipe, those that it has. Returns how many of
    /// the `count` there are. 0 is the end.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub fn fill_chunk(&mut self, count: usize) -> Result<Step<usize>, Error> {
        // A short read has met the end: asking again would cost a call for each file.
        if !self.seekable || self.was_short && !self.unread().is_empty() {
            let step = self.fill_some(count)?;
            return Ok(match step {
                Step::Ready(unread) => Step::Ready(unread.min(count)),
                Step::Blocked => Step::Blocked,
            });
        }
        self.fill(count)
    }

    /// Reserves room for `count` unread bytes in all. A failure is not an error: it is tried again later.
    pub fn expect(&mut self, count: usize) {
        if self.flight.is_none() {
            self.input.expect(count);
        }
    }

    /// Returns the length of the next line with its end, or of the last line without one; 0 at the end of the
    /// file. At most `limit`.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub fn line(&mut self, limit: usize) -> Result<Step<usize>, Error> {
        match self.input.line(limit) {
            Some(length) => Ok(Step::Ready(length)),
            None if self.use_ahead(0) => self.line(limit),
            // Without a buffer a byte at a time, as nothing may be read that is not asked for.
            None => match self.fill(self.unread().len() + 1)? {
                Step::Ready(_) => Ok(Step::Ready(self.unread().len())),
                Step::Blocked => Ok(Step::Blocked),
            },
        }
    }
}
