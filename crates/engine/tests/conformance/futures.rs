//! Futures of ops, on executors of the test's own.

use crate::fork::in_child;
use crate::testkit::{descriptors, pipe, Case};
use proactor_engine::op::{
    Blocking, Events, File, Fsync, Nop, Open, OpenFlags, Poll, Read, ReadFile, Rename, Timeout, Unlink, Write,
};
use proactor_engine::{Driver, Io, Refusal};
use std::cell::RefCell;
use std::future::{poll_fn, Future};
use std::os::fd::AsRawFd;
use std::pin::{pin, Pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::task::{self, Context, Wake};
use std::time::Duration;

conformance! {
    inline {
        an_awaited_op_gives_its_result, errors_come_back, many_tasks_share_a_driver, a_chain_is_awaited,
        events_come_again_and_again, a_full_queue_makes_tasks_wait, a_dropped_task_passes_its_room_on,
        another_thread_wakes, another_loop_watches, the_last_waker_counts, a_waker_may_come_back, ops_of_the_driver_itself,
        what_nobody_collects_does_not_spin,
    }
    isolated { dropped_futures_leave_nothing, a_forked_child_hears_of_it }
}

fn io(t: &Case) -> Io {
    t.driver().into()
}

/// Runs all of them in turn, and gives their outputs in order.
pub async fn join<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures
        .into_iter()
        .map(|future| (Box::pin(future), None))
        .collect();
    poll_fn(|cx| {
        for (future, output) in futures.iter_mut().filter(|(_, output)| output.is_none()) {
            if let task::Poll::Ready(ended) = future.as_mut().poll(cx) {
                *output = Some(ended);
            }
        }
        match futures.iter().all(|(_, output)| output.is_some()) {
            true => task::Poll::Ready(()),
            false => task::Poll::Pending,
        }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}

/// Counts how often it is woken.
#[derive(Default)]
pub struct Counter(pub AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub fn poll_once<F: Future>(future: &mut Pin<&mut F>, counter: &Arc<Counter>) -> task::Poll<F::Output> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(&Arc::clone(counter).into()))
}

fn an_awaited_op_gives_its_result(t: &Case) {
    let io = io(t);
    let path = t.c_path("f");
    let bytes = io
        .block_on(async {
            let file = io
                .run(Open::new(path, OpenFlags::READ_WRITE | OpenFlags::CREATE))
                .await?;
            let (written, _) = io.run(Write::at(&file, 0, "content")).await?;
            assert_eq!(written, 7);
            let (_, bytes) = io.run(Read::at(&file, 3, Vec::with_capacity(9))).await?;
            io.run(Timeout::new(Duration::from_millis(1))).await?;
            Ok::<_, proactor_engine::Error>(bytes)
        })
        .unwrap();
    assert_eq!(bytes.unwrap(), b"tent");
    assert_eq!(io.block_on(async { 5 }).unwrap(), 5, "no op at all");
}

fn errors_come_back(t: &Case) {
    let io = io(t);
    io.block_on(async {
        let failed = io
            .run(Open::new(t.c_path("missing"), OpenFlags::READ_ONLY))
            .await
            .unwrap_err();
        assert_eq!(
            (failed.errno(), failed.into_op().unwrap().path),
            (libc::ENOENT, t.c_path("missing").into())
        );
        let file = t.file("f", b"");
        let failed = io.run(Write::at(&file, u64::MAX, b"mine")).await.unwrap_err();
        assert_eq!(
            (failed.errno(), failed.into_op().unwrap().buffer),
            (libc::EINVAL, b"mine".to_vec())
        );
        let failed = io
            .run(Poll::multishot(&file, Events::READABLE))
            .await
            .unwrap_err();
        assert_eq!(failed.errno(), libc::EINVAL);
        let failed = io
            .run(Blocking::new("work", |_| panic!("words")))
            .await
            .unwrap_err();
        assert_eq!(failed.error().panic_message(), Some("words"));
    })
    .unwrap();
}

fn many_tasks_share_a_driver(t: &Case) {
    let io = io(t);
    let enters = |io: &Io| io.with(Driver::enters).unwrap_or(0);
    let before = enters(&io);
    assert_eq!(io.block_on(join((0..50).map(|_| io.run(Nop)))).unwrap().len(), 50);
    assert!(enters(&io) - before < 10, "one call for the ops of all tasks");
    for i in 0..50 {
        std::fs::write(t.path(&format!("f{i}")), i.to_string()).unwrap();
    }
    let read = |i: usize| io.run(ReadFile::new(t.c_path(&format!("f{i}"))));
    let contents = io.block_on(join((0..50).map(read))).unwrap();
    for (i, contents) in contents.into_iter().enumerate() {
        assert_eq!(contents.unwrap().as_slice(), i.to_string().as_bytes());
    }
}

fn a_chain_is_awaited(t: &Case) {
    let io = io(t);
    let file = t.file("f", b"");
    io.block_on(async {
        let ((written, _), ()) = io
            .chain((Write::at(&file, 0, "data"), Fsync::data(&file)))
            .await
            .unwrap();
        assert_eq!(written, 4);
        let missing = Rename::new(t.c_path("missing"), t.c_path("new"));
        let failed = io.chain((missing, Unlink::new(t.c_path("f")))).await.unwrap_err();
        assert_eq!((failed.index(), failed.error().errno()), (0, libc::ENOENT));
        assert_eq!(failed.into_results().1.unwrap_err().errno(), libc::ECANCELED);
        let refused = vec![
            Read::at(&file, 0, vec![0; 4]),
            Read::at(&file, u64::MAX, vec![0; 4]),
        ];
        assert_eq!(io.chain(refused).await.unwrap_err().index(), 1);
        assert!(io.chain(Vec::<Nop>::new()).await.unwrap().is_empty());
    })
    .unwrap();
    assert!(t.path("f").exists());
}

fn events_come_again_and_again(t: &Case) {
    let io = io(t);
    let (reader, writer) = pipe();
    io.block_on(async {
        let mut events = io.events(Poll::new(&reader, Events::READABLE));
        for _ in 0..3 {
            io.run(Write::new(&writer, b"!")).await.unwrap();
            assert!(events.next().await.unwrap().unwrap().is_readable());
            io.run(Read::new(&reader, vec![0; 1])).await.unwrap();
        }
        drop(writer);
        while let Some(found) = events.next().await {
            if found.unwrap().is_hang_up() {
                break;
            }
        }
    })
    .unwrap();
    assert_eq!(io.with(|driver| driver.ready()), 0);
}

fn a_full_queue_makes_tasks_wait(t: &Case) {
    let io: Io = t.config().depth(2).backlog(1).build().unwrap().into();
    let file = t.file("f", b"0123456789");
    let reads = (0..30).map(|i| io.run(Read::at(&file, i % 10, Vec::with_capacity(1))));
    for (i, result) in io.block_on(join(reads)).unwrap().into_iter().enumerate() {
        assert_eq!(result.unwrap().1, [b'0' + (i % 10) as u8]);
    }
    let chains = (0..9).map(|_| io.chain((Nop, Nop)));
    assert!(io.block_on(join(chains)).unwrap().iter().all(Result::is_ok));
    let never = io.block_on(io.chain((Nop, Nop, Nop, Nop))).unwrap().unwrap_err();
    assert_eq!(never.error().errno(), libc::EAGAIN, "more than the queue has");
}

/// A task that waits for room is dropped when it has been woken; the next one gets the room.
fn a_dropped_task_passes_its_room_on(t: &Case) {
    let io: Io = t
        .config()
        .inline(false)
        .depth(1)
        .backlog(0)
        .build()
        .unwrap()
        .into();
    let (reader, writer) = pipe();
    let counters: [Arc<Counter>; 3] = Default::default();
    let mut first = pin!(io.run(Read::new(&reader, vec![0; 1])));
    assert!(poll_once(&mut first, &counters[0]).is_pending());
    let mut second = Box::pin(io.run(Nop));
    assert!(poll_once(&mut second.as_mut(), &counters[1]).is_pending());
    let mut third = pin!(io.run(Nop));
    assert!(poll_once(&mut third, &counters[2]).is_pending());
    std::fs::write(format!("/proc/self/fd/{}", writer.as_raw_fd()), b"!").unwrap();
    while counters[0].0.load(Ordering::SeqCst) == 0 {
        io.turn(None).unwrap();
    }
    assert!(poll_once(&mut first, &counters[0]).is_ready());
    assert!(counters[1].0.load(Ordering::SeqCst) > 0);
    drop(second);
    assert!(counters[2].0.load(Ordering::SeqCst) > 0);
    io.block_on(third).unwrap().unwrap();
}

fn another_thread_wakes(t: &Case) {
    let io = io(t);
    for _ in 0..20 {
        let (wakers, woken) = channel::<task::Waker>();
        let thread = std::thread::spawn(move || woken.recv().unwrap().wake());
        let mut asked = false;
        io.block_on(poll_fn(|cx| {
            if std::mem::replace(&mut asked, true) {
                return task::Poll::Ready(());
            }
            wakers.send(cx.waker().clone()).unwrap();
            task::Poll::Pending
        }))
        .unwrap();
        thread.join().unwrap();
    }
    // A waker of the driver's ends a turn in which nothing completes.
    let waker = io.waker().unwrap();
    let thread = std::thread::spawn(move || waker.wake());
    io.turn(None).unwrap();
    thread.join().unwrap();
}

fn another_loop_watches(t: &Case) {
    let io = io(t);
    let fd = io.poll_fd().unwrap().as_raw_fd();
    let counter = Arc::new(Counter::default());
    let mut timeout = pin!(io.run(Timeout::new(Duration::from_millis(1))));
    assert!(poll_once(&mut timeout, &counter).is_pending());
    let turner = Arc::new(Counter::default());
    let turn = |io: &Io| {
        let polled = io.poll_turn(&mut Context::from_waker(&Arc::clone(&turner).into()));
        assert!(polled.is_pending(), "{polled:?}");
    };
    turn(&io);
    let mut nop = Box::pin(io.run(Blocking::new("work", |_| Ok(0))));
    assert!(poll_once(&mut nop.as_mut(), &counter).is_pending());
    assert_eq!(turner.0.load(Ordering::SeqCst), 1, "an op is queued");
    drop(nop);
    turn(&io);
    while counter.0.load(Ordering::SeqCst) == 0 {
        let mut entry = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live entry.
        let ready = unsafe { libc::poll(&raw mut entry, 1, 20_000) };
        assert_eq!(ready, 1, "nothing tells of the completion");
        turn(&io);
    }
    assert!(poll_once(&mut timeout, &counter).is_ready());
}

fn the_last_waker_counts(t: &Case) {
    let io = io(t);
    let (reader, writer) = pipe();
    let counters: [Arc<Counter>; 2] = Default::default();
    let mut read = pin!(io.run(Read::new(&reader, vec![0; 1])));
    for counter in &counters {
        assert!(poll_once(&mut read, counter).is_pending());
    }
    io.turn(Some(Duration::ZERO)).unwrap();
    std::fs::write(format!("/proc/self/fd/{}", writer.as_raw_fd()), b"!").unwrap();
    while counters[1].0.load(Ordering::SeqCst) == 0 {
        io.turn(None).unwrap();
    }
    assert_eq!(counters[0].0.load(Ordering::SeqCst), 0);
    assert!(poll_once(&mut read, &counters[1]).is_ready());
}

/// A waker that polls and drops other futures of the same driver at once, as an executor might.
fn a_waker_may_come_back(t: &Case) {
    thread_local! {
        static TASKS: RefCell<Vec<Pin<Box<dyn Future<Output = ()>>>>> = const { RefCell::new(Vec::new()) };
    }
    struct Eager;
    impl Wake for Eager {
        fn wake(self: Arc<Self>) {
            let Some(mut task) = TASKS.with_borrow_mut(Vec::pop) else {
                return;
            };
            let _ = task.as_mut().poll(&mut Context::from_waker(task::Waker::noop()));
        }
    }
    let io = io(t);
    let done = Rc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let (io, done) = (io.clone(), Rc::clone(&done));
        TASKS.with_borrow_mut(|tasks| {
            tasks.push(Box::pin(async move {
                done.fetch_add(1, Ordering::SeqCst);
                let _ = io.run(Timeout::new(Duration::from_secs(100))).await;
            }));
        });
    }
    let mut timeouts: Vec<_> = (0..3)
        .map(|_| Box::pin(io.run(Timeout::new(Duration::ZERO))))
        .collect();
    let waker = Arc::new(Eager).into();
    for timeout in &mut timeouts {
        let _ = timeout.as_mut().poll(&mut Context::from_waker(&waker));
    }
    while done.load(Ordering::SeqCst) < 3 {
        io.turn(None).unwrap();
    }
}

fn ops_of_the_driver_itself(t: &Case) {
    let io = io(t);
    let file = t.file("f", b"content");
    let token = io
        .with(|driver| driver.submit(Read::at(&file, 0, vec![0; 9])))
        .unwrap();
    io.block_on(io.run(Nop)).unwrap().unwrap();
    let completion = io.with(|driver| driver.completion_of(token)).unwrap();
    assert_eq!(completion.count().unwrap(), 7);
    let fixed = io.with(|driver| driver.register_file(&file)).unwrap();
    assert_eq!(
        io.block_on(io.run(Read::at(&fixed, 0, vec![0; 9])))
            .unwrap()
            .unwrap()
            .0,
        7
    );
}

/// Events that a stream has for a task which awaits something else, and an op that was submitted by hand.
fn what_nobody_collects_does_not_spin(t: &Case) {
    let io = io(t);
    let (reader, writer) = pipe();
    let counter = Arc::new(Counter::default());
    let mut events = io.events(Poll::new(&reader, Events::READABLE));
    assert!(poll_once(&mut pin!(events.next()), &counter).is_pending());
    let token = io.with(|driver| driver.submit(Nop)).unwrap();
    io.block_on(io.run(Write::new(&writer, b"!"))).unwrap().unwrap();
    while io.with(|driver| driver.ready()) < 2 {
        io.turn(None).unwrap();
    }
    let mut timeout = pin!(io.run(Timeout::new(Duration::from_millis(50))));
    let mut turns = 0;
    while poll_once(&mut timeout, &counter).is_pending() {
        io.turn(None).unwrap();
        turns += 1;
    }
    assert!(turns < 20, "{turns} turns for one completion");
    assert!(io.with(|driver| driver.completion_of(token)).is_ok());
}

fn dropped_futures_leave_nothing(t: &Case) {
    let before = descriptors();
    {
        let io = io(t);
        t.file("f", b"");
        let (reader, _writer) = pipe();
        let counter = Arc::new(Counter::default());
        {
            let mut read = pin!(io.run(Read::new(&reader, vec![0; 1 << 20])));
            let mut chain = pin!(io.chain((Read::new(&reader, vec![0; 9]), Nop, Nop)));
            let mut events = io.events(Poll::new(&reader, Events::READABLE));
            let mut next = pin!(events.next());
            assert!(poll_once(&mut read, &counter).is_pending());
            assert!(poll_once(&mut chain, &counter).is_pending());
            assert!(poll_once(&mut next, &counter).is_pending());
            io.turn(Some(Duration::ZERO)).unwrap();
        }
        for _ in 0..20 {
            let mut open = pin!(io.run(Open::new(t.c_path("f"), OpenFlags::READ_ONLY)));
            let opened: task::Poll<Result<File, _>> = poll_once(&mut open, &counter);
            io.turn(Some(Duration::ZERO)).unwrap();
            drop(opened);
        }
        // None of it is polled again, and all ends with the driver.
        drop(io.run(Nop));
        assert_eq!(io.with(|driver| driver.pending()), 0);
        assert_eq!(Arc::strong_count(&counter), 1, "a waker is kept");
    }
    assert_eq!(descriptors(), before);
}

fn a_forked_child_hears_of_it(t: &Case) {
    let io = io(t);
    in_child(|| {
        let failed = io.with(|driver| driver.submit(Nop)).unwrap_err();
        assert_eq!(failed.refusal, Refusal::Forked);
        assert!(io.turn(Some(Duration::ZERO)).is_err());
        assert!(io.block_on(io.run(Nop)).is_err());
    });
    io.block_on(io.run(Nop)).unwrap().unwrap();
}
