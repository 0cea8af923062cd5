//! Calls from native code that may run Python code, and that survive the end of the interpreter.
//!
//! Until Python 3.14 the interpreter ends a daemon thread by `pthread_exit` when the thread next asks for the GIL, which
//! any Python code may do. That unwinds the thread's stack. Rust's frames cannot be unwound that way: the process would
//! abort at the first of them. So each call here ends such an unwinding at once and blocks the thread for ever, as Python
//! 3.14 does with every such thread. The process exits all the same: it does not wait for daemon threads.
//!
//! Invariant: what runs the code of tasks, iterators, limiters and the loop is called through this module and not through
//! PyO3, whose declarations say that no call unwinds.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::ffi::c_char;
use std::hint::black_box;
use std::mem::{forget, transmute};

/// Blocks the thread when it is dropped, which happens only while the stack is unwound.
struct EndOfThread;

impl Drop for EndOfThread {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

type Call = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *mut ffi::PyObject,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;
type CallMethod = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    usize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;
type Send = unsafe extern "C-unwind" fn(
    *mut ffi::PyObject,
    *mut ffi::PyObject,
    *mut *mut ffi::PyObject,
) -> ffi::PySendResult;
type Unary = unsafe extern "C-unwind" fn(*mut ffi::PyObject) -> *mut ffi::PyObject;
type Warn = unsafe extern "C-unwind" fn(*mut ffi::PyObject, *const c_char, ffi::Py_ssize_t) -> i32;

/// A function of the interpreter, as one that may unwind. The optimiser must not see which one it is: it merges the
/// declaration with PyO3's, and would drop the guard's landing pad.
macro_rules! unwinding {
    ($function:ident as $kind:ty) => {
        transmute::<*const (), $kind>(black_box(ffi::$function as *const ()))
    };
}

/// Calls a callable.
///
/// # Errors
/// What it raises.
pub(crate) fn call<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = std::ptr::null_mut();
    let guard = EndOfThread;
    // SAFETY: live objects and PyObject_Call's own signature; the result is a new reference, or NULL with an exception.
    let result = unsafe { unwinding!(PyObject_Call as Call)(callable.as_ptr(), args.as_ptr(), options) };
    forget(guard);
    // SAFETY: as above.
    unsafe { Bound::from_owned_ptr_or_err(callable.py(), result) }
}

/// Calls a method with positional arguments.
///
/// # Errors
/// What it raises, AttributeError among others.
pub(crate) fn call_method<'py, const N: usize>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    args: [&Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    call_method_with(object, name, args, None)
}

/// As `call_method`; the last arguments have the names in the tuple.
///
/// # Errors
/// As `call_method`.
pub(crate) fn call_method_with<'py, const N: usize>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    args: [&Bound<'py, PyAny>; N],
    names: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    /// More than any caller gives.
    const MOST: usize = 7;
    const { assert!(N < MOST) }
    let named = names.map_or(0, PyTupleMethods::len);
    let names = names.map_or(std::ptr::null_mut(), Bound::as_ptr);
    let mut all = [std::ptr::null_mut(); MOST];
    all[0] = object.as_ptr();
    for (place, arg) in all[1..].iter_mut().zip(args) {
        *place = arg.as_ptr();
    }
    let count = 1 + N - named;
    let guard = EndOfThread;
    // SAFETY: `count` live objects, the object first, and behind them as many as there are names; the signature is
    // PyObject_VectorcallMethod's own. The result is a new reference, or NULL with an exception.
    let result = unsafe {
        unwinding!(PyObject_VectorcallMethod as CallMethod)(name.as_ptr(), all.as_ptr(), count, names)
    };
    forget(guard);
    // SAFETY: as above.
    unsafe { Bound::from_owned_ptr_or_err(object.py(), result) }
}

/// Sends a value into a coroutine of Python's.
pub(crate) enum Sent<'py> {
    Suspended(Bound<'py, PyAny>),
    Returned(Bound<'py, PyAny>),
}

/// Drives a coroutine or generator.
///
/// # Errors
/// What it raises.
pub(crate) fn send<'py>(coroutine: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<Sent<'py>> {
    let py = coroutine.py();
    let mut result = std::ptr::null_mut();
    let guard = EndOfThread;
    // SAFETY: live objects and PyIter_Send's own signature; `result` becomes a new reference unless it is an error.
    let status =
        unsafe { unwinding!(PyIter_Send as Send)(coroutine.as_ptr(), value.as_ptr(), &raw mut result) };
    forget(guard);
    // SAFETY: as above.
    let result = unsafe { Bound::from_owned_ptr_or_opt(py, result) };
    match (status, result) {
        (ffi::PySendResult::PYGEN_NEXT, Some(what)) => Ok(Sent::Suspended(what)),
        (ffi::PySendResult::PYGEN_RETURN, Some(value)) => Ok(Sent::Returned(value)),
        _ => Err(PyErr::fetch(py)),
    }
}

/// The next item of an iterator; None at its end.
///
/// # Errors
/// What it raises.
pub(crate) fn next<'py>(iterator: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = iterator.py();
    let guard = EndOfThread;
    // SAFETY: a live iterator and PyIter_Next's own signature; the result is a new reference, or NULL at the end and, with
    // an exception, after an error.
    let item = unsafe { unwinding!(PyIter_Next as Unary)(iterator.as_ptr()) };
    forget(guard);
    // SAFETY: as above.
    match unsafe { Bound::from_owned_ptr_or_opt(py, item) } {
        Some(item) => Ok(Some(item)),
        None => PyErr::take(py).map_or(Ok(None), Err),
    }
}

/// `os.fspath`: a `str` or `bytes`.
///
/// # Errors
/// TypeError for another type, and what `__fspath__` raises.
pub(crate) fn fspath<'py>(path: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let guard = EndOfThread;
    // SAFETY: a live object and PyOS_FSPath's own signature; the result is a new reference, or NULL with an exception.
    let result = unsafe { unwinding!(PyOS_FSPath as Unary)(path.as_ptr()) };
    forget(guard);
    // SAFETY: as above.
    unsafe { Bound::from_owned_ptr_or_err(path.py(), result) }
}

/// Issues a warning, which a program may have replaced by code of its own.
///
/// # Errors
/// What the warning has become.
pub(crate) fn warn(category: &Bound<'_, PyAny>, text: &std::ffi::CStr) -> PyResult<()> {
    let guard = EndOfThread;
    // SAFETY: a live class, a text that ends with a NUL, and PyErr_WarnEx's own signature.
    let status = unsafe { unwinding!(PyErr_WarnEx as Warn)(category.as_ptr(), text.as_ptr(), 1) };
    forget(guard);
    match status {
        0 => Ok(()),
        _ => Err(PyErr::fetch(category.py())),
    }
}
