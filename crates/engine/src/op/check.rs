//! What can be known to be wrong before an op is accepted. The kernel is the judge of everything else.

use super::{Name, Op, Options, Read, ReadV, Write, WriteV};
use crate::buffer::Buf;
use crate::error::Error;
use crate::sys::IOV_MAX;

impl Op {
    /// Whether `check` finds nothing, and there is no room to be made, as far as its type tells: most of this is known when the
    /// caller is compiled.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        let (offset, len) = match self {
            Op::Read(Read { offset, buffer, .. }) => match buffer {
                Buf::Vec(vec) if vec.capacity() > 0 => (offset, vec.capacity()),
                Buf::Aligned(buffer) => (offset, buffer.capacity()),
                Buf::Registered(buffer) => (offset, buffer.capacity()),
                _ => return false,
            },
            Op::Write(Write { offset, buffer, .. }) => match buffer {
                Buf::Vec(vec) => (offset, vec.len()),
                Buf::Aligned(buffer) => (offset, buffer.len()),
                Buf::Registered(buffer) => (offset, buffer.len()),
                Buf::Shared(_) => return false,
            },
            _ => return false,
        };
        // Half of what may be, so that no sum overflows.
        let bound = i64::MAX as u64 / 2;
        offset.unwrap_or(0) < bound && (len as u64) < bound
    }

    /// The error with which no backend could do better, with a hint.
    pub(crate) fn check(&self, options: &Options, linked: bool) -> Result<(), Error> {
        match self {
            Op::Read(o) => {
                self.check_range(o.offset, o.buffer.capacity())?;
                self.check_writable(std::slice::from_ref(&o.buffer))?;
                self.check_capacity(std::slice::from_ref(&o.buffer))?;
            }
            Op::Write(o) => self.check_range(o.offset, o.buffer.len())?,
            Op::ReadV(o) => {
                self.check_range(o.offset, o.total_len())?;
                self.check_vector(o.buffers.len(), ReadV::total_len(o))?;
                self.check_writable(&o.buffers)?;
                self.check_capacity(&o.buffers)?;
            }
            Op::WriteV(o) => {
                self.check_range(o.offset, o.total_len())?;
                self.check_vector(o.buffers.len(), WriteV::total_len(o))?;
            }
            // The ring would take it for "no offset".
            Op::Splice(o) => {
                self.check_range(o.from_offset, 0)?;
                self.check_range(o.to_offset, 0)?;
            }
            Op::GetXattr(o) => {
                self.check_names()?;
                self.check_writable(std::slice::from_ref(&o.buffer))?;
            }
            Op::ListXattr(o) => {
                self.check_names()?;
                self.check_writable(std::slice::from_ref(&o.buffer))?;
            }
            Op::Poll(o) if o.multishot && (linked || options.notify.is_some()) => {
                return Err(self.invalid("a multishot poll can neither be linked nor notify"));
            }
            Op::Open(_)
            | Op::Statx(_)
            | Op::Rename(_)
            | Op::Unlink(_)
            | Op::Mkdir(_)
            | Op::Link(_)
            | Op::Symlink(_)
            | Op::SetXattr(_)
            | Op::RemoveXattr(_)
            | Op::ReadFile(_)
            | Op::WriteFile(_) => self.check_names()?,
            _ => {}
        }
        if linked && options.notify.is_some() {
            return Err(self.invalid("a linked op cannot notify an eventfd"));
        }
        Ok(())
    }

    #[cold]
    fn invalid(&self, hint: &'static str) -> Error {
        self.error(libc::EINVAL).with_hint(hint)
    }

    #[cold]
    fn read_only(&self) -> Error {
        self.error(libc::EFAULT).with_hint("the buffer is read-only")
    }

    fn check_names(&self) -> Result<(), Error> {
        match self.names().all(Name::is_valid) {
            true => Ok(()),
            false => Err(self.invalid("a name has a NUL byte")),
        }
    }

    fn check_range(&self, offset: Option<u64>, len: usize) -> Result<(), Error> {
        let end = offset.unwrap_or(0).checked_add(len as u64);
        match end {
            Some(end) if end <= i64::MAX as u64 => Ok(()),
            _ => Err(self.invalid("offset and length reach beyond 2^63 - 1")),
        }
    }

    fn check_vector(&self, count: usize, total: usize) -> Result<(), Error> {
        if count > IOV_MAX {
            return Err(self.invalid("more than 1024 buffers in one vector"));
        }
        if total > isize::MAX as usize {
            return Err(self.invalid("the buffers add up to more than 2^63 - 1 bytes"));
        }
        Ok(())
    }

    /// The 0 bytes of a read into vectors without capacity would look like the end of the file.
    fn check_capacity(&self, buffers: &[Buf]) -> Result<(), Error> {
        let empty = |buffer: &Buf| matches!(buffer, Buf::Vec(vec) if vec.capacity() == 0);
        if !buffers.is_empty() && buffers.iter().all(empty) {
            return Err(self.invalid("the vector has no capacity to read into"));
        }
        Ok(())
    }

    fn check_writable(&self, buffers: &[Buf]) -> Result<(), Error> {
        if buffers.iter().all(Buf::writable) {
            Ok(())
        } else {
            Err(self.read_only())
        }
    }
}
