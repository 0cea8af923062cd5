//! One awaited method of an open file: a coroutine that does its work when it is driven, in its turn.

use super::binary::{elsewhere, BinaryFile, Ticket};
use super::verb::Verb;
use crate::coroutine::{coroutine_methods, make, Coroutine, Outcome, Pool};
use crate::errors;
use crate::files::call::bytes_len;
use crate::files::driver;
use proactor_file::Step;
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::PyTraverseError;

/// The awaitable of one method of an open file. Await it once.
#[pyclass(module = "proactor._native")]
pub(crate) struct FileCall {
    /// None when it is over.
    file: Option<Py<BinaryFile>>,
    name: &'static str,
    verb: Verb,
    state: State,
}

/// A finished op counts for so much, so that the clock is looked at after each.
const PIECE_BYTES: usize = 1 << 16;

enum State {
    New,
    /// Has the turn, and lets the loop go round once.
    GaveWay,
    /// Waits for the turn.
    Queued(Py<PyAny>),
    /// Has the turn, and waits for an op.
    Waiting(Py<PyAny>),
    Done,
}

impl FileCall {
    pub(super) fn new<'py>(
        file: &Bound<'py, BinaryFile>,
        name: &'static str,
        verb: Verb,
    ) -> PyResult<Bound<'py, Self>> {
        let file_call = FileCall {
            file: Some(file.clone().unbind()),
            name,
            verb,
            state: State::New,
        };
        make(file.py(), file_call)
    }

    fn file<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, BinaryFile>> {
        let file = self.file.as_ref().map(|file| file.bind(py).clone());
        file.ok_or_else(|| PyRuntimeError::new_err("cannot reuse already awaited coroutine"))
    }

    /// Whatever went wrong, the turn must go to the next.
    fn or_pass(&mut self, file: &Bound<'_, BinaryFile>, outcome: PyResult<Outcome>) -> PyResult<Outcome> {
        if !matches!(outcome, Ok(Outcome::Suspend(_))) {
            BinaryFile::pass_turn(file)?;
        }
        outcome
    }

    /// The turn has come.
    fn begin(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<Outcome> {
        let py = file.py();
        {
            let mut this = file.borrow_mut();
            if let Verb::Close { .. } = self.verb {
                if this.closed {
                    return Ok(Outcome::Return(None));
                }
                if !this.driver.borrow(py).serves(py) {
                    return this.close_now(py).map(|()| Outcome::Return(None));
                }
            }
            this.check_open()?;
            this.core.begin();
            let weight = self.verb.weight(py);
            if !this.charge(py, weight) {
                drop(this);
                return self.run(file);
            }
        }
        BinaryFile::give_way(file)?;
        self.state = State::GaveWay;
        Ok(Outcome::Suspend(py.None()))
    }

    /// Has the turn: goes on until it is done or has to wait.
    fn run(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<Outcome> {
        let py = file.py();
        loop {
            let (step, wants) = {
                let mut this = file.borrow_mut();
                let step = self.verb.step(py, &mut this);
                (step, this.core.wants_op())
            };
            let started = if wants {
                BinaryFile::start_op(file)
            } else {
                Ok(false)
            };
            match (step, started) {
                (Ok(Step::Blocked), Ok(true)) => {
                    // A long read of what is cached, piece by piece.
                    if file.borrow().charge(py, PIECE_BYTES) {
                        BinaryFile::give_way(file)?;
                        self.state = State::GaveWay;
                        return Ok(Outcome::Suspend(py.None()));
                    }
                }
                (Ok(Step::Blocked), Ok(false)) => {
                    if !file.borrow().driver.borrow(py).serves(py) {
                        return Err(elsewhere());
                    }
                    let future = driver::new_future(py)?.unbind();
                    let mut this = file.borrow_mut();
                    this.waiter = Some(future.clone_ref(py));
                    this.driver.borrow_mut(py).turn.suspended();
                    drop(this);
                    return self.suspend(py, future, State::Waiting);
                }
                (Ok(Step::Blocked), Err(e)) | (Err(e), _) => return Err(e),
                // Its own work is done; what could not be started in the background will be tried again.
                (Ok(Step::Ready(value)), _) => return Ok(Outcome::Return(value)),
            }
        }
    }

    fn suspend(
        &mut self,
        py: Python<'_>,
        future: Py<PyAny>,
        state: impl FnOnce(Py<PyAny>) -> State,
    ) -> PyResult<Outcome> {
        let suspended = driver::suspend_on(future.bind(py))?;
        self.state = state(future);
        Ok(Outcome::Suspend(suspended))
    }

    /// Had the turn.
    fn leave(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<()> {
        if matches!(self.verb, Verb::Close { .. }) {
            // It goes on by itself, and keeps the turn until it is done.
            let verb = std::mem::replace(&mut self.verb, Verb::Enter);
            file.borrow_mut().abandoned = Some(verb);
            return BinaryFile::close_alone(file);
        }
        BinaryFile::pass_turn(file)
    }
}

impl Coroutine for FileCall {
    fn drive(&mut self, py: Python<'_>, _sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        let file = self.file(py)?;
        match std::mem::replace(&mut self.state, State::Done) {
            State::New => {
                if matches!(self.verb, Verb::Enter) {
                    return Ok(Outcome::Return(Some(file.into_any().unbind())));
                }
                if file.borrow().busy {
                    let ticket = driver::new_future(py)?.unbind();
                    // To make it was Python's, which may have ended the call that had the turn.
                    if file.borrow().busy {
                        let place = Ticket::Future(ticket.clone_ref(py));
                        file.borrow_mut().queue.push_back(place);
                        return self.suspend(py, ticket, State::Queued);
                    }
                }
                file.borrow_mut().busy = true;
                let begun = self.begin(&file);
                self.or_pass(&file, begun)
            }
            State::GaveWay => {
                file.borrow().driver.borrow_mut(py).turn.go_on();
                let run = self.run(&file);
                self.or_pass(&file, run)
            }
            State::Queued(ticket) => match driver::is_done(ticket.bind(py))? {
                true => {
                    let begun = self.begin(&file);
                    self.or_pass(&file, begun)
                }
                // Driven by hand, not by the loop.
                false => self.suspend(py, ticket, State::Queued),
            },
            State::Waiting(future) => match driver::is_done(future.bind(py))? {
                true => {
                    let run = self.run(&file);
                    self.or_pass(&file, run)
                }
                false => self.suspend(py, future, State::Waiting),
            },
            State::Done => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }

    // A file may not be kept alive at all.
    fn size_of(py: Python<'_>, value: &Py<PyAny>) -> usize {
        if value.bind(py).is_instance_of::<BinaryFile>() {
            usize::MAX
        } else {
            bytes_len(py, value)
        }
    }

    fn stop(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(file) = self.file.as_ref().map(|file| file.bind(py).clone()) else {
            return Ok(());
        };
        let file = &file;
        match std::mem::replace(&mut self.state, State::Done) {
            State::New | State::Done => Ok(()),
            State::GaveWay => self.leave(file),
            State::Queued(ticket) => {
                let ticket = ticket.bind(py);
                let granted = driver::is_done(ticket)?
                    && !ticket.call_method0(intern!(py, "cancelled"))?.is_truthy()?;
                if granted {
                    return self.leave(file);
                }
                ticket.call_method0(intern!(py, "cancel"))?;
                if matches!(self.verb, Verb::Close { .. }) {
                    file.borrow_mut().queue.push_back(Ticket::Close);
                    if !file.borrow().busy {
                        // Whoever had the turn has found nobody to pass it to.
                        return BinaryFile::pass_turn(file);
                    }
                }
                Ok(())
            }
            State::Waiting(_) => {
                file.borrow_mut().waiter = None;
                self.leave(file)
            }
        }
    }

    fn over(&self) -> Self {
        FileCall {
            file: None,
            name: self.name,
            verb: Verb::Enter,
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

coroutine_methods!(FileCall {
    // A pending call and its task know each other.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.file.as_ref().map_or(Ok(()), |file| visit.call(file))?;
        match &self.state {
            State::Queued(future) | State::Waiting(future) => visit.call(future),
            _ => Ok(()),
        }
    }

    /// A write longer than the buffer is under way, or done: it goes on when this is cancelled.
    #[getter]
    fn begun(&self) -> bool {
        matches!(self.verb, Verb::Large { buffer: None, .. })
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        self.name
    }

    #[getter]
    fn __qualname__(&self) -> String {
        format!("BinaryFile.{}", self.name)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        match &self.file {
            None => Ok(format!("<proactor {}, done>", self.name)),
            Some(file) => Ok(format!("<proactor {} of {}>", self.name, file.bind(py).repr()?)),
        }
    }
});

impl Drop for FileCall {
    fn drop(&mut self) {
        if matches!(self.state, State::Done) {
            return;
        }
        errors::in_drop(|py| {
            if matches!(self.state, State::New) {
                let text = format!("coroutine 'BinaryFile.{}' was never awaited", self.name);
                errors::warn_in_drop::<PyRuntimeWarning>(py, &text);
            } else if let Err(e) = self.stop(py) {
                e.write_unraisable(py, None);
            }
        });
    }
}
