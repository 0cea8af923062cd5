//! Chains: in order, and no further than the first that fails or falls short.

use crate::testkit::{collect, outcome, pipe, run, Case};
use proactor_engine::op::{
    Advice, Close, Events, Fsync, GetXattr, Handle, Link, ListXattr, Mkdir, Nop, Op, Open, OpenFlags, Poll,
    Read, ReadFile, Rename, SetXattr, Splice, Statx, Symlink, SyncRangeFlags, Timeout, Truncate, Unlink,
    Write, WriteFile, XattrTarget,
};
use proactor_engine::{CancelOutcome, Driver, Refusal, Token};
use std::os::fd::FromRawFd;
use std::time::Duration;

conformance! {
    inline {
        in_order, failure_breaks_the_chain, every_failure_breaks_the_chain, short_read_breaks_the_chain,
        what_succeeds_goes_on, mixed_with_ops_by_threads, longer_than_the_queue, very_long_and_broken, several_chains,
        cancelled_successor, cancelled_head, refused_whole, while_the_queue_is_full, while_the_driver_is_watched,
    }
}

/// Outcomes in the order of the tokens.
fn in_token_order(d: &mut Driver, tokens: &[Token]) -> Vec<Result<usize, i32>> {
    let done = crate::testkit::outcomes(d, tokens.len());
    tokens.iter().map(|token| done[token]).collect()
}

fn chain(d: &mut Driver, ops: Vec<Op>) -> Vec<Result<usize, i32>> {
    let tokens = d.submit_linked(ops).expect("accepted");
    in_token_order(d, &tokens)
}

const CANCELED: Result<usize, i32> = Err(libc::ECANCELED);

/// Some ops are done elsewhere then, so that whoever watches hears of them: what follows them waits all the same.
fn while_the_driver_is_watched(t: &Case) {
    let mut d = t.driver();
    d.eventfd().unwrap();
    let file = t.file("f", b"");
    // SAFETY: no pointers; the descriptor is ours from here on.
    let bell = unsafe { std::os::fd::OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) };
    let bell = proactor_engine::op::File::new(bell);
    let ops = vec![
        Read::new(&bell, Vec::with_capacity(8)).into(),
        Write::at(&file, 0, b"rung").into(),
    ];
    let tokens = d.submit_linked(ops).expect("accepted");
    d.flush().unwrap();
    assert_eq!(run(&mut d, Timeout::new(Duration::from_millis(2))), Ok(0));
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"");
    assert_eq!(run(&mut d, Write::new(&bell, &1u64.to_ne_bytes())), Ok(8));
    assert_eq!(in_token_order(&mut d, &tokens), [Ok(8), Ok(4)]);
    // What comes after a chain is not a part of it.
    let ops = vec![
        Fsync::new(Handle::NONE).into(),
        Poll::new(&bell, Events::READABLE).into(),
    ];
    let mut tokens = d.submit_linked(ops).expect("accepted");
    tokens.push(d.submit(Write::at(&file, 0, b"none of it")).unwrap());
    assert_eq!(
        in_token_order(&mut d, &tokens),
        [Err(libc::EBADF), CANCELED, Ok(10)]
    );
}

fn in_order(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let ops = vec![
        Write::at(&file, 0, b"0123456789").into(),
        Fsync::data(&file).into(),
        Truncate::new(&file, 4).into(),
        Read::at(&file, 0, Vec::with_capacity(4)).into(),
        Rename::new(t.c_path("f"), t.c_path("g")).into(),
    ];
    assert_eq!(chain(&mut d, ops), [Ok(10), Ok(0), Ok(0), Ok(4), Ok(0)]);
    assert_eq!(std::fs::read(t.path("g")).unwrap(), b"0123");
    assert_eq!(chain(&mut d, vec![]), []);
    assert_eq!(chain(&mut d, vec![Nop::new().into()]), [Ok(0)]);
}

fn failure_breaks_the_chain(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let ops = vec![
        Write::at(&file, 0, b"x").into(),
        Fsync::new(Handle::NONE).into(),
        Write::at(&file, 0, b"never").into(),
        Nop::new().into(),
    ];
    assert_eq!(chain(&mut d, ops), [Ok(1), Err(libc::EBADF), CANCELED, CANCELED]);
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"x");
}

fn every_failure_breaks_the_chain(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"");
    let missing = || t.c_path("missing/x");
    let bad = || Handle::NONE;
    let target = || XattrTarget::Path(missing().into());
    let ops: Vec<Op> = vec![
        Open::new(missing(), OpenFlags::READ_ONLY).into(),
        Statx::new(missing()).into(),
        Rename::new(missing(), t.c_path("x")).into(),
        Unlink::new(missing()).into(),
        Mkdir::new(missing(), 0o700).into(),
        Link::new(missing(), t.c_path("x")).into(),
        Symlink::new(c"x", missing()).into(),
        Truncate::new(bad(), 1).into(),
        proactor_engine::op::Allocate::new(bad(), 0, 1).into(),
        proactor_engine::op::Advise::new(bad(), 0, 1, Advice::Normal).into(),
        proactor_engine::op::SyncRange::new(bad(), 0, 1, SyncRangeFlags::NONE).into(),
        GetXattr::new(target(), c"user.x", Vec::with_capacity(9)).into(),
        SetXattr::new(target(), c"user.x", b"x").into(),
        ListXattr::new(target(), Vec::with_capacity(9)).into(),
        Splice::new(bad(), bad(), 1).into(),
        Poll::new(bad(), Events::READABLE).into(),
        Read::at(bad(), 0, Vec::with_capacity(1)).into(),
        Write::at(bad(), 0, b"x").into(),
        ReadFile::new(missing()).into(),
        WriteFile::new(missing(), b"x").into(),
    ];
    let mut went_on = Vec::new();
    for op in ops {
        let name = op.name();
        let res = chain(&mut d, vec![op, Nop::new().into()]);
        assert!(res[0].is_err(), "{name} should fail");
        if res[1] != CANCELED {
            went_on.push(name);
        }
    }
    assert!(went_on.is_empty(), "chains went on after a failed {went_on:?}");
}

fn short_read_breaks_the_chain(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123");
    let ops = vec![
        Read::at(&file, 0, Vec::with_capacity(10)).into(),
        Nop::new().into(),
    ];
    assert_eq!(chain(&mut d, ops), [Ok(4), CANCELED]);
    let (reader, writer) = pipe();
    assert_eq!(run(&mut d, Write::new(&writer, b"ab")), Ok(2));
    let ops = vec![
        Read::new(&reader, Vec::with_capacity(3)).into(),
        Nop::new().into(),
    ];
    assert_eq!(chain(&mut d, ops), [Ok(2), CANCELED]);
}

fn what_succeeds_goes_on(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123");
    let (_reader, writer) = pipe();
    let ops = vec![
        Timeout::new(Duration::from_millis(2)).into(),
        Poll::new(&writer, Events::WRITABLE).into(),
        Statx::of(&file).into(),
        Open::new(t.c_path("f"), OpenFlags::READ_ONLY).into(),
        Close::new(crate::testkit::open(&t.path("f"), libc::O_RDONLY)).into(),
        Splice::new(&file, &writer, 4).from_offset(0).into(),
        Nop::new().into(),
    ];
    let res = chain(&mut d, ops);
    assert_eq!(
        res,
        [
            Ok(0),
            Ok(libc::POLLOUT as usize),
            Ok(0),
            Ok(0),
            Ok(0),
            Ok(4),
            Ok(0)
        ]
    );
}

fn mixed_with_ops_by_threads(t: &Case) {
    let mut d = t.driver();
    let ops = vec![
        WriteFile::new(t.c_path("f"), b"content").into(),
        ReadFile::new(t.c_path("f")).into(),
        Rename::new(t.c_path("f"), t.c_path("g")).into(),
        ReadFile::new(t.c_path("f")).into(),
        Unlink::new(t.c_path("g")).into(),
    ];
    assert_eq!(
        chain(&mut d, ops),
        [Ok(7), Ok(7), Ok(0), Err(libc::ENOENT), CANCELED]
    );
    assert!(t.path("g").exists());
}

fn longer_than_the_queue(t: &Case) {
    let mut d = t.config().depth(2).build().unwrap();
    let file = t.file("f", b"");
    let ops = (0..40u64)
        .map(|i| Write::at(&file, i, &[i as u8]).into())
        .collect();
    assert_eq!(chain(&mut d, ops), [Ok(1); 40]);
    assert!(std::fs::read(t.path("f"))
        .unwrap()
        .iter()
        .enumerate()
        .all(|(i, byte)| i == usize::from(*byte)));
}

fn very_long_and_broken(t: &Case) {
    let mut d = t.driver();
    let mut ops: Vec<Op> = vec![Fsync::new(Handle::NONE).into()];
    ops.extend((0..50_000).map(|_| Op::from(Nop::new())));
    let res = chain(&mut d, ops);
    assert_eq!(res[0], Err(libc::EBADF));
    assert!(res[1..].iter().all(|res| *res == CANCELED));
}

fn several_chains(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123");
    let good = d
        .submit_linked((0..3).map(|_| Nop::new().into()).collect())
        .unwrap();
    let broken = d
        .submit_linked(vec![Fsync::new(Handle::NONE).into(), Nop::new().into()])
        .unwrap();
    let single = d.submit(Read::at(&file, 0, Vec::with_capacity(4))).unwrap();
    let all: Vec<Token> = [good, broken, vec![single]].concat();
    let res = in_token_order(&mut d, &all);
    assert_eq!(res, [Ok(0), Ok(0), Ok(0), Err(libc::EBADF), CANCELED, Ok(4)]);
}

/// Where the kernel runs the chain, a successor that has not begun cannot be found; where the driver runs it, it can.
fn cancelled_successor(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let ops = vec![
        Read::new(&reader, Vec::with_capacity(1)).into(),
        Nop::new().into(),
        Nop::new().into(),
    ];
    let tokens = d.submit_linked(ops).unwrap();
    d.flush().unwrap();
    let answer = d.cancel(tokens[1]);
    assert_ne!(answer, CancelOutcome::Finished);
    let read_ahead = d.ready();
    assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
    let res = in_token_order(&mut d, &tokens);
    assert_eq!(res[0], Ok(1));
    match answer {
        CancelOutcome::Cancelled => assert_eq!((&res[1..], read_ahead), (&[CANCELED; 2][..], 2)),
        _ => assert!(res[1..] == [Ok(0); 2] || res[1..] == [CANCELED; 2]),
    }
}

fn cancelled_head(t: &Case) {
    let mut d = t.driver();
    let (reader, _writer) = pipe();
    let tokens = d
        .submit_linked(vec![
            Read::new(&reader, Vec::with_capacity(1)).into(),
            Nop::new().into(),
        ])
        .unwrap();
    d.flush().unwrap();
    assert_eq!(d.cancel(tokens[0]), CancelOutcome::Cancelled);
    assert_eq!(in_token_order(&mut d, &tokens), [CANCELED; 2]);
}

fn refused_whole(t: &Case) {
    let mut d = t.config().depth(2).backlog(2).build().unwrap();
    let file = t.file("f", b"");
    let (ops, refusal) = d
        .submit_linked((0..5).map(|_| Nop::new().into()).collect())
        .unwrap_err();
    assert_eq!((ops.len(), refusal), (5, Refusal::Full { bound: 4 }));
    let ops = vec![
        Write::at(&file, 0, b"x").into(),
        Poll::multishot(&file, Events::READABLE).into(),
    ];
    let (ops, refusal) = d.submit_linked(ops).unwrap_err();
    assert!(matches!(refusal, Refusal::Invalid(_)));
    assert_eq!((ops.len(), d.pending()), (2, 0));
}

fn while_the_queue_is_full(t: &Case) {
    let mut d = t.config().depth(2).build().unwrap();
    let file = t.file("f", b"");
    let (reader, writer) = pipe();
    let waiting: Vec<_> = (0..2)
        .map(|_| d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap())
        .collect();
    let ops = vec![
        Write::at(&file, 0, b"ab").into(),
        Read::at(&file, 0, Vec::with_capacity(2)).into(),
    ];
    let tokens = d.submit_linked(ops).unwrap();
    let mut done = Vec::new();
    assert_eq!(
        d.wait(1, 1, Some(Duration::from_millis(2)), &mut done).unwrap(),
        0
    );
    crate::testkit::put(&writer, b"xy");
    let done: std::collections::HashMap<_, _> =
        collect(&mut d, 4).iter().map(|c| (c.token, outcome(c))).collect();
    assert!(waiting.iter().all(|token| done[token] == Ok(1)));
    assert_eq!((done[&tokens[0]], done[&tokens[1]]), (Ok(2), Ok(2)));
}
