//! One awaited call of an open file that leaves its position alone: a coroutine that waits for no turn.
//!
//! The work is a `Job`. It goes on as far as it can without waiting, and names the ops that it needs one after the other.

use super::binary::{elsewhere, BinaryFile};
use super::limited::Limited;
use crate::coroutine::{coroutine_methods, Coroutine, Outcome};
use crate::errors;
use crate::files::driver::{self, LoopDriver, LoopFuture, Waiter};
use crate::python_code::{self, Sent};
use proactor_engine::op::Op;
use proactor_engine::{Completion, Error, Token};
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::PyTraverseError;

/// A value, None for Python's None.
pub(super) type Value = Option<Py<PyAny>>;

/// What a step of a job leads to.
pub(super) enum Next {
    Done(Value),
    Wait(Op),
}

/// What becomes of the op in flight when its caller is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// Nobody hears of it any more.
    Abandon,
    /// The job goes on to its end by itself.
    GoOn,
    /// It is asked to stop, and `undo` hears of its end.
    Stop,
}

/// The work of one call.
pub(super) trait Job: Send + Sync {
    /// Goes on as far as it can without waiting. ValueError if the file was closed while the call waited for its turn of the
    /// loop, or for a flush.
    fn step(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<Next>;

    /// The op of the last step has come back. `step` is next, unless this is an error.
    fn took(&mut self, file: &Bound<'_, BinaryFile>, completion: Completion) -> PyResult<()>;

    fn given_up(&self) -> GivenUp;

    /// About how many bytes it moves without waiting, for the loop's sake. None: it waits in any case.
    fn weight(&self, _direct: bool) -> Option<usize> {
        Some(0)
    }

    /// Whether its ops need the file's limiter: not if they may wait for somebody else.
    fn limited(&self) -> bool {
        true
    }

    /// Whether data that were written before must be with the kernel first.
    fn settles(&self) -> bool {
        true
    }

    /// Another file of which the same is true.
    fn other_file(&self) -> Option<&Py<BinaryFile>> {
        None
    }

    /// They could not be brought to the kernel. The error goes to the caller, at once or, if it is kept, later.
    fn unsettled(&mut self, error: PyErr) -> PyResult<()> {
        Err(error)
    }

    /// It succeeded, and nobody is there to know.
    fn undo(&mut self, file: &Bound<'_, BinaryFile>) {
        let _ = file;
    }
}

/// What a job is replaced by when it is over: it would keep the file and the caller's memory.
struct Over;

impl Job for Over {
    fn step(&mut self, _file: &Bound<'_, BinaryFile>) -> PyResult<Next> {
        Ok(Next::Done(None))
    }

    fn took(&mut self, _file: &Bound<'_, BinaryFile>, _completion: Completion) -> PyResult<()> {
        Ok(())
    }

    fn given_up(&self) -> GivenUp {
        GivenUp::Abandon
    }
}

/// The awaitable of one method of an open file that does not use its position. Await it once.
#[pyclass(module = "proactor._native", weakref)]
pub(crate) struct FileOp {
    file: Py<BinaryFile>,
    name: &'static str,
    job: Box<dyn Job>,
    state: State,
    outcome: Option<PyResult<Value>>,
    /// The limiter is held while this is awaited, or there is none.
    granted: bool,
}

enum State {
    New,
    /// Lets the loop go round.
    GaveWay,
    /// Flushes the first of these files; the others are to be flushed after it.
    Settling {
        flush: Py<PyAny>,
        others: Vec<Py<BinaryFile>>,
    },
    Waiting {
        future: Py<LoopFuture>,
        driver: Py<LoopDriver>,
        token: Token,
    },
    /// Another one goes on, with the limiter.
    Limited(Limited),
    /// Is that other one, and has the limiter.
    Granted(Box<Op>),
    /// Its caller is gone, its op is not.
    Alone,
    Done,
}

impl FileOp {
    pub(super) fn new(file: &Bound<'_, BinaryFile>, name: &'static str, job: impl Job + 'static) -> Self {
        FileOp {
            file: file.clone().unbind(),
            name,
            job: Box::new(job),
            state: State::New,
            outcome: None,
            granted: file.borrow().limiter.is_none(),
        }
    }

    fn file<'py>(slf: &Bound<'py, Self>) -> Bound<'py, BinaryFile> {
        slf.borrow().file.clone_ref(slf.py()).into_bound(slf.py())
    }

    fn advance(slf: &Bound<'_, Self>) -> PyResult<Outcome> {
        let py = slf.py();
        let state = std::mem::replace(&mut slf.borrow_mut().state, State::Done);
        match state {
            State::New => Self::begin(slf),
            State::GaveWay => {
                let file = Self::file(slf);
                file.borrow().driver.borrow_mut(py).turn.go_on();
                Self::settle_all(slf)
            }
            State::Settling { flush, others } => Self::settle(slf, flush, others),
            State::Waiting {
                future,
                driver,
                token,
            } => {
                if driver::is_done(future.bind(py)) {
                    let outcome = slf.borrow_mut().outcome.take();
                    let woken = || PyRuntimeError::new_err("somebody else has woken this call");
                    return outcome.ok_or_else(woken)?.map(Outcome::Return);
                }
                // Driven by hand, not by the loop.
                let suspended = Outcome::Suspend(driver::suspend_on(future.bind(py)));
                slf.borrow_mut().state = State::Waiting {
                    future,
                    driver,
                    token,
                };
                Ok(suspended)
            }
            State::Limited(limited) => Self::send_on(slf, limited),
            State::Granted(op) => Self::wait_for(slf, *op),
            State::Alone | State::Done => {
                Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine"))
            }
        }
    }

    fn begin(slf: &Bound<'_, Self>) -> PyResult<Outcome> {
        let py = slf.py();
        let file = Self::file(slf);
        let driver = {
            let this = file.borrow();
            this.check_open()?;
            this.driver.clone_ref(py).into_bound(py)
        };
        if !driver.borrow().serves(py) {
            return Err(elsewhere());
        }
        let direct = file.borrow().core.direct().is_some();
        let weight = slf.borrow().job.weight(direct);
        if !weight.is_some_and(|weight| driver.borrow_mut().turn.charge(weight)) {
            return Self::settle_all(slf);
        }
        let suspended = driver::give_way(&driver)?;
        slf.borrow_mut().state = State::GaveWay;
        Ok(Outcome::Suspend(suspended))
    }

    /// What was written before is brought to the kernel first.
    fn settle_all(slf: &Bound<'_, Self>) -> PyResult<Outcome> {
        let py = slf.py();
        let this = slf.borrow();
        if !this.job.settles() {
            drop(this);
            return Self::go_on(slf);
        }
        let mut files = vec![this.file.clone_ref(py)];
        // allocates: one file at most
        files.extend(this.job.other_file().map(|other| other.clone_ref(py)));
        drop(this);
        Self::settle_next(slf, files)
    }

    fn settle_next(slf: &Bound<'_, Self>, mut files: Vec<Py<BinaryFile>>) -> PyResult<Outcome> {
        let py = slf.py();
        while let Some(file) = files.pop() {
            if file.borrow(py).core.is_dirty() {
                let flush = file.call_method0(py, intern!(py, "flush"))?;
                return Self::settle(slf, flush, files);
            }
        }
        Self::go_on(slf)
    }

    /// Goes on with a flush.
    fn settle(slf: &Bound<'_, Self>, flush: Py<PyAny>, others: Vec<Py<BinaryFile>>) -> PyResult<Outcome> {
        let py = slf.py();
        match python_code::send(flush.bind(py), py.None().bind(py)) {
            Ok(Sent::Suspended(future)) => {
                slf.borrow_mut().state = State::Settling { flush, others };
                return Ok(Outcome::Suspend(future.unbind()));
            }
            Ok(Sent::Returned(_)) => {}
            Err(e) => slf.borrow_mut().job.unsettled(e)?,
        }
        Self::settle_next(slf, others)
    }

    /// Everything before is with the kernel.
    fn go_on(slf: &Bound<'_, Self>) -> PyResult<Outcome> {
        let file = Self::file(slf);
        let op = match slf.borrow_mut().job.step(&file)? {
            Next::Done(value) => return Ok(Outcome::Return(value)),
            Next::Wait(op) => op,
        };
        if slf.borrow().granted || !slf.borrow().job.limited() {
            return Self::wait_for(slf, op);
        }
        Self::hand_over(slf, &file, op)
    }

    /// Another one goes on with this one's work, while a coroutine of Python's holds the limiter.
    fn hand_over(slf: &Bound<'_, Self>, file: &Bound<'_, BinaryFile>, op: Op) -> PyResult<Outcome> {
        let mut this = slf.borrow_mut();
        let rest = FileOp {
            file: file.clone().unbind(),
            name: this.name,
            job: std::mem::replace(&mut this.job, Box::new(Over)),
            state: State::Granted(Box::new(op)),
            outcome: None,
            granted: true,
        };
        drop(this);
        let rest = Bound::new(slf.py(), rest)?;
        let limited = BinaryFile::limited(file, rest.as_any())?;
        Self::send_on(slf, limited)
    }

    fn send_on(slf: &Bound<'_, Self>, limited: Limited) -> PyResult<Outcome> {
        let outcome = limited.send(slf.py().None().bind(slf.py()))?;
        if matches!(outcome, Outcome::Suspend(_)) {
            slf.borrow_mut().state = State::Limited(limited);
        }
        Ok(outcome)
    }

    fn wait_for(slf: &Bound<'_, Self>, op: Op) -> PyResult<Outcome> {
        let (py, file) = (slf.py(), Self::file(slf));
        let driver = file.borrow().driver.clone_ref(py).into_bound(py);
        let future = driver::new_future(py)?;
        let token = Self::submit(slf, &driver, op)?;
        let suspended = Outcome::Suspend(driver::suspend_on(&future));
        slf.borrow_mut().state = State::Waiting {
            future: future.unbind(),
            driver: driver.unbind(),
            token,
        };
        Ok(suspended)
    }

    fn submit(slf: &Bound<'_, Self>, driver: &Bound<'_, LoopDriver>, op: Op) -> PyResult<Token> {
        let waiter = Waiter::Op(slf.clone().unbind());
        let token = driver.borrow_mut().submit(slf.py(), op, waiter)?;
        driver::schedule_flush(driver)?;
        Ok(token)
    }

    /// The op in flight has come back.
    pub(crate) fn finished(slf: &Bound<'_, Self>, completion: Completion) -> PyResult<()> {
        let py = slf.py();
        let file = Self::file(slf);
        let alone = matches!(slf.borrow().state, State::Alone);
        let stopped = alone && slf.borrow().job.given_up() == GivenUp::Stop;
        let taken = slf.borrow_mut().job.took(&file, completion);
        let next = match taken {
            Err(e) => Err(e),
            Ok(()) if stopped => {
                slf.borrow_mut().job.undo(&file);
                Ok(Next::Done(None))
            }
            Ok(()) => slf.borrow_mut().job.step(&file),
        };
        let outcome = match next {
            Ok(Next::Wait(op)) => {
                let driver = file.borrow().driver.clone_ref(py).into_bound(py);
                match Self::submit(slf, &driver, op) {
                    Ok(next) => {
                        if let State::Waiting { token, .. } = &mut slf.borrow_mut().state {
                            *token = next;
                        }
                        return Ok(());
                    }
                    Err(e) => Err(e),
                }
            }
            Ok(Next::Done(value)) => Ok(value),
            Err(e) => Err(e),
        };
        let mut this = slf.borrow_mut();
        let future = match &this.state {
            State::Waiting { future, .. } => future.clone_ref(py),
            _ => {
                this.state = State::Done;
                this.job = Box::new(Over);
                drop(this);
                // What a stopped one meets is that it was stopped.
                return match outcome {
                    Err(e) if !stopped => report(slf, &e),
                    _ => Ok(()),
                };
            }
        };
        this.outcome = Some(outcome);
        drop(this);
        driver::wake(future.bind(py)).map(drop)
    }

    fn stop_job(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let state = std::mem::replace(&mut slf.borrow_mut().state, State::Done);
        match state {
            State::Settling { flush, .. } => {
                flush.call_method0(py, intern!(py, "close"))?;
            }
            // Done already, but its caller will not know.
            State::Waiting { .. } if slf.borrow().outcome.is_some() => {
                let file = Self::file(slf);
                let mut this = slf.borrow_mut();
                match this.outcome.take() {
                    Some(Err(e)) => {
                        drop(this);
                        report(slf, &e)?;
                    }
                    Some(Ok(_)) => this.job.undo(&file),
                    None => {}
                }
            }
            State::Waiting { driver, token, .. } => {
                let given_up = slf.borrow().job.given_up();
                if given_up == GivenUp::Abandon {
                    driver.borrow_mut(py).abandon(token);
                    return Ok(());
                }
                slf.borrow_mut().state = State::Alone;
                if given_up == GivenUp::Stop {
                    driver.borrow_mut(py).cancel(token);
                }
            }
            State::Alone => slf.borrow_mut().state = State::Alone,
            State::Limited(limited) => limited.close(py)?,
            State::New | State::GaveWay | State::Granted(_) | State::Done => {}
        }
        Ok(())
    }
}

/// The error of an op as an OSError with the file's name.
pub(super) fn os_error(file: &Bound<'_, BinaryFile>, error: &Error) -> PyErr {
    file.borrow().error(file.py(), error)
}

/// An error that nobody awaits.
fn report(op: &Bound<'_, FileOp>, error: &PyErr) -> PyResult<()> {
    let py = op.py();
    let context = PyDict::new(py);
    context.set_item(
        "message",
        format!("proactor: an error of a cancelled {}", op.borrow().name),
    )?;
    context.set_item("exception", error.value(py))?;
    context.set_item("file", FileOp::file(op))?;
    let event_loop = py.import("asyncio")?.call_method0("get_event_loop")?;
    python_code::call_method(
        &event_loop,
        intern!(py, "call_exception_handler"),
        [context.as_any()],
    )?;
    Ok(())
}

impl Coroutine for FileOp {
    fn drive(slf: &Bound<'_, Self>, _sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        let outcome = Self::advance(slf);
        if !matches!(outcome, Ok(Outcome::Suspend(_))) {
            slf.borrow_mut().job = Box::new(Over);
        }
        outcome
    }

    fn stop(slf: &Bound<'_, Self>) -> PyResult<()> {
        let stopped = Self::stop_job(slf);
        let mut this = slf.borrow_mut();
        if !matches!(this.state, State::Alone) {
            this.job = Box::new(Over);
        }
        stopped
    }

    fn throw_in(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<Py<PyAny>> {
        let state = std::mem::replace(&mut slf.borrow_mut().state, State::Done);
        if let State::Limited(limited) = state {
            let what = limited.throw(slf.py(), error)?;
            slf.borrow_mut().state = State::Limited(limited);
            return Ok(what);
        }
        slf.borrow_mut().state = state;
        Self::stop(slf)?;
        Err(error)
    }

    fn qualname(slf: &Bound<'_, Self>) -> String {
        let call = slf.try_borrow();
        call.map_or_else(
            |_| "FileOp".to_owned(),
            |call| format!("BinaryFile.{}", call.name),
        )
    }
}

coroutine_methods! { FileOp =>
    // A pending call and its task know each other.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.file)?;
        if let Some(Ok(value)) = &self.outcome {
            visit.call(value)?;
        }
        // Its memory is the kernel's while an op is in flight.
        self.job.other_file().map_or(Ok(()), |other| visit.call(other))?;
        match &self.state {
            State::Settling { flush, others } => {
                visit.call(flush)?;
                others.iter().try_for_each(|other| visit.call(other))
            }
            State::Waiting { future, driver, .. } => visit.call(future).and_then(|()| visit.call(driver)),
            State::Limited(limited) => limited.traverse(&visit),
            _ => Ok(()),
        }
    }

    fn __clear__(&mut self) {
        self.state = State::Done;
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let file = self.file.bind(py).repr()?;
        Ok(format!("<proactor {} of {file}>", self.name))
    }
}

impl Drop for FileOp {
    fn drop(&mut self) {
        // While an op is in flight the driver holds this object: with the driver gone there is nothing to stop.
        if let State::New = self.state {
            let text = format!("coroutine 'BinaryFile.{}' was never awaited", self.name);
            errors::in_drop(|py| errors::warn_in_drop::<PyRuntimeWarning>(py, &text));
        }
    }
}
