//! Native coroutines that cost little where they return at once: raw type slots, and objects that are used again.
//!
//! CPython 3.10 and 3.11 drive an awaitable by `am_send`, which needs no exception for a result, and 3.12 and later by
//! `tp_iternext`. PyO3 has no slot for the first. A slot of ours asks first whether the result is at hand
//! ([`Reused::at_once`]), where nothing can go wrong. What can has to say that the thread is attached, as PyO3's own slots
//! do: its trampolines are public for its macros, and five times as fast as `Python::attach`.

use crate::attached::Attached;
use crate::coroutine::{self, Coroutine, Outcome};
use crate::ready;
use crate::references;
use pyo3::ffi;
use pyo3::impl_::trampoline::{inquiry, iternextfunc, ternaryfunc, MethodDef};
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::PyClass;
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::marker::PhantomData;

/// A coroutine whose objects are used again for other calls.
pub(crate) trait Reused:
    Coroutine + PyClass<Frozen = True> + Sync + Into<PyClassInitializer<Self>>
{
    type Call: Call;

    fn new(call: Self::Call) -> Self;

    fn call(&self) -> &Attached<Self::Call>;

    /// The result of a call that has not begun, if it is at hand; the call is then over. The result is small: it may stay
    /// alive a little longer than its user wants. Does nothing that may fail or panic. No Python code runs, unless what
    /// the call held goes with it.
    fn at_once<'py>(&self, _py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        None
    }

    /// Where those go that nobody has any more.
    fn pool() -> &'static Pool;
}

/// [`Reused`] of a class that holds its module's `Call`: `reused! { Class }`, or `Class => its own at_once`.
macro_rules! reused {
    ($class:ident $(=> $($own:tt)*)?) => {
        impl $crate::reused::Reused for $class {
            type Call = Call;

            fn new(call: Call) -> Self {
                $class($crate::attached::Attached::new(call))
            }

            fn call(&self) -> &$crate::attached::Attached<Call> {
                &self.0
            }

            fn pool() -> &'static $crate::reused::Pool {
                static POOL: $crate::reused::Pool = $crate::reused::Pool::new();
                &POOL
            }

            $($($own)*)?
        }
    };
}
pub(crate) use reused;

/// What such an object holds.
pub(crate) trait Call: Sized {
    /// Goes on, as `Coroutine::drive`.
    fn advance(&mut self, py: Python<'_>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome>;

    /// One of this name that is over: it holds nothing and does nothing, not even when it is dropped.
    fn over(&self) -> Self;

    fn is_over(&self) -> bool;

    /// Gives away what it holds. Dropping that may run Python code.
    fn end(&mut self) -> Self {
        let over = self.over();
        std::mem::replace(self, over)
    }
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
#[inline]
pub(crate) fn make<T: Reused>(py: Python<'_>, call: T::Call) -> PyResult<Bound<'_, T>> {
    let Some(object) = take_idle::<T>(py) else {
        return Bound::new(py, T::new(call));
    };
    // SAFETY: nobody has borrowed it yet. It holds nothing that would have to be dropped.
    unsafe { object.get().call().as_ptr().write(call) };
    Ok(object)
}

/// An object that was used before, which its caller alone has: its call is over and holds nothing.
#[inline]
pub(crate) fn take_idle<T: Reused>(py: Python<'_>) -> Option<Bound<'_, T>> {
    let object = T::pool().idle(py).objects.pop()?;
    // SAFETY: the pool's own reference to a T, which becomes ours. It has a collector's header, is complete, and was not
    // tracked while it was idle.
    unsafe {
        ffi::PyObject_GC_Track(object.cast());
        Some(Bound::from_owned_ptr(py, object).cast_into_unchecked::<T>())
    }
}

/// Puts the raw slots into a class.
pub(crate) fn install<T: Reused>(py: Python<'_>) {
    let class = py.get_type::<T>().as_type_ptr();
    if T::pool().idle(py).dealloc.is_some() {
        // The module is made a second time (by another interpreter, or after it was thrown out of sys.modules).
        return;
    }
    // SAFETY: a type of ours that nobody uses yet and nobody can derive from. PyO3's types are heap types, which have their
    // own `tp_as_async`, so no other type's slots change. The functions take what the slots' callers give.
    unsafe {
        T::pool().idle(py).dealloc = (*class).tp_dealloc.replace(dealloc::<T>);
        (*class).tp_iternext = Some(next::<T>);
        if let Some(slots) = (*class).tp_as_async.as_mut() {
            slots.am_await = Some(itself);
            slots.am_send = Some(send::<T>);
        }
        ffi::PyType_Modified(class);
    }
}

/// Has `await` drive the objects of a class themselves, without the iterator that `__await__` gives.
pub(crate) fn install_await<T: PyClass>(py: Python<'_>) {
    let class = py.get_type::<T>().as_type_ptr();
    // SAFETY: as in `install`; the objects have `tp_iternext`.
    unsafe {
        if let Some(slots) = (*class).tp_as_async.as_mut() {
            slots.am_await = Some(itself);
        }
        ffi::PyType_Modified(class);
    }
}

/// `am_await`.
unsafe extern "C" fn itself(slf: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: a live object of ours. The caller is about to give up its own reference.
    unsafe { references::add(slf) };
    slf
}

/// The functions of a class, for PyO3's trampolines.
struct Of<T>(PhantomData<T>);

impl<T: Reused> MethodDef<iternextfunc::Func> for Of<T> {
    const METH: iternextfunc::Func = go_on::<T>;
}

impl<T: Reused> MethodDef<ternaryfunc::Func> for Of<T> {
    const METH: ternaryfunc::Func = send_to::<T>;
}

impl<T: Reused> MethodDef<inquiry::Func> for Of<T> {
    const METH: inquiry::Func = retire::<T>;
}

/// `at_once` of an object that a slot was given.
///
/// # Safety
/// It is a T, and the thread is attached.
#[inline]
unsafe fn at_once<'py, T: Reused>(slf: *mut ffi::PyObject) -> Option<Bound<'py, PyAny>> {
    // SAFETY: as the caller says. The slot's caller has a reference for as long as the slot runs.
    unsafe {
        let py = Python::assume_attached();
        let slf = Borrowed::from_ptr(py, slf).cast_unchecked::<T>();
        slf.get().at_once(py)
    }
}

/// `tp_iternext`.
unsafe extern "C" fn next<T: Reused>(slf: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: an instance of T, in a thread that is attached.
    match unsafe { at_once::<T>(slf) } {
        Some(value) => {
            ready::raise(value);
            std::ptr::null_mut()
        }
        // SAFETY: the slot's own argument.
        None => unsafe { iternextfunc::<Of<T>>(slf) },
    }
}

unsafe fn go_on<T: Reused>(py: Python<'_>, slf: *mut ffi::PyObject) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: an instance of T.
    let slf = unsafe { Bound::from_borrowed_ptr(py, slf).cast_into_unchecked::<T>() };
    let what = coroutine::next(&slf)?;
    Ok(what.map_or(std::ptr::null_mut(), Py::into_ptr))
}

// What `send_to` returns in place of an object; NULL is an error.
const RETURNED: usize = 1;
const SUSPENDED: usize = 2;

/// `am_send`.
unsafe extern "C" fn send<T: Reused>(
    slf: *mut ffi::PyObject,
    sent: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    // SAFETY: an instance of T, in a thread that is attached.
    if let Some(value) = unsafe { at_once::<T>(slf) } {
        // SAFETY: the caller's place for the result.
        unsafe { *result = value.into_ptr() };
        return ffi::PySendResult::PYGEN_RETURN;
    }
    // SAFETY: the slot's own arguments. The trampoline hands all three on without looking at them.
    let status = unsafe { ternaryfunc::<Of<T>>(slf, sent, result.cast()) };
    match status as usize {
        RETURNED => ffi::PySendResult::PYGEN_RETURN,
        SUSPENDED => ffi::PySendResult::PYGEN_NEXT,
        _ => ffi::PySendResult::PYGEN_ERROR,
    }
}

unsafe fn send_to<T: Reused>(
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
    let (status, object) = match T::drive(&slf, &sent)? {
        Outcome::Return(value) => (RETURNED, value.unwrap_or_else(|| py.None())),
        Outcome::Suspend(what) => (SUSPENDED, what),
    };
    // SAFETY: as above.
    unsafe { *place = object.into_ptr() };
    Ok(status as *mut ffi::PyObject)
}

/// `Coroutine::drive` of such a class.
pub(crate) fn drive<T: Reused>(slf: &Bound<'_, T>, sent: &Bound<'_, PyAny>) -> PyResult<Outcome> {
    let py = slf.py();
    let mut call = slf.get().call().borrow_mut(py)?;
    let outcome = call.advance(py, sent)?;
    if matches!(outcome, Outcome::Return(_)) {
        // Its end is then nearly free.
        let held = call.end();
        drop(call);
        drop(held);
    }
    Ok(outcome)
}

/// `tp_dealloc`.
unsafe extern "C" fn dealloc<T: Reused>(object: *mut ffi::PyObject) {
    // SAFETY: attached, as every destructor is; nobody has the object any more, which has a collector's header. With one
    // reference, our own, it is an object like others. The collector must not know it any more: it may be freeing it just
    // now, and would clear it once more while somebody else uses it.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        references::add(object);
        let py = Python::assume_attached();
        let is_over = {
            let slf = Borrowed::from_ptr(py, object).cast_unchecked::<T>();
            let call = slf.get().call().get(py);
            call.is_some_and(|call| call.is_over())
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
unsafe fn retire<T: Reused>(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<c_int> {
    // SAFETY: an instance of T.
    let slf = unsafe { Bound::from_borrowed_ptr(py, object).cast_into_unchecked::<T>() };
    let Some(mut call) = slf.get().call().get(py) else {
        return Ok(0);
    };
    let held = call.end();
    drop(call);
    drop(held);
    Ok(1)
}
