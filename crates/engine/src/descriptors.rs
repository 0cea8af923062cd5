//! How many descriptors ops may have open at once in this process, and which driver's turn it is when there are too few.
//!
//! An op that opens a descriptor takes a [`Permit`] first. Permits are given while RLIMIT_NOFILE, less what is open and
//! what ops are about to open, exceeds [`RESERVE`]: that many are left to the program. The kernel is asked what is open;
//! between two answers permits are given on credit. Drivers that wait take turns, so that a busy one starves no other.
//!
//! Knows drivers by their numbers only. Invariant: a permit counts from the admission of its op until the op's descriptor
//! is closed or belongs to the caller, and never in a child of the process that gave it.

use crate::sys;
use crate::sys::limits::Resource;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Descriptors that ops leave free for the program: its sockets, its own files. Half of a limit below twice that.
const RESERVE: i64 = 64;
/// Files that `Open` ops may have open inside the reserve: a program that has taken the rest itself can still open some.
const OPEN_ANYWAY: i64 = 16;
/// The most permits between two looks at what is open, and how long they are good for. To look takes as long as two
/// small system calls; the program opens files meanwhile, too.
const MOST_CREDIT: i64 = 64;
const CREDIT_MS: u64 = 50;
/// The permits that a driver takes before it is another one's turn.
const TURN: u32 = 16;
/// A driver in line that has not asked for so long is passed over: nobody may be there to run it. Longer than any pause
/// between its attempts.
const LAPSE_MS: u64 = 100;
/// Default of [`set_descriptor_wait`].
const WAIT_MS: u64 = 30_000;

static CREDIT: AtomicI64 = AtomicI64::new(0);
static LOOKED_MS: AtomicU64 = AtomicU64::new(0);
/// Descriptors of permits that do not exist yet.
static OPENING: AtomicI64 = AtomicI64::new(0);
/// Descriptors of the permits of each kind.
static PASSING: AtomicI64 = AtomicI64::new(0);
static ASKED: AtomicI64 = AtomicI64::new(0);
/// Files that came from an `Open`, and are open.
static KEPT: AtomicI64 = AtomicI64::new(0);
/// Changes whenever there may be a descriptor more.
static RELEASES: AtomicU64 = AtomicU64::new(0);
/// When an op that had to wait has last been given a descriptor.
static PROGRESS_MS: AtomicU64 = AtomicU64::new(0);
static DEFAULT_WAIT_MS: AtomicU64 = AtomicU64::new(WAIT_MS);
/// Drivers in line, for each kind.
static WAITING: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// In a child, another thread of the parent's may have held the lock: the child makes its own lines.
static LINES: AtomicPtr<Mutex<Lines>> = AtomicPtr::new(std::ptr::null_mut());

/// Who waits, for each kind. One that cannot have more descriptors to keep holds up none that only needs one for a while:
/// what is kept may be waiting for that.
type Lines = [Vec<Place>; 2];

/// What an op does with the descriptor that it opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opens {
    /// It closes the descriptor before it completes.
    Passing,
    /// It leaves the descriptor to the caller.
    Kept,
}

/// The right to open one descriptor, or several.
#[derive(Debug)]
pub(crate) struct Permit {
    opens: Opens,
    count: i64,
    opening: bool,
    generation: u32,
}

impl Permit {
    pub(crate) fn new(opens: Opens, count: i64) -> Self {
        debug_assert!(count > 0);
        OPENING.fetch_add(count, Relaxed);
        opens.permits().fetch_add(count, Relaxed);
        Permit {
            opens,
            count,
            opening: true,
            generation: sys::fork::generation(),
        }
    }

    /// The descriptor exists: whoever counts what is open counts it.
    pub(crate) fn opened(&mut self) {
        if std::mem::take(&mut self.opening) && self.generation == sys::fork::generation() {
            OPENING.fetch_sub(self.count, Relaxed);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.opened();
        if self.generation == sys::fork::generation() {
            self.opens.permits().fetch_sub(self.count, Relaxed);
            released();
        }
    }
}

impl Opens {
    fn permits(self) -> &'static AtomicI64 {
        match self {
            Opens::Passing => &PASSING,
            Opens::Kept => &ASKED,
        }
    }
}

/// Counts an open file that an `Open` has brought.
#[derive(Debug)]
pub(crate) struct Kept(());

impl Kept {
    pub(crate) fn new() -> Self {
        KEPT.fetch_add(1, Relaxed);
        Kept(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Relaxed);
        released();
    }
}

/// Says that a descriptor has been closed.
pub(crate) fn released() {
    RELEASES.fetch_add(1, Relaxed);
}

/// A number that changes whenever a descriptor may have become free by an op.
pub(crate) fn releases() -> u64 {
    RELEASES.load(Relaxed)
}

/// Says that an op which had to wait has got its descriptor.
pub(crate) fn progressed() {
    PROGRESS_MS.store(now_ms(), Relaxed);
}

/// When that was last, on the clock of [`now_ms`].
pub(crate) fn progress_ms() -> u64 {
    PROGRESS_MS.load(Relaxed)
}

/// Sets how long an op waits for a descriptor while no op of the process gets one, before it fails with EMFILE; 30 seconds
/// by default. For all drivers whose [`Config::descriptor_wait`](crate::Config::descriptor_wait) is not set.
pub fn set_descriptor_wait(wait: Duration) {
    DEFAULT_WAIT_MS.store(wait.as_millis().try_into().unwrap_or(u64::MAX), Relaxed);
}

pub(crate) fn default_wait_ms() -> u64 {
    DEFAULT_WAIT_MS.load(Relaxed)
}

/// Milliseconds of a clock that costs no system call, never 0. It steps every few of them.
pub(crate) fn now_ms() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    (now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000).max(1)
}

/// A permit for `count` descriptors of an op of this driver, if there are so many and it is the driver's turn.
pub(crate) fn take(driver: u64, opens: Opens, count: i64) -> Option<Permit> {
    if WAITING[opens as usize].load(Relaxed) == 0 {
        return admit(opens, count);
    }
    let line = &mut lines()[opens as usize];
    if !is_next(line, driver) {
        return None;
    }
    let permit = admit(opens, count)?;
    let place = line.iter_mut().find(|place| place.driver == driver)?;
    place.taken += 1;
    if place.taken >= TURN {
        to_the_end(line, driver);
    }
    Some(permit)
}

/// As [`take`], for an op outside of a driver, if no other op waits for such a permit.
pub(crate) fn take_at_once(opens: Opens, count: i64) -> Option<Permit> {
    match WAITING[opens as usize].load(Relaxed) {
        0 => admit(opens, count),
        _ => None,
    }
}

fn admit(opens: Opens, count: i64) -> Option<Permit> {
    let now = now_ms();
    let fresh = now.wrapping_sub(LOOKED_MS.load(Relaxed)) < CREDIT_MS;
    if fresh && CREDIT.load(Relaxed) >= count && CREDIT.fetch_sub(count, Relaxed) >= count {
        return Some(Permit::new(opens, count));
    }
    let room = room();
    if room >= count {
        // Half of it: the program, and another thread that looks just now, take from the rest.
        CREDIT.store((room / 2).min(MOST_CREDIT) - count, Relaxed);
        LOOKED_MS.store(now, Relaxed);
        return Some(Permit::new(opens, count));
    }
    let one_more = match opens {
        // It ends without anybody's help, so that the next one can begin.
        Opens::Passing => PASSING.load(Relaxed) == 0,
        Opens::Kept => KEPT.load(Relaxed) + ASKED.load(Relaxed) < OPEN_ANYWAY,
    };
    one_more.then(|| Permit::new(opens, count))
}

/// How many more may be opened.
fn room() -> i64 {
    let limit = limit();
    limit - RESERVE.min(limit / 2) - count_open(limit) - OPENING.load(Relaxed)
}

/// RLIMIT_NOFILE, as it is now.
fn limit() -> i64 {
    let soft = Resource::Descriptors.limit().soft;
    soft.map_or(i64::MAX, |soft| soft.try_into().unwrap_or(i64::MAX))
}

/// How many descriptors this process has open. Without /proc, of the first 4,096.
fn count_open(limit: i64) -> i64 {
    /// A look at each takes as long as a system call.
    const MOST_LOOKED_AT: i64 = 4096;
    let path = c"/proc/self/fd";
    // SAFETY: zero is a valid initial value; path and struct outlive the call.
    let size = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        match libc::stat(path.as_ptr(), &raw mut stat) {
            0 => stat.st_size,
            _ => -1,
        }
    };
    // Since Linux 6.2 that is their number.
    if size > 0 {
        return size;
    }
    if let (0, Ok(entries)) = (size, std::fs::read_dir("/proc/self/fd")) {
        // Less the directory itself.
        return entries.count() as i64 - 1;
    }
    // SAFETY: no pointers.
    let is_open = |fd: &i64| unsafe { libc::fcntl(*fd as i32, libc::F_GETFD) } >= 0;
    (0..limit.min(MOST_LOOKED_AT)).filter(is_open).count() as i64
}

/// A driver with ops that wait.
struct Place {
    driver: u64,
    /// When it last asked.
    seen_ms: u64,
    /// Permits of this turn.
    taken: u32,
}

/// Puts a driver with an op that waits into the line.
pub(crate) fn join(driver: u64, opens: Opens) {
    let line = &mut lines()[opens as usize];
    line.push(Place {
        driver,
        seen_ms: now_ms(),
        taken: 0,
    });
    WAITING[opens as usize].store(line.len(), Relaxed);
}

/// Takes it out again.
pub(crate) fn leave(driver: u64, opens: Opens) {
    let line = &mut lines()[opens as usize];
    line.retain(|place| place.driver != driver);
    WAITING[opens as usize].store(line.len(), Relaxed);
}

/// Gives up the driver's turn.
pub(crate) fn pass(driver: u64) {
    for line in lines().iter_mut() {
        to_the_end(line, driver);
    }
}

fn to_the_end(line: &mut Vec<Place>, driver: u64) {
    if let Some(at) = line.iter().position(|place| place.driver == driver) {
        let place = line.remove(at);
        line.push(Place { taken: 0, ..place });
    }
}

/// Whether no other driver has to come first.
fn is_next(line: &mut [Place], driver: u64) -> bool {
    let now = now_ms();
    match line.iter_mut().find(|place| place.driver == driver) {
        Some(place) => place.seen_ms = now,
        None => return false,
    }
    let is_there = |place: &&Place| now.saturating_sub(place.seen_ms) < LAPSE_MS;
    line.iter()
        .find(is_there)
        .is_some_and(|first| first.driver == driver)
}

fn lines() -> MutexGuard<'static, Lines> {
    let mut lines = LINES.load(Acquire);
    if lines.is_null() {
        let made = Box::into_raw(Box::default());
        match LINES.compare_exchange(lines, made, AcqRel, Acquire) {
            Ok(_) => lines = made,
            Err(theirs) => {
                // SAFETY: made above, and nobody has seen it.
                drop(unsafe { Box::from_raw(made) });
                lines = theirs;
            }
        }
    }
    // SAFETY: a box that was leaked above: it is never freed.
    unsafe { &*lines }.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the permits and the lines, which are the parent's: called in a forked child before anything else runs there.
/// It takes no lock. The files that were open are open in the child, too.
pub(crate) fn forget_parent() {
    LINES.store(std::ptr::null_mut(), Relaxed);
    for waiting in &WAITING {
        waiting.store(0, Relaxed);
    }
    for count in [&CREDIT, &OPENING, &PASSING, &ASKED] {
        count.store(0, Relaxed);
    }
}
