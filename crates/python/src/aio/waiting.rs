//! The way into a context, on one thread or on many, and the wait of a shared one.

use super::context::{Context, Inner};
use super::shared::Shared;
use crate::errors;
use crate::memory::lacking;
use crate::thread_bound::AssertSend;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// The inner part, for one thread at a time.
pub(super) struct Inside<'a> {
    inner: MutexGuard<'a, Inner>,
    shared: Option<&'a Shared>,
}

impl Deref for Inside<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl DerefMut for Inside<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared {
            shared.leave();
        }
    }
}

/// When a wait ends.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    timeout: Option<Duration>,
    /// None for a time that the clock cannot hold, and for no timeout.
    at: Option<Instant>,
}

impl Deadline {
    pub(super) fn after(timeout: Option<Duration>) -> Self {
        let at = timeout.and_then(|t| Instant::now().checked_add(t));
        Deadline { timeout, at }
    }

    pub(super) fn left(&self) -> Option<Duration> {
        match self.at {
            Some(at) => Some(at.saturating_duration_since(Instant::now())),
            None => self.timeout,
        }
    }
}

impl Context {
    /// The inner part, while nothing else uses it: on its own thread, or on any if it is shared.
    pub(super) fn inner(&self, py: Python<'_>) -> PyResult<Inside<'_>> {
        let shared = self.shared.as_ref();
        if shared.is_none() && thread::current().id() != self.owner {
            return Err(PyRuntimeError::new_err(
                "this context belongs to another thread: make one in each thread that needs one, or a shared one",
            ));
        }
        let inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => match shared {
                Some(shared) if !shared.is_inside() && !shared.is_forked() => {
                    let lock = || AssertSend(self.inner.lock().unwrap_or_else(PoisonError::into_inner));
                    py.detach(lock).0
                }
                Some(shared) if shared.is_forked() => {
                    return Err(PyRuntimeError::new_err(
                        "this object was made before fork(): make a new one in the child",
                    ))
                }
                _ => {
                    return Err(PyRuntimeError::new_err(
                        "this context is in use already, in the code that this one interrupts",
                    ))
                }
            },
        };
        if let Some(shared) = shared {
            shared.enter();
        }
        Ok(Inside { inner, shared })
    }

    /// Waits as `wait` does, in a way that lets other threads use the context meanwhile.
    pub(super) fn wait_shared<'py>(
        &self,
        py: Python<'py>,
        shared: &Shared,
        (min, max): (usize, usize),
        deadline: Deadline,
        resume: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut waiter = None;
        loop {
            let mut inner = self.inner(py)?;
            let mut done = Vec::new();
            // For all that may come: what has been taken from the driver is nowhere else.
            let pending = inner.pending();
            inner.collected.try_reserve(pending).map_err(lacking)?;
            inner
                .driver
                .get()?
                .wait(0, usize::MAX, Some(Duration::ZERO), &mut done)
                .map_err(|e| errors::io_error(py, &e, "wait"))?;
            // allocates: there is room
            inner.collected.extend(done);
            let left = deadline.left();
            if inner.collected.len() >= min || left == Some(Duration::ZERO) {
                let events = PyList::empty(py);
                while events.len() < max {
                    let Some(completion) = inner.collected.pop_front() else {
                        break;
                    };
                    events.append(inner.event(py, completion)?)?;
                }
                self.note_pending(&inner);
                if !inner.collected.is_empty() {
                    shared.wake_waiter();
                }
                return Ok(events);
            }
            if waiter.is_none() {
                waiter = shared.waiter();
            }
            drop(inner);
            let Some(waiter) = &waiter else { continue };
            match py.detach(|| waiter.sleep(left)) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                    py.check_signals()?;
                    if !resume {
                        return Err(errors::io_error(py, &e, "wait"));
                    }
                }
                slept => slept.map_err(|e| errors::io_error(py, &e, "wait"))?,
            }
        }
    }
}
