//! Opening a file: awaited, or as an asynchronous context manager.

use super::binary::{unsupported, BinaryFile, Facts};
use super::call::FileCall;
use super::creating::CreatedFile;
use super::descriptor::{descriptor_of, given, is_directory, not_inherited, OpenedFile};
use super::direct;
use super::io_buffer::IoBuffer;
use super::limited::Limited;
use super::mode::Mode;
use super::plan::Plan;
use super::verb::Verb;
use crate::aio_engine;
use crate::coroutine::{coroutine_methods, Coroutine, Outcome};
use crate::errors;
use crate::files::driver::{self, LoopDriver, LoopFuture, Waiter};
use crate::path::{c_path, fspath};
use crate::python_code;
use proactor_engine::op::{File, FileKind, Open, OpenFlags};
use proactor_engine::{Error, Token};
use proactor_file::{Buffered, Direct, Options};
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyRuntimeWarning, PyTypeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use pyo3::PyTraverseError;
use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// To open a cached file takes about as long as to read so many bytes.
const COST_BYTES: usize = 16 * 1024;

/// Whose the descriptor was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Path,
    Caller,
    Opener,
}

/// What `proactor.open` returns: await it, or use it in `async with`. Nothing is opened before.
#[pyclass(module = "proactor._native")]
pub(crate) struct Opening {
    plan: Plan,
    state: State,
    /// For the end of an `async with`.
    file: Option<Py<BinaryFile>>,
    /// The limiter is held while this is awaited, or there is none.
    granted: bool,
}

enum State {
    /// To be opened by path, by descriptor or by an opener.
    Path(CString),
    /// Lets the loop go round before it opens.
    GaveWay(CString),
    Descriptor(RawFd),
    Created(Py<CreatedFile>),
    Opener {
        opener: Py<PyAny>,
        path: Py<PyAny>,
    },
    Waiting {
        future: Py<LoopFuture>,
        driver: Py<LoopDriver>,
        token: Token,
    },
    /// Another one opens, with the limiter.
    Limited(Limited),
    Done,
}

/// Opens a binary file, whatever the mode says of text. See `proactor.open`.
#[pyfunction]
#[pyo3(signature = (file, mode, buffering, closefd=true, opener=None, *, engine=None, direct=false, limiter=None))]
#[allow(clippy::too_many_arguments)]
pub(super) fn open_binary(
    file: &Bound<'_, PyAny>,
    mode: &str,
    buffering: i32,
    closefd: bool,
    opener: Option<Bound<'_, PyAny>>,
    engine: Option<String>,
    direct: bool,
    limiter: Option<Py<PyAny>>,
) -> PyResult<Opening> {
    let mode = Mode::parse(mode)?;
    aio_engine(engine.as_deref())?;
    if direct && mode.append {
        return Err(PyValueError::new_err(
            "direct=True cannot append: the end of a file need not be at a block of O_DIRECT (open with 'r+b' and seek)",
        ));
    }
    // As with `io`, the file's name is a str, bytes or number.
    let created = opener
        .as_ref()
        .and_then(|opener| opener.cast::<CreatedFile>().ok());
    let (file, state) = match (created, descriptor_of(file)?) {
        (Some(created), _) => (file.clone(), State::Created(created.clone().unbind())),
        (None, Some(fd)) => (file.clone(), State::Descriptor(fd)),
        (None, None) => {
            let file = fspath(file)?;
            let state = by_path(&file, closefd, opener)?;
            (file, state)
        }
    };
    Ok(Opening {
        plan: Plan {
            name: file.unbind(),
            mode,
            buffering,
            closefd,
            engine,
            direct,
            limiter,
        },
        state,
        file: None,
        granted: false,
    })
}

fn by_path(file: &Bound<'_, PyAny>, closefd: bool, opener: Option<Bound<'_, PyAny>>) -> PyResult<State> {
    // Also checks the type.
    let path = c_path(file)?;
    if !closefd {
        return Err(PyValueError::new_err("Cannot use closefd=False with file name"));
    }
    Ok(match opener.filter(|opener| !opener.is_none()) {
        Some(opener) => State::Opener {
            opener: opener.unbind(),
            path: file.clone().unbind(),
        },
        None => State::Path(path),
    })
}

/// An opener's descriptor; the errors of `io`.
fn ask_opener(opener: &Bound<'_, PyAny>, path: Py<PyAny>, flags: i32) -> PyResult<RawFd> {
    let fd = python_code::call(opener, &(path, flags).into_pyobject(opener.py())?)?;
    if !fd.is_instance_of::<PyInt>() {
        return Err(PyTypeError::new_err("expected integer from opener"));
    }
    let fd: RawFd = fd
        .extract()
        .map_err(|_| PyOverflowError::new_err("Python int too large to convert to C int"))?;
    match fd {
        0.. => Ok(fd),
        _ => Err(PyValueError::new_err(format!("opener returned {fd}"))),
    }
}

impl Opening {
    fn advance(&mut self, py: Python<'_>) -> PyResult<Outcome> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Path(path) => {
                let driver = self.driver(py)?;
                if driver.borrow_mut().turn.charge(COST_BYTES) {
                    let suspended = driver::give_way(&driver)?;
                    self.state = State::GaveWay(path);
                    return Ok(Outcome::Suspend(suspended));
                }
                self.open(&driver, path)
            }
            State::GaveWay(path) => {
                let driver = self.driver(py)?;
                driver.borrow_mut().turn.go_on();
                self.open(&driver, path)
            }
            State::Descriptor(fd) => {
                let driver = self.driver(py)?;
                // SAFETY: the caller of `open` vouches for it.
                let owned = unsafe { given(fd, self.plan.closefd) };
                let owned = owned.map_err(|e| errors::io_error(py, &e, "open"))?;
                self.opened(&driver, File::new(owned), Origin::Caller)
            }
            State::Created(created) => {
                let driver = self.driver(py)?;
                let file = created.get().take()?;
                self.opened(&driver, file, Origin::Opener)
            }
            State::Opener { opener, path } => {
                // Before there is a descriptor that an error here would leave open.
                let driver = self.driver(py)?;
                let fd = ask_opener(opener.bind(py), path, self.plan.flags())?;
                // SAFETY: the opener gives it to us.
                let owned = unsafe { given(fd, true) };
                let owned = owned.and_then(not_inherited);
                let owned = owned.map_err(|e| errors::io_error(py, &e, "open"))?;
                self.opened(&driver, File::new(owned), Origin::Opener)
            }
            State::Waiting {
                future,
                driver,
                token,
            } => {
                if !driver::is_done(future.bind(py)) {
                    self.state = State::Waiting {
                        future: future.clone_ref(py),
                        driver,
                        token,
                    };
                    return Ok(Outcome::Suspend(driver::suspend_on(future.bind(py))));
                }
                let opened = future.borrow(py).result(py)?.into_bound(py);
                let file = opened.cast::<OpenedFile>()?.borrow_mut().take()?;
                self.opened(driver.bind(py), file, Origin::Path)
            }
            State::Limited(limited) => self.send_on(py, limited),
            State::Done => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }

    fn driver<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, LoopDriver>> {
        let name = self.plan.name.bind(py);
        driver::current(py, self.plan.engine.as_deref(), "open", Some(name))
    }

    fn open(&mut self, driver: &Bound<'_, LoopDriver>, path: CString) -> PyResult<Outcome> {
        let py = driver.py();
        let op = Open::new(path.clone(), OpenFlags::from_bits(self.plan.flags()));
        match op.now() {
            Some(Ok(file)) => self.opened(driver, file, Origin::Path),
            Some(Err(e)) => Err(self.explained(py, self.error(py, &e))),
            None => match self.plan.limiter.as_ref().filter(|_| !self.granted) {
                Some(limiter) => self.hand_over(limiter.clone_ref(py).bind(py), path),
                None => self.submit(driver, op),
            },
        }
    }

    /// Another one opens, while a coroutine of Python's holds the limiter.
    fn hand_over(&mut self, limiter: &Bound<'_, PyAny>, path: CString) -> PyResult<Outcome> {
        let py = limiter.py();
        let rest = Opening {
            plan: self.plan.clone_ref(py),
            state: State::Path(path),
            file: None,
            granted: true,
        };
        let rest = Bound::new(py, rest)?;
        let limited = Limited::new(limiter, rest.as_any())?;
        self.send_on(py, limited)
    }

    fn send_on(&mut self, py: Python<'_>, limited: Limited) -> PyResult<Outcome> {
        let outcome = limited.send(py.None().bind(py))?;
        match &outcome {
            Outcome::Suspend(_) => self.state = State::Limited(limited),
            Outcome::Return(file) => {
                let file = file
                    .as_ref()
                    .and_then(|file| file.bind(py).cast::<BinaryFile>().ok());
                self.file = file.map(|file| file.clone().unbind());
            }
        }
        Ok(outcome)
    }

    fn error(&self, py: Python<'_>, error: &Error) -> PyErr {
        errors::os_error(py, error, Some(self.plan.name.bind(py)))
    }

    /// An open's error, with the hint that O_DIRECT may be why.
    fn explained(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let errno = |error: &PyErr| error.value(py).getattr("errno")?.extract::<i32>();
        if self.plan.direct && errno(&error).is_ok_and(|errno| errno == libc::EINVAL) {
            return self.error(py, &direct::refused());
        }
        error
    }

    fn submit(&mut self, driver: &Bound<'_, LoopDriver>, op: Open) -> PyResult<Outcome> {
        let py = driver.py();
        let future = driver::new_future(py)?.unbind();
        let waiter = Waiter::Future {
            future: future.clone_ref(py),
            path: self.plan.name.clone_ref(py),
        };
        let token = driver.borrow_mut().submit(py, op, waiter)?;
        driver::schedule_flush(driver)?;
        self.state = State::Waiting {
            future: future.clone_ref(py),
            driver: driver.clone().unbind(),
            token,
        };
        Ok(Outcome::Suspend(driver::suspend_on(future.bind(py))))
    }

    /// Makes the file object.
    fn opened(&mut self, driver: &Bound<'_, LoopDriver>, handle: File, origin: Origin) -> PyResult<Outcome> {
        let py = driver.py();
        match self.examine(py, &handle) {
            Ok((position, direct)) => self.make(driver, handle, origin, position, direct),
            Err(e) => {
                if origin == Origin::Caller && self.plan.closefd {
                    // Still the caller's, as nothing was opened.
                    std::mem::forget(handle.into_fd());
                }
                Err(e)
            }
        }
    }

    /// Whether it can be used as is planned: its position, if it has one, and how O_DIRECT has it.
    fn examine(&self, py: Python<'_>, handle: &File) -> PyResult<(Option<u64>, Option<Arc<Direct>>)> {
        let fd = handle.as_raw_fd();
        if !matches!(handle.kind(), Ok(FileKind::Disk | FileKind::Stream)) && is_directory(fd) {
            return Err(self.error(py, &Error::new(libc::EISDIR, "open")));
        }
        let mode = self.plan.mode;
        let whence = if mode.append {
            libc::SEEK_END
        } else {
            libc::SEEK_CUR
        };
        // SAFETY: no pointers. Pipes, terminals and some files of /proc have no position.
        let position = u64::try_from(unsafe { libc::lseek(fd, 0, whence) }).ok();
        if mode.readable && mode.writable && self.plan.block() > 0 && position.is_none() {
            return Err(unsupported(py, "File or stream is not seekable."));
        }
        let direct = self.plan.direct.then(|| direct::of(handle)).transpose();
        Ok((position, direct.map_err(|e| self.error(py, &e))?))
    }

    fn make(
        &mut self,
        driver: &Bound<'_, LoopDriver>,
        handle: File,
        origin: Origin,
        position: Option<u64>,
        direct: Option<Arc<Direct>>,
    ) -> PyResult<Outcome> {
        let py = driver.py();
        // A descriptor of the caller's that stays open is known by its own number.
        let number = match origin {
            Origin::Caller => self.plan.name.bind(py).extract()?,
            _ => handle.as_raw_fd(),
        };
        let mode = self.plan.mode;
        let disk = matches!(handle.kind(), Ok(FileKind::Disk));
        let limiter = self.plan.limiter.as_ref().filter(|_| disk);
        let limiter = limiter.map(|limiter| limiter.clone_ref(py));
        let options = Options {
            position,
            append: mode.append,
            // Whole blocks of O_DIRECT.
            block: self
                .plan
                .block()
                .next_multiple_of(direct.as_ref().map_or(1, |direct| direct.block())),
            direct,
            // An op that outlives its call cannot hold the limiter.
            reads_ahead: limiter.is_none(),
        };
        let file = BinaryFile {
            io_buffer: IoBuffer::new(self.plan.buffering, position.unwrap_or(0)),
            core: Buffered::new(handle, options),
            closed: Arc::default(),
            written: false,
            facts: Facts {
                name: self.plan.name.clone_ref(py),
                mode: mode.name(),
                readable: mode.readable,
                writable: mode.writable,
                fd: number,
                shares_position: origin != Origin::Path,
                borrowed: !self.plan.closefd,
            },
            units: Arc::clone(&driver.borrow().turn.units),
            driver: driver.clone().unbind(),
            busy: false,
            waiter: None,
            limiter,
            granted: false,
            queue: VecDeque::new(),
            token: None,
            abandoned: None,
        };
        let file = Py::new(py, file)?;
        self.file = Some(file.clone_ref(py));
        Ok(Outcome::Return(Some(file.into_any())))
    }

    fn give_up(&mut self, py: Python<'_>) {
        if let State::Waiting { driver, token, .. } = std::mem::replace(&mut self.state, State::Done) {
            // A descriptor that is there already goes with the future's result.
            if let Ok(mut driver) = driver.try_borrow_mut(py) {
                driver.abandon(token);
            }
        }
    }
}

impl Coroutine for Opening {
    fn drive(slf: &Bound<'_, Self>, _sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        slf.try_borrow_mut()?.advance(slf.py())
    }

    /// What is being opened will be closed.
    fn stop(slf: &Bound<'_, Self>) -> PyResult<()> {
        let mut this = slf.try_borrow_mut()?;
        if let State::Limited(limited) = &this.state {
            limited.close(slf.py())?;
        }
        this.give_up(slf.py());
        Ok(())
    }

    fn throw_in(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<Py<PyAny>> {
        let mut this = slf.try_borrow_mut()?;
        if let State::Limited(limited) = &this.state {
            let thrown = limited.throw(slf.py(), error);
            if thrown.is_err() {
                this.state = State::Done;
            }
            return thrown;
        }
        drop(this);
        Self::stop(slf)?;
        // The task throws what the engine has met, too.
        Err(slf.borrow().explained(slf.py(), error))
    }

    fn qualname(_slf: &Bound<'_, Self>) -> String {
        "open".to_owned()
    }

    // The file may not be kept alive at all.
    fn size_of(_py: Python<'_>, _value: &Py<PyAny>) -> usize {
        usize::MAX
    }
}

coroutine_methods! { Opening =>
    fn __aenter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exc_info))]
    fn __aexit__<'py>(
        &self,
        py: Python<'py>,
        _exc_info: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, FileCall>> {
        let file = self
            .file
            .as_ref()
            .ok_or_else(|| PyRuntimeError::new_err("it was not opened"))?;
        FileCall::new(file.bind(py), "__aexit__", Verb::closing())
    }

    // The limiter and the opener are anything, and a pending call and its task know each other.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.plan.name)?;
        visit.call(&self.plan.limiter)?;
        visit.call(&self.file)?;
        match &self.state {
            State::Opener { opener, path } => visit.call(opener).and_then(|()| visit.call(path)),
            State::Waiting { future, driver, .. } => visit.call(future).and_then(|()| visit.call(driver)),
            State::Limited(limited) => limited.traverse(&visit),
            _ => Ok(()),
        }
    }

    fn __clear__(&mut self, py: Python<'_>) {
        self.plan.limiter = None;
        self.file = None;
        self.end(py);
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let name = slf.try_borrow().map(|this| this.plan.name.clone_ref(slf.py()));
        name.map_or(Ok("<proactor open, running>".to_owned()), |name| {
            Ok(format!("<proactor open of {}>", name.bind(slf.py()).repr()?))
        })
    }
}

impl Opening {
    fn end(&mut self, py: Python<'_>) {
        match self.state {
            State::Path(_) | State::Descriptor(_) | State::Created(_) | State::Opener { .. } => {
                errors::warn_in_drop::<PyRuntimeWarning>(py, "coroutine 'open' was never awaited");
            }
            _ => {}
        }
        self.give_up(py);
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if !matches!(self.state, State::Done) {
            errors::in_drop(|py| self.end(py));
        }
    }
}
