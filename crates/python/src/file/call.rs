//! One awaited method of an open file: a coroutine that does its work when it is driven, in its turn.

use super::binary::{elsewhere, BinaryFile, Ticket};
use super::limited::Limited;
use super::verb::Verb;
use crate::attached::Attached;
use crate::coroutine::{bytes_len, coroutine_methods, Coroutine, Outcome};
use crate::errors;
use crate::files::driver::{self, LoopFuture};
use crate::memory::lacking;
use crate::reused::{self, make, reused, Call as _};
use proactor_file::Step;
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::PyTraverseError;

/// The awaitable of one method of an open file. Await it once.
#[pyclass(frozen, module = "proactor._native")]
pub(crate) struct FileCall(Attached<Call>);

pub(crate) struct Call {
    /// None when it is over.
    file: Option<Py<BinaryFile>>,
    name: &'static str,
    verb: Verb,
    state: State,
}

/// A finished op counts for so much, so that the clock is looked at after each.
const PIECE_BYTES: usize = 1 << 16;

/// Dropped only where a call that has the turn panics: all others, and the close, would wait for it for ever.
struct Panicking<'a, 'py>(&'a Bound<'py, BinaryFile>);

impl Drop for Panicking<'_, '_> {
    fn drop(&mut self) {
        // A second panic would end the process.
        if let Ok(mut file) = self.0.try_borrow_mut() {
            file.lose_unsubmitted();
            drop(file);
            if let Err(e) = BinaryFile::pass_turn(self.0) {
                e.write_unraisable(self.0.py(), None);
            }
        }
    }
}

enum State {
    New,
    /// Has the turn, and lets the loop go round.
    GaveWay,
    /// Waits for the turn.
    Queued(Py<LoopFuture>),
    /// Has the turn, and waits for an op.
    Waiting(Py<LoopFuture>),
    /// Another call goes on, with the limiter.
    Limited {
        limited: Limited,
        rest: Py<FileCall>,
    },
    /// Is that other call, and has the turn.
    Granted,
    Done,
}

impl FileCall {
    pub(super) fn new<'py>(
        file: &Bound<'py, BinaryFile>,
        name: &'static str,
        verb: Verb,
    ) -> PyResult<Bound<'py, Self>> {
        let call = Call {
            file: Some(file.clone().unbind()),
            name,
            verb,
            state: State::New,
        };
        make(file.py(), call)
    }
}

impl Call {
    fn file<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, BinaryFile>> {
        let file = self.file.as_ref().map(|file| file.bind(py).clone());
        file.ok_or_else(|| PyRuntimeError::new_err("cannot reuse already awaited coroutine"))
    }

    /// Goes on, with the turn. Whatever goes wrong, it must pass to the next.
    fn in_turn<'py>(
        &mut self,
        file: &Bound<'py, BinaryFile>,
        go_on: impl FnOnce(&mut Self, &Bound<'py, BinaryFile>) -> PyResult<Option<Outcome>>,
    ) -> PyResult<Outcome> {
        let panicking = Panicking(file);
        let outcome = go_on(self, file);
        std::mem::forget(panicking);
        match outcome.transpose() {
            None => self.hand_over(file),
            Some(Ok(suspended @ Outcome::Suspend(_))) => Ok(suspended),
            Some(over) => {
                BinaryFile::pass_turn(file)?;
                over
            }
        }
    }

    /// Another call goes on with this one's work, and has the turn, while a coroutine of Python's holds the limiter.
    fn hand_over(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<Outcome> {
        let py = file.py();
        let rest = Call {
            file: Some(file.clone().unbind()),
            name: self.name,
            verb: std::mem::replace(&mut self.verb, Verb::Enter),
            state: State::Granted,
        };
        let rest = make(py, rest)?;
        let limited = BinaryFile::limited(file, rest.as_any())?;
        self.send_on(limited, rest.unbind(), py.None().bind(py))
    }

    fn send_on(
        &mut self,
        limited: Limited,
        rest: Py<FileCall>,
        sent: &Bound<'_, PyAny>,
    ) -> PyResult<Outcome> {
        let outcome = limited.send(sent)?;
        if matches!(outcome, Outcome::Suspend(_)) {
            self.state = State::Limited { limited, rest };
        }
        Ok(outcome)
    }

    /// The turn has come. None: it needs the limiter.
    fn begin(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<Option<Outcome>> {
        let py = file.py();
        {
            let mut this = file.borrow_mut();
            if let Verb::Close { .. } = self.verb {
                if this.closed.get() {
                    return Ok(Some(Outcome::Return(None)));
                }
                // It frees what others may want.
                this.granted = true;
                if !this.driver.borrow(py).serves(py) {
                    drop(this);
                    return BinaryFile::close_now(file).map(|()| Some(Outcome::Return(None)));
                }
            }
            this.check_open()?;
            if !this.closed.is_here() && !matches!(self.verb, Verb::Close { .. }) {
                return Err(elsewhere());
            }
            this.core.begin();
            let weight = self.verb.weight(py);
            if !this.charge(py, weight) {
                drop(this);
                return self.run(file);
            }
        }
        let suspended = BinaryFile::give_way(file)?;
        self.state = State::GaveWay;
        Ok(Some(Outcome::Suspend(suspended)))
    }

    /// Has the turn: goes on until it is done or has to wait. None: for that it needs the limiter.
    fn run(&mut self, file: &Bound<'_, BinaryFile>) -> PyResult<Option<Outcome>> {
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
                        let suspended = BinaryFile::give_way(file)?;
                        self.state = State::GaveWay;
                        return Ok(Some(Outcome::Suspend(suspended)));
                    }
                }
                (Ok(Step::Blocked), Ok(false)) => {
                    if !file.borrow().driver.borrow(py).serves(py) {
                        return Err(elsewhere());
                    }
                    if !file.borrow().core.is_under_way() && file.borrow().needs_limiter() {
                        return Ok(None);
                    }
                    let future = driver::new_future(py)?.unbind();
                    let mut this = file.borrow_mut();
                    this.waiter = Some(future.clone_ref(py));
                    drop(this);
                    return self.suspend(py, future, State::Waiting).map(Some);
                }
                (Ok(Step::Blocked), Err(e)) | (Err(e), _) => return Err(e),
                // Its own work is done; what could not be started in the background will be tried again.
                (Ok(Step::Ready(value)), _) => return Ok(Some(Outcome::Return(value))),
            }
        }
    }

    fn suspend(
        &mut self,
        py: Python<'_>,
        future: Py<LoopFuture>,
        state: impl FnOnce(Py<LoopFuture>) -> State,
    ) -> PyResult<Outcome> {
        let suspended = driver::suspend_on(future.bind(py));
        self.state = state(future);
        Ok(Outcome::Suspend(suspended))
    }

    /// Gives the call up, wherever it is.
    fn end_early(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(file) = self.file.as_ref().map(|file| file.bind(py).clone()) else {
            return Ok(());
        };
        let file = &file;
        match std::mem::replace(&mut self.state, State::Done) {
            State::New | State::Done => Ok(()),
            State::GaveWay | State::Granted => self.leave(file),
            State::Limited { limited, .. } => limited.close(py),
            State::Queued(ticket) => {
                let ticket = ticket.bind(py);
                let granted = driver::is_done(ticket) && !ticket.borrow().cancelled();
                if granted {
                    return self.leave(file);
                }
                if file.borrow().driver.borrow(py).has_loop(py) {
                    LoopFuture::cancel(ticket, None)?;
                }
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
    fn drive(slf: &Bound<'_, Self>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        reused::drive(slf, sent)
    }

    fn stop(slf: &Bound<'_, Self>) -> PyResult<()> {
        let begun = slf.get().begun(slf.py());
        let mut call = slf.get().0.borrow_mut(slf.py())?;
        let ended = call.end_early(slf.py());
        // The caller's memory, above all: who keeps the call, as a task does, does not keep that.
        let held = call.end();
        if begun {
            // Whoever has cancelled it asks.
            let (buffer, bytes) = (None, 0);
            call.verb = Verb::Large { buffer, bytes };
        }
        drop(call);
        drop(held);
        ended
    }

    fn throw_in(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let mut call = slf.get().0.borrow_mut(py)?;
        match std::mem::replace(&mut call.state, State::Done) {
            State::Limited { limited, rest } => {
                let what = limited.throw(py, error)?;
                call.state = State::Limited { limited, rest };
                Ok(what)
            }
            state => {
                call.state = state;
                drop(call);
                Self::stop(slf)?;
                Err(error)
            }
        }
    }

    fn qualname(slf: &Bound<'_, Self>) -> String {
        // Python code that it runs may ask: a limiter's.
        let call = slf.get().0.look(slf.py());
        call.map_or_else(
            || "FileCall".to_owned(),
            |call| format!("BinaryFile.{}", call.name),
        )
    }

    // A file may not be kept alive at all.
    fn size_of(py: Python<'_>, value: &Py<PyAny>) -> usize {
        if value.bind(py).is_instance_of::<BinaryFile>() {
            usize::MAX
        } else {
            bytes_len(py, value)
        }
    }
}

reused! { FileCall }

impl reused::Call for Call {
    fn advance(&mut self, py: Python<'_>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
        let file = self.file(py)?;
        match std::mem::replace(&mut self.state, State::Done) {
            State::New => {
                if matches!(self.verb, Verb::Enter) {
                    return Ok(Outcome::Return(Some(file.into_any().unbind())));
                }
                if file.borrow().busy {
                    file.borrow().check_loop(py)?;
                    let ticket = driver::new_future(py)?.unbind();
                    // To make it was Python's, which may have ended the call that had the turn.
                    if file.borrow().busy {
                        let place = Ticket::Future(ticket.clone_ref(py));
                        let mut this = file.borrow_mut();
                        this.queue.try_reserve(1).map_err(lacking)?;
                        this.queue.push_back(place);
                        drop(this);
                        return self.suspend(py, ticket, State::Queued);
                    }
                }
                file.borrow_mut().busy = true;
                self.in_turn(&file, Self::begin)
            }
            State::GaveWay => self.in_turn(&file, |call, file| {
                file.borrow().driver.borrow_mut(py).turn.go_on();
                call.run(file)
            }),
            State::Queued(ticket) => match driver::is_done(ticket.bind(py)) {
                true => self.in_turn(&file, Self::begin),
                // Driven by hand, not by the loop.
                false => self.suspend(py, ticket, State::Queued),
            },
            State::Waiting(future) => match driver::is_done(future.bind(py)) {
                true => self.in_turn(&file, Self::run),
                false => self.suspend(py, future, State::Waiting),
            },
            State::Limited { limited, rest } => self.send_on(limited, rest, sent),
            State::Granted => {
                file.borrow_mut().granted = true;
                self.in_turn(&file, Self::run)
            }
            State::Done => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }

    fn over(&self) -> Self {
        Call {
            file: None,
            name: self.name,
            verb: Verb::Enter,
            state: State::Done,
        }
    }

    fn is_over(&self) -> bool {
        self.file.is_none()
    }
}

coroutine_methods! { FileCall =>
    // A pending call and its task know each other.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(call) = self.0.seen_by_collector() else {
            return Ok(());
        };
        call.file.as_ref().map_or(Ok(()), |file| visit.call(file))?;
        match &call.state {
            State::Queued(future) | State::Waiting(future) => visit.call(future),
            State::Limited { limited, rest } => {
                limited.traverse(&visit)?;
                visit.call(rest)
            }
            _ => Ok(()),
        }
    }

    fn __clear__(&self, py: Python<'_>) {
        // Whoever waits for the turn gets it.
        let held = self.0.get(py).map(|mut call| call.end());
        drop(held);
    }

    /// A write longer than the buffer is under way, or done: it goes on when this is cancelled.
    #[getter]
    fn begun(&self, py: Python<'_>) -> bool {
        self.0.get(py).is_some_and(|call| match &call.state {
            State::Limited { rest, .. } => rest.get().begun(py),
            _ => matches!(call.verb, Verb::Large { buffer: None, .. }),
        })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Some(call) = self.0.look(py) else {
            return Ok("<proactor FileCall, running>".to_owned());
        };
        let (name, file) = (call.name, call.file.as_ref().map(|file| file.clone_ref(py)));
        drop(call);
        match file {
            None => Ok(format!("<proactor {name}, done>")),
            Some(file) => Ok(format!("<proactor {name} of {}>", file.bind(py).repr()?)),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if matches!(self.state, State::Done) {
            return;
        }
        errors::in_drop(|py| {
            if matches!(self.state, State::New) {
                let text = format!("coroutine 'BinaryFile.{}' was never awaited", self.name);
                errors::warn_in_drop::<PyRuntimeWarning>(py, &text);
            } else if let Err(e) = self.end_early(py) {
                e.write_unraisable(py, None);
            }
        });
    }
}
