//! Polls, timeouts, nops.

use crate::testkit::{bare, collect, outcome, outcomes, pipe, run, Case, LONG};
use proactor_engine::op::{Events, Nop, OpKind, Poll, Read, Timeout, Write};
use proactor_engine::{CancelOutcome, Config, Driver};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

pub const COVERS: &[OpKind] = &[OpKind::Poll, OpKind::Timeout, OpKind::Nop];

const IN: usize = libc::POLLIN as usize;
const OUT: usize = libc::POLLOUT as usize;

conformance! {
    inline {
        nop, ready_at_once, becomes_ready, hang_up, socket_hang_up, polling_a_file, bad_descriptor, timeout_passes, timeouts_in_order,
        endless_timeout, multishot, multishot_of_a_closed_peer, two_polls_on_one_descriptor,
    }
    once { more_events_than_the_queue_holds }
}

fn nop(t: &Case) {
    let mut d = t.driver();
    assert_eq!(run(&mut d, Nop::new()), Ok(0));
}

fn ready_at_once(t: &Case) {
    let mut d = t.driver();
    let (_reader, writer) = pipe();
    assert_eq!(
        run(&mut d, Poll::new(&writer, Events::WRITABLE | Events::READABLE)),
        Ok(OUT)
    );
}

fn becomes_ready(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let token = d.submit(Poll::new(&reader, Events::READABLE)).unwrap();
    assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
    assert_eq!(outcomes(&mut d, 1)[&token], Ok(IN));
}

fn hang_up(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let token = d.submit(Poll::new(&reader, Events::READABLE)).unwrap();
    d.flush().unwrap();
    drop(writer);
    assert_eq!(outcomes(&mut d, 1)[&token], Ok(libc::POLLHUP as usize));
}

/// Told is what was asked for, and POLLHUP.
fn socket_hang_up(t: &Case) {
    const EVENTS: usize = (libc::POLLIN | libc::POLLHUP) as usize;
    let mut d = t.driver();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let once = d
        .submit(Poll::new(bare(ours.as_raw_fd()), Events::READABLE))
        .unwrap();
    let many = d
        .submit(Poll::multishot(bare(ours.as_raw_fd()), Events::READABLE))
        .unwrap();
    d.flush().unwrap();
    drop(theirs);
    let told = collect(&mut d, 2);
    for token in [once, many] {
        let first = told.iter().find(|c| c.token == token).map(outcome);
        assert_eq!(first, Some(Ok(EVENTS)));
    }
    assert_eq!(
        run(&mut d, Poll::new(bare(ours.as_raw_fd()), Events::READABLE)),
        Ok(EVENTS)
    );
}

/// poll(2): a regular file is always ready.
fn polling_a_file(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    assert_eq!(
        run(&mut d, Poll::new(&file, Events::READABLE | Events::WRITABLE)),
        Ok(IN | OUT)
    );
    // Nothing would ever tell.
    assert_eq!(run(&mut d, Poll::new(&file, Events::PRIORITY)), Err(libc::EINVAL));
}

fn bad_descriptor(t: &Case) {
    let mut d = t.driver();
    assert_eq!(
        run(&mut d, Poll::new(bare(1_000_000), Events::READABLE)),
        Err(libc::EBADF)
    );
    assert_eq!(
        run(&mut d, Poll::multishot(bare(1_000_000), Events::READABLE)),
        Err(libc::EBADF)
    );
    assert_eq!(
        run(&mut d, Poll::new(bare(-1), Events::READABLE)),
        Err(libc::EBADF)
    );
}

fn timeout_passes(t: &Case) {
    let mut d = t.driver();
    let start = Instant::now();
    assert_eq!(run(&mut d, Timeout::new(Duration::from_millis(20))), Ok(0));
    assert!(start.elapsed() >= Duration::from_millis(20), "too early");
    assert_eq!(run(&mut d, Timeout::new(Duration::ZERO)), Ok(0));
}

fn timeouts_in_order(t: &Case) {
    let mut d = t.driver();
    let late = d.submit(Timeout::new(Duration::from_millis(60))).unwrap();
    let soon = d.submit(Timeout::new(Duration::from_millis(5))).unwrap();
    let order: Vec<_> = collect(&mut d, 2).iter().map(|c| c.token).collect();
    assert_eq!(order, [soon, late]);
}

fn endless_timeout(t: &Case) {
    let mut d = t.driver();
    let never = d.submit(Timeout::new(Duration::MAX)).unwrap();
    let mut done = Vec::new();
    assert_eq!(
        d.wait(1, 1, Some(Duration::from_millis(5)), &mut done).unwrap(),
        0
    );
    assert_eq!(d.cancel(never), CancelOutcome::Cancelled);
    assert_eq!(outcomes(&mut d, 1)[&never], Err(libc::ECANCELED));
}

fn multishot(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let token = d.submit(Poll::multishot(&reader, Events::READABLE)).unwrap();
    d.flush().unwrap();
    for _ in 0..3 {
        assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
        let event = collect(&mut d, 1).remove(0);
        assert_eq!((event.token, event.more, outcome(&event)), (token, true, Ok(IN)));
        assert!(event.op.is_none());
        assert_eq!(d.pending(), 1);
        assert_eq!(run(&mut d, Read::new(&reader, Vec::with_capacity(9))), Ok(1));
    }
    assert_eq!(d.cancel(token), CancelOutcome::Cancelled);
    let end = collect(&mut d, 1).remove(0);
    assert_eq!(
        (end.token, end.more, outcome(&end)),
        (token, false, Err(libc::ECANCELED))
    );
    assert!(end.op.is_some());
    assert_eq!(d.pending(), 0);
}

fn multishot_of_a_closed_peer(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let token = d.submit(Poll::multishot(&reader, Events::READABLE)).unwrap();
    d.flush().unwrap();
    drop(writer);
    let event = collect(&mut d, 1).remove(0);
    assert_eq!(
        (event.token, outcome(&event)),
        (token, Ok(libc::POLLHUP as usize))
    );
    // Whether the poll ends with the hang-up is the engine's affair; either way it ends.
    if event.more {
        d.cancel(token);
        let mut last = collect(&mut d, 1).remove(0);
        while last.more {
            last = collect(&mut d, 1).remove(0);
        }
    }
    assert_eq!(d.pending(), 0);
}

fn two_polls_on_one_descriptor(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    d.submit(Poll::new(&reader, Events::READABLE)).unwrap();
    d.submit(Poll::new(&reader, Events::READABLE)).unwrap();
    assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
    assert!(outcomes(&mut d, 2).values().all(|res| *res == Ok(IN)));
}

/// Multishot polls fire again and again while nobody collects: what the kernel's queue cannot hold must not get lost.
fn more_events_than_the_queue_holds(t: &Case) {
    const POLLS: usize = 64;
    const ROUNDS: usize = 16;
    // A ring for 128 ops has a completion queue of 512; here come 1,024 events and 16 nops.
    let mut d: Driver = Config::default()
        .engine(t.engine)
        .inline(false)
        .depth(128)
        .build()
        .unwrap();
    let events: Vec<OwnedFd> = (0..POLLS).map(|_| crate::testkit::event()).collect();
    for event in &events {
        d.submit(Poll::multishot(bare(event.as_raw_fd()), Events::READABLE))
            .unwrap();
    }
    d.flush().unwrap();
    for _ in 0..ROUNDS {
        events
            .iter()
            .for_each(|event| crate::testkit::put(event, &1u64.to_ne_bytes()));
        d.submit(Nop::new()).unwrap();
        d.flush().unwrap();
    }
    let (mut polls, mut nops) = (std::collections::HashSet::new(), 0);
    let deadline = Instant::now() + LONG;
    while (polls.len() < POLLS || nops < ROUNDS) && Instant::now() < deadline {
        let mut done = Vec::new();
        d.wait(1, usize::MAX, Some(LONG), &mut done).unwrap();
        for completion in done {
            if completion.more {
                assert_eq!(outcome(&completion), Ok(IN));
                polls.insert(completion.token);
            } else {
                assert_eq!(outcome(&completion), Ok(0), "a poll that has ended");
                nops += 1;
            }
        }
    }
    assert_eq!((polls.len(), nops), (POLLS, ROUNDS));
}
