//! Memory that belongs to us, for O_DIRECT and for reads that were given a size.

use super::op::descriptor;
use super::recycle;
use crate::errors;
use proactor_engine::buffer::AlignedBuf;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use std::os::fd::BorrowedFd;

/// The owner of the memory, which its memoryviews keep alive.
#[pyclass(module = "proactor._native")]
pub(crate) struct AlignedMemory {
    /// There until Drop.
    memory: Option<AlignedBuf>,
    len: usize,
    recycled: bool,
}

impl Drop for AlignedMemory {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take().filter(|_| self.recycled) {
            recycle::give_back(memory);
        }
    }
}

#[pymethods]
impl AlignedMemory {
    /// # Safety
    /// Called by the interpreter with a Py_buffer to be filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: i32) -> PyResult<()> {
        let (ptr, len) = {
            let mut this = slf.borrow_mut();
            let ptr = this
                .memory
                .as_mut()
                .map_or(std::ptr::null_mut(), |m| m.as_mut_ptr());
            (ptr, this.len)
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
    let page = page_bytes() as isize;
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
    view(py, memory, len, false)
}

fn page_bytes() -> usize {
    // SAFETY: no pointers.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

fn view(py: Python<'_>, memory: AlignedBuf, len: usize, recycled: bool) -> PyResult<Bound<'_, PyMemoryView>> {
    let owner = AlignedMemory {
        memory: Some(memory),
        len,
        recycled,
    };
    PyMemoryView::from(Bound::new(py, owner)?.as_any())
}

/// Memory for a read of `len` bytes, aligned to a page. Its contents mean nothing until the read has filled it.
///
/// # Errors
/// MemoryError.
pub(super) fn for_reading(py: Python<'_>, len: usize) -> PyResult<Bound<'_, PyMemoryView>> {
    let memory = recycle::take(len, page_bytes())
        .ok_or_else(|| PyMemoryError::new_err(format!("no {len} bytes of memory")))?;
    view(py, memory, len, true)
}

/// What O_DIRECT needs of `file` (an int or an object with `fileno()`): `(memory, offset)` alignment in bytes.
///
/// From `statx(STATX_DIOALIGN)` since Linux 6.1, before that the file system's block size, which is always enough.
/// Raises OSError (EINVAL) for a file that cannot be used with O_DIRECT.
#[pyfunction]
pub(super) fn direct_alignment(file: &Bound<'_, PyAny>) -> PyResult<(usize, usize)> {
    // SAFETY: borrowed for one call, in which Python code cannot close it; a wrong number gives EBADF.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor(file)?) };
    let alignment = proactor_engine::op::direct_alignment(borrowed)
        .map_err(|e| errors::io_error(file.py(), &e, "direct_alignment"))?;
    Ok((alignment.memory, alignment.offset))
}
