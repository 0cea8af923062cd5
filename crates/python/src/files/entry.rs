//! `DirEntry`: what a directory says of an entry, and what is asked of the file system about it.

use super::status::{mode_of, No, Question, StatCall, Subject};
use crate::memory;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBool;
use std::sync::Arc;

/// The directory that entries are in.
pub(super) struct Folder {
    /// What paths begin with, with its separator; None if the names are the paths.
    pub(super) prefix: Option<Py<PyAny>>,
    pub(super) in_bytes: bool,
    /// What paths are relative to.
    pub(super) dir: i32,
}

/// What `scandir` finds: `os.DirEntry` with its questions as coroutines.
///
/// The directory says what an entry is, and whether it is a link; what is behind a link, and `stat`, are
/// `proactor.os.stat`'s answers. As with `os.DirEntry` they are asked for once and kept.
// (It knows names and answers only, so the collector need not know it.)
#[pyclass(frozen, generic, module = "proactor.os")]
pub(crate) struct DirEntry {
    folder: Arc<Folder>,
    #[pyo3(get)]
    /// The entry's name in its directory.
    name: Py<PyAny>,
    /// `DT_*`.
    kind: u8,
    inode: u64,
    path: PyOnceLock<Py<PyAny>>,
    /// Of the entry itself, and of what is behind it if it is a link or may be one.
    own: PyOnceLock<Py<PyAny>>,
    target: PyOnceLock<Py<PyAny>>,
}

impl DirEntry {
    pub(super) fn new(
        py: Python<'_>,
        folder: &Arc<Folder>,
        entry: proactor_file::Entry<'_>,
    ) -> PyResult<Py<Self>> {
        let this = DirEntry {
            name: name_of(py, entry.name, folder.in_bytes)?,
            folder: folder.clone(),
            kind: entry.kind,
            inode: entry.inode,
            path: PyOnceLock::new(),
            own: PyOnceLock::new(),
            target: PyOnceLock::new(),
        };
        Py::new(py, this)
    }

    /// Keeps an answer; the first one stays.
    pub(super) fn keep(&self, py: Python<'_>, follow: bool, result: &Bound<'_, PyAny>) {
        let place = if follow { &self.target } else { &self.own };
        let _ = place.set(py, result.clone().unbind());
    }

    /// Whether it may be a link that is to be followed.
    fn follows(&self, follow_symlinks: bool) -> bool {
        follow_symlinks && matches!(self.kind, libc::DT_LNK | libc::DT_UNKNOWN)
    }

    fn kept(&self, py: Python<'_>, follow: bool) -> Option<&Py<PyAny>> {
        if follow { &self.target } else { &self.own }.get(py)
    }

    fn ask<'py>(
        slf: &Bound<'py, Self>,
        name: &'static str,
        question: Question,
        follow: bool,
    ) -> PyResult<Bound<'py, StatCall>> {
        let this = slf.get();
        let subject = Subject::Path {
            path: this.full_path(slf.py())?.clone_ref(slf.py()),
            dir: this.folder.dir,
            follow,
        };
        StatCall::new(slf.py(), name, question, subject, Some(slf.clone().unbind()))
    }

    /// Whether it is of this kind: of the numbers that directories have, and of those in modes.
    fn is<'py>(
        slf: &Bound<'py, Self>,
        name: &'static str,
        (listed, mode): (u8, u32),
        follow_symlinks: bool,
    ) -> PyResult<Bound<'py, StatCall>> {
        let (py, this) = (slf.py(), slf.get());
        let follow = this.follows(follow_symlinks);
        let is = if this.kind != libc::DT_UNKNOWN && !follow {
            this.kind == listed
        } else if let Some(status) = this.kept(py, follow) {
            mode_of(status.bind(py))? & libc::S_IFMT == mode
        } else {
            let question = Question::Is {
                kind: Some(mode),
                no: No::Missing,
            };
            return Self::ask(slf, name, question, follow);
        };
        StatCall::known(py, name, PyBool::new(py, is).to_owned().into_any().unbind())
    }

    fn full_path(&self, py: Python<'_>) -> PyResult<&Py<PyAny>> {
        self.path.get_or_try_init(py, || match &self.folder.prefix {
            Some(prefix) => Ok(prefix.bind(py).add(&self.name)?.unbind()),
            None => Ok(self.name.clone_ref(py)),
        })
    }
}

pub(super) fn name_of(py: Python<'_>, name: &[u8], in_bytes: bool) -> PyResult<Py<PyAny>> {
    if in_bytes {
        return Ok(memory::bytes(py, name)?.into_any().unbind());
    }
    // SAFETY: the bytes live as long as the call; the result is a new reference, or NULL with an exception set.
    unsafe {
        let name = ffi::PyUnicode_DecodeFSDefaultAndSize(name.as_ptr().cast(), name.len() as ffi::Py_ssize_t);
        Bound::from_owned_ptr_or_err(py, name).map(Bound::unbind)
    }
}

#[pymethods]
impl DirEntry {
    /// The path given to `scandir`, joined with the name.
    #[getter]
    fn path(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.full_path(py)?.clone_ref(py))
    }

    /// The entry's inode number, which the directory has.
    fn inode(&self) -> u64 {
        self.inode
    }

    /// Whether it is a directory, or a link to one. A missing file is none. A coroutine.
    #[pyo3(signature = (*, follow_symlinks=true))]
    fn is_dir<'py>(slf: &Bound<'py, Self>, follow_symlinks: bool) -> PyResult<Bound<'py, StatCall>> {
        Self::is(slf, "is_dir", (libc::DT_DIR, libc::S_IFDIR), follow_symlinks)
    }

    /// Whether it is a regular file, or a link to one. A missing file is none. A coroutine.
    #[pyo3(signature = (*, follow_symlinks=true))]
    fn is_file<'py>(slf: &Bound<'py, Self>, follow_symlinks: bool) -> PyResult<Bound<'py, StatCall>> {
        Self::is(slf, "is_file", (libc::DT_REG, libc::S_IFREG), follow_symlinks)
    }

    /// Whether it is a symbolic link, broken or not. A coroutine.
    fn is_symlink<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, StatCall>> {
        Self::is(slf, "is_symlink", (libc::DT_LNK, libc::S_IFLNK), false)
    }

    /// False: Linux has none. A coroutine.
    fn is_junction<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, StatCall>> {
        let no = PyBool::new(slf.py(), false).to_owned();
        StatCall::known(slf.py(), "is_junction", no.into_any().unbind())
    }

    /// As `os.stat` of the path, asked for once. Raises OSError as it does. A coroutine.
    #[pyo3(signature = (*, follow_symlinks=true))]
    fn stat<'py>(slf: &Bound<'py, Self>, follow_symlinks: bool) -> PyResult<Bound<'py, StatCall>> {
        let (py, this) = (slf.py(), slf.get());
        let follow = this.follows(follow_symlinks);
        match this.kept(py, follow) {
            Some(status) => StatCall::known(py, "stat", status.clone_ref(py)),
            None => Self::ask(slf, "stat", Question::Status, follow),
        }
    }

    fn __fspath__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.path(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<DirEntry {}>", self.name.bind(py).repr()?))
    }
}
