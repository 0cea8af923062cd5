//! Functions of the caller's on a worker.

use crate::testkit::{collect, outcome, outcomes, pipe, run, Case, LONG};
use proactor_engine::op::{Blocking, Nop, Op, OpKind, Open, OpenFlags, Stop, Write};
use proactor_engine::{CancelOutcome, Config, Engine, Error};
use std::error::Error as _;
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
        a_panic_ends_its_op_alone,
        an_error_keeps_its_words,
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
    let error = Error::from(d.run(fails()).unwrap_err());
    assert_eq!((error.op(), error.errno()), ("work", libc::EXDEV));
    let unknown = Blocking::new("work", |_| Err(io::Error::other("no number")));
    assert_eq!(run(&mut d, unknown), Err(libc::EIO));
}

/// The panics of this test are not printed; those of other tests are.
fn quiet_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<&str>().copied().unwrap_or_default();
            if text != "on purpose" {
                hook(info);
            }
        }));
    });
}

fn a_panic_ends_its_op_alone(t: &Case) {
    quiet_panics();
    for waits in [false, true] {
        let mut d = t.driver();
        let mut op = Blocking::new("work", |_| panic!("on purpose"));
        op.waits = waits;
        let panics = d.submit(op).unwrap();
        let works = d.submit(Blocking::new("work", |_| Ok(7))).unwrap();
        let mut done: Vec<_> = collect(&mut d, 2);
        done.sort_by_key(|completion| completion.token != panics);
        assert_eq!((done[1].token, outcome(&done[1])), (works, Ok(7)));
        let failed = done.swap_remove(0);
        let error = failed.result.unwrap_err();
        assert_eq!(
            (error.errno(), error.panic_message()),
            (libc::EIO, Some("on purpose"))
        );
        assert_eq!(error.to_string(), "work: the function panicked: on purpose");
        let Some(Op::Blocking(mut op)) = failed.op else {
            panic!("the op comes back");
        };
        let payload = op.take_panic().expect("the payload");
        assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
        assert!(op.take_panic().is_none(), "given once");
    }
    // Nobody collects it: the drop ends.
    let mut d = t.driver();
    d.submit(Blocking::new("work", |_| panic!("on purpose"))).unwrap();
    d.flush().unwrap();
    drop(d);
}

fn an_error_keeps_its_words(t: &Case) {
    let mut d = t.driver();
    let broken = || Blocking::new("work", |_| Err(io::Error::other("the disk is on fire")));
    let error = Error::from(d.run(broken()).unwrap_err());
    assert_eq!(error.to_string(), "work: the disk is on fire");
    assert_eq!(error.source().unwrap().to_string(), "the disk is on fire");
    let missing = Open::new(c"/nowhere/at all", OpenFlags::READ_ONLY);
    let error = Error::from(d.run(missing).unwrap_err());
    let as_io = io::Error::from(error.clone());
    assert_eq!(as_io.kind(), io::ErrorKind::NotFound);
    assert_eq!(as_io.to_string(), error.to_string());
    assert!(as_io.to_string().contains("/nowhere/at all"));
    assert_eq!(proactor_engine::errno_of(&as_io), Some(libc::ENOENT));
    let inner = as_io.get_ref().and_then(|inner| inner.downcast_ref());
    assert_eq!(inner, Some(&error));
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
