//! Python buffers as an op's memory.

use proactor::buffer::{Buf, Memory};
use pyo3::ffi;
use pyo3::prelude::*;
use std::any::Any;

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
