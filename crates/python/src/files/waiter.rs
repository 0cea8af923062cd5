//! Who waits for a completion, and what is told to whom.

use super::call::file_bytes;
use super::driver::{resolve, LoopDriver, LoopFuture};
use super::orphan::{Last, Orphan};
use super::read_many::ReadMany;
use super::scandir::ScandirIterator;
use super::stat::stat_result;
use crate::errors;
use crate::file::{BinaryFile, FileOp, OpenedFile};
use proactor_engine::op::Op;
use proactor_engine::{Completion, Error, Output, Token};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use pyo3::PyTraverseError;

/// Who wants to know.
pub(crate) enum Waiter {
    /// The buffers of an open file.
    File(Py<BinaryFile>),
    /// One call on an open file.
    Op(Py<FileOp>),
    Nobody,
    /// Buffers whose file object is gone: what is in them still has to be written.
    Orphan(Orphan),
    Future {
        future: Py<LoopFuture>,
        path: Py<PyAny>,
    },
    /// It gets an `os.stat_result` or an errno.
    Status(Py<LoopFuture>),
    Scan(Py<ScandirIterator>),
    Many {
        batch: Py<PyWeakrefReference>,
        sequence: u64,
        path: Py<PyAny>,
    },
    /// Several files of a batch, with their places and paths.
    Chunk {
        batch: Py<PyWeakrefReference>,
        items: Vec<(u64, Py<PyAny>)>,
    },
}

impl Waiter {
    /// Tells of a completion.
    pub(super) fn deliver(self, slf: &Bound<'_, LoopDriver>, completion: Completion) -> PyResult<()> {
        let py = slf.py();
        match self {
            Waiter::File(file) => BinaryFile::finished(file.bind(py), completion)?,
            Waiter::Op(op) => FileOp::finished(op.bind(py), completion)?,
            Waiter::Nobody => {}
            Waiter::Orphan(orphan) => orphan.finished(slf, completion),
            Waiter::Future { future, path } => {
                let value = value_of(py, completion, path.bind(py));
                resolve(future.bind(py), value)?;
            }
            Waiter::Status(future) => {
                let told = match (completion.result, &completion.op) {
                    (Ok(_), Some(Op::Statx(op))) => stat_result(py, op.stat()).map(Bound::into_any),
                    (result, _) => {
                        let errno = result.map_or_else(|e| e.errno(), |_| libc::EIO);
                        Ok(errno.into_pyobject(py)?.into_any())
                    }
                };
                resolve(future.bind(py), told.map(Bound::unbind))?;
            }
            Waiter::Scan(iterator) => ScandirIterator::arrived(iterator.bind(py), completion.result)?,
            Waiter::Many {
                batch,
                sequence,
                path,
            } => {
                let Some(batch) = alive(py, &batch) else {
                    return Ok(());
                };
                let value = ReadMany::value_of(&batch, completion, path.bind(py));
                ReadMany::arrived(&batch, sequence, path, value)?;
            }
            Waiter::Chunk { batch, items } => {
                let Some(batch) = alive(py, &batch) else {
                    return Ok(());
                };
                match (completion.op, completion.result) {
                    (Some(Op::ReadCached(op)), _) => ReadMany::chunk_arrived(&batch, slf, items, op)?,
                    (_, Err(error)) => ReadMany::chunk_failed(&batch, items, &error)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// What may know the loop.
    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Waiter::File(file) => visit.call(file),
            Waiter::Op(op) => visit.call(op),
            Waiter::Nobody => Ok(()),
            Waiter::Orphan(orphan) => orphan.traverse(visit),
            Waiter::Future { future, path } => visit.call(future).and_then(|()| visit.call(path)),
            Waiter::Status(future) => visit.call(future),
            Waiter::Scan(iterator) => visit.call(iterator),
            Waiter::Many { path, .. } => visit.call(path),
            Waiter::Chunk { items, .. } => items.iter().try_for_each(|(_, path)| visit.call(path)),
        }
    }

    /// Whether it waits for a file of this batch.
    pub(super) fn is_of(&self, whose: &Py<PyWeakrefReference>) -> bool {
        match self {
            Waiter::Many { batch, .. } | Waiter::Chunk { batch, .. } => batch.is(whose),
            _ => false,
        }
    }

    /// There will be no completion here: the loop has left the engine's thread, which brings what is written to an end.
    pub(super) fn loop_moved(self, slf: &Bound<'_, LoopDriver>, token: Token) -> PyResult<()> {
        let py = slf.py();
        match self {
            Waiter::File(file) => BinaryFile::loop_moved(file.bind(py)),
            Waiter::Orphan(orphan) => {
                orphan.loop_closed(py, Last::Unknown);
                Ok(())
            }
            _ => self.deliver(slf, Completion::lost(token, Error::new(libc::ECANCELED, "wait"))),
        }
    }

    /// The loop is closed: there is no other completion than the last one.
    pub(super) fn loop_closed(self, py: Python<'_>, last: Last) {
        match self {
            Waiter::File(file) => BinaryFile::loop_closed(file.bind(py), last),
            Waiter::Scan(iterator) => ScandirIterator::loop_closed(iterator.bind(py)),
            Waiter::Orphan(orphan) => orphan.loop_closed(py, last),
            _ => {}
        }
    }

    /// Whether it is a file's op that writes.
    pub(super) fn is_writing(&self, py: Python<'_>) -> bool {
        match self {
            Waiter::File(file) => file.try_borrow(py).is_ok_and(|file| file.is_writing()),
            Waiter::Orphan(orphan) => orphan.is_writing(),
            _ => false,
        }
    }
}

/// The batch, unless nobody has it any more.
fn alive<'py>(py: Python<'py>, batch: &Py<PyWeakrefReference>) -> Option<Bound<'py, ReadMany>> {
    batch.bind(py).upgrade()?.cast_into().ok()
}

/// What the awaiter gets: what is in the op, or the count of a write.
fn value_of(py: Python<'_>, completion: Completion, path: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    if let Err(error) = &completion.result {
        return Err(errors::os_error(py, error, Some(path)));
    }
    if let Ok(Output::File(file)) = completion.result {
        return Ok(Py::new(py, OpenedFile::new(file))?.into_any());
    }
    match completion.op {
        Some(Op::ReadFile(mut read)) => file_bytes(py, &mut read),
        _ => Ok(completion
            .count()
            .unwrap_or_default()
            .into_pyobject(py)?
            .into_any()
            .unbind()),
    }
}
