//! The waits: epoll_wait, epoll_pwait, epoll_pwait2 on a set with sockets on a ring.

use crate::report::Cause;
use crate::ring::{timespec, Ring};
use crate::set::{this_thread, Inner, Phase, Set};
use crate::transfer::{ticks, FIRST_ADDRESS};
use crate::{parked, real, report, table};
use libc::{c_int, epoll_event, pollfd, sigset_t};
use std::time::{Duration, Instant};

/// How long sends that a kernel worker has are left alone before they are looked at.
const SENDS_END: Duration = Duration::from_millis(1);

/// What the program gave.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) events: *mut epoll_event,
    pub(crate) max: usize,
    /// None: for ever.
    pub(crate) timeout: Option<Duration>,
    pub(crate) mask: *const sigset_t,
}

impl Wait {
    fn is_nowhere(&self) -> bool {
        (self.events as usize) < FIRST_ADDRESS
    }
}

/// How a wait ends.
pub(crate) enum End {
    Events(usize),
    Fail(c_int),
    /// Nothing is here: call the real function, then [`Set::end_real_wait`].
    Real,
}

pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        Deadline(
            timeout
                .filter(|timeout| !timeout.is_zero())
                .and_then(|timeout| Instant::now().checked_add(timeout)),
        )
    }

    pub(crate) fn left(&self, timeout: Option<Duration>) -> Option<Duration> {
        match self.0 {
            Some(at) => Some(at.saturating_duration_since(Instant::now())),
            None => timeout,
        }
    }
}

/// Waits on a set.
///
/// # Safety
/// `events` has room for `max`, and `mask` is null or a signal mask.
pub(crate) unsafe fn wait(set: &'static Set, wait: Wait) -> End {
    let Some(mut held) = set.lock(Cause::SecondThread) else {
        return End::Fail(libc::EINTR);
    };
    // After an interruption without a signal ppoll goes on; the real wait does not.
    let is_noisy = held.noisy_until.is_some_and(|until| Instant::now() < until);
    held.look_for_return();
    if held.count == held.lent && held.ring.is_none() && !is_noisy {
        held.noisy_until = None;
        set.begin_real_wait();
        return End::Real;
    }
    if held.phase == Phase::Idle && !set.is_waited_on() {
        held.start();
    }
    let deadline = Deadline::new(wait.timeout);
    let mut left = wait.timeout;
    loop {
        if held.phase != Phase::Ring {
            drop(held);
            let wait = Wait {
                timeout: left,
                ..wait
            };
            // SAFETY: the caller's promise.
            return unsafe { plain(set, wait) };
        }
        held.settle();
        held.keep_in_step();
        let is_zero = left.is_some_and(|left| left.is_zero());
        if is_zero && held.has_worker() && !(held.real_ready || held.has_ready()) {
            held.reap();
            if !held.has_ready() {
                if wait.timeout.is_some_and(|timeout| timeout.is_zero()) && held.asks_worker() {
                    // Not at the end of a wait that took time: an entry would keep the worker awake.
                    held.catch_up();
                }
                // The worker may not have looked at the real set yet.
                held.real_ready = true;
            }
        }
        let wanted = held.wanted();
        let sends_by_worker = held.sends.by_worker > 0;
        let at_once = is_zero || held.real_ready || held.has_ready();
        let Some(ring) = &mut held.ring else { continue };
        let mut interrupted = false;
        if !at_once || ring.must_submit() || ring.is_behind() {
            let mut call = ring.wait_call(if at_once { 0 } else { wanted });
            let have = ring.completions();
            call.timeout = left.filter(|_| !at_once);
            if sends_by_worker && !at_once {
                // One of them may have been short, and the rest waits for room.
                call.timeout = Some(left.map_or(SENDS_END, |left| left.min(SENDS_END)));
            }
            call.mask = if at_once { std::ptr::null() } else { wait.mask };
            held.waiting = true;
            drop(held);
            let mut enters = 0;
            // SAFETY: nobody takes the ring from a set whose owner waits.
            let result = unsafe { call.run(&mut enters) };
            held = loop {
                if let Some(held) = set.hold() {
                    break held;
                }
            };
            held.waiting = false;
            held.stats.enters += enters;
            let came = held.ring.as_ref().map_or(0, Ring::completions);
            interrupted = match result {
                Err(libc::EINTR) => true,
                // A call that has handed something over says so even if a signal ended its wait.
                Ok(taken) => {
                    !at_once
                        && taken > 0
                        && came < call.want as usize
                        && came >= have
                        && deadline.0.is_none_or(|at| Instant::now() < at)
                }
                Err(libc::ETIME | libc::EBUSY | libc::EAGAIN) => false,
                Err(_) => {
                    held.give_up(Cause::RingLost);
                    false
                }
            };
        }
        held.reap();
        held.feed();
        if let Some(cause) = held.wanted.take() {
            if held.phase == Phase::Ring {
                held.hand_back(cause);
            }
            set.announce();
        }
        if wait.is_nowhere() && held.would_report(wait) {
            return End::Fail(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        let count = unsafe { held.report(wait.events, wait.max) };
        if count > 0 {
            held.batch = count;
            held.turn = ticks();
            return End::Events(count);
        }
        if interrupted {
            return End::Fail(libc::EINTR);
        }
        left = deadline.left(wait.timeout);
        if is_zero && held.phase == Phase::Ring && !held.has_ready() {
            return End::Events(0);
        }
    }
}

impl Inner {
    /// Makes the ring of the thread that waits, now that there is one.
    fn start(&mut self) {
        let ring = parked::take(this_thread()).map_or_else(|| Ring::new(report::options().pool), Ok);
        match ring {
            Ok(ring) => {
                table::set_own(ring.fd());
                table::set_own(ring.wake);
                self.ring = Some(ring);
                self.owner = this_thread();
                self.phase = Phase::Ring;
                for fd in self.all() {
                    self.touch(fd);
                    self.mark(fd);
                }
            }
            Err(_) => self.give_up(Cause::NoRing),
        }
        self.stats.waits += 1;
    }

    /// Whether there is an event that cannot be written to a place that is none. It stays.
    #[cold]
    fn would_report(&mut self, wait: Wait) -> bool {
        // SAFETY: the kernel checks the place.
        self.has_ready() || unsafe { real::epoll_wait(self.epfd, wait.events, wait.max as c_int, 0) } < 0
    }

    /// Reports sockets and what the real set has, in turn where there is not room for both.
    ///
    /// # Safety
    /// `events` has room for `max`.
    unsafe fn report(&mut self, events: *mut epoll_event, max: usize) -> usize {
        self.stats.waits += 1;
        if !self.real_ready {
            // SAFETY: the caller's promise.
            return unsafe { self.collect(events, max) };
        }
        self.real_first = !self.real_first;
        let mut count = 0;
        if self.real_first {
            // Half of the room, so that sockets have the other half.
            // SAFETY: the caller's promise.
            count = unsafe { self.collect_real(events, max.div_ceil(2)) };
            // SAFETY: the caller's promise, less what is filled.
            count += unsafe { self.collect(events.add(count), max - count) };
        } else {
            // SAFETY: the caller's promise.
            count += unsafe { self.collect(events, max.div_ceil(2)) };
            // SAFETY: the caller's promise, less what is filled.
            count += unsafe { self.collect_real(events.add(count), max - count) };
        }
        count
    }

    /// # Safety
    /// `events` has room for `max`.
    unsafe fn collect_real(&mut self, events: *mut epoll_event, max: usize) -> usize {
        if max == 0 {
            return 0;
        }
        // SAFETY: the caller's promise.
        let count = unsafe { real::epoll_wait(self.epfd, events, max as c_int, 0) };
        // SAFETY: as many were written.
        let count = unsafe { self.without_flag(events, count.max(0) as usize) };
        // What is reported may be ready still: only a look that finds nothing says that the poll in the ring will tell of more.
        self.real_ready = count > 0;
        count
    }

    /// What a plain wait has to look at beside the real set.
    fn rest(&mut self) -> Vec<pollfd> {
        let mut entries = Vec::new();
        for socket in self.sockets.iter_mut().flatten().filter(|socket| !socket.lent) {
            socket.refresh();
            let mut events = if socket.queued() > 0 { libc::POLLOUT } else { 0 };
            if socket.has_edges && events == 0 {
                continue;
            }
            if !socket.has_edges {
                events |= socket.events as i16 & (libc::POLLIN | libc::POLLOUT);
            }
            entries.push(pollfd {
                fd: socket.fd,
                events,
                revents: 0,
            });
        }
        if self.edges >= 0 {
            entries.push(pollfd {
                fd: self.edges,
                events: libc::POLLIN,
                revents: 0,
            });
        }
        entries
    }
}

/// Waits on a set that was handed back: for the real set, and for sockets of which something is left here.
///
/// # Safety
/// As [`wait`].
unsafe fn plain(set: &'static Set, wait: Wait) -> End {
    let deadline = Deadline::new(wait.timeout);
    loop {
        let Some(mut held) = set.hold() else {
            return End::Fail(libc::EINTR);
        };
        held.note_edges();
        for fd in held.all() {
            let mut has_news = true;
            if let Some(socket) = held.socket(fd).filter(|socket| !socket.lent) {
                socket.refresh();
                if socket.queued() > 0 {
                    socket.blocked = false;
                    socket.flush();
                }
                if socket.wants_out() {
                    socket.ask_room();
                }
                if !socket.has_enough() || socket.is_edge() {
                    let is_worse = socket.ask();
                    let level =
                        !socket.is_edge() || !socket.has_edges && (socket.readable || socket.wants_out());
                    has_news = is_worse || level;
                }
            }
            held.release(fd);
            if has_news {
                held.mark(fd);
            }
        }
        if wait.is_nowhere() && held.would_report(wait) {
            return End::Fail(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        let mut count = unsafe { held.collect(wait.events, wait.max) };
        // SAFETY: the caller's promise, less what is filled.
        count += unsafe { held.collect_real(wait.events.add(count), wait.max - count) };
        if count > 0 {
            return End::Events(count);
        }
        let epfd = held.epfd;
        let mut entries = held.rest();
        set.begin_real_wait();
        drop(held);
        let left = deadline.left(wait.timeout);
        if left.is_some_and(|left| left.is_zero()) {
            set.end_real_wait();
            return End::Events(0);
        }
        entries.push(pollfd {
            fd: epfd,
            events: libc::POLLIN,
            revents: 0,
        });
        let time = left.map(timespec);
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: live entries and times, and the caller's mask.
        let found = unsafe { real::ppoll(entries.as_mut_ptr(), entries.len() as u64, time, wait.mask) };
        let error = crate::errno();
        set.end_real_wait();
        if found < 0 {
            return End::Fail(error);
        }
    }
}
