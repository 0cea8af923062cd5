//! Transfers that go on after a short one.
//!
//! Invariant: whatever happens, the buffer comes back in the type that it had, unless the driver itself is lost.

use crate::buffer::{Buf, Buffer, Slice};
use crate::error::Error;
use crate::io::Runner;
use crate::op::{Handle, Operation, Read, RwFlags, Write};
use crate::Failed;
use std::io::{self, ErrorKind};

/// Where a transfer is, and where its buffer goes.
struct Place {
    file: Handle,
    offset: u64,
    flags: RwFlags,
}

impl Place {
    /// The engine has refused what reaches beyond the largest offset.
    fn after(&self, done: usize) -> u64 {
        self.offset + done as u64
    }

    fn read<B: Buffer>(self, buffer: Buf) -> Read<B> {
        Read {
            file: self.file,
            offset: Some(self.offset),
            buffer: B::from_buf(buffer),
            flags: self.flags,
        }
    }

    fn write<B: Buffer>(self, buffer: Buf) -> Write<B> {
        Write {
            file: self.file,
            offset: Some(self.offset),
            buffer: B::from_buf(buffer),
            flags: self.flags,
        }
    }
}

/// Runs an op again that was interrupted before it did anything.
async fn uninterrupted<O: Operation>(io: &impl Runner, mut op: O) -> Result<O::Output, Failed<O>> {
    loop {
        let failed = match io.run(op).await {
            Err(failed) if failed.errno() == libc::EINTR => failed,
            other => return other,
        };
        op = match failed.into_parts() {
            (_, Some(op)) => op,
            (error, None) => return Err(Failed::new(error, None)),
        };
    }
}

/// Fills the buffer.
pub(super) async fn read<B: Buffer>(io: impl Runner, op: Read<B>) -> Result<B, Failed<Read<B>>> {
    let place = Place {
        file: op.file.clone(),
        offset: op.offset.unwrap_or(0),
        flags: op.flags,
    };
    let (mut filled, buffer) = uninterrupted(&io, op).await?;
    let mut buffer: Buf = buffer.into();
    let wanted = buffer.capacity();
    while filled < wanted {
        if is_at_end(&place.file, place.after(filled)) {
            let error = Error::new(libc::EIO, "read")
                .caused_by(ErrorKind::UnexpectedEof.into())
                .with_hint("the file has not so many bytes from this offset on");
            return Err(Failed::new(error, Some(place.read(buffer))));
        }
        buffer.use_all();
        let rest = Read {
            file: place.file.clone(),
            offset: Some(place.after(filled)),
            buffer: Slice::new(buffer, filled..),
            flags: place.flags,
        };
        match uninterrupted(&io, rest).await {
            // Of a file that states no size: this is its end.
            Ok((0, slice)) => {
                buffer = slice.into_inner();
                buffer.use_first(filled);
                let error = Error::new(libc::EIO, "read").caused_by(ErrorKind::UnexpectedEof.into());
                return Err(Failed::new(error, Some(place.read(buffer))));
            }
            Ok((count, slice)) => {
                filled += count;
                buffer = slice.into_inner();
                buffer.use_first(filled);
            }
            Err(failed) => {
                let (error, op) = failed.into_parts();
                let op = op.map(|op| {
                    let mut buffer = op.buffer.into_inner();
                    buffer.use_first(filled);
                    place.read(buffer)
                });
                return Err(Failed::new(error, op));
            }
        }
    }
    Ok(B::from_buf(buffer))
}

/// Whether a short read has come to the end of the file: to ask costs less than another read, and with O_DIRECT that could
/// not be made, since its offset is not aligned. Files that state no size are asked by a read.
fn is_at_end(file: &Handle, at: u64) -> bool {
    file.size().is_ok_and(|size| size > 0 && size <= at)
}

/// Writes all bytes of the buffer.
pub(super) async fn write<B: Buffer>(io: impl Runner, op: Write<B>) -> Result<B, Failed<Write<B>>> {
    let place = Place {
        file: op.file.clone(),
        offset: op.offset.unwrap_or(0),
        flags: op.flags,
    };
    let (mut written, buffer) = uninterrupted(&io, op).await?;
    let mut buffer: Buf = buffer.into();
    let mut last = written;
    while written < buffer.len() {
        // One that writes nothing and reports no error would be tried for ever.
        if last == 0 {
            let error = io::Error::new(ErrorKind::WriteZero, "nothing more was written");
            let error = Error::new(libc::EIO, "write").caused_by(error);
            return Err(Failed::new(error, Some(place.write(buffer))));
        }
        let rest = Write {
            file: place.file.clone(),
            offset: Some(place.after(written)),
            buffer: Slice::new(buffer, written..),
            flags: place.flags,
        };
        match uninterrupted(&io, rest).await {
            Ok((count, slice)) => {
                last = count;
                written += count;
                buffer = slice.into_inner();
            }
            Err(failed) => {
                let (error, op) = failed.into_parts();
                let op = op.map(|op| place.write(op.buffer.into_inner()));
                return Err(Failed::new(error, op));
            }
        }
    }
    Ok(B::from_buf(buffer))
}
