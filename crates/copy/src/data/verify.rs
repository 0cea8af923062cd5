//! `Options::verify`: what was written is read back and compared with the source.
//!
//! The source is read again, mostly from the page cache, and not remembered as a checksum: comparing costs less than
//! hashing does, and it does not matter which way the bytes took, through a buffer, as shared blocks or as holes.

use crate::context::Context;
use crate::data::content::{next_data, Moved, Trouble};
use crate::data::DataCopier;
use crate::sys::{self, Stat};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::Advice;
use std::ops::Range;

/// The result of a verification.
pub(crate) enum Verdict {
    /// It was not asked for, or cannot be done.
    None,
    Same,
    /// From this byte on it is another one.
    Differs(u64),
}

impl DataCopier<'_> {
    /// Compares a copy with its source, if that is wanted.
    pub(crate) fn verdict(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        source: &Stat,
        moved: &Moved,
    ) -> Result<Verdict, Trouble> {
        // What has no size is read to its end, and not to be read twice.
        let unsized_ = !source.is_file() || source.size == 0 && moved.written > 0;
        if !self.context.options.verify || unsized_ {
            return Ok(Verdict::None);
        }
        // A file of the kernel's may have less than it says.
        let length = source.size.min(moved.written + moved.shared + moved.holes);
        let difference = difference(self.context, &mut self.buffer, (from, to), length)?;
        Ok(difference.map_or(Verdict::Same, Verdict::Differs))
    }

    /// Compares what was read back of a short copy, which is so long, with its source.
    pub(crate) fn verdict_on(
        &mut self,
        found: &[u8],
        length: u64,
        from: BorrowedFd<'_>,
        source: &Stat,
    ) -> Result<Verdict, Trouble> {
        let wanted = &mut self.buffer[..source.size as usize];
        let read = sys::read_at(from, wanted, 0).map_err(Trouble::Read)?;
        let difference = first_difference(&wanted[..read], &found[..found.len().min(read)]);
        let difference = difference.or((length != read as u64).then_some(length.min(read as u64)));
        Ok(difference.map_or(Verdict::Same, Verdict::Differs))
    }
}

/// Returns where a finished copy differs from its source; `None` if it does not.
fn difference(
    context: &Context<'_>,
    buffer: &mut [u8],
    (from, to): (BorrowedFd<'_>, BorrowedFd<'_>),
    wanted: u64,
) -> Result<Option<u64>, Trouble> {
    // Only pages that are on the disk can be dropped, and are read from there again.
    rustix::fs::fdatasync(to).map_err(|error| Trouble::Write(error.into()))?;
    let reopened = sys::reopen_to_read(to).map_err(Trouble::ReadBack)?;
    let to = reopened.as_ref().map_or(to, |fd| fd.as_fd());
    drop_cached(to);
    let length = sys::stat(to).map_err(Trouble::ReadBack)?.size;
    let mut offset = 0;
    while offset < wanted {
        let data = next_of_either(from, to, offset..wanted)?;
        if let Some(difference) = difference_in(context, buffer, (from, to), data.clone())? {
            return Ok(Some(difference));
        }
        offset = data.end;
    }
    Ok((length != wanted).then_some(length.min(wanted)))
}

/// Returns true if everything in the first file, which has this length, is in the second at the same place.
pub(crate) fn is_part(
    context: &Context<'_>,
    buffer: &mut [u8],
    (from, of): (BorrowedFd<'_>, BorrowedFd<'_>),
    length: u64,
) -> Result<bool, Trouble> {
    let mut offset = 0;
    while offset < length {
        let data = next_data(of, offset, length).map_err(Trouble::ReadBack)?;
        if difference_in(context, buffer, (from, of), data.clone())?.is_some() {
            return Ok(false);
        }
        offset = data.end;
    }
    Ok(true)
}

fn difference_in(
    context: &Context<'_>,
    buffer: &mut [u8],
    (from, to): (BorrowedFd<'_>, BorrowedFd<'_>),
    range: Range<u64>,
) -> Result<Option<u64>, Trouble> {
    let half = buffer.len() / 2;
    let (wanted, found) = buffer.split_at_mut(half);
    let mut offset = range.start;
    while offset < range.end {
        if context.stopped() {
            return Err(Trouble::Stopped);
        }
        let chunk = half.min((range.end - offset).try_into().unwrap_or(usize::MAX));
        let length = sys::read_at(from, &mut wanted[..chunk], offset).map_err(Trouble::Read)?;
        let wanted = &wanted[..length];
        let length = sys::read_at(to, &mut found[..chunk], offset).map_err(Trouble::ReadBack)?;
        if let Some(difference) = first_difference(wanted, &found[..length]) {
            return Ok(Some(offset + difference));
        }
        offset += chunk as u64;
    }
    Ok(None)
}

/// Lets go of the pages of a file that are on the disk. Only a hint: where it is not followed, what is in memory is compared.
pub(crate) fn drop_cached(file: BorrowedFd<'_>) {
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
}

fn first_difference(wanted: &[u8], found: &[u8]) -> Option<u64> {
    let same = || wanted.iter().zip(found).take_while(|(one, other)| one == other);
    (wanted != found).then(|| same().count() as u64)
}

/// The next part of a range that is data in one of two files: all else is zeros in both.
fn next_of_either(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    range: Range<u64>,
) -> Result<Range<u64>, Trouble> {
    let wanted = next_data(from, range.start, range.end).map_err(Trouble::Read)?;
    let found = next_data(to, range.start, range.end).map_err(Trouble::ReadBack)?;
    Ok(if wanted.start <= found.start {
        wanted
    } else {
        found
    })
}
