//! A call that no other op is: a function of the caller's, run by a worker.

use crate::descriptors::Opens;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs a function on a worker thread; every backend does. The result is the count that it returns, or its error: an
/// [`io::ErrorKind::OutOfMemory`] without an errno is [`Error::out_of_memory`](crate::Error::out_of_memory).
///
/// When the op is cancelled, a system call in which the function is blocked fails with EINTR, and [`Stop::is_set`] says
/// so from then on. A function that returns EINTR is called again, unless the op was cancelled, and so is one that returns
/// EMFILE or ENFILE, when there may be a descriptor: what it has done so far it keeps to itself. It must not panic.
pub struct Blocking {
    name: &'static str,
    work: Box<Work>,
    /// It may wait for somebody else, perhaps for ever (a lock, a slow peer). It then takes no worker away from other ops,
    /// and closing the driver stops it instead of letting it run to its end.
    pub waits: bool,
    /// Whether it opens a descriptor, for which the op then waits, and what becomes of that. One that is kept is given to
    /// [`File::counted`](super::File::counted). Default: it opens none.
    pub opens: Option<Opens>,
    pub(crate) count: usize,
    /// The function had no memory.
    pub(crate) lacks_memory: bool,
}

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
    pub fn new(
        name: &'static str,
        work: impl FnMut(&Stop<'_>) -> io::Result<usize> + Send + Sync + 'static,
    ) -> Self {
        Blocking {
            name,
            work: Box::new(work),
            waits: false,
            opens: None,
            count: 0,
            lacks_memory: false,
        }
    }

    /// As `new`, for work that may wait for somebody else.
    pub fn waiting(
        name: &'static str,
        work: impl FnMut(&Stop<'_>) -> io::Result<usize> + Send + Sync + 'static,
    ) -> Self {
        Blocking {
            waits: true,
            ..Self::new(name, work)
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn perform(&mut self, stop: &AtomicBool) -> i32 {
        match (self.work)(&Stop(stop)) {
            Ok(count) => {
                self.count = count;
                0
            }
            Err(e) if e.kind() == io::ErrorKind::OutOfMemory && e.raw_os_error().is_none() => {
                self.lacks_memory = true;
                -libc::ENOMEM
            }
            Err(e) => -e.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking")
            .field("name", &self.name)
            .field("waits", &self.waits)
            .finish_non_exhaustive()
    }
}
