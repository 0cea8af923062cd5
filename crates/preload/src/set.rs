//! One epoll set whose stream sockets are on the ring of the thread that waits.
//!
//! Invariants: a socket is either here or in the real epoll set, never in both. No lock is held while a thread waits. Whoever
//! holds the lock of a set on a ring is its owner; any other thread hands it back first ([`Set::lock`]).

use crate::report::{Cause, Stats};
use crate::ring::Ring;
use crate::sends::Sends;
use crate::socket::Socket;
use crate::{real, table};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

thread_local! {
    /// This thread holds a set's lock. A signal handler that comes then must not wait for it.
    pub(crate) static BUSY: Cell<bool> = const { Cell::new(false) };
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// A number that no other thread of the process has had.
pub(crate) fn this_thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        thread.get()
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No thread has waited yet.
    Idle,
    Ring,
    /// Handed back. Sockets that are still here have bytes for the program.
    Plain,
    /// The epoll descriptor is closed.
    Closed,
}

pub(crate) struct Set {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Threads that wait for the real set alone. Grows only under the lock.
    pub(crate) in_real_wait: AtomicU32,
    /// An eventfd of ours may be among the real events.
    pub(crate) has_flag: AtomicBool,
}

pub(crate) struct Inner {
    pub(crate) number: u32,
    /// One of `names`, or -1.
    pub(crate) epfd: RawFd,
    /// The descriptors of the real set.
    pub(crate) names: Vec<RawFd>,
    pub(crate) phase: Phase,
    pub(crate) owner: u32,
    /// The owner waits in the kernel, without the lock.
    pub(crate) waiting: bool,
    /// Another thread wants the owner to hand the set back.
    pub(crate) wanted: Option<Cause>,
    pub(crate) ring: Option<Ring>,
    pub(crate) sockets: Vec<Option<Box<Socket>>>,
    pub(crate) count: usize,
    pub(crate) ready: Vec<RawFd>,
    /// Memory for the next list.
    pub(crate) spare: Vec<RawFd>,
    pub(crate) dirty: Vec<RawFd>,
    /// The real set may have something to report.
    pub(crate) real_ready: bool,
    pub(crate) real_first: bool,
    pub(crate) real_armed: bool,
    pub(crate) wake_armed: bool,
    /// A receive has found no buffer.
    pub(crate) starved: bool,
    pub(crate) sends: Sends,
    /// Of one of them the program, or what is queued behind it, waits for the end.
    pub(crate) is_chained: bool,
    /// Entries that did nothing and have come back.
    pub(crate) echoes: u32,
    /// Since when waits of no time have found nothing.
    pub(crate) nothing_since: Option<Instant>,
    /// Sockets that the last wait has reported.
    pub(crate) batch: usize,
    /// When it did, in ticks of the coarse clock.
    pub(crate) turn: i64,
    /// Until then the kernel may interrupt a thread because a ring of its is taken down.
    pub(crate) noisy_until: Option<Instant>,
    pub(crate) generations: u32,
    /// The eventfd of `flag.rs`, or -1.
    pub(crate) flag: RawFd,
    pub(crate) flagged: bool,
    pub(crate) flag_is_parents: bool,
    /// The epoll set of `edges.rs`, or -1.
    pub(crate) edges: RawFd,
    /// Sockets are lent to the real set (`lend.rs`) until the processes that were forked are gone.
    pub(crate) lending: bool,
    /// How many sockets are lent.
    pub(crate) lent: usize,
    pub(crate) stats: Stats,
}

impl Inner {
    pub(crate) fn socket(&mut self, fd: RawFd) -> Option<&mut Socket> {
        self.sockets.get_mut(usize::try_from(fd).ok()?)?.as_deref_mut()
    }

    /// Has the set look at a socket before the next wait.
    pub(crate) fn touch(&mut self, fd: RawFd) {
        if let Some(socket) = self.socket(fd) {
            if !std::mem::replace(&mut socket.dirty, true) {
                self.dirty.push(fd);
                self.nothing_since = None;
            }
        }
    }

    /// Has the next wait see whether the socket is ready.
    pub(crate) fn mark(&mut self, fd: RawFd) {
        if let Some(socket) = self.socket(fd) {
            if !std::mem::replace(&mut socket.listed, true) {
                self.ready.push(fd);
            }
        }
    }

    pub(crate) fn insert(&mut self, socket: Socket) {
        let fd = socket.fd;
        let at = fd as usize;
        if self.sockets.len() <= at {
            // allocates: an entry for each descriptor
            self.sockets.resize_with(at + 1, || None);
        }
        self.sockets[at] = Some(Box::new(socket));
        self.count += 1;
        table::set_socket(fd, self.number);
    }

    /// Forgets a socket that has no entry in the kernel.
    pub(crate) fn remove(&mut self, fd: RawFd) {
        let Some(place) = usize::try_from(fd).ok().and_then(|at| self.sockets.get_mut(at)) else {
            return;
        };
        let Some(mut socket) = place.take() else { return };
        debug_assert!(!socket.in_flight || self.ring.is_none());
        socket.discard(self.ring.as_mut().map(|ring| &mut ring.pool));
        self.count -= 1;
        self.lent -= usize::from(socket.lent);
        if socket.has_edges {
            self.forget_edges(fd);
        }
        if self.count == 0 && self.epfd < 0 {
            self.phase = Phase::Closed;
        }
        table::clear(fd);
        if socket.listed {
            self.ready.retain(|one| *one != fd);
        }
        if socket.dirty {
            self.dirty.retain(|one| *one != fd);
        }
    }

    /// The descriptors of all sockets that are here.
    pub(crate) fn all(&self) -> Vec<RawFd> {
        // allocates: four bytes a socket
        self.sockets.iter().flatten().map(|socket| socket.fd).collect()
    }

    pub(crate) fn is_mine(&self) -> bool {
        self.phase != Phase::Ring || self.owner == this_thread()
    }

    /// Ends the owner's wait.
    pub(crate) fn wake_owner(&self) {
        if let Some(ring) = &self.ring {
            let one = 1u64;
            // SAFETY: eight live bytes.
            unsafe { real::write(ring.wake, (&raw const one).cast(), 8) };
        }
    }

    pub(crate) fn new_generation(&mut self) -> u32 {
        self.generations = (self.generations + 1) & 0xff_ffff;
        self.generations
    }
}

/// A set whose lock this thread holds.
pub(crate) struct Held {
    guard: Option<MutexGuard<'static, Inner>>,
}

impl Deref for Held {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        self.guard.as_deref().expect("held until dropped")
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Inner {
        self.guard.as_deref_mut().expect("held until dropped")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(set) = self.guard.as_deref_mut().filter(|set| set.flag >= 0) {
            set.fly();
        }
        self.guard = None;
        BUSY.with(|busy| busy.set(false));
    }
}

impl Set {
    pub(crate) fn new(number: u32, epfd: RawFd) -> Self {
        let inner = Inner {
            number,
            epfd,
            names: vec![epfd],
            phase: Phase::Idle,
            owner: 0,
            waiting: false,
            wanted: None,
            ring: None,
            sockets: Vec::new(),
            count: 0,
            ready: Vec::new(),
            spare: Vec::new(),
            dirty: Vec::new(),
            real_ready: false,
            real_first: false,
            real_armed: false,
            wake_armed: false,
            starved: false,
            sends: Sends::default(),
            is_chained: false,
            echoes: 0,
            nothing_since: None,
            batch: 0,
            turn: 0,
            noisy_until: None,
            generations: 0,
            flag: -1,
            flagged: false,
            flag_is_parents: false,
            edges: -1,
            lending: false,
            lent: 0,
            stats: Stats::default(),
        };
        Set {
            inner: Mutex::new(inner),
            changed: Condvar::new(),
            in_real_wait: AtomicU32::new(0),
            has_flag: AtomicBool::new(false),
        }
    }

    /// Takes note of a second descriptor of the real set.
    pub(crate) fn add_name(&'static self, fd: RawFd) {
        if let Some(mut held) = self.hold() {
            held.names.push(fd);
            table::set_epoll(fd, held.number);
        }
    }

    /// Whether a thread waits for the real set alone, and sees nothing of what is added here.
    pub(crate) fn is_waited_on(&self) -> bool {
        self.in_real_wait.load(Ordering::Acquire) > 0
    }

    /// Called under the lock before a wait for the real set alone.
    pub(crate) fn begin_real_wait(&self) {
        self.in_real_wait.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end_real_wait(&self) {
        self.in_real_wait.fetch_sub(1, Ordering::AcqRel);
    }

    /// Locks the set as it is. None: a signal handler interrupted a holder.
    pub(crate) fn hold(&'static self) -> Option<Held> {
        if BUSY.with(|busy| busy.replace(true)) {
            return None;
        }
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Held { guard: Some(guard) })
    }

    /// Locks the set, and hands it back to plain epoll for `cause` if it is on another thread's ring.
    #[inline]
    pub(crate) fn lock(&'static self, cause: Cause) -> Option<Held> {
        let mut held = self.hold()?;
        if !held.is_mine() {
            self.hand_back_from_here(&mut held, cause);
        }
        Some(held)
    }

    #[cold]
    fn hand_back_from_here(&'static self, held: &mut Held, cause: Cause) {
        if !held.waiting {
            held.hand_back_while_owner_computes(cause);
            return;
        }
        held.wanted = Some(cause);
        held.wake_owner();
        while held.phase == Phase::Ring && held.waiting {
            let guard = held.guard.take().expect("held until dropped");
            held.guard = Some(self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner));
        }
        if held.phase == Phase::Ring && !held.is_mine() {
            held.hand_back_while_owner_computes(cause);
        }
    }

    /// Tells threads that wait for the owner that it has handed the set back.
    pub(crate) fn announce(&'static self) {
        self.changed.notify_all();
    }

    pub(crate) fn stats(&'static self) -> Option<Stats> {
        self.hold().map(|held| held.stats)
    }
}
