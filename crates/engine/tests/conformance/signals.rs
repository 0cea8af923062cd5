//! A signal handler that runs while `wait` blocks: the caller hears of it, and nothing is lost.

use crate::testkit::{bytes_of, collect, outcome, Case, LONG};
use proactor_engine::op::{File, Read, Timeout};
use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

conformance! { isolated { interrupts_wait, one_signal_is_enough, one_signal_and_a_timeout, drain_too, signals_at_any_moment } }

static SEEN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handler(_: libc::c_int) {
    SEEN.fetch_add(1, Ordering::SeqCst);
}

/// Without SA_RESTART, as Python installs its handlers.
fn install() {
    // SAFETY: zero is a valid initial value; the handler only adds to an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
        assert_eq!(
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()),
            0
        );
    }
}

struct Waiter {
    thread: libc::pthread_t,
    tid: libc::pid_t,
}

impl Waiter {
    fn this_thread() -> Self {
        // SAFETY: no pointers.
        unsafe {
            Waiter {
                thread: libc::pthread_self(),
                tid: libc::gettid(),
            }
        }
    }

    /// Whether the thread sleeps in the kernel, as /proc says.
    fn sleeps(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", self.tid)).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('S'))
    }

    fn signal(&self) {
        // SAFETY: the thread is alive: it waits for this one.
        assert_eq!(unsafe { libc::pthread_kill(self.thread, libc::SIGUSR1) }, 0);
    }
}

/// Signals this thread once it sleeps (`times` 1), or again and again until it has noticed; and writes to the pipe when
/// it has noticed or after a long time, so that a wait that swallows the signal fails instead of hanging.
fn signaller(
    times: usize,
    noticed: &Arc<AtomicBool>,
    mut writer: std::io::PipeWriter,
) -> std::thread::JoinHandle<()> {
    let (waiter, noticed) = (Waiter::this_thread(), Arc::clone(noticed));
    std::thread::spawn(move || {
        let deadline = Instant::now() + LONG / 4;
        let mut asleep = 0;
        let mut sent = 0;
        while !noticed.load(Ordering::SeqCst) && Instant::now() < deadline {
            asleep = if waiter.sleeps() { asleep + 1 } else { 0 };
            if asleep > 3 && sent < times {
                waiter.signal();
                sent += 1;
                asleep = 0;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        writer.write_all(b"later").unwrap();
    })
}

fn scenario(t: &Case, times: usize, timeout: Option<Duration>, drain: bool) {
    install();
    let mut d = t.driver();
    let (reader, writer) = std::io::pipe().unwrap();
    let reader = File::new(reader);
    let noticed = Arc::new(AtomicBool::new(false));
    let token = d.submit(Read::new(&reader, Vec::with_capacity(9))).unwrap();
    d.submit(Timeout::new(Duration::from_secs(3600))).unwrap();
    let signals = signaller(times, &noticed, writer);
    let mut done = Vec::new();
    let result = if drain {
        d.drain().map(|()| 0)
    } else {
        d.wait(1, 1, timeout, &mut done)
    };
    noticed.store(true, Ordering::SeqCst);
    assert_eq!(
        result.expect_err("a signal handler has run").kind(),
        ErrorKind::Interrupted
    );
    assert!(SEEN.load(Ordering::SeqCst) > 0);
    signals.join().unwrap();
    let completion = collect(&mut d, 1).remove(0);
    assert_eq!((completion.token, outcome(&completion)), (token, Ok(5)));
    assert_eq!(bytes_of(completion.op), b"later");
    assert_eq!(d.pending(), 1);
}

fn interrupts_wait(t: &Case) {
    scenario(t, usize::MAX, None, false);
}

/// The wait that is interrupted may be the very system call that submits the op.
fn one_signal_is_enough(t: &Case) {
    scenario(t, 1, None, false);
}

fn one_signal_and_a_timeout(t: &Case) {
    scenario(t, 1, Some(LONG), false);
}

fn drain_too(t: &Case) {
    scenario(t, 1, None, true);
}

/// An engine is found to work, and a look at what has come fails at nothing, whenever a handler runs.
fn signals_at_any_moment(t: &Case) {
    install();
    let waiter = Waiter::this_thread();
    let ended = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&ended);
    let storm = std::thread::spawn(move || {
        while !until.load(Ordering::SeqCst) {
            waiter.signal();
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    // As often again until the storm's thread has had its turn.
    let mut rounds = 0;
    while rounds < 10 || SEEN.load(Ordering::SeqCst) == 0 {
        rounds += 1;
        assert_eq!(proactor_engine::probe::report(t.engine).usable, Ok(()));
        let mut d = t.driver();
        for _ in 0..200 {
            assert_eq!(d.wait(0, 1, Some(Duration::ZERO), &mut Vec::new()).unwrap(), 0);
        }
    }
    ended.store(true, Ordering::SeqCst);
    storm.join().unwrap();
    assert!(SEEN.load(Ordering::SeqCst) > 0);
}
