//! A file's bytes, from one open file to another: as shared blocks, or in steps, in order, in parts or between holes.

use crate::api::copy_method::{Answer, Detection, How};
use crate::api::options::{Options, Reflink, Sparse};
use crate::data::buffer::Buffer;
use crate::data::buffer::BUFFER_BYTES;
use crate::data::DataCopier;
use crate::sys::{self, Stat};
use rustix::fd::BorrowedFd;
use rustix::fs::{Advice, SeekFrom};
use rustix::io::Errno;
use std::io;
use std::ops::Range;

/// Zeros are looked for in pieces of this size, and left out: a block of most file systems.
const BLOCK_BYTES: usize = 4096;

/// Up to this length the number of blocks tells whether there are holes. It counts the file system's own blocks as
/// well: ext4 has the first one of a file's extents only for five, which with a hole between are this many bytes at
/// least.
const UNCLEAR_BYTES: u64 = 6 * 4096;

/// A file that is shorter is copied before other threads have taken their parts.
const WORTH_PARTING_BYTES: u64 = 64 << 20;

/// Upper bound on the threads of a long file. They wait for the device, and only one at a time writes to a file: 2
/// GiB cold took 0.82 of the time with four as with two, and with eight.
const MAX_PARTS: usize = 4;

/// A file that claims to have no bytes is read to its end, as those in /proc are, but not further than this: some have
/// no end.
const MAX_UNSIZED_BYTES: u64 = 1 << 30;

/// The way that a file's bytes took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moved {
    pub(crate) written: u64,
    pub(crate) shared: u64,
    pub(crate) holes: u64,
    /// The part of `written` that the kernel copied by itself.
    pub(crate) offloaded: u64,
}

/// Two open regular files, one of which gets what is in the other.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub(crate) from: BorrowedFd<'a>,
    pub(crate) to: BorrowedFd<'a>,
    /// The source's, and the target's.
    pub(crate) devices: (u64, u64),
    /// The source's, when it was looked at before this attempt.
    pub(crate) size: u64,
    /// Several threads copy it at the same time.
    pub(crate) parted: bool,
}

impl Moved {
    /// Returns what a dry run takes a file for.
    pub(crate) fn all_of(stat: &Stat) -> Moved {
        Moved {
            written: stat.size,
            ..Moved::default()
        }
    }

    /// Returns which way the contents took. `unsupported`: blocks cannot be shared between the two file systems.
    pub(crate) fn how(&self, options: &Options, unsupported: bool) -> How {
        let shared = self.shared > 0;
        let empty = self.written + self.holes == 0;
        How {
            offload: match self.offloaded {
                _ if shared || empty => Answer::Unknown,
                0 => Answer::No,
                _ => Answer::Yes,
            },
            reflink: match options.reflink {
                _ if shared => Answer::Yes,
                Reflink::Never => Answer::No,
                _ if unsupported => Answer::Unsupported,
                _ if empty => Answer::Unknown,
                _ => Answer::No,
            },
            sparse: match options.sparse {
                _ if shared || empty => Detection::Unknown,
                Sparse::Always => Detection::SeekHoleAndZeros,
                Sparse::Auto if self.holes > 0 => Detection::SeekHole,
                Sparse::Auto | Sparse::Never => Detection::No,
            },
        }
    }
}

/// An error, and the side that it is on.
pub(crate) enum Trouble {
    Read(io::Error),
    Write(io::Error),
    Clone(io::Error),
    /// While what was written is verified.
    ReadBack(io::Error),
    Stopped,
}

impl DataCopier<'_> {
    /// Copies a regular file of the length that `stat` says, into an empty regular file. Attributes may have a block of
    /// their own.
    pub(crate) fn contents(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        stat: &Stat,
        attributes: bool,
        to_device: u64,
    ) -> Result<Moved, Trouble> {
        let ends = Ends {
            from,
            to,
            devices: (stat.id.0, to_device),
            size: stat.size,
            parted: false,
        };
        if stat.size == 0 {
            return self.stream(from, to, Some(MAX_UNSIZED_BYTES));
        }
        if let Some(moved) = self.cloned(ends)? {
            return Ok(moved);
        }
        match self.context.options.sparse {
            Sparse::Auto if !self.counts_all(ends, stat) && has_holes(from, stat, attributes) => {
                self.data_only(ends, false)
            }
            Sparse::Always => self.data_only(ends, true),
            _ if stat.size <= self.buffer.len() as u64 => self.in_order(ends),
            _ => self.in_chunks(ends),
        }
    }

    /// Returns true if each of a source's bytes has a block, without a search for holes, for which tmpfs goes
    /// through all pages of a file (8 MB: 100 microseconds, 0.04 of the time; 25 runs in turn). It counts these
    /// pages and nothing of its own. If there were holes, as many pages would have to be allocated beyond the end,
    /// and then zeros are written for them.
    fn counts_all(&self, ends: Ends<'_>, stat: &Stat) -> bool {
        let (source, target) = ends.devices;
        stat.blocks.checked_mul(512) == stat.size.checked_next_multiple_of(BLOCK_BYTES as u64)
            && source == target
            && self.file_system.of(ends.to, target) == sys::TMPFS
    }

    /// Copies a file from its beginning to its end.
    fn in_order(&mut self, ends: Ends<'_>) -> Result<Moved, Trouble> {
        let mut moved = Moved::default();
        self.span(ends, 0..ends.size, false, &mut moved)?;
        Ok(moved)
    }

    fn in_chunks(&mut self, ends: Ends<'_>) -> Result<Moved, Trouble> {
        // Only a hint: what it returns does not matter.
        let _ = rustix::fs::fadvise(ends.from, 0, None, Advice::Sequential);
        let others = match ends.size < WORTH_PARTING_BYTES {
            true => 0,
            false => self.helpers.enter(MAX_PARTS - 1),
        };
        if others == 0 {
            return self.in_order(ends);
        }
        let done = self.in_parts(Ends { parted: true, ..ends }, others);
        self.helpers.leave(others);
        done
    }

    /// Copies a long file with other threads, while there is nothing else for them to do.
    fn in_parts(&mut self, ends: Ends<'_>, others: usize) -> Result<Moved, Trouble> {
        let part = (ends.size / (others as u64 + 1)).next_multiple_of(BUFFER_BYTES as u64);
        let (context, helpers) = (self.context, self.helpers);
        let mut moved = Moved::default();
        std::thread::scope(|scope| {
            // The last part goes first: where there are no threads to be had, what is left is in one piece.
            let mut own = 0..ends.size;
            let mut started = Vec::new();
            for number in (1..=others as u64).rev() {
                let range = number * part..own.end;
                let Ok(buffer) = Buffer::new(self.buffer.len()) else {
                    break;
                };
                let builder = std::thread::Builder::new().name("copy-part".into());
                let Ok(other) = builder.spawn_scoped(scope, {
                    let range = range.clone();
                    move || {
                        let mut moved = Moved::default();
                        let mut copier = DataCopier {
                            buffer,
                            ..DataCopier::new(context, helpers)
                        };
                        let done = copier.span(ends, range, false, &mut moved);
                        done.map(|_| moved)
                    }
                }) else {
                    break;
                };
                own.end = range.start;
                started.push(other);
            }
            self.span(ends, own, false, &mut moved)?;
            for other in started {
                let other = other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                moved.written += other?.written;
            }
            Ok(moved)
        })
    }

    /// Copies a range; false if the source ended in it. With `zeros_out`, blocks of zeros are passed over.
    fn span(
        &mut self,
        ends: Ends<'_>,
        range: Range<u64>,
        zeros_out: bool,
        moved: &mut Moved,
    ) -> Result<bool, Trouble> {
        let mut offset = range.start;
        while offset < range.end {
            // What is over after one step is not stopped: in the place of what was there it would leave nothing.
            if offset > 0 && self.context.stopped() {
                return Err(Trouble::Stopped);
            }
            let chunk = (range.end - offset).min(self.buffer.len() as u64);
            self.wait_for_turn(chunk as usize)?;
            let offloaded = match zeros_out {
                true => 0,
                false => self.offloaded(ends, offset..offset + chunk),
            };
            moved.offloaded += offloaded;
            moved.written += offloaded;
            let mut done = offloaded;
            if offloaded < chunk {
                let from = offset + offloaded;
                done += self.through_buffer(ends, from..offset + chunk, zeros_out, moved)?;
            }
            self.context.observer.progress(done);
            offset += done;
            if done < chunk {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads and writes a range that the buffer has room for. Returns how much there was.
    fn through_buffer(
        &mut self,
        ends: Ends<'_>,
        range: Range<u64>,
        zeros_out: bool,
        moved: &mut Moved,
    ) -> Result<u64, Trouble> {
        let buffer = &mut self.buffer[..(range.end - range.start) as usize];
        let read = self.readahead.read(ends.from, buffer, range.start);
        let bytes = &self.buffer[..read.map_err(Trouble::Read)?];
        let length = bytes.len() as u64;
        let written = match range.start {
            _ if zeros_out => write_data(ends.to, bytes, range.start),
            // Some regular files know no offsets: many of those in /proc.
            0 => sys::write_all(ends.to, bytes).map(|()| length),
            start => sys::write_all_at(ends.to, bytes, start).map(|()| length),
        };
        let written = written.map_err(Trouble::Write)?;
        moved.written += written;
        moved.holes += length - written;
        Ok(length)
    }

    /// Copies what the file system says is data, and leaves holes for the rest.
    fn data_only(&mut self, ends: Ends<'_>, zeros_out: bool) -> Result<Moved, Trouble> {
        let mut moved = Moved::default();
        let mut offset = 0;
        while offset < ends.size {
            let data = next_data(ends.from, offset, ends.size).map_err(Trouble::Read)?;
            moved.holes += data.start - offset;
            self.context.observer.progress(data.start - offset);
            let end = data.end;
            if !self.span(ends, data, zeros_out, &mut moved)? {
                return Ok(moved);
            }
            offset = end;
        }
        // A hole at the end is nothing that was written.
        rustix::fs::ftruncate(ends.to, ends.size).map_err(|error| Trouble::Write(error.into()))?;
        Ok(moved)
    }
}

/// Returns true if there may be holes.
pub(crate) fn has_holes(fd: BorrowedFd<'_>, stat: &Stat, attributes: bool) -> bool {
    let unclear = attributes || stat.size >= UNCLEAR_BYTES;
    misses_blocks(stat) || unclear && !is_dense(fd, stat.size)
}

/// Returns true if there are fewer blocks than bytes.
pub(crate) fn misses_blocks(stat: &Stat) -> bool {
    stat.blocks.saturating_mul(512) < stat.size
}

fn is_dense(fd: BorrowedFd<'_>, size: u64) -> bool {
    rustix::fs::seek(fd, SeekFrom::Hole(0)).is_ok_and(|hole| hole >= size)
}

/// Writes what is not zeros. Returns how many bytes that were.
fn write_data(to: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> io::Result<u64> {
    let mut written = 0;
    let mut start = None;
    let blocks = bytes.len().div_ceil(BLOCK_BYTES);
    for block in 0..=blocks {
        let at = (block * BLOCK_BYTES).min(bytes.len());
        let end = (at + BLOCK_BYTES).min(bytes.len());
        let has_data = bytes[at..end].iter().any(|&byte| byte != 0);
        match (start, has_data) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                sys::write_all_at(to, &bytes[from..at], offset + from as u64)?;
                written += (at - from) as u64;
                start = None;
            }
            _ => {}
        }
    }
    Ok(written)
}

/// The next range with data at or after `offset`; empty and at `size` if there is none.
pub(crate) fn next_data(fd: BorrowedFd<'_>, offset: u64, size: u64) -> io::Result<Range<u64>> {
    let start = match rustix::fs::seek(fd, SeekFrom::Data(offset)) {
        Ok(start) => start.min(size),
        Err(Errno::NXIO) => size,
        // It knows nothing of holes: all is data.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(offset..size),
        Err(error) => return Err(error.into()),
    };
    if start == size {
        return Ok(size..size);
    }
    match rustix::fs::seek(fd, SeekFrom::Hole(start)) {
        Ok(end) => Ok(start..end.min(size)),
        // Cut off in between; reading will notice.
        Err(Errno::NXIO) => Ok(start..size),
        Err(error) => Err(error.into()),
    }
}
