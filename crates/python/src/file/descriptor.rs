//! Descriptors on their way to a file object.

use proactor_engine::op::File;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A file on its way from the engine to whoever awaits it; closed if nobody takes it.
#[pyclass(module = "proactor._native")]
pub(crate) struct OpenedFile {
    file: Option<File>,
}

impl OpenedFile {
    pub(crate) fn new(file: File) -> Self {
        OpenedFile { file: Some(file) }
    }

    /// # Errors
    /// The second time.
    pub(super) fn take(&mut self) -> PyResult<File> {
        let taken = || PyRuntimeError::new_err("the file was taken");
        self.file.take().ok_or_else(taken)
    }
}

/// What may be a number is a descriptor, unless it is too large for one.
pub(super) fn descriptor_of(file: &Bound<'_, PyAny>) -> PyResult<Option<RawFd>> {
    if file.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err(
            "a path or a descriptor is needed, not a bool",
        ));
    }
    // SAFETY: the object is alive.
    if unsafe { ffi::PyIndex_Check(file.as_ptr()) } == 0 {
        return Ok(None);
    }
    match file.extract::<RawFd>() {
        Ok(fd) if fd < 0 => Err(PyValueError::new_err("negative file descriptor")),
        found => Ok(found.ok()),
    }
}

/// A descriptor of the caller's: itself, or a copy of it if it is to stay open.
///
/// # Errors
/// EBADF and its like.
///
/// # Safety
/// The caller's caller vouches for the descriptor, as with `io.open`: with `own` it is ours from now on.
pub(super) unsafe fn given(fd: RawFd, own: bool) -> std::io::Result<OwnedFd> {
    // SAFETY: as above; `fcntl` with F_GETFD takes no pointers.
    unsafe {
        match libc::fcntl(fd, libc::F_GETFD) {
            -1 => Err(std::io::Error::last_os_error()),
            _ if own => Ok(OwnedFd::from_raw_fd(fd)),
            _ => BorrowedFd::borrow_raw(fd).try_clone_to_owned(),
        }
    }
}

/// The same, closed in programs that are executed.
///
/// # Errors
/// The kernel's.
pub(super) fn not_inherited(fd: OwnedFd) -> std::io::Result<OwnedFd> {
    // SAFETY: no pointers.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(fd),
    }
}

pub(super) fn is_directory(fd: RawFd) -> bool {
    // SAFETY: zero is a valid initial value; the struct outlives the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFDIR
    }
}
