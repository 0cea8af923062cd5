//! What a Python object holds, for whoever is attached.
//!
//! PyO3 counts the borrows of a class that can change by atomic instructions: 20 cycles each, six times for an awaited line.
//! A class that cannot change (`frozen`) and holds one of these counts by plain ones.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::{Ref, RefCell, RefMut};

/// A `RefCell` for threads that are attached.
pub(crate) struct Attached<T>(RefCell<T>);

// SAFETY: only a thread that is attached gets a reference, and there is one of them at a time (`gil_used`). One that lets
// another in while it has borrowed is still counted: the other one is refused.
unsafe impl<T: Send> Sync for Attached<T> {}

impl<T> Attached<T> {
    pub(crate) const fn new(value: T) -> Self {
        Attached(RefCell::new(value))
    }

    /// None while somebody changes it, further up.
    pub(crate) fn look<'a>(&'a self, _py: Python<'a>) -> Option<Ref<'a, T>> {
        self.0.try_borrow().ok()
    }

    /// # Errors
    /// `RuntimeError` while somebody changes it, further up.
    pub(crate) fn borrow<'a>(&'a self, py: Python<'a>) -> PyResult<Ref<'a, T>> {
        self.look(py).ok_or_else(in_use)
    }

    /// None while somebody has borrowed it, further up.
    pub(crate) fn get<'a>(&'a self, _py: Python<'a>) -> Option<RefMut<'a, T>> {
        self.0.try_borrow_mut().ok()
    }

    /// # Errors
    /// `RuntimeError` while somebody has borrowed it, further up.
    pub(crate) fn borrow_mut<'a>(&'a self, py: Python<'a>) -> PyResult<RefMut<'a, T>> {
        self.get(py).ok_or_else(in_use)
    }

    /// For who knows that nobody has borrowed it.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// For `__traverse__`, which has no token: the collector runs in a thread that is attached.
    pub(crate) fn seen_by_collector(&self) -> Option<Ref<'_, T>> {
        self.0.try_borrow().ok()
    }
}

fn in_use() -> PyErr {
    PyRuntimeError::new_err("it is being used already, further up")
}
