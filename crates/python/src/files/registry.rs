//! The drivers of each event loop, by engine. It makes one when the first call needs it.

use super::driver::{leave_thread, LoopDriver};
use super::future::running_loop;
use crate::errors;
use crate::python_code;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyWeakrefMethods, PyWeakrefReference};
use std::cell::RefCell;

thread_local! {
    /// The last driver used on this thread: asking the registry takes five times as long.
    static LATEST: RefCell<Option<Py<PyWeakrefReference>>> = const { RefCell::new(None) };
}

/// loop -> {engine name or "auto": LoopDriver}, weak in both: the loop itself has its drivers, by their readers.
static REGISTRY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Gives the running loop's driver on this engine. An error names the op that needs it, and its file.
///
/// # Errors
/// RuntimeError without a running loop; OSError where no driver can be made.
pub(crate) fn current<'py>(
    py: Python<'py>,
    engine: Option<&str>,
    op: &str,
    filename: Option<&Bound<'_, PyAny>>,
) -> PyResult<Bound<'py, LoopDriver>> {
    of_running_loop(py, engine).map_err(|error| errors::about(py, error, op, filename))
}

fn of_running_loop<'py>(py: Python<'py>, engine: Option<&str>) -> PyResult<Bound<'py, LoopDriver>> {
    let event_loop = running_loop(py)?;
    if engine.is_none() {
        if let Some(driver) = latest(py, &event_loop) {
            return Ok(driver);
        }
    }
    let registry = REGISTRY.get_or_try_init(py, || -> PyResult<_> {
        Ok(py
            .import("weakref")?
            .getattr("WeakKeyDictionary")?
            .call0()?
            .unbind())
    })?;
    let none_yet = PyDict::new(py);
    let args = [&event_loop, none_yet.as_any()];
    let per_engine = python_code::call_method(registry.bind(py), intern!(py, "setdefault"), args)?;
    let per_engine = per_engine.cast_into::<PyDict>()?;
    let name = engine.unwrap_or("auto");
    let known = per_engine
        .get_item(name)?
        .and_then(|weak| weak.cast_into::<PyWeakrefReference>().ok()?.upgrade())
        .and_then(|driver| driver.cast_into::<LoopDriver>().ok());
    let driver = match known {
        Some(driver) if driver.borrow_mut().usable() => driver,
        known => {
            if let Some(old) = known.filter(|old| old.borrow().has_moved()) {
                leave_thread(&old)?;
            }
            let driver = LoopDriver::make(py, &event_loop, engine)?;
            per_engine.set_item(name, PyWeakrefReference::new(driver.as_any())?)?;
            driver
        }
    };
    if engine.is_none() {
        let weak = PyWeakrefReference::new(driver.as_any())?.unbind();
        LATEST.with_borrow_mut(|latest| *latest = Some(weak));
    }
    Ok(driver)
}

fn latest<'py>(py: Python<'py>, event_loop: &Bound<'py, PyAny>) -> Option<Bound<'py, LoopDriver>> {
    let driver = LATEST.with_borrow(|latest| latest.as_ref()?.bind(py).upgrade())?;
    let driver = driver.cast_into::<LoopDriver>().ok()?;
    let mut this = driver.try_borrow_mut().ok()?;
    let mine = this
        .event_loop
        .bind(py)
        .upgrade()
        .is_some_and(|own| own.is(event_loop))
        && this.usable();
    drop(this);
    mine.then_some(driver)
}
