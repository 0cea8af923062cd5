//! Pipes, sockets and eventfds: transfers that wait for a peer.

use crate::testkit::{bare, bytes_of, collect, finish, outcome, outcomes, pipe, run, Case};
use proactor_engine::op::{
    Events, File, Handle, Nop, Op, OpKind, Read, ReadV, RwFlags, Splice, SpliceFlags, Write, WriteV,
};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

pub const COVERS: &[OpKind] = &[OpKind::Splice];

conformance! {
    inline {
        pipe_round_trip, read_waits_for_data, offset_is_ignored, closed_peer, no_wait_flag, nonblocking_descriptor, full_pipe, full_terminal,
        sockets, eventfds, timerfds, closed_descriptor_in_flight, refused_at_once, splice, splice_waits, splice_errors,
        two_readers, owners_and_borrowed,
    }
}

fn pipe_round_trip(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    assert_eq!(run(&mut d, Write::new(&writer, b"bytes")), Ok(5));
    let (res, op) = finish(&mut d, Read::new(&reader, Vec::with_capacity(3)));
    assert_eq!((res, bytes_of(op)), (Ok(3), b"byt".to_vec()));
    assert_eq!(
        run(&mut d, WriteV::new(&writer, vec![b"a".into(), b"b".into()])),
        Ok(2)
    );
    let into = vec![Vec::with_capacity(1).into(), Vec::with_capacity(50).into()];
    let (res, op) = finish(&mut d, ReadV::new(&reader, into));
    assert_eq!(
        (res, bytes_of(op)),
        (Ok(4), b"esab".to_vec()),
        "a short read: what is there"
    );
}

fn read_waits_for_data(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let token = d.submit(Read::new(&reader, Vec::with_capacity(16))).unwrap();
    let mut done = Vec::new();
    assert_eq!(
        d.wait(1, 1, Some(Duration::from_millis(5)), &mut done).unwrap(),
        0
    );
    d.submit(Write::new(&writer, b"now")).unwrap();
    let done = collect(&mut d, 2);
    let read = done.into_iter().find(|c| c.token == token).unwrap();
    assert_eq!(bytes_of(read.op), b"now");
}

/// io_uring ignores the offset of what has none, so every engine does; pread(2) would say ESPIPE.
fn offset_is_ignored(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    assert_eq!(run(&mut d, Write::at(&writer, 7, b"bytes")), Ok(5));
    assert_eq!(
        run(&mut d, Read::at(&reader, 1 << 40, Vec::with_capacity(9))),
        Ok(5)
    );
    let (left, right) = UnixStream::pair().unwrap();
    let (left, right) = (File::new(left), File::new(right));
    assert_eq!(run(&mut d, Write::at(&left, 7, b"bytes")), Ok(5));
    assert_eq!(run(&mut d, Read::at(&right, 7, Vec::with_capacity(9))), Ok(5));
}

fn closed_peer(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    drop(writer);
    assert_eq!(run(&mut d, Read::new(&reader, Vec::with_capacity(9))), Ok(0));
    let (reader, writer) = pipe();
    drop(reader);
    assert_eq!(run(&mut d, Write::new(&writer, b"x")), Err(libc::EPIPE));
    let (reader, writer) = pipe();
    let token = d.submit(Read::new(&reader, Vec::with_capacity(9))).unwrap();
    d.flush().unwrap();
    drop(writer);
    assert_eq!(outcomes(&mut d, 1)[&token], Ok(0));
}

fn no_wait_flag(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let read = || Read::new(&reader, Vec::with_capacity(9)).flags(RwFlags::NOWAIT);
    assert_eq!(run(&mut d, read()), Err(libc::EAGAIN));
    assert_eq!(
        run(&mut d, Write::new(&writer, b"x").flags(RwFlags::NOWAIT)),
        Ok(1)
    );
    assert_eq!(run(&mut d, read()), Ok(1));
}

/// io_uring waits for a file with O_NONBLOCK too, so every engine does; RWF_NOWAIT is the way to say no.
fn nonblocking_descriptor(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    // SAFETY: no pointers.
    unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let notify = proactor_engine::Options::default().notify(std::sync::Arc::new(crate::testkit::event()));
    for options in [proactor_engine::Options::default(), notify] {
        let read = Read::new(&reader, Vec::with_capacity(9));
        let token = d.submit_with(read, options).unwrap();
        d.flush().unwrap();
        assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
        assert_eq!(outcomes(&mut d, 1)[&token], Ok(1));
    }
    let read = Read::new(&reader, Vec::with_capacity(9)).flags(RwFlags::NOWAIT);
    assert_eq!(run(&mut d, read), Err(libc::EAGAIN));
}

fn full_pipe(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    let fill = vec![1; 65_536];
    assert_eq!(run(&mut d, Write::new(&writer, fill)), Ok(65_536));
    assert_eq!(
        run(&mut d, Write::new(&writer, b"x").flags(RwFlags::NOWAIT)),
        Err(libc::EAGAIN)
    );
    let waiting = d.submit(Write::new(&writer, b"last")).unwrap();
    let mut done = Vec::new();
    assert_eq!(
        d.wait(1, 1, Some(Duration::from_millis(5)), &mut done).unwrap(),
        0
    );
    let read = d.submit(Read::new(&reader, Vec::with_capacity(65_536))).unwrap();
    let done = outcomes(&mut d, 2);
    assert_eq!((done[&read], done[&waiting]), (Ok(65_536), Ok(4)));
}

/// A terminal that nobody reads from must not hold up whoever submits.
fn full_terminal(t: &Case) {
    let mut d = t.driver();
    let (mut ours, mut theirs) = (-1, -1);
    let null = std::ptr::null_mut();
    // SAFETY: two places for descriptors; no name, no settings.
    let made = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, null, null.cast(), null.cast()) };
    assert_eq!(made, 0);
    // SAFETY: descriptors just made, owned by nobody else.
    let (mut reader, terminal) = unsafe { (std::fs::File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let token = d
        .submit(Write::new(File::new(terminal), vec![b'x'; 100_000]))
        .unwrap();
    d.flush().unwrap();
    let read = std::thread::spawn(move || {
        let (mut seen, mut part) = (0, vec![0; 4096]);
        while seen < 100_000 {
            seen += reader.read(&mut part).unwrap();
        }
    });
    assert_eq!(outcomes(&mut d, 1)[&token], Ok(100_000));
    read.join().unwrap();
}

fn sockets(t: &Case) {
    let mut d = t.driver();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let ours = File::new(ours);
    let read = d.submit(Read::new(&ours, Vec::with_capacity(16))).unwrap();
    d.flush().unwrap();
    theirs.write_all(b"hello").unwrap();
    let completion = collect(&mut d, 1).remove(0);
    assert_eq!(
        (completion.token, bytes_of(completion.op)),
        (read, b"hello".to_vec())
    );
    assert_eq!(run(&mut d, Write::new(&ours, b"answer")), Ok(6));
    let mut answer = [0; 6];
    theirs.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
    drop(theirs);
    assert_eq!(run(&mut d, Read::new(&ours, Vec::with_capacity(16))), Ok(0));
    assert_eq!(run(&mut d, Write::new(&ours, b"x")), Err(libc::EPIPE));
}

fn eventfds(t: &Case) {
    let mut d = t.driver();
    // SAFETY: no pointers; the descriptor is fresh. A blocking one, unlike most here.
    let event = File::new(unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) });
    let read = d.submit(Read::new(&event, Vec::with_capacity(8))).unwrap();
    let mut done = Vec::new();
    assert_eq!(d.wait(1, 1, Some(Duration::ZERO), &mut done).unwrap(), 0);
    d.submit(Write::new(&event, &7u64.to_ne_bytes())).unwrap();
    let done = collect(&mut d, 2);
    let read = done.into_iter().find(|c| c.token == read).unwrap();
    assert_eq!(bytes_of(read.op), 7u64.to_ne_bytes());
    assert_eq!(run(&mut d, Write::new(&event, b"short")), Err(libc::EINVAL));
}

fn timerfds(t: &Case) {
    let mut d = t.driver();
    // SAFETY: a fresh descriptor; the struct is a live local.
    let timer = unsafe {
        let timer = OwnedFd::from_raw_fd(libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC));
        let mut spec: libc::itimerspec = std::mem::zeroed();
        spec.it_value.tv_nsec = 2_000_000;
        libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const spec, std::ptr::null_mut());
        File::new(timer)
    };
    let (res, op) = finish(&mut d, Read::new(&timer, Vec::with_capacity(8)));
    assert_eq!((res, bytes_of(op)), (Ok(8), 1u64.to_ne_bytes().to_vec()));
}

/// Readiness would never tell: nobody connects.
fn refused_at_once(t: &Case) {
    let mut d = t.driver();
    let listener = File::new(UnixListener::bind(t.path("socket")).unwrap());
    let read = Read::new(&listener, Vec::with_capacity(16));
    assert_eq!(run(&mut d, read), Err(libc::EINVAL));
    assert_eq!(run(&mut d, Write::new(&listener, b"x")), Err(libc::ENOTCONN));
}

/// An op in flight on a stream keeps the file open, whatever happens to the number.
/// What owns a descriptor is the op's from then on; what is borrowed is duplicated.
fn owners_and_borrowed(t: &Case) {
    let mut d = t.driver();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let duplicate = File::duplicate(&theirs).unwrap();
    assert_eq!(run(&mut d, Write::new(ours, b"socket")), Ok(6));
    let (res, op) = finish(&mut d, Read::new(&duplicate, Vec::with_capacity(9)));
    assert_eq!(res, Ok(6));
    assert!(matches!(op, Some(Op::Read(op)) if op.buffer.as_slice() == b"socket"));
    let (reader, writer) = std::io::pipe().unwrap();
    assert_eq!(run(&mut d, Write::new(writer, b"pipe")), Ok(4));
    assert_eq!(run(&mut d, Read::new(reader, Vec::with_capacity(9))), Ok(4));
    // `ours` is closed with its op, `theirs` is still open.
    assert_eq!(run(&mut d, Read::new(theirs, Vec::with_capacity(9))), Ok(0));
    assert_eq!(
        run(&mut d, Read::new(Handle::NONE, Vec::with_capacity(9))),
        Err(libc::EBADF)
    );
}

fn closed_descriptor_in_flight(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = std::io::pipe().unwrap();
    let (poll_reader, _poll_writer) = std::io::pipe().unwrap();
    let token = d
        .submit(Read::new(bare(reader.as_raw_fd()), Vec::with_capacity(16)))
        .unwrap();
    let poll = d
        .submit(proactor_engine::op::Poll::new(
            bare(poll_reader.as_raw_fd()),
            Events::READABLE,
        ))
        .unwrap();
    d.flush().unwrap();
    drop((reader, poll_reader));
    (&writer).write_all(b"late").unwrap();
    let completion = collect(&mut d, 1).remove(0);
    assert_eq!(completion.token, token);
    assert_eq!(outcome(&completion), Ok(4));
    assert_eq!(bytes_of(completion.op), b"late");
    d.cancel(poll);
    assert_eq!(outcomes(&mut d, 1)[&poll], Err(libc::ECANCELED));
}

fn two_readers(t: &Case) {
    let mut d = t.driver();
    let (reader, writer) = pipe();
    for _ in 0..2 {
        d.submit(Read::new(&reader, Vec::with_capacity(1))).unwrap();
    }
    d.flush().unwrap();
    assert_eq!(run(&mut d, Write::new(&writer, b"a")), Ok(1));
    let first = collect(&mut d, 1).remove(0);
    assert_eq!(bytes_of(first.op), b"a");
    assert_eq!(run(&mut d, Write::new(&writer, b"b")), Ok(1));
    assert_eq!(bytes_of(collect(&mut d, 1).remove(0).op), b"b");
}

fn splice_op(from: &File, from_offset: Option<u64>, to: &File, len: u32) -> Splice {
    Splice::new(from, to, len).from_offset(from_offset)
}

fn splice(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let (reader, writer) = pipe();
    assert_eq!(run(&mut d, splice_op(&file, Some(2), &writer, 4)), Ok(4));
    let to = t.file("g", b"");
    assert_eq!(run(&mut d, splice_op(&reader, None, &to, 99).to_offset(1)), Ok(4));
    assert_eq!(std::fs::read(t.path("g")).unwrap(), b"\x002345");
    assert_eq!(
        run(&mut d, splice_op(&file, Some(10), &writer, 4)),
        Ok(0),
        "the end of the file"
    );
    assert_eq!(run(&mut d, splice_op(&file, None, &writer, 3)), Ok(3));
    let (res, op) = finish(&mut d, Read::new(&reader, Vec::with_capacity(9)));
    assert_eq!(
        (res, bytes_of(op)),
        (Ok(3), b"012".to_vec()),
        "from the file's position"
    );
}

fn splice_waits(t: &Case) {
    let mut d = t.driver();
    let ((reader, writer), (sink_reader, sink)) = (pipe(), pipe());
    let token = d.submit(splice_op(&reader, None, &sink, 9)).unwrap();
    assert_eq!(run(&mut d, Nop::new()), Ok(0), "others go on");
    assert_eq!(run(&mut d, Write::new(&writer, b"late")), Ok(4));
    assert_eq!(outcomes(&mut d, 1)[&token], Ok(4));
    assert_eq!(run(&mut d, Read::new(&sink_reader, Vec::with_capacity(9))), Ok(4));
    let none = splice_op(&reader, None, &sink, 9).flags(SpliceFlags::NONBLOCK);
    assert_eq!(run(&mut d, none), Err(libc::EAGAIN));
}

fn splice_errors(t: &Case) {
    let mut d = t.driver();
    let (f, g) = (t.file("f", b"0123456789"), t.file("g", b""));
    let (reader, writer) = pipe();
    assert_eq!(
        run(&mut d, splice_op(&f, None, &g, 4)),
        Err(libc::EINVAL),
        "no pipe"
    );
    assert_eq!(run(&mut d, splice_op(&reader, Some(0), &g, 4)), Err(libc::ESPIPE));
    assert_eq!(
        run(&mut d, Splice::new(Handle::NONE, &writer, 4)),
        Err(libc::EBADF)
    );
    assert_eq!(run(&mut d, Splice::new(&f, Handle::NONE, 4)), Err(libc::EBADF));
    assert_eq!(
        run(
            &mut d,
            splice_op(&f, None, &writer, 4).flags(SpliceFlags::from_bits(1 << 20))
        ),
        Err(libc::EINVAL)
    );
    assert_eq!(
        run(&mut d, splice_op(&f, Some(u64::MAX), &writer, 4)),
        Err(libc::EINVAL)
    );
    let op: Op = splice_op(&f, Some(1 << 63), &writer, 4).into();
    assert_eq!(run(&mut d, op), Err(libc::EINVAL));
}
