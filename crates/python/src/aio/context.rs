//! The context: a driver with Python's manners.

use super::event::Event;
use super::op::Op;
use super::outcome::outcome;
use super::shared::Shared;
use super::waiting::Deadline;
use crate::errors;
use crate::memory::lacking;
use crate::thread_bound::{AssertSend, ThreadBound};
use proactor_engine::{CancelOutcome, Completion, Config, Engine, Output, Refusal, SqPoll, Token};
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use pyo3::PyTraverseError;
use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// A queue of ops, used by the thread that made it, and a context manager that closes it.
///
/// - `max_jobs`: how many ops may be submitted and not yet be taken by `wait`, 1 to 32768.
/// - `engine`: "io_uring", "linux_aio", "posix_aio", "threads", "sim"; None or "auto" for the best that works here, or
///   what PROACTOR_ENGINE names. An unknown name raises ValueError, one that cannot be had OSError.
/// - `sqpoll`: let a kernel thread poll the submission queue (io_uring, Linux 5.13 without privilege): True for an idle
///   time of 1 s, or that many seconds; None or False for none. `sqpoll_cpu` binds it to a processor.
/// - `iopoll`: poll the device for completions (io_uring, O_DIRECT, devices with poll queues). With another engine that is named,
///   it and `sqpoll` raise ValueError; with one that was chosen, RuntimeWarning.
/// - `backlog`: ops accepted beyond `max_jobs`, which wait in user space.
/// - `inline`: finish at once what needs no waiting, such as reads of cached pages.
/// - `max_threads`: the most worker threads for what the engine has no other way to do, 1 to 1024; None is 8 per
///   processor, at most 64. They start with the first such op, and end when idle.
/// - `shared`: any thread may use the context, one call at a time; while one waits, others may submit. Not on io_uring.
///
/// io_uring is there since Linux 5.10 and Linux AIO in every Linux; where neither may be used, threads do it all.
///
/// Another thread's call raises RuntimeError unless it is shared, as does a forked child's: make a context in each. The
/// attributes may be read by any. A context that is dropped closes itself; dropped in another thread, its own thread does that at its next
/// use of a context, or at its end. In a forked child a copy can be dropped or closed, and touches nothing of the
/// parent's.
#[pyclass(frozen, weakref, module = "proactor.aio")]
pub(crate) struct Context {
    pub(super) inner: Mutex<Inner>,
    engine: Engine,
    reason: String,
    max_jobs: u32,
    pending: AtomicUsize,
    closed: AtomicBool,
    pub(super) owner: ThreadId,
    pub(super) shared: Option<Shared>,
}

pub(super) struct Inner {
    pub(super) driver: ThreadBound,
    submitted: HashMap<Token, Py<Op>>,
    /// Of a shared context: collected by a thread that waits for more of them.
    pub(super) collected: VecDeque<Completion>,
}

/// The simulator and `backlog` aside, what io_uring and Linux AIO take at most.
const MAX_JOBS: u32 = 32_768;
/// Beyond that, threads cost more than they bring.
const MAX_THREADS: usize = 1024;

pub(crate) fn parse_engine(name: Option<&str>) -> PyResult<Option<Engine>> {
    match name {
        None | Some("auto") => Ok(None),
        Some(name) => name
            .parse()
            .map(Some)
            .map_err(|e: proactor_engine::probe::UnknownEngine| PyValueError::new_err(e.to_string())),
    }
}

fn parse_sqpoll(sqpoll: Option<&Bound<'_, PyAny>>, cpu: Option<u32>) -> PyResult<Option<SqPoll>> {
    let idle = match sqpoll {
        None => None,
        Some(value) if value.is_instance_of::<pyo3::types::PyBool>() => {
            value.extract::<bool>()?.then_some(Duration::from_secs(1))
        }
        Some(value) => Some(seconds("sqpoll", value.extract()?)?),
    };
    match (idle, cpu) {
        (Some(idle), cpu) => Ok(Some(SqPoll::new(idle).cpu(cpu))),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(PyValueError::new_err("sqpoll_cpu needs sqpoll")),
    }
}

fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let category = py.get_type::<PyRuntimeWarning>();
    // allocates: a text of ours
    PyErr::warn(py, &category, &CString::new(text)?, 1)
}

fn seconds(name: &str, value: f64) -> PyResult<Duration> {
    if value.is_nan() || value < 0.0 {
        return Err(PyValueError::new_err(format!(
            "{name} is a number of seconds, not {value}"
        )));
    }
    Ok(Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX))
}

impl Inner {
    fn submit_one(&mut self, py: Python<'_>, op: &Bound<'_, Op>) -> PyResult<bool> {
        // Ours until it is submitted: a file's fileno() is the caller's code, and lets other threads run.
        let mut this = op
            .try_borrow_mut()
            .map_err(|_| PyRuntimeError::new_err("this op is being submitted in another thread"))?;
        let (prepared, options) = this.prepare(py)?;
        self.submitted.try_reserve(1).map_err(lacking)?;
        let driver = self.driver.get()?;
        match driver.submit_with(prepared, options) {
            Ok(token) => {
                this.submitted(token);
                self.submitted.insert(token, op.clone().unbind());
                Ok(true)
            }
            Err(e) if matches!(e.refusal, Refusal::Full { .. }) => Ok(false),
            Err(e) => Err(errors::refusal(py, &e.refusal)),
        }
    }

    /// Ops whose events have not been taken.
    pub(super) fn pending(&self) -> usize {
        self.submitted.len()
    }

    pub(super) fn event(&mut self, py: Python<'_>, completion: Completion) -> PyResult<Event> {
        let op = self
            .submitted
            .remove(&completion.token)
            .ok_or_else(|| PyRuntimeError::new_err("a completion of an op that nobody submitted"))?;
        op.borrow_mut(py).done();
        let number = match &completion.result {
            Ok(Output::Events(events)) => Ok(usize::from(events.bits())),
            _ => completion.count(),
        };
        Ok(match number {
            Ok(count) => Event::new(op, count as i64, None),
            Err(error) => {
                let this = op.borrow(py);
                let filename = this.filename(py);
                let exception = errors::os_error(py, &error, filename.as_ref()).into_value(py);
                exception
                    .bind(py)
                    .setattr(intern!(py, "op"), this.kind().name())?;
                drop(this);
                Event::new(op, -i64::from(error.errno()), Some(exception.into_any()))
            }
        })
    }

    /// What became of the ops is nobody's business any more.
    fn forget_ops(&mut self, py: Python<'_>) {
        for (_, op) in std::mem::take(&mut self.submitted) {
            if let Ok(mut op) = op.try_borrow_mut(py) {
                op.done();
            }
        }
    }
}

impl Context {
    pub(super) fn note_pending(&self, inner: &Inner) {
        self.pending.store(inner.pending(), Ordering::Relaxed);
    }
}

#[pymethods]
impl Context {
    #[new]
    #[pyo3(signature = (max_jobs=128, *, engine=None, sqpoll=None, sqpoll_cpu=None, iopoll=false, backlog=0, inline=true, max_threads=None, shared=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::whole::max_jobs)] max_jobs: i64,
        engine: Option<&str>,
        sqpoll: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = crate::whole::sqpoll_cpu)] sqpoll_cpu: Option<u32>,
        iopoll: bool,
        #[pyo3(from_py_with = crate::whole::backlog)] backlog: i64,
        inline: bool,
        #[pyo3(from_py_with = crate::whole::max_threads)] max_threads: Option<i64>,
        shared: bool,
    ) -> PyResult<Self> {
        let max_jobs = u32::try_from(max_jobs)
            .ok()
            .filter(|jobs| (1..=MAX_JOBS).contains(jobs))
            .ok_or_else(|| PyValueError::new_err(format!("max_jobs is 1 to {MAX_JOBS}, not {max_jobs}")))?;
        let backlog = usize::try_from(backlog)
            .map_err(|_| PyValueError::new_err(format!("backlog must not be negative, not {backlog}")))?;
        let mut config = Config::default()
            .depth(max_jobs)
            .backlog(backlog)
            .inline(inline)
            .iopoll(iopoll);
        if let Some(threads) = max_threads {
            let bounded = usize::try_from(threads)
                .ok()
                .filter(|threads| (1..=MAX_THREADS).contains(threads));
            config = config.max_threads(bounded.ok_or_else(|| {
                PyValueError::new_err(format!("max_threads is 1 to {MAX_THREADS}, not {threads}"))
            })?);
        }
        let named = parse_engine(engine)?;
        let sqpoll = parse_sqpoll(sqpoll, sqpoll_cpu)?;
        let of_a_ring = match (&sqpoll, iopoll) {
            (Some(_), _) => Some("sqpoll"),
            (None, true) => Some("iopoll"),
            (None, false) => None,
        };
        if let (Some(option), Some(engine)) = (of_a_ring, named.filter(|engine| *engine != Engine::IoUring)) {
            return Err(PyValueError::new_err(format!(
                "{option} has no effect on the engine {engine}: leave it out, or name io_uring"
            )));
        }
        if let Some(engine) = named {
            config = config.engine(engine);
        }
        if let Some(sqpoll) = sqpoll {
            config = config.sqpoll(sqpoll);
        }
        let mut driver = config.build().map_err(|e| errors::no_engine(py, &e, "context"))?;
        let chosen = driver.chosen().clone();
        if let Some(option) = of_a_ring.filter(|_| chosen.engine != Engine::IoUring) {
            let text = format!(
                "{option} has no effect: the engine is {} ({})",
                chosen.engine, chosen.reason
            );
            warn(py, &text)?;
        }
        let shared = if !shared {
            None
        } else if chosen.engine == Engine::IoUring {
            return Err(PyValueError::new_err(
                "a shared context cannot be on io_uring, whose ring answers one thread: name another engine",
            ));
        } else {
            let made = driver.eventfd().and_then(Shared::new);
            Some(made.map_err(|e| errors::io_error(py, &e, "context"))?)
        };
        let inner = Inner {
            driver: match shared {
                Some(_) => ThreadBound::of_all_threads(driver),
                None => ThreadBound::new(driver),
            },
            submitted: HashMap::new(),
            collected: VecDeque::new(),
        };
        Ok(Context {
            inner: Mutex::new(inner),
            engine: chosen.engine,
            reason: chosen.reason,
            max_jobs,
            pending: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            owner: thread::current().id(),
            shared,
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
        self.pending.load(Ordering::Relaxed)
    }

    /// Whether `close()` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Submits ops in order and returns how many were accepted; the rest is untouched. Fewer than all: `max_jobs + backlog`
    /// ops are pending (take events with `wait`, then submit the rest), or the next one is refused.
    ///
    /// Raises ValueError for an op that is submitted already or can never succeed, and OSError for one whose path cannot be
    /// opened, if it is the first; otherwise such an op ends the count.
    #[pyo3(signature = (*ops))]
    fn submit(&self, py: Python<'_>, ops: &Bound<'_, PyTuple>) -> PyResult<usize> {
        let mut inner = self.inner(py)?;
        inner.driver.get()?;
        let mut accepted = 0;
        let mut refused = None;
        for op in ops {
            let outcome = op
                .cast_into::<Op>()
                .map_err(PyErr::from)
                .and_then(|op| inner.submit_one(py, &op));
            match outcome {
                Ok(true) => accepted += 1,
                Ok(false) => break,
                Err(e) => {
                    refused = Some(e);
                    break;
                }
            }
        }
        self.note_pending(&inner);
        match refused {
            Some(e) if accepted == 0 => return Err(e),
            _ if accepted > 0 => {
                // They are accepted whatever the kernel says: the next wait hands them over, or tells.
                let _ = inner.driver.get()?.flush();
            }
            _ => {}
        }
        Ok(accepted)
    }

    /// Takes events: at least `min`, at most `max` (None: all there are), unless `timeout` seconds pass first.
    ///
    /// `timeout` 0 only looks; None waits for ever. Never waits for more events than ops are pending, unless the context is
    /// shared: then another thread may submit more. A signal's Python handler runs meanwhile; if it raises, no event is
    /// lost. After it the wait goes on; with `resume=False` it raises InterruptedError.
    ///
    /// Raises ValueError for a negative number, NaN, or `max` below `min`.
    #[pyo3(signature = (min=1, max=None, timeout=None, *, resume=true))]
    fn wait<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = crate::whole::min)] min: isize,
        #[pyo3(from_py_with = crate::whole::max)] max: Option<isize>,
        timeout: Option<f64>,
        resume: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let count = |name, value: isize| {
            usize::try_from(value).map_err(|_| PyValueError::new_err(format!("{name} must not be negative")))
        };
        let (min, max) = (count("min", min)?, max.map(|max| count("max", max)).transpose()?);
        let max = max.unwrap_or(usize::MAX);
        if max < min {
            return Err(PyValueError::new_err("max must not be less than min"));
        }
        let timeout = timeout.map(|t| seconds("timeout", t)).transpose()?;
        let deadline = Deadline::after(timeout);
        if let Some(shared) = &self.shared {
            return self.wait_shared(py, shared, (min, max), deadline, resume);
        }
        loop {
            let left = deadline.left();
            let mut inner = self.inner(py)?;
            let mut done = Vec::new();
            let driver = inner.driver.get()?;
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
                    drop(inner);
                    // Runs the handlers, which may use this context.
                    py.check_signals()?;
                    if !resume {
                        return Err(errors::io_error(py, &e, "wait"));
                    }
                }
                Err(e) => return Err(errors::io_error(py, &e, "wait")),
                Ok(_) => {
                    let events = PyList::empty(py);
                    for completion in done {
                        events.append(inner.event(py, completion)?)?;
                    }
                    self.note_pending(&inner);
                    return Ok(events);
                }
            }
        }
    }

    /// Asks for one op to stop and says what came of it. Its event comes all the same.
    ///
    /// Raises ValueError for an op that was never submitted, or is submitted to another context.
    fn cancel(&self, py: Python<'_>, op: &Bound<'_, Op>) -> PyResult<Py<PyAny>> {
        let mut inner = self.inner(py)?;
        inner.driver.get()?;
        let token = op.try_borrow()?.token();
        let token = match token {
            Some(token) if inner.submitted.get(&token).is_some_and(|own| own.is(op)) => token,
            None if !op.try_borrow()?.is_new() => return outcome(py, CancelOutcome::Finished),
            _ => return Err(PyValueError::new_err("this op is not submitted to this context")),
        };
        outcome(py, inner.driver.get()?.cancel(token))
    }

    /// A descriptor for another event loop, readable while events wait. Do not read from it or close it: `wait` does
    /// what is needed. Ask for it before there are ops: on linux_aio, the first call waits for the transfers in flight.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.inner(py)?
            .driver
            .get()?
            .eventfd()
            .map_err(|e| errors::io_error(py, &e, "fileno"))
    }

    /// Ends the context: writes and syncs run to their end, everything else is cancelled, and the call returns when the
    /// kernel has let go of all buffers. Events that were not taken are lost. May be called twice.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut inner = self.inner(py)?;
        inner.driver.close()?;
        self.closed.store(true, Ordering::Relaxed);
        inner.collected.clear();
        if let Some(shared) = &self.shared {
            shared.close();
        }
        inner.forget_ops(py);
        self.note_pending(&inner);
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().inner(slf.py())?.driver.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exc))]
    fn __exit__(&self, py: Python<'_>, _exc: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let state = if self.closed() {
            "closed".into()
        } else {
            format!("{} pending", self.pending())
        };
        format!("<proactor.aio.Context on {}, {state}>", self.engine.name())
    }

    // What is not visited, because the context is waiting in its thread, counts as used: right.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.inner.try_lock() {
            Ok(inner) => inner.submitted.values().try_for_each(|op| visit.call(op)),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        if let Ok(mut inner) = self.inner.try_lock() {
            inner.driver.let_go();
            let ops = std::mem::take(&mut inner.submitted);
            drop(inner);
            drop(ops);
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.driver.let_go();
        if !inner.submitted.is_empty() {
            let _ = Python::try_attach(|py| inner.forget_ops(py));
        }
    }
}
