//! Kernel workers: threads of the kernel (SQPOLL) that submit, receive and send for the program's threads.
//!
//! A push is a store that the worker sees, so whoever holds the set's lock may push, wait for completions and read them,
//! whichever thread it is: a set is handed back by cancelling its entries and waiting until the last has come back. Two things
//! are no longer exact by themselves. A send ends later than the push, so whatever must come after it waits for it
//! ([`Inner::await_send`]). And bytes that have arrived may be neither here nor in the kernel's socket, but on the worker's way;
//! so before a read says that there is nothing, [`Inner::look`] asks the socket, and then waits until the worker has
//! finished what it was doing.

use crate::real;
use crate::report::options;
use crate::set::Inner;
use crate::socket::Socket;
use crate::{table, turn};
use io_uring::IoUring;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a worker is waited for before it is taken for lost; each wait is bounded by itself.
const WAITS: usize = 1000;
/// How long after the last thing that has happened a wait of no time still asks the worker.
const ASKS_FOR: Duration = Duration::from_millis(10);
/// A worker does 32 things at a time (`IORING_TW_CAP_ENTRIES_VALUE`).
const IN_STEP_ROUNDS: usize = 4;

/// What the command line says of the kernel's threads.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    /// None: the program's threads do it themselves.
    pub(crate) count: usize,
    pub(crate) cpus: Vec<u32>,
    pub(crate) idle_ms: u32,
    pub(crate) spin: Duration,
    /// For tests: every call first waits until the worker has done all that there is to do, so that a program that talks to
    /// itself sees what it would see without one.
    pub(crate) in_step: bool,
    /// Of threads for work that blocks.
    pub(crate) io_workers: Option<u32>,
    pub(crate) io_cpus: Vec<u32>,
}

/// Rings without entries, one for each worker, which live as long as the process: the rings of sets share their workers.
static WORKERS: Mutex<Made> = Mutex::new(Made {
    rings: Vec::new(),
    next: 0,
});

struct Made {
    rings: Vec<IoUring>,
    next: usize,
}

/// The ring whose worker the next ring is to have. None: it is to have none.
pub(crate) fn next() -> io::Result<Option<RawFd>> {
    let wanted = &options().workers;
    if wanted.count == 0 {
        return Ok(None);
    }
    let mut made = WORKERS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = made.next % wanted.count;
    if made.rings.len() == at {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_sqpoll(wanted.idle_ms);
        if let Some(cpu) = wanted.cpus.get(at) {
            builder.setup_sqpoll_cpu(*cpu);
        }
        let ring = builder.build(1)?;
        table::set_own(ring.as_raw_fd());
        made.rings.push(ring);
    }
    made.next += 1;
    Ok(Some(made.rings[at].as_raw_fd()))
}

/// How many this process has.
pub(crate) fn count() -> usize {
    WORKERS.lock().unwrap_or_else(PoisonError::into_inner).rings.len()
}

/// Workers are their process's. A forked child makes its own.
pub(crate) fn forget_in_child() {
    // Held by a thread that the child does not have: then the descriptors stay open until it ends.
    let Ok(mut made) = WORKERS.try_lock() else { return };
    made.next = 0;
    for ring in made.rings.drain(..) {
        let ring = std::mem::ManuallyDrop::new(ring);
        table::clear(ring.as_raw_fd());
        // SAFETY: the descriptor is this library's own, and the queues are not mapped in a child.
        unsafe { real::close(ring.as_raw_fd()) };
    }
}

/// Bounds the kernel's threads for work that blocks.
pub(crate) fn bound_io_workers(ring: &IoUring) -> io::Result<()> {
    let wanted = &options().workers;
    if let Some(count) = wanted.io_workers {
        ring.submitter().register_iowq_max_workers(&mut [count, count])?;
    }
    if !wanted.io_cpus.is_empty() {
        // SAFETY: zeroes are an empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for cpu in &wanted.io_cpus {
            // SAFETY: a live set; numbers beyond its size are left out.
            unsafe { libc::CPU_SET(*cpu as usize, &mut set) };
        }
        ring.submitter().register_iowq_aff(&set)?;
    }
    Ok(())
}

impl Inner {
    pub(crate) fn has_worker(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.has_worker)
    }

    /// Waits until the worker has completed something, and takes it.
    fn await_worker(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        if ring.completions() == 0 {
            self.stats.enters += 1;
            let _ = ring.submit();
        }
        self.reap();
    }

    /// Waits until the worker has sent what was pushed for a socket.
    pub(crate) fn await_send(&mut self, fd: RawFd) {
        if !self.has_worker() {
            return;
        }
        for _ in 0..WAITS {
            if !self.socket(fd).is_some_and(|socket| socket.in_flight) {
                return;
            }
            self.await_worker();
        }
    }

    /// Sends by plain calls, after what the worker has. True: all is sent.
    pub(crate) fn flush(&mut self, fd: RawFd) -> bool {
        self.await_send(fd);
        self.socket(fd).is_none_or(|socket| socket.flush())
    }

    /// Has the worker send what was written, while the program goes on.
    pub(crate) fn push_send(&mut self, fd: RawFd) {
        // One at a time, and nothing is to lie here until the program waits.
        self.await_send(fd);
        let (sockets, Some(ring)) = (&mut self.sockets, &mut self.ring) else {
            return;
        };
        if let Some(socket) = sockets.get_mut(fd as usize).and_then(Option::as_deref_mut) {
            turn::settle_one(socket, ring, &mut self.sends);
            ring.wake_worker();
            if options().workers.in_step {
                self.await_send(fd);
            }
        }
    }

    /// Sees that bytes of a socket that have arrived are here, at least `room` of them.
    pub(crate) fn look_past_worker(&mut self, fd: RawFd, room: usize) {
        for _ in 0..WAITS {
            self.reap();
            if !self
                .socket(fd)
                .is_some_and(|socket| socket.armed && socket.bytes < room)
            {
                return;
            }
            let mut entry = libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one live entry.
            if unsafe { real::poll(&raw mut entry, 1, 0) } > 0 {
                // The worker is about to take them.
                self.await_worker();
                continue;
            }
            if let Some(ring) = &self.ring {
                ring.wait_for_lock();
            }
            self.reap();
            return;
        }
    }

    /// Sees that whatever has happened to the sockets until now is known here.
    pub(crate) fn catch_up(&mut self) {
        // The worker first takes entries, then does what sockets have woken it for; so between these two it has done that.
        for _ in 0..2 {
            let before = self.echoes;
            let Some(ring) = &mut self.ring else { return };
            if !turn::push_echo(ring) {
                return;
            }
            for _ in 0..WAITS {
                if self.echoes != before {
                    break;
                }
                self.await_worker();
            }
            if self.has_ready() && !options().workers.in_step {
                return;
            }
        }
        if let Some(ring) = &self.ring {
            ring.wait_for_lock();
        }
        self.reap();
    }

    /// Whether a wait of no time that has found nothing asks the worker for more. It does not where nothing has come for a
    /// while: each question would keep the worker awake. What comes is here by itself a moment later.
    pub(crate) fn asks_worker(&mut self) -> bool {
        let since = *self.nothing_since.get_or_insert_with(Instant::now);
        options().workers.in_step || since.elapsed() < ASKS_FOR
    }

    /// Before a wait, for tests ([`Workers::in_step`]).
    pub(crate) fn keep_in_step(&mut self) {
        if self.has_worker() && options().workers.in_step {
            for _ in 0..IN_STEP_ROUNDS {
                self.settle();
                self.catch_up();
            }
        }
    }

    /// How many completions end a wait: one more than the worker's sends, whose ends say nothing new.
    pub(crate) fn wanted(&self) -> u32 {
        if self.has_worker() && self.is_chained {
            return 1;
        }
        self.sends.by_worker + 1
    }
}

impl Socket {
    /// Whether something waits for the end of the send that the ring has.
    pub(crate) fn needs_send_result(&self) -> bool {
        let is_waited_for = !self.queue.is_empty() || self.shut_later || self.closed;
        self.in_flight && (is_waited_for || self.wants_out() && !self.is_writable())
    }
}
