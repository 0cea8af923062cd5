//! The ring that a driver lends: entries of a borrower's own beside the driver's ops.

// Tests run on the newest Rust.
#![allow(clippy::incompatible_msrv)]

use proactor_engine::op::{Nop, Read};
use proactor_engine::ring::{opcode, quiet_user_data, squeue, types, Event};
use proactor_engine::{Config, Driver, Engine, SqPoll};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const GROUP: (u16, u16, u32) = (8, 4, 64);
const RECEIVE: u64 = 7;
const LONG: Option<Duration> = Some(Duration::from_secs(30));

/// None where io_uring cannot be had, unless the environment requires it.
fn driver_of(config: Config) -> Option<Driver> {
    match config.engine(Engine::IoUring).build() {
        Ok(driver) => Some(driver),
        Err(e) => {
            let required = std::env::var("PROACTOR_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|name| name.trim() == "io_uring"), "{e}");
            let test = std::thread::current().name().unwrap_or_default().to_owned();
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {e}");
            None
        }
    }
}

fn driver() -> Option<Driver> {
    driver_of(Config::default())
}

fn receive(socket: &UnixStream, group: u16) -> squeue::Entry {
    opcode::RecvMulti::new(types::Fd(socket.as_raw_fd()), group).build()
}

/// Waits for at least one event.
fn next(driver: &mut Driver) -> Vec<Event> {
    let mut events = Vec::new();
    let count = driver.wait_events(1, LONG, &mut Vec::new(), &mut events).unwrap();
    assert_eq!(count, events.len());
    events
}

#[test]
fn a_multishot_receive_fills_provided_buffers() {
    let Some(mut driver) = driver() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut group = driver.buffer_ring(GROUP.0, GROUP.1, GROUP.2).unwrap();
    // SAFETY: the entry names the socket, which outlives the driver's drop, and provided buffers.
    unsafe { driver.push(receive(&ours, group.id()), RECEIVE).unwrap() };
    // More messages than the group has buffers, so that each is offered again several times.
    for round in 0u8..40 {
        theirs.write_all(&[round; 10]).unwrap();
        let events = next(&mut driver);
        assert_eq!(events.len(), 1);
        let event = events[0];
        assert_eq!((event.tag, event.res), (RECEIVE, 10));
        assert!(event.more());
        let id = event.buffer_id().unwrap();
        // SAFETY: the buffer comes from the event, and is given back once, after its bytes were read.
        unsafe {
            assert_eq!(group.bytes(id, 10), [round; 10]);
            group.give_back(id);
        }
    }
    drop(theirs);
    let end = next(&mut driver)[0];
    assert_eq!((end.tag, end.res, end.more()), (RECEIVE, 0, false));
}

#[test]
fn a_starved_receive_ends_with_enobufs_and_goes_on_after_growth() {
    let Some(mut driver) = driver() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut group = driver.buffer_ring(4, 1, 16).unwrap();
    theirs.write_all(b"0123456789abcdef0123456789abcdef").unwrap();
    // SAFETY: as above.
    unsafe { driver.push(receive(&ours, group.id()), RECEIVE).unwrap() };
    let mut events = next(&mut driver);
    while events.last().is_some_and(Event::more) {
        events.extend(next(&mut driver));
    }
    assert_eq!(events.first().unwrap().res, 16);
    assert_eq!(events.last().unwrap().res, -libc::ENOBUFS);
    assert_eq!(group.grow(100), 4);
    // SAFETY: as above.
    unsafe { driver.push(receive(&ours, group.id()), RECEIVE).unwrap() };
    assert_eq!(next(&mut driver)[0].res, 16);
}

#[test]
fn ops_and_events_share_one_wait() {
    let Some(mut driver) = driver_of(Config::default().inline(false)) else {
        return;
    };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let group = driver.buffer_ring(GROUP.0, GROUP.1, GROUP.2).unwrap();
    // SAFETY: as above.
    unsafe { driver.push(receive(&ours, group.id()), RECEIVE).unwrap() };
    let read = Read::new(proactor_engine::op::File::new(reader), Vec::with_capacity(8));
    let token = driver.submit(read).unwrap();
    theirs.write_all(b"socket").unwrap();
    writer.write_all(b"pipe").unwrap();
    let (mut completions, mut events) = (Vec::new(), Vec::new());
    let count = driver
        .wait_events(2, LONG, &mut completions, &mut events)
        .unwrap();
    assert_eq!((count, completions.len(), events.len()), (2, 1, 1));
    assert_eq!(completions[0].token, token);
    assert_eq!(completions[0].count().unwrap(), 4);
    assert_eq!(events[0].res, 6);
}

#[test]
fn events_that_a_plain_wait_meets_are_kept() {
    let Some(mut driver) = driver_of(Config::default().inline(false)) else {
        return;
    };
    // SAFETY: a nop names no memory.
    unsafe { driver.push(opcode::Nop::new().build(), 1).unwrap() };
    driver.run(Nop).unwrap();
    let mut events = Vec::new();
    driver.wait_events(0, None, &mut Vec::new(), &mut events).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].tag, events[0].res), (1, 0));
}

#[test]
fn tags_have_61_bits() {
    let Some(mut driver) = driver() else { return };
    let largest = u64::MAX >> 3;
    // SAFETY: a nop names no memory.
    unsafe { driver.push(opcode::Nop::new().build(), largest).unwrap() };
    assert_eq!(next(&mut driver)[0].tag, largest);
    for tag in [1 << 61, 1 << 62, 1 << 63, u64::MAX] {
        // SAFETY: as above.
        let refused = unsafe { driver.push(opcode::Nop::new().build(), tag) };
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_quiet_entry_has_an_event_only_if_it_fails() {
    let Some(mut driver) = driver() else { return };
    let (ours, theirs) = UnixStream::pair().unwrap();
    let send = |tag| {
        let send = opcode::Send::new(types::Fd(ours.as_raw_fd()), b"x".as_ptr(), 1);
        let entry = send.flags(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT).build();
        entry
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(quiet_user_data(tag))
    };
    let mut turn = |tag| {
        // SAFETY: the entry names the socket, which outlives the driver's drop, and bytes that are static.
        assert_eq!(unsafe { driver.push_all(&[send(tag)]) }.unwrap(), 1);
        assert!(!driver.has_handed_over().unwrap());
        let mut events = Vec::new();
        driver.wait_events(0, None, &mut Vec::new(), &mut events).unwrap();
        assert!(driver.has_handed_over().unwrap());
        driver.drain_events(&mut events).unwrap();
        events
    };
    assert_eq!(turn(1), []);
    drop(theirs);
    let events: Vec<_> = turn(2).iter().map(|event| (event.tag, event.res)).collect();
    assert_eq!(events, [(2, -libc::EPIPE)]);
}

#[test]
fn the_wait_ends_at_its_timeout_and_without_anything_pending() {
    let Some(mut driver) = driver() else { return };
    let (mut completions, mut events) = (Vec::new(), Vec::new());
    assert_eq!(
        driver
            .wait_events(5, None, &mut completions, &mut events)
            .unwrap(),
        0
    );
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let group = driver.buffer_ring(GROUP.0, GROUP.1, GROUP.2).unwrap();
    // SAFETY: as above.
    unsafe { driver.push(receive(&ours, group.id()), RECEIVE).unwrap() };
    let timeout = Duration::from_millis(20);
    let start = Instant::now();
    assert_eq!(
        driver
            .wait_events(1, Some(timeout), &mut completions, &mut events)
            .unwrap(),
        0
    );
    assert!(start.elapsed() >= timeout);
}

#[test]
fn a_waker_ends_the_wait_from_another_thread_any_number_of_times() {
    let Some(mut driver) = driver() else { return };
    let waker = driver.waker().unwrap();
    for _ in 0..20 {
        let other = waker.clone();
        let thread = std::thread::spawn(move || other.wake());
        assert_eq!(
            driver
                .wait_events(1, LONG, &mut Vec::new(), &mut Vec::new())
                .unwrap(),
            0
        );
        thread.join().unwrap();
    }
    // Before the wait, twice: it ends the next wait once.
    waker.wake();
    waker.wake();
    assert_eq!(
        driver
            .wait_events(1, LONG, &mut Vec::new(), &mut Vec::new())
            .unwrap(),
        0
    );
    let short = Duration::from_millis(10);
    let start = Instant::now();
    driver
        .wait_events(1, Some(short), &mut Vec::new(), &mut Vec::new())
        .unwrap();
    assert!(start.elapsed() >= short);
    drop(driver);
    waker.wake();
}

#[test]
fn whoever_watches_the_driver_hears_of_events_and_of_wakers() {
    let Some(mut driver) = driver() else { return };
    let early = driver.waker().unwrap();
    let watched = driver.eventfd().unwrap();
    let readable = |timeout_ms| {
        let mut entry = libc::pollfd {
            fd: watched,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live pollfd.
        unsafe { libc::poll(&raw mut entry, 1, timeout_ms) == 1 }
    };
    let collect = |driver: &mut Driver| {
        let mut events = Vec::new();
        driver.wait_events(0, None, &mut Vec::new(), &mut events).unwrap();
        events.len()
    };
    collect(&mut driver);
    assert!(!readable(0));
    early.wake();
    assert!(readable(10_000));
    collect(&mut driver);
    assert!(!readable(0));

    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let group = driver.buffer_ring(GROUP.0, GROUP.1, GROUP.2).unwrap();
    // SAFETY: as above.
    unsafe { driver.push(receive(&ours, group.id()), RECEIVE).unwrap() };
    driver.flush().unwrap();
    theirs.write_all(b"x").unwrap();
    assert!(readable(10_000));
    assert_eq!(collect(&mut driver), 1);
    assert!(!readable(0));
}

#[test]
fn dropping_the_driver_ends_what_was_lent_before_its_memory_may_be_freed() {
    let Some(mut driver) = driver() else { return };
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut memory = vec![0u8; 4096];
    let entry = opcode::Recv::new(types::Fd(ours.as_raw_fd()), memory.as_mut_ptr(), 4096);
    // SAFETY: the memory and the socket live until after the driver's drop, and are not used before.
    unsafe { driver.push(entry.build(), 1).unwrap() };
    driver.flush().unwrap();
    drop(driver);
    // If the receive were still there, it would take these bytes.
    (&theirs).write_all(b"late").unwrap();
    let mut late = [0; 4];
    (&ours).read_exact(&mut late).unwrap();
    assert_eq!(&late, b"late");
    assert!(memory.iter().all(|&byte| byte == 0));
}

#[test]
fn draining_ends_all_entries_and_leaves_the_driver_usable() {
    let Some(mut driver) = driver() else { return };
    let waker = driver.waker().unwrap();
    let pairs: Vec<_> = (0..50).map(|_| UnixStream::pair().unwrap()).collect();
    let group = driver.buffer_ring(GROUP.0, GROUP.1, GROUP.2).unwrap();
    for (ours, _) in &pairs {
        // SAFETY: the sockets live until the entries are drained.
        unsafe { driver.push(receive(ours, group.id()), RECEIVE).unwrap() };
    }
    driver.drain_events(&mut Vec::new()).unwrap();
    driver.run(Nop).unwrap();
    waker.wake();
    assert_eq!(
        driver
            .wait_events(1, LONG, &mut Vec::new(), &mut Vec::new())
            .unwrap(),
        0
    );
}

#[test]
fn a_polling_kernel_thread_needs_no_calls_while_it_is_awake() {
    let idle = Duration::from_secs(30);
    let config = Config::default().sqpoll(SqPoll::new(idle));
    let Some(mut driver) = driver_of(config.user_spin(Duration::from_secs(10))) else {
        return;
    };
    next_nop(&mut driver); // the first may have to wake the thread
    let before = driver.enters().unwrap();
    for _ in 0..100 {
        next_nop(&mut driver);
    }
    assert_eq!(driver.enters().unwrap(), before);
}

fn next_nop(driver: &mut Driver) {
    // SAFETY: a nop names no memory.
    unsafe { driver.push(opcode::Nop::new().build(), 1).unwrap() };
    assert_eq!(next(driver).len(), 1);
}

#[test]
fn two_rings_share_one_polling_thread() {
    let sqpoll = SqPoll::new(Duration::from_millis(10));
    let Some(mut first) = driver_of(Config::default().sqpoll(sqpoll)) else {
        return;
    };
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let config = Config::default().sqpoll(sqpoll).attach_to(&mut first).unwrap();
    let mut second = driver_of(config).unwrap();
    next_nop(&mut first);
    next_nop(&mut second);
    // Other tests run beside this one and end their threads, but only this one could add one here.
    assert!(threads() <= before || second.chosen().engine == Engine::IoUring);
    drop(first);
    next_nop(&mut second);
}

#[test]
fn a_ring_takes_as_many_completions_as_it_was_told() {
    let config = Config::default().depth(8).cq_entries(1024);
    let Some(mut driver) = driver_of(config) else {
        return;
    };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let group = driver.buffer_ring(1024, 1024, 16).unwrap();
    // SAFETY: as above.
    unsafe { driver.push(receive(&ours, group.id()), RECEIVE).unwrap() };
    let mut received = 0;
    for _ in 0..100 {
        theirs.write_all(&[1; 16]).unwrap();
    }
    while received < 100 * 16 {
        for event in next(&mut driver) {
            assert!(event.res > 0, "{event:?}");
            received += event.res;
            if !event.more() {
                // SAFETY: as above.
                unsafe { driver.push(receive(&ours, group.id()), RECEIVE).unwrap() };
            }
        }
    }
}

#[test]
fn a_forked_child_may_not_use_the_ring() {
    let Some(mut driver) = driver() else { return };
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let group = driver.buffer_ring(GROUP.0, GROUP.1, GROUP.2).unwrap();
    // SAFETY: as above.
    unsafe { driver.push(receive(&ours, group.id()), RECEIVE).unwrap() };
    driver.flush().unwrap();
    // SAFETY: the child calls only what allocates nothing that a lock of another thread guards, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above; a nop names no memory.
        let refused = unsafe { driver.push(opcode::Nop::new().build(), 1) }.is_err()
            && driver
                .wait_events(0, None, &mut Vec::new(), &mut Vec::new())
                .is_err();
        drop(driver);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if refused { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    theirs.write_all(b"still here").unwrap();
    assert_eq!(next(&mut driver)[0].res, 10);
}

#[test]
fn other_engines_have_no_ring_to_lend() {
    for engine in [Engine::Threads, Engine::LinuxAio, Engine::PosixAio] {
        let Ok(mut driver) = Config::default().engine(engine).build() else {
            continue;
        };
        // SAFETY: a nop names no memory.
        let refused = unsafe { driver.push(opcode::Nop::new().build(), 1) };
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported, "{engine}");
        let kinds = [
            driver
                .wait_events(0, None, &mut Vec::new(), &mut Vec::new())
                .unwrap_err(),
            driver.buffer_ring(1, 1, 1).unwrap_err(),
            driver.drain_events(&mut Vec::new()).unwrap_err(),
        ];
        assert!(
            kinds.iter().all(|e| e.kind() == ErrorKind::Unsupported),
            "{engine}"
        );
    }
}

#[test]
fn bad_sizes_of_a_buffer_group_are_refused() {
    let Some(mut driver) = driver() else { return };
    for (bound, count, each) in [(0, 1, 1), (3, 1, 1), (4, 0, 1), (4, 5, 1), (4, 1, 0)] {
        let refused = driver.buffer_ring(bound, count, each).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{bound} {count} {each}");
    }
}

#[test]
fn a_ring_is_made_in_one_thread_and_used_in_another() {
    if driver().is_none() {
        return;
    }
    for config in [
        Config::default(),
        Config::default().sqpoll(SqPoll::new(Duration::from_millis(10))),
    ] {
        let disabled = config.build_disabled().unwrap();
        let used = std::thread::spawn(move || {
            let mut driver = disabled.enable().unwrap();
            next_nop(&mut driver);
            let file = std::fs::File::open("Cargo.toml").unwrap();
            let (count, _) = driver.run(Read::new(file, Vec::with_capacity(10))).unwrap();
            count
        });
        assert_eq!(used.join().unwrap(), 10);
    }
    // One that is never enabled goes as any other.
    drop(Config::default().build_disabled().unwrap());
    let error = Config::default()
        .engine(Engine::Threads)
        .build_disabled()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn buffers_are_kept_from_the_kernel_and_offered_again() {
    let Some(mut driver) = driver() else { return };
    // Whole pages, and parts of them.
    for each in [64 << 10, 100] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut group = driver.buffer_ring(8, 4, each).unwrap();
        // SAFETY: the entry names no memory but the group's, and the descriptor outlives its last event.
        unsafe { driver.push(receive(&ours, group.id()), RECEIVE).unwrap() };
        driver.flush().unwrap();
        for round in 0..3 {
            theirs.write_all(&[round; 50]).unwrap();
            let event = next(&mut driver)[0];
            let id = event.buffer_id().unwrap();
            // SAFETY: the event has named it, and it is not used after.
            unsafe {
                assert_eq!(group.bytes(id, 50), [round; 50]);
                group.withhold(id);
            }
            assert_eq!(group.count(), 3 - u16::from(round));
        }
        assert_eq!(group.grow(6), 6);
        for round in 0..6 {
            theirs.write_all(&[round; 50]).unwrap();
            let event = next(&mut driver)[0];
            let id = event.buffer_id().unwrap();
            // SAFETY: the event has named it, and it is not given back.
            let bytes = unsafe { group.bytes(id, 50) };
            assert_eq!(bytes, [round; 50]);
        }
        driver.drain_events(&mut Vec::new()).unwrap();
    }
}
