//! Ops of one thread's tasks, on every engine that works here.

use futures_core::Stream;
use proactor_engine::fs::{self, File};
use proactor_engine::op::{Events, Fsync, Nop, Poll, Read, ReadFile, Timeout, Write};
use proactor_engine::{Config, Driver, Engine, Io};
use std::cell::Cell;
use std::future::{poll_fn, Future};
use std::io::{PipeReader, PipeWriter, Write as _};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{spawn_local, yield_now, LocalSet};
use tokio::time::timeout;

const ENGINES: [Engine; 5] = [
    Engine::IoUring,
    Engine::LinuxAio,
    Engine::PosixAio,
    Engine::Threads,
    Engine::Sim,
];

/// Far beyond what anything here takes.
const LONG: Duration = Duration::from_secs(20);

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Runs the test on each engine, with and without inline attempts, in a set of tasks on both kinds of runtime.
fn on_each(test: impl AsyncFn(Config)) {
    for engine in ENGINES {
        let config = |inline| Driver::builder().engine(engine).inline(inline);
        if let Err(error) = config(true).build() {
            eprintln!("{engine} does not work here: {error}");
            continue;
        }
        for (runtime, inline) in [(current_thread(), true), (multi_thread(), false)] {
            eprintln!("{engine}, inline {inline}");
            let limited = timeout_of(test(config(inline)));
            LocalSet::new().block_on(&runtime, limited);
        }
    }
}

async fn timeout_of(test: impl Future<Output = ()>) {
    timeout(LONG, test).await.expect("it hangs");
}

fn pipe() -> (proactor_engine::op::File, PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let file = proactor_engine::op::File::duplicate(&reader).unwrap();
    (file, reader, writer)
}

#[test]
fn ops_chains_events_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("f");
    on_each(async |config| {
        let io = proactor_tokio::local(config).unwrap();
        fs::write(&io, path, "0123456789").await.unwrap();
        let file = File::options().read(true).write(true).open(&io, path);
        let file = file.await.unwrap();
        let op_file = file.as_op_file();
        let chain = io.chain((Write::at(op_file, 0, "ab"), Fsync::data(op_file)));
        assert_eq!(chain.await.unwrap().0 .0, 2);
        assert_eq!(file.read_exact_at(vec![0; 4], 0).await.unwrap(), b"ab23");
        let (reader, _keep, mut writer) = pipe();
        let mut events = io.events(Poll::new(&reader, Events::READABLE));
        for _ in 0..3 {
            writer.write_all(b"!").unwrap();
            assert!(events.next().await.unwrap().unwrap().is_readable());
            io.run(Read::new(&reader, vec![0; 1])).await.unwrap();
        }
        io.run(Timeout::new(Duration::from_millis(1))).await.unwrap();
    });
}

#[test]
fn many_tasks() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..100 {
        std::fs::write(dir.path().join(i.to_string()), i.to_string()).unwrap();
    }
    on_each(async |config| {
        let io = proactor_tokio::local(config.depth(16).backlog(16)).unwrap();
        let calls = |io: &Io| io.with(Driver::enters);
        let before = calls(&io);
        let nops: Vec<_> = (0..30).map(|_| spawn_local(io.run(Nop))).collect();
        for nop in nops {
            nop.await.unwrap().unwrap();
        }
        if let (Ok(before), Ok(after)) = (before, calls(&io)) {
            assert!(after - before < 15, "{} calls for 30 tasks", after - before);
        }
        let reads: Vec<_> = (0..500)
            .map(|i| spawn_local(fs::read(&io, dir.path().join((i % 100).to_string()))))
            .collect();
        for (i, read) in reads.into_iter().enumerate() {
            assert_eq!(read.await.unwrap().unwrap(), (i % 100).to_string().as_bytes());
        }
    });
}

/// More at once than an engine takes in one turn: the runtime is told of a descriptor that becomes readable, not of one that
/// still is.
#[test]
fn many_that_are_ready_at_once() {
    on_each(async |config| {
        let io = proactor_tokio::local(config).unwrap();
        let mut pipes: Vec<_> = (0..150).map(|_| pipe()).collect();
        let reads: Vec<_> = pipes
            .iter()
            .map(|(reader, ..)| spawn_local(io.run(Read::new(reader, vec![0; 1]))))
            .collect();
        // All wait in the engine when the bytes come.
        io.run(Timeout::new(Duration::from_millis(1))).await.unwrap();
        for (.., writer) in &mut pipes {
            writer.write_all(b"!").unwrap();
        }
        for read in reads {
            assert_eq!(read.await.unwrap().unwrap().0, 1);
        }
    });
}

/// By a timeout, by `select!` and by an abort: the op takes no bytes, and nothing of it is left.
#[test]
fn dropped_futures() {
    on_each(async |config| {
        let io = proactor_tokio::local(config).unwrap();
        let (reader, _keep, mut writer) = pipe();
        let idle = || Read::new(&reader, vec![0; 1 << 16]);
        for _ in 0..10 {
            assert!(timeout(Duration::from_millis(1), io.run(idle())).await.is_err());
            tokio::select! {
                biased;
                result = io.run(idle()) => panic!("{result:?}"),
                result = io.run(Timeout::new(Duration::from_millis(1))) => result.unwrap(),
            }
            let task = spawn_local(io.run(idle()));
            yield_now().await;
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        assert_eq!(io.with(|driver| driver.pending()), 0);
        writer.write_all(b"!").unwrap();
        assert_eq!(io.run(idle()).await.unwrap().0, 1);
    });
}

#[test]
fn streams() {
    async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
        poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
    }
    let dir = tempfile::tempdir().unwrap();
    for i in 0..50 {
        std::fs::write(dir.path().join(i.to_string()), i.to_string()).unwrap();
    }
    on_each(async |config| {
        let io = proactor_tokio::local(config).unwrap();
        let mut reads = io.each(8, (0..50).map(|i| ReadFile::new(dir.path().join(i.to_string()))));
        let mut seen = 0;
        while let Some((at, contents)) = next(&mut reads).await {
            assert_eq!(contents.unwrap().as_slice(), at.to_string().as_bytes());
            seen += 1;
        }
        assert_eq!(seen, 50);
        let (reader, _keep, mut writer) = pipe();
        let mut events = io.events(Poll::new(&reader, Events::READABLE));
        writer.write_all(b"!").unwrap();
        assert!(next(&mut events).await.unwrap().unwrap().is_readable());
    });
}

/// Tokio's own work and ops, side by side: neither starves the other.
#[test]
fn beside_the_runtime_itself() {
    on_each(async |config| {
        let io = proactor_tokio::local(config).unwrap();
        let done = Rc::new(Cell::new(false));
        let (told, io_task) = (Rc::clone(&done), io.clone());
        let ops = spawn_local(async move {
            let mut count = 0;
            while !told.get() {
                io_task.run(Nop).await.unwrap();
                count += 1;
            }
            count
        });
        let (mut ours, mut theirs) = tokio::net::UnixStream::pair().unwrap();
        for _ in 0..100 {
            ours.writable().await.unwrap();
            assert_eq!(ours.try_write(b"!").unwrap(), 1);
            theirs.readable().await.unwrap();
            assert_eq!(theirs.try_read(&mut [0; 1]).unwrap(), 1);
            std::mem::swap(&mut ours, &mut theirs);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        done.set(true);
        assert!(ops.await.unwrap() > 0);
    });
}

/// Tasks are dropped with ops in flight, and the driver with the last of them: nothing hangs.
#[test]
fn the_end_of_a_runtime_with_ops_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    for engine in ENGINES {
        for runtime in [current_thread(), multi_thread()] {
            let config = Driver::builder().engine(engine).inline(false);
            let (reader, _keep, _writer) = pipe();
            let tasks = LocalSet::new();
            let started = tasks.block_on(&runtime, async {
                let io = proactor_tokio::local(config)?;
                for _ in 0..20 {
                    spawn_local(io.run(Read::new(&reader, vec![0; 1 << 16])));
                    spawn_local(fs::write(&io, path.clone(), vec![7; 1 << 20]));
                }
                yield_now().await;
                let mut events = io.events(Poll::new(&reader, Events::READABLE));
                spawn_local(async move { while events.next().await.is_some() {} });
                io.run(Nop).await?;
                Ok::<_, std::io::Error>(())
            });
            if let Err(error) = started {
                eprintln!("{engine} does not work here: {error}");
                continue;
            }
            // Either may go first.
            match engine {
                Engine::IoUring | Engine::Threads => drop((tasks, runtime)),
                _ => drop((runtime, tasks)),
            }
        }
    }
}

/// Nothing keeps the set of tasks from its end.
#[test]
fn the_turns_end_with_the_last_user() {
    for runtime in [current_thread(), multi_thread()] {
        let tasks = LocalSet::new();
        tasks.block_on(&runtime, async {
            let io = proactor_tokio::local(Config::default()).unwrap();
            let other = io.clone();
            spawn_local(async move { other.run(Nop).await.unwrap() });
        });
        runtime.block_on(timeout_of(tasks));
    }
}

#[test]
fn two_drivers_in_one_set() {
    on_each(async |config| {
        let one = proactor_tokio::local(config.clone()).unwrap();
        let other = Io::from(config.build().unwrap());
        proactor_tokio::take_turns(&other).unwrap();
        let (reader, _keep, _writer) = pipe();
        let idle = spawn_local(one.run(Read::new(&reader, vec![0; 9])));
        for _ in 0..20 {
            other.run(Timeout::new(Duration::from_millis(1))).await.unwrap();
            one.run(Nop).await.unwrap();
        }
        idle.abort();
    });
}
