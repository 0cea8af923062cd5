//! A notification eventfd per op: it counts completions, whether or not anybody waits on the driver.

use crate::testkit::{collect, outcomes, pipe, polls, Case, LONG};
use proactor_engine::op::{Events, Fsync, Handle, Nop, Op, Poll, Read, Timeout, Write};
use proactor_engine::{Driver, Options, Token};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

conformance! {
    inline {
        counts, failures_count, before_anybody_waits, cancelled, cancelled_in_the_backlog, beside_many_that_wait, refused, a_poll_in_vain,
    }
}

/// Waits until it has counted this far.
fn expect(event: &OwnedFd, count: u64) {
    let mut seen = 0;
    while seen < count {
        assert!(
            polls(event.as_raw_fd(), libc::POLLIN, LONG),
            "{seen} of {count} notifications came"
        );
        let mut more = 0u64;
        // SAFETY: eight bytes into a live local.
        let got = unsafe { libc::read(event.as_raw_fd(), (&raw mut more).cast(), 8) };
        assert_eq!(got, 8);
        seen += more;
    }
    assert_eq!(seen, count, "too many notifications");
}

fn submit(d: &mut Driver, op: impl Into<Op>, event: &Arc<OwnedFd>) -> Token {
    d.submit_with(op, Options::default().notify(Arc::clone(event)))
        .unwrap()
}

fn counts(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let event = Arc::new(crate::testkit::event());
    for _ in 0..10 {
        submit(&mut d, Read::at(&file, 0, Vec::with_capacity(4)), &event);
        submit(&mut d, Nop::new(), &event);
        submit(&mut d, Write::at(&file, 0, b"x"), &event);
        d.submit(Nop::new()).unwrap();
    }
    collect(&mut d, 40);
    expect(&event, 30);
}

fn failures_count(t: &Case) {
    let mut d = t.driver();
    let event = Arc::new(crate::testkit::event());
    let token = submit(&mut d, Fsync::new(Handle::NONE), &event);
    assert_eq!(outcomes(&mut d, 1)[&token], Err(libc::EBADF));
    expect(&event, 1);
}

/// The one who waits for the eventfd is not the one who waits on the driver. (Deferred task work of a ring and the
/// simulator do nothing until the driver's thread asks, so here it asks without waiting.)
fn before_anybody_waits(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let event = Arc::new(crate::testkit::event());
    submit(&mut d, Read::new(&reader, Vec::with_capacity(9)), &event);
    submit(&mut d, Poll::new(&reader, Events::READABLE), &event);
    submit(&mut d, Timeout::new(Duration::from_millis(1)), &event);
    d.flush().unwrap();
    crate::testkit::put(&writer, b"xy");
    let mut done = Vec::new();
    while done.len() < 2 {
        d.wait(0, 9, None, &mut done).unwrap();
        std::thread::yield_now();
    }
    // The poll may find the pipe empty again.
    let rest = 3 - done.len();
    crate::testkit::put(&writer, b"xy");
    collect(&mut d, rest);
    expect(&event, 3);
}

fn cancelled(t: &Case) {
    let mut d = t.driver();
    let (reader, _writer) = pipe();
    let event = Arc::new(crate::testkit::event());
    let token = submit(&mut d, Read::new(&reader, Vec::with_capacity(9)), &event);
    d.flush().unwrap();
    d.cancel(token);
    assert_eq!(outcomes(&mut d, 1)[&token], Err(libc::ECANCELED));
    expect(&event, 1);
}

fn cancelled_in_the_backlog(t: &Case) {
    let mut d = t.config().depth(1).build().unwrap();
    let (reader, _writer) = pipe();
    let event = Arc::new(crate::testkit::event());
    d.submit(Read::new(&reader, Vec::with_capacity(9))).unwrap();
    let token = submit(&mut d, Read::new(&reader, Vec::with_capacity(9)), &event);
    d.cancel(token);
    assert_eq!(outcomes(&mut d, 1)[&token], Err(libc::ECANCELED));
    expect(&event, 1);
}

/// Those that wait for somebody else keep no thread from what can be done, or is waited for by the very same.
fn beside_many_that_wait(t: &Case) {
    let mut d = t.config().max_threads(1).build().unwrap();
    let event = Arc::new(crate::testkit::event());
    let pipes: Vec<_> = (0..4).map(|_| pipe()).collect();
    for (reader, _) in &pipes {
        submit(&mut d, Read::new(reader, Vec::with_capacity(9)), &event);
        submit(&mut d, Poll::new(reader, Events::READABLE), &event);
    }
    submit(&mut d, Timeout::new(Duration::from_secs(3600)), &event);
    let token = submit(&mut d, Nop::new(), &event);
    assert_eq!(outcomes(&mut d, 1)[&token], Ok(0));
    expect(&event, 1);
    crate::testkit::put(&pipes[3].1, b"x");
    collect(&mut d, 1);
}

fn refused(t: &Case) {
    let mut d = t.driver();
    let (reader, _writer) = pipe();
    let options = Options::default().notify(Arc::new(crate::testkit::event()));
    assert!(d
        .submit_with(Poll::multishot(&reader, Events::READABLE), options)
        .is_err());
}

/// As without a notification, `poll::polling_a_file`.
fn a_poll_in_vain(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let event = Arc::new(crate::testkit::event());
    let token = submit(&mut d, Poll::new(&file, Events::PRIORITY), &event);
    assert_eq!(outcomes(&mut d, 1)[&token], Err(libc::EINVAL));
    expect(&event, 1);
}
