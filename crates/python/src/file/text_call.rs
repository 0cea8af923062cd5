//! One awaited method of a text file: at once if it can be, otherwise Python's coroutine for it.

use super::binary::BinaryFile;
use super::text::{HasTurn, TextCore};
use super::text_state::{Put, Slow};
use crate::attached::Attached;
use crate::coroutine::{coroutine_methods, Coroutine, Outcome};
use crate::errors;
use crate::python_code::{self, Sent};
use crate::references;
use crate::reused::{self, make, reused, take_idle, Call as _};
use pyo3::exceptions::{PyException, PyRuntimeError, PyRuntimeWarning};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::PyTraverseError;

/// The awaitable of one method of a text file. Await it once.
#[pyclass(frozen, module = "proactor._native")]
pub(crate) struct TextCall(Attached<Call>);

pub(crate) struct Call {
    /// None when it is over.
    file: Option<Py<TextCore>>,
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
    /// Of a call that is over.
    Written,
}

enum State {
    New,
    /// Is done, and lets the loop go round.
    GaveWay(Py<PyAny>),
    /// Has the turn, has done nothing yet, and lets the loop go round.
    Paused(HasTurn),
    /// Python's coroutine does it.
    Slow(Py<PyAny>),
    Done,
}

impl TextCall {
    #[inline]
    pub(super) fn new<'py>(file: &Bound<'py, TextCore>, verb: Verb) -> PyResult<Bound<'py, Self>> {
        let py = file.py();
        // SAFETY: an instance of ours, which is alive. The interpreter's own reference to it is about to go.
        let file = unsafe {
            references::add(file.as_ptr());
            Bound::from_owned_ptr(py, file.as_ptr()).cast_into_unchecked()
        };
        let file = Some(file.unbind());
        let Some(object) = take_idle::<Self>(py) else {
            let state = State::New;
            return make(py, Call { file, verb, state });
        };
        let call = object.get().0.as_ptr();
        // One field after the other, from registers: a whole one would be made on the stack, and read back in larger pieces
        // than were written, which has to wait for them.
        // SAFETY: as in `make`.
        unsafe {
            (&raw mut (*call).file).write(file);
            (&raw mut (*call).verb).write(verb);
            (&raw mut (*call).state).write(State::New);
        }
        Ok(object)
    }
}

impl Call {
    fn name(&self) -> &'static str {
        match self.verb {
            Verb::Line { .. } => "readline",
            Verb::Next => "__anext__",
            Verb::Write { .. } | Verb::Written => "write",
        }
    }

    fn file<'a, 'py>(&'a self, py: Python<'py>) -> PyResult<&'a Bound<'py, TextCore>> {
        let file = self.file.as_ref().map(|file| file.bind(py));
        file.ok_or_else(|| PyRuntimeError::new_err("cannot reuse already awaited coroutine"))
    }

    fn begin(&mut self, py: Python<'_>) -> PyResult<Outcome> {
        let Verb::Write { text: what } = &self.verb else {
            return self.take_line(py, None);
        };
        let (put, buffer) = {
            let text = self.file(py)?.get().0.borrow_mut(py)?;
            (text.put(py, what.bind(py))?, text.buffer(py))
        };
        let (Some(put), Some(buffer)) = (put, buffer) else {
            let coroutine = self
                .file(py)?
                .call_method1(intern!(py, "_write_in_turn"), (what,))?;
            return self.send_on(coroutine, py.None().bind(py));
        };
        self.after_put(&buffer, &put)
    }

    /// A line, at once if it can be.
    fn take_line(&mut self, py: Python<'_>, turn: Option<HasTurn>) -> PyResult<Outcome> {
        let file = self.file(py)?.clone();
        let mut text = file.get().0.borrow_mut(py)?;
        text.iterating |= matches!(self.verb, Verb::Next);
        let slow = match &self.verb {
            Verb::Next | Verb::Line { size: -1 } => match text.line_at_hand(py, turn.is_some())? {
                Ok(line) => return Ok(Outcome::Return(Some(line.unbind()))),
                Err(slow) => slow,
            },
            _ => Slow::Ask,
        };
        if let (Slow::Pause, Some(buffer)) = (&slow, text.buffer(py)) {
            let turn = turn.unwrap_or_else(|| HasTurn::take(py, &text.turn));
            // Python code may run from here on.
            drop(text);
            let suspended = BinaryFile::give_way(&buffer)?;
            self.state = State::Paused(turn);
            return Ok(Outcome::Suspend(suspended));
        }
        drop(text);
        let coroutine = match &self.verb {
            Verb::Line { size } => file.call_method1(intern!(py, "_readline"), (*size, turn.is_some())),
            _ => file.call_method1(intern!(py, "_next"), (turn.is_some(),)),
        }?;
        if let Some(turn) = turn {
            turn.hand_over();
        }
        self.send_on(coroutine, py.None().bind(py))
    }

    /// What was put goes on its way, and the loop goes round if it has to.
    fn after_put(&mut self, buffer: &Bound<'_, BinaryFile>, put: &Put) -> PyResult<Outcome> {
        let py = buffer.py();
        let characters = put.characters.into_pyobject(py)?.into_any().unbind();
        if put.wants_op {
            match BinaryFile::start_op(buffer) {
                // What could not be started will be tried again by the next call.
                Err(e) if e.is_instance_of::<PyException>(py) => {}
                other => drop(other?),
            }
        }
        // (Without a running loop there is nobody to give way to.)
        match put.gives_way.then(|| BinaryFile::give_way(buffer)) {
            Some(Ok(suspended)) => {
                self.state = State::GaveWay(characters);
                Ok(Outcome::Suspend(suspended))
            }
            _ => Ok(Outcome::Return(Some(characters))),
        }
    }

    /// Drives Python's coroutine.
    fn send_on(&mut self, coroutine: Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        match python_code::send(&coroutine, value)? {
            Sent::Suspended(what) => {
                self.state = State::Slow(coroutine.unbind());
                Ok(Outcome::Suspend(what.unbind()))
            }
            Sent::Returned(value) => Ok(Outcome::Return(Some(value.unbind()))),
        }
    }
}

impl Coroutine for TextCall {
    fn drive(slf: &Bound<'_, Self>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        reused::drive(slf, sent)
    }

    fn stop(slf: &Bound<'_, Self>) -> PyResult<()> {
        let mut this = slf.get().0.borrow_mut(slf.py())?;
        match std::mem::replace(&mut this.state, State::Done) {
            State::Slow(coroutine) => {
                let coroutine = coroutine.bind(slf.py());
                python_code::call_method(coroutine, intern!(slf.py(), "close"), []).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn throw_in(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<Py<PyAny>> {
        let mut this = slf.get().0.borrow_mut(slf.py())?;
        match std::mem::replace(&mut this.state, State::Done) {
            State::Slow(coroutine) => {
                let py = slf.py();
                let error = error.into_value(py).into_bound(py);
                let what =
                    python_code::call_method(coroutine.bind(py), intern!(py, "throw"), [error.as_any()])?;
                this.state = State::Slow(coroutine);
                Ok(what.unbind())
            }
            _ => Err(error),
        }
    }

    fn qualname(slf: &Bound<'_, Self>) -> String {
        // Python code that it runs may ask: an encoder's.
        let call = slf.get().0.look(slf.py());
        call.map_or_else(
            || "TextCall".to_owned(),
            |call| format!("TextFile.{}", call.name()),
        )
    }

    fn size_of(py: Python<'_>, value: &Py<PyAny>) -> usize {
        // A line or a number, which has no length: to ask for it makes an exception.
        value
            .bind(py)
            .cast::<PyString>()
            .map_or(0, |line| line.len().unwrap_or(0))
    }
}

reused! { TextCall =>
    #[inline]
    fn at_once<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let mut call = self.0.get(py)?;
        let (State::New, Some(file)) = (&call.state, &call.file) else {
            return None;
        };
        let value = {
            let mut text = file.get().0.get(py)?;
            match &call.verb {
                Verb::Next => {
                    let line = text.line_at_once(py)?;
                    text.iterating = true;
                    Some(line)
                }
                Verb::Line { size: -1 } => text.line_at_once(py),
                Verb::Write { text: what } => text.put_at_once(py, what.bind(py)),
                Verb::Line { .. } | Verb::Written => None,
            }?
        };
        // `New` has nothing to be dropped.
        std::mem::forget(std::mem::replace(&mut call.state, State::Done));
        let file = call.file.take();
        let what = match call.verb {
            Verb::Write { .. } => std::mem::replace(&mut call.verb, Verb::Written),
            _ => Verb::Next,
        };
        drop(call);
        // Not as they drop themselves: that asks whether the thread is attached.
        if let Verb::Write { text } = what {
            text.drop_ref(py);
        }
        if let Some(file) = file {
            file.drop_ref(py);
        }
        Some(value)
    }
}

impl reused::Call for Call {
    fn advance(&mut self, py: Python<'_>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        match std::mem::replace(&mut self.state, State::Done) {
            State::New => self.begin(py),
            State::GaveWay(result) => {
                self.file(py)?.get()._go_on(py)?;
                Ok(Outcome::Return(Some(result)))
            }
            State::Paused(turn) => {
                self.file(py)?.get()._go_on(py)?;
                self.take_line(py, Some(turn))
            }
            State::Slow(coroutine) => self.send_on(coroutine.into_bound(py), sent),
            State::Done => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }

    fn over(&self) -> Self {
        let verb = match self.verb {
            Verb::Line { size } => Verb::Line { size },
            Verb::Next => Verb::Next,
            Verb::Write { .. } | Verb::Written => Verb::Written,
        };
        Call {
            file: None,
            verb,
            state: State::Done,
        }
    }

    fn is_over(&self) -> bool {
        self.file.is_none()
    }
}

coroutine_methods! { TextCall =>
    // A pending call and its task know each other.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(call) = self.0.seen_by_collector() else {
            return Ok(());
        };
        call.file.as_ref().map_or(Ok(()), |file| visit.call(file))?;
        match &call.state {
            State::Slow(coroutine) => visit.call(coroutine),
            State::Paused(turn) => turn.traverse(&visit),
            _ => Ok(()),
        }
    }

    fn __clear__(&self, py: Python<'_>) {
        let held = self.0.get(py).map(|mut call| call.end());
        drop(held);
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Some(call) = self.0.look(py) else {
            return Ok("<proactor TextCall, running>".to_owned());
        };
        let (name, file) = (call.name(), call.file.as_ref().map(|file| file.clone_ref(py)));
        drop(call);
        match file {
            None => Ok(format!("<proactor {name}, done>")),
            Some(file) => Ok(format!("<proactor {name} of {}>", file.bind(py).repr()?)),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if matches!(self.state, State::New) {
            let text = format!("coroutine 'TextFile.{}' was never awaited", self.name());
            errors::in_drop(|py| errors::warn_in_drop::<PyRuntimeWarning>(py, &text));
        }
    }
}
