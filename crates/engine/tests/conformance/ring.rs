//! Configurations that only a ring has; other engines ignore them.

use crate::testkit::{bytes_of, finish, outcomes, pipe, run, Case};
use proactor_engine::buffer::AlignedBuf;
use proactor_engine::op::{
    Events, GetXattr, Mkdir, Nop, Open, OpenFlags, Poll, Read, ReadFile, Timeout, Write, WriteFile,
    XattrTarget,
};
use proactor_engine::{CancelOutcome, Driver, Engine, SqPoll};
use std::time::Duration;

conformance! {
    inline { polled_submission, polled_submission_keeps_chains, polled_submission_cancels, workers_are_limited, polled_device, polled_device_and_others }
    isolated { polled_submission_leaves_nothing }
}

fn sqpoll(t: &Case) -> Driver {
    t.config()
        .depth(8)
        .sqpoll(SqPoll::new(Duration::from_millis(1)))
        .build()
        .unwrap()
}

fn polled_submission(t: &Case) {
    let mut d = sqpoll(t);
    let file = t.file("f", b"");
    let writes: Vec<_> = (0..100u64)
        .map(|i| d.submit(Write::at(&file, i, &[i as u8])).unwrap())
        .collect();
    let done = outcomes(&mut d, 100);
    assert!(writes.iter().all(|token| done[token] == Ok(1)));
    let (res, op) = finish(&mut d, Read::at(&file, 90, Vec::with_capacity(100)));
    assert_eq!((res, bytes_of(op)), (Ok(10), (90..100).collect()));
    // The kernel's thread goes to sleep meanwhile.
    for _ in 0..3 {
        assert_eq!(run(&mut d, Timeout::new(Duration::from_millis(5))), Ok(0));
    }
    assert_eq!(run(&mut d, ReadFile::new(t.c_path("f"))), Ok(100));
    assert_eq!(run(&mut d, WriteFile::new(t.c_path("g"), b"x")), Ok(1));
    let tokens = d
        .submit_linked(vec![Write::at(&file, 0, b"x").into(), Nop::new().into()])
        .unwrap();
    let done = outcomes(&mut d, 2);
    assert_eq!((done[&tokens[0]], done[&tokens[1]]), (Ok(1), Ok(0)));
    let mut none = Vec::new();
    let (reader, _writer) = pipe();
    d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    assert_eq!(
        d.wait(1, 1, Some(Duration::from_millis(5)), &mut none).unwrap(),
        0
    );
}

/// The kernel's thread looks at the queue while the chain is being put there.
fn polled_submission_keeps_chains(t: &Case) {
    let mut d = sqpoll(t);
    let file = t.file("f", b"");
    let keep_awake = |d: &mut Driver| d.submit(Nop::new()).unwrap();
    for _ in 0..300 {
        keep_awake(&mut d);
        d.flush().unwrap();
        // The read falls short.
        let tokens = d
            .submit_linked(vec![
                Read::at(&file, 0, Vec::with_capacity(9)).into(),
                Write::at(&file, 0, b"never").into(),
                Nop::new().into(),
            ])
            .unwrap();
        let done = outcomes(&mut d, 4);
        let found: Vec<_> = tokens.iter().map(|token| done[token]).collect();
        assert_eq!(found, [Ok(0), Err(libc::ECANCELED), Err(libc::ECANCELED)]);
    }
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"");
}

fn polled_submission_cancels(t: &Case) {
    let mut d = sqpoll(t);
    let (reader, _writer) = pipe();
    for _ in 0..20 {
        let read = d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
        let poll = d.submit(Poll::new(&reader, Events::READABLE)).unwrap();
        d.flush().unwrap();
        assert_eq!(
            (d.cancel(read), d.cancel(poll)),
            (CancelOutcome::Cancelled, CancelOutcome::Cancelled)
        );
        assert!(outcomes(&mut d, 2)
            .values()
            .all(|res| *res == Err(libc::ECANCELED)));
    }
}

fn polled_submission_leaves_nothing(t: &Case) {
    let (descriptors, threads) = (crate::testkit::descriptors(), crate::testkit::threads());
    for _ in 0..5 {
        let mut d = sqpoll(t);
        let (reader, _writer) = pipe();
        d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
        d.submit(Nop::new()).unwrap();
        d.flush().unwrap();
    }
    assert_eq!(crate::testkit::descriptors(), descriptors);
    crate::testkit::wait_for_threads(threads);
}

fn workers_are_limited(t: &Case) {
    let mut d = t
        .config()
        .io_workers(1, 1)
        .io_worker_cpus(vec![0])
        .max_threads(1)
        .build()
        .unwrap();
    let tokens: Vec<_> = (0..20)
        .map(|i| d.submit(Mkdir::new(t.c_path(&format!("{i}")), 0o700)).unwrap())
        .collect();
    let done = outcomes(&mut d, 20);
    assert!(tokens.iter().all(|token| done[token] == Ok(0)));
    let beyond = t.config().io_worker_cpus(vec![100_000]).build();
    if t.engine == Engine::IoUring {
        assert_eq!(
            beyond.err().and_then(|e| proactor_engine::errno_of(&e)),
            Some(libc::EINVAL)
        );
    } else {
        assert!(beyond.is_ok(), "ignored");
    }
}

/// Where the device has no poll queues a polled ring answers EOPNOTSUPP, unless the file system goes another way (ext4
/// does for some writes).
fn polled_device(t: &Case) {
    if !t.require("o_direct") {
        return;
    }
    let mut d = t.config().iopoll(true).build().unwrap();
    t.file("f", &[7; 8192]);
    let file = t.open("f", libc::O_RDWR | libc::O_DIRECT);
    let alignment = file.direct_alignment().unwrap();
    let (len, memory) = (alignment.offset.max(512), alignment.memory.max(512));
    let read = run(&mut d, Read::at(&file, 0, AlignedBuf::new(len, memory)));
    let write = run(&mut d, Write::at(&file, 0, AlignedBuf::zeroed(len, memory)));
    for res in [read, write] {
        let unsupported = t.engine == Engine::IoUring && res == Err(libc::EOPNOTSUPP);
        assert!(res == Ok(len) || unsupported, "{res:?}");
    }
}

/// Everything that a polled ring cannot do goes to threads.
fn polled_device_and_others(t: &Case) {
    let mut d = t.config().iopoll(true).build().unwrap();
    let file = t.file("f", b"0123456789");
    let fd = d.eventfd().unwrap();
    assert_eq!(run(&mut d, Read::at(&file, 0, Vec::with_capacity(4))), Ok(4));
    assert_eq!(run(&mut d, Nop::new()), Ok(0));
    assert_eq!(run(&mut d, Mkdir::new(t.c_path("dir"), 0o700)), Ok(0));
    assert_eq!(run(&mut d, ReadFile::new(t.c_path("f"))), Ok(10));
    d.run(Open::new(t.c_path("f"), OpenFlags::READ_ONLY)).unwrap();
    if t.require("user_xattr") {
        let target = XattrTarget::Path(t.c_path("f").into());
        let get = GetXattr::new(target, c"user.none", Vec::with_capacity(9));
        assert_eq!(run(&mut d, get), Err(libc::ENODATA));
    }
    let (reader, writer) = pipe();
    let token = d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    d.flush().unwrap();
    assert_eq!(d.cancel(token), CancelOutcome::Cancelled);
    assert_eq!(outcomes(&mut d, 1)[&token], Err(libc::ECANCELED));
    let read = d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    let write = d.submit(Write::new(&writer, b"x")).unwrap();
    d.flush().unwrap();
    assert!(
        crate::testkit::polls(fd, libc::POLLIN, crate::testkit::LONG),
        "no announcement"
    );
    let done = outcomes(&mut d, 2);
    assert_eq!((done[&read], done[&write]), (Ok(1), Ok(1)));
}
