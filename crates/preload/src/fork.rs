//! A fork: what two processes have must be received by the kernel's rules, until one of them is gone.
//!
//! Before a fork all sets are handed back. The child gets the write end of a pipe; when the parent reads the end of it, the child
//! and all that it has forked have ended, or run other programs, and sockets may return to the ring (`lend.rs`).

use crate::report::{self, Cause, Stats};
use crate::set::{Held, Phase, BUSY};
use crate::transfer::ticks;
use crate::{parked, real, table, worker};
use std::cell::Cell;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Children that are watched at one time. With more, sockets stay where they are.
const MAX_CHILDREN: usize = 64;
/// Sockets are on plain epoll for so many times as long as it took to hand them back, or longer: what a process that forks all
/// the time spends on it is bounded.
const REST: i64 = 64;

struct Pipes {
    /// Read ends, one for each child.
    children: Vec<RawFd>,
    /// Write ends that this process holds for its parent, and for the parents of that one.
    parents: Vec<RawFd>,
}

static PIPES: Mutex<Pipes> = Mutex::new(Pipes {
    children: Vec::new(),
    parents: Vec::new(),
});
/// How many children are watched.
static CHILDREN: AtomicUsize = AtomicUsize::new(0);
/// When they were looked at last, in ticks of the coarse clock.
static LOOKED: AtomicI64 = AtomicI64::new(0);
/// Sockets do not return before.
static NOT_BEFORE: AtomicI64 = AtomicI64::new(0);
/// Which fork was the last.
static EPOCH: AtomicU32 = AtomicU32::new(0);

struct Forking {
    pipes: MutexGuard<'static, Pipes>,
    /// The locks of all sets, so that none is held by a thread that the child does not have.
    sets: Vec<Held>,
    pipe: Option<[RawFd; 2]>,
}

thread_local! {
    static FORKING: Cell<Option<Forking>> = const { Cell::new(None) };
}

/// Whether a socket of this number was opened when no other process could get it.
pub(crate) fn is_alone(fd: RawFd) -> bool {
    CHILDREN.load(Ordering::Acquire) == 0 || table::is_young(fd, EPOCH.load(Ordering::Acquire))
}

/// Takes note of a descriptor that was opened after the last fork.
pub(crate) fn opened(fd: RawFd) {
    if CHILDREN.load(Ordering::Acquire) > 0 {
        table::set_young(fd, EPOCH.load(Ordering::Acquire));
    }
}

/// Whether no other process has this one's sockets any more. Looks at most once in a tick.
pub(crate) fn all_gone() -> bool {
    let now = ticks();
    if now < NOT_BEFORE.load(Ordering::Acquire) {
        return false;
    }
    if CHILDREN.load(Ordering::Acquire) == 0 {
        return true;
    }
    if LOOKED.swap(now, Ordering::AcqRel) == now {
        return false;
    }
    let Ok(mut pipes) = PIPES.try_lock() else {
        return false;
    };
    pipes.children.retain(|end| !has_ended(*end));
    CHILDREN.store(pipes.children.len(), Ordering::Release);
    pipes.children.is_empty()
}

fn has_ended(end: RawFd) -> bool {
    let mut entry = libc::pollfd {
        fd: end,
        events: 0,
        revents: 0,
    };
    // SAFETY: one live entry.
    let has_ended = unsafe { real::poll(&raw mut entry, 1, 0) } > 0;
    if has_ended {
        close(end);
    }
    has_ended
}

fn close(fd: RawFd) {
    table::clear(fd);
    // SAFETY: the descriptor is this library's own.
    unsafe { real::close(fd) };
}

/// In a forked child: a connection gets a second descriptor, which the next program may have. The parent then waits for that one.
pub(crate) fn outlive_exec(fd: RawFd) {
    if CHILDREN_OF_OTHERS.load(Ordering::Relaxed) == 0 || !table::is_plain(fd) {
        return;
    }
    if let Ok(pipes) = PIPES.try_lock() {
        for end in &pipes.parents {
            // SAFETY: no pointer is passed.
            unsafe { real::fcntl(*end, libc::F_SETFD, 0) };
        }
    }
}

/// How many write ends there are in `parents`.
static CHILDREN_OF_OTHERS: AtomicUsize = AtomicUsize::new(0);

fn new_pipe(count: usize) -> Option<[RawFd; 2]> {
    if count >= MAX_CHILDREN {
        return None;
    }
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return None;
    }
    for end in ends {
        table::set_own(end);
    }
    Some(ends)
}

/// Hands all sets back. Sockets of those that are on a ring are lent, if there is a pipe.
fn hand_back_all(with_pipe: bool) -> (Vec<Held>, bool) {
    let mut all = Vec::new();
    let mut inherited = false;
    for set in table::sets() {
        // Another one of this thread's: the flag is for handlers of signals.
        BUSY.with(|busy| busy.set(false));
        let Some(mut held) = set.hold() else { continue };
        let is_ours = held.phase == Phase::Ring || held.phase == Phase::Idle && held.count > 0;
        held.begin_lending(is_ours && with_pipe);
        drop(held);
        let Some(mut held) = set.lock(Cause::Fork) else {
            continue;
        };
        match held.phase {
            Phase::Ring => held.hand_back(Cause::Fork),
            Phase::Idle if is_ours => held.give_up(Cause::Fork),
            _ => {}
        }
        inherited |= held.is_inherited();
        crate::handback::share(&mut held);
        all.push(held);
    }
    (all, inherited)
}

pub(crate) extern "C" fn before_fork() {
    // A handler of a signal that came while this thread held a lock cannot have it.
    if table::sets().next().is_none() || BUSY.with(Cell::get) {
        return;
    }
    let before = crate::errno();
    let pipes = PIPES.lock().unwrap_or_else(PoisonError::into_inner);
    let has_sockets = table::sets().any(|set| set.hold().is_some_and(|held| held.count > 0));
    let pipe = has_sockets.then(|| new_pipe(pipes.children.len())).flatten();
    let start = Instant::now();
    let (sets, inherited) = hand_back_all(pipe.is_some());
    if has_sockets {
        let cost = i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX);
        NOT_BEFORE.store(
            ticks().saturating_add(cost.saturating_mul(REST)),
            Ordering::Release,
        );
    }
    if let Some([_, end]) = pipe.filter(|_| inherited) {
        // SAFETY: no pointer is passed.
        unsafe { real::fcntl(end, libc::F_SETFD, 0) };
    }
    EPOCH.fetch_add(1, Ordering::AcqRel);
    FORKING.set(Some(Forking { pipes, sets, pipe }));
    crate::set_errno(before);
}

pub(crate) extern "C" fn after_fork_in_parent() {
    let Some(mut forking) = FORKING.take() else { return };
    let before = crate::errno();
    if let Some([read, write]) = forking.pipe {
        close(write);
        forking.pipes.children.push(read);
    }
    CHILDREN.store(forking.pipes.children.len(), Ordering::Release);
    for held in &mut forking.sets {
        if held.lending && held.phase == Phase::Plain {
            // Sockets of which the child has none may go on a ring.
            held.phase = Phase::Idle;
            held.owner = 0;
        }
    }
    drop(forking);
    crate::set_errno(before);
}

pub(crate) extern "C" fn after_fork_in_child() {
    parked::forget_in_child();
    worker::forget_in_child();
    let Some(mut forking) = FORKING.take() else {
        report::note_process();
        return;
    };
    let before = crate::errno();
    let pipes = &mut *forking.pipes;
    for end in pipes.children.drain(..) {
        close(end);
    }
    if let Some([read, write]) = forking.pipe {
        close(read);
        pipes.parents.push(write);
    }
    CHILDREN.store(0, Ordering::Release);
    CHILDREN_OF_OTHERS.store(pipes.parents.len(), Ordering::Relaxed);
    for held in &mut forking.sets {
        held.belong_to_child();
        held.stats = Stats::default();
    }
    drop(forking);
    for set in table::sets() {
        // The threads that waited are the parent's.
        set.in_real_wait.store(0, Ordering::Release);
    }
    report::note_process();
    crate::set_errno(before);
}
