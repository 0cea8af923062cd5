//! One awaited op: a native coroutine that does its work when it is first driven.
//!
//! It has `send`, `throw` and `close`, so `asyncio.create_task`, `gather`, `TaskGroup` and `asyncio.run` take it as any
//! coroutine. If the op can be finished without waiting, awaiting it never suspends.

use super::driver::{self, LoopDriver, LoopFuture, Waiter};
use crate::coroutine::{bytes_len, coroutine_methods, Coroutine, Outcome};
use crate::errors;
use crate::memory::{self, BytesAllocator, Unseen};
use crate::path::c_path;
use proactor_engine::op::{Op, OpenFlags, ReadFile, WriteFile};
use proactor_engine::Token;
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::PyTraverseError;

/// A file counts for so much more than its bytes of the loop's turn: to open and close one takes as long as to read them.
pub(super) const FILE_BYTES: usize = 1 << 13;

/// The awaitable of one file operation. Await it once.
#[pyclass(module = "proactor._native", name = "Call")]
pub(crate) struct Call {
    state: State,
    name: &'static str,
    path: Py<PyAny>,
    engine: Option<String>,
}

enum State {
    New(Op),
    /// Lets the loop go round before it begins.
    GaveWay(Op),
    Waiting {
        future: Py<LoopFuture>,
        driver: Py<LoopDriver>,
        token: Token,
    },
    Done,
}

impl Call {
    pub(crate) fn new(
        name: &'static str,
        op: impl Into<Op>,
        path: &Bound<'_, PyAny>,
        engine: Option<String>,
    ) -> Self {
        Call {
            state: State::New(op.into()),
            name,
            path: path.clone().unbind(),
            engine,
        }
    }

    fn driver<'py>(slf: &Bound<'py, Self>, op: &Op) -> PyResult<Bound<'py, LoopDriver>> {
        let this = slf.borrow();
        let (engine, path) = (this.engine.clone(), this.path.clone_ref(slf.py()));
        drop(this);
        driver::current(slf.py(), engine.as_deref(), op.name(), Some(path.bind(slf.py())))
    }

    fn start(slf: &Bound<'_, Self>, mut op: Op, driver: &Bound<'_, LoopDriver>) -> PyResult<Outcome> {
        let py = slf.py();
        let path = slf.borrow().path.clone_ref(py);
        if let Op::ReadFile(read) = &mut op {
            if let Some(value) = read_now(driver, read, path.bind(py)) {
                let value = value?;
                // Whoever comes next hears of it.
                driver.borrow_mut().turn.used(bytes_len(py, &value));
                return Ok(Outcome::Return(Some(value)));
            }
        }
        let future = driver::new_future(py)?.unbind();
        let waiter = Waiter::Future {
            future: future.clone_ref(py),
            path,
        };
        let token = driver.borrow_mut().submit(py, op, waiter)?;
        driver::schedule_flush(driver)?;
        let suspended = Outcome::Suspend(driver::suspend_on(future.bind(py)));
        slf.borrow_mut().state = State::Waiting {
            future,
            driver: driver.clone().unbind(),
            token,
        };
        Ok(suspended)
    }
}

/// The whole file, if it can be had without waiting: read straight into the bytes object. If not, `read` is ready to be
/// submitted and goes on from here.
pub(super) fn read_now(
    driver: &Bound<'_, LoopDriver>,
    read: &mut ReadFile,
    path: &Bound<'_, PyAny>,
) -> Option<PyResult<Py<PyAny>>> {
    let py = driver.py();
    read.allocate = Some(Box::new(BytesAllocator));
    match read.attempt() {
        Some(Ok(_)) => Some(file_bytes(py, read)),
        Some(Err(e)) => Some(Err(errors::os_error(py, &e, Some(path)))),
        None => None,
    }
}

/// What a finished read has brought.
pub(super) fn file_bytes(py: Python<'_>, read: &mut ReadFile) -> PyResult<Py<PyAny>> {
    let filled = read.len();
    let memory = read
        .memory
        .take()
        .and_then(|memory| memory.into_any().downcast::<Unseen>().ok());
    match memory {
        Some(memory) => memory.into_bytes(py, filled).map(Py::into_any),
        None => memory::bytes(py, &read.data).map(|bytes| bytes.into_any().unbind()),
    }
}

impl Coroutine for Call {
    fn drive(slf: &Bound<'_, Self>, _sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        let py = slf.py();
        let state = std::mem::replace(&mut slf.borrow_mut().state, State::Done);
        match state {
            State::New(op) => {
                let driver = Self::driver(slf, &op)?;
                // Many at once, of cached files, are to leave the loop its turn.
                if matches!(op, Op::ReadFile(_)) && driver.borrow_mut().turn.charge(FILE_BYTES) {
                    let suspended = driver::give_way(&driver)?;
                    slf.borrow_mut().state = State::GaveWay(op);
                    return Ok(Outcome::Suspend(suspended));
                }
                Self::start(slf, op, &driver)
            }
            State::GaveWay(op) => {
                let driver = Self::driver(slf, &op)?;
                driver.borrow_mut().turn.go_on();
                Self::start(slf, op, &driver)
            }
            State::Waiting {
                future,
                driver,
                token,
            } => {
                let done = driver::is_done(future.bind(py));
                if !done {
                    // Driven by hand, not by the loop: still waiting.
                    slf.borrow_mut().state = State::Waiting {
                        future: future.clone_ref(py),
                        driver,
                        token,
                    };
                    return Ok(Outcome::Suspend(driver::suspend_on(future.bind(py))));
                }
                let value = future.borrow(py).result(py)?;
                Ok(Outcome::Return(Some(value)))
            }
            State::Done => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }

    /// What is in flight is abandoned; its buffer is freed when the kernel has let go of it.
    fn stop(slf: &Bound<'_, Self>) -> PyResult<()> {
        let state = std::mem::replace(&mut slf.borrow_mut().state, State::Done);
        if let State::Waiting { driver, token, .. } = state {
            driver.borrow_mut(slf.py()).abandon(token);
        }
        Ok(())
    }

    fn qualname(slf: &Bound<'_, Self>) -> String {
        slf.try_borrow().map_or("Call", |call| call.name).to_owned()
    }
}

coroutine_methods! { Call =>
    // A pending call and its task know each other.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.path)?;
        match &self.state {
            State::Waiting { future, driver, .. } => visit.call(future).and_then(|()| visit.call(driver)),
            _ => Ok(()),
        }
    }

    fn __clear__(&mut self) {
        self.state = State::Done;
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "<proactor {} of {}>",
            self.name,
            self.path.bind(py).repr()?
        ))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, State::Done) {
            State::New(_) => {
                let text = format!("coroutine '{}' was never awaited", self.name);
                errors::in_drop(|py| errors::warn_in_drop::<PyRuntimeWarning>(py, &text));
            }
            State::Waiting { driver, token, .. } => {
                errors::in_drop(|py| {
                    if let Ok(mut driver) = driver.try_borrow_mut(py) {
                        driver.abandon(token);
                    }
                });
            }
            State::GaveWay(_) | State::Done => {}
        }
    }
}

/// Reads a whole file and returns its bytes.
///
/// `path` is str, bytes or path-like. A file whose pages are cached is read at once, in the calling thread and without
/// suspending; otherwise open, size, read and close are one op of the engine. Files above 1 MiB always suspend.
///
/// Raises OSError (with errno, filename and op) on await; ValueError or TypeError for a bad path at once. When
/// cancelled, the read is abandoned and its descriptor closed.
#[pyfunction]
#[pyo3(signature = (path, *, engine=None))]
pub(crate) fn read_bytes(path: &Bound<'_, PyAny>, engine: Option<String>) -> PyResult<Call> {
    Ok(Call::new(
        "read_bytes",
        ReadFile::new(c_path(path)?),
        path,
        engine,
    ))
}

/// Creates or truncates a file, writes `data` (any bytes-like object, without a copy) and returns its length in bytes.
///
/// `append` writes at the end instead; `exclusive` fails with FileExistsError if the file exists; `mode` is the
/// permission of a new file before the umask; `sync` brings data and size to the device before it returns. `data` is
/// exported until the write is done.
///
/// Raises OSError on await. When cancelled before a worker has begun, nothing was done; after that the write runs to its
/// end in the background.
#[pyfunction]
#[pyo3(signature = (path, data, *, append=false, exclusive=false, mode=0o666, sync=false, engine=None))]
#[allow(clippy::fn_params_excessive_bools)]
pub(crate) fn write_bytes(
    path: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    append: bool,
    exclusive: bool,
    mode: u32,
    sync: bool,
    engine: Option<String>,
) -> PyResult<Call> {
    if append && exclusive {
        return Err(PyValueError::new_err(
            "append has no effect with exclusive, which makes a new file: leave it out",
        ));
    }
    let mut op = WriteFile::new(c_path(path)?, memory::buffer(data, false)?);
    op.flags = OpenFlags::WRITE_ONLY | OpenFlags::CREATE | OpenFlags::CLOEXEC;
    op.flags |= if append {
        OpenFlags::APPEND
    } else {
        OpenFlags::TRUNCATE
    };
    if exclusive {
        op.flags |= OpenFlags::EXCLUSIVE;
    }
    op.mode = mode;
    op.sync = sync;
    Ok(Call::new("write_bytes", op, path, engine))
}
