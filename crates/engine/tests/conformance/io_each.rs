//! Many ops of one kind as futures, and what ends them all: an `Io` that fails, or is gone.

use crate::futures::{poll_once, Counter};
use crate::testkit::{descriptors, pipe, put, Case};
use proactor_engine::op::{Events, Nop, Open, OpenFlags, Poll, Read, ReadFile, Timeout, Write};
use proactor_engine::Io;
use std::io::Error;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

conformance! {
    inline {
        each_op_ends_once, each_takes_no_more_than_it_may, each_fits_a_small_queue, each_tells_the_last_task, each_leaves_others_alone,
        a_failure_ends_all_that_is_awaited, who_takes_turns_hears_of_the_end,
    }
    isolated { an_unfinished_each_leaves_nothing }
}

fn io(t: &Case) -> Io {
    t.driver().into()
}

fn each_op_ends_once(t: &Case) {
    let io = io(t);
    for i in 0..40 {
        std::fs::write(t.path(&format!("f{i}")), i.to_string()).unwrap();
    }
    let reads = |count: u32| (0..count).map(|i| ReadFile::new(t.c_path(&format!("f{i}"))));
    let mut seen = io
        .block_on(async {
            let mut results = io.each(8, reads(42));
            let mut seen = Vec::new();
            while let Some((at, result)) = results.next().await {
                match result {
                    Ok(contents) => assert_eq!(contents.as_slice(), at.to_string().as_bytes()),
                    Err(failed) => assert!(at >= 40 && failed.errno() == libc::ENOENT, "{at}: {failed}"),
                }
                seen.push(at);
            }
            assert!(results.next().await.is_none(), "and stays at the end");
            seen
        })
        .unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (0..42).collect::<Vec<_>>());
    io.block_on(async {
        assert!(io.each(0, Vec::<Nop>::new()).next().await.is_none());
        let polls = (0..3).map(|_| Poll::multishot(t.file("f", b""), Events::READABLE));
        let mut refused = io.each(2, polls);
        let mut count = 0;
        while let Some((at, result)) = refused.next().await {
            assert_eq!((at, result.unwrap_err().errno()), (count, libc::EINVAL));
            count += 1;
        }
        assert_eq!(count, 3);
    })
    .unwrap();
}

fn each_takes_no_more_than_it_may(t: &Case) {
    let io = io(t);
    let (reader, writer) = pipe();
    let mut taken = 0;
    let reads = (0..10).map(|_| {
        taken += 1;
        Read::new(&reader, vec![0; 1])
    });
    let mut results = io.each(3, reads);
    let counter = Arc::new(Counter::default());
    assert!(poll_once(&mut pin!(results.next()), &counter).is_pending());
    put(&writer, b"!");
    let first = io.block_on(results.next()).unwrap().unwrap();
    assert_eq!(first.1.unwrap().0, 1);
    drop(results);
    assert_eq!(
        taken, 3,
        "the place of one that has ended is filled by the next call"
    );
    assert_eq!(io.with(|driver| driver.pending()), 0);
}

fn each_fits_a_small_queue(t: &Case) {
    let io: Io = t.config().depth(2).backlog(1).build().unwrap().into();
    let file = t.file("f", b"0123456789");
    let reads = |from: u64| (from..from + 30).map(|i| Read::at(&file, i % 10, vec![0; 1]));
    io.block_on(async {
        // Two that take each other's room, and one op beside them.
        let (mut one, mut other) = (io.each(16, reads(0)), io.each(16, reads(5)));
        for _ in 0..30 {
            for (results, from) in [(&mut one, 0), (&mut other, 5)] {
                let (at, result) = results.next().await.unwrap();
                assert_eq!(result.unwrap().1, [b'0' + ((from + at) % 10) as u8]);
            }
        }
        assert!(one.next().await.is_none() && other.next().await.is_none());
        io.run(Nop).await.unwrap();
    })
    .unwrap();
}

fn each_tells_the_last_task(t: &Case) {
    let io = io(t);
    let (reader, writer) = pipe();
    let counters: [Arc<Counter>; 2] = Default::default();
    let mut results = io.each(4, (0..4).map(|_| Read::new(&reader, vec![0; 1])));
    for counter in &counters {
        assert!(poll_once(&mut pin!(results.next()), counter).is_pending());
    }
    io.turn(Some(Duration::ZERO)).unwrap();
    put(&writer, b"!");
    while counters[1].0.load(Ordering::SeqCst) == 0 {
        io.turn(None).unwrap();
    }
    assert_eq!(counters[0].0.load(Ordering::SeqCst), 0);
    assert!(poll_once(&mut pin!(results.next()), &counters[1]).is_ready());
    drop(results);
    for counter in counters {
        assert_eq!(Arc::strong_count(&counter), 1, "a waker is kept");
    }
}

fn each_leaves_others_alone(t: &Case) {
    let io = io(t);
    let token = io.with(|driver| driver.submit(Nop)).unwrap();
    io.block_on(async {
        let mut results = io.each(4, (0..9).map(|_| Nop));
        while let Some((_, result)) = results.next().await {
            result.unwrap();
        }
    })
    .unwrap();
    assert!(io.with(|driver| driver.completion_of(token)).is_ok());
}

fn an_unfinished_each_leaves_nothing(t: &Case) {
    let before = descriptors();
    {
        let io = io(t);
        t.file("f", b"");
        let (reader, _writer) = pipe();
        let counter = Arc::new(Counter::default());
        let mut reads = io.each(8, (0..20).map(|_| Read::new(&reader, vec![0; 1 << 16])));
        let mut opens = io.each(8, (0..20).map(|_| Open::new(t.c_path("f"), OpenFlags::READ_ONLY)));
        assert!(poll_once(&mut pin!(reads.next()), &counter).is_pending());
        let opened = poll_once(&mut pin!(opens.next()), &counter);
        io.turn(Some(Duration::ZERO)).unwrap();
        drop((opened, opens, reads));
        assert_eq!(io.with(|driver| driver.pending()), 0);
        assert_eq!(Arc::strong_count(&counter), 1, "a waker is kept");
    }
    assert_eq!(descriptors(), before);
}

/// Ops in flight, those behind a full queue and those to come, in each kind of future.
fn a_failure_ends_all_that_is_awaited(t: &Case) {
    let io: Io = t.config().depth(4).backlog(2).build().unwrap().into();
    let (reader, _writer) = pipe();
    let idle = || Read::new(&reader, vec![0; 1]);
    let counter = Arc::new(Counter::default());
    let mut read = pin!(io.run(idle()));
    let mut chain = pin!(io.chain((idle(), Nop)));
    let mut events = io.events(Poll::new(&reader, Events::READABLE));
    let mut each = io.each(2, [idle(), idle(), idle()]);
    assert!(poll_once(&mut read, &counter).is_pending());
    assert!(poll_once(&mut chain, &counter).is_pending());
    assert!(poll_once(&mut pin!(events.next()), &counter).is_pending());
    assert!(poll_once(&mut pin!(each.next()), &counter).is_pending());
    let mut waits = pin!(io.run(idle()));
    assert!(poll_once(&mut waits, &counter).is_pending(), "the queue is full");
    io.turn(Some(Duration::ZERO)).unwrap();

    io.fail(Error::from_raw_os_error(libc::ENOMEM));
    io.fail(Error::from_raw_os_error(libc::EPERM));
    assert!(counter.0.load(Ordering::SeqCst) >= 5, "all are woken");
    io.block_on(async {
        let failed = read.await.unwrap_err();
        assert_eq!((failed.errno(), failed.into_op().is_none()), (libc::ENOMEM, true));
        let failed = chain.await.unwrap_err();
        assert_eq!((failed.index(), failed.error().errno()), (0, libc::ENOMEM));
        assert_eq!(events.next().await.unwrap().unwrap_err().errno(), libc::ENOMEM);
        assert!(events.next().await.is_none());
        let mut ends = 0;
        while let Some((_, result)) = each.next().await {
            assert_eq!(result.unwrap_err().errno(), libc::ENOMEM);
            ends += 1;
        }
        assert_eq!(ends, 3);
        let failed = waits.await.unwrap_err();
        assert_eq!((failed.errno(), failed.into_op().is_some()), (libc::ENOMEM, true));
        let late = io.run(Write::new(&reader, b"mine")).await.unwrap_err();
        assert_eq!(late.into_op().unwrap().buffer, b"mine");
        assert_eq!(
            io.chain((Nop, Nop)).await.unwrap_err().error().errno(),
            libc::ENOMEM
        );
        let late = io.events(Poll::new(&reader, Events::READABLE)).next().await;
        assert_eq!(late.unwrap().unwrap_err().errno(), libc::ENOMEM);
    })
    .unwrap();
    assert_eq!(io.with(|driver| driver.pending()), 0);
}

fn who_takes_turns_hears_of_the_end(t: &Case) {
    let io = io(t);
    let weak = io.downgrade();
    let counter = Arc::new(Counter::default());
    let polled = weak
        .upgrade()
        .unwrap()
        .poll_turn(&mut Context::from_waker(&Arc::clone(&counter).into()));
    assert!(polled.is_pending());
    let timeout = io.run(Timeout::new(Duration::from_secs(100)));
    drop(io);
    assert_eq!(counter.0.load(Ordering::SeqCst), 0, "a future has one");
    drop(timeout);
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    assert!(weak.upgrade().is_none());
}
