//! `scandir`: a directory's entries, read by the loop's engine a batch at a time.
//!
//! A read belongs to the iterator and not to the step that waits for it: a step that is cancelled takes no entry with it.
//! Entries are made one by one from what the kernel has written, when they are asked for.

use super::driver::{self, LoopDriver, LoopFuture, Waiter};
use super::entry::{name_of, DirEntry, Folder};
use super::scandir_step::{ScandirStep, Verb};
use crate::coroutine::Awaiting;
use crate::errors;
use crate::path::{c_path, fspath, refused};
use proactor_engine::{Error, Output, Token};
use proactor_file::{Batch, Directory};
use pyo3::exceptions::{PyResourceWarning, PyRuntimeError, PyStopAsyncIteration, PyTypeError};
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use pyo3::PyTraverseError;
use std::sync::Arc;

/// The most names of one step: to make so many takes 50 microseconds.
const NAMES: usize = 512;

/// What `scandir` returns: await it, iterate over it, or use it in `async with`.
///
/// The directory is opened when it is awaited, entered or first iterated over. A worker reads 32 KiB of entries, then 128
/// KiB at a time; iterating over what it has read does not suspend, but gives the loop its turn after 1 ms of such steps. A
/// cancelled step loses no entry: what is being read is the next step's.
#[pyclass(generic, weakref, module = "proactor.os")]
pub(crate) struct ScandirIterator {
    /// For errors.
    path: Option<Py<PyAny>>,
    folder: Arc<Folder>,
    /// None when there is nothing more to read, or nobody wants it.
    directory: Option<Directory>,
    is_open: bool,
    batch: Batch,
    batch_bytes: Option<usize>,
    error: Option<PyErr>,
    /// Whose turns the steps are charged to.
    pub(super) driver: Option<Py<LoopDriver>>,
    reading: Option<Token>,
    waiting: Vec<Py<LoopFuture>>,
}

#[pymethods]
impl ScandirIterator {
    /// `batch_bytes`: at most so many bytes of entries at once, for tests.
    #[new]
    #[pyo3(signature = (path=None, *, batch_bytes=None))]
    fn new(py: Python<'_>, path: Option<Bound<'_, PyAny>>, batch_bytes: Option<usize>) -> PyResult<Self> {
        let (directory, folder, path) = source_of(py, path)?;
        Ok(ScandirIterator {
            path: path.map(Bound::unbind),
            folder: Arc::new(folder),
            directory: Some(directory),
            is_open: false,
            batch: Batch::default(),
            batch_bytes,
            error: None,
            driver: None,
            reading: None,
            waiting: Vec::new(),
        })
    }

    fn __await__(slf: Bound<'_, Self>) -> PyResult<Awaiting> {
        let step = ScandirStep::new(slf, Verb::Open)?;
        Ok(Awaiting(step.into_any().unbind()))
    }

    fn __aenter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, ScandirStep>> {
        ScandirStep::new(slf, Verb::Open)
    }

    #[pyo3(signature = (*_exc_info))]
    fn __aexit__<'py>(
        slf: Bound<'py, Self>,
        _exc_info: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, ScandirStep>> {
        ScandirStep::new(slf, Verb::Exit)
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, ScandirStep>> {
        ScandirStep::new(slf, Verb::Next)
    }

    /// The names of the next entries, up to 512, and none at the end: for `listdir` and its like.
    fn _names(slf: Bound<'_, Self>) -> PyResult<Bound<'_, ScandirStep>> {
        ScandirStep::new(slf, Verb::Names)
    }

    /// Closes the directory as soon as no worker is reading it; iterating ends. Twice is harmless.
    pub(super) fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let mut this = slf.borrow_mut();
        let (directory, error) = (this.directory.take(), this.error.take());
        this.batch = Batch::default();
        if let (Some(token), Some(driver)) = (this.reading.take(), &this.driver) {
            driver.borrow_mut(py).abandon(token);
        }
        let waiting = std::mem::take(&mut this.waiting);
        drop(this);
        drop((directory, error));
        wake_all(py, waiting)
    }

    // Futures know their loop and whoever waits.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.waiting.iter().try_for_each(|future| visit.call(future))?;
        visit.call(&self.driver)?;
        visit.call(&self.path)
    }

    fn __clear__(&mut self) {
        self.waiting.clear();
    }
}

/// The directory, how its entries are called, and how errors call it.
fn source_of<'py>(
    py: Python<'py>,
    path: Option<Bound<'py, PyAny>>,
) -> PyResult<(Directory, Folder, Option<Bound<'py, PyAny>>)> {
    let mut folder = Folder {
        prefix: None,
        in_bytes: false,
        dir: libc::AT_FDCWD,
    };
    let Some(path) = path else {
        folder.prefix = Some(PyString::new(py, "./").into_any().unbind());
        return Ok((Directory::at(c".".to_owned()), folder, None));
    };
    let is_text = path.is_instance_of::<PyString>() || path.is_instance_of::<PyBytes>();
    // SAFETY: a live object.
    if !is_text && unsafe { ffi::PyIndex_Check(path.as_ptr()) } != 0 {
        let fd: i32 = path.extract().map_err(|e| refused("scandir", &path, e))?;
        folder.dir = fd;
        return Ok((Directory::of(fd), folder, Some(path)));
    }
    let path = match fspath(&path) {
        Err(e) if e.is_instance_of::<PyTypeError>(py) => return Err(refused("scandir", &path, e)),
        path => path?,
    };
    let directory = Directory::at(c_path(&path).map_err(|e| refused("scandir", &path, e))?);
    folder.in_bytes = path.is_instance_of::<PyBytes>();
    folder.prefix = Some(with_separator(&path)?.unbind());
    Ok((directory, folder, Some(path)))
}

fn with_separator<'py>(path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = path.py();
    let separator = match path.is_instance_of::<PyBytes>() {
        true => PyBytes::new(py, b"/").into_any(),
        false => intern!(py, "/").clone().into_any(),
    };
    let ends = path
        .call_method1(intern!(py, "endswith"), (&separator,))?
        .is_truthy()?;
    if ends || path.len()? == 0 {
        return Ok(path.clone());
    }
    path.add(separator)
}

fn wake_all(py: Python<'_>, waiting: Vec<Py<LoopFuture>>) -> PyResult<()> {
    let mut woken = Ok(());
    for future in waiting {
        woken = woken.and(driver::wake(future.bind(py)).map(drop));
    }
    woken
}

impl ScandirIterator {
    /// The next entry, if it has been read. Raises what reading has met, and StopAsyncIteration at the end.
    pub(super) fn next_now(&mut self, py: Python<'_>) -> PyResult<Option<Py<DirEntry>>> {
        if let Some(entry) = self.batch.take() {
            return DirEntry::new(py, &self.folder, entry).map(Some);
        }
        match self.is_over()? {
            true => Err(PyStopAsyncIteration::new_err(())),
            false => Ok(None),
        }
    }

    /// Names of the next entries, if they have been read; none at the end. Raises what reading has met.
    pub(super) fn names_now(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let names = PyList::empty(py);
        while names.len() < NAMES {
            let Some(entry) = self.batch.take() else { break };
            names.append(name_of(py, entry.name, self.folder.in_bytes)?)?;
        }
        let is_there = !names.is_empty() || self.is_over()?;
        Ok(is_there.then(|| names.into_any().unbind()))
    }

    /// Whether there is nothing more to be read, when all that was read is taken.
    fn is_over(&mut self) -> PyResult<bool> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.batch.is_last() {
            self.directory = None;
        }
        Ok(self.directory.is_none())
    }

    /// Itself, if it is open, or closed.
    pub(super) fn open_now(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        let mut this = slf.borrow_mut();
        if let Some(error) = this.error.take() {
            return Err(error);
        }
        let is_over = this.is_open || this.directory.is_none();
        Ok(is_over.then(|| slf.clone().into_any().unbind()))
    }

    /// Has the next batch read, unless that is under way, and gives a future to wait for.
    pub(super) fn wait(slf: &Bound<'_, Self>) -> PyResult<Py<LoopFuture>> {
        let py = slf.py();
        let future = driver::new_future(py)?.unbind();
        let path = slf.borrow().path.as_ref().map(|path| path.clone_ref(py));
        let path = path.as_ref().map(|path| path.bind(py));
        let driver = driver::current(py, None, "scandir", path)?;
        let mut this = slf.borrow_mut();
        let Some(directory) = &this.directory else {
            // Closed since the future was made, which was Python's.
            drop(this);
            driver::wake(future.bind(py))?;
            return Ok(future);
        };
        if this.reading.is_none() {
            let op = directory.read(this.batch_bytes);
            let waiter = Waiter::Scan(slf.clone().unbind());
            let token = driver.borrow_mut().submit(py, op, waiter)?;
            this.reading = Some(token);
            this.driver = Some(driver.clone().unbind());
        } else if this.driver.as_ref().is_some_and(|own| !own.is(&driver)) {
            return Err(PyRuntimeError::new_err(
                "the directory is being read by another loop",
            ));
        }
        this.waiting.push(future.clone_ref(py));
        drop(this);
        driver::schedule_flush(&driver)?;
        Ok(future)
    }

    /// A batch has been read.
    pub(super) fn arrived(slf: &Bound<'_, Self>, result: Result<Output, Error>) -> PyResult<()> {
        let py = slf.py();
        let error = result
            .err()
            .map(|e| errors::os_error(py, &e, slf.borrow().path.as_ref().map(|path| path.bind(py))));
        let mut this = slf.borrow_mut();
        this.reading = None;
        this.is_open = true;
        this.batch = this.directory.as_ref().map(Directory::take).unwrap_or_default();
        let over = if error.is_some() || this.batch.is_last() && this.batch.is_empty() {
            this.directory.take()
        } else {
            None
        };
        this.error = error;
        let waiting = std::mem::take(&mut this.waiting);
        drop(this);
        drop(over);
        wake_all(py, waiting)
    }

    /// What was under way has ended with the loop. What it has read is there for another one.
    pub(super) fn loop_closed(slf: &Bound<'_, Self>) {
        let mut this = slf.borrow_mut();
        this.reading = None;
        this.driver = None;
        let batch = this.directory.as_ref().map(Directory::take);
        if let Some(batch) = batch.filter(|batch| !batch.is_empty()) {
            this.is_open = true;
            this.batch = batch;
        }
        let waiting = std::mem::take(&mut this.waiting);
        drop(this);
        drop(waiting);
    }
}

impl Drop for ScandirIterator {
    fn drop(&mut self) {
        if self.is_open && self.directory.is_some() {
            errors::in_drop(|py| {
                let name = self
                    .path
                    .as_ref()
                    .map(|path| path.bind(py).repr().map(|name| name.to_string()));
                let name = name.and_then(Result::ok).unwrap_or_default();
                let text = format!("unclosed scandir iterator {name}");
                errors::warn_in_drop::<PyResourceWarning>(py, text.trim_end());
            });
        }
    }
}
