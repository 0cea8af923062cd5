//! Memory for O_DIRECT.

use super::op::descriptor;
use proactor::buffer::AlignedBuf;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// The owner of `aligned()`'s memory, which its memoryviews keep alive.
#[pyclass(module = "proactor._native")]
pub(crate) struct AlignedMemory {
    memory: AlignedBuf,
    len: usize,
}

#[pymethods]
impl AlignedMemory {
    /// # Safety
    /// Called by the interpreter with a Py_buffer to be filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: i32) -> PyResult<()> {
        let (ptr, len) = {
            let mut this = slf.borrow_mut();
            (this.memory.as_mut_ptr(), this.len)
        };
        // SAFETY: the memory lives as long as the object, to which the view holds a reference.
        let ret = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), ptr.cast(), len as isize, 0, flags) };
        if ret != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}

/// Memory for O_DIRECT: a writable `memoryview` of `n` zero bytes whose address is a multiple of `alignment`.
///
/// `alignment` is a power of two in bytes, at most 2**30; by default the size of a page, which suits every file system
/// whose blocks are no larger. `direct_alignment(file)` asks the kernel.
///
/// Raises ValueError for a negative size or another alignment, MemoryError for too much.
#[pyfunction]
#[pyo3(signature = (n, alignment=None))]
pub(super) fn aligned(
    py: Python<'_>,
    n: isize,
    alignment: Option<isize>,
) -> PyResult<Bound<'_, PyMemoryView>> {
    const MOST: usize = 1 << 30;
    // SAFETY: no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) as isize };
    let len = usize::try_from(n)
        .ok()
        .filter(|n| *n <= isize::MAX as usize - MOST);
    let len = len.ok_or_else(|| PyValueError::new_err(format!("a size is not negative, nor {n}")))?;
    let alignment = usize::try_from(alignment.unwrap_or(page)).unwrap_or(0);
    if !alignment.is_power_of_two() || alignment > MOST {
        return Err(PyValueError::new_err(
            "alignment must be a power of two, at most 2**30",
        ));
    }
    let memory = AlignedBuf::try_zeroed(len.max(1), alignment)
        .ok_or_else(|| PyMemoryError::new_err(format!("no {n} bytes of memory")))?;
    PyMemoryView::from(Bound::new(py, AlignedMemory { memory, len })?.as_any())
}

/// What O_DIRECT needs of `file` (an int or an object with `fileno()`): `(memory, offset)` alignment in bytes.
///
/// From `statx(STATX_DIOALIGN)` since Linux 6.1, before that the file system's block size, which is always enough.
/// Raises OSError (EINVAL) for a file that cannot be used with O_DIRECT.
#[pyfunction]
pub(super) fn direct_alignment(file: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    let alignment = proactor::op::direct_alignment(descriptor(file)?)?;
    Ok((alignment.memory, alignment.offset))
}
