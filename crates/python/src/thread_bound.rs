//! A driver inside a Python object, which any thread may touch or free.

use proactor::Driver;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

/// A driver that only the thread that made it can reach.
pub(crate) struct ThreadBound {
    driver: Option<Driver>,
    owner: ThreadId,
}

// SAFETY: `get` and `close` hand out the driver only on the thread that made it, and `Drop` frees it only there; from
// any other thread nothing of it is read but the owner's id.
unsafe impl Send for ThreadBound {}
// SAFETY: as above; shared access from other threads reads the owner's id only.
unsafe impl Sync for ThreadBound {}

/// Drivers whose last owner went away on the wrong thread, until their own thread comes by. The kernel may still be
/// writing into their buffers, and only their own thread may wait for it.
static ORPHANS: Mutex<Vec<ThreadBound>> = Mutex::new(Vec::new());

impl ThreadBound {
    pub(crate) fn new(driver: Driver) -> Self {
        reap_orphans();
        ThreadBound {
            driver: Some(driver),
            owner: thread::current().id(),
        }
    }

    /// The driver.
    ///
    /// # Errors
    /// `RuntimeError` on another thread and after `close`. A forked child of the owner gets the driver, which refuses by
    /// itself.
    pub(crate) fn get(&mut self) -> PyResult<&mut Driver> {
        if !self.is_mine() {
            return Err(PyRuntimeError::new_err(
                "this object belongs to another thread: make one in each thread that needs one",
            ));
        }
        self.driver
            .as_mut()
            .ok_or_else(|| PyRuntimeError::new_err("it is closed"))
    }

    pub(crate) fn is_mine(&self) -> bool {
        thread::current().id() == self.owner
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.driver.is_none()
    }

    /// Waits for the kernel to let go of everything, without holding the GIL, then frees the driver.
    pub(crate) fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.driver.is_none() {
            return Ok(());
        }
        self.get()?;
        let driver = AssertSend(self.driver.take());
        py.detach(|| drop(driver));
        Ok(())
    }
}

impl Drop for ThreadBound {
    fn drop(&mut self) {
        let Some(driver) = self.driver.take() else { return };
        if !self.is_mine() {
            let orphan = ThreadBound {
                driver: Some(driver),
                owner: self.owner,
            };
            ORPHANS
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push(orphan);
            return;
        }
        let driver = AssertSend(Some(driver));
        // Without an interpreter there is no GIL to let go of.
        match Python::try_attach(|py| py.detach(|| drop(driver))) {
            Some(()) | None => {}
        }
    }
}

fn reap_orphans() {
    let me = thread::current().id();
    let mut orphans = ORPHANS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mine: Vec<ThreadBound> = orphans.extract_if(.., |orphan| orphan.owner == me).collect();
    drop(orphans);
    drop(mine);
}

/// A value that `Python::detach` may take along: the closure runs on this very thread.
pub(crate) struct AssertSend<T>(pub(crate) T);

// SAFETY: `Python::detach` runs its closure on the calling thread, so nothing crosses one.
unsafe impl<T> Send for AssertSend<T> {}

impl<T> AssertSend<T> {
    /// By method, so that a closure captures the wrapper and not the field.
    pub(crate) fn get(&mut self) -> &mut T {
        &mut self.0
    }
}
