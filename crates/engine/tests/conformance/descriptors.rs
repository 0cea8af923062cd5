//! Ops that open a descriptor wait for one where there are too few, and keep no other op waiting.

use crate::testkit::{collect, outcome, run, Case, LONG};
use proactor_engine::op::{Blocking, File, Nop, Open, OpenFlags, ReadFile, Statx, Truncate, WriteFile};
use proactor_engine::{CancelOutcome, Driver, Error, Opens, Output, Reservation, Token};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

conformance! {
    isolated {
        many_read, many_written, files_opened_and_closed, the_reserve_holds, fails_at_last, keeps_no_other_op_waiting,
        is_cancelled, dropped_with_ops_that_wait, another_drivers_turn, a_child_begins_anew, a_chain_goes_on,
        read_while_opens_wait, who_came_first_opens_first, does_not_wait_if_told_so, a_function_that_opens, a_depth_of_one,
        reservations_of_several,
    }
}

/// What the tests allow the process.
const LIMIT: u64 = 128;
/// What ops leave free of that.
const RESERVE: usize = 64;
/// What a driver may open beside that when an op first needs its helper.
const OF_A_HELPER: usize = 3;
/// The tests that see an op fail wait so long for it.
const SHORT: Duration = Duration::from_millis(40);

fn limit(descriptors: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a live local.
    let res = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    assert_eq!(res, 0);
    limit.rlim_cur = descriptors;
    // SAFETY: a live local.
    let res = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(res, 0);
}

fn open_count() -> usize {
    // SAFETY: no pointers.
    let is_open = |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0;
    (0..LIMIT as i32).filter(is_open).count()
}

fn driver(t: &Case, wait: Duration) -> Driver {
    t.config().descriptor_wait(wait).build().unwrap()
}

/// All descriptors that there are.
fn take_all() -> Vec<OwnedFd> {
    let null = std::fs::File::open("/dev/null").unwrap();
    let copies = std::iter::from_fn(|| null.try_clone().ok()).map(OwnedFd::from);
    let mut taken: Vec<OwnedFd> = copies.collect();
    taken.push(null.into());
    taken
}

/// Whatever completes within a moment in which an op that waits is tried several times.
fn soon(d: &mut Driver) -> usize {
    let mut done = Vec::new();
    d.wait(usize::MAX, usize::MAX, Some(Duration::from_millis(60)), &mut done)
        .unwrap();
    done.len()
}

/// A file that is opened and then handed on: it has no size, or cannot be read without waiting.
fn read() -> ReadFile {
    ReadFile::new(c"/proc/sys/kernel/ostype")
}

fn many_read(t: &Case) {
    // Too long for an attempt, so that a ring opens it too.
    std::fs::write(t.path("large"), vec![7; (1 << 20) + 9]).unwrap();
    limit(LIMIT);
    let mut d = driver(t, LONG);
    for i in 0..1200 {
        let op = if i % 6 == 0 {
            ReadFile::new(t.c_path("large"))
        } else {
            read()
        };
        d.submit(op).unwrap();
    }
    let mut most = 0;
    let mut left = 1200;
    while left > 0 {
        let mut done = Vec::new();
        left -= d.wait(1, 8, Some(LONG), &mut done).unwrap();
        most = most.max(open_count());
        assert!(
            done.iter().all(|c| outcome(c).is_ok()),
            "{:?}",
            done.iter().map(outcome).collect::<Vec<_>>()
        );
        assert!(!done.is_empty(), "it hangs with {left} to come");
    }
    assert!(most <= LIMIT as usize - RESERVE + OF_A_HELPER, "{most} open");
    assert_eq!(d.pending(), 0);
}

fn many_written(t: &Case) {
    limit(LIMIT);
    let mut d = driver(t, LONG);
    for i in 0..300 {
        d.submit(WriteFile::new(t.c_path(&i.to_string()), b"all of it"))
            .unwrap();
    }
    for completion in collect(&mut d, 300) {
        assert_eq!(outcome(&completion), Ok(9));
    }
    assert_eq!(std::fs::read(t.path("299")).unwrap(), b"all of it");
}

/// Each file is held while others are opened, and those that wait get its descriptor when it is closed.
fn files_opened_and_closed(t: &Case) {
    std::fs::write(t.path("f"), b"x").unwrap();
    limit(LIMIT);
    let mut d = driver(t, LONG);
    for _ in 0..300 {
        d.submit(Open::new(t.c_path("f"), OpenFlags::READ_ONLY)).unwrap();
    }
    let mut held: Vec<File> = Vec::new();
    let mut opened = 0;
    while opened < 300 {
        let mut done = Vec::new();
        d.wait(1, usize::MAX, Some(Duration::from_millis(5)), &mut done)
            .unwrap();
        opened += done.len();
        if done.is_empty() {
            // No more for now: this is as many as there may be.
            let most = LIMIT as usize - RESERVE + OF_A_HELPER;
            assert!(open_count() <= most, "{} open", open_count());
            assert!(!held.is_empty(), "it hangs with {opened} open");
            held.truncate(held.len() / 2);
        }
        held.extend(done.into_iter().map(|c| c.into_file().unwrap()));
    }
}

/// With files of its own and of others the program can still open as many as it is left.
fn the_reserve_holds(t: &Case) {
    std::fs::write(t.path("f"), b"x").unwrap();
    limit(LIMIT);
    let mut d = driver(t, LONG);
    for _ in 0..200 {
        d.submit(Open::new(t.c_path("f"), OpenFlags::READ_ONLY)).unwrap();
    }
    let mut done = Vec::new();
    d.wait(
        usize::MAX,
        usize::MAX,
        Some(Duration::from_millis(200)),
        &mut done,
    )
    .unwrap();
    let files: Vec<File> = done.into_iter().map(|c| c.into_file().unwrap()).collect();
    assert!(files.len() > 16, "{}", files.len());
    assert!(take_all().len() >= RESERVE - OF_A_HELPER);
    drop(files);
}

fn fails_at_last(t: &Case) {
    std::fs::write(t.path("f"), b"x").unwrap();
    limit(LIMIT);
    let mut d = driver(t, SHORT);
    let file = t.open("f", libc::O_RDWR);
    let taken = take_all();
    let start = Instant::now();
    d.submit(ReadFile::new(t.c_path("f"))).unwrap();
    d.submit(Open::new(t.c_path("f"), OpenFlags::READ_ONLY)).unwrap();
    d.submit(WriteFile::new(t.c_path("new"), b"x")).unwrap();
    let errors: Vec<Error> = collect(&mut d, 3)
        .into_iter()
        .map(|c| c.result.unwrap_err())
        .collect();
    // The clock that it goes by is a coarse one.
    assert!(
        start.elapsed() + Duration::from_millis(10) > SHORT,
        "{:?}",
        start.elapsed()
    );
    let mut names: Vec<&str> = errors.iter().map(Error::op).collect();
    names.sort_unstable();
    assert_eq!(names, ["open", "read_file", "write_file"]);
    for error in &errors {
        assert_eq!(error.errno(), libc::EMFILE);
        assert!(error.path().is_some(), "{error}");
    }
    assert!(!t.path("new").exists());
    drop(taken);
    assert_eq!(run(&mut d, ReadFile::new(t.c_path("f"))), Ok(1));
    drop(file);
}

fn keeps_no_other_op_waiting(t: &Case) {
    std::fs::write(t.path("f"), b"x").unwrap();
    limit(LIMIT);
    let mut d = driver(t, LONG);
    let file = t.open("f", libc::O_RDWR);
    run(&mut d, Truncate::new(&file, 2)).unwrap();
    let mut taken = take_all();
    let waits = d.submit(ReadFile::new(t.c_path("f"))).unwrap();
    for _ in 0..3 {
        assert_eq!(run(&mut d, Truncate::new(&file, 3)), Ok(0));
        assert_eq!(run(&mut d, Statx::new(t.c_path("f"))), Ok(0));
        assert_eq!(run(&mut d, Nop::new()), Ok(0));
    }
    assert_eq!((soon(&mut d), d.pending()), (0, 1));
    // The helper of an engine may need some for itself.
    taken.truncate(8);
    let done = collect(&mut d, 1);
    assert_eq!((done[0].token, outcome(&done[0])), (waits, Ok(3)));
}

/// The attempts of one that waits do not take the only place.
fn a_depth_of_one(t: &Case) {
    std::fs::write(t.path("f"), b"x").unwrap();
    limit(LIMIT);
    let mut d = t.config().depth(1).descriptor_wait(LONG).build().unwrap();
    run(&mut d, WriteFile::new(t.c_path("first"), b"x")).unwrap();
    let taken = take_all();
    let waits = d.submit(ReadFile::new(t.c_path("f"))).unwrap();
    soon(&mut d);
    for _ in 0..20 {
        assert_eq!(run(&mut d, Statx::new(t.c_path("f"))), Ok(0));
    }
    drop(taken);
    let done = collect(&mut d, 1);
    assert_eq!((done[0].token, outcome(&done[0])), (waits, Ok(1)));
}

fn is_cancelled(t: &Case) {
    std::fs::write(t.path("f"), b"x").unwrap();
    limit(LIMIT);
    let mut d = driver(t, LONG);
    let taken = take_all();
    let tokens: Vec<Token> = (0..20)
        .map(|_| d.submit(ReadFile::new(t.c_path("f"))).unwrap())
        .collect();
    let last = d.submit(ReadFile::new(t.c_path("f"))).unwrap();
    soon(&mut d);
    for (i, &token) in tokens.iter().enumerate() {
        if i % 2 == 0 {
            assert_ne!(d.cancel(token), CancelOutcome::Finished);
        } else {
            d.abandon(token);
        }
    }
    for completion in collect(&mut d, 10) {
        assert_eq!(outcome(&completion), Err(libc::ECANCELED));
    }
    drop(taken);
    let done = collect(&mut d, 1);
    assert_eq!((done[0].token, outcome(&done[0])), (last, Ok(1)));
    d.drain().unwrap();
    assert_eq!(d.pending(), 0);
}

/// It ends at once, and another driver is not kept waiting by what is gone.
fn dropped_with_ops_that_wait(t: &Case) {
    std::fs::write(t.path("f"), b"x").unwrap();
    limit(LIMIT);
    let (mut d, mut other) = (driver(t, LONG), driver(t, LONG));
    let taken = take_all();
    for _ in 0..20 {
        d.submit(ReadFile::new(t.c_path("f"))).unwrap();
        d.submit(Open::new(t.c_path("f"), OpenFlags::READ_ONLY)).unwrap();
        d.submit(WriteFile::new(t.c_path("new"), b"x")).unwrap();
    }
    soon(&mut d);
    let read = other.submit(ReadFile::new(t.c_path("f"))).unwrap();
    soon(&mut other);
    let start = Instant::now();
    drop(d);
    assert!(start.elapsed() < LONG / 4, "{:?}", start.elapsed());
    drop(taken);
    assert_eq!(collect(&mut other, 1)[0].token, read);
}

/// One driver is never without work; the other one, in another thread, is not left behind.
fn another_drivers_turn(t: &Case) {
    limit(LIMIT);
    let work = |count: usize| {
        let mut d = driver(t, LONG);
        for _ in 0..count {
            d.submit(read()).unwrap();
        }
        for completion in collect(&mut d, count) {
            outcome(&completion).unwrap();
        }
        Instant::now()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = [1000, 1000, 100]
            .map(|count| scope.spawn(move || work(count)))
            .into();
        for thread in threads {
            thread.join().unwrap();
        }
    });
    // A driver that nobody runs any more has its turn for a while only.
    let mut idle = driver(t, LONG);
    let taken = take_all();
    idle.submit(read()).unwrap();
    idle.flush().unwrap();
    let mut d = {
        drop(taken);
        driver(t, LONG)
    };
    for _ in 0..200 {
        d.submit(read()).unwrap();
    }
    collect(&mut d, 200);
    collect(&mut idle, 1);
}

fn a_child_begins_anew(t: &Case) {
    limit(LIMIT);
    let mut d = driver(t, LONG);
    let taken = take_all();
    for _ in 0..200 {
        d.submit(read()).unwrap();
    }
    soon(&mut d);
    // SAFETY: the child calls nothing of the test harness and ends with _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(taken);
        drop(d);
        let mut own = driver(t, LONG);
        let all_read = (0..100).all(|_| run(&mut own, read()).is_ok());
        // SAFETY: ends the child without running anything that belongs to the parent.
        unsafe { libc::_exit(i32::from(!all_read)) };
    }
    let mut status = 0;
    // SAFETY: a live local.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0);
    drop(taken);
    for completion in collect(&mut d, 200) {
        outcome(&completion).unwrap();
    }
}

fn a_chain_goes_on(t: &Case) {
    limit(LIMIT);
    let mut d = driver(t, LONG);
    run(&mut d, WriteFile::new(t.c_path("first"), b"x")).unwrap();
    let taken = take_all();
    let chain = vec![
        Nop::new().into(),
        WriteFile::new(t.c_path("a"), b"abc").into(),
        ReadFile::new(t.c_path("a")).into(),
        Open::new(t.c_path("a"), OpenFlags::READ_ONLY).into(),
    ];
    let tokens = d.submit_linked(chain).map_err(|(_, refusal)| refusal).unwrap();
    assert_eq!(soon(&mut d), 1);
    drop(taken);
    let done = collect(&mut d, 3);
    assert_eq!(done.iter().map(|c| c.token).collect::<Vec<_>>(), tokens[1..]);
    assert_eq!((outcome(&done[0]), outcome(&done[1])), (Ok(3), Ok(3)));
    assert!(matches!(&done[2].result, Ok(Output::File(_))));
}

/// The files that are open may be waiting for what is read.
fn read_while_opens_wait(t: &Case) {
    std::fs::write(t.path("f"), b"x").unwrap();
    limit(LIMIT);
    let mut d = driver(t, LONG);
    for _ in 0..200 {
        d.submit(Open::new(t.c_path("f"), OpenFlags::READ_ONLY)).unwrap();
    }
    let mut done = Vec::new();
    d.wait(
        usize::MAX,
        usize::MAX,
        Some(Duration::from_millis(100)),
        &mut done,
    )
    .unwrap();
    let files: Vec<File> = done.into_iter().map(|c| c.into_file().unwrap()).collect();
    assert!(files.len() < 200);
    for _ in 0..100 {
        assert!(run(&mut d, read()).is_ok());
    }
}

/// Descriptors that the program closes itself tell nobody, and an op that comes just then stands behind those that wait.
fn who_came_first_opens_first(t: &Case) {
    limit(LIMIT);
    let mut d = t.config().descriptor_wait(LONG).depth(1).build().unwrap();
    // What the driver opens for itself is open from here on.
    run(&mut d, WriteFile::new(t.c_path("warm"), b"x")).unwrap();
    let taken = take_all();
    let first = d.submit(WriteFile::new(t.c_path("first"), b"1")).unwrap();
    assert_eq!(soon(&mut d), 0);
    drop(taken);
    let second = d.submit(WriteFile::new(t.c_path("second"), b"2")).unwrap();
    let done = collect(&mut d, 2);
    assert_eq!(done.iter().map(|c| c.token).collect::<Vec<_>>(), [first, second]);
    assert!(done.iter().all(|c| outcome(c) == Ok(1)));
}

fn does_not_wait_if_told_so(t: &Case) {
    limit(LIMIT);
    let mut d = driver(t, Duration::ZERO);
    run(&mut d, WriteFile::new(t.c_path("first"), b"x")).unwrap();
    let taken = take_all();
    assert_eq!(
        run(&mut d, WriteFile::new(t.c_path("f"), b"x")),
        Err(libc::EMFILE)
    );
    drop(taken);
}

/// Those that wait for several at once take no more than there are, whoever else waits.
fn reservations_of_several(t: &Case) {
    const EACH: u8 = 7;
    limit(LIMIT);
    let mut d = driver(t, LONG);
    run(&mut d, WriteFile::new(t.c_path("first"), b"x")).unwrap();
    let reservations: Vec<Reservation> = (0..40).map(|_| Reservation::new(EACH)).collect();
    let mut waiting: Vec<(Token, &Reservation)> = Vec::new();
    for reservation in &reservations {
        waiting.push((d.submit(reservation.wait()).unwrap(), reservation));
    }
    let mut granted: Vec<(&Reservation, Vec<std::fs::File>)> = Vec::new();
    while !waiting.is_empty() {
        let mut done = Vec::new();
        let pause = match granted.is_empty() {
            true => LONG,
            false => Duration::from_millis(20),
        };
        d.wait(1, usize::MAX, Some(pause), &mut done).unwrap();
        for completion in &done {
            assert_eq!(outcome(completion), Ok(0));
            let at = waiting
                .iter()
                .position(|(token, _)| *token == completion.token)
                .unwrap();
            let (_, reservation) = waiting.swap_remove(at);
            let open = || std::fs::File::open("/dev/null").unwrap();
            granted.push((reservation, (0..EACH).map(|_| open()).collect()));
            reservation.opened();
        }
        let most = LIMIT as usize - RESERVE + OF_A_HELPER;
        assert!(open_count() <= most, "{} open", open_count());
        if done.is_empty() {
            assert!(!granted.is_empty(), "it hangs with {} to come", waiting.len());
            // The files go first: whoever waits is told by the reservation.
            let (reservation, files) = granted.remove(0);
            drop(files);
            reservation.release();
        }
    }
}

/// A function that finds no descriptor is called again.
fn a_function_that_opens(t: &Case) {
    limit(LIMIT);
    let mut d = driver(t, LONG);
    run(&mut d, WriteFile::new(t.c_path("first"), b"x")).unwrap();
    let taken = take_all();
    let mut calls = 0;
    let mut op = Blocking::new("look", move |_| {
        calls += 1;
        std::fs::read_dir("/proc/self/fd").map(|_| calls)
    });
    op.opens = Some(Opens::Passing);
    let token = d.submit(op).unwrap();
    assert_eq!(soon(&mut d), 0);
    drop(taken);
    let done = collect(&mut d, 1);
    assert_eq!(done[0].token, token);
    assert!(outcome(&done[0]).unwrap() > 1);
}
