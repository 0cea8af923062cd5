//! The counters count what they say.

use proactor_bench::Counters;
use std::io::Write;
use std::thread;

const CALLS: u64 = 10_000;
/// Calls of the test's own: starting and joining a thread, and a thread of the harness waking up.
const SLACK: u64 = 200;

fn call(times: u64) {
    for _ in 0..times {
        // SAFETY: no arguments.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
}

/// One test, for whatever else runs in this process would be counted.
#[test]
fn counts_this_process() {
    match Counters::start().stop().system_calls {
        // `getrusage` and the clocks are outside.
        Ok(count) => assert!(count <= 20, "{count} calls in an empty stretch"),
        Err(reason) => return skip(&reason),
    }

    let counters = Counters::start();
    call(CALLS);
    assert_near(counters.stop().system_calls, CALLS);

    // In a thread that starts while the counters run, and ends.
    let counters = Counters::start();
    thread::spawn(|| call(CALLS)).join().unwrap();
    assert_near(counters.stop().system_calls, CALLS);

    // In a thread that was there before, and stays.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (done, finished) = std::sync::mpsc::channel();
    let worker = thread::spawn(move || {
        while wait.recv().is_ok() {
            call(CALLS);
            done.send(()).unwrap();
        }
    });
    let counters = Counters::start();
    go.send(()).unwrap();
    finished.recv().unwrap();
    let counts = counters.stop();
    assert_near(counts.system_calls, CALLS);
    assert!(counts.context_switches > 0, "waiting for a thread is a switch");
    drop(go);
    worker.join().unwrap();

    // CPU time is counted, and where it is spent.
    let counters = Counters::start();
    call(2_000_000);
    let counts = counters.stop();
    let cpu = counts.user + counts.system;
    assert!(!cpu.is_zero() && cpu <= counts.wall * 2, "{counts:?}");
}

fn assert_near(counted: Result<u64, String>, made: u64) {
    let counted = counted.expect("it worked a moment ago");
    assert!(
        (made..=made + SLACK).contains(&counted),
        "{counted} counted of {made}"
    );
}

/// The rule for skips (CONTRIBUTING.md): told on stderr itself, and a failure where the capability is required.
fn skip(reason: &str) {
    let required = std::env::var("PROACTOR_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name == "system call counters"),
        "{reason}"
    );
    let _ = writeln!(std::io::stderr(), "SKIPPED counts_this_process: {reason}");
}
