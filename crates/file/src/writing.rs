//! Writing: two buffers, one of which fills while the other is on its way.

use crate::buffered::{Buffered, Flight, Queued, Step};
use crate::part::Rest;
use proactor_engine::buffer::Buf;
use proactor_engine::op::Write;
use proactor_engine::Error;
use std::os::fd::AsRawFd;

impl Buffered {
    /// Takes the bytes, at most [`block`](Self::block) of them, if there is room. Bytes that fill a buffer
    /// are to be written from then on: call [`start`](Self::start) even after `Ready`.
    ///
    /// # Errors
    /// An earlier write's, once. Nothing is taken then.
    pub fn put(&mut self, data: &[u8]) -> Result<Step<()>, Error> {
        if self.turn_to_writing()? == Step::Blocked {
            return Ok(Step::Blocked);
        }
        if self.failed.is_some() || !self.output.has_room(data.len(), self.block) {
            if self.queued.is_some() || self.flight.is_some() {
                return Ok(Step::Blocked);
            }
            let retries = self.failed.is_some();
            // The bytes behind the last whole block wait for those that fill theirs.
            self.queue_output(self.past_last_block())?;
            if retries && !self.output.has_room(data.len(), self.block) {
                return Ok(Step::Blocked);
            }
        }
        self.append(data)?;
        Ok(Step::Ready(()))
    }

    /// Takes the bytes if that only copies them, with no op to be started, waited for or reported.
    pub fn put_at_once(&mut self, data: &[u8]) -> bool {
        let quiet = match &self.flight {
            None => self.queued.is_none() && self.missing == 0 && self.asked.is_none(),
            Some(Flight::Flush { .. }) => !self.queued.as_ref().is_some_and(|queued| queued.large),
            Some(_) => false,
        };
        let room = quiet
            && self.running.is_none()
            && self.write_error.is_none()
            && self.failed.is_none()
            && self.output.has_room(data.len(), self.block);
        room && self.append(data).is_ok()
    }

    /// # Errors
    /// If there is no memory for the bytes. They are not taken then.
    fn append(&mut self, data: &[u8]) -> Result<(), Error> {
        self.forget_overtaken();
        if self.output.is_empty() {
            self.output.at = self.position;
        }
        let pushed = self.output.push(data, self.block);
        pushed.map_err(|_| Error::out_of_memory("write"))?;
        self.position += data.len() as u64;
        Ok(())
    }

    /// Writes the caller's own memory, of any size, past the buffer. `buffer` is taken when it can be begun; `Ready` when
    /// there is none left and all is with the kernel.
    ///
    /// # Errors
    /// The write's. What was written before it counts for the position.
    pub fn put_large(&mut self, buffer: &mut Option<Buf>) -> Result<Step<()>, Error> {
        if self.flush()? == Step::Blocked || self.turn_to_writing()? == Step::Blocked {
            return Ok(Step::Blocked);
        }
        let Some(buffer) = buffer.take() else {
            return Ok(Step::Ready(()));
        };
        if buffer.is_empty() {
            return Ok(Step::Ready(()));
        }
        let at = self.position;
        self.queued = Some(Queued {
            buffer,
            skip: 0,
            at,
            large: true,
        });
        Ok(Step::Blocked)
    }

    fn turn_to_writing(&mut self) -> Result<Step<()>, Error> {
        if let Some(error) = self.write_error.take() {
            return Err(error);
        }
        let reads = self.is_filling() || matches!(self.flight, Some(Flight::Long { .. }));
        if reads || self.is_writing_large() {
            return Ok(Step::Blocked);
        }
        self.forget_overtaken();
        if self.output.is_empty() {
            self.output.at = self.position;
        }
        Ok(Step::Ready(()))
    }

    /// Drops bytes that were read after the offset that is written now. Bytes that a peer has sent stay the
    /// next to be read.
    fn forget_overtaken(&mut self) {
        if self.seekable {
            self.forget();
        }
    }

    /// Queues the bytes that could not be written, or else the buffer except for its last `keep` bytes.
    fn queue_output(&mut self, keep: usize) -> Result<(), Error> {
        self.queued = self.failed.take();
        if self.queued.is_none() {
            let taken = self.output.take_all_but(keep);
            let (data, at) = taken.map_err(|_| Error::out_of_memory("write"))?;
            self.queued = Some(Queued {
                buffer: data.into(),
                skip: 0,
                at,
                large: false,
            });
        }
        Ok(())
    }

    /// Brings all that was written to the kernel.
    ///
    /// # Errors
    /// A write's, once. Its bytes stay, and the next flush tries them again.
    pub fn flush(&mut self) -> Result<Step<()>, Error> {
        if let Some(error) = self.write_error.take() {
            return Err(error);
        }
        let waits = self.failed.is_some() || !self.output.is_empty();
        if self.queued.is_none() && self.flight.is_none() && waits {
            self.queue_output(0)?;
        }
        let busy = self.queued.is_some() || self.is_writing();
        Ok(if busy { Step::Blocked } else { Step::Ready(()) })
    }

    /// Returns true if the caller's own memory is being written; the position is not known until that ends.
    pub fn is_writing_large(&self) -> bool {
        matches!(self.flight, Some(Flight::Large { .. }))
            || self.queued.as_ref().is_some_and(|queued| queued.large)
    }

    /// Returns true if there are bytes that have not reached the kernel.
    pub fn is_dirty(&self) -> bool {
        !self.output.is_empty() || self.queued.is_some() || self.failed.is_some() || self.is_writing()
    }

    /// Returns true if a write is in flight.
    pub fn is_writing(&self) -> bool {
        matches!(self.flight, Some(Flight::Flush { .. } | Flight::Large { .. }))
    }

    /// Drops what is left of a write of the caller's own memory, and returns its length.
    pub fn drop_large(&mut self) -> usize {
        match self.queued.take() {
            Some(queued) if queued.large => queued.len(),
            other => {
                self.queued = other;
                0
            }
        }
    }

    /// Returns the number of bytes that have not reached the kernel, without those of the write in flight.
    pub fn unwritten(&self) -> usize {
        let waiting = self.queued.iter().chain(&self.failed);
        self.output.len() + waiting.map(Queued::len).sum::<usize>()
    }

    /// Drops the bytes that could not be written.
    pub fn discard(&mut self) {
        self.output.clear();
        self.queued = None;
        self.failed = None;
        self.write_error = None;
    }

    /// Returns the offset of the write in flight, the number of bytes of its buffer before that, and true if
    /// it is the caller's memory.
    pub(crate) fn place_of_write(&self, flight: &Flight) -> (u64, usize, bool) {
        match *flight {
            Flight::Flush { at, skip } => (at, skip, false),
            Flight::Large { skip } => (self.position, skip, true),
            _ => (self.position, 0, true),
        }
    }

    pub(crate) fn wrote(&mut self, flight: &Flight, write: Write, count: usize, error: Option<Error>) {
        let (at, skip, large) = self.place_of_write(flight);
        if large {
            self.position += count as u64;
        }
        let (length, next) = (write.buffer.len(), at + count as u64);
        // A write of some bytes that writes none and reports no error would be tried for ever.
        let error = error.or_else(|| (count == 0 && length > 0).then(|| Error::new(libc::EIO, "write")));
        match error {
            None if count < length => {
                self.queued = Some(Queued {
                    buffer: Rest::unwrap(write.buffer, skip),
                    skip: skip + count,
                    at: next,
                    large,
                });
            }
            None => {
                if let Buf::Vec(memory) = Rest::unwrap(write.buffer, skip) {
                    self.output.written(memory, self.block);
                }
                self.follow_the_end();
            }
            Some(error) => {
                if !large {
                    self.failed = Some(Queued {
                        buffer: Rest::unwrap(write.buffer, skip),
                        skip,
                        at,
                        large,
                    });
                }
                self.write_error = Some(error);
            }
        }
    }

    /// Updates the position after an append: others may append too, so only the kernel knows where our bytes
    /// went.
    fn follow_the_end(&mut self) {
        if self.append && self.seekable {
            let fd = self.file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            // SAFETY: no pointers; asking for the position does not wait.
            let end = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
            if let Ok(end) = u64::try_from(end) {
                self.position = end + self.output.len() as u64;
            }
        }
    }
}
