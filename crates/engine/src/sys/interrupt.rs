//! Getting a thread out of a blocking system call.
//!
//! A signal sent just before the thread enters the call is lost, so one `tgkill` is not enough. A POSIX timer aimed at
//! the thread repeats the signal until the interruption is dropped. Where no timer can be made (RLIMIT_SIGPENDING, a
//! seccomp filter), a thread sends the signal instead.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Long enough not to load the machine, short enough that a lost signal is not noticed.
const REPEAT: Duration = Duration::from_millis(1);

/// The real-time signal that was used last; 0 before the first use.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// The signal for when RLIMIT_SIGPENDING leaves no room for a real-time one: the kernel delivers signals below SIGRTMIN
/// without a queue entry. SIGURG is ignored by default, and hardly any program uses it.
pub(crate) const WITHOUT_QUEUE: libc::c_int = libc::SIGURG;

extern "C" fn ignore(_: libc::c_int) {}

/// Returns the highest real-time signal that the program does not use, with a handler that does nothing.
///
/// A handler must exist (the default action ends the process, and an ignored signal interrupts nothing), without
/// SA_RESTART, or the kernel would resume the call. The program may have reset or replaced the handler since the last
/// call, so each call looks at it again.
fn signal() -> Option<libc::c_int> {
    let last = SIGNAL.load(Ordering::Relaxed);
    // The program that ignores all signals now has not asked for this one.
    if last != 0 && install(last, &[libc::SIG_DFL, libc::SIG_IGN]) {
        return Some(last);
    }
    let free = |replaced: &[libc::sighandler_t]| {
        (libc::SIGRTMIN()..=libc::SIGRTMAX())
            .rev()
            .find(|&signo| install(signo, replaced))
    };
    let signo = free(&[libc::SIG_DFL]).or_else(|| free(&[libc::SIG_IGN]))?;
    SIGNAL.store(signo, Ordering::Relaxed);
    Some(signo)
}

/// Whether the signal has our handler, which takes the place of these dispositions and of no other.
fn install(signo: libc::c_int, replaced: &[libc::sighandler_t]) -> bool {
    let ours = ignore as extern "C" fn(libc::c_int) as usize;
    // SAFETY: both structs are live and zero is a valid initial value for them; the handler is a static function.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signo, std::ptr::null(), &raw mut old) != 0 {
            return false;
        }
        if old.sa_sigaction == ours {
            return true;
        }
        if !replaced.contains(&old.sa_sigaction) {
            return false;
        }
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = ours;
        libc::sigaction(signo, &raw const new, std::ptr::null_mut()) == 0
    }
}

/// Lets the calling thread be interrupted, whatever signals it has inherited as blocked: a program that takes all of its
/// signals from a signalfd blocks them all.
pub(crate) fn admit() {
    let Some(signo) = signal() else { return };
    // SAFETY: the set is a live local.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signo);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Interrupts one thread's blocking calls until it is dropped. The thread must live as long.
pub(crate) struct Interruption {
    tid: libc::pid_t,
    timer: Option<Timer>,
    sender: Option<Sender>,
}

impl Interruption {
    pub(crate) fn of_thread(tid: libc::pid_t) -> Self {
        let timer = signal().and_then(|signo| Timer::new(tid, signo).ok());
        let mut interruption = Interruption {
            tid,
            timer,
            sender: None,
        };
        if interruption.timer.is_none() {
            send(tid);
            interruption.sender = Sender::new(tid);
        }
        interruption
    }

    /// Sends the signal once more if nothing repeats it: neither a timer nor a thread could be made.
    pub(crate) fn repeat(&self) {
        if self.timer.is_none() && self.sender.is_none() {
            send(self.tid);
        }
    }
}

struct Timer(libc::timer_t);

// SAFETY: a timer id is a process-wide handle; any thread may delete it.
unsafe impl Send for Timer {}

impl Timer {
    fn new(tid: libc::pid_t, signo: libc::c_int) -> io::Result<Self> {
        // SAFETY: zero is a valid initial value; the kernel copies the structs before the calls return.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signo;
            event.sigev_notify_thread_id = tid;
            let mut id: libc::timer_t = std::mem::zeroed();
            super::check(libc::timer_create(
                libc::CLOCK_MONOTONIC,
                &raw mut event,
                &raw mut id,
            ))?;
            let timer = Timer(id);
            let spec = libc::itimerspec {
                it_interval: super::timespec(REPEAT),
                it_value: super::timespec(Duration::from_nanos(1)),
            };
            super::check(libc::timer_settime(id, 0, &raw const spec, std::ptr::null_mut()))?;
            Ok(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: created in `new` and deleted only here.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// A thread that sends the signal until it is dropped.
struct Sender {
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Sender {
    fn new(tid: libc::pid_t) -> Option<Self> {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = Arc::clone(&ended);
        let thread = std::thread::Builder::new()
            .name("proactor-signal".into())
            .stack_size(64 * 1024)
            .spawn(move || {
                block_all();
                let mut ended = shared.0.lock().expect("nobody panics while holding it");
                while !*ended {
                    send(tid);
                    let woken = shared.1.wait_timeout(ended, REPEAT);
                    ended = woken.expect("nobody panics while holding it").0;
                }
            })
            .ok()?;
        Some(Sender {
            ended,
            thread: Some(thread),
        })
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        *self.ended.0.lock().expect("nobody panics while holding it") = true;
        self.ended.1.notify_one();
        // Afterwards the number may become another thread's.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Keeps the program's signals away from the calling thread.
fn block_all() {
    // SAFETY: the set is a live local.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Signals the thread once.
fn send(tid: libc::pid_t) {
    // SAFETY: no pointers. The thread is one of this process, and alive.
    let kill = |signo: libc::c_int| unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signo) };
    // EAGAIN: RLIMIT_SIGPENDING.
    let sent = signal().is_some_and(|signo| kill(signo) == 0);
    if !sent && install(WITHOUT_QUEUE, &[libc::SIG_DFL]) {
        kill(WITHOUT_QUEUE);
    }
}
