//! Functions of the caller's on a worker.

use crate::testkit::{collect, outcome, outcomes, pipe, run, Case, LONG};
use proactor::op::{Blocking, Nop, OpKind, Stop, Write};
use proactor::{CancelOutcome, Config, Engine};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const COVERS: &[OpKind] = &[OpKind::Blocking];

conformance! {
    once {
        counts_and_errors,
        called_again_when_interrupted,
        cancelled_in_a_system_call,
        cancelled_before_it_began,
        those_that_wait_take_no_worker_away,
        dropped_with_the_driver,
    }
}

/// The simulator runs it in the calling thread, where nothing may block.
fn blocks(t: &Case) -> bool {
    t.engine != Engine::Sim
}

fn counts_and_errors(t: &Case) {
    let mut d = t.driver();
    assert_eq!(
        run(&mut d, Blocking::new("work", |_| Ok(5_000_000_000))),
        Ok(5_000_000_000)
    );
    let fails = || Blocking::new("work", |_| Err(io::Error::from_raw_os_error(libc::EXDEV)));
    assert_eq!(run(&mut d, fails()), Err(libc::EXDEV));
    let error = d.run(fails()).unwrap().result.unwrap_err();
    assert_eq!((error.op(), error.errno()), ("work", libc::EXDEV));
    let unknown = Blocking::new("work", |_| Err(io::Error::other("no number")));
    assert_eq!(run(&mut d, unknown), Err(libc::EIO));
}

fn called_again_when_interrupted(t: &Case) {
    if !blocks(t) {
        return;
    }
    let mut d = t.driver();
    let mut calls = 0;
    let work = move |_: &Stop<'_>| {
        calls += 1;
        if calls < 4 {
            return Err(io::Error::from_raw_os_error(libc::EINTR));
        }
        Ok(calls)
    };
    assert_eq!(run(&mut d, Blocking::new("work", work)), Ok(4));
}

fn read_one(fd: i32) -> io::Result<usize> {
    let mut byte = 0_u8;
    // SAFETY: one live byte.
    let count = unsafe { libc::read(fd, (&raw mut byte).cast(), 1) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

fn cancelled_in_a_system_call(t: &Case) {
    if !blocks(t) {
        return;
    }
    let mut d = t.driver();
    let (reader, _writer) = pipe();
    let fd = reader.as_raw_fd();
    for waits in [false, true] {
        let begun = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&begun);
        let work = move |stop: &Stop<'_>| {
            seen.fetch_add(1, Ordering::Relaxed);
            assert_eq!(stop.is_set(), seen.load(Ordering::Relaxed) > 1);
            read_one(fd)
        };
        let mut op = Blocking::new("work", work);
        op.waits = waits;
        let token = d.submit(op).unwrap();
        d.flush().unwrap();
        let deadline = Instant::now() + LONG;
        while begun.load(Ordering::Relaxed) == 0 {
            assert!(Instant::now() < deadline, "it never began");
            std::thread::yield_now();
        }
        assert_eq!(d.cancel(token), CancelOutcome::Running);
        assert_eq!(outcomes(&mut d, 1)[&token], Err(libc::ECANCELED));
        assert_eq!(begun.load(Ordering::Relaxed), 1, "it was not called again");
    }
}

fn cancelled_before_it_began(t: &Case) {
    let mut d = t.driver();
    let first = d.submit(Blocking::new("work", |_| Ok(1))).unwrap();
    let second = d.submit(Blocking::new("work", |_| Ok(2))).unwrap();
    d.cancel(second);
    let done = outcomes(&mut d, 2);
    assert_eq!(done[&first], Ok(1));
    assert!(matches!(done[&second], Ok(2) | Err(libc::ECANCELED)));
}

/// A pool of one thread, in which three wait for what an ordinary op does.
fn those_that_wait_take_no_worker_away(t: &Case) {
    if !blocks(t) {
        return;
    }
    let mut d = Config::default()
        .engine(t.engine)
        .inline(false)
        .max_threads(1)
        .build()
        .unwrap();
    let (reader, writer) = pipe();
    let fd = reader.as_raw_fd();
    for _ in 0..3 {
        d.submit(Blocking::waiting("wait", move |_| read_one(fd)))
            .unwrap();
    }
    d.flush().unwrap();
    let fd = writer.as_raw_fd();
    let write = Blocking::new("work", move |_| {
        // SAFETY: three live bytes.
        let count = unsafe { libc::write(fd, c"abc".as_ptr().cast(), 3) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    });
    d.submit(write).unwrap();
    let mut results: Vec<_> = collect(&mut d, 4).iter().map(outcome).collect();
    results.sort_unstable();
    assert_eq!(results, [Ok(1), Ok(1), Ok(1), Ok(3)]);
    assert_eq!(run(&mut d, Nop::new()), Ok(0));
}

/// One that may wait for ever is stopped; any other runs to its end.
fn dropped_with_the_driver(t: &Case) {
    if !blocks(t) {
        return;
    }
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let fd = reader.as_raw_fd();
    let ended = Arc::new(AtomicUsize::new(0));
    let end = Arc::clone(&ended);
    d.submit(Blocking::waiting("wait", move |_| read_one(fd)))
        .unwrap();
    d.submit(Blocking::new("work", move |_| {
        std::thread::sleep(Duration::from_millis(5));
        end.fetch_add(1, Ordering::Relaxed);
        Ok(0)
    }))
    .unwrap();
    d.flush().unwrap();
    drop(d);
    assert_eq!(ended.load(Ordering::Relaxed), 1);
    let mut d = t.driver();
    assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
    assert_eq!(read_one(fd).unwrap(), 1, "nobody else has read it");
}
