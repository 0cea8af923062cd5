//! Many whole files behind one asynchronous iterator.
//!
//! A cached file is read in the calling thread and handed out without suspending. Others go to the engine, up to
//! `concurrency` at once, while the ones before them are being used. With `workers`, other threads read chunks of the
//! cached files too. Invariant: no more than `concurrency` files are in flight or held, whatever the consumer does.

use super::at_hand::AtHand;
use super::call::FILE_BYTES;
use super::driver::{self, LoopDriver, LoopFuture, Waiter};
use super::future::blocking_on;
use super::help::{Help, LEAST_CONCURRENCY};
use super::progress::{callable, Progress};
use super::read_many_step::ReadManyStep;
use super::request::Target;
use crate::coroutine::Outcome;
use crate::errors;
use crate::file::Turn;
use crate::python_code;
use crate::whole::at_least;
use proactor_engine::op::ReadFile;
use pyo3::exceptions::{PyRuntimeError, PyStopAsyncIteration, PyStopIteration, PyTypeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyString, PyTuple, PyType, PyWeakrefReference};
use pyo3::PyTraverseError;
use std::collections::BTreeMap;

/// With files in flight the clock is looked at each time.
const LOOK_BYTES: usize = 1 << 16;
/// New files looked at per file handed out, while some are in flight: keeps the queue full without hogging the loop.
const TOP_UP: usize = 4;
/// Files queued before they are sent to the kernel although the loop has not come round.
const FLUSH_EVERY: usize = 16;

pub(super) type Item = (Py<PyAny>, PyResult<Py<PyAny>>);

/// The asynchronous iterator of `read_many`.
#[pyclass(subclass, weakref, module = "proactor._native")]
pub(crate) struct ReadMany {
    /// Itself, as those know it that wait for its files: they do not keep alive a batch that nobody has any more.
    weak: Option<Py<PyWeakrefReference>>,
    pub(super) paths: Py<PyIterator>,
    pub(super) target: Target,
    pub(super) progress: Option<Progress>,
    pub(super) concurrency: usize,
    ordered: bool,
    return_exceptions: bool,
    engine: Option<String>,
    driver: Option<Py<LoopDriver>>,
    /// Read and not yet handed out, by their place among `paths`; when unordered, by their place of arrival.
    pub(super) ready: BTreeMap<u64, Item>,
    pub(super) next_sequence: u64,
    pub(super) next_out: u64,
    /// What comes before all that is in `ready`.
    pub(super) at_hand: AtHand,
    pub(super) in_flight: usize,
    pub(super) help: Help,
    pub(super) unflushed: usize,
    pub(super) exhausted: bool,
    waiter: Option<Py<LoopFuture>>,
    /// Lets the loop go round before it goes on.
    gave_way: bool,
}

#[pymethods]
impl ReadMany {
    #[new]
    #[pyo3(signature = (paths, *, concurrency=64, ordered=true, return_exceptions=false, workers=0, engine=None, into=None, progress=None, given=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        paths: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = crate::whole::concurrency)] concurrency: i64,
        ordered: bool,
        return_exceptions: bool,
        #[pyo3(from_py_with = crate::whole::workers)] workers: i64,
        engine: Option<String>,
        into: Option<Bound<'_, PyAny>>,
        progress: Option<Bound<'_, PyAny>>,
        given: bool,
    ) -> PyResult<Self> {
        if paths.is_instance_of::<PyString>() || paths.is_instance_of::<PyBytes>() {
            return Err(PyTypeError::new_err(
                "paths is an iterable of paths, not one path",
            ));
        }
        let concurrency = at_least("concurrency", 1, concurrency)?;
        let workers = at_least("workers", 0, workers)?;
        if workers > 0 && concurrency < LEAST_CONCURRENCY {
            return Err(PyValueError::new_err(format!(
                "workers has no effect with concurrency={concurrency}, which is less than {LEAST_CONCURRENCY}"
            )));
        }
        let into = into.map(|into| callable("into", into)).transpose()?;
        let progress = progress.map(|call| callable("progress", call)).transpose()?;
        let target = match into {
            Some(make) => Target::Made(make),
            None if given => Target::Given,
            None => Target::Bytes,
        };
        if workers > 0 && !target.is_bytes() {
            return Err(PyValueError::new_err(
                "workers has no effect on files that are read into the caller's buffers: leave it out",
            ));
        }
        let paths = paths.try_iter()?;
        Ok(ReadMany {
            weak: None,
            at_hand: AtHand::new(&paths, workers > 0 || !target.is_bytes()),
            paths: paths.unbind(),
            target,
            progress: progress.map(Progress::new),
            concurrency,
            ordered,
            return_exceptions,
            engine,
            driver: None,
            ready: BTreeMap::new(),
            next_sequence: 0,
            next_out: 0,
            in_flight: 0,
            help: Help::new(workers),
            unflushed: 0,
            exhausted: false,
            waiter: None,
            gave_way: false,
        })
    }

    /// Generic in the type of a path and of what is read, for type checkers.
    #[classmethod]
    fn __class_getitem__(cls: &Bound<'_, PyType>, types: &Bound<'_, PyAny>) -> Py<PyType> {
        let _ = types;
        cls.clone().unbind()
    }

    /// Gives up what is in flight and what was read ahead: there is no next file.
    fn _close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let mut this = slf.borrow_mut();
        if this
            .waiter
            .as_ref()
            .is_some_and(|waiter| !driver::is_done(waiter.bind(slf.py())))
        {
            return Err(PyRuntimeError::new_err(
                "a task is waiting for the next file of this read_many()",
            ));
        }
        this.exhausted = true;
        this.in_flight = 0;
        let ready = (std::mem::take(&mut this.ready), this.at_hand.take_all());
        let driver = this.driver.take();
        drop(this);
        drop(ready);
        if let Some(driver) = driver {
            let weak = slf.borrow().weak.as_ref().map(|weak| weak.clone_ref(slf.py()));
            if let Some(weak) = weak {
                driver.borrow_mut(slf.py()).abandon_batch(&weak);
            }
        }
        Ok(())
    }

    /// The next pair, without a running loop: `event_loop` runs until each future that has to come first is done.
    fn _next(slf: &Bound<'_, Self>, event_loop: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        blocking_on(event_loop, || loop {
            match Self::advance(slf) {
                Ok(Outcome::Return(pair)) => return Ok(pair.unwrap_or_else(|| py.None())),
                Ok(Outcome::Suspend(future)) => {
                    let run = intern!(py, "run_until_done");
                    let waited = python_code::call_method(event_loop, run, [future.bind(py)]);
                    waited.inspect_err(|_| Self::stop_waiting(slf))?;
                }
                Err(e) if e.is_instance_of::<PyStopAsyncIteration>(py) => {
                    return Err(PyStopIteration::new_err(()));
                }
                Err(e) => return Err(e),
            }
        })
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, ReadManyStep>> {
        ReadManyStep::new(slf)
    }

    /// Refuses: one file is not what `await read_many(...)` asks for.
    fn __await__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "read_many() cannot be awaited: use `async for path, data in read_many(...)`, or `await anext(batch)` for one file",
        ))
    }

    // The paths may come from whoever has the batch. (An error of ours in `ready` knows nobody.)
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.paths)?;
        self.target.traverse(&visit)?;
        visit.call(self.progress.as_ref().map(Progress::callback))?;
        visit.call(&self.driver)?;
        visit.call(&self.waiter)?;
        self.ready
            .values()
            .chain(self.at_hand.items())
            .try_for_each(|(path, value)| {
                visit.call(path)?;
                value.as_ref().map_or(Ok(()), |value| visit.call(value))
            })
    }

    fn __clear__(&mut self) {
        self.waiter = None;
        self.progress = None;
        self.target = Target::Bytes;
        self.ready.clear();
        self.at_hand.take_all();
    }
}

impl ReadMany {
    /// Goes on to the next file.
    pub(super) fn advance(slf: &Bound<'_, Self>) -> PyResult<Outcome> {
        Self::tell_progress(slf)?;
        let driver = Self::driver(slf)?;
        if slf.borrow_mut().gives_way(&mut driver.borrow_mut().turn) {
            return driver::give_way(&driver).map(Outcome::Suspend);
        }
        loop {
            if let Some(item) = Self::fill(slf, &driver)? {
                if slf.borrow().unflushed > 0 {
                    // Nobody knows when, or whether, the consumer comes back.
                    driver::schedule_flush(&driver)?;
                }
                return Self::hand_out(slf, item);
            }
            if slf.borrow().is_spent() {
                return Err(PyStopAsyncIteration::new_err(()));
            }
            // Submits, and takes what is there already: maybe there is no need to suspend.
            slf.borrow_mut().unflushed = 0;
            driver::dispatch(&driver)?;
            if !slf.borrow().deliverable() {
                if !driver.borrow().serves(slf.py()) {
                    return Err(PyRuntimeError::new_err(
                        "this read_many() belongs to another event loop",
                    ));
                }
                return Self::suspend(slf).map(Outcome::Suspend);
            }
        }
    }

    /// The step that waits for the next file is given up.
    pub(super) fn stop_waiting(slf: &Bound<'_, Self>) {
        if let Ok(mut this) = slf.try_borrow_mut() {
            this.waiter = None;
        }
    }
}

impl Drop for ReadMany {
    /// Files in flight are given up: a cancelled batch of large files would be read on for gigabytes.
    fn drop(&mut self) {
        let (Some(driver), Some(weak), true) = (self.driver.take(), self.weak.take(), self.in_flight > 0)
        else {
            return;
        };
        errors::in_drop(|py| {
            if let Ok(mut driver) = driver.try_borrow_mut(py) {
                driver.abandon_batch(&weak);
            }
        });
    }
}

impl ReadMany {
    /// A file that was in flight has come.
    pub(super) fn arrived(
        slf: &Bound<'_, Self>,
        sequence: u64,
        path: Py<PyAny>,
        value: PyResult<Py<PyAny>>,
    ) -> PyResult<()> {
        let py = slf.py();
        let waiter = {
            let mut this = slf.borrow_mut();
            this.in_flight -= 1;
            this.ready.insert(sequence, (path, value));
            if this.deliverable() {
                this.waiter.take()
            } else {
                None
            }
        };
        if let Some(waiter) = waiter {
            driver::wake(waiter.bind(py))?;
        }
        Ok(())
    }

    fn deliverable(&self) -> bool {
        if !self.at_hand.is_empty() {
            true
        } else if self.ordered {
            self.ready.contains_key(&self.next_out)
        } else {
            !self.ready.is_empty()
        }
    }

    fn take(&mut self) -> Option<Item> {
        if let Some(item) = self.at_hand.next() {
            self.next_out += 1;
            return Some(item);
        }
        if self.ordered {
            let item = self.ready.remove(&self.next_out)?;
            self.next_out += 1;
            return Some(item);
        }
        self.ready.pop_first().map(|(_, item)| item)
    }

    fn is_spent(&self) -> bool {
        self.exhausted && self.in_flight == 0 && self.ready.is_empty() && self.at_hand.is_empty()
    }

    fn has_room(&self) -> bool {
        !self.exhausted && self.in_flight + self.ready.len() + self.at_hand.len() < self.concurrency
    }

    /// Looks at one more path: reads the file if it is cached, hands it to the engine if not. Returns the file if it is
    /// the next to hand out, and keeps it otherwise.
    fn start_one(slf: &Bound<'_, Self>, driver: &Bound<'_, LoopDriver>) -> PyResult<Option<Item>> {
        let py = slf.py();
        let paths = slf.borrow().paths.clone_ref(py);
        // The caller's iterator may do anything, so nothing is borrowed here.
        let Some(path) = python_code::next(paths.bind(py).as_any())? else {
            slf.borrow_mut().exhausted = true;
            return Ok(None);
        };
        let mut this = slf.borrow_mut();
        let sequence = this.next_sequence;
        this.next_sequence += 1;
        let target = this.target.clone_ref(py);
        drop(this);
        let mut read = match target.request(&path) {
            Ok(read) => read,
            Err(e) => return Ok(slf.borrow_mut().hand_over(sequence, (path.unbind(), Err(e)))),
        };
        let value = target.read_now(&mut read, &path);
        let mut this = slf.borrow_mut();
        if let Some(value) = value {
            this.help.was_cached(read.len());
            this.at_hand.was_cached(read.len());
            driver.borrow_mut().turn.used(read.len());
            return Ok(this.hand_over(sequence, (path.unbind(), value)));
        }
        this.help.was_cold();
        this.at_hand.was_cold();
        this.in_flight += 1;
        drop(this);
        Self::submit(slf, driver, sequence, path.unbind(), read)?;
        Ok(None)
    }

    /// Hands one file, counted as in flight already, to the engine.
    pub(super) fn submit(
        slf: &Bound<'_, Self>,
        driver: &Bound<'_, LoopDriver>,
        sequence: u64,
        path: Py<PyAny>,
        read: ReadFile,
    ) -> PyResult<()> {
        let py = slf.py();
        let waiter = Waiter::Many {
            batch: Self::weak(slf)?,
            sequence,
            path: path.clone_ref(py),
        };
        let submitted = driver.borrow_mut().submit(py, read, waiter);
        match submitted {
            Ok(_) => slf.borrow_mut().unflushed += 1,
            // That file's error: those after it are waited for all the same.
            Err(e) => Self::arrived(slf, sequence, path, Err(e))?,
        }
        Ok(())
    }

    /// How those know it who wait for its files.
    pub(super) fn weak(slf: &Bound<'_, Self>) -> PyResult<Py<PyWeakrefReference>> {
        let py = slf.py();
        if let Some(weak) = &slf.borrow().weak {
            return Ok(weak.clone_ref(py));
        }
        let weak = PyWeakrefReference::new(slf.as_any())?.unbind();
        slf.borrow_mut().weak = Some(weak.clone_ref(py));
        Ok(weak)
    }

    /// Straight to the consumer if it is this file's turn.
    fn hand_over(&mut self, sequence: u64, item: Item) -> Option<Item> {
        if self.in_flight == 0 && self.ready.is_empty() {
            self.next_out = sequence + 1;
            return Some(item);
        }
        self.ready.insert(sequence, item);
        None
    }

    /// Keeps the engine busy, and finds something to hand out.
    fn fill(slf: &Bound<'_, Self>, driver: &Bound<'_, LoopDriver>) -> PyResult<Option<Item>> {
        if let Some(item) = Self::at_hand(slf, driver)? {
            return Ok(Some(item));
        }
        let mut started = 0;
        loop {
            if slf.borrow().help.has_come() {
                driver::dispatch(driver)?;
            }
            Self::start_chunk(slf, driver)?;
            let mut this = slf.borrow_mut();
            if this.unflushed >= FLUSH_EVERY {
                this.unflushed = 0;
                driver.borrow_mut().flush_now(slf.py())?;
            }
            let deliverable = this.deliverable();
            let enough = deliverable && (this.in_flight == this.help.files || started >= TOP_UP);
            if enough || !this.has_room() {
                return Ok(this.take());
            }
            drop(this);
            if let Some(item) = Self::start_one(slf, driver)? {
                return Ok(Some(item));
            }
            started += 1;
        }
    }

    /// Whether the loop has to go round first. Not twice in a row.
    fn gives_way(&mut self, turn: &mut Turn) -> bool {
        if std::mem::take(&mut self.gave_way) {
            turn.go_on();
            return false;
        }
        let more = if self.in_flight > 0 {
            LOOK_BYTES
        } else {
            FILE_BYTES
        };
        self.gave_way = turn.charge(more);
        self.gave_way
    }
}

impl ReadMany {
    fn driver<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, LoopDriver>> {
        let py = slf.py();
        let this = slf.borrow();
        if let Some(driver) = &this.driver {
            return Ok(driver.bind(py).clone());
        }
        let engine = this.engine.clone();
        drop(this);
        let driver = driver::current(py, engine.as_deref(), "read_file", None)?;
        slf.borrow_mut().driver = Some(driver.clone().unbind());
        Ok(driver)
    }

    fn hand_out(slf: &Bound<'_, Self>, (path, value): Item) -> PyResult<Outcome> {
        let py = slf.py();
        slf.borrow_mut().count(&value, py);
        let value = match value {
            Err(e) if slf.borrow().return_exceptions => e.into_value(py).into_any(),
            value => value?,
        };
        let pair = PyTuple::new(py, [path, value])?;
        Ok(Outcome::Return(Some(pair.into_any().unbind())))
    }

    fn suspend(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let future = driver::new_future(py)?;
        let mut this = slf.borrow_mut();
        if this.waiter.is_some() {
            return Err(PyRuntimeError::new_err(
                "another task is waiting for this read_many() already",
            ));
        }
        this.waiter = Some(future.clone().unbind());
        drop(this);
        Ok(driver::suspend_on(&future))
    }
}
