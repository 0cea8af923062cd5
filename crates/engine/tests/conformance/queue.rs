//! The queue, what stands behind it, and how much `wait` hands out.

use crate::testkit::{bare, collect, drop_capabilities, outcomes, pipe, run, Case, LONG};
use proactor_engine::op::{Events, Nop, Op, Open, OpenFlags, Poll, Read, Timeout, Write};
use proactor_engine::{Priority, PriorityClass, Refusal};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

conformance! {
    inline {
        thousands_in_a_tiny_queue, full_hands_the_op_back, batch, never_more_than_pending, at_most_max, no_time,
        time_elapses, long_timeouts, nothing_pending, drain, run_leaves_others_alone, priorities, no_privilege_no_real_time,
        files_of_bare_descriptors, behind_one_that_never_ends, the_callers_number_comes_back,
    }
}

/// An op that waits for ever has one of two places: the others take turns on the other one.
fn behind_one_that_never_ends(t: &Case) {
    let (reader, writer) = pipe();
    let mut d = t.config().depth(2).inline(false).build().unwrap();
    d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    for _ in 0..5 {
        d.submit(Nop::new()).unwrap();
    }
    d.submit_linked(vec![Nop::new().into(), Nop::new().into(), Nop::new().into()])
        .unwrap();
    let mut done = Vec::new();
    let count = d.wait(8, usize::MAX, Some(LONG), &mut done).unwrap();
    assert_eq!(count, 8, "the wait has timed out");
    drop(writer);
    collect(&mut d, 1);
}

/// Of ops that succeed, fail, are cancelled before and after they begin, and go on; and not of another op in the same slot.
fn the_callers_number_comes_back(t: &Case) {
    let mut d = t.config().depth(2).build().unwrap();
    let file = t.file("f", b"content");
    let (reader, writer) = pipe();
    for round in [0, u64::MAX - 9] {
        let idle = || Read::new(&reader, vec![0; 9]);
        let begun = d.submit_with_data(idle(), round).unwrap();
        d.flush().unwrap();
        d.submit_with_data(Read::at(&file, 0, vec![0; 9]), round + 1)
            .unwrap();
        d.submit_with_data(Open::new("/nowhere/at all", OpenFlags::READ_ONLY), round + 2)
            .unwrap();
        d.submit_with_data(Nop, round + 3).unwrap();
        let waiting = d.submit_with_data(idle(), round + 4).unwrap();
        d.cancel(waiting);
        d.cancel(begun);
        let done = collect(&mut d, 5);
        let mut numbers: Vec<u64> = done.iter().map(|completion| completion.data).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3, 4].map(|at| round + at));
        d.submit(Nop).unwrap();
        assert_eq!(collect(&mut d, 1)[0].data, 0, "none was given");
    }
    let token = d
        .submit_with_data(Poll::multishot(&reader, Events::READABLE), 42)
        .unwrap();
    d.flush().unwrap();
    run(&mut d, Write::new(&writer, b"!")).unwrap();
    assert!(collect(&mut d, 1)
        .iter()
        .all(|event| event.data == 42 && event.more));
    d.cancel(token);
    assert_eq!(d.completion_of(token).unwrap().data, 42);
    let refused = d
        .submit_with_data(Write::at(&file, u64::MAX, b"mine"), 5)
        .unwrap_err();
    assert_eq!(bytes_of_write(*refused.op), b"mine");
}

fn bytes_of_write(op: Op) -> Vec<u8> {
    match op {
        Op::Write(op) => op.buffer.into_vec(),
        other => panic!("{other:?}"),
    }
}

fn thousands_in_a_tiny_queue(t: &Case) {
    let mut d = t.config().depth(2).build().unwrap();
    let file = t.file("f", b"");
    let mut tokens = Vec::new();
    for i in 0..3000u64 {
        tokens.push(d.submit(Write::at(&file, i * 8, &i.to_le_bytes())).unwrap());
    }
    assert_eq!(d.pending(), 3000);
    let done = outcomes(&mut d, 3000);
    assert!(tokens.iter().all(|token| done[token] == Ok(8)));
    let content = std::fs::read(t.path("f")).unwrap();
    assert!(content
        .chunks(8)
        .enumerate()
        .all(|(i, chunk)| chunk == (i as u64).to_le_bytes()));
    assert_eq!(d.pending(), 0);
}

fn full_hands_the_op_back(t: &Case) {
    let mut d = t.config().depth(2).backlog(3).build().unwrap();
    let (reader, _writer) = pipe();
    let tokens: Vec<_> = (0..5)
        .map(|_| d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap())
        .collect();
    let refused = d.submit(Write::new(&reader, b"mine")).unwrap_err();
    assert_eq!(refused.refusal, Refusal::Full { bound: 5 });
    assert!(refused.to_string().contains("collect completions"));
    assert!(matches!(*refused.op, Op::Write(op) if op.buffer.as_slice() == b"mine"));
    assert_eq!(d.pending(), 5);
    for token in tokens {
        d.cancel(token);
    }
    // Completions that nobody has collected count too.
    d.drain().unwrap();
    assert!(d.submit(Nop::new()).is_err());
    collect(&mut d, 5);
    assert_eq!(run(&mut d, Nop::new()), Ok(0));
}

fn batch(t: &Case) {
    let mut d = t.config().depth(2).backlog(2).build().unwrap();
    let (reader, _writer) = pipe();
    let mut ops: VecDeque<Op> = (1..=6)
        .map(|n| Read::new(&reader, Vec::with_capacity(n)).into())
        .collect();
    assert_eq!(d.submit_batch(&mut ops).unwrap().len(), 4);
    assert_eq!(ops.len(), 2);
    assert!(
        matches!(&ops[0], Op::Read(op) if op.buffer.capacity() >= 5),
        "the rest is untouched, in order"
    );
    let refused = d.submit_batch(&mut ops).unwrap_err();
    assert!(matches!(refused.refusal, Refusal::Full { .. }));
    assert_eq!(ops.len(), 1);
    assert!(d.submit_batch(&mut VecDeque::new()).unwrap().is_empty());
}

fn never_more_than_pending(t: &Case) {
    let mut d = t.driver();
    d.submit(Nop::new()).unwrap();
    d.submit(Nop::new()).unwrap();
    let mut done = Vec::new();
    assert_eq!(
        d.wait(1000, 1000, None, &mut done).unwrap(),
        2,
        "would wait for ever for more"
    );
    assert_eq!(done.len(), 2);
}

fn at_most_max(t: &Case) {
    let mut d = t.driver();
    for _ in 0..5 {
        d.submit(Nop::new()).unwrap();
    }
    d.drain().unwrap();
    assert_eq!((d.ready(), d.pending()), (5, 5));
    let mut done = Vec::new();
    assert_eq!(d.wait(1, 2, None, &mut done).unwrap(), 2);
    assert_eq!((d.ready(), d.pending()), (3, 3));
    assert_eq!(d.wait(3, 1, None, &mut done).unwrap(), 1, "min above max is max");
    assert_eq!(d.wait(1, 0, None, &mut done).unwrap(), 0);
    assert_eq!(d.wait(0, usize::MAX, None, &mut done).unwrap(), 2);
    assert_eq!((done.len(), d.pending()), (5, 0));
}

fn no_time(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    let mut done = Vec::new();
    let start = Instant::now();
    assert_eq!(d.wait(1, 1, Some(Duration::ZERO), &mut done).unwrap(), 0);
    assert_eq!(d.wait(0, 9, None, &mut done).unwrap(), 0, "min 0 does not block");
    assert!(start.elapsed() < LONG / 2);
    assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
    assert_eq!(collect(&mut d, 1).len(), 1);
}

fn time_elapses(t: &Case) {
    let mut d = t.driver();
    let (reader, _writer) = pipe();
    d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    d.submit(Nop::new()).unwrap();
    let mut done = Vec::new();
    let (time, start) = (Duration::from_millis(20), Instant::now());
    assert_eq!(d.wait(2, 2, Some(time), &mut done).unwrap(), 1, "fewer than min");
    assert!(start.elapsed() >= time, "too early");
}

/// Times that no clock holds are for ever, not an error and not now.
fn long_timeouts(t: &Case) {
    let mut d = t.driver();
    for time in [
        Duration::MAX,
        Duration::from_secs(u64::from(u32::MAX)),
        Duration::from_secs(i64::MAX as u64),
    ] {
        d.submit(Timeout::new(Duration::from_millis(5))).unwrap();
        let mut done = Vec::new();
        let count = loop {
            match d.wait(1, 1, Some(time), &mut done) {
                // The end of the ring of the case before.
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other.unwrap(),
            }
        };
        assert_eq!(count, 1);
    }
}

fn nothing_pending(t: &Case) {
    let mut d = t.driver();
    let mut done = Vec::new();
    assert_eq!(d.wait(1, 1, None, &mut done).unwrap(), 0, "waits for nothing");
    d.drain().unwrap();
    d.flush().unwrap();
    assert_eq!((d.pending(), d.ready()), (0, 0));
}

fn drain(t: &Case) {
    let mut d = t.config().depth(2).build().unwrap();
    let file = t.file("f", b"");
    for i in 0..50 {
        d.submit(Write::at(&file, i, b"x")).unwrap();
    }
    d.drain().unwrap();
    assert_eq!((d.ready(), d.pending()), (50, 50));
    assert_eq!(std::fs::read(t.path("f")).unwrap(), [b'x'; 50]);
    assert_eq!(outcomes(&mut d, 50).len(), 50);
}

fn run_leaves_others_alone(t: &Case) {
    let mut d = t.driver();
    let others: Vec<_> = (0..3).map(|_| d.submit(Nop::new()).unwrap()).collect();
    assert_eq!(run(&mut d, Timeout::new(Duration::from_millis(5))), Ok(0));
    let done = outcomes(&mut d, 3);
    assert!(others.iter().all(|token| done[token] == Ok(0)));
}

fn options(priority: Priority) -> proactor_engine::Options {
    proactor_engine::Options::default().priority(priority)
}

fn priorities(t: &Case) {
    assert!(Priority::new(PriorityClass::BestEffort, 8).is_none());
    assert!(Priority::new(PriorityClass::Idle, 1).is_none());
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let mut classes = vec![(PriorityClass::BestEffort, 7), (PriorityClass::Idle, 0)];
    if t.require("root") {
        classes.push((PriorityClass::RealTime, 3));
    }
    for (class, value) in classes {
        let priority = Priority::new(class, value).unwrap();
        let read = d
            .submit_with(Read::at(&file, 0, Vec::with_capacity(10)), options(priority))
            .unwrap();
        let write = d
            .submit_with(Write::at(&file, 0, b"x"), options(priority))
            .unwrap();
        let done = outcomes(&mut d, 2);
        assert_eq!((done[&read], done[&write]), (Ok(10), Ok(1)), "{class:?}");
    }
}

/// The simulator has no priorities.
fn no_privilege_no_real_time(t: &Case) {
    if t.engine == proactor_engine::Engine::Sim || !t.require("root") {
        return;
    }
    // Capabilities belong to the thread, and so do those of the workers that it starts.
    drop_capabilities();
    let mut d = t.driver();
    let file = t.file("f", b"cached");
    let priority = Priority::new(PriorityClass::RealTime, 3).unwrap();
    let write = d
        .submit_with(Write::at(&file, 0, b"x"), options(priority))
        .unwrap();
    let read = d
        .submit_with(Read::at(&file, 0, Vec::with_capacity(6)), options(priority))
        .unwrap();
    let done = outcomes(&mut d, 2);
    assert_eq!((done[&write], done[&read]), (Err(libc::EPERM), Err(libc::EPERM)));
    assert_eq!(
        run(&mut d, Write::at(&file, 0, b"x")),
        Ok(1),
        "the next op is none the worse"
    );
}

/// Bare descriptors, looked at anew each time.
fn files_of_bare_descriptors(t: &Case) {
    use std::os::fd::AsRawFd;
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let (reader, _writer) = pipe();
    for fd in [file.as_raw_fd(), reader.as_raw_fd(), file.as_raw_fd()] {
        let token = d.submit(Read::at(bare(fd), 0, Vec::with_capacity(3))).unwrap();
        if fd == reader.as_raw_fd() {
            d.cancel(token);
        }
        let expected = if fd == reader.as_raw_fd() {
            Err(libc::ECANCELED)
        } else {
            Ok(3)
        };
        assert_eq!(outcomes(&mut d, 1)[&token], expected);
    }
}
