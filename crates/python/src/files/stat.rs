//! `stat` and its kin, of `os`, `os.path` and `pathlib`; and `os.stat_result` of what the kernel answers.

use super::status::{No, Question, StatCall, Subject};
use crate::path::fspath;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyInt, PyString};

/// What `os.stat` says of a path or descriptor.
///
/// A coroutine. It does not suspend if the path is in the kernel's cache, or `path` is a descriptor, and the file system is
/// a local one (ext4, XFS, Btrfs, F2FS, tmpfs, overlay), but gives the loop its turn after 1 ms of such calls. Otherwise
/// the loop's engine asks; cancelled, its answer is dropped. Raises what `os.stat` does.
#[pyfunction]
#[pyo3(signature = (path, *, dir_fd=None, follow_symlinks=None))]
#[pyo3(text_signature = "(path, *, dir_fd=None, follow_symlinks=True)")]
pub(crate) fn stat<'py>(
    path: &Bound<'py, PyAny>,
    dir_fd: Option<&Bound<'py, PyAny>>,
    follow_symlinks: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = path.py();
    let follow = follow_symlinks.map_or(Ok(true), PyAnyMethods::is_truthy)?;
    match subject_of(path, dir_fd, follow) {
        Some(subject) if follow || matches!(subject, Subject::Path { .. }) => {
            asked(py, "stat", Question::Status, subject)
        }
        _ => {
            let options = PyDict::new(py);
            options.set_item("dir_fd", dir_fd)?;
            options.set_item("follow_symlinks", follow)?;
            by_python(py, "os", "stat", path, Some(&options))
        }
    }
}

/// What `os.lstat` says: `stat` of a link itself.
#[pyfunction]
#[pyo3(signature = (path, *, dir_fd=None))]
pub(crate) fn lstat<'py>(
    path: &Bound<'py, PyAny>,
    dir_fd: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = path.py();
    match subject_of(path, dir_fd, false) {
        Some(subject @ Subject::Path { .. }) => asked(py, "lstat", Question::Status, subject),
        _ => {
            let options = PyDict::new(py);
            options.set_item("dir_fd", dir_fd)?;
            by_python(py, "os", "lstat", path, Some(&options))
        }
    }
}

/// What `os.fstat` says: `stat` of a descriptor. Its errors have no filename.
#[pyfunction]
pub(crate) fn fstat<'py>(fd: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match descriptor(fd) {
        Some(number) => {
            let subject = Subject::Descriptor {
                fd: number,
                named: None,
            };
            asked(fd.py(), "fstat", Question::Status, subject)
        }
        None => by_python(fd.py(), "os", "fstat", fd, None),
    }
}

/// Whether there is such a file; False for a broken link, and for a path that cannot be asked for. A coroutine, as `stat`.
#[pyfunction]
pub(crate) fn exists<'py>(path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    os_path("exists", path, None, true)
}

/// Whether there is such a file, or a link, broken or not. A coroutine, as `stat`.
#[pyfunction]
pub(crate) fn lexists<'py>(path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    os_path("lexists", path, None, false)
}

/// Whether it is a regular file, or a link to one. A coroutine, as `stat`.
#[pyfunction]
pub(crate) fn isfile<'py>(path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    os_path("isfile", path, Some(libc::S_IFREG), true)
}

/// Whether it is a directory, or a link to one. A coroutine, as `stat`.
#[pyfunction]
pub(crate) fn isdir<'py>(s: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    os_path("isdir", s, Some(libc::S_IFDIR), true)
}

/// Whether it is a symbolic link, broken or not. A coroutine, as `stat`.
#[pyfunction]
pub(crate) fn islink<'py>(path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    os_path("islink", path, Some(libc::S_IFLNK), false)
}

fn os_path<'py>(
    name: &'static str,
    path: &Bound<'py, PyAny>,
    kind: Option<u32>,
    follow: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let question = Question::Is {
        kind,
        no: No::Unasked,
    };
    match subject_of(path, None, follow) {
        Some(subject) if follow || matches!(subject, Subject::Path { .. }) => {
            asked(path.py(), name, question, subject)
        }
        _ => by_python(path.py(), "os.path", name, path, None),
    }
}

/// Whether a path is of this kind (`stat.S_IFREG` and so on), or with 0 whether there is anything, by `pathlib`'s rules.
#[pyfunction]
pub(crate) fn path_is<'py>(
    path: &Bound<'py, PyAny>,
    kind: u32,
    follow_symlinks: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let question = Question::Is {
        kind: (kind != 0).then_some(kind),
        no: No::Nowhere,
    };
    let subject = Subject::Path {
        path: fspath(path)?.unbind(),
        dir: libc::AT_FDCWD,
        follow: follow_symlinks,
    };
    asked(path.py(), "path_is", question, subject)
}

fn asked<'py>(
    py: Python<'py>,
    name: &'static str,
    question: Question,
    subject: Subject,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(StatCall::new(py, name, question, subject, None)?.into_any())
}

/// None for arguments that Python knows and this does not, or that neither knows.
fn subject_of(path: &Bound<'_, PyAny>, dir_fd: Option<&Bound<'_, PyAny>>, follow: bool) -> Option<Subject> {
    let dir = match dir_fd {
        None => libc::AT_FDCWD,
        Some(dir) => dir.cast_exact::<PyInt>().ok()?.extract().ok()?,
    };
    if path.is_exact_instance_of::<PyInt>() {
        let fd = descriptor(path).filter(|_| dir_fd.is_none())?;
        let named = Some(path.clone().unbind());
        return Some(Subject::Descriptor { fd, named });
    }
    // Its errors name what a path-like object gives, and not the object.
    let path = if path.is_instance_of::<PyString>() || path.is_instance_of::<PyBytes>() {
        path.clone()
    } else {
        fspath(path).ok()?
    };
    let path = path.unbind();
    Some(Subject::Path { path, dir, follow })
}

/// AT_FDCWD, a negative number, would be the working directory.
fn descriptor(fd: &Bound<'_, PyAny>) -> Option<i32> {
    let fd = fd.cast_exact::<PyInt>().ok()?.extract().ok()?;
    (fd >= 0).then_some(fd)
}

/// A coroutine of Python's, which calls its own function in a thread: what it refuses, it refuses in its own words.
fn by_python<'py>(
    py: Python<'py>,
    module: &str,
    name: &str,
    argument: &Bound<'py, PyAny>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    static CALL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let function = py.import(module)?.getattr(name)?;
    CALL.import(py, "proactor._pool", "call")?
        .call((function, argument), options)
}

static STAT_RESULT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The answer as Python has it: ten integers, the times as floats and as nanoseconds, and the rest.
pub(super) fn stat_result<'py>(py: Python<'py>, stat: &libc::statx) -> PyResult<Bound<'py, PyAny>> {
    let class = STAT_RESULT.import(py, "os", "stat_result")?;
    // SAFETY: the type of a struct sequence; the result is a new reference, or NULL with an exception set.
    let result = unsafe { ffi::PyStructSequence_New(class.as_ptr().cast()) };
    // SAFETY: as above.
    let result = unsafe { Bound::from_owned_ptr_or_err(py, result)? };
    let mut place = 0;
    let mut put = |value: Bound<'py, PyAny>| {
        // SAFETY: nobody else has seen it; there is a place for each of the values below, which is given a reference. (A
        // tuple of them all and a call of the type would be twice as dear.)
        unsafe { ffi::PyStructSequence_SetItem(result.as_ptr(), place, value.into_ptr()) };
        place += 1;
    };
    let mut number = |value: u64| -> PyResult<()> {
        put(value.into_pyobject(py)?.into_any());
        Ok(())
    };
    number(stat.stx_mode.into())?;
    number(stat.stx_ino)?;
    number(libc::makedev(stat.stx_dev_major, stat.stx_dev_minor))?;
    number(stat.stx_nlink.into())?;
    number(stat.stx_uid.into())?;
    number(stat.stx_gid.into())?;
    number(stat.stx_size)?;
    let times = [&stat.stx_atime, &stat.stx_mtime, &stat.stx_ctime];
    for time in times {
        put(time.tv_sec.into_pyobject(py)?.into_any());
    }
    for time in times {
        // The rounding of `os.stat`.
        let seconds = time.tv_sec as f64 + 1e-9 * f64::from(time.tv_nsec);
        put(seconds.into_pyobject(py)?.into_any());
    }
    for time in times {
        put(nanoseconds(py, time)?);
    }
    for value in [
        stat.stx_blksize.into(),
        stat.stx_blocks,
        libc::makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
    ] {
        put(value.into_pyobject(py)?.into_any());
    }
    Ok(result)
}

fn nanoseconds<'py>(py: Python<'py>, time: &libc::statx_timestamp) -> PyResult<Bound<'py, PyAny>> {
    let nanoseconds = time.tv_sec.checked_mul(1_000_000_000);
    match nanoseconds.and_then(|whole| whole.checked_add(time.tv_nsec.into())) {
        Some(nanoseconds) => Ok(nanoseconds.into_pyobject(py)?.into_any()),
        // Before 1677 or after 2262.
        None => {
            let nanoseconds = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
            Ok(nanoseconds.into_pyobject(py)?.into_any())
        }
    }
}
