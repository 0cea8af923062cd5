//! A call that no other op is: a function of the caller's, run by a worker.

use crate::descriptors::Opens;
use crate::error::Cause;
use crate::sys::errno_of;
use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs a function on a worker thread; every backend does. The result is the count that it returns, or its error: an
/// [`io::ErrorKind::OutOfMemory`] without an errno is [`Error::out_of_memory`](crate::Error::out_of_memory), any other
/// error without an errno is EIO. The error itself is the source of the op's.
///
/// A panic of the function fails the op with EIO; see [`take_panic`](Self::take_panic).
///
/// When the op is cancelled, a system call in which the function is blocked fails with EINTR, and [`Stop::is_set`] says
/// so from then on. A function that returns EINTR is called again, unless the op was cancelled, and so is one that returns
/// EMFILE or ENFILE, when there may be a descriptor: what it has done so far it keeps to itself.
#[non_exhaustive]
pub struct Blocking {
    name: &'static str,
    work: Box<Work>,
    /// It may wait for somebody else, perhaps for ever (a lock, a slow peer). It then takes no worker away from other ops,
    /// and closing the driver stops it instead of letting it run to its end.
    pub waits: bool,
    /// Whether it opens a descriptor, for which the op then waits, and what becomes of that. One that is kept is given to
    /// [`File::counted`](super::File::counted). Default: it opens none.
    pub opens: Option<Opens>,
    /// How many it has open at once, if it opens any.
    pub(crate) descriptors: i32,
    pub(crate) count: usize,
    /// The function had no memory.
    pub(crate) lacks_memory: bool,
    cause: Option<Box<Cause>>,
    /// Behind a lock because a payload need not be `Sync`, and ops are.
    panic: Mutex<Option<Payload>>,
}

type Payload = Box<dyn Any + Send>;

type Work = dyn FnMut(&Stop<'_>) -> io::Result<usize> + Send + Sync;

/// Whether the op has been cancelled.
pub struct Stop<'a>(&'a AtomicBool);

impl Stop<'_> {
    /// Whether the work is to end, with an error of EINTR.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Blocking {
    /// Runs `work`; `name` is the op's name in errors.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Blocking}};
    /// # let mut driver = Driver::new()?;
    /// let count = driver.run(Blocking::new("users", |_| {
    ///     Ok(std::fs::read_to_string("/etc/passwd")?.lines().count())
    /// }))?;
    /// assert!(count > 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(
        name: &'static str,
        work: impl FnMut(&Stop<'_>) -> io::Result<usize> + Send + Sync + 'static,
    ) -> Self {
        Blocking {
            name,
            work: Box::new(work),
            waits: false,
            opens: None,
            descriptors: 1,
            count: 0,
            lacks_memory: false,
            cause: None,
            panic: Mutex::new(None),
        }
    }

    /// As `new`, for work that may wait for somebody else.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::Blocking};
    /// # use std::sync::mpsc::channel;
    /// # use std::sync::Mutex;
    /// # let mut driver = Driver::new()?;
    /// let (sender, receiver) = channel();
    /// let receiver = Mutex::new(receiver);
    /// let received = Blocking::waiting("receive", move |_| {
    ///     let receiver = receiver.lock().expect("nobody has panicked");
    ///     receiver.recv().map_err(std::io::Error::other)
    /// });
    /// sender.send(7)?;
    /// assert_eq!(driver.run(received)?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn waiting(
        name: &'static str,
        work: impl FnMut(&Stop<'_>) -> io::Result<usize> + Send + Sync + 'static,
    ) -> Self {
        Blocking {
            waits: true,
            ..Self::new(name, work)
        }
    }

    /// Opens a descriptor, for which the op then waits; says what becomes of it.
    pub fn opens(mut self, opens: Opens) -> Self {
        self.opens = Some(opens);
        self
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The payload of the function's panic, if it panicked, for [`std::panic::resume_unwind`]. The op gives it once.
    pub fn take_panic(&mut self) -> Option<Box<dyn Any + Send>> {
        self.panic
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    pub(crate) fn take_cause(&mut self) -> Option<Cause> {
        self.cause.take().map(|cause| *cause)
    }

    pub(crate) fn perform(&mut self, stop: &AtomicBool) -> i32 {
        // What the function leaves half done is its own: it is not called again after a panic.
        match catch_unwind(AssertUnwindSafe(|| (self.work)(&Stop(stop)))) {
            Ok(result) => self.ended(result),
            Err(payload) => {
                self.cause = Some(Box::new(Cause::Panic(message_of(&*payload))));
                self.panic = Mutex::new(Some(payload));
                -libc::EIO
            }
        }
    }

    fn ended(&mut self, result: io::Result<usize>) -> i32 {
        match result {
            Ok(count) => {
                self.count = count;
                0
            }
            Err(e) if e.kind() == io::ErrorKind::OutOfMemory && e.raw_os_error().is_none() => {
                self.lacks_memory = true;
                -libc::ENOMEM
            }
            Err(e) => match e.raw_os_error() {
                Some(errno) => -errno,
                None => {
                    let errno = errno_of(&e).unwrap_or(libc::EIO);
                    self.cause = Some(Box::new(Cause::Error(e)));
                    -errno
                }
            },
        }
    }
}

/// The text of a panic, for those made by `panic!` and its like.
fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&'static str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a payload that is no text").to_owned()
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking")
            .field("name", &self.name)
            .field("waits", &self.waits)
            .finish_non_exhaustive()
    }
}
