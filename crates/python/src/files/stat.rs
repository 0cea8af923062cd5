//! `stat` and `fstat` as awaitables, and `os.stat_result` of what the kernel answers.

use super::call::Call;
use crate::path::c_path;
use proactor::op::{Handle, Statx};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyString};

/// What `os.stat` says of a path or descriptor. Without suspending if the path is in the kernel's cache and on a local
/// file system; otherwise by the loop's engine.
///
/// TypeError, ValueError or OverflowError for arguments that `os.stat` knows and this does not, or that neither knows.
#[pyfunction]
#[pyo3(signature = (path, *, dir_fd=None, follow_symlinks=true))]
pub(crate) fn stat(path: &Bound<'_, PyAny>, dir_fd: Option<i32>, follow_symlinks: bool) -> PyResult<Call> {
    if let Ok(fd) = path.cast_exact::<PyInt>() {
        if dir_fd.is_some() {
            return Err(PyValueError::new_err("a descriptor in a directory"));
        }
        return Ok(Call::new("stat", Statx::of(descriptor(fd)?), path, None));
    }
    // Its errors name what a path-like object gives, and not the object.
    let path = if path.is_instance_of::<PyString>() || path.is_instance_of::<PyBytes>() {
        path.clone()
    } else {
        path.py().import("os")?.getattr("fspath")?.call1((path,))?
    };
    let path = &path;
    let mut op = Statx::new(c_path(path)?);
    op.dir = dir_fd.map_or(Handle::CWD, Handle::from);
    // As stat(2) since Linux 4.11.
    op.flags = libc::AT_NO_AUTOMOUNT;
    if !follow_symlinks {
        op.flags |= libc::AT_SYMLINK_NOFOLLOW;
    }
    Ok(Call::new("stat", op, path, None))
}

/// What `os.fstat` says of a descriptor, as `stat`; its errors have no filename.
#[pyfunction]
pub(crate) fn fstat(fd: &Bound<'_, PyInt>) -> PyResult<Call> {
    let nothing = fd.py().None();
    Ok(Call::new(
        "fstat",
        Statx::of(descriptor(fd)?),
        nothing.bind(fd.py()),
        None,
    ))
}

/// AT_FDCWD, a negative number, would be the working directory.
fn descriptor(fd: &Bound<'_, PyInt>) -> PyResult<i32> {
    let fd: i32 = fd.extract()?;
    if fd < 0 {
        return Err(PyValueError::new_err("a negative descriptor"));
    }
    Ok(fd)
}

static STAT_RESULT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The answer as Python has it: ten integers, the times as floats and as nanoseconds, and the rest.
pub(super) fn result(py: Python<'_>, stat: &libc::statx) -> PyResult<Py<PyAny>> {
    let nanoseconds =
        |time: &libc::statx_timestamp| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    // The rounding of `os.stat`.
    let seconds = |time: &libc::statx_timestamp| time.tv_sec as f64 + 1e-9 * f64::from(time.tv_nsec);
    let (access, change, modification) = (&stat.stx_atime, &stat.stx_ctime, &stat.stx_mtime);
    let integers = (
        stat.stx_mode,
        stat.stx_ino,
        libc::makedev(stat.stx_dev_major, stat.stx_dev_minor),
        stat.stx_nlink,
        stat.stx_uid,
        stat.stx_gid,
        stat.stx_size,
        access.tv_sec,
        modification.tv_sec,
        change.tv_sec,
    );
    let fields = integers.into_pyobject(py)?.add((
        seconds(access),
        seconds(modification),
        seconds(change),
        nanoseconds(access),
        nanoseconds(modification),
        nanoseconds(change),
        stat.stx_blksize,
        stat.stx_blocks,
        libc::makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
    ))?;
    Ok(STAT_RESULT
        .import(py, "os", "stat_result")?
        .call1((fields,))?
        .unbind())
}
