//! One awaited method of a text file: at once if it can be, otherwise Python's coroutine for it.

use super::binary::BinaryFile;
use super::text::{Put, Slow, TextCore};
use crate::coroutine::{coroutine_methods, make, Coroutine, Outcome, Pool};
use crate::errors;
use pyo3::exceptions::{PyException, PyRuntimeError, PyRuntimeWarning};
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::PyTraverseError;

/// The awaitable of one method of a text file. Await it once.
#[pyclass(module = "proactor._native")]
pub(crate) struct TextCall {
    /// None when it is over.
    file: Option<Py<TextCore>>,
    name: &'static str,
    verb: Verb,
    state: State,
}

pub(super) enum Verb {
    Line {
        size: isize,
    },
    /// Of an iteration.
    Next,
    Write {
        text: Py<PyAny>,
    },
}

enum State {
    New,
    /// Is done, and lets the loop go round once.
    GaveWay(Py<PyAny>),
    /// Python's coroutine does it.
    Slow(Py<PyAny>),
    Done,
}

impl TextCall {
    pub(super) fn new<'py>(file: &Bound<'py, TextCore>, verb: Verb) -> PyResult<Bound<'py, Self>> {
        let call = TextCall {
            file: Some(file.clone().unbind()),
            name: match verb {
                Verb::Line { .. } => "readline",
                Verb::Next => "__anext__",
                Verb::Write { .. } => "write",
            },
            verb,
            state: State::New,
        };
        make(file.py(), call)
    }

    fn file<'a, 'py>(&'a self, py: Python<'py>) -> PyResult<&'a Bound<'py, TextCore>> {
        let file = self.file.as_ref().map(|file| file.bind(py));
        file.ok_or_else(|| PyRuntimeError::new_err("cannot reuse already awaited coroutine"))
    }

    fn begin(&mut self, py: Python<'_>) -> PyResult<Outcome> {
        let mut file = self.file(py)?.borrow_mut();
        let slow = match &self.verb {
            Verb::Next | Verb::Line { size: -1 } => match file.line_at_hand(py)? {
                Ok(line) => return Ok(Outcome::Return(Some(line.unbind()))),
                Err(slow) => slow,
            },
            Verb::Line { .. } => Slow::Ask,
            Verb::Write { text } => match file.put(py, text.bind(py))? {
                Some(put) => {
                    let buffer = file.buffer(py);
                    // Python code may run from here on.
                    drop(file);
                    let characters = put.characters.into_pyobject(py)?.into_any().unbind();
                    if put.wants_op || put.gives_way {
                        if let Some(buffer) = buffer {
                            return self.after_put(&buffer, &put, characters);
                        }
                    }
                    return Ok(Outcome::Return(Some(characters)));
                }
                None => Slow::Ask,
            },
        };
        let buffer = file.buffer(py);
        drop(file);
        if let (Slow::Pause, Some(buffer)) = (&slow, buffer) {
            BinaryFile::give_way(&buffer)?;
        }
        let (file, pause) = (self.file(py)?, matches!(slow, Slow::Pause));
        let coroutine = match &self.verb {
            Verb::Next => file.call_method1(intern!(py, "_next"), (pause,)),
            Verb::Line { size } => file.call_method1(intern!(py, "_readline"), (*size, pause)),
            Verb::Write { text } => file.call_method1(intern!(py, "_write_in_turn"), (text,)),
        }?;
        self.send_on(coroutine, py.None().bind(py))
    }

    /// What was put goes on its way, and the loop goes round if it has to.
    fn after_put(
        &mut self,
        buffer: &Bound<'_, BinaryFile>,
        put: &Put,
        characters: Py<PyAny>,
    ) -> PyResult<Outcome> {
        let py = buffer.py();
        if put.wants_op {
            match BinaryFile::start_op(buffer) {
                // What could not be started will be tried again by the next call.
                Err(e) if e.is_instance_of::<PyException>(py) => {}
                other => drop(other?),
            }
        }
        // (Without a running loop there is nobody to give way to.)
        if put.gives_way && BinaryFile::give_way(buffer).is_ok() {
            self.state = State::GaveWay(characters);
            return Ok(Outcome::Suspend(py.None()));
        }
        Ok(Outcome::Return(Some(characters)))
    }

    /// Drives Python's coroutine.
    fn send_on(&mut self, coroutine: Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        let py = coroutine.py();
        let mut result = std::ptr::null_mut();
        // SAFETY: live objects; `result` becomes a new reference unless it is an error.
        let (status, result) = unsafe {
            let status = ffi::PyIter_Send(coroutine.as_ptr(), value.as_ptr(), &raw mut result);
            (status, Bound::from_owned_ptr_or_opt(py, result))
        };
        match (status, result) {
            (ffi::PySendResult::PYGEN_NEXT, Some(what)) => {
                self.state = State::Slow(coroutine.unbind());
                Ok(Outcome::Suspend(what.unbind()))
            }
            (ffi::PySendResult::PYGEN_RETURN, Some(value)) => Ok(Outcome::Return(Some(value.unbind()))),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

impl Coroutine for TextCall {
    fn drive(&mut self, py: Python<'_>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::New => self.begin(py),
            State::GaveWay(result) => {
                self.file(py)?.borrow()._go_on(py);
                Ok(Outcome::Return(Some(result)))
            }
            State::Slow(coroutine) => self.send_on(coroutine.into_bound(py), sent),
            State::Done => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }

    fn size_of(py: Python<'_>, value: &Py<PyAny>) -> usize {
        // A line or a number.
        value.bind(py).len().unwrap_or(0)
    }

    fn stop(&mut self, py: Python<'_>) -> PyResult<()> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Slow(coroutine) => coroutine.call_method0(py, intern!(py, "close")).map(drop),
            _ => Ok(()),
        }
    }

    fn throw_in(&mut self, py: Python<'_>, error: PyErr) -> PyResult<Py<PyAny>> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Slow(coroutine) => {
                let what = coroutine.call_method1(py, intern!(py, "throw"), (error,))?;
                self.state = State::Slow(coroutine);
                Ok(what)
            }
            _ => Err(error),
        }
    }

    fn over(&self) -> Self {
        TextCall {
            file: None,
            name: self.name,
            verb: Verb::Next,
            state: State::Done,
        }
    }

    fn is_over(&self) -> bool {
        self.file.is_none()
    }

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

coroutine_methods!(TextCall {
    // A pending call and its task know each other.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.file.as_ref().map_or(Ok(()), |file| visit.call(file))?;
        match &self.state {
            State::Slow(coroutine) => visit.call(coroutine),
            _ => Ok(()),
        }
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        self.name
    }

    #[getter]
    fn __qualname__(&self) -> String {
        format!("TextFile.{}", self.name)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        match &self.file {
            None => Ok(format!("<proactor {}, done>", self.name)),
            Some(file) => Ok(format!("<proactor {} of {}>", self.name, file.bind(py).repr()?)),
        }
    }
});

impl Drop for TextCall {
    fn drop(&mut self) {
        if matches!(self.state, State::New) {
            let text = format!("coroutine 'TextFile.{}' was never awaited", self.name);
            errors::in_drop(|py| errors::warn_in_drop::<PyRuntimeWarning>(py, &text));
        }
    }
}
