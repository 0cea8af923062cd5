//! Native coroutines that cost little where they return at once: raw type slots, and objects that are used again.
//!
//! CPython 3.10 and 3.11 drive an awaitable by `am_send`, which needs no exception for a result, and 3.12 and later by
//! `tp_iternext`. PyO3 has no slot for the first. A slot of ours has to say that the thread is attached, as PyO3's own do:
//! its trampolines are public for its macros, and five times as fast as `Python::attach`.

use crate::ready::stop_iteration;
use pyo3::exceptions::PyStopIteration;
use pyo3::ffi;
use pyo3::impl_::trampoline::{inquiry, iternextfunc, ternaryfunc, MethodDef};
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::False;
use pyo3::types::{PyTuple, PyType};
use pyo3::PyClass;
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::marker::PhantomData;

/// What one drive of a coroutine leads to.
pub(crate) enum Outcome {
    /// Its result; None for Python's None.
    Return(Option<Py<PyAny>>),
    /// A future to wait for, or Python's None to let the loop go round.
    Suspend(Py<PyAny>),
}

/// A native coroutine.
pub(crate) trait Coroutine: PyClass<Frozen = False> + Into<PyClassInitializer<Self>> {
    /// Goes on, with what was sent: Python's None unless it is driven by hand.
    fn drive(&mut self, py: Python<'_>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome>;

    /// Bytes that may stay alive a little longer than the result's user wants.
    fn size_of(py: Python<'_>, value: &Py<PyAny>) -> usize;

    /// Gives it up, wherever it is.
    fn stop(&mut self, py: Python<'_>) -> PyResult<()>;

    /// Ends it with an exception; gives what it suspends on, if it goes on all the same.
    fn throw_in(&mut self, py: Python<'_>, error: PyErr) -> PyResult<Py<PyAny>> {
        self.stop(py)?;
        Err(error)
    }

    /// One of this name that is over: it holds nothing and does nothing, not even when it is dropped.
    fn over(&self) -> Self;

    fn is_over(&self) -> bool;

    /// Gives away what it holds. Dropping that may run Python code.
    fn end(&mut self) -> Self {
        let over = self.over();
        std::mem::replace(self, over)
    }

    /// Where those go that nobody has any more.
    fn pool() -> &'static Pool;
}

/// Objects to be used again. To make one and to free it takes longer than most calls of an open file.
pub(crate) struct Pool(UnsafeCell<Idle>);

struct Idle {
    /// Each reference is ours, and the only one.
    objects: Vec<*mut ffi::PyObject>,
    /// What the class would do with them otherwise.
    dealloc: Option<ffi::destructor>,
}

// SAFETY: only touched by threads that are attached, of which there is one at a time (`gil_used`), and never across a call
// that may let another one in.
unsafe impl Sync for Pool {}

/// Beyond those a burst of calls frees its objects.
const MOST_IDLE: usize = 64;

impl Pool {
    pub(crate) const fn new() -> Self {
        Pool(UnsafeCell::new(Idle {
            objects: Vec::new(),
            dealloc: None,
        }))
    }

    #[allow(clippy::mut_from_ref)]
    fn idle(&self, _py: Python<'_>) -> &mut Idle {
        // SAFETY: see `Sync`; callers keep the reference for no longer than a push or a pop.
        unsafe { &mut *self.0.get() }
    }

    /// Takes an object with one reference, if there is room.
    fn keep(&self, py: Python<'_>, object: *mut ffi::PyObject) -> bool {
        let objects = &mut self.idle(py).objects;
        let has_room = objects.len() < MOST_IDLE;
        if has_room {
            objects.push(object);
        }
        has_room
    }
}

/// A new object, or one that was used before.
pub(crate) fn make<T: Coroutine>(py: Python<'_>, value: T) -> PyResult<Bound<'_, T>> {
    let Some(object) = T::pool().idle(py).objects.pop() else {
        return Bound::new(py, value);
    };
    // SAFETY: the pool's own reference to a T, which becomes ours.
    let object = unsafe { Bound::from_owned_ptr(py, object).cast_into_unchecked::<T>() };
    *object.try_borrow_mut()? = value;
    // SAFETY: an object with a collector's header, complete, and not tracked while it was idle.
    unsafe { ffi::PyObject_GC_Track(object.as_ptr().cast()) };
    Ok(object)
}

/// A coroutine class's methods in Python, and those of its own: `coroutine_methods!(Class { fn ... })`.
macro_rules! coroutine_methods {
    ($class:ident { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            fn __await__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            fn __iter__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            // (The type's own slot is faster: `install`.)
            fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
                $crate::coroutine::send_by_hand(slf, slf.py().None().bind(slf.py()))
            }

            /// Goes on, as a coroutine's `send`.
            fn send(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
                $crate::coroutine::send_by_hand(slf, value)
            }

            /// Ends it with an exception, as a coroutine's `throw`.
            #[pyo3(signature = (typ, val=None, tb=None))]
            fn throw(
                &mut self,
                typ: &Bound<'_, PyAny>,
                val: Option<&Bound<'_, PyAny>>,
                tb: Option<&Bound<'_, PyAny>>,
            ) -> PyResult<Py<PyAny>> {
                let error = $crate::coroutine::thrown(typ, val, tb).unwrap_or_else(|error| error);
                $crate::coroutine::Coroutine::throw_in(self, typ.py(), error)
            }

            /// Gives it up, as a coroutine's `close`.
            fn close(&mut self, py: Python<'_>) -> PyResult<()> {
                $crate::coroutine::Coroutine::stop(self, py)
            }

            fn __clear__(&mut self) {
                drop($crate::coroutine::Coroutine::end(self));
            }

            $($own)*
        }
    };
}
pub(crate) use coroutine_methods;

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

/// A coroutine's `send`.
pub(crate) fn send_by_hand<T: Coroutine>(slf: &Bound<'_, T>, sent: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    match driven(slf, sent)? {
        Outcome::Suspend(what) => Ok(what),
        // Not the exception that is used again: who catches it in Python gives it a traceback, which knows frames.
        Outcome::Return(value) => Err(PyStopIteration::new_err((value,))),
    }
}

/// The exception that brings a result out of `tp_iternext`.
fn returned<T: Coroutine>(py: Python<'_>, value: Option<Py<PyAny>>) -> PyErr {
    let value = value.unwrap_or_else(|| py.None());
    let size = T::size_of(py, &value);
    stop_iteration(py, value, size)
}

/// Puts the raw slots into a class.
pub(crate) fn install<T: Coroutine>(py: Python<'_>) {
    let class = py.get_type::<T>().as_type_ptr();
    if T::pool().idle(py).dealloc.is_some() {
        // The module is made a second time (by another interpreter, or after it was thrown out of sys.modules).
        return;
    }
    // SAFETY: a type of ours that nobody uses yet and nobody can derive from. PyO3's types are heap types, which have their
    // own `tp_as_async`, so no other type's slots change. The functions take what the slots' callers give.
    unsafe {
        T::pool().idle(py).dealloc = (*class).tp_dealloc.replace(dealloc::<T>);
        (*class).tp_iter = Some(itself);
        (*class).tp_iternext = Some(iternextfunc::<Of<T>>);
        if let Some(slots) = (*class).tp_as_async.as_mut() {
            slots.am_await = Some(itself);
            slots.am_send = Some(send::<T>);
        }
        ffi::PyType_Modified(class);
    }
}

/// `am_await` and `tp_iter`.
unsafe extern "C" fn itself(slf: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: a live object.
    unsafe { ffi::Py_NewRef(slf) }
}

/// The functions of a class, for PyO3's trampolines.
struct Of<T>(PhantomData<T>);

impl<T: Coroutine> MethodDef<iternextfunc::Func> for Of<T> {
    const METH: iternextfunc::Func = next::<T>;
}

impl<T: Coroutine> MethodDef<ternaryfunc::Func> for Of<T> {
    const METH: ternaryfunc::Func = send_to::<T>;
}

impl<T: Coroutine> MethodDef<inquiry::Func> for Of<T> {
    const METH: inquiry::Func = retire::<T>;
}

/// `tp_iternext`: NULL without an exception is a result of None, at no cost.
unsafe fn next<T: Coroutine>(py: Python<'_>, slf: *mut ffi::PyObject) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: an instance of T.
    let slf = unsafe { Bound::from_borrowed_ptr(py, slf).cast_into_unchecked::<T>() };
    match driven(&slf, py.None().bind(py))? {
        Outcome::Suspend(what) => Ok(what.into_ptr()),
        Outcome::Return(None) => Ok(std::ptr::null_mut()),
        Outcome::Return(value) => Err(returned::<T>(py, value)),
    }
}

// What `send_to` returns in place of an object; NULL is an error.
const RETURNED: usize = 1;
const SUSPENDED: usize = 2;

/// `am_send`.
unsafe extern "C" fn send<T: Coroutine>(
    slf: *mut ffi::PyObject,
    sent: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: the slot's own arguments. The trampoline hands all three on without looking at them.
    let status = unsafe { ternaryfunc::<Of<T>>(slf, sent, result.cast()) };
    match status as usize {
        RETURNED => ffi::PySendResult::PYGEN_RETURN,
        SUSPENDED => ffi::PySendResult::PYGEN_NEXT,
        _ => ffi::PySendResult::PYGEN_ERROR,
    }
}

unsafe fn send_to<T: Coroutine>(
    py: Python<'_>,
    slf: *mut ffi::PyObject,
    sent: *mut ffi::PyObject,
    result: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    let place = result.cast::<*mut ffi::PyObject>();
    // SAFETY: the caller's place for the result, which is NULL after an error.
    unsafe { *place = std::ptr::null_mut() };
    // SAFETY: an instance of T, and a live object.
    let (slf, sent) = unsafe {
        (
            Bound::from_borrowed_ptr(py, slf).cast_into_unchecked::<T>(),
            Bound::from_borrowed_ptr(py, sent),
        )
    };
    let (status, object) = match driven(&slf, &sent)? {
        Outcome::Return(value) => (RETURNED, value.unwrap_or_else(|| py.None())),
        Outcome::Suspend(what) => (SUSPENDED, what),
    };
    // SAFETY: as above.
    unsafe { *place = object.into_ptr() };
    Ok(status as *mut ffi::PyObject)
}

fn driven<T: Coroutine>(slf: &Bound<'_, T>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
    let mut this = slf.try_borrow_mut()?;
    let outcome = this.drive(slf.py(), sent)?;
    if matches!(outcome, Outcome::Return(_)) {
        // Its end is then nearly free.
        let held = this.end();
        drop(this);
        drop(held);
    }
    Ok(outcome)
}

/// `tp_dealloc`.
unsafe extern "C" fn dealloc<T: Coroutine>(object: *mut ffi::PyObject) {
    // SAFETY: attached, as every destructor is; nobody has the object any more, which has a collector's header. With one
    // reference, our own, it is an object like others.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        ffi::Py_INCREF(object);
        let py = Python::assume_attached();
        let is_over = {
            let slf = Bound::from_borrowed_ptr(py, object).cast_into_unchecked::<T>();
            let this = slf.try_borrow();
            this.is_ok_and(|this| this.is_over())
        };
        // Python code may run where it is not, and make and free others.
        if (is_over || inquiry::<Of<T>>(object) == 1) && T::pool().keep(py, object) {
            return;
        }
        // The class's own destructor does not look at the number of references.
        let own = T::pool().idle(py).dealloc;
        if let Some(own) = own {
            own(object);
        }
    }
}

/// Takes what the object holds.
unsafe fn retire<T: Coroutine>(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<c_int> {
    // SAFETY: an instance of T.
    let slf = unsafe { Bound::from_borrowed_ptr(py, object).cast_into_unchecked::<T>() };
    let Ok(mut this) = slf.try_borrow_mut() else {
        return Ok(0);
    };
    let held = this.end();
    drop(this);
    drop(held);
    Ok(1)
}
