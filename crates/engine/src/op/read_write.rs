//! Reads and writes, plain and vectored.

use super::{Handle, Op, RwFlags};
use crate::buffer::{Buf, Buffer, IntoBuffer};
use crate::sys::MAX_RW_BYTES;
use std::collections::TryReserveError;

impl Op {
    /// Takes a transfer's offset away. False if there is none.
    pub(crate) fn drop_offset(&mut self) -> bool {
        let offset = match self {
            Op::Read(o) => &mut o.offset,
            Op::Write(o) => &mut o.offset,
            Op::ReadV(o) => &mut o.offset,
            Op::WriteV(o) => &mut o.offset,
            _ => return false,
        };
        offset.take().is_some()
    }
}

/// The kernel's "at the file's position".
pub(crate) const POSITION: i64 = -1;

fn raw_offset(offset: Option<u64>, skip: usize) -> i64 {
    match offset {
        // `check.rs` has made sure that the end of the transfer fits.
        Some(offset) => (offset + skip as u64) as i64,
        None => POSITION,
    }
}

const NO_BYTES: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

macro_rules! single {
    ($(#[$doc:meta])* $name:ident { $(#[$new:meta])* new, $(#[$at:meta])* at }) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[non_exhaustive]
        pub struct $name<B = Buf> {
            /// The file.
            pub file: Handle,
            /// Where: `None` is the file's own position, which moves along. Ignored by pipes and sockets.
            pub offset: Option<u64>,
            /// The memory. [`Driver::run`](crate::Driver::run) gives a buffer of this type back.
            pub buffer: B,
            /// Flags of this transfer.
            pub flags: RwFlags,
        }

        impl<B: Buffer> $name<B> {
            /// At the file's position.
            $(#[$new])*
            pub fn new(file: impl Into<Handle>, buffer: impl IntoBuffer<Buffer = B>) -> Self {
                $name { file: file.into(), offset: None, buffer: buffer.into_buffer(), flags: RwFlags::NONE }
            }

            /// At `offset` bytes from the start; the file's position does not move.
            $(#[$at])*
            pub fn at(file: impl Into<Handle>, offset: u64, buffer: impl IntoBuffer<Buffer = B>) -> Self {
                $name { offset: Some(offset), ..Self::new(file, buffer) }
            }

            /// With these flags.
            pub fn flags(mut self, flags: RwFlags) -> Self {
                self.flags = flags;
                self
            }
        }

        impl<B: Buffer> From<$name<B>> for Op {
            fn from(op: $name<B>) -> Op {
                let $name { file, offset, buffer, flags } = op;
                Op::$name($name { file, offset, buffer: buffer.into(), flags })
            }
        }
    };
}

macro_rules! vectored {
    ($(#[$doc:meta])* $name:ident { $(#[$new:meta])* new, $(#[$at:meta])* at }) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[non_exhaustive]
        pub struct $name {
            /// The file.
            pub file: Handle,
            /// Where: `None` is the file's own position, which moves along. Ignored by pipes and sockets.
            pub offset: Option<u64>,
            /// The memory, in order. At most 1024 buffers (Linux, `UIO_MAXIOV`).
            pub buffers: Vec<Buf>,
            /// Flags of this transfer.
            pub flags: RwFlags,
            /// At least one for each buffer once it is submitted.
            iovecs: Box<[libc::iovec]>,
        }

        // SAFETY: `iovecs` points only into `buffers`, which move with the op and are themselves Send.
        unsafe impl Send for $name {}
        // SAFETY: shared access reads addresses and lengths only.
        unsafe impl Sync for $name {}

        impl $name {
            /// At the file's position.
            $(#[$new])*
            pub fn new(file: impl Into<Handle>, buffers: Vec<Buf>) -> Self {
                $name { file: file.into(), offset: None, buffers, flags: RwFlags::NONE, iovecs: Box::default() }
            }

            /// At `offset` bytes from the start; the file's position does not move.
            $(#[$at])*
            pub fn at(file: impl Into<Handle>, offset: u64, buffers: Vec<Buf>) -> Self {
                $name { offset: Some(offset), ..Self::new(file, buffers) }
            }

            /// With these flags.
            pub fn flags(mut self, flags: RwFlags) -> Self {
                self.flags = flags;
                self
            }

            pub(crate) fn make_room(&mut self) -> Result<(), TryReserveError> {
                if self.iovecs.len() < self.buffers.len() {
                    let mut iovecs = Vec::new();
                    iovecs.try_reserve_exact(self.buffers.len())?;
                    iovecs.resize(self.buffers.len(), NO_BYTES); // allocates: there is room
                    self.iovecs = iovecs.into_boxed_slice();
                }
                Ok(())
            }

            /// The segments left after the first `skip` bytes. They stay valid while the op exists and is not
            /// prepared again.
            pub(crate) fn prepare(&mut self, mut skip: usize) -> &[libc::iovec] {
                if self.iovecs.len() < self.buffers.len() {
                    self.iovecs = vec![NO_BYTES; self.buffers.len()].into(); // allocates: not in a driver, which has made room
                }
                let mut count = 0;
                for buffer in &mut self.buffers {
                    let len = $name::segment_len(buffer);
                    let skipped = skip.min(len);
                    skip -= skipped;
                    if len > skipped || len == 0 {
                        self.iovecs[count] = libc::iovec {
                            iov_base: buffer.mut_ptr().wrapping_add(skipped).cast(),
                            iov_len: len - skipped,
                        };
                        count += 1;
                    }
                }
                &self.iovecs[..count]
            }

            pub(crate) fn total_len(&self) -> usize {
                self.buffers.iter().map($name::segment_len).fold(0, usize::saturating_add)
            }

            pub(crate) fn raw_offset(&self, skip: usize) -> i64 {
                raw_offset(self.offset, skip)
            }
        }
    };
}

single!(
    /// Read at most `buffer.capacity()` bytes into `buffer`. The result is the number of bytes; 0 is the end of the file.
    Read {
        ///
        /// ```
        /// # use proactor_engine::{Driver, op::{File, Read, Write}};
        /// # let mut driver = Driver::new()?;
        /// let (reader, writer) = std::io::pipe()?;
        /// driver.run(Write::new(writer, "some bytes"))?;
        /// let (count, bytes) = driver.run(Read::new(reader, Vec::with_capacity(64)))?;
        /// assert_eq!((count, &*bytes), (10, &b"some bytes"[..]));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        new,
        ///
        /// ```
        /// # use proactor_engine::{Driver, op::{File, Read, Write}};
        /// # let mut driver = Driver::new()?;
        /// # let file = File::new(tempfile::tempfile()?);
        /// driver.run(Write::at(&file, 0, "some bytes"))?;
        /// let (count, bytes) = driver.run(Read::at(&file, 5, Vec::with_capacity(64)))?;
        /// assert_eq!((count, &*bytes), (5, &b"bytes"[..]));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        at
    }
);
single!(
    /// Write `buffer.len()` bytes. The result is the number of bytes written, which may be fewer.
    Write {
        ///
        /// ```
        /// # use proactor_engine::{Driver, op::{File, Write}};
        /// # let mut driver = Driver::new()?;
        /// let (_reader, writer) = std::io::pipe()?;
        /// let (count, sent) = driver.run(Write::new(writer, vec![7; 100]))?;
        /// assert_eq!((count, sent.len()), (100, 100));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        new,
        ///
        /// ```
        /// # use proactor_engine::{Driver, op::{File, RwFlags, Write}};
        /// # let mut driver = Driver::new()?;
        /// # let file = File::new(tempfile::tempfile()?);
        /// // As if the file were open with O_DSYNC.
        /// let write = Write::at(&file, 4096, "a record\n").flags(RwFlags::DSYNC);
        /// assert_eq!(driver.run(write)?.0, 9);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        at
    }
);
vectored!(
    /// Read into several buffers, each to its capacity, in order.
    ReadV {
        ///
        /// ```
        /// # use proactor_engine::{Driver, op::{File, ReadV, Write}};
        /// # let mut driver = Driver::new()?;
        /// let (reader, writer) = std::io::pipe()?;
        /// driver.run(Write::new(writer, "headbody"))?;
        /// let parts = vec![Vec::with_capacity(4).into(), Vec::with_capacity(64).into()];
        /// let (count, parts) = driver.run(ReadV::new(reader, parts))?;
        /// assert_eq!((count, &*parts[0], &*parts[1]), (8, &b"head"[..], &b"body"[..]));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        new,
        ///
        /// ```
        /// # use proactor_engine::{Driver, op::{File, ReadV}};
        /// # let mut driver = Driver::new()?;
        /// # let file = File::new(tempfile::tempfile()?);
        /// let (count, parts) = driver.run(ReadV::at(&file, 0, vec![Vec::with_capacity(64).into()]))?;
        /// assert_eq!((count, parts.len()), (0, 1), "the end of the file");
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        at
    }
);
vectored!(
    /// Write several buffers in order.
    WriteV {
        ///
        /// ```
        /// # use proactor_engine::{Driver, op::{File, WriteV}};
        /// # let mut driver = Driver::new()?;
        /// let (_reader, writer) = std::io::pipe()?;
        /// let (count, _) = driver.run(WriteV::new(writer, vec![b"head".into(), b"body".into()]))?;
        /// assert_eq!(count, 8);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        new,
        ///
        /// ```
        /// # use proactor_engine::{Driver, op::{File, WriteV}};
        /// # let mut driver = Driver::new()?;
        /// # let file = File::new(tempfile::tempfile()?);
        /// let parts = vec![b"head".into(), vec![7; 100].into()];
        /// assert_eq!(driver.run(WriteV::at(&file, 0, parts))?.0, 104);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        at
    }
);

impl Read {
    #[inline]
    pub(crate) fn prepare(&mut self, skip: usize) -> (*mut u8, usize, i64) {
        let len = (self.buffer.capacity() - skip).min(MAX_RW_BYTES);
        (
            self.buffer.mut_ptr().wrapping_add(skip),
            len,
            raw_offset(self.offset, skip),
        )
    }

    #[inline(always)]
    pub(crate) fn filled(&mut self, len: usize) {
        // SAFETY: the kernel reports how many bytes from the start it has written.
        unsafe { self.buffer.set_len(len) };
    }
}

impl Write {
    pub(crate) fn prepare(&self, skip: usize) -> (*const u8, usize, i64) {
        let len = (self.buffer.len() - skip).min(MAX_RW_BYTES);
        (
            self.buffer.ptr().wrapping_add(skip),
            len,
            raw_offset(self.offset, skip),
        )
    }
}

impl ReadV {
    fn segment_len(buffer: &Buf) -> usize {
        buffer.capacity()
    }

    pub(crate) fn filled(&mut self, mut len: usize) {
        for buffer in &mut self.buffers {
            let here = len.min(buffer.capacity());
            len -= here;
            // SAFETY: the kernel fills the segments in order and reports the total.
            unsafe { buffer.set_len(here) };
        }
    }
}

impl WriteV {
    fn segment_len(buffer: &Buf) -> usize {
        buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes that prepared segments name.
    fn gathered(iovecs: &[libc::iovec]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for iovec in iovecs {
            // SAFETY: the segments lie in buffers of the op, which the caller keeps.
            bytes.extend_from_slice(unsafe {
                std::slice::from_raw_parts(iovec.iov_base.cast(), iovec.iov_len)
            });
        }
        bytes
    }

    proptest! {
        /// Whatever has been done already, what is left is the rest of the bytes, in order.
        #[test]
        fn skipping_leaves_the_rest(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20),
            at in any::<prop::sample::Index>(),
            offset in prop::option::of(0u64..1 << 40),
        ) {
            let whole = parts.concat();
            let skip = at.index(whole.len() + 1);
            let buffers = || parts.iter().map(|part| Buf::from(part.clone())).collect();
            let mut write = WriteV { offset, ..WriteV::new(Handle::NONE, buffers()) };
            prop_assert_eq!(write.total_len(), whole.len());
            prop_assert_eq!(write.raw_offset(skip), offset.map_or(POSITION, |offset| (offset as usize + skip) as i64));
            // Twice: the second must not build upon the first.
            for _ in 0..2 {
                prop_assert_eq!(gathered(write.prepare(skip)), &whole[skip..]);
            }
            prop_assert!(write.prepare(skip).len() <= parts.len());
            let single = Write { offset, ..Write::new(Handle::NONE, Buf::from(whole.clone())) };
            let (ptr, len, _) = single.prepare(skip);
            prop_assert_eq!(gathered(&[crate::sys::perform::iovec(ptr, len)]), &whole[skip..]);
        }

        /// A read of `count` bytes leaves each buffer with its part of them.
        #[test]
        fn filling_spreads_over_the_buffers(
            capacities in prop::collection::vec(0usize..20, 0..20),
            at in any::<prop::sample::Index>(),
        ) {
            let aligned = |n: &usize| match n {
                0 => Buf::Vec(Vec::new()),
                n => crate::buffer::AlignedBuf::new(*n, 1).into(),
            };
            let mut read = ReadV::new(Handle::NONE, capacities.iter().map(aligned).collect());
            let total: usize = capacities.iter().sum();
            prop_assert_eq!(read.total_len(), total);
            let count = at.index(total + 1);
            read.filled(count);
            prop_assert_eq!(read.buffers.iter().map(Buf::len).sum::<usize>(), count);
            let mut left = count;
            for (buffer, capacity) in read.buffers.iter().zip(capacities) {
                prop_assert_eq!(buffer.len(), left.min(capacity));
                left -= left.min(capacity);
            }
        }
    }
}
