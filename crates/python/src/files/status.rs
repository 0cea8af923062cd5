//! `stat` and the questions that it answers, as coroutines that do not suspend where the kernel has the answer.

use super::driver::{self, LoopDriver, LoopFuture, Waiter};
use super::entry::DirEntry;
use super::stat::stat_result;
use crate::attached::Attached;
use crate::coroutine::{coroutine_methods, Coroutine, Outcome};
use crate::errors;
use crate::path::{c_path, refused, with_c_path};
use crate::reused::{self, make, reused, Call as _};
use proactor_engine::op::{AtFlags, Handle, Statx};
use proactor_engine::{Error, Token};
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};
use pyo3::PyTraverseError;
use std::ffi::CStr;

/// Of what it is asked.
pub(super) enum Subject {
    /// What `os.fspath` gives.
    Path {
        path: Py<PyAny>,
        dir: i32,
        follow: bool,
    },
    Descriptor {
        fd: i32,
        named: Option<Py<PyAny>>,
    },
}

/// What is asked.
#[derive(Clone, Copy)]
pub(super) enum Question {
    /// The `os.stat_result`.
    Status,
    /// Whether it is of this kind (S_IFREG and so on), or there at all. Some errors are a no.
    Is { kind: Option<u32>, no: No },
}

/// The errors that mean no.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum No {
    /// It is not there: `os.DirEntry`.
    Missing,
    /// Nothing can be there: `pathlib`.
    Nowhere,
    /// It cannot be asked for: `os.path`.
    Unasked,
}

impl No {
    fn covers(self, errno: i32) -> bool {
        match self {
            No::Missing => errno == libc::ENOENT,
            No::Nowhere => [libc::ENOENT, libc::ENOTDIR, libc::EBADF, libc::ELOOP].contains(&errno),
            No::Unasked => true,
        }
    }
}

/// The awaitable of one question. Await it once.
#[pyclass(frozen, module = "proactor._native")]
pub(crate) struct StatCall(Attached<Call>);

pub(crate) struct Call {
    name: &'static str,
    question: Question,
    subject: Option<Subject>,
    /// Keeps the answer.
    entry: Option<Py<DirEntry>>,
    state: State,
}

enum State {
    /// The answer was there before it was asked for.
    Known(Py<PyAny>),
    New,
    /// Lets the loop go round before it begins.
    GaveWay(Py<LoopDriver>),
    Waiting {
        future: Py<LoopFuture>,
        driver: Py<LoopDriver>,
        token: Token,
    },
    Done,
}

/// What the kernel says, or its errno.
enum Told<'a, 'py> {
    Status(&'a libc::statx),
    Result(Bound<'py, PyAny>),
    Errno(i32),
}

impl StatCall {
    /// Asks when it is awaited.
    pub(super) fn new<'py>(
        py: Python<'py>,
        name: &'static str,
        question: Question,
        subject: Subject,
        entry: Option<Py<DirEntry>>,
    ) -> PyResult<Bound<'py, Self>> {
        let subject = Some(subject);
        make(
            py,
            Call {
                name,
                question,
                subject,
                entry,
                state: State::New,
            },
        )
    }

    /// The answer is known.
    pub(super) fn known<'py>(
        py: Python<'py>,
        name: &'static str,
        answer: Py<PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        make(
            py,
            Call {
                name,
                question: Question::Status,
                subject: None,
                entry: None,
                state: State::Known(answer),
            },
        )
    }
}

impl Call {
    fn ask(&mut self, driver: &Bound<'_, LoopDriver>) -> PyResult<Outcome> {
        let py = driver.py();
        // SAFETY: plain integers; zero is a valid value.
        let mut status: libc::statx = unsafe { std::mem::zeroed() };
        let now = match self.subject()? {
            // SAFETY: the caller keeps it open, as with `os.fstat`; statx only looks.
            Subject::Descriptor { fd, .. } => unsafe {
                Statx::now(&Handle::from_raw(*fd), c"", AtFlags::EMPTY_PATH, &mut status)
            },
            Subject::Path { path, dir, follow } => {
                // SAFETY: as above, as with `dir_fd`.
                let dir = unsafe { Handle::from_raw(*dir) };
                let now = |path: &CStr| Statx::now(&dir, path, flags(*follow), &mut status);
                match with_c_path(path.bind(py), now) {
                    Ok(now) => now,
                    Err(e) => return self.no_path(path.bind(py), e),
                }
            }
        };
        match now {
            Some(Ok(())) => self.answer(py, Told::Status(&status)),
            Some(Err(e)) => self.answer(py, Told::Errno(e.errno())),
            None => self.submit(driver),
        }
    }

    fn subject(&self) -> PyResult<&Subject> {
        self.subject
            .as_ref()
            .ok_or_else(|| PyRuntimeError::new_err("cannot reuse already awaited coroutine"))
    }

    /// What there cannot be.
    fn no_path(&self, path: &Bound<'_, PyAny>, error: PyErr) -> PyResult<Outcome> {
        let py = path.py();
        match self.question {
            Question::Is { no, .. } if no != No::Missing && error.is_instance_of::<PyValueError>(py) => {
                Ok(truth(py, false))
            }
            Question::Status if self.entry.is_none() => Err(refused(self.name, path, error)),
            _ => Err(error),
        }
    }

    fn submit(&mut self, driver: &Bound<'_, LoopDriver>) -> PyResult<Outcome> {
        let py = driver.py();
        let op = match self.subject()? {
            // SAFETY: the caller keeps it open, as with `os.fstat`; statx only looks.
            Subject::Descriptor { fd, .. } => Statx::of(unsafe { Handle::from_raw(*fd) }),
            Subject::Path { path, dir, follow } => {
                let mut op = Statx::new(c_path(path.bind(py))?);
                // SAFETY: as above, as with `dir_fd`.
                op.dir = unsafe { Handle::from_raw(*dir) };
                op.flags = flags(*follow);
                op
            }
        };
        let future = driver::new_future(py)?.unbind();
        let waiter = Waiter::Status(future.clone_ref(py));
        let token = driver.borrow_mut().submit(py, op, waiter)?;
        driver::schedule_flush(driver)?;
        let suspended = Outcome::Suspend(driver::suspend_on(future.bind(py)));
        self.state = State::Waiting {
            future,
            driver: driver.clone().unbind(),
            token,
        };
        Ok(suspended)
    }

    fn answer(&self, py: Python<'_>, told: Told<'_, '_>) -> PyResult<Outcome> {
        let kind = match (self.question, &told) {
            (Question::Is { no, .. }, Told::Errno(errno)) if no.covers(*errno) => {
                return Ok(truth(py, false))
            }
            (_, Told::Errno(errno)) => return Err(self.error(py, *errno)),
            (Question::Is { kind, .. }, Told::Status(status)) if self.entry.is_none() => {
                return Ok(truth(py, is_kind(status.stx_mode.into(), kind)));
            }
            (Question::Is { kind, .. }, _) => Some(kind),
            (Question::Status, _) => None,
        };
        let result = match told {
            Told::Status(status) => stat_result(py, status)?,
            Told::Result(result) => result,
            Told::Errno(_) => unreachable!("answered above"),
        };
        if let Some(entry) = &self.entry {
            let follow = matches!(self.subject, Some(Subject::Path { follow: true, .. }));
            entry.get().keep(py, follow, &result);
        }
        match kind {
            Some(kind) => Ok(truth(py, is_kind(mode_of(&result)?, kind))),
            None => Ok(Outcome::Return(Some(result.unbind()))),
        }
    }

    fn error(&self, py: Python<'_>, errno: i32) -> PyErr {
        errors::os_error(py, &Error::new(errno, "statx"), self.path(py))
    }

    fn path<'a, 'py>(&'a self, py: Python<'py>) -> Option<&'a Bound<'py, PyAny>> {
        let name = match &self.subject {
            Some(Subject::Path { path, .. }) => Some(path),
            Some(Subject::Descriptor { named, .. }) => named.as_ref(),
            None => None,
        };
        name.map(|name| name.bind(py))
    }
}

/// As stat(2) since Linux 4.11.
fn flags(follow: bool) -> AtFlags {
    match follow {
        true => AtFlags::NO_AUTOMOUNT,
        false => AtFlags::NO_AUTOMOUNT | AtFlags::SYMLINK_NOFOLLOW,
    }
}

fn is_kind(mode: u32, kind: Option<u32>) -> bool {
    kind.is_none_or(|kind| mode & libc::S_IFMT == kind)
}

/// Of an `os.stat_result`.
pub(super) fn mode_of(result: &Bound<'_, PyAny>) -> PyResult<u32> {
    result.getattr(intern!(result.py(), "st_mode"))?.extract()
}

fn truth(py: Python<'_>, is: bool) -> Outcome {
    Outcome::Return(Some(PyBool::new(py, is).to_owned().into_any().unbind()))
}

impl Coroutine for StatCall {
    fn drive(slf: &Bound<'_, Self>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        reused::drive(slf, sent)
    }

    fn stop(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().0.borrow_mut(slf.py())?.stop(slf.py());
        Ok(())
    }

    fn qualname(slf: &Bound<'_, Self>) -> String {
        let call = slf.get().0.look(slf.py());
        call.map_or("StatCall", |call| call.name).to_owned()
    }

    fn size_of(_py: Python<'_>, _value: &Py<PyAny>) -> usize {
        0
    }
}

reused! { StatCall }

impl reused::Call for Call {
    fn advance(&mut self, py: Python<'_>, _sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Known(answer) => Ok(Outcome::Return(Some(answer))),
            State::New => {
                let driver = driver::current(py, None, "statx", self.path(py))?;
                // These come by the thousand.
                if driver.borrow_mut().turn.charge(0) {
                    let suspended = driver::give_way(&driver)?;
                    self.state = State::GaveWay(driver.unbind());
                    return Ok(Outcome::Suspend(suspended));
                }
                self.ask(&driver)
            }
            State::GaveWay(driver) => {
                driver.borrow_mut(py).turn.go_on();
                self.ask(driver.bind(py))
            }
            State::Waiting {
                future,
                driver,
                token,
            } => {
                if !driver::is_done(future.bind(py)) {
                    // Driven by hand, not by the loop: still waiting.
                    let suspended = Outcome::Suspend(driver::suspend_on(future.bind(py)));
                    self.state = State::Waiting {
                        future,
                        driver,
                        token,
                    };
                    return Ok(suspended);
                }
                let told = future.borrow(py).result(py)?.into_bound(py);
                match told.cast_exact::<PyInt>() {
                    Ok(errno) => self.answer(py, Told::Errno(errno.extract()?)),
                    Err(_) => self.answer(py, Told::Result(told)),
                }
            }
            State::Done => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }

    fn over(&self) -> Self {
        Call {
            name: self.name,
            question: self.question,
            subject: None,
            entry: None,
            state: State::Done,
        }
    }

    fn is_over(&self) -> bool {
        self.subject.is_none() && matches!(self.state, State::Done)
    }
}

impl Call {
    fn stop(&mut self, py: Python<'_>) {
        if let State::Waiting { driver, token, .. } = std::mem::replace(&mut self.state, State::Done) {
            if let Ok(mut driver) = driver.try_borrow_mut(py) {
                driver.abandon(token);
            }
        }
    }
}

coroutine_methods! { StatCall =>
    // A pending call and its task know each other.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(call) = self.0.seen_by_collector() else {
            return Ok(());
        };
        match &call.subject {
            Some(Subject::Path { path, .. }) => visit.call(path)?,
            Some(Subject::Descriptor { named, .. }) => visit.call(named)?,
            None => {}
        }
        match &call.state {
            State::Waiting { future, driver, .. } => visit.call(future).and_then(|()| visit.call(driver)),
            State::GaveWay(driver) => visit.call(driver),
            State::Known(answer) => visit.call(answer),
            _ => Ok(()),
        }
    }

    fn __clear__(&self, py: Python<'_>) {
        let held = self.0.get(py).map(|mut call| call.end());
        drop(held);
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Some(call) = self.0.look(py) else {
            return Ok("<proactor StatCall, running>".to_owned());
        };
        let of = match &call.subject {
            Some(Subject::Path { path, .. }) => path.bind(py).repr()?.to_string(),
            Some(Subject::Descriptor { fd, .. }) => fd.to_string(),
            None => return Ok(format!("<proactor {}>", call.name)),
        };
        Ok(format!("<proactor {} of {of}>", call.name))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        match self.state {
            State::New | State::Known(_) => errors::in_drop(|py| {
                let text = format!("coroutine '{}' was never awaited", self.name);
                errors::warn_in_drop::<PyRuntimeWarning>(py, &text);
            }),
            State::Waiting { .. } => errors::in_drop(|py| self.stop(py)),
            State::GaveWay(_) | State::Done => {}
        }
    }
}
