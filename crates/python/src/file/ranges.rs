//! What is done to a part of a file without its bytes passing through the caller's memory.

use super::binary::BinaryFile;
use super::op::{os_error, FileOp, GivenUp, Job, Next};
use super::positional::whole_number;
use crate::aio_descriptor;
use crate::errors;
use proactor_engine::op::{Allocate, AllocateMode, File, Op};
use proactor_engine::{Completion, Output};
use proactor_file::{advise, copy_range, send};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::os::fd::{BorrowedFd, OwnedFd};

/// One op, made when its time has come.
struct OneOp<M> {
    make: Option<M>,
    given_up: GivenUp,
    settles: bool,
    limited: bool,
    /// Whether the caller wants the op's count.
    counts: bool,
    count: usize,
    /// The bytes of the file that are no longer what they were.
    changes: Option<(u64, u64)>,
    /// They are of this file.
    target: Option<Py<BinaryFile>>,
}

impl<M> OneOp<M>
where
    M: FnOnce(&File) -> PyResult<Op> + Send + Sync + 'static,
{
    fn new(given_up: GivenUp, make: M) -> Self {
        OneOp {
            make: Some(make),
            given_up,
            settles: true,
            limited: true,
            counts: false,
            count: 0,
            changes: None,
            target: None,
        }
    }
}

impl<M> Job for OneOp<M>
where
    M: FnOnce(&File) -> PyResult<Op> + Send + Sync + 'static,
{
    fn step(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<Next> {
        let Some(make) = self.make.take() else {
            let count = self.counts.then(|| self.count.into_pyobject(file.py()));
            return Ok(Next::Done(
                count.transpose()?.map(|count| count.into_any().unbind()),
            ));
        };
        let handle = file.borrow().core.file().cloned();
        let handle = handle.ok_or_else(|| PyValueError::new_err("I/O operation on closed file."))?;
        make(&handle).map(Next::Wait)
    }

    fn took(&mut self, file: &Bound<'_, BinaryFile>, completion: Completion) -> PyResult<()> {
        if let Some((from, len)) = self.changes {
            let changed = self.target.as_ref().map_or(file, |target| target.bind(file.py()));
            changed.borrow_mut().core.changed(from, len);
        }
        if let Ok(Output::Count(count)) = completion.result {
            self.count = count;
        }
        completion.result.map(drop).map_err(|e| os_error(file, &e))
    }

    fn given_up(&self) -> GivenUp {
        self.given_up
    }

    fn limited(&self) -> bool {
        self.limited
    }

    fn settles(&self) -> bool {
        self.settles
    }

    fn other_file(&self) -> Option<&Py<BinaryFile>> {
        self.target.as_ref()
    }
}

/// A descriptor of our own for the same open file: the caller may close theirs meanwhile.
fn duplicate(object: &Bound<'_, PyAny>, op: &str) -> PyResult<OwnedFd> {
    let fd = aio_descriptor(object)?;
    // SAFETY: the descriptor is only borrowed for the duplication; a wrong number gives EBADF.
    let owned = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
    owned.map_err(|e| errors::io_error(object.py(), &e, op))
}

impl BinaryFile {
    pub(super) fn allocating(slf: &Bound<'_, Self>, offset: i64, length: i64, mode: i32) -> PyResult<FileOp> {
        slf.borrow().check_writable(slf.py())?;
        let offset = whole_number(slf, offset, "fallocate")?;
        let len = whole_number(slf, length, "fallocate")?;
        slf.borrow_mut().written = true;
        let mut job = OneOp::new(GivenUp::GoOn, move |file: &File| {
            let op = Allocate::new(file, offset, len).mode(AllocateMode::from_bits(mode));
            Ok(op.into())
        });
        // Some modes move what comes behind.
        job.changes = Some((offset, u64::MAX));
        Ok(FileOp::new(slf, "fallocate", job))
    }

    pub(super) fn advising(slf: &Bound<'_, Self>, advice: i32, offset: i64, length: i64) -> PyResult<FileOp> {
        slf.borrow().check_open()?;
        let mut job = OneOp::new(GivenUp::Abandon, move |file: &File| {
            Ok(advise(file, offset, length, advice).into())
        });
        job.settles = false;
        Ok(FileOp::new(slf, "advise", job))
    }

    pub(super) fn copying(
        slf: &Bound<'_, Self>,
        dst: &Bound<'_, PyAny>,
        count: i64,
        offset_src: i64,
        offset_dst: i64,
    ) -> PyResult<FileOp> {
        slf.borrow().check_readable(slf.py())?;
        let count = whole_number(slf, count, "copy_range")? as usize;
        let from_at = whole_number(slf, offset_src, "copy_range")?;
        let to_at = whole_number(slf, offset_dst, "copy_range")?;
        let target = dst.cast::<BinaryFile>().ok();
        let to = match target {
            Some(target) => {
                target.borrow().check_writable(dst.py())?;
                target.borrow_mut().written = true;
                target.borrow().core.file().cloned()
            }
            None => Some(File::new(duplicate(dst, "copy_range")?)),
        };
        let to = to.ok_or_else(|| PyValueError::new_err("I/O operation on closed file."))?;
        let mut job = OneOp::new(GivenUp::Stop, move |file: &File| {
            Ok(copy_range(file, from_at, to, to_at, count).into())
        });
        job.counts = true;
        job.changes = target.map(|_| (to_at, count as u64));
        job.target = target.map(|target| target.clone().unbind());
        Ok(FileOp::new(slf, "copy_range", job))
    }

    pub(super) fn sending(
        slf: &Bound<'_, Self>,
        out: &Bound<'_, PyAny>,
        offset: i64,
        count: i64,
    ) -> PyResult<FileOp> {
        slf.borrow().check_readable(slf.py())?;
        let count = whole_number(slf, count, "sendfile")? as usize;
        let offset = whole_number(slf, offset, "sendfile")?;
        let to = duplicate(out, "sendfile")?;
        let mut job = OneOp::new(GivenUp::Stop, move |file: &File| {
            Ok(send(file, offset, to, count).into())
        });
        // The peer may be slow.
        job.limited = false;
        job.counts = true;
        Ok(FileOp::new(slf, "sendfile", job))
    }
}
