//! Ops of tasks that move between threads, on a driver in a thread of its own.

use proactor_engine::fs::{self, File};
use proactor_engine::io::Remote;
use proactor_engine::op::{Nop, Read, WriteFile};
use proactor_engine::{Config, Driver, Engine, Io};
use std::future::{poll_fn, Future};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
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

fn runtimes() -> [Runtime; 2] {
    let multi = Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build();
    let single = Builder::new_current_thread().enable_time().build();
    [multi.unwrap(), single.unwrap()]
}

/// Runs the test on each engine that works here, on both kinds of runtime. None has I/O of tokio's own.
fn on_each<F: Future<Output = ()>>(config: impl Fn(Config) -> Config, test: impl Fn(Remote) -> F) {
    for engine in ENGINES {
        for runtime in runtimes() {
            let remote = match Remote::new(config(Driver::builder().engine(engine))) {
                Ok(remote) => remote,
                Err(error) => {
                    eprintln!("{engine} does not work here: {error}");
                    continue;
                }
            };
            eprintln!("{engine}");
            runtime.block_on(async { timeout(LONG, test(remote)).await.expect("it hangs") });
        }
    }
}

#[test]
fn many_tasks() {
    let dir = tempfile::tempdir().unwrap();
    on_each(
        |config| config.depth(16).backlog(16),
        |remote| async {
            let remote = remote;
            let tasks: Vec<_> = (0..200_usize)
                .map(|i| {
                    let (remote, path) = (remote.clone(), dir.path().join(i.to_string()));
                    tokio::spawn(async move {
                        let file = File::create(&remote, &path).await?;
                        file.write_all_at(i.to_string(), 0).await?;
                        drop(file);
                        let bytes = fs::read(&remote, &path).await?;
                        fs::remove_file(&remote, &path).await?;
                        Ok::<_, proactor_engine::Error>(bytes)
                    })
                })
                .collect();
            for (i, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap().unwrap(), i.to_string().as_bytes());
            }
        },
    );
}

/// By a timeout, by `select!` and by an abort: the op takes no bytes that come later.
#[test]
fn dropped_futures() {
    on_each(
        |config| config,
        |remote| async move {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let reader = proactor_engine::op::File::new(reader);
            let idle = || Read::new(&reader, vec![0; 1 << 16]);
            for _ in 0..10 {
                assert!(timeout(Duration::from_millis(1), remote.run(idle()))
                    .await
                    .is_err());
                tokio::select! {
                    biased;
                    result = remote.run(idle()) => panic!("{result:?}"),
                    result = remote.run(Nop) => result.unwrap(),
                }
                let task = tokio::spawn(remote.run(idle()));
                yield_now().await;
                task.abort();
                assert!(task.await.unwrap_err().is_cancelled());
            }
            // The thread has heard of all of them when it has done this.
            remote.run(Nop).await.unwrap();
            std::io::Write::write_all(&mut writer, b"!").unwrap();
            assert_eq!(remote.run(idle()).await.unwrap().0, 1);
        },
    );
}

/// Tasks are dropped with ops in flight, then the last `Remote`: writes come to their end, and nothing hangs.
#[test]
fn the_end_of_a_runtime_with_ops_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        for (at, runtime) in runtimes().into_iter().enumerate() {
            let Ok(remote) = Remote::new(Driver::builder().engine(engine)) else {
                continue;
            };
            let path = dir.path().join(format!("{engine}{at}"));
            let (reader, _writer) = std::io::pipe().unwrap();
            let reader = proactor_engine::op::File::new(reader);
            let written = remote.run(WriteFile::new(&path, vec![7; 1 << 20]));
            let written = runtime.block_on(async {
                for _ in 0..20 {
                    let (remote, reader) = (remote.clone(), reader.clone());
                    tokio::spawn(async move {
                        let _ = remote.run(Read::new(&reader, vec![0; 1 << 16])).await;
                    });
                }
                yield_now().await;
                // It may have ended by now.
                let mut written = Box::pin(written);
                let polled = poll_fn(|cx| Poll::Ready(written.as_mut().poll(cx))).await;
                match polled {
                    Poll::Ready(result) => Ok(result),
                    Poll::Pending => Err([written]),
                }
            });
            if at == 0 {
                runtime.shutdown_background();
            } else {
                drop(runtime);
            }
            drop(remote);
            // Any executor will do.
            let result = written.unwrap_or_else(|[written]| Io::new().unwrap().block_on(written).unwrap());
            let (count, _) = result.unwrap();
            assert_eq!(count, 1 << 20);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 20);
        }
    }
}
