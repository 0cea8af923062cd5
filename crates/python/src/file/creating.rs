//! New files of `proactor.tempfile`: created by the loop's engine, and removed again if nobody takes them.

use crate::aio_engine;
use crate::files::Call;
use crate::path::c_path;
use proactor_engine::op::File;
use proactor_file::{Create, Creation};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::os::fd::{IntoRawFd, RawFd};

/// A file that `create_file` has made. It is closed and removed if nobody takes it: `detach` does, and
/// `open_binary`, to which it is given in place of an opener.
#[pyclass(frozen, module = "proactor._native")]
pub(crate) struct CreatedFile(Creation);

impl CreatedFile {
    /// # Errors
    /// If there is none, or it was taken.
    pub(super) fn take(&self) -> PyResult<File> {
        self.0.take().ok_or_else(none)
    }
}

fn none() -> PyErr {
    PyRuntimeError::new_err("there is no new file, or it was taken")
}

#[pymethods]
impl CreatedFile {
    /// The descriptor, which stays with this.
    fn fileno(&self) -> PyResult<RawFd> {
        self.0.fd().ok_or_else(none)
    }

    /// Removes and closes it, now or when it has been created.
    fn discard(&self) {
        self.0.give_up();
    }

    /// The descriptor, which is the caller's from now on.
    fn detach(&self) -> PyResult<RawFd> {
        let shared = |_| PyRuntimeError::new_err("the new file is in use");
        Ok(self.take()?.into_fd().map_err(shared)?.into_raw_fd())
    }
}

/// Creates a file that only its owner may use: a coroutine, and what then has the file.
///
/// `how` is "named" (FileExistsError if the name is taken), "unlinked" (its name is removed at once) or "nameless" (by
/// O_TMPFILE, in the directory `path`).
#[pyfunction]
#[pyo3(signature = (path, how, *, engine=None))]
pub(super) fn create_file(
    path: &Bound<'_, PyAny>,
    how: &str,
    engine: Option<String>,
) -> PyResult<(Call, CreatedFile)> {
    let how = match how {
        "named" => Create::Named,
        "unlinked" => Create::Unlinked,
        "nameless" => Create::Nameless,
        _ => return Err(PyValueError::new_err("how is named, unlinked or nameless")),
    };
    aio_engine(engine.as_deref())?;
    let creation = Creation::default();
    let op = creation.start(c_path(path)?, how);
    Ok((Call::new("create_file", op, path, engine), CreatedFile(creation)))
}
