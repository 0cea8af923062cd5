//! What an event loop calls when its driver has something to say, and drops with the driver when it is closed.

use super::driver::{turn_and_dispatch, LoopDriver};
use super::future::from_the_loop;
use crate::errors;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::PyTraverseError;

/// A loop's reader. It owns the driver: futures know their loop, so a driver that anything else held would keep alive a loop
/// that nobody has any more.
#[pyclass(module = "proactor._native")]
pub(super) struct Reader {
    /// None when the collector has cleared it.
    driver: Option<Py<LoopDriver>>,
}

#[pymethods]
impl Reader {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let Some(driver) = &self.driver else {
            return Ok(());
        };
        from_the_loop(py, || turn_and_dispatch(driver.bind(py)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.driver)
    }

    fn __clear__(&mut self) {
        self.leave();
    }
}

impl Reader {
    pub(super) fn new(driver: Py<LoopDriver>) -> Self {
        let driver = Some(driver);
        Reader { driver }
    }

    /// The loop is closed, or nobody has it any more: the driver ends, and whoever waits for it is let go.
    fn leave(&mut self) {
        let Some(driver) = self.driver.take() else {
            return;
        };
        errors::in_drop(|py| {
            let left = driver
                .try_borrow_mut(py)
                .ok()
                .and_then(|mut driver| driver.leave(py));
            // Not while it is borrowed: the end of a task runs Python code.
            let Some((waiting, line)) = left else { return };
            for (waiter, last) in waiting {
                waiter.loop_closed(py, last);
            }
            drop(line);
        });
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.leave();
    }
}
