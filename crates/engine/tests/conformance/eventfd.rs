//! The driver's descriptor for other event loops.

use crate::testkit::{pipe, polls, run, Case, LONG};
use proactor_engine::op::{Nop, Open, OpenFlags, Read, Timeout, Write, WriteFile};
use proactor_engine::Driver;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

conformance! {
    inline { readable_when_complete, inline_completions, leftovers, quiet_when_idle, ops_by_threads, after_the_fact, cancelled, met_by_another_wait, chain_given_up, room_from_one_given_up, a_watched_driver }
}

const NOW: Duration = Duration::ZERO;

/// Collects without blocking, whenever the descriptor says so, until this many are there.
fn by_eventfd(d: &mut Driver, fd: i32, count: usize) {
    let mut done = Vec::new();
    while done.len() < count {
        assert!(
            polls(fd, libc::POLLIN, LONG),
            "{} of {count} completions were announced",
            done.len()
        );
        d.wait(0, usize::MAX, None, &mut done).unwrap();
    }
    assert_eq!(done.len(), count);
}

fn readable_when_complete(t: &Case) {
    let mut d = t.driver();
    let fd = d.eventfd().unwrap();
    assert_eq!(d.eventfd().unwrap(), fd);
    let (reader, writer) = std::io::pipe().unwrap();
    let reader = proactor_engine::op::File::new(reader);
    d.submit(Read::new(&reader, Vec::with_capacity(9))).unwrap();
    d.flush().unwrap();
    d.wait(0, 9, None, &mut Vec::new()).unwrap();
    assert!(!polls(fd, libc::POLLIN, NOW), "nothing is complete");
    (&writer).write_all(b"x").unwrap();
    by_eventfd(&mut d, fd, 1);
    d.submit(Timeout::new(Duration::from_millis(1))).unwrap();
    d.flush().unwrap();
    by_eventfd(&mut d, fd, 1);
}

/// Who watches the descriptor makes no other call: what waited for the room of an abandoned op has to begin by itself.
fn room_from_one_given_up(t: &Case) {
    let mut d = t.config().depth(1).inline(false).build().unwrap();
    let fd = d.eventfd().unwrap();
    let (reader, _writer) = std::io::pipe().unwrap();
    let reader = proactor_engine::op::File::new(reader);
    let idle = d.submit(Read::new(&reader, Vec::with_capacity(9))).unwrap();
    d.submit(Nop::new()).unwrap();
    d.flush().unwrap();
    d.wait(0, 9, None, &mut Vec::new()).unwrap();
    d.abandon(idle);
    by_eventfd(&mut d, fd, 1);
}

/// As an `AsFd`, which stays what it is when another driver takes the place of the first.
fn a_watched_driver(t: &Case) {
    let mut d = t.driver().watched().unwrap();
    let fd = d.as_fd().as_raw_fd();
    assert_eq!(d.as_raw_fd(), fd);
    d.submit(Timeout::new(Duration::from_millis(1))).unwrap();
    d.flush().unwrap();
    by_eventfd(&mut d, fd, 1);
    d.submit(Nop).unwrap();
    d.flush().unwrap();
    by_eventfd(&mut d, fd, 1);
    drop(std::mem::replace(&mut *d, t.driver()));
    assert_eq!(d.as_fd().as_raw_fd(), fd);
    let duplicate = d.as_fd().try_clone_to_owned();
    assert!(duplicate.is_ok(), "the descriptor is open");
    assert_eq!(run(&mut d.into_driver(), Nop), Ok(0));
}

fn inline_completions(t: &Case) {
    let mut d = t.driver();
    let fd = d.eventfd().unwrap();
    t.file("f", b"content");
    d.submit(Open::new(t.c_path("f"), OpenFlags::READ_ONLY)).unwrap();
    d.flush().unwrap();
    by_eventfd(&mut d, fd, 1);
}

fn leftovers(t: &Case) {
    let mut d = t.driver();
    let fd = d.eventfd().unwrap();
    for _ in 0..5 {
        d.submit(Nop::new()).unwrap();
    }
    d.drain().unwrap();
    assert!(polls(fd, libc::POLLIN, NOW));
    let mut done = Vec::new();
    d.wait(0, 2, None, &mut done).unwrap();
    assert!(polls(fd, libc::POLLIN, NOW), "three are left");
    d.wait(1, 2, None, &mut done).unwrap();
    assert!(polls(fd, libc::POLLIN, NOW), "one is left");
    by_eventfd(&mut d, fd, 1);
}

/// It may tell of a completion that has been collected meanwhile, but a look that finds nothing makes it quiet.
fn quiet_when_idle(t: &Case) {
    let mut d = t.driver();
    let fd = d.eventfd().unwrap();
    let file = t.file("f", b"content");
    assert_eq!(run(&mut d, Read::at(&file, 0, Vec::with_capacity(9))), Ok(7));
    assert_eq!(run(&mut d, Nop::new()), Ok(0));
    assert_eq!(run(&mut d, WriteFile::new(t.c_path("g"), b"x")), Ok(1));
    let (reader, _writer) = pipe();
    d.submit(Read::new(&reader, Vec::with_capacity(9))).unwrap();
    for _ in 0..2 {
        assert_eq!(d.wait(0, 9, None, &mut Vec::new()).unwrap(), 0);
    }
    assert!(!polls(fd, libc::POLLIN, NOW));
}

fn ops_by_threads(t: &Case) {
    let mut d = t.driver();
    let fd = d.eventfd().unwrap();
    let mut submitted = 0;
    for round in 0..5 {
        for i in 0..4 {
            d.submit(WriteFile::new(t.c_path(&format!("{round}.{i}")), b"x"))
                .unwrap();
            submitted += 1;
        }
        d.flush().unwrap();
        // One at a time: the announcement of the next must not get lost with the one before.
        let mut done = Vec::new();
        while submitted > 0 {
            assert!(polls(fd, libc::POLLIN, LONG), "{submitted} were not announced");
            submitted -= d.wait(0, 1, None, &mut done).unwrap();
        }
    }
}

fn after_the_fact(t: &Case) {
    let mut d = t.driver();
    d.submit(Nop::new()).unwrap();
    d.drain().unwrap();
    let fd = d.eventfd().unwrap();
    by_eventfd(&mut d, fd, 1);
    let mut d = t.driver();
    let (reader, writer) = pipe();
    d.submit(Read::new(&reader, Vec::with_capacity(9))).unwrap();
    d.submit(Write::new(&writer, b"x")).unwrap();
    d.flush().unwrap();
    let fd = d.eventfd().unwrap();
    by_eventfd(&mut d, fd, 2);
}

/// Whoever waits for one op may collect another.
fn met_by_another_wait(t: &Case) {
    let mut d = t.driver();
    let fd = d.eventfd().unwrap();
    let (reader, writer) = pipe();
    d.submit(Read::new(&reader, Vec::with_capacity(9))).unwrap();
    assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
    assert_eq!(run(&mut d, Timeout::new(Duration::from_millis(5))), Ok(0));
    by_eventfd(&mut d, fd, 1);
}

/// What would have followed an op that was given up is complete.
fn chain_given_up(t: &Case) {
    let mut d = t.driver();
    let fd = d.eventfd().unwrap();
    let (reader, _writer) = pipe();
    let ops = vec![
        Read::new(&reader, Vec::with_capacity(9)).into(),
        WriteFile::new(t.c_path("f"), b"x").into(),
        Nop::new().into(),
    ];
    let tokens = d.submit_linked(ops).unwrap();
    d.flush().unwrap();
    d.abandon(tokens[0]);
    by_eventfd(&mut d, fd, 2);
}

fn cancelled(t: &Case) {
    let mut d = t.driver();
    let fd = d.eventfd().unwrap();
    let (reader, _writer) = pipe();
    let token = d.submit(Read::new(&reader, Vec::with_capacity(9))).unwrap();
    d.flush().unwrap();
    d.cancel(token);
    by_eventfd(&mut d, fd, 1);
}
