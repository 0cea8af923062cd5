//! Python buffers as an op's memory.

use proactor_engine::buffer::{Buf, Memory};
use proactor_engine::op::Allocator;
use pyo3::exceptions::{PyMemoryError, PySystemError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::any::Any;
use std::ffi::c_int;
use std::sync::Arc;

/// An exported Python buffer. While it exists, the exporter neither moves nor resizes it (a `bytearray` refuses with
/// BufferError), which is what makes it the kernel's.
pub(crate) struct Exported {
    // Boxed: exporters may keep the address of the Py_buffer, and NumPy does.
    view: Box<ffi::Py_buffer>,
}

// SAFETY: the memory stays valid and in place until PyBuffer_Release, whatever thread looks at it; the release itself
// happens under the GIL (see Drop).
unsafe impl Send for Exported {}
// SAFETY: shared access reads the address and the length, which do not change.
unsafe impl Sync for Exported {}

impl Exported {
    /// Exports a C-contiguous buffer.
    ///
    /// # Errors
    /// TypeError for an object without the buffer protocol, BufferError for one that is not contiguous or, if
    /// `writable`, read-only.
    pub(crate) fn new(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<Self> {
        let flags = if writable {
            ffi::PyBUF_WRITABLE
        } else {
            ffi::PyBUF_SIMPLE
        };
        // SAFETY: zero is a valid Py_buffer to be filled; PyObject_GetBuffer fills it or fails with an exception set.
        unsafe {
            let mut view: Box<ffi::Py_buffer> = Box::new(std::mem::zeroed());
            if ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) != 0 {
                return Err(PyErr::fetch(object.py()));
            }
            Ok(Exported { view })
        }
    }
}

impl Exported {
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the exporter keeps the memory valid until the release; it is initialised, as Python's memory is. Others
        // may write to it while this thread holds the interpreter's lock only if they do not need it, as with any buffer.
        unsafe { std::slice::from_raw_parts(self.ptr(), self.len()) }
    }

    /// The memory of a buffer that was exported for writing.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        assert!(self.writable(), "exported for reading only");
        // SAFETY: as above, and it was exported as writable.
        unsafe { std::slice::from_raw_parts_mut(self.ptr(), self.len()) }
    }
}

// SAFETY: an exported buffer keeps address and size until it is released, and is released only in Drop.
unsafe impl Memory for Exported {
    fn ptr(&self) -> *mut u8 {
        self.view.buf.cast()
    }

    fn len(&self) -> usize {
        self.view.len as usize
    }

    fn writable(&self) -> bool {
        self.view.readonly == 0
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        // Without an interpreter the exporter is gone, and there is nothing to release.
        // SAFETY: the view was filled in `new` and is released once; `try_attach` holds the GIL.
        let _ = Python::try_attach(|_| unsafe { ffi::PyBuffer_Release(&raw mut *self.view) });
    }
}

/// Any object with the buffer protocol, without a copy.
pub(crate) fn buffer(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<Buf> {
    let memory: Box<dyn Memory> = Box::new(Exported::new(object, writable)?);
    Ok(Buf::from(memory))
}

extern "C" {
    // Documented, and not public in PyO3.
    fn _PyBytes_Resize(bytes: *mut *mut ffi::PyObject, newsize: ffi::Py_ssize_t) -> c_int;
}

/// A bytes object that nobody has seen yet, while an op fills it.
pub(crate) struct Unseen {
    bytes: Py<PyBytes>,
    ptr: *mut u8,
    len: usize,
}

// SAFETY: the object is not visible to Python before the op is done, so nobody else touches its bytes; its reference
// count is changed under the GIL only (`Py` sees to that).
unsafe impl Send for Unseen {}
// SAFETY: shared access reads the address and the length, which do not change.
unsafe impl Sync for Unseen {}

// SAFETY: bytes objects neither move nor shrink, and this one holds a reference to its own.
unsafe impl Memory for Unseen {
    fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    fn len(&self) -> usize {
        self.len
    }

    fn writable(&self) -> bool {
        true
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Unseen {
    pub(crate) fn new(py: Python<'_>, len: usize) -> PyResult<Self> {
        // SAFETY: NULL asks for uninitialised contents; the result is a new reference or NULL with an exception set.
        let bytes = unsafe {
            let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), len as isize);
            Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>()
        };
        Ok(Self::of(bytes))
    }

    fn of(bytes: Bound<'_, PyBytes>) -> Self {
        // SAFETY: a bytes object; the pointer is to its contents, which may not be initialised yet.
        let (ptr, len) = unsafe {
            let object = bytes.as_ptr();
            (
                ffi::PyBytes_AsString(object).cast(),
                ffi::PyBytes_Size(object) as usize,
            )
        };
        Unseen {
            ptr,
            len,
            bytes: bytes.unbind(),
        }
    }

    /// As `into_bytes`, for memory that was shared with ops. None of them may be in flight any more.
    pub(crate) fn shared_into_bytes(slf: Arc<Self>, py: Python<'_>, filled: usize) -> PyResult<Py<PyBytes>> {
        alone(slf)?.into_bytes(py, filled)
    }

    /// As `resized`, for memory that was shared in the same way.
    pub(crate) fn shared_resized(slf: Arc<Self>, py: Python<'_>, len: usize) -> PyResult<Self> {
        alone(slf)?.resized(py, len)
    }

    /// The object with its first `filled` bytes, which the op has written.
    ///
    /// # Errors
    /// MemoryError.
    pub(crate) fn into_bytes(self, py: Python<'_>, filled: usize) -> PyResult<Py<PyBytes>> {
        assert!(filled <= self.len);
        Ok(self.resized(py, filled)?.bytes)
    }

    /// The object with another length, and as many of its bytes as it has room for. No copy if it becomes shorter.
    ///
    /// # Errors
    /// MemoryError.
    pub(crate) fn resized(self, py: Python<'_>, len: usize) -> PyResult<Self> {
        if len == self.len {
            return Ok(self);
        }
        let mut object = self.bytes.into_ptr();
        // SAFETY: a bytes object with one reference, which is given away here. It comes back, perhaps as another object, or
        // as null with an exception.
        let bytes = unsafe {
            _PyBytes_Resize(&raw mut object, len as isize);
            Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>()
        };
        Ok(Self::of(bytes))
    }
}

fn alone(shared: Arc<Unseen>) -> PyResult<Unseen> {
    Arc::into_inner(shared).ok_or_else(|| PySystemError::new_err("an op has not given the memory back"))
}

/// The error of a lack of memory for a size that a caller gives.
pub(crate) fn lacking<E>(_: E) -> PyErr {
    PyMemoryError::new_err(())
}

/// Collects values of which the caller gives the number.
///
/// # Errors
/// The first among the values, or MemoryError.
pub(crate) fn collected<T>(values: impl IntoIterator<Item = PyResult<T>>) -> PyResult<Vec<T>> {
    proactor_engine::memory::collect(values, || lacking(()))
}

/// A bytes object with a copy of `data`.
///
/// # Errors
/// MemoryError. (`PyBytes::new` panics.)
pub(crate) fn bytes<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: the bytes are alive and this many; the result is a new reference or NULL with an exception set.
    unsafe {
        let object = ffi::PyBytes_FromStringAndSize(data.as_ptr().cast(), data.len() as isize);
        Ok(Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked())
    }
}

/// Lets a file be read straight into a bytes object, where the size becomes known under the GIL.
pub(crate) struct BytesAllocator;

impl Allocator for BytesAllocator {
    fn allocate(&mut self, len: usize) -> Option<Box<dyn Memory>> {
        // A worker thread would have to wait for the GIL; it reads into memory of its own instead.
        // SAFETY: may be called at any time.
        if unsafe { ffi::PyGILState_Check() } == 0 {
            return None;
        }
        Python::attach(|py| {
            Unseen::new(py, len)
                .ok()
                .map(|memory| Box::new(memory) as Box<dyn Memory>)
        })
    }
}
