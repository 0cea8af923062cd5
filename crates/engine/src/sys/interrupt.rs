//! Getting a thread out of a blocking system call.
//!
//! A signal sent just before the thread enters the call is lost, so one `tgkill` is not enough. A POSIX timer aimed at
//! the thread repeats the signal until the interruption is dropped.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

/// Long enough not to load the machine, short enough that a lost signal is not noticed.
const REPEAT_US: u64 = 1000;

static SIGNAL: OnceLock<Option<libc::c_int>> = OnceLock::new();

extern "C" fn ignore(_: libc::c_int) {}

/// The highest real-time signal that nobody uses, with a handler that does nothing.
///
/// A handler must exist (the default action ends the process, and an ignored signal interrupts nothing), without
/// SA_RESTART, or the kernel would resume the call.
fn signal() -> Option<libc::c_int> {
    *SIGNAL.get_or_init(|| {
        (libc::SIGRTMIN()..=libc::SIGRTMAX())
            .rev()
            .find(|&signo| install(signo))
    })
}

fn install(signo: libc::c_int) -> bool {
    // SAFETY: both structs are live and zero is a valid initial value for them; the handler is a static function.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signo, std::ptr::null(), &raw mut old) != 0 || old.sa_sigaction != libc::SIG_DFL {
            return false;
        }
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
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

/// Interrupts one thread's blocking calls until it is dropped.
pub(crate) struct Interruption(libc::timer_t);

// SAFETY: a timer id is a process-wide handle; any thread may delete it.
unsafe impl Send for Interruption {}

impl Interruption {
    pub(crate) fn of_thread(tid: libc::pid_t) -> io::Result<Self> {
        let signo = signal().ok_or_else(|| io::Error::other("no real-time signal is free"))?;
        // SAFETY: zero is a valid initial value; the kernel copies the struct before the call returns.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signo;
            event.sigev_notify_thread_id = tid;
            let mut timer: libc::timer_t = std::mem::zeroed();
            super::check(libc::timer_create(
                libc::CLOCK_MONOTONIC,
                &raw mut event,
                &raw mut timer,
            ))?;
            let every = super::timespec(Duration::from_micros(REPEAT_US));
            let first = super::timespec(Duration::from_nanos(1));
            let spec = libc::itimerspec {
                it_interval: every,
                it_value: first,
            };
            libc::timer_settime(timer, 0, &raw const spec, std::ptr::null_mut());
            Ok(Interruption(timer))
        }
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        // SAFETY: created in `of_thread` and deleted only here.
        unsafe { libc::timer_delete(self.0) };
    }
}
