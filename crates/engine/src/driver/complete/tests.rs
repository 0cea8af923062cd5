//! The driver on a backend that answers what a test has written down: results that a kernel gives seldom.

use super::*;
use crate::backend::Taken;
use crate::driver::*;
use crate::error::Error;
use crate::inflight::Slot;
use crate::op::{Close, Events, Fsync, Handle, Nop, OpKind, Poll, Read, Write};
use crate::sys;
use std::cell::RefCell;
use std::io::Read as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

/// What a test and its backend share.
#[derive(Default)]
struct Script {
    /// The ops that the backend has, each with whether the kernel shall start the next one after it.
    taken: Vec<(Token, bool)>,
    /// How many times an op was handed over.
    submissions: usize,
    /// The next results.
    results: Vec<Raw>,
    full: bool,
}

struct Scripted(Rc<RefCell<Script>>);

impl Backend for Scripted {
    fn support(&self, _kind: OpKind) -> Support {
        Support::Native
    }

    fn submit(&mut self, token: Token, slot: &mut Slot) -> Taken {
        let mut script = self.0.borrow_mut();
        if script.full {
            return Taken::Full;
        }
        script.submissions += 1;
        script.taken.push((token, slot.link));
        Taken::Yes
    }

    fn links(&mut self, _ops: &[Op]) -> bool {
        true
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Without results, all ops are cancelled: the driver is being dropped.
    fn wait(&mut self, min: usize, _timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()> {
        let mut script = self.0.borrow_mut();
        script.full = false;
        let mut results = std::mem::take(&mut script.results);
        if results.is_empty() && min > 0 {
            let cancelled = |&(token, _): &_| Raw::new(token, -libc::ECANCELED);
            results = script.taken.iter().map(cancelled).collect();
        }
        script
            .taken
            .retain(|(token, _)| results.iter().all(|raw| raw.token != *token));
        done.append(&mut results);
        Ok(())
    }

    fn cancel(&mut self, _token: Token, _done: &mut Vec<Raw>) -> CancelOutcome {
        CancelOutcome::Running
    }

    fn eventfd(&mut self) -> io::Result<RawFd> {
        unreachable!("no test watches")
    }

    fn wake(&mut self) {}

    fn forget_threads(&mut self) {}
}

fn scripted() -> (Driver, Rc<RefCell<Script>>) {
    let script = Rc::new(RefCell::new(Script::default()));
    let config = Driver::builder().engine(Engine::Sim).inline(false);
    let mut driver = config.build().expect("the simulator works everywhere");
    let backend: Box<dyn Backend> = Box::new(Scripted(script.clone()));
    let simulator = std::mem::replace(&mut driver.backend, ManuallyDrop::new(backend));
    drop(ManuallyDrop::into_inner(simulator));
    (driver, script)
}

/// Submits the op, cancels it where asked, and gives what the driver makes of the backend's number.
fn completion(op: impl Into<Op>, skip: usize, cancel: bool, res: i32) -> Completion {
    let (mut driver, script) = scripted();
    let token = driver.submit(op).expect("accepted");
    driver.slab.get_mut(token).expect("in flight").skip = skip;
    if cancel {
        assert_eq!(driver.cancel(token), CancelOutcome::Running);
    }
    script.borrow_mut().results.push(Raw::new(token, res));
    let mut done = Vec::new();
    driver
        .wait(1, 2, Some(Duration::ZERO), &mut done)
        .expect("no signal");
    assert_eq!(script.borrow().submissions, 1, "an op is handed over once");
    assert_eq!(done.len(), 1);
    done.pop().expect("one")
}

fn errno(completion: &Completion) -> Option<i32> {
    completion.result.as_ref().err().map(Error::errno)
}

fn is_closed(pipe: OwnedFd) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    matches!(std::fs::File::from(pipe).read(&mut [0]), Ok(0))
}

#[test]
fn a_cancelled_close_keeps_the_descriptor_for_the_caller() {
    let (reader, writer) = sys::pipe().expect("a pipe");
    let done = completion(Close::new(writer), 0, true, -libc::ECANCELED);
    assert_eq!(errno(&done), Some(libc::ECANCELED));
    assert!(matches!(&done.op, Some(Op::Close(close)) if close.fd.is_some()));
    drop(done);
    assert!(is_closed(reader));
}

#[test]
fn an_interrupted_close_has_closed_and_says_so() {
    let (_reader, writer) = sys::pipe().expect("a pipe");
    let done = completion(Close::new(writer), 0, true, -libc::EINTR);
    assert_eq!(errno(&done), Some(libc::EINTR));
    let Some(Op::Close(close)) = done.op else {
        unreachable!("the op comes back")
    };
    assert!(close.fd.is_none(), "it would be closed twice");
}

#[test]
fn an_interrupted_read_was_cancelled() {
    let done = completion(
        Read::new(Handle::NONE, Vec::with_capacity(8)),
        0,
        true,
        -libc::EINTR,
    );
    assert_eq!(errno(&done), Some(libc::ECANCELED));
    let done = completion(
        Read::new(Handle::NONE, Vec::with_capacity(8)),
        0,
        false,
        -libc::EINTR,
    );
    assert_eq!(errno(&done), Some(libc::EINTR));
}

#[test]
fn a_partial_transfer_counts_whatever_comes_after_it() {
    for error in [libc::EIO, libc::ENOSPC, libc::ECANCELED, libc::EINTR, 0] {
        for cancel in [false, true] {
            let done = completion(Read::new(Handle::NONE, Vec::with_capacity(8)), 3, cancel, -error);
            assert!(matches!(done.result, Ok(Output::Count(3))), "{error}");
            let done = completion(Write::new(Handle::NONE, b"12345678"), 5, cancel, -error);
            assert!(matches!(done.result, Ok(Output::Count(5))), "{error}");
        }
    }
    let done = completion(
        Read::new(Handle::NONE, Vec::with_capacity(8)),
        0,
        false,
        -libc::EIO,
    );
    assert_eq!(errno(&done), Some(libc::EIO));
}

#[test]
fn a_cancelled_multishot_poll_is_not_started_again() {
    let poll = Poll {
        multishot: true,
        ..Poll::new(Handle::NONE, Events::READABLE)
    };
    let done = completion(poll, 0, true, i32::from(libc::POLLIN));
    assert!(!done.more);
}

#[test]
fn a_chain_behind_a_backlog_is_not_the_kernels() {
    let (mut driver, script) = scripted();
    script.borrow_mut().full = true;
    let first = driver.submit(Nop).expect("accepted");
    let chain = vec![Fsync::new(Handle::NONE).into(), Nop.into()];
    let chain = driver.submit_linked(chain).expect("accepted");
    script.borrow_mut().full = false;
    driver.flush().expect("room");
    // What stood before it was handed over first, and the second waits for the end of the first.
    assert_eq!(script.borrow().taken, [(first, false), (chain[0], false)]);
    script.borrow_mut().results.push(Raw::new(chain[0], -libc::EIO));
    let mut done = Vec::new();
    driver
        .wait(1, 3, Some(Duration::ZERO), &mut done)
        .expect("no signal");
    let told: Vec<_> = done.iter().map(|done| (done.token, errno(done))).collect();
    assert_eq!(
        told,
        [(chain[0], Some(libc::EIO)), (chain[1], Some(libc::ECANCELED))]
    );
}

#[test]
fn a_chain_with_room_is_the_kernels() {
    let (mut driver, script) = scripted();
    let chain = driver
        .submit_linked(vec![Nop.into(), Nop.into()])
        .expect("accepted");
    assert_eq!(script.borrow().taken, [(chain[0], true), (chain[1], false)]);
}
