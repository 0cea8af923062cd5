//! What all native coroutines have in common: to Python each is a `collections.abc.Coroutine`, so that tasks, `gather` and
//! `asyncio.run` take it as any other.
//!
//! A class says in [`Coroutine`] what it does, and `coroutine_methods!` gives it the methods for that.

use crate::python_code;
use crate::ready::stop_iteration;
use pyo3::exceptions::PyStopIteration;
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use pyo3::{PyClass, PyTraverseError};

/// What one drive of a coroutine leads to.
pub(crate) enum Outcome {
    /// Its result; None for Python's None.
    Return(Option<Py<PyAny>>),
    /// A future to wait for.
    Suspend(Py<PyAny>),
}

/// What `__await__` gives to Python code: an iterator, for `yield from`. A coroutine itself cannot be iterated over, so that
/// `list(coroutine)` and the like fail and are not empty.
#[pyclass(frozen, module = "proactor._native")]
pub(crate) struct Awaiting(pub(crate) Py<PyAny>);

#[pymethods]
impl Awaiting {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.send(py.None().bind(py))
    }

    /// As the coroutine's.
    fn send(&self, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = value.py();
        python_code::call_method(self.0.bind(py), intern!(py, "send"), [value]).map(Bound::unbind)
    }

    /// As the coroutine's.
    #[pyo3(signature = (*error))]
    fn throw(&self, error: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let throw = self.0.bind(error.py()).getattr("throw")?;
        python_code::call(&throw, error).map(Bound::unbind)
    }

    /// As the coroutine's.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        python_code::call_method(self.0.bind(py), intern!(py, "close"), []).map(drop)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

/// A native coroutine.
pub(crate) trait Coroutine: PyClass {
    /// Goes on, with what was sent: Python's None unless it is driven by hand.
    fn drive(slf: &Bound<'_, Self>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome>;

    /// Gives it up, wherever it is.
    fn stop(slf: &Bound<'_, Self>) -> PyResult<()>;

    /// Ends it with an exception. One that goes on all the same returns what it waits for.
    fn throw_in(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<Py<PyAny>> {
        Self::stop(slf)?;
        Err(error)
    }

    /// Its `__qualname__`, of which the last part is its `__name__`.
    fn qualname(slf: &Bound<'_, Self>) -> String;

    /// Bytes of a result that may stay alive a little longer than the result's user wants.
    fn size_of(py: Python<'_>, value: &Py<PyAny>) -> usize {
        bytes_len(py, value)
    }
}

/// `#[pymethods]` with those of a coroutine, for `Class => its other methods`: PyO3 knows one such block a class.
macro_rules! coroutine_methods {
    ($class:ident => $($own:tt)*) => {
        #[pymethods]
        impl $class {
            // `await` itself takes the type's slot (`reused::install_await`), which makes no object.
            fn __await__(slf: Py<Self>) -> $crate::coroutine::Awaiting {
                $crate::coroutine::Awaiting(slf.into_any())
            }

            fn __next__(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
                $crate::coroutine::next(slf)
            }

            /// Goes on, as a coroutine's `send`.
            fn send(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                $crate::coroutine::send(slf, value)
            }

            /// Ends it with an exception, as a coroutine's `throw`.
            #[pyo3(signature = (typ, val=None, tb=None))]
            fn throw(
                slf: &Bound<'_, Self>,
                typ: &Bound<'_, PyAny>,
                val: Option<&Bound<'_, PyAny>>,
                tb: Option<&Bound<'_, PyAny>>,
            ) -> PyResult<Py<PyAny>> {
                let error = $crate::coroutine::thrown(typ, val, tb)?;
                <Self as $crate::coroutine::Coroutine>::throw_in(slf, error)
            }

            /// Gives it up, as a coroutine's `close`.
            fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
                <Self as $crate::coroutine::Coroutine>::stop(slf)
            }

            #[getter]
            fn __name__(slf: &Bound<'_, Self>) -> String {
                let mut name = <Self as $crate::coroutine::Coroutine>::qualname(slf);
                name.drain(..name.rfind('.').map_or(0, |dot| dot + 1));
                name
            }

            #[getter]
            fn __qualname__(slf: &Bound<'_, Self>) -> String {
                <Self as $crate::coroutine::Coroutine>::qualname(slf)
            }

            $($own)*
        }
    };
}
pub(crate) use coroutine_methods;

/// `__next__`: NULL without an exception, which is None here, is a result of None at no cost.
pub(crate) fn next<T: Coroutine>(slf: &Bound<'_, T>) -> PyResult<Option<Py<PyAny>>> {
    let py = slf.py();
    match T::drive(slf, py.None().bind(py))? {
        Outcome::Suspend(what) => Ok(Some(what)),
        Outcome::Return(None) => Ok(None),
        Outcome::Return(Some(value)) => {
            let size = T::size_of(py, &value);
            Err(stop_iteration(py, value, size))
        }
    }
}

/// `send`.
pub(crate) fn send<T: Coroutine>(slf: &Bound<'_, T>, sent: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    match T::drive(slf, sent)? {
        Outcome::Suspend(what) => Ok(what),
        // Not the exception that is used again: who catches it in Python gives it a traceback, which knows frames.
        Outcome::Return(value) => Err(PyStopIteration::new_err((value,))),
    }
}

/// The exception that `throw` was given, in any of its three forms.
pub(crate) fn thrown(
    typ: &Bound<'_, PyAny>,
    val: Option<&Bound<'_, PyAny>>,
    tb: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyErr> {
    let instance = match (typ.is_instance_of::<PyType>(), val) {
        (true, Some(val)) if !val.is_none() && val.is_instance(typ)? => val.clone(),
        (true, Some(val)) if !val.is_none() => match val.cast::<PyTuple>() {
            Ok(args) => typ.call1(args)?,
            Err(_) => typ.call1((val,))?,
        },
        (true, _) => typ.call0()?,
        (false, _) => typ.clone(),
    };
    if let Some(tb) = tb.filter(|tb| !tb.is_none()) {
        instance.call_method1("with_traceback", (tb,))?;
    }
    Ok(PyErr::from_value(instance))
}

/// The length of a bytes object; 0 for anything else.
pub(crate) fn bytes_len(py: Python<'_>, value: &Py<PyAny>) -> usize {
    value
        .bind(py)
        .cast::<PyBytes>()
        .map_or(0, |bytes| bytes.as_bytes().len())
}
