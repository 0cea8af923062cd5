//! Cancelling: before, during, after. The completion always comes, and with it the buffer.

use crate::testkit::{collect, outcome, outcomes, pipe, run, Case, LONG};
use proactor_engine::op::{Events, Nop, Op, Open, OpenFlags, Poll, Read, ReadFile, Timeout, Write};
use proactor_engine::{CancelOutcome, Config, Driver};
use std::time::Duration;

conformance! {
    inline {
        in_the_backlog, most_of_the_backlog, reads_polls_and_timeouts, full_pipe, after_completion, twice, opening_a_fifo,
        whole_fifo, one_of_many, multishot_then_abandon, disk_read, some_of_a_file,
    }
}

fn in_the_backlog(t: &Case) {
    let mut d: Driver = t.config().depth(1).build().unwrap();
    let (reader, _writer) = pipe();
    let first = d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    let second = d.submit(Read::new(&reader, Vec::with_capacity(77))).unwrap();
    assert_eq!(d.cancel(second), CancelOutcome::Cancelled);
    let completion = collect(&mut d, 1).remove(0);
    assert_eq!(
        (completion.token, outcome(&completion)),
        (second, Err(libc::ECANCELED))
    );
    assert!(
        matches!(completion.op, Some(Op::Read(op)) if op.buffer.capacity() >= 77),
        "the buffer comes back"
    );
    assert_eq!(d.cancel(first), CancelOutcome::Cancelled);
    assert_eq!(outcomes(&mut d, 1)[&first], Err(libc::ECANCELED));
    assert_eq!(d.pending(), 0);
}

/// What is left goes on, in order, wherever in the queue the others were.
fn most_of_the_backlog(t: &Case) {
    const COUNT: usize = 5000;
    let mut d = t.config().depth(1).backlog(COUNT).build().unwrap();
    let (reader, writer) = pipe();
    let mut read = || d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    let tokens: Vec<_> = (0..=COUNT).map(|_| read()).collect();
    for (at, &token) in tokens.iter().enumerate().skip(1) {
        if at % 1000 != 0 {
            assert_eq!(d.cancel(token), CancelOutcome::Cancelled);
        }
    }
    assert!(
        d.submit(Nop::new()).is_err(),
        "a completion has its place until it is taken"
    );
    let cancelled = outcomes(&mut d, COUNT - COUNT / 1000);
    assert!(cancelled.values().all(|res| *res == Err(libc::ECANCELED)));
    let late = d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    crate::testkit::put(&writer, b"0123456");
    let left: Vec<_> = collect(&mut d, 2 + COUNT / 1000);
    let order: Vec<_> = left.iter().map(|c| c.token).collect();
    let expected: Vec<_> = tokens.iter().copied().step_by(1000).chain([late]).collect();
    assert_eq!(order, expected);
    assert_eq!(d.pending(), 0);
}

fn reads_polls_and_timeouts(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    for flush_first in [false, true] {
        let tokens = [
            d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap(),
            d.submit(Poll::new(&reader, Events::READABLE)).unwrap(),
            d.submit(Timeout::new(LONG)).unwrap(),
        ];
        if flush_first {
            d.flush().unwrap();
        }
        for token in tokens {
            assert_eq!(d.cancel(token), CancelOutcome::Cancelled);
        }
        let done = outcomes(&mut d, 3);
        assert!(tokens.iter().all(|token| done[token] == Err(libc::ECANCELED)));
    }
    assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
    assert_eq!(
        run(&mut d, Read::new(&reader, Vec::with_capacity(9))),
        Ok(1),
        "nothing was taken out of the pipe"
    );
}

fn full_pipe(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    assert_eq!(run(&mut d, Write::new(&writer, vec![1; 65_536])), Ok(65_536));
    let token = d.submit(Write::new(&writer, b"never")).unwrap();
    d.flush().unwrap();
    assert_eq!(d.cancel(token), CancelOutcome::Cancelled);
    assert_eq!(outcomes(&mut d, 1)[&token], Err(libc::ECANCELED));
    assert_eq!(
        run(&mut d, Read::new(&reader, Vec::with_capacity(70_000))),
        Ok(65_536)
    );
}

fn after_completion(t: &Case) {
    let mut d = t.driver();
    let token = d.submit(Nop::new()).unwrap();
    assert_eq!(outcomes(&mut d, 1)[&token], Ok(0));
    assert_eq!(d.cancel(token), CancelOutcome::Finished);
    let other = d.submit(Nop::new()).unwrap();
    assert_ne!(token, other, "tokens are not used again");
    assert_eq!(d.cancel(token), CancelOutcome::Finished);
    assert_eq!(outcomes(&mut d, 1)[&other], Ok(0));
    // Complete, but not collected.
    let token = d.submit(Nop::new()).unwrap();
    while d.ready() == 0 {
        d.wait(1, 0, Some(LONG), &mut Vec::new()).unwrap();
        d.drain().unwrap();
    }
    assert_eq!(d.cancel(token), CancelOutcome::Finished);
    assert_eq!(outcomes(&mut d, 1)[&token], Ok(0));
}

fn twice(t: &Case) {
    let mut d = t.driver();
    let (reader, _writer) = pipe();
    let token = d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    d.flush().unwrap();
    assert_eq!(d.cancel(token), CancelOutcome::Cancelled);
    let again = d.cancel(token);
    assert!(again != CancelOutcome::Running, "{again:?}");
    assert_eq!(outcomes(&mut d, 1)[&token], Err(libc::ECANCELED));
}

/// A worker or a kernel thread may be inside open(2): then the answer is Running, and it gets out.
fn opening_a_fifo(t: &Case) {
    let mut d = t.driver();
    let path = t.fifo("fifo");
    for flags in [OpenFlags::READ_ONLY, OpenFlags::WRITE_ONLY] {
        let token = d.submit(Open::new(path.clone(), flags)).unwrap();
        d.flush().unwrap();
        let answer = d.cancel(token);
        assert_ne!(answer, CancelOutcome::Finished);
        assert_eq!(outcomes(&mut d, 1)[&token], Err(libc::ECANCELED));
    }
}

fn whole_fifo(t: &Case) {
    let mut d = t.driver();
    let token = d.submit(ReadFile::new(t.fifo("fifo"))).unwrap();
    d.flush().unwrap();
    assert_ne!(d.cancel(token), CancelOutcome::Finished);
    assert_eq!(outcomes(&mut d, 1)[&token], Err(libc::ECANCELED));
}

fn one_of_many(t: &Case) {
    let mut d = Config::default()
        .engine(t.engine)
        .inline(t.inline)
        .depth(512)
        .build()
        .unwrap();
    let (reader, _writer) = pipe();
    let tokens: Vec<_> = (0..300)
        .map(|_| d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap())
        .collect();
    d.flush().unwrap();
    for token in tokens.iter().step_by(2) {
        assert_eq!(d.cancel(*token), CancelOutcome::Cancelled);
    }
    let done = outcomes(&mut d, 150);
    assert!(tokens
        .iter()
        .step_by(2)
        .all(|token| done[token] == Err(libc::ECANCELED)));
    assert_eq!(d.pending(), 150);
}

/// Its event and its end both wait to be collected when it is given up.
fn multishot_then_abandon(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let token = d.submit(Poll::multishot(&reader, Events::READABLE)).unwrap();
    d.flush().unwrap();
    assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
    while d.ready() == 0 {
        d.wait(1, 0, Some(LONG), &mut Vec::new()).unwrap();
    }
    d.cancel(token);
    d.drain().unwrap();
    assert_eq!(d.ready(), 2);
    d.abandon(token);
    assert_eq!((d.ready(), d.pending()), (0, 0));
    let mut done = Vec::new();
    assert_eq!(d.wait(1, 1, Some(Duration::ZERO), &mut done).unwrap(), 0);
}

/// A read from the disk cannot be stopped everywhere. The answer must not be Finished before its completion is there.
fn disk_read(t: &Case) {
    let mut d = Config::default().engine(t.engine).inline(false).build().unwrap();
    let file = t.file("f", &[7; 1 << 16]);
    for _ in 0..50 {
        let token = d.submit(Read::at(&file, 0, Vec::with_capacity(1 << 16))).unwrap();
        d.flush().unwrap();
        let answer = d.cancel(token);
        // glibc says AIO_ALLDONE before its notification has come.
        if answer == CancelOutcome::Finished && t.engine != proactor_engine::Engine::PosixAio {
            assert_eq!(d.ready(), 1, "finished, but not there");
        }
        let res = outcomes(&mut d, 1)[&token];
        match answer {
            CancelOutcome::Cancelled => assert_eq!(res, Err(libc::ECANCELED)),
            CancelOutcome::Finished => assert_eq!(res, Ok(1 << 16)),
            _ => assert!(matches!(res, Ok(65_536) | Err(libc::ECANCELED)), "{res:?}"),
        }
    }
}

/// The others go on, in whatever order they are done.
fn some_of_a_file(t: &Case) {
    let file = t.file("f", &[7; 1 << 16]);
    let mut d = t.driver();
    for round in 0..50_u32 {
        let read = |at: u64| Read::at(&file, at << 12, Vec::with_capacity(1 << 12));
        let tokens: Vec<_> = (0..6).map(|at| d.submit(read(at)).unwrap()).collect();
        d.flush().unwrap();
        for (at, token) in tokens.iter().enumerate() {
            if (round >> (at % 3)) % 2 == 0 {
                d.cancel(*token);
            }
        }
        let done = outcomes(&mut d, 6);
        for token in tokens {
            assert!([Ok(1 << 12), Err(libc::ECANCELED)].contains(&done[&token]));
        }
    }
}
