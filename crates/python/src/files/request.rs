//! What one item of `read_many` asks for: a whole file or a range of one, as bytes or in memory of the caller's.

use super::call::file_bytes;
use super::read_many::ReadMany;
use crate::errors;
use crate::memory::{BytesAllocator, Exported};
use crate::path::c_path;
use crate::python_code;
use proactor_engine::buffer::Memory;
use proactor_engine::op::{Allocator, Op, ReadFile};
use proactor_engine::Completion;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};
use pyo3::PyTraverseError;
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// Where the bytes of a batch's files go.
pub(super) enum Target {
    /// Each into a bytes object.
    Bytes,
    /// Each into a buffer that this gives for a number of bytes.
    Made(Py<PyAny>),
    /// Each into the buffer that comes with its path. The value is the number of bytes.
    Given,
}

/// One file's buffer, of which `len` bytes are the op's.
struct Lent {
    object: Py<PyAny>,
    view: Exported,
    len: usize,
}

// SAFETY: the view keeps address and size until it is released, which happens when this is dropped.
unsafe impl Memory for Lent {
    fn ptr(&self) -> *mut u8 {
        self.view.ptr()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn writable(&self) -> bool {
        self.view.writable()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Gives the buffer that came with the path.
struct Once(Option<Lent>);

impl Allocator for Once {
    fn allocate(&mut self, len: usize) -> Option<Box<dyn Memory>> {
        let mut lent = self.0.take().filter(|lent| len <= lent.view.len())?;
        lent.len = len;
        Some(Box::new(lent))
    }
}

/// Asks the caller's function, in the caller's thread.
struct Asking {
    make: Py<PyAny>,
    failed: Arc<Mutex<Option<PyErr>>>,
}

impl Allocator for Asking {
    fn allocate(&mut self, len: usize) -> Option<Box<dyn Memory>> {
        // SAFETY: may be called at any time.
        if unsafe { ffi::PyGILState_Check() } == 0 {
            return None;
        }
        let lent = Python::attach(|py| made(self.make.bind(py), len));
        match lent {
            Ok(lent) => Some(Box::new(lent)),
            Err(e) => {
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                None
            }
        }
    }
}

/// A buffer with room for `len` bytes, by the caller's function.
fn made(make: &Bound<'_, PyAny>, len: usize) -> PyResult<Lent> {
    let args = PyTuple::new(make.py(), [len])?;
    let object = python_code::call(make, &args)?;
    let view = Exported::new(&object, true)?;
    if view.len() < len {
        let text = format!("into({len}) has given a buffer of {} bytes", view.len());
        return Err(PyValueError::new_err(text));
    }
    Ok(Lent {
        object: object.unbind(),
        view,
        len,
    })
}

/// The path of an item: what an error names.
pub(super) fn path_of<'py>(item: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    let first = item
        .cast::<PyTuple>()
        .ok()
        .and_then(|parts| parts.get_item(0).ok());
    first.unwrap_or_else(|| item.clone())
}

impl Target {
    pub(super) fn is_bytes(&self) -> bool {
        matches!(self, Target::Bytes)
    }

    pub(super) fn clone_ref(&self, py: Python<'_>) -> Target {
        match self {
            Target::Bytes => Target::Bytes,
            Target::Made(make) => Target::Made(make.clone_ref(py)),
            Target::Given => Target::Given,
        }
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Target::Made(make) => visit.call(make),
            Target::Bytes | Target::Given => Ok(()),
        }
    }

    /// The op of an item.
    ///
    /// # Errors
    /// TypeError or ValueError for one that is none; BufferError for a buffer that cannot be written to.
    pub(super) fn request(&self, item: &Bound<'_, PyAny>) -> PyResult<ReadFile> {
        let Ok(parts) = item.cast::<PyTuple>() else {
            if matches!(self, Target::Given) {
                return Err(PyTypeError::new_err("read_bytes_many takes pairs (path, buffer)"));
            }
            return Ok(ReadFile::new(c_path(item)?));
        };
        let (path, rest) = match (self, parts.len()) {
            (Target::Given, 2) => (parts.get_item(0)?, 2),
            (Target::Given, 4) => (parts.get_item(0)?, 2),
            (Target::Bytes | Target::Made(_), 3) => (parts.get_item(0)?, 1),
            (Target::Given, _) => {
                return Err(PyTypeError::new_err(
                    "read_bytes_many takes (path, buffer) or (path, buffer, offset, size)",
                ))
            }
            _ => {
                return Err(PyTypeError::new_err(
                    "read_many takes a path or a range of a file: (path, offset, size)",
                ))
            }
        };
        let mut read = ReadFile::new(c_path(&path)?);
        if parts.len() > rest {
            read.offset = bound("offset", &parts.get_item(rest)?)? as u64;
            read.length = bound("size", &parts.get_item(rest + 1)?)?;
        }
        if matches!(self, Target::Given) {
            let object = parts.get_item(1)?;
            let view = Exported::new(&object, true)?;
            read.limit = view.len();
            read.allocate = Some(Box::new(Once(Some(Lent {
                object: object.unbind(),
                view,
                len: 0,
            }))));
        }
        Ok(read)
    }

    /// The file, if it can be had without waiting. If not, `read` is ready to be submitted and goes on from here. Runs the
    /// caller's code: nothing may be borrowed.
    pub(super) fn read_now(
        &self,
        read: &mut ReadFile,
        item: &Bound<'_, PyAny>,
    ) -> Option<PyResult<Py<PyAny>>> {
        let py = item.py();
        let failed = Arc::new(Mutex::new(None));
        match self {
            Target::Bytes => read.allocate = Some(Box::new(BytesAllocator)),
            Target::Made(make) => {
                read.allocate = Some(Box::new(Asking {
                    make: make.clone_ref(py),
                    failed: Arc::clone(&failed),
                }));
            }
            Target::Given => {}
        }
        let answer = read.attempt();
        if self.is_made() {
            // Where the engine calls it, the caller's code must not run.
            read.allocate = None;
            if let Some(e) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Some(Err(e));
            }
        }
        match answer {
            Some(Ok(_)) => Some(self.value(read, item)),
            Some(Err(e)) => Some(Err(errors::os_error(py, &e, Some(&path_of(item))))),
            None => None,
        }
    }

    fn is_made(&self) -> bool {
        matches!(self, Target::Made(_))
    }

    /// What a finished read has brought.
    pub(super) fn value(&self, read: &mut ReadFile, item: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = item.py();
        let filled = read.len();
        if self.is_bytes() {
            return file_bytes(py, read);
        }
        let lent = read
            .memory
            .take()
            .and_then(|memory| memory.into_any().downcast::<Lent>().ok());
        let lent = match (lent, self) {
            (Some(lent), _) => *lent,
            (None, Target::Made(make)) => copied(made(make.bind(py), filled)?, &read.data),
            (None, _) => {
                // The op has given its view back.
                read.allocate = None;
                let object = item.get_item(1)?;
                let view = Exported::new(&object, true)?;
                if view.len() < filled {
                    return Err(PyValueError::new_err(
                        "the buffer became shorter while it was waited for",
                    ));
                }
                copied(
                    Lent {
                        object: object.unbind(),
                        view,
                        len: filled,
                    },
                    &read.data,
                )
            }
        };
        let Lent { object, view, len } = lent;
        drop(view);
        match self {
            Target::Given => Ok(filled.into_pyobject(py)?.into_any().unbind()),
            // It became shorter while it was read.
            _ if filled < len => {
                let part = PySlice::new(py, 0, filled as isize, 1);
                Ok(object.bind(py).get_item(part)?.unbind())
            }
            _ => Ok(object),
        }
    }
}

fn copied(mut lent: Lent, data: &[u8]) -> Lent {
    lent.view.as_mut_slice()[..data.len()].copy_from_slice(data);
    lent
}

fn bound(name: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    let number: i64 = crate::whole::number(name, value)?;
    usize::try_from(number)
        .map_err(|_| PyValueError::new_err(format!("{name} must be at least 0, not {number}")))
}

impl ReadMany {
    /// What an op that has ended has brought of an item.
    pub(super) fn value_of(
        slf: &Bound<'_, Self>,
        completion: Completion,
        item: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        if let Err(error) = &completion.result {
            return Err(errors::os_error(py, error, Some(&path_of(item))));
        }
        let Some(Op::ReadFile(mut read)) = completion.op else {
            return Ok(py.None());
        };
        let target = slf.borrow().target.clone_ref(py);
        target.value(&mut read, item)
    }
}
