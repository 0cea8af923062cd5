//! The context: a driver with Python's manners.

use super::event::Event;
use super::op::Op;
use crate::errors;
use crate::thread_bound::{AssertSend, ThreadBound};
use proactor::{CancelOutcome, Completion, Config, Engine, Refusal, SqPoll, Token};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

/// What became of a request to cancel.
#[pyclass(
    eq,
    eq_int,
    frozen,
    hash,
    name = "CancelOutcome",
    module = "proactor.aio",
    rename_all = "SCREAMING_SNAKE_CASE"
)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PyCancelOutcome {
    /// It was stopped. Its event, with ECANCELED, will come from `wait`.
    Cancelled,
    /// It is being worked on and was asked to stop; its event says how that ended.
    Running,
    /// It is complete: its event waits or was taken.
    Finished,
}

/// A queue of ops, used by the thread that made it, and a context manager that closes it.
///
/// - `max_jobs`: how many ops may be submitted and not yet be taken by `wait`, 1 to 32768.
/// - `engine`: "io_uring", "linux_aio", "posix_aio", "threads", "sim"; None or "auto" for the best that works here, or
///   what PROACTOR_ENGINE names. An engine named here that cannot be had raises OSError.
/// - `sqpoll`: let a kernel thread poll the submission queue (io_uring): True for an idle time of 1 s, or seconds.
///   `sqpoll_cpu` binds it to a processor.
/// - `iopoll`: poll the device for completions (io_uring, O_DIRECT, devices with poll queues).
/// - `backlog`: ops accepted beyond `max_jobs`, which wait in user space.
/// - `inline`: finish at once what needs no waiting, such as reads of cached pages.
///
/// Another thread's call raises RuntimeError, as does any call after `close()` or in a forked child.
#[pyclass(weakref, module = "proactor.aio")]
pub(crate) struct Context {
    driver: ThreadBound,
    submitted: HashMap<Token, Py<Op>>,
    engine: Engine,
    reason: String,
    max_jobs: u32,
}

/// The simulator and `backlog` aside, what io_uring and Linux AIO take at most.
const MAX_JOBS: u32 = 32_768;

pub(crate) fn parse_engine(name: Option<&str>) -> PyResult<Option<Engine>> {
    match name {
        None | Some("auto") => Ok(None),
        Some(name) => name
            .parse()
            .map(Some)
            .map_err(|e: proactor::probe::UnknownEngine| PyValueError::new_err(e.to_string())),
    }
}

fn parse_sqpoll(sqpoll: Option<&Bound<'_, PyAny>>, cpu: Option<u32>) -> PyResult<Option<SqPoll>> {
    let idle = match sqpoll {
        None => None,
        Some(value) if value.is_instance_of::<pyo3::types::PyBool>() => {
            value.extract::<bool>()?.then_some(Duration::from_secs(1))
        }
        Some(value) => Some(seconds(value.extract()?)?),
    };
    match (idle, cpu) {
        (Some(idle), cpu) => Ok(Some(SqPoll { idle, cpu })),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(PyValueError::new_err("sqpoll_cpu needs sqpoll")),
    }
}

fn seconds(value: f64) -> PyResult<Duration> {
    if value.is_nan() || value < 0.0 {
        return Err(PyValueError::new_err("a time must not be negative"));
    }
    Ok(Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX))
}

impl Context {
    fn submit_one(&mut self, py: Python<'_>, op: &Bound<'_, Op>) -> PyResult<bool> {
        let driver = self.driver.get()?;
        let (prepared, options) = op.borrow().prepare(py)?;
        match driver.submit_with(prepared, options) {
            Ok(token) => {
                op.borrow_mut().submitted(token);
                self.submitted.insert(token, op.clone().unbind());
                Ok(true)
            }
            Err(e) if matches!(e.refusal, Refusal::Full { .. }) => Ok(false),
            Err(e) => Err(errors::refusal(py, &e.refusal)),
        }
    }

    fn event(&mut self, py: Python<'_>, completion: Completion) -> PyResult<Event> {
        let op = self
            .submitted
            .remove(&completion.token)
            .ok_or_else(|| PyRuntimeError::new_err("a completion of an op that nobody submitted"))?;
        op.borrow_mut(py).done();
        Ok(match completion.count() {
            Ok(count) => Event::new(op, count as i64, None),
            Err(error) => {
                let filename = op.borrow(py).filename(py);
                let exception = errors::os_error(py, &error, filename.as_ref());
                let result = -i64::from(error.errno());
                Event::new(op, result, Some(exception.into_value(py).into_any()))
            }
        })
    }
}

#[pymethods]
impl Context {
    #[new]
    #[pyo3(signature = (max_jobs=128, *, engine=None, sqpoll=None, sqpoll_cpu=None, iopoll=false, backlog=0, inline=true))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        max_jobs: u32,
        engine: Option<&str>,
        sqpoll: Option<&Bound<'_, PyAny>>,
        sqpoll_cpu: Option<u32>,
        iopoll: bool,
        backlog: usize,
        inline: bool,
    ) -> PyResult<Self> {
        if !(1..=MAX_JOBS).contains(&max_jobs) {
            return Err(PyValueError::new_err(format!(
                "max_jobs is 1 to {MAX_JOBS}, not {max_jobs}"
            )));
        }
        let mut config = Config::default()
            .depth(max_jobs)
            .backlog(backlog)
            .inline(inline)
            .iopoll(iopoll);
        if let Some(engine) = parse_engine(engine)? {
            config = config.engine(engine);
        }
        if let Some(sqpoll) = parse_sqpoll(sqpoll, sqpoll_cpu)? {
            config = config.sqpoll(sqpoll);
        }
        let driver = config.build()?;
        let chosen = driver.chosen().clone();
        Ok(Context {
            driver: ThreadBound::new(driver),
            submitted: HashMap::new(),
            engine: chosen.engine,
            reason: chosen.reason,
            max_jobs,
        })
    }

    /// The name of the engine.
    #[getter]
    fn engine(&self) -> &'static str {
        self.engine.name()
    }

    /// Why it is this engine.
    #[getter]
    fn engine_reason(&self) -> &str {
        &self.reason
    }

    /// How many ops may be pending.
    #[getter]
    fn max_jobs(&self) -> u32 {
        self.max_jobs
    }

    /// Ops submitted whose events have not been taken.
    #[getter]
    fn pending(&self) -> usize {
        self.submitted.len()
    }

    /// Whether `close()` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.driver.is_closed()
    }

    /// Submits ops in order and returns how many were accepted; the rest is untouched. Fewer than all means that
    /// `max_jobs + backlog` ops are pending: take events with `wait`, then submit the rest.
    ///
    /// Raises ValueError for an op that is submitted already or can never succeed, if it is the first; otherwise such an
    /// op ends the count.
    #[pyo3(signature = (*ops))]
    fn submit(&mut self, py: Python<'_>, ops: &Bound<'_, PyTuple>) -> PyResult<usize> {
        self.driver.get()?;
        let mut accepted = 0;
        for op in ops {
            let outcome = op
                .cast_into::<Op>()
                .map_err(PyErr::from)
                .and_then(|op| self.submit_one(py, &op));
            match outcome {
                Ok(true) => accepted += 1,
                Ok(false) => break,
                Err(e) if accepted == 0 => return Err(e),
                Err(_) => break,
            }
        }
        if accepted > 0 {
            self.driver.get()?.flush()?;
        }
        Ok(accepted)
    }

    /// Takes events: at least `min`, at most `max` (None: all there are), unless `timeout` seconds pass first.
    ///
    /// `timeout` 0 only looks; None waits for ever. Never waits for more events than ops are pending. A signal's Python
    /// handler runs meanwhile; if it raises, no event is lost.
    #[pyo3(signature = (min=1, max=None, timeout=None))]
    fn wait<'py>(
        slf: &Bound<'py, Self>,
        min: usize,
        max: Option<usize>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let max = max.unwrap_or(usize::MAX);
        if max < min {
            return Err(PyValueError::new_err("max must not be less than min"));
        }
        let timeout = timeout.map(seconds).transpose()?;
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        loop {
            let left = match deadline {
                Some(deadline) => Some(deadline.saturating_duration_since(Instant::now())),
                None => timeout,
            };
            let mut guard = slf.try_borrow_mut().map_err(|_| {
                PyRuntimeError::new_err(
                    "this context is waiting already, in the code that this one interrupts",
                )
            })?;
            let this = &mut *guard;
            let mut done = Vec::new();
            let driver = this.driver.get()?;
            let waited = if driver.ready() >= min || left == Some(Duration::ZERO) {
                driver.wait(min, max, Some(Duration::ZERO), &mut done)
            } else {
                let mut parts = AssertSend((driver, &mut done));
                py.detach(|| {
                    let (driver, done) = parts.get();
                    driver.wait(min, max, left, done)
                })
            };
            match waited {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                    drop(guard);
                    // Runs the handlers, which may use this context.
                    py.check_signals()?;
                }
                Err(e) => return Err(e.into()),
                Ok(_) => {
                    let events = PyList::empty(py);
                    for completion in done {
                        events.append(this.event(py, completion)?)?;
                    }
                    return Ok(events);
                }
            }
        }
    }

    /// Asks for one op to stop and says what came of it. Its event comes all the same.
    ///
    /// Raises ValueError for an op that was not submitted here.
    fn cancel(&mut self, py: Python<'_>, op: &Bound<'_, Op>) -> PyResult<PyCancelOutcome> {
        let driver = self.driver.get()?;
        if driver.is_forked() {
            return Err(errors::refusal(py, &Refusal::Forked));
        }
        let token = match op.borrow().token() {
            Some(token) if self.submitted.get(&token).is_some_and(|own| own.is(op)) => token,
            None if !op.borrow().is_new() => return Ok(PyCancelOutcome::Finished),
            _ => return Err(PyValueError::new_err("this op is not submitted to this context")),
        };
        Ok(match driver.cancel(token) {
            CancelOutcome::Cancelled => PyCancelOutcome::Cancelled,
            CancelOutcome::Running => PyCancelOutcome::Running,
            CancelOutcome::Finished => PyCancelOutcome::Finished,
        })
    }

    /// A descriptor for another event loop, readable while events wait. Do not read from it or close it: `wait` does
    /// what is needed.
    fn fileno(&mut self) -> PyResult<i32> {
        Ok(self.driver.get()?.eventfd()?)
    }

    /// Ends the context: writes and syncs run to their end, everything else is cancelled, and the call returns when the
    /// kernel has let go of all buffers. Events that were not taken are lost. May be called twice.
    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        self.driver.close(py)?;
        for (_, op) in self.submitted.drain() {
            op.borrow_mut(py).done();
        }
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exc))]
    fn __exit__(&mut self, py: Python<'_>, _exc: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let state = if self.driver.is_closed() {
            "closed".into()
        } else {
            format!("{} pending", self.submitted.len())
        };
        format!("<proactor.aio.Context on {}, {state}>", self.engine.name())
    }
}
