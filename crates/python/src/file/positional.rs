//! `pread` and its kin: transfers at an offset.

use super::binary::BinaryFile;
use super::op::{os_error, FileOp, GivenUp, Job, Next};
use crate::memory::{collected, Exported, Unseen};
use proactor_engine::buffer::Memory;
use proactor_engine::op::{File, FileKind};
use proactor_engine::{Completion, Error};
use proactor_file::Transfer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// More than this is not copied on the loop's time: at 10 GB/s it takes 100 microseconds.
const INLINE_BYTES: usize = 1 << 20;

/// An offset or a size, which may not be negative.
pub(super) fn whole_number(file: &Bound<'_, BinaryFile>, value: i64, op: &'static str) -> PyResult<u64> {
    u64::try_from(value).map_err(|_| os_error(file, &Error::new(libc::EINVAL, op)))
}

/// The file behind the buffers, which must have positions.
fn disk_file(file: &Bound<'_, BinaryFile>, op: &'static str) -> PyResult<File> {
    let this = file.borrow();
    match this.core.file() {
        Some(handle) if this.core.seekable() => Ok(handle.clone()),
        Some(_) => Err(this.error(file.py(), &Error::new(libc::ESPIPE, op))),
        None => Err(PyValueError::new_err("I/O operation on closed file.")),
    }
}

fn int(py: Python<'_>, count: usize) -> PyResult<Py<PyAny>> {
    Ok(count.into_pyobject(py)?.into_any().unbind())
}

/// Where what is read goes.
enum Target {
    /// Into a bytes object of at most this size.
    Bytes(usize),
    Memory(Vec<Arc<dyn Memory>>),
}

struct Reading {
    name: &'static str,
    offset: u64,
    target: Target,
    bytes: Option<Arc<Unseen>>,
    transfer: Option<Transfer>,
}

impl Reading {
    fn begin(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<&mut Transfer> {
        let handle = disk_file(file, self.name)?;
        let memory = match &mut self.target {
            Target::Bytes(size) => {
                let size = at_most(&handle, *size, self.offset);
                let bytes = Arc::new(Unseen::new(file.py(), size)?);
                let memory: Arc<dyn Memory> = Arc::clone(&bytes) as _;
                self.bytes = Some(bytes);
                vec![memory]
            }
            Target::Memory(memory) => std::mem::take(memory),
        };
        let direct = file.borrow().core.direct();
        let transfer = Transfer::read(&handle, self.offset, memory).direct(direct);
        Ok(self.transfer.insert(transfer))
    }
}

/// No memory for bytes that a disk file does not have. (Files in `/proc` and devices state a size of 0.)
fn at_most(handle: &File, size: usize, offset: u64) -> usize {
    if size <= INLINE_BYTES || !matches!(handle.kind(), Ok(FileKind::Disk)) {
        return size;
    }
    match handle.size() {
        Ok(there) if there > 0 => {
            let left = there.saturating_sub(offset);
            size.min(usize::try_from(left).unwrap_or(usize::MAX))
        }
        _ => size,
    }
}

impl Job for Reading {
    fn step(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<Next> {
        let transfer = match &mut self.transfer {
            Some(transfer) => transfer,
            None => self.begin(file)?,
        };
        let inline = transfer.total() <= INLINE_BYTES;
        while let Some(mut op) = if inline {
            transfer.op()
        } else {
            transfer.waiting_op()
        } {
            match inline.then(|| op.attempt()).flatten() {
                None => return Ok(Next::Wait(op)),
                Some(result) => transfer.took(Some(op), result).map_err(|e| os_error(file, &e))?,
            }
        }
        let (py, count) = (file.py(), transfer.done());
        let Some(bytes) = self.bytes.take() else {
            return Ok(Next::Done(Some(int(py, count)?)));
        };
        // It has the other references.
        self.transfer = None;
        let bytes = Unseen::shared_into_bytes(bytes, py, count)?;
        Ok(Next::Done(Some(bytes.into_any())))
    }

    fn took(&mut self, file: &Bound<'_, BinaryFile>, completion: Completion) -> PyResult<()> {
        let transfer = self.transfer.as_mut().expect("its op has come back");
        let taken = transfer.took(completion.op, completion.result);
        taken.map_err(|e| os_error(file, &e))
    }

    fn given_up(&self) -> GivenUp {
        GivenUp::Abandon
    }

    fn weight(&self, direct: bool) -> Option<usize> {
        let size = match &self.target {
            Target::Bytes(size) => *size,
            Target::Memory(memory) => memory.iter().map(|m| m.len()).sum(),
        };
        (!direct || size == 0).then_some(size.min(INLINE_BYTES))
    }
}

struct Writing {
    name: &'static str,
    offset: u64,
    memory: Vec<Arc<dyn Memory>>,
    transfer: Option<Transfer>,
}

impl Writing {
    /// What was read ahead of these bytes is no longer what the file has there.
    fn changed(&self, file: &Bound<'_, BinaryFile>) {
        let mut this = file.borrow_mut();
        let len = self.transfer.as_ref().map_or(0, Transfer::total) as u64;
        // Where an append mode puts them, only the kernel knows.
        let (from, len) = if this.core.appends() {
            (0, u64::MAX)
        } else {
            (self.offset, len)
        };
        this.core.changed(from, len);
    }
}

impl Job for Writing {
    fn step(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<Next> {
        let transfer = match &mut self.transfer {
            Some(transfer) => transfer,
            None => {
                let handle = disk_file(file, self.name)?;
                let mut this = file.borrow_mut();
                this.written = true;
                let memory = std::mem::take(&mut self.memory);
                let transfer = Transfer::write(&handle, self.offset, memory).direct(this.core.direct());
                self.transfer.insert(transfer)
            }
        };
        if let Some(op) = transfer.op() {
            return Ok(Next::Wait(op));
        }
        let count = transfer.done();
        Ok(Next::Done(Some(int(file.py(), count)?)))
    }

    fn took(&mut self, file: &Bound<'_, BinaryFile>, completion: Completion) -> PyResult<()> {
        let transfer = self.transfer.as_mut().expect("its op has come back");
        let taken = transfer.took(completion.op, completion.result);
        self.changed(file);
        taken.map_err(|e| os_error(file, &e))
    }

    fn weight(&self, _direct: bool) -> Option<usize> {
        self.memory.iter().all(|memory| memory.is_empty()).then_some(0)
    }

    fn given_up(&self) -> GivenUp {
        GivenUp::GoOn
    }
}

/// Memory to be read into.
fn writable(buffer: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Memory>> {
    Ok(Arc::new(Exported::new(buffer, true)?))
}

/// Memory to be written.
fn readable(buffer: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Memory>> {
    Ok(Arc::new(Exported::new(buffer, false)?))
}

fn each(
    buffers: &Bound<'_, PyAny>,
    export: fn(&Bound<'_, PyAny>) -> PyResult<Arc<dyn Memory>>,
) -> PyResult<Vec<Arc<dyn Memory>>> {
    collected(buffers.try_iter()?.map(|buffer| export(&buffer?)))
}

impl BinaryFile {
    pub(super) fn reading_bytes(slf: &Bound<'_, Self>, size: i64, offset: i64) -> PyResult<FileOp> {
        let size = whole_number(slf, size, "pread")?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        Self::reading(slf, "pread", Target::Bytes(size), offset)
    }

    pub(super) fn reading_into(
        slf: &Bound<'_, Self>,
        buffer: &Bound<'_, PyAny>,
        offset: i64,
    ) -> PyResult<FileOp> {
        let target = Target::Memory(vec![writable(buffer)?]);
        Self::reading(slf, "preadinto", target, offset)
    }

    pub(super) fn reading_vector(
        slf: &Bound<'_, Self>,
        buffers: &Bound<'_, PyAny>,
        offset: i64,
    ) -> PyResult<FileOp> {
        Self::reading(slf, "preadv", Target::Memory(each(buffers, writable)?), offset)
    }

    fn reading(slf: &Bound<'_, Self>, name: &'static str, target: Target, offset: i64) -> PyResult<FileOp> {
        slf.borrow().check_readable(slf.py())?;
        let job = Reading {
            name,
            offset: whole_number(slf, offset, name)?,
            target,
            bytes: None,
            transfer: None,
        };
        Ok(FileOp::new(slf, name, job))
    }

    pub(super) fn writing_at(
        slf: &Bound<'_, Self>,
        data: &Bound<'_, PyAny>,
        offset: i64,
    ) -> PyResult<FileOp> {
        Self::writing(slf, "pwrite", vec![readable(data)?], offset)
    }

    pub(super) fn writing_vector(
        slf: &Bound<'_, Self>,
        buffers: &Bound<'_, PyAny>,
        offset: i64,
    ) -> PyResult<FileOp> {
        Self::writing(slf, "pwritev", each(buffers, readable)?, offset)
    }

    fn writing(
        slf: &Bound<'_, Self>,
        name: &'static str,
        memory: Vec<Arc<dyn Memory>>,
        offset: i64,
    ) -> PyResult<FileOp> {
        slf.borrow().check_writable(slf.py())?;
        let job = Writing {
            name,
            offset: whole_number(slf, offset, name)?,
            memory,
            transfer: None,
        };
        Ok(FileOp::new(slf, name, job))
    }
}
