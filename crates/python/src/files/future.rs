//! What a native coroutine suspends on: a future of the loop, as asyncio's tasks know one.
//!
//! asyncio's own costs a handle and two calls of Python code for each task that is woken, half of what a short await takes.
//! Here one handle of the loop, the driver's, wakes all whose ops have come: [`from_the_loop`]. A task may only be
//! stepped where no other is running, so what is woken from within a task goes through `call_soon`, as asyncio's do.

use crate::python_code;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use pyo3::PyTraverseError;
use std::cell::RefCell;

static RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static RUNNING_OR_NONE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static CANCELLED_ERROR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The loop that was running when a thread began to wait without one, or None, and what it waits on instead.
type Blocking = (Py<PyAny>, Py<PyAny>);

thread_local! {
    /// While this thread is in [`blocking_on`].
    static BLOCKING: RefCell<Option<Blocking>> = const { RefCell::new(None) };
    /// Done, and told to nobody yet: while this thread is in [`from_the_loop`].
    static WOKEN: RefCell<Option<Vec<Py<LoopFuture>>>> = const { RefCell::new(None) };
}

enum State {
    Pending,
    Done(Py<PyAny>),
    Failed(PyErr),
    Cancelled(Option<Py<PyAny>>),
}

/// A callback and the `contextvars` context that it runs in.
type Callback = (Py<PyAny>, Option<Py<PyAny>>);

/// A future that native code ends. To Python it is what a task waits for, and nothing to be made or ended by hand.
#[pyclass(weakref, module = "proactor._native")]
pub(crate) struct LoopFuture {
    event_loop: Py<PyAny>,
    state: State,
    callbacks: Vec<Callback>,
    /// How a coroutine tells the task that it is to wait for this, and has not been iterated over by mistake.
    #[pyo3(get, set, name = "_asyncio_future_blocking")]
    blocking: bool,
}

#[pymethods]
impl LoopFuture {
    fn get_loop(&self, py: Python<'_>) -> Py<PyAny> {
        self.event_loop.clone_ref(py)
    }

    pub(crate) fn done(&self) -> bool {
        !matches!(self.state, State::Pending)
    }

    pub(crate) fn cancelled(&self) -> bool {
        matches!(self.state, State::Cancelled(_))
    }

    /// Its value. The exception if it failed, CancelledError if it was cancelled.
    pub(crate) fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.state {
            State::Done(value) => Ok(value.clone_ref(py)),
            State::Failed(error) => Err(error.clone_ref(py)),
            State::Cancelled(message) => Err(cancelled_error(py, message.as_ref())?),
            State::Pending => Err(PyRuntimeError::new_err("Result is not set.")),
        }
    }

    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        if !is_done(slf) {
            return Ok(suspend_on(slf));
        }
        let value = slf.borrow().result(slf.py())?;
        Err(PyStopIteration::new_err((value,)))
    }

    /// Calls `callback` with the future when it is done.
    #[pyo3(signature = (callback, *, context=None))]
    fn add_done_callback(
        slf: &Bound<'_, Self>,
        callback: Py<PyAny>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        if slf.borrow().done() {
            return call_soon(slf, &(callback, context));
        }
        slf.borrow_mut().callbacks.push((callback, context));
        Ok(())
    }

    /// Takes back a callback. How often it was there.
    fn remove_done_callback(slf: &Bound<'_, Self>, callback: &Bound<'_, PyAny>) -> PyResult<usize> {
        let all = std::mem::take(&mut slf.borrow_mut().callbacks);
        // Comparing may run any code, so nothing is borrowed meanwhile.
        let (mut kept, mut removed) = (Vec::new(), 0);
        for one in all {
            if one.0.bind(slf.py()).eq(callback)? {
                removed += 1;
            } else {
                kept.push(one);
            }
        }
        // allocates: callbacks that were in it before
        slf.borrow_mut().callbacks.extend(kept);
        Ok(removed)
    }

    /// Ends it, unless it is done: True if that was so.
    #[pyo3(signature = (msg=None))]
    pub(crate) fn cancel(slf: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        end(slf, State::Cancelled(msg))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        if let State::Done(value) | State::Cancelled(Some(value)) = &self.state {
            visit.call(value)?;
        }
        for (callback, context) in &self.callbacks {
            visit.call(callback)?;
            visit.call(context)?;
        }
        Ok(())
    }

    fn __clear__(&mut self) {
        self.callbacks.clear();
        self.state = State::Cancelled(None);
    }
}

/// The loop that runs in this thread.
///
/// # Errors
/// RuntimeError if there is none.
pub(crate) fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let blocking = BLOCKING.with_borrow(|blocking| {
        let (outer, own) = blocking.as_ref()?;
        Some((outer.clone_ref(py), own.clone_ref(py)))
    });
    if let Some((outer, own)) = blocking {
        // The caller's code below may run a loop, which is then that code's.
        if running_or_none(py)?.is(&outer) {
            return Ok(own.into_bound(py));
        }
    }
    RUNNING_LOOP.import(py, "asyncio", "get_running_loop")?.call0()
}

/// The loop that asyncio runs in this thread, or None.
fn running_or_none(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    RUNNING_OR_NONE
        .import(py, "asyncio", "_get_running_loop")?
        .call0()
}

/// Runs `work` with `own` in the place of the running loop, in a thread that has none or whose loop has to wait.
///
/// # Errors
/// Those of `work`.
pub(super) fn blocking_on<T>(own: &Bound<'_, PyAny>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    struct Restore(Option<Blocking>);
    impl Drop for Restore {
        fn drop(&mut self) {
            BLOCKING.set(self.0.take());
        }
    }
    let outer = running_or_none(own.py())?.unbind();
    let _restore = Restore(BLOCKING.replace(Some((outer, own.clone().unbind()))));
    work()
}

/// A future of the running loop.
pub(crate) fn new_future(py: Python<'_>) -> PyResult<Bound<'_, LoopFuture>> {
    new_future_of(running_loop(py)?)
}

/// A future of a loop, which is known to be the running one. Before Python 3.12 asking for that one is a system call.
pub(crate) fn new_future_of(event_loop: Bound<'_, PyAny>) -> PyResult<Bound<'_, LoopFuture>> {
    let py = event_loop.py();
    Bound::new(
        py,
        LoopFuture {
            event_loop: event_loop.unbind(),
            state: State::Pending,
            callbacks: Vec::new(),
            blocking: false,
        },
    )
}

/// What `Future.__await__` does: marks the future, which is then yielded to the task.
pub(crate) fn suspend_on(future: &Bound<'_, LoopFuture>) -> Py<PyAny> {
    future.borrow_mut().blocking = true;
    future.clone().into_any().unbind()
}

/// Whether a future is done, cancelled ones among them.
pub(crate) fn is_done(future: &Bound<'_, LoopFuture>) -> bool {
    future.borrow().done()
}

/// Wakes whoever waits for this future. False if nobody does any more.
pub(crate) fn wake(future: &Bound<'_, LoopFuture>) -> PyResult<bool> {
    end(future, State::Done(future.py().None()))
}

/// Ends a future with a result, unless it is done.
pub(crate) fn resolve(future: &Bound<'_, LoopFuture>, value: PyResult<Py<PyAny>>) -> PyResult<bool> {
    end(future, value.map_or_else(State::Failed, State::Done))
}

fn end(future: &Bound<'_, LoopFuture>, state: State) -> PyResult<bool> {
    let mut this = future.borrow_mut();
    if this.done() {
        return Ok(false);
    }
    this.state = state;
    if this.callbacks.is_empty() {
        return Ok(true);
    }
    drop(this);
    let later = WOKEN.with_borrow_mut(|woken| {
        let list = woken.as_mut();
        list.map(|list| list.push(future.clone().unbind())).is_some()
    });
    if !later {
        tell_soon(future)?;
    }
    Ok(true)
}

/// Runs `work` in a handle of the loop, so in no task, and then wakes whoever waits for the futures that it has ended.
///
/// # Errors
/// Those of `work`; what a task lets through that ends the loop (KeyboardInterrupt, SystemExit). The others are woken all
/// the same, by the loop.
pub(crate) fn from_the_loop(py: Python<'_>, work: impl FnOnce() -> PyResult<()>) -> PyResult<()> {
    let collector = Collector {
        outer: WOKEN.replace(Some(Vec::new())),
    };
    let outcome = work();
    outcome.and(tell_all(py, collector.finish()))
}

/// Puts back what was there before, in a panic as well: a list that nobody looks at would swallow all that come.
struct Collector {
    outer: Option<Vec<Py<LoopFuture>>>,
}

impl Collector {
    fn finish(mut self) -> Vec<Py<LoopFuture>> {
        WOKEN.replace(self.outer.take()).unwrap_or_default()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        WOKEN.set(self.outer.take());
    }
}

fn tell_all(py: Python<'_>, woken: Vec<Py<LoopFuture>>) -> PyResult<()> {
    let mut outcome = Ok(());
    for future in woken {
        let future = future.bind(py);
        let told = if outcome.is_ok() {
            tell_now(future)
        } else {
            tell_soon(future)
        };
        outcome = outcome.and(told);
    }
    outcome
}

fn tell_now(future: &Bound<'_, LoopFuture>) -> PyResult<()> {
    let py = future.py();
    let mut callbacks = std::mem::take(&mut future.borrow_mut().callbacks).into_iter();
    while let Some((callback, context)) = callbacks.next() {
        let told = match context {
            Some(context) => {
                let args = [callback.bind(py), future.as_any()];
                python_code::call_method(context.bind(py), intern!(py, "run"), args)
            }
            None => PyTuple::new(py, [future]).and_then(|args| python_code::call(callback.bind(py), &args)),
        };
        if let Err(e) = told {
            // allocates: callbacks that were in it before
            future.borrow_mut().callbacks.extend(callbacks);
            return tell_soon(future).and(Err(e));
        }
    }
    Ok(())
}

fn tell_soon(future: &Bound<'_, LoopFuture>) -> PyResult<()> {
    let callbacks = std::mem::take(&mut future.borrow_mut().callbacks);
    callbacks
        .iter()
        .try_for_each(|callback| call_soon(future, callback))
}

fn call_soon(future: &Bound<'_, LoopFuture>, (callback, context): &Callback) -> PyResult<()> {
    let py = future.py();
    let event_loop = future.borrow().event_loop.clone_ref(py);
    static NAMES: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();
    let names = NAMES.get_or_try_init(py, || PyTuple::new(py, ["context"]).map(Bound::unbind))?;
    let none = py.None();
    let context = context.as_ref().unwrap_or(&none).bind(py);
    let args = [callback.bind(py), future.as_any(), context];
    let call_soon = intern!(py, "call_soon");
    python_code::call_method_with(event_loop.bind(py), call_soon, args, Some(names.bind(py)))?;
    Ok(())
}

fn cancelled_error(py: Python<'_>, message: Option<&Py<PyAny>>) -> PyResult<PyErr> {
    let class = CANCELLED_ERROR.import(py, "asyncio", "CancelledError")?;
    let error = match message {
        Some(message) => class.call1((message,))?,
        None => class.call0()?,
    };
    Ok(PyErr::from_value(error))
}
