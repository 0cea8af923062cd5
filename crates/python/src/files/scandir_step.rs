//! One awaited step of `scandir`: opening the directory, its next entry, or closing it.

use super::driver::{self, LoopFuture};
use super::scandir::ScandirIterator;
use crate::attached::Attached;
use crate::coroutine::{coroutine_methods, Coroutine, Outcome};
use crate::errors;
use crate::reused::{self, make, reused, Call as _};
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::PyTraverseError;

/// A step that gives many names counts for so much, so that the clock is looked at after each.
const NAMES_BYTES: usize = 1 << 16;

/// What is to be done when it is driven.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Open,
    Next,
    Names,
    Exit,
}

enum StepState {
    New,
    GaveWay,
    Waiting(Py<LoopFuture>),
    Done,
}

/// The awaitable of one step of `scandir`. Await it once.
#[pyclass(frozen, module = "proactor._native")]
pub(crate) struct ScandirStep(Attached<Call>);

pub(crate) struct Call {
    iterator: Option<Py<ScandirIterator>>,
    verb: Verb,
    state: StepState,
}

impl ScandirStep {
    pub(super) fn new(iterator: Bound<'_, ScandirIterator>, verb: Verb) -> PyResult<Bound<'_, Self>> {
        let py = iterator.py();
        let step = Call {
            iterator: Some(iterator.unbind()),
            verb,
            state: StepState::New,
        };
        make(py, step)
    }
}

impl Call {
    fn run(&mut self, py: Python<'_>) -> PyResult<Outcome> {
        let over = || PyRuntimeError::new_err("cannot reuse already awaited coroutine");
        let slf = self.iterator.as_ref().ok_or_else(over)?.bind(py);
        let ready = match self.verb {
            Verb::Open => ScandirIterator::open_now(slf)?,
            Verb::Next => slf.borrow_mut().next_now(py)?.map(Py::into_any),
            Verb::Names => slf.borrow_mut().names_now(py)?,
            Verb::Exit => return ScandirIterator::close(slf).map(|()| Outcome::Return(None)),
        };
        if ready.is_some() {
            return Ok(Outcome::Return(ready));
        }
        let future = ScandirIterator::wait(slf)?;
        let suspended = driver::suspend_on(future.bind(py));
        self.state = StepState::Waiting(future);
        Ok(Outcome::Suspend(suspended))
    }

    /// What it suspends on, if the loop is to have its turn first.
    fn give_way(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let bytes = match self.verb {
            Verb::Next => 0,
            Verb::Names => NAMES_BYTES,
            Verb::Open | Verb::Exit => return Ok(None),
        };
        let Some(iterator) = &self.iterator else {
            return Ok(None);
        };
        let driver = iterator
            .borrow(py)
            .driver
            .as_ref()
            .map(|driver| driver.clone_ref(py));
        let Some(driver) = driver else { return Ok(None) };
        let driver = driver.bind(py);
        let gives = driver.borrow_mut().turn.charge(bytes);
        gives.then(|| driver::give_way(driver)).transpose()
    }
}

impl Coroutine for ScandirStep {
    fn drive(slf: &Bound<'_, Self>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        reused::drive(slf, sent)
    }

    fn stop(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().0.borrow_mut(slf.py())?.stop(slf.py())
    }

    fn qualname(slf: &Bound<'_, Self>) -> String {
        let call = slf.get().0.look(slf.py());
        call.map_or_else(|| "ScandirStep".to_owned(), |call| call.qualname())
    }

    // An iterator may not be kept alive at all, nor a list; and an entry is not worth it.
    fn size_of(py: Python<'_>, value: &Py<PyAny>) -> usize {
        let value = value.bind(py);
        if value.is_instance_of::<ScandirIterator>() || value.is_instance_of::<PyList>() {
            usize::MAX
        } else {
            0
        }
    }
}

reused! { ScandirStep }

impl reused::Call for Call {
    fn advance(&mut self, py: Python<'_>, _sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        match std::mem::replace(&mut self.state, StepState::Done) {
            StepState::New => match self.give_way(py)? {
                Some(suspended) => {
                    self.state = StepState::GaveWay;
                    Ok(Outcome::Suspend(suspended))
                }
                None => self.run(py),
            },
            StepState::GaveWay => {
                if let Some(iterator) = &self.iterator {
                    if let Some(driver) = &iterator.borrow(py).driver {
                        driver.borrow_mut(py).turn.go_on();
                    }
                }
                self.run(py)
            }
            StepState::Waiting(future) => match driver::is_done(future.bind(py)) {
                true => self.run(py),
                // Driven by hand, not by the loop.
                false => {
                    let suspended = Outcome::Suspend(driver::suspend_on(future.bind(py)));
                    self.state = StepState::Waiting(future);
                    Ok(suspended)
                }
            },
            StepState::Done => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }

    fn over(&self) -> Self {
        Call {
            iterator: None,
            verb: self.verb,
            state: StepState::Done,
        }
    }

    fn is_over(&self) -> bool {
        self.iterator.is_none()
    }
}

impl Call {
    fn stop(&mut self, py: Python<'_>) -> PyResult<()> {
        let was = std::mem::replace(&mut self.state, StepState::Done);
        match (&self.iterator, was) {
            // What is being opened will be closed.
            (Some(iterator), StepState::Waiting(_)) if self.verb == Verb::Open => {
                ScandirIterator::close(iterator.bind(py))
            }
            _ => Ok(()),
        }
    }

    fn qualname(&self) -> String {
        let name = match self.verb {
            Verb::Open => "open",
            Verb::Next => "__anext__",
            Verb::Names => "_names",
            Verb::Exit => "__aexit__",
        };
        format!("ScandirIterator.{name}")
    }
}

coroutine_methods! { ScandirStep =>
    // A pending step and its task know each other.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(call) = self.0.seen_by_collector() else {
            return Ok(());
        };
        visit.call(&call.iterator)?;
        match &call.state {
            StepState::Waiting(future) => visit.call(future),
            _ => Ok(()),
        }
    }

    fn __clear__(&self, py: Python<'_>) {
        let held = self.0.get(py).map(|mut call| call.end());
        drop(held);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        match self.state {
            StepState::New => errors::in_drop(|py| {
                let text = format!("coroutine '{}' was never awaited", self.qualname());
                errors::warn_in_drop::<PyRuntimeWarning>(py, &text);
            }),
            StepState::Waiting(_) => errors::in_drop(|py| {
                if let Err(e) = self.stop(py) {
                    e.write_unraisable(py, None);
                }
            }),
            StepState::GaveWay | StepState::Done => {}
        }
    }
}
