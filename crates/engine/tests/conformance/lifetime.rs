//! Dropping a driver, whatever it is doing: what changes something is done, the rest is stopped, nothing is left.

use crate::testkit::{descriptors, pipe, run, threads, wait_for_threads, Case, LONG};
use proactor_engine::op::{
    Allocate, Close, Events, Fsync, Mkdir, Nop, Op, Open, OpenFlags, Poll, Read, ReadFile, Rename, Splice,
    Timeout, Write, WriteFile,
};
use proactor_engine::Options;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

conformance! {
    isolated {
        with_everything_in_flight, unflushed_writes_land, chains_land, broken_chains_end, with_a_stuck_worker,
        with_all_signals_blocked, writing_to_a_stuck_fifo, again_and_again, idle, no_descriptor_for_a_helper,
    }
}

/// Runs the body, in which a driver must have come and gone, and counts what is left.
fn leaves_nothing(body: impl FnOnce()) {
    let (descriptors_before, threads_before) = (descriptors(), threads());
    let start = Instant::now();
    body();
    assert!(start.elapsed() < LONG, "the drop took {:?}", start.elapsed());
    assert_eq!(descriptors(), descriptors_before, "descriptors");
    wait_for_threads(threads_before);
}

fn with_everything_in_flight(t: &Case) {
    let path = t.fifo("fifo");
    leaves_nothing(|| {
        let mut d = t.driver();
        let (reader, writer) = pipe();
        let (_sink_reader, sink) = pipe();
        let file = t.file("f", b"");
        // SAFETY: no pointers; the descriptor is fresh.
        let event = Arc::new(unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) });
        run(&mut d, Write::new(&sink, vec![0; 65_536])).unwrap();
        let ops: Vec<Op> = vec![
            Read::new(&reader, Vec::with_capacity(9)).into(),
            Poll::new(&reader, Events::READABLE).into(),
            Poll::multishot(&reader, Events::READABLE).into(),
            Timeout::new(Duration::from_secs(3600)).into(),
            Write::new(&sink, b"no room").into(),
            Splice::new(&reader, &sink, 9).into(),
            Open::new(path.clone(), OpenFlags::READ_ONLY).into(),
            ReadFile::new(path.clone()).into(),
            Write::at(&file, 0, b"lands").into(),
            Allocate::new(&file, 0, 64).into(),
            Fsync::new(&file).into(),
            Mkdir::new(t.c_path("dir"), 0o700).into(),
            WriteFile::new(t.c_path("g"), b"whole").into(),
            Close::new(crate::testkit::open(&t.path("f"), libc::O_RDONLY)).into(),
            Nop::new().into(),
        ];
        for op in ops {
            d.submit(op).unwrap();
        }
        let notify = Options::default().notify(Arc::clone(&event));
        d.submit_with(Read::new(&reader, Vec::with_capacity(9)), notify)
            .unwrap();
        d.eventfd().unwrap();
        d.flush().unwrap();
        drop(writer_kept(writer, d));
    });
    assert_eq!(&std::fs::read(t.path("f")).unwrap()[..5], b"lands");
    assert_eq!(std::fs::read(t.path("g")).unwrap(), b"whole");
    assert!(t.path("dir").is_dir());
}

/// Drops the driver while the pipe's other end is open.
fn writer_kept(writer: proactor_engine::op::File, d: proactor_engine::Driver) -> proactor_engine::op::File {
    drop(d);
    writer
}

fn unflushed_writes_land(t: &Case) {
    leaves_nothing(|| {
        let mut d = t.config().depth(4).build().unwrap();
        let file = t.file("f", b"");
        for i in 0..500u64 {
            d.submit(Write::at(&file, i, &[i as u8])).unwrap();
        }
    });
    let content = std::fs::read(t.path("f")).unwrap();
    assert_eq!(content.len(), 500);
    assert!(content.iter().enumerate().all(|(i, &byte)| byte == i as u8));
}

fn chains_land(t: &Case) {
    for depth in [1, 64] {
        leaves_nothing(|| {
            let mut d = t.config().depth(depth).build().unwrap();
            let file = t.file("draft", b"");
            d.submit_linked(vec![
                Write::at(&file, 0, b"content").into(),
                Fsync::data(&file).into(),
                Rename::new(t.c_path("draft"), t.c_path("final")).into(),
            ])
            .unwrap();
        });
        assert_eq!(std::fs::read(t.path("final")).unwrap(), b"content");
    }
}

/// Something that changes nothing in the middle of a chain is not waited for; the chain ends there, whole.
fn broken_chains_end(t: &Case) {
    for depth in [1, 64] {
        leaves_nothing(|| {
            let mut d = t.config().depth(depth).build().unwrap();
            let file = t.file("f", b"");
            let (reader, writer) = pipe();
            d.submit_linked(vec![
                Write::at(&file, 0, b"x").into(),
                Nop::new().into(),
                Read::new(&reader, Vec::with_capacity(1)).into(),
                Fsync::new(&file).into(),
            ])
            .unwrap();
            drop(writer_kept(writer, d));
        });
        assert_eq!(std::fs::read(t.path("f")).unwrap(), b"x");
    }
}

fn with_a_stuck_worker(t: &Case) {
    let path = t.fifo("fifo");
    leaves_nothing(|| {
        let mut d = t.config().max_threads(2).build().unwrap();
        for _ in 0..5 {
            d.submit(Open::new(path.clone(), OpenFlags::WRITE_ONLY)).unwrap();
            d.submit(ReadFile::new(path.clone())).unwrap();
        }
        let mut done = Vec::new();
        d.wait(1, 1, Some(Duration::from_millis(5)), &mut done).unwrap();
    });
}

/// As in a program that takes its signals from a signalfd: threads inherit that.
fn with_all_signals_blocked(t: &Case) {
    let path = t.fifo("fifo");
    let dropped = std::thread::scope(|scope| {
        let blocked = scope.spawn(|| {
            // SAFETY: the set is a live local.
            unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigfillset(&raw mut set);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            }
            let mut d = t.driver();
            d.submit(Open::new(path.clone(), OpenFlags::WRITE_ONLY)).unwrap();
            let mut done = Vec::new();
            d.wait(1, 1, Some(Duration::from_millis(5)), &mut done).unwrap();
        });
        blocked.join()
    });
    assert!(dropped.is_ok());
}

/// It changes something, but not in finite time: nobody will ever read.
fn writing_to_a_stuck_fifo(t: &Case) {
    let path = t.fifo("fifo");
    leaves_nothing(|| {
        let mut d = t.driver();
        let flags = OpenFlags::WRITE_ONLY;
        d.submit(WriteFile::new(path.clone(), b"x").flags(flags)).unwrap();
        let mut done = Vec::new();
        d.wait(1, 1, Some(Duration::from_millis(5)), &mut done).unwrap();
    });
    // The simulator has no thread to be stuck.
    if t.engine == proactor_engine::Engine::Sim {
        return;
    }
    leaves_nothing(|| {
        let mut d = t.driver();
        let reader = crate::testkit::open(&t.path("fifo"), libc::O_RDONLY | libc::O_NONBLOCK);
        let flags = OpenFlags::WRITE_ONLY;
        d.submit(WriteFile::new(path.clone(), vec![1; 1 << 20]).flags(flags))
            .unwrap();
        d.flush().unwrap();
        assert!(
            crate::testkit::polls(reader.as_raw_fd(), libc::POLLIN, LONG),
            "half of it is on its way"
        );
        drop(d);
        drop(reader);
    });
}

fn again_and_again(t: &Case) {
    t.file("f", b"content");
    leaves_nothing(|| {
        for _ in 0..30 {
            let mut d = t.driver();
            d.eventfd().unwrap();
            for _ in 0..4 {
                d.submit(ReadFile::new(t.c_path("f"))).unwrap();
                d.submit(WriteFile::new(t.c_path("g"), b"x")).unwrap();
            }
        }
    });
}

fn idle(t: &Case) {
    leaves_nothing(|| drop(t.driver()));
    let before = threads();
    let d = t.driver();
    assert_eq!(threads(), before, "no thread before there is work for it");
    drop(d);
}

/// Where the descriptors run out, ops wait for one, and then fail.
fn no_descriptor_for_a_helper(t: &Case) {
    let mut d = t
        .config()
        .descriptor_wait(Duration::from_millis(20))
        .build()
        .unwrap();
    let taken: Vec<OwnedFd> = {
        let lowest = crate::testkit::open(&t.path(""), libc::O_RDONLY);
        // SAFETY: a live struct.
        unsafe {
            let limit = libc::rlimit {
                rlim_cur: lowest.as_raw_fd() as u64 + 1,
                rlim_max: 20_000,
            };
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        }
        vec![lowest]
    };
    // With a helper made already it fails with EMFILE at its own open(2); without one, because none can be made.
    d.submit(WriteFile::new(t.c_path("f"), b"x")).unwrap();
    let done = crate::testkit::collect(&mut d, 1);
    assert_eq!(crate::testkit::outcome(&done[0]), Err(libc::EMFILE));
    drop(taken);
    drop(d);
}
