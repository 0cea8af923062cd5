//! What is special about the two AIO backends: which ops they do themselves, and that the two ways in which each of them
//! waits never lose a completion. What every backend must do is in the conformance suite.

// Tests run on the newest Rust.
#![allow(clippy::incompatible_msrv)]

use proactor_engine::buffer::{AlignedBuf, Buf};
use proactor_engine::op::{
    Events, File, Fsync, Handle, Nop, Op, OpKind, Poll, Read, ReadV, RwFlags, Write, WriteV,
};
use proactor_engine::{CancelOutcome, Completion, Config, Driver, Engine, Options, Support, Token};
use std::io::Write as _;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Enough for every alignment that O_DIRECT asks for.
const BLOCK: usize = 4096;
const BLOCKS: usize = 64;
const BOTH: [Engine; 2] = [Engine::LinuxAio, Engine::PosixAio];
/// Longer than any op here takes.
const LONG_MS: i32 = 10_000;

/// The tests count this process's threads, descriptors and mappings, so they take turns.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn driver(engine: Engine) -> Driver {
    let config = Config::default().engine(engine).depth(64);
    config.build().unwrap_or_else(|e| panic!("{engine}: {e}"))
}

/// The same file, buffered and O_DIRECT. Block `i` is full of `i`.
struct Files {
    buffered: File,
    direct: File,
}

/// None where the file system of the build folder knows no O_DIRECT.
fn files() -> Option<Files> {
    let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for i in 0..BLOCKS {
        file.write_all(&[i as u8; BLOCK]).unwrap();
    }
    file.sync_all().unwrap();
    let direct = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    match direct {
        Ok(direct) => Some(Files {
            buffered: File::new(file),
            direct: File::new(direct),
        }),
        Err(e) => {
            eprintln!("skipped: no O_DIRECT in the build folder: {e}");
            None
        }
    }
}

fn block() -> AlignedBuf {
    AlignedBuf::new(BLOCK, BLOCK)
}

fn full(byte: u8) -> AlignedBuf {
    let mut block = AlignedBuf::zeroed(BLOCK, BLOCK);
    block.fill(byte);
    block
}

fn read(file: &File, i: usize) -> Read<AlignedBuf> {
    Read::at(file, (i % BLOCKS * BLOCK) as u64, block())
}

fn queued() -> Options {
    Options::default().no_inline(true)
}

fn notifying(fd: &Arc<OwnedFd>) -> Options {
    Options::default().notify(Arc::clone(fd)).no_inline(true)
}

/// A whole block was read, and it was the right one.
fn check(done: &Completion) {
    assert_eq!(done.count().unwrap(), BLOCK);
    let Some(Op::Read(read)) = &done.op else {
        panic!("a read comes back as a read")
    };
    let byte = (read.offset.unwrap() / BLOCK as u64) as u8;
    assert!(read.buffer.as_slice().iter().all(|&b| b == byte));
}

fn drain(driver: &mut Driver) -> Vec<Completion> {
    let mut done = Vec::new();
    while driver.pending() > 0 {
        driver.wait(1, usize::MAX, None, &mut done).unwrap();
    }
    done
}

fn workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names
        .filter(|name| name.as_ref().is_ok_and(|name| name.trim() == "proactor-worker"))
        .count()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn contexts() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("[aio]")).count()
}

fn readable(fd: RawFd, timeout_ms: i32) -> bool {
    let mut entry = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&raw mut entry, 1, timeout_ms) == 1 }
}

fn eventfd() -> Arc<OwnedFd> {
    // SAFETY: a fresh descriptor that nobody else owns.
    Arc::new(unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) })
}

/// Waits until the eventfd has counted this many, and no more.
fn expect_notified(fd: &OwnedFd, expected: u64) {
    let mut total = 0;
    while total < expected {
        let mut count = 0u64;
        // SAFETY: eight bytes into a live local.
        unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), 8) };
        total += count;
    }
    assert_eq!(total, expected);
}

#[test]
fn direct_transfers_syncs_and_polls_start_no_worker() {
    let _turn = alone();
    let Some(files) = files() else { return };
    let mut driver = driver(Engine::LinuxAio);
    for i in 0..BLOCKS {
        driver.submit(read(&files.direct, i)).unwrap();
    }
    drain(&mut driver).iter().for_each(check);
    let parts: Vec<Buf> = vec![full(7).into(), full(8).into()];
    let (count, _) = driver.run(WriteV::at(&files.direct, 0, parts)).unwrap();
    assert_eq!(count, 2 * BLOCK);
    driver.submit(Write::at(&files.direct, 0, full(0))).unwrap();
    driver.submit(Fsync::new(&files.direct)).unwrap();
    driver.submit(Fsync::data(&files.buffered)).unwrap();
    let parts: Vec<Buf> = vec![block().into(), block().into()];
    driver
        .submit(ReadV::at(&files.direct, BLOCK as u64 * 2, parts))
        .unwrap();
    for done in drain(&mut driver) {
        let expected = match done.op.as_ref().unwrap() {
            Op::Write(_) => BLOCK,
            Op::ReadV(o) => {
                assert_eq!((o.buffers[0].as_slice()[0], o.buffers[1].as_slice()[0]), (2, 3));
                2 * BLOCK
            }
            _ => 0,
        };
        assert_eq!(done.count().unwrap(), expected);
    }
    let (reader, mut writer) = std::io::pipe().unwrap();
    driver
        .submit(Poll::new(OwnedFd::from(reader), Events::READABLE))
        .unwrap();
    driver.flush().unwrap();
    writer.write_all(b"x").unwrap();
    assert_eq!(drain(&mut driver)[0].events().unwrap(), Events::READABLE);
    assert_eq!(workers(), 0, "all of these are native");

    driver.submit_with(read(&files.buffered, 5), queued()).unwrap();
    drain(&mut driver).iter().for_each(check);
    assert_eq!(workers(), 1, "a buffered read is a worker's");
    assert!(matches!(driver.support(OpKind::Read), Support::Partly(_)));
}

#[test]
fn posix_aio_needs_no_worker_for_disk_files() {
    let _turn = alone();
    let Some(files) = files() else { return };
    let mut driver = driver(Engine::PosixAio);
    for i in 0..BLOCKS {
        let file = if i % 2 == 0 {
            &files.direct
        } else {
            &files.buffered
        };
        driver.submit_with(read(file, i), queued()).unwrap();
    }
    driver.submit(Fsync::new(&files.buffered)).unwrap();
    for done in drain(&mut driver) {
        match done.op {
            Some(Op::Fsync(_)) => assert_eq!(done.count().unwrap(), 0),
            _ => check(&done),
        }
    }
    assert_eq!(workers(), 0);
    driver.run(Nop::new()).unwrap();
    assert_eq!(workers(), 1, "the library has no nop");
}

#[test]
fn one_refused_op_does_not_stop_the_batch() {
    let _turn = alone();
    let Some(files) = files() else { return };
    for engine in BOTH {
        let mut driver = driver(engine);
        let bad_flags = read(&files.direct, 1).flags(RwFlags::from_bits(1 << 30));
        let bad_file = Read::at(Handle::NONE, 0, block());
        let misaligned = Read::at(&files.direct, 1, block());
        driver.submit(read(&files.direct, 0)).unwrap();
        let wrong = [
            (driver.submit(bad_flags).unwrap(), libc::EOPNOTSUPP),
            (driver.submit(bad_file).unwrap(), libc::EBADF),
            (driver.submit(misaligned).unwrap(), libc::EINVAL),
        ];
        driver.submit(read(&files.direct, 2)).unwrap();
        let done = drain(&mut driver);
        assert_eq!(done.len(), 5);
        for done in done {
            match wrong.iter().find(|(token, _)| *token == done.token) {
                Some((_, errno)) => assert_eq!(done.result.unwrap_err().errno(), *errno, "{engine}"),
                None => check(&done),
            }
        }
    }
}

#[test]
fn a_queued_op_and_a_poll_can_be_cancelled() {
    let _turn = alone();
    let Some(files) = files() else { return };
    let mut driver = driver(Engine::LinuxAio);
    let notify = eventfd();
    // Not flushed, so the kernel has not seen it.
    let waiting = driver
        .submit_with(read(&files.direct, 0), notifying(&notify))
        .unwrap();
    assert_eq!(driver.cancel(waiting), CancelOutcome::Cancelled);
    expect_notified(&notify, 1);
    let (reader, _writer) = std::io::pipe().unwrap();
    let poll = driver
        .submit(Poll::new(OwnedFd::from(reader), Events::READABLE))
        .unwrap();
    driver.flush().unwrap();
    assert_eq!(driver.cancel(poll), CancelOutcome::Cancelled);
    let done = drain(&mut driver);
    assert_eq!(done.len(), 2);
    for done in done {
        assert_eq!(done.result.unwrap_err().errno(), libc::ECANCELED);
        assert!(done.op.is_some());
    }
    assert_eq!(driver.cancel(poll), CancelOutcome::Finished);
    assert_eq!(workers(), 0);
}

#[test]
fn what_cancel_says_is_what_the_completion_says() {
    let _turn = alone();
    let Some(files) = files() else { return };
    for engine in BOTH {
        let mut driver = driver(engine);
        let tokens: Vec<Token> = (0..BLOCKS)
            .map(|i| driver.submit(read(&files.direct, i)).unwrap())
            .collect();
        driver.flush().unwrap();
        // The last first: with POSIX AIO those still wait for their turn.
        let outcomes: Vec<_> = tokens
            .iter()
            .rev()
            .map(|&token| (token, driver.cancel(token)))
            .collect();
        let done = drain(&mut driver);
        assert_eq!(done.len(), tokens.len());
        for done in done {
            let (_, outcome) = outcomes.iter().find(|(token, _)| *token == done.token).unwrap();
            match (outcome, &done.result) {
                (CancelOutcome::Cancelled, result) => {
                    assert_eq!(result.as_ref().unwrap_err().errno(), libc::ECANCELED);
                }
                (CancelOutcome::Finished, _) | (_, Ok(_)) => check(&done),
                (CancelOutcome::Running, Err(e)) => assert_eq!(e.errno(), libc::ECANCELED),
            }
        }
    }
}

#[test]
fn a_file_with_two_wait_queues_is_polled_by_the_reactor() {
    let _turn = alone();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    let c_path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a NUL-terminated path.
    assert_eq!(unsafe { libc::mkfifo(c_path.as_ptr(), 0o600) }, 0);
    // Open for reading and writing, a pipe has one for each.
    let mut fifo = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let mut driver = driver(Engine::LinuxAio);
    let file = File::new(fifo.try_clone().unwrap());
    driver.submit(Poll::new(&file, Events::READABLE)).unwrap();
    driver.flush().unwrap();
    fifo.write_all(b"x").unwrap();
    assert_eq!(drain(&mut driver)[0].events().unwrap(), Events::READABLE);
    assert_eq!(workers(), 0);
}

#[test]
fn the_eventfd_tells_of_native_completions_and_is_reset() {
    let _turn = alone();
    let Some(files) = files() else { return };
    for engine in BOTH {
        let mut driver = driver(engine);
        let notify = eventfd();
        // In flight before anybody watches, and one of them signals nothing but its own eventfd.
        driver.submit(read(&files.direct, 1)).unwrap();
        driver
            .submit_with(read(&files.direct, 2), notifying(&notify))
            .unwrap();
        driver.flush().unwrap();
        let fd = driver.eventfd().unwrap();
        let mut done = Vec::new();
        for _ in 0..3 {
            driver.submit(read(&files.direct, 3)).unwrap();
            driver
                .submit_with(read(&files.direct, 4), notifying(&notify))
                .unwrap();
            driver.flush().unwrap();
            while driver.pending() > 0 {
                assert!(readable(fd, LONG_MS), "{engine}: {} pending", driver.pending());
                driver.wait(0, usize::MAX, None, &mut done).unwrap();
            }
            driver.wait(0, usize::MAX, None, &mut done).unwrap();
            assert!(!readable(fd, 0), "{engine}: nothing is pending");
        }
        assert_eq!(done.len(), 8);
        done.iter().for_each(check);
        expect_notified(&notify, 4);
    }
}

#[test]
fn native_and_helper_completions_are_waited_for_together() {
    let _turn = alone();
    let Some(files) = files() else { return };
    for engine in BOTH {
        for notify in [None, Some(eventfd())] {
            let mut driver = driver(engine);
            let options = notify.as_ref().map_or_else(queued, notifying);
            let (reader, mut writer) = std::io::pipe().unwrap();
            // One before the helper is busy, one after.
            driver
                .submit_with(read(&files.direct, 1), options.clone())
                .unwrap();
            let idle = driver
                .submit(Read::new(OwnedFd::from(reader), Vec::with_capacity(8)))
                .unwrap();
            driver.submit_with(read(&files.direct, 2), options).unwrap();
            let mut done = Vec::new();
            driver.wait(2, 2, None, &mut done).unwrap();
            assert_eq!(done.len(), 2);
            done.iter().for_each(check);
            // None comes until there is something to read.
            driver
                .wait(1, 1, Some(Duration::from_millis(1)), &mut done)
                .unwrap();
            assert_eq!(done.len(), 2);
            writer.write_all(b"four").unwrap();
            driver.wait(1, 1, None, &mut done).unwrap();
            assert_eq!((done[2].token, done[2].count().unwrap()), (idle, 4));
        }
    }
}

#[test]
fn thousands_of_mixed_ops_come_back_once_each() {
    let _turn = alone();
    let Some(files) = files() else { return };
    for (engine, watched) in BOTH.iter().flat_map(|&e| [(e, false), (e, true)]) {
        const OPS: usize = 3000;
        let mut driver = driver(engine);
        if watched {
            driver.eventfd().unwrap();
        }
        let notify = eventfd();
        let mut tokens = Vec::new();
        for i in 0..OPS {
            let options = if i % 7 == 0 { notifying(&notify) } else { queued() };
            let op: Op = match i % 5 {
                0 => read(&files.buffered, i).into(),
                1 if i % 100 == 1 => Fsync::new(&files.direct).into(),
                _ => read(&files.direct, i).into(),
            };
            tokens.push(driver.submit_with(op, options).unwrap());
        }
        let mut seen = Vec::new();
        for done in drain(&mut driver) {
            seen.push(done.token);
            match done.op {
                Some(Op::Fsync(_)) => assert_eq!(done.count().unwrap(), 0),
                _ => check(&done),
            }
        }
        seen.sort();
        tokens.sort();
        assert_eq!(seen, tokens, "{engine}, watched: {watched}");
        expect_notified(&notify, OPS.div_ceil(7) as u64);
    }
}

#[test]
fn a_dropped_driver_leaves_nothing_behind() {
    let _turn = alone();
    let Some(files) = files() else { return };
    let before = (descriptors(), contexts());
    for engine in BOTH {
        let mut driver = driver(engine);
        let (reader, writer) = std::io::pipe().unwrap();
        let reader = File::new(reader);
        for i in 0..200 {
            let file = if i % 2 == 0 {
                &files.direct
            } else {
                &files.buffered
            };
            driver.submit_with(read(file, i), queued()).unwrap();
        }
        driver.submit(Poll::new(&reader, Events::READABLE)).unwrap();
        driver.submit(Read::new(&reader, Vec::with_capacity(8))).unwrap();
        driver.flush().unwrap();
        drop(driver);
        drop((reader, writer));
        assert_eq!((descriptors(), contexts()), before, "{engine}");
        assert_eq!(workers(), 0, "{engine}");
    }
}

#[test]
fn a_forked_child_drops_the_copy_and_makes_its_own() {
    let _turn = alone();
    let Some(files) = files() else { return };
    for engine in BOTH {
        let mut parents = driver(engine);
        for i in 0..16 {
            parents.submit(read(&files.direct, i)).unwrap();
        }
        parents.flush().unwrap();
        // SAFETY: the child uses this library, which is made for that, and leaves by _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut own = driver(engine);
                drop(parents);
                let token = own.submit(read(&files.direct, 9)).unwrap();
                check(&own.completion_of(token).unwrap());
            }));
            // SAFETY: no destructors, no other test's output.
            unsafe { libc::_exit(i32::from(worked.is_err())) };
        }
        let mut status = -1;
        // SAFETY: a child of this process and a live local.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "{engine}");
        let done = drain(&mut parents);
        assert_eq!(done.len(), 16);
        done.iter().for_each(check);
    }
}
