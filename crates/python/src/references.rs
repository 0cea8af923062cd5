//! Adding a reference to an object that the interpreter gives up again a few instructions later.
//!
//! `Py_INCREF` of CPython 3.12 and 3.13 writes 32 bits of the count, and `Py_DECREF` reads all 64: so soon afterwards, that
//! waits until the write has reached the cache, which takes as long as 50 instructions.

use pyo3::ffi;

/// Adds a reference by writing the whole count.
///
/// # Safety
/// The thread is attached, and the object is alive and not immortal.
#[inline]
pub(crate) unsafe fn add(object: *mut ffi::PyObject) {
    #[cfg(all(
        Py_3_12,
        not(Py_3_14),
        target_pointer_width = "64",
        not(py_sys_config = "Py_REF_DEBUG")
    ))]
    // SAFETY: as the caller says; the count is the interpreter's to be read and written by threads that are attached.
    unsafe {
        (*object).ob_refcnt.ob_refcnt += 1;
    }
    #[cfg(not(all(
        Py_3_12,
        not(Py_3_14),
        target_pointer_width = "64",
        not(py_sys_config = "Py_REF_DEBUG")
    )))]
    // SAFETY: as the caller says.
    unsafe {
        ffi::Py_INCREF(object);
    }
}
