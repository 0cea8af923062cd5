//! A driver inside a Python object, which any thread may touch or free.
//!
//! Only the thread that made a driver may use or free it, for the kernel may be writing into its buffers and answers
//! nobody else. So each thread keeps what it made: a driver whose object went away elsewhere is freed at its thread's next
//! use of one (in the main thread as soon as Python code runs there), and at the thread's end at the latest.

use proactor_engine::{Driver, Engine};
use proactor_net::Sockets;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// What one thread makes and uses: a driver, or all that stands on one.
pub(crate) trait OneThread: 'static {
    /// Whether this is a forked child of its process.
    fn is_forked(&self) -> bool;
}

impl OneThread for Driver {
    fn is_forked(&self) -> bool {
        Driver::is_forked(self)
    }
}

impl OneThread for Sockets {
    fn is_forked(&self) -> bool {
        Sockets::is_forked(self)
    }
}

/// A driver that only the thread that made it can reach, or one that any thread may reach whose object is locked.
pub(crate) struct ThreadBound<T: OneThread = Driver> {
    slot: Arc<Slot<T>>,
    /// None for a driver of all threads.
    owner: Option<ThreadId>,
    closed: AtomicBool,
}

struct Slot<T> {
    driver: UnsafeCell<Option<T>>,
    /// The object is gone.
    unwanted: AtomicBool,
}

// SAFETY: `driver` is read and written on its own thread only: by `ThreadBound`, which compares ids, and by the list that
// is that thread's own. The list lets go of a slot only when the driver is out of it, so nobody else frees one either.
// A driver of all threads is in no list, and reached through `&mut ThreadBound` alone, which its object's lock gives to one
// thread at a time; a driver's parts refer to each other only, and no engine but io_uring ties one to a thread.
unsafe impl<T> Send for Slot<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Slot<T> {}

/// A slot as its thread's list knows it.
trait Listed {
    fn is_unwanted(&self) -> bool;

    /// Frees what is in it.
    ///
    /// # Safety
    /// This is the thread that made it, and no call of it is on the stack.
    unsafe fn empty(&self);

    /// As `empty`, without the GIL.
    ///
    /// # Safety
    /// As `empty`.
    unsafe fn empty_detached(&self);
}

impl<T: OneThread> Listed for Slot<T> {
    fn is_unwanted(&self) -> bool {
        self.unwanted.load(Ordering::Acquire)
    }

    unsafe fn empty(&self) {
        // SAFETY: the caller's promise.
        drop(unsafe { (*self.driver.get()).take() });
    }

    unsafe fn empty_detached(&self) {
        // SAFETY: the caller's promise.
        free(unsafe { (*self.driver.get()).take() });
    }
}

/// Slots, of whatever thread, that wait for their thread to come by.
static UNWANTED: AtomicUsize = AtomicUsize::new(0);

/// This thread's drivers.
struct Mine(RefCell<Vec<Arc<dyn Listed>>>);

thread_local! {
    static MINE: Mine = const { Mine(RefCell::new(Vec::new())) };
}

/// A number of this thread's own, for less than `thread::current` costs.
pub(crate) fn thread_mark() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local! {
        static MARK: Cell<usize> = const { Cell::new(0) };
    }
    let mark = MARK.get();
    if mark != 0 {
        return mark;
    }
    let mark = NEXT.fetch_add(1, Ordering::Relaxed);
    MARK.set(mark);
    mark
}

impl Drop for Mine {
    fn drop(&mut self) {
        // The thread ends. Whoever still has an object of its own can only hear that it is another thread's.
        for slot in self.0.take() {
            if slot.is_unwanted() {
                UNWANTED.fetch_sub(1, Ordering::Relaxed);
            }
            // SAFETY: this is the driver's thread, and no call of it is on the stack.
            unsafe { slot.empty() };
        }
    }
}

impl ThreadBound {
    /// A driver that its object's lock hands from thread to thread. It is freed by whichever drops it.
    ///
    /// # Panics
    /// On io_uring, whose ring answers the thread that made it alone.
    pub(crate) fn of_all_threads(driver: Driver) -> Self {
        assert_ne!(driver.chosen().engine, Engine::IoUring, "a ring has one thread");
        let slot = Slot {
            driver: UnsafeCell::new(Some(driver)),
            unwanted: AtomicBool::new(false),
        };
        ThreadBound {
            slot: Arc::new(slot),
            owner: None,
            closed: AtomicBool::new(false),
        }
    }
}

impl<T: OneThread> ThreadBound<T> {
    pub(crate) fn new(driver: T) -> Self {
        reap();
        let slot = Arc::new(Slot {
            driver: UnsafeCell::new(Some(driver)),
            unwanted: AtomicBool::new(false),
        });
        let listed: Arc<dyn Listed> = Arc::<Slot<T>>::clone(&slot);
        MINE.with(|mine| mine.0.borrow_mut().push(listed));
        ThreadBound {
            slot,
            owner: Some(thread::current().id()),
            closed: AtomicBool::new(false),
        }
    }

    /// The driver.
    ///
    /// # Errors
    /// `RuntimeError` on another thread and in a forked child, `ValueError` after `close`.
    pub(crate) fn get(&mut self) -> PyResult<&mut T> {
        self.check_thread()?;
        reap();
        // SAFETY: this is the driver's thread, or the only one that has the object's lock; `&mut self` and the result's
        // lifetime keep it the only reference, for the list looks into unwanted slots only.
        let driver = unsafe { (*self.slot.driver.get()).as_mut() };
        let driver = driver.ok_or_else(|| PyValueError::new_err("the context is closed"))?;
        if driver.is_forked() {
            return Err(PyRuntimeError::new_err(
                "this object was made before fork(): make a new one in the child",
            ));
        }
        Ok(driver)
    }

    fn check_thread(&self) -> PyResult<()> {
        if self.is_mine() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "this object belongs to another thread: make one in each thread that needs one",
        ))
    }

    pub(crate) fn is_mine(&self) -> bool {
        self.owner.is_none_or(|owner| thread::current().id() == owner)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Waits for the kernel to let go of everything, without holding the GIL, then frees the driver. In a forked child it
    /// only frees.
    ///
    /// # Errors
    /// `RuntimeError` on another thread.
    pub(crate) fn close(&mut self) -> PyResult<()> {
        if !self.is_closed() {
            self.check_thread()?;
            self.let_go();
        }
        Ok(())
    }

    /// Closes, or sees to it that the driver's own thread will.
    pub(crate) fn let_go(&mut self) {
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.owner.is_none() {
            // SAFETY: no list has the slot, and `&mut self` is the only way to it.
            free(unsafe { (*self.slot.driver.get()).take() });
            return;
        }
        UNWANTED.fetch_add(1, Ordering::Relaxed);
        self.slot.unwanted.store(true, Ordering::Release);
        if self.is_mine() {
            reap();
        } else {
            // SAFETY: the function takes no argument. If the queue is full, the next use or the thread's end do it.
            unsafe { ffi::Py_AddPendingCall(Some(reap_in_main_thread), std::ptr::null_mut()) };
        }
    }
}

impl<T: OneThread> Drop for ThreadBound<T> {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Frees this thread's unwanted drivers.
fn reap() {
    if UNWANTED.load(Ordering::Relaxed) == 0 {
        return;
    }
    // The borrow ends before anything is freed: releasing a Python buffer may run code that comes back here. The list may
    // be gone, at the thread's end.
    let unwanted = MINE.try_with(|mine| {
        let is_unwanted = |slot: &mut Arc<dyn Listed>| slot.is_unwanted();
        let mut mine = mine.0.borrow_mut();
        mine.extract_if(.., is_unwanted).collect::<Vec<_>>() // allocates: a pointer for each driver of the thread
    });
    for slot in unwanted.unwrap_or_default() {
        UNWANTED.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the slot was in this thread's list, so this is the driver's thread; its object is gone.
        unsafe { slot.empty_detached() };
    }
}

/// Drops a driver, which waits for the kernel, without the GIL.
fn free<T>(driver: Option<T>) {
    let mut driver = AssertSend(driver);
    // Without an interpreter there is no GIL to let go of.
    let _ = Python::try_attach(|py| py.detach(|| drop(driver.get().take())));
    drop(driver);
}

extern "C" fn reap_in_main_thread(_: *mut c_void) -> c_int {
    reap();
    0
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
