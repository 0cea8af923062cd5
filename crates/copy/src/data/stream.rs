//! What has no length is read to its end: FIFOs, terminals, devices, files of /proc. So is what is written to one of them.
//!
//! At the other end of a FIFO or a terminal is a process that may never come. Calls that wait for that are begun again after a
//! signal (SA_RESTART), and from Python none comes: so nothing waits for long without a look at whether to stop, but a read of a
//! device and a write to one, or to a terminal.

use crate::api::options::Reflink;
use crate::data::content::{Moved, Trouble};
use crate::data::DataCopier;
use crate::sys;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// A wait notices within this time that the copy is to stop.
const SLICE: Duration = Duration::from_millis(50);

impl DataCopier<'_> {
    /// Copies what comes, in turn, up to the end. With a limit it is a file: more bytes are an error, and no writer is waited for.
    pub(crate) fn stream(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        limit: Option<u64>,
    ) -> Result<Moved, Trouble> {
        let mut moved = Moved::default();
        // Some devices begin only when they are read: they would never be ready.
        let terminal = limit.is_none() && from.is_terminal();
        loop {
            if terminal {
                self.wait_until(from, PollFlags::IN)?;
            }
            let length = match sys::read(from, &mut self.buffer) {
                Ok(0) => {
                    if self.context.options.reflink == Reflink::Always {
                        // Where nothing can be shared, an empty file cannot either.
                        rustix::fs::ioctl_ficlone(to, from).map_err(|errno| Trouble::Clone(errno.into()))?;
                    }
                    return Ok(moved);
                }
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) if limit.is_none() && error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait_until(from, PollFlags::IN)?;
                    continue;
                }
                Err(error) => return Err(Trouble::Read(error)),
            };
            if self.context.stopped() {
                return Err(Trouble::Stopped);
            }
            if self.context.options.reflink == Reflink::Always {
                // Bytes that come from no block cannot be shared. The kernel says so in its own words.
                let refused = rustix::fs::ioctl_ficlone(to, from)
                    .err()
                    .unwrap_or(Errno::OPNOTSUPP);
                return Err(Trouble::Clone(refused.into()));
            }
            self.wait_for_turn(length)?;
            self.write_out(to, length)?;
            moved.written += length as u64;
            self.context.observer.progress(length as u64);
            if limit.is_some_and(|limit| moved.written > limit) {
                return Err(Trouble::Read(Errno::FBIG.into()));
            }
        }
    }

    /// Writes the beginning of the buffer.
    fn write_out(&self, to: BorrowedFd<'_>, length: usize) -> Result<(), Trouble> {
        let mut bytes = &self.buffer[..length];
        while !bytes.is_empty() {
            match rustix::io::write(to, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait_until(to, PollFlags::OUT)?,
                Err(error) => return Err(Trouble::Write(error.into())),
            }
        }
        Ok(())
    }

    /// Until a FIFO that was opened without waiting has had a writer.
    pub(crate) fn wait_for_writer(&self, fifo: BorrowedFd<'_>) -> Result<(), Trouble> {
        let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
        let (_end, scratch) = pipe.map_err(|error| Trouble::Read(error.into()))?;
        while !self.is_ready(fifo, PollFlags::IN)? {
            // Of a writer that has nothing to say yet only this tells: without one it is the end that would be copied.
            if rustix::pipe::tee(fifo, &scratch, 1, SpliceFlags::NONBLOCK) != Ok(0) {
                break;
            }
        }
        Ok(())
    }

    /// Waits until a descriptor is ready, or its other end is closed.
    fn wait_until(&self, fd: BorrowedFd<'_>, ready: PollFlags) -> Result<(), Trouble> {
        while !self.is_ready(fd, ready)? {}
        Ok(())
    }

    /// Waits for a short time, and returns true if the descriptor is ready.
    fn is_ready(&self, fd: BorrowedFd<'_>, ready: PollFlags) -> Result<bool, Trouble> {
        if self.context.stopped() {
            return Err(Trouble::Stopped);
        }
        let slice = Timespec::try_from(SLICE).ok();
        let found = poll(&mut [PollFd::from_borrowed_fd(fd, ready)], slice.as_ref());
        // What cannot be waited for tells when it is read or written.
        Ok(!matches!(found, Ok(0) | Err(Errno::INTR)))
    }
}
