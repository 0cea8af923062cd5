//! Many whole files behind one asynchronous iterator.
//!
//! A cached file is read in the calling thread and handed out without suspending. Others go to the engine, up to
//! `concurrency` at once, while the ones before them are being used. Invariant: no more than `concurrency` files are in
//! flight or held, whatever the consumer does.

use super::call::{read_now, thrown};
use super::driver::{self, LoopDriver, Waiter};
use crate::path::c_path;
use proactor::op::ReadFile;
use pyo3::exceptions::{PyRuntimeError, PyStopAsyncIteration, PyStopIteration, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyTuple};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// After this long without a suspension the iterator lets the loop run once: others on the loop are late by no more.
const BUDGET: Duration = Duration::from_millis(2);
/// New files looked at per file handed out, while some are in flight: keeps the queue full without hogging the loop.
const TOP_UP: usize = 4;
/// Files queued before they are sent to the kernel although the loop has not come round.
const FLUSH_EVERY: usize = 16;

type Item = (Py<PyAny>, PyResult<Py<PyAny>>);

/// The asynchronous iterator of `read_many`.
#[pyclass(module = "proactor._native")]
pub(crate) struct ReadMany {
    paths: Py<PyIterator>,
    concurrency: usize,
    ordered: bool,
    return_exceptions: bool,
    engine: Option<String>,
    driver: Option<Py<LoopDriver>>,
    /// Read and not yet handed out, by their place among `paths`; when unordered, by their place of arrival.
    ready: BTreeMap<u64, Item>,
    next_sequence: u64,
    next_out: u64,
    in_flight: usize,
    unflushed: usize,
    exhausted: bool,
    waiter: Option<Py<PyAny>>,
    last_pause: Option<Instant>,
}

#[pymethods]
impl ReadMany {
    #[new]
    #[pyo3(signature = (paths, *, concurrency=64, ordered=true, return_exceptions=true, engine=None))]
    fn new(
        paths: &Bound<'_, PyAny>,
        concurrency: usize,
        ordered: bool,
        return_exceptions: bool,
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
            unflushed: 0,
            exhausted: false,
            waiter: None,
            last_pause: None,
        })
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(slf: Py<Self>) -> Next {
        Next {
            batch: slf,
            waiting: None,
        }
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
            this.keep(sequence, path, value);
            if this.deliverable() {
                this.waiter.take()
            } else {
                None
            }
        };
        if let Some(waiter) = waiter {
            if !waiter.bind(py).call_method0(intern!(py, "done"))?.is_truthy()? {
                waiter
                    .bind(py)
                    .call_method1(intern!(py, "set_result"), (py.None(),))?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, sequence: u64, path: Py<PyAny>, value: PyResult<Py<PyAny>>) {
        self.ready.insert(sequence, (path, value));
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

    fn has_room(&self) -> bool {
        !self.exhausted && self.in_flight + self.ready.len() < self.concurrency
    }

    /// Looks at one more path: reads the file if it is cached, hands it to the engine if not.
    fn start_one(slf: &Bound<'_, Self>, driver: &Bound<'_, LoopDriver>) -> PyResult<()> {
        let py = slf.py();
        let paths = slf.borrow().paths.clone_ref(py);
        // The caller's iterator may do anything, so nothing is borrowed here.
        let Some(path) = paths.into_bound(py).next().transpose()? else {
            slf.borrow_mut().exhausted = true;
            return Ok(());
        };
        let mut this = slf.borrow_mut();
        let sequence = this.next_sequence;
        this.next_sequence += 1;
        let mut read = match c_path(&path) {
            Ok(c_path) => ReadFile::new(c_path),
            Err(e) => {
                this.keep(sequence, path.unbind(), Err(e));
                return Ok(());
            }
        };
        if let Some(value) = read_now(driver, &mut read, &path) {
            this.keep(sequence, path.unbind(), value);
            return Ok(());
        }
        let waiter = Waiter::Many {
            batch: slf.clone().unbind(),
            sequence,
            path: path.unbind(),
        };
        driver.borrow_mut().submit(py, read, waiter)?;
        this.in_flight += 1;
        this.unflushed += 1;
        Ok(())
    }

    /// Keeps the engine busy, and finds something to hand out.
    fn fill(slf: &Bound<'_, Self>, driver: &Bound<'_, LoopDriver>) -> PyResult<()> {
        let mut started = 0;
        loop {
            let mut this = slf.borrow_mut();
            if this.unflushed >= FLUSH_EVERY {
                this.unflushed = 0;
                driver.borrow_mut().flush_now()?;
            }
            let enough = this.deliverable() && (this.in_flight == 0 || started >= TOP_UP);
            if enough || !this.has_room() {
                return Ok(());
            }
            drop(this);
            Self::start_one(slf, driver)?;
            started += 1;
        }
    }

    /// Whether the loop has waited long enough for its turn.
    fn must_pause(&mut self) -> bool {
        let now = Instant::now();
        match self.last_pause {
            Some(last) if now - last > BUDGET => {
                self.last_pause = None;
                true
            }
            Some(_) => false,
            None => {
                self.last_pause = Some(now);
                false
            }
        }
    }
}

/// The awaitable of the next file.
#[pyclass(module = "proactor._native")]
pub(crate) struct Next {
    batch: Py<ReadMany>,
    waiting: Option<Py<PyAny>>,
}

#[pymethods]
impl Next {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let batch = self.batch.bind(py).clone();
        if batch.borrow_mut().must_pause() {
            // As asyncio.sleep(0) does: a bare yield runs the loop once.
            return Ok(py.None());
        }
        let driver = Self::driver(&batch)?;
        loop {
            ReadMany::fill(&batch, &driver)?;
            let item = batch.borrow_mut().take();
            if let Some(item) = item {
                return Err(Self::hand_out(py, &batch, item));
            }
            let idle = {
                let this = batch.borrow();
                this.in_flight == 0 && this.exhausted
            };
            if idle {
                return Err(PyStopAsyncIteration::new_err(()));
            }
            // Submits, and takes what is there already: maybe there is no need to suspend.
            batch.borrow_mut().unflushed = 0;
            driver::dispatch(&driver)?;
            if !batch.borrow().deliverable() {
                return self.suspend(py, &batch);
            }
        }
    }

    fn send(&mut self, py: Python<'_>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.__next__(py)
    }

    /// Ends this one await. Files in flight stay, and the next `__anext__` goes on: nothing is lost.
    #[pyo3(signature = (typ, val=None, tb=None))]
    fn throw(
        &mut self,
        py: Python<'_>,
        typ: &Bound<'_, PyAny>,
        val: Option<&Bound<'_, PyAny>>,
        tb: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.close(py);
        Err(thrown(typ, val, tb)?)
    }

    fn close(&mut self, py: Python<'_>) {
        if self.waiting.take().is_some() {
            self.batch.borrow_mut(py).waiter = None;
        }
    }
}

impl Next {
    fn driver<'py>(batch: &Bound<'py, ReadMany>) -> PyResult<Bound<'py, LoopDriver>> {
        let py = batch.py();
        let this = batch.borrow();
        if let Some(driver) = &this.driver {
            return Ok(driver.bind(py).clone());
        }
        let engine = this.engine.clone();
        drop(this);
        let driver = driver::current(py, engine.as_deref())?;
        batch.borrow_mut().driver = Some(driver.clone().unbind());
        Ok(driver)
    }

    /// The exception by which an awaitable returns a value.
    fn hand_out(py: Python<'_>, batch: &Bound<'_, ReadMany>, (path, value): Item) -> PyErr {
        let return_exceptions = batch.borrow().return_exceptions;
        let value = match value {
            Ok(value) => value,
            Err(e) if return_exceptions => e.into_value(py).into_any(),
            Err(e) => return e,
        };
        match PyTuple::new(py, [path, value]) {
            Ok(pair) => PyStopIteration::new_err((pair.unbind(),)),
            Err(e) => e,
        }
    }

    fn suspend(&mut self, py: Python<'_>, batch: &Bound<'_, ReadMany>) -> PyResult<Py<PyAny>> {
        let future = driver::new_future(py)?;
        let mut this = batch.borrow_mut();
        if this.waiter.is_some() {
            return Err(PyRuntimeError::new_err(
                "another task is waiting for this read_many() already",
            ));
        }
        this.waiter = Some(future.clone().unbind());
        this.last_pause = None;
        drop(this);
        self.waiting = Some(future.clone().unbind());
        future.setattr(intern!(py, "_asyncio_future_blocking"), true)?;
        Ok(future.unbind())
    }
}
