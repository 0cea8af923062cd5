//! Many whole files behind one asynchronous iterator.
//!
//! A cached file is read in the calling thread and handed out without suspending. Others go to the engine, up to
//! `concurrency` at once, while the ones before them are being used. With `workers`, other threads read chunks of the
//! cached files too. Invariant: no more than `concurrency` files are in flight or held, whatever the consumer does.

use super::call::{bytes_len, read_now};
use super::driver::{self, LoopDriver, Waiter};
use super::help::Help;
use crate::coroutine::thrown;
use crate::path::c_path;
use crate::ready::stop_iteration;
use proactor::op::ReadFile;
use pyo3::exceptions::{PyRuntimeError, PyStopAsyncIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// After this long without a suspension the iterator lets the loop run once: others on the loop are late by no more.
const BUDGET: Duration = Duration::from_millis(2);
/// Cached files handed out between two looks at the clock; a large one takes 100 microseconds.
const LOOK_EVERY: u32 = 8;
/// New files looked at per file handed out, while some are in flight: keeps the queue full without hogging the loop.
const TOP_UP: usize = 4;
/// Files queued before they are sent to the kernel although the loop has not come round.
const FLUSH_EVERY: usize = 16;

type Item = (Py<PyAny>, PyResult<Py<PyAny>>);

/// The asynchronous iterator of `read_many`.
#[pyclass(module = "proactor._native")]
pub(crate) struct ReadMany {
    pub(super) paths: Py<PyIterator>,
    pub(super) concurrency: usize,
    ordered: bool,
    return_exceptions: bool,
    engine: Option<String>,
    driver: Option<Py<LoopDriver>>,
    /// Read and not yet handed out, by their place among `paths`; when unordered, by their place of arrival.
    pub(super) ready: BTreeMap<u64, Item>,
    pub(super) next_sequence: u64,
    next_out: u64,
    pub(super) in_flight: usize,
    pub(super) help: Help,
    pub(super) unflushed: usize,
    pub(super) exhausted: bool,
    waiter: Option<Py<PyAny>>,
    last_pause: Option<Instant>,
    since_look: u32,
}

#[pymethods]
impl ReadMany {
    #[new]
    #[pyo3(signature = (paths, *, concurrency=64, ordered=true, return_exceptions=true, workers=0, engine=None))]
    fn new(
        paths: &Bound<'_, PyAny>,
        concurrency: usize,
        ordered: bool,
        return_exceptions: bool,
        workers: usize,
        engine: Option<String>,
    ) -> PyResult<Self> {
        if concurrency == 0 {
            return Err(PyValueError::new_err("concurrency must be at least 1"));
        }
        Ok(ReadMany {
            paths: paths.try_iter()?.unbind(),
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
            last_pause: None,
            since_look: 0,
        })
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// The batch is its own awaitable: one object less per file.
    fn __anext__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        if slf.borrow_mut().must_pause() {
            // As asyncio.sleep(0) does: a bare yield runs the loop once.
            return Ok(slf.py().None());
        }
        let driver = Self::driver(slf)?;
        loop {
            if let Some(item) = Self::fill(slf, &driver)? {
                if slf.borrow().unflushed > 0 {
                    // Nobody knows when, or whether, the consumer comes back.
                    driver::schedule_flush(&driver)?;
                }
                return Err(Self::hand_out(slf, item));
            }
            if slf.borrow().is_spent() {
                return Err(PyStopAsyncIteration::new_err(()));
            }
            // Submits, and takes what is there already: maybe there is no need to suspend.
            slf.borrow_mut().unflushed = 0;
            driver::dispatch(&driver)?;
            if !slf.borrow().deliverable() {
                return Self::suspend(slf);
            }
        }
    }

    /// Goes on, as a coroutine's `send`.
    fn send(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let _ = value;
        Self::__next__(slf)
    }

    /// Ends this one await. Files in flight stay, and the next `__anext__` goes on: nothing is lost.
    #[pyo3(signature = (typ, val=None, tb=None))]
    fn throw(
        &mut self,
        typ: &Bound<'_, PyAny>,
        val: Option<&Bound<'_, PyAny>>,
        tb: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.close();
        Err(thrown(typ, val, tb)?)
    }

    /// Gives this one await up.
    fn close(&mut self) {
        self.waiter = None;
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
        if self.ordered {
            self.ready.contains_key(&self.next_out)
        } else {
            !self.ready.is_empty()
        }
    }

    fn take(&mut self) -> Option<Item> {
        if self.ordered {
            let item = self.ready.remove(&self.next_out)?;
            self.next_out += 1;
            return Some(item);
        }
        self.ready.pop_first().map(|(_, item)| item)
    }

    fn is_spent(&self) -> bool {
        self.exhausted && self.in_flight == 0 && self.ready.is_empty()
    }

    fn has_room(&self) -> bool {
        !self.exhausted && self.in_flight + self.ready.len() < self.concurrency
    }

    /// Looks at one more path: reads the file if it is cached, hands it to the engine if not. Returns the file if it is
    /// the next to hand out, and keeps it otherwise.
    fn start_one(slf: &Bound<'_, Self>, driver: &Bound<'_, LoopDriver>) -> PyResult<Option<Item>> {
        let py = slf.py();
        let paths = slf.borrow().paths.clone_ref(py);
        // The caller's iterator may do anything, so nothing is borrowed here.
        let Some(path) = paths.into_bound(py).next().transpose()? else {
            slf.borrow_mut().exhausted = true;
            return Ok(None);
        };
        let mut this = slf.borrow_mut();
        let sequence = this.next_sequence;
        this.next_sequence += 1;
        let mut read = match c_path(&path) {
            Ok(c_path) => ReadFile::new(c_path),
            Err(e) => return Ok(this.hand_over(sequence, (path.unbind(), Err(e)))),
        };
        if let Some(value) = read_now(driver, &mut read, &path) {
            this.help.was_cached(read.len());
            return Ok(this.hand_over(sequence, (path.unbind(), value)));
        }
        this.help.was_cold();
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
            batch: slf.clone().unbind(),
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
        let mut started = 0;
        loop {
            if slf.borrow().help.has_come() {
                driver::dispatch(driver)?;
            }
            Self::start_chunk(slf, driver)?;
            let mut this = slf.borrow_mut();
            if this.unflushed >= FLUSH_EVERY {
                this.unflushed = 0;
                driver.borrow_mut().flush_now()?;
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

    /// Whether the loop has waited long enough for its turn.
    fn must_pause(&mut self) -> bool {
        self.since_look += 1;
        if self.in_flight == 0 && self.since_look < LOOK_EVERY {
            return false;
        }
        self.since_look = 0;
        let now = Instant::now();
        let last = *self.last_pause.get_or_insert(now);
        let pause = now - last > BUDGET;
        if pause {
            self.last_pause = Some(now);
        }
        pause
    }

    /// Suspends: the loop has its turn anyway.
    fn paused(&mut self) {
        self.last_pause = None;
        self.since_look = 0;
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
        let driver = driver::current(py, engine.as_deref())?;
        slf.borrow_mut().driver = Some(driver.clone().unbind());
        Ok(driver)
    }

    /// The exception by which an awaitable returns a value.
    fn hand_out(slf: &Bound<'_, Self>, (path, value): Item) -> PyErr {
        let py = slf.py();
        let return_exceptions = slf.borrow().return_exceptions;
        let value = match value {
            Ok(value) => value,
            Err(e) if return_exceptions => e.into_value(py).into_any(),
            Err(e) => return e,
        };
        let size = bytes_len(py, &value);
        match PyTuple::new(py, [path, value]) {
            Ok(pair) => stop_iteration(py, pair.into_any().unbind(), size),
            Err(e) => e,
        }
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
        this.paused();
        drop(this);
        driver::suspend_on(&future)
    }
}
