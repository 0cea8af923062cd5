//! fork() in mid-flight: the child's copy is dead and harmless, the parent's goes on.

use crate::testkit::{bytes_of, collect, descriptors, outcome, pipe, run, Case, LONG};
use proactor_engine::op::{Events, Nop, Open, OpenFlags, Poll, Read, Timeout, Write, WriteFile};
use proactor_engine::{CancelOutcome, Config, Driver, Refusal};
use std::io::Write as _;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

conformance! { isolated { refuses_clearly, drops_quietly, leaves_no_descriptor, makes_its_own, memory_of_the_ring, with_worker_threads } }

/// Runs `body` in a forked child and waits for it to succeed. A child that panics or dies fails the test.
pub fn in_child(body: impl FnOnce()) {
    // SAFETY: the child calls nothing of the test harness and ends with _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let code = i32::from(catch_unwind(AssertUnwindSafe(body)).is_err());
        // SAFETY: ends the child without running anything that belongs to the parent.
        unsafe { libc::_exit(code) };
    }
    let deadline = Instant::now() + LONG;
    loop {
        let mut status = 0;
        // SAFETY: a live local.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
            0 if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            0 => {
                // SAFETY: no pointers; the child is ours.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                panic!("the child hangs");
            }
            _ => {
                assert_eq!(status, 0, "the child's status");
                return;
            }
        }
    }
}

/// A driver with a bit of everything in flight, and the pipe that its read waits on.
fn busy(t: &Case) -> (Driver, proactor_engine::op::File, proactor_engine::Token) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let token = d.submit(Read::new(&reader, Vec::with_capacity(64))).unwrap();
    d.submit(Poll::new(&reader, Events::HANG_UP)).unwrap();
    d.submit(Timeout::new(Duration::from_secs(3600))).unwrap();
    d.flush().unwrap();
    (d, writer, token)
}

/// The parent's read still works after the child has come and gone.
fn goes_on(d: &mut Driver, writer: &proactor_engine::op::File, token: proactor_engine::Token) {
    crate::testkit::put(writer, b"for you");
    let completion = collect(d, 1).remove(0);
    assert_eq!((completion.token, outcome(&completion)), (token, Ok(7)));
    assert_eq!(bytes_of(completion.op), b"for you");
    assert_eq!(run(d, Nop::new()), Ok(0));
}

fn refuses_clearly(t: &Case) {
    let (mut d, writer, token) = busy(t);
    assert!(!d.is_forked());
    in_child(|| {
        assert!(d.is_forked());
        let refused = d.submit(Nop::new()).unwrap_err();
        assert_eq!(refused.refusal, Refusal::Forked);
        assert!(refused.to_string().contains("fork"));
        assert!(d
            .wait(1, 1, None, &mut Vec::new())
            .unwrap_err()
            .to_string()
            .contains("fork"));
        assert!(d.flush().is_err() && d.drain().is_err() && d.eventfd().is_err());
        assert!(d.run(Nop::new()).is_err());
        assert!(d.submit_linked(vec![Nop::new().into()]).is_err());
        assert!(d.register_buffers(1, 1).is_err());
        assert_eq!(d.cancel(token), CancelOutcome::Finished);
        d.abandon(token);
    });
    goes_on(&mut d, &writer, token);
}

fn drops_quietly(t: &Case) {
    let (d, writer, token) = busy(t);
    let mut d = Some(d);
    in_child(|| drop(d.take()));
    goes_on(d.as_mut().unwrap(), &writer, token);
}

fn leaves_no_descriptor(t: &Case) {
    let before = descriptors();
    let (d, writer, token) = busy(t);
    let mut d = Some(d);
    in_child(|| {
        drop(d.take());
        assert_eq!(
            descriptors(),
            before + 1,
            "the pipe's writer is left, and nothing else"
        );
    });
    goes_on(d.as_mut().unwrap(), &writer, token);
}

fn makes_its_own(t: &Case) {
    let (mut d, writer, token) = busy(t);
    t.file("f", b"content");
    let engine = t.engine;
    let path = t.c_path("f");
    in_child(|| {
        let mut own = Config::default().engine(engine).inline(false).build().unwrap();
        let file = own.run(Open::new(path, OpenFlags::READ_ONLY)).unwrap();
        assert_eq!(run(&mut own, Read::new(&file, Vec::with_capacity(9))), Ok(7));
        let (reader, writer) = pipe();
        own.submit(Read::new(&reader, Vec::with_capacity(9))).unwrap();
        assert_eq!(run(&mut own, Write::new(&writer, b"x")), Ok(1));
        assert_eq!(collect(&mut own, 1).len(), 1);
    });
    goes_on(&mut d, &writer, token);
}

/// The ring's memory is not inherited. The addresses are free in the child, which may have put something else there
/// before it drops its copy of the driver.
fn memory_of_the_ring(t: &Case) {
    let (d, writer, token) = busy(t);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let rings: Vec<(usize, usize)> = maps
        .lines()
        .filter(|line| line.contains("io_uring") || line.contains("[aio]"))
        .map(|line| {
            let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let number = |hex| usize::from_str_radix(hex, 16).unwrap();
            (number(from), number(to) - number(from))
        })
        .collect();
    assert_eq!(
        t.engine == proactor_engine::Engine::IoUring,
        maps.contains("io_uring")
    );
    let mut d = Some(d);
    in_child(|| {
        // SAFETY: MAP_FIXED_NOREPLACE takes only addresses that nobody uses; each byte written was mapped just now.
        unsafe {
            let mut mapped = Vec::new();
            for &(from, len) in &rings {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
                let at = libc::mmap(
                    from as *mut _,
                    len,
                    libc::PROT_READ | libc::PROT_WRITE,
                    flags,
                    -1,
                    0,
                );
                if at as usize == from {
                    std::ptr::write_bytes(at.cast::<u8>(), 0x5a, len);
                    mapped.push((at.cast::<u8>(), len));
                }
            }
            drop(d.take());
            for (at, len) in mapped {
                // A page that has been unmapped ends the child with SIGSEGV.
                assert!(
                    (0..len).all(|i| at.add(i).read_volatile() == 0x5a),
                    "the drop wrote into it"
                );
            }
        }
    });
    goes_on(d.as_mut().unwrap(), &writer, token);
}

/// Their locks may be held for ever in the child.
fn with_worker_threads(t: &Case) {
    let (d, writer, token) = busy(t);
    let mut d = Some(d);
    for round in 0..20 {
        let path = t.c_path(&format!("{round}"));
        d.as_mut()
            .unwrap()
            .submit(WriteFile::new(path, vec![7; 1 << 16]))
            .unwrap();
        d.as_mut().unwrap().flush().unwrap();
        in_child(|| drop(d.take()));
        collect(d.as_mut().unwrap(), 1);
        assert_eq!(
            std::fs::read(t.path(&format!("{round}"))).unwrap(),
            vec![7; 1 << 16]
        );
    }
    std::io::stderr().flush().unwrap();
    goes_on(d.as_mut().unwrap(), &writer, token);
}
