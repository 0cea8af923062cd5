//! Results by their type: `run`, `chain` and `each`.

use crate::rw_errors::Constant;
use crate::testkit::{descriptors, outcome, pipe, Case};
use proactor_engine::buffer::{AlignedBuf, Buf, Buffer, Memory, Slice};
use proactor_engine::op::{
    Allocate, Blocking, Close, Events, File, Fsync, GetXattr, Link, ListXattr, Mkdir, Name, Nop, Op, Open,
    OpenFlags, Poll, Read, ReadFile, ReadV, RemoveXattr, Rename, SetXattr, Splice, Statx, Symlink, Timeout,
    Truncate, Unlink, Write, WriteFile, WriteV, XattrTarget,
};
use proactor_engine::{Driver, Error, Output};
use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::time::Duration;

conformance! {
    inline {
        each_op_has_its_output, buffers_come_back_as_they_went_in, a_failed_op_comes_back, a_chain_gives_all_results,
        a_chain_says_which_op_has_failed, a_short_transfer_ends_a_chain, a_refused_chain_starts_nothing, names_convert, what_cannot_succeed_is_refused,
        a_completion_gives_what_its_op_gives, each_op_ends,
        each_goes_on_after_an_error, each_leaves_others_alone, each_fits_a_small_queue,
    }
    isolated { an_unfinished_each_leaves_nothing, a_full_queue_says_so }
}

fn each_op_has_its_output(t: &Case) {
    let mut d = t.driver();
    let flags = OpenFlags::READ_WRITE | OpenFlags::CREATE;
    let file: File = d.run(Open::new(t.c_path("f"), flags)).unwrap();
    let (count, sent): (usize, Vec<u8>) = d.run(Write::at(&file, 0, b"content")).unwrap();
    assert_eq!((count, &*sent), (7, &b"content"[..]));
    let () = d.run(Fsync::data(&file)).unwrap();
    let () = d.run(Allocate::new(&file, 0, 9)).unwrap();
    let () = d.run(Truncate::new(&file, 7)).unwrap();
    let stat: libc::statx = d.run(Statx::of(&file)).unwrap();
    assert_eq!(stat.stx_size, 7);
    let parts = vec![Buf::from(b"CON"), Buf::from(b"TENT")];
    assert_eq!(d.run(WriteV::at(&file, 0, parts)).unwrap().0, 7);
    let rooms = vec![Buf::from(vec![0; 3]), Buf::from(Vec::with_capacity(9))];
    let (count, filled) = d.run(ReadV::at(&file, 0, rooms)).unwrap();
    assert_eq!(
        (count, filled[0].as_slice(), filled[1].as_slice()),
        (7, &b"CON"[..], &b"TENT"[..])
    );
    assert_eq!(
        d.run(ReadFile::new(t.c_path("f"))).unwrap().into_vec(),
        b"CONTENT"
    );
    assert_eq!(
        d.run(WriteFile::new(t.c_path("g"), "text")).unwrap(),
        (4, b"text".to_vec())
    );
    assert_eq!(
        d.run(WriteFile::new(t.c_path("g"), String::from("text")))
            .unwrap(),
        (4, b"text".to_vec())
    );
    assert_eq!(d.run(Blocking::new("work", |_| Ok(42))).unwrap(), 42);
    let () = d.run(Rename::new(t.c_path("g"), t.c_path("h"))).unwrap();
    let () = d.run(Unlink::new(t.c_path("h"))).unwrap();
    let () = d.run(Mkdir::new(t.c_path("d"), 0o700)).unwrap();
    let () = d.run(Timeout::new(Duration::ZERO)).unwrap();
    let () = d.run(Nop::new()).unwrap();
    let (reader, writer) = pipe();
    assert_eq!(d.run(Splice::new(&file, &writer, 3).from_offset(0)).unwrap(), 3);
    let events = d.run(Poll::new(&reader, Events::READABLE)).unwrap();
    assert!(
        events.is_readable() && !events.is_writable() && !events.is_error(),
        "{events:?}"
    );
    let () = d
        .run(Close::new(OwnedFd::from(
            std::fs::File::open(t.path("f")).unwrap(),
        )))
        .unwrap();
    let (output, op) = d.run(Op::from(Nop)).unwrap();
    assert!(matches!((output, op), (Output::Count(0), Op::Nop(_))));
    if t.require("user_xattr") {
        let of = || XattrTarget::Path(t.c_path("f").into());
        let () = d.run(SetXattr::new(of(), c"user.color", "blue")).unwrap();
        let (count, value) = d
            .run(GetXattr::new(of(), c"user.color", Vec::with_capacity(9)))
            .unwrap();
        assert_eq!((count, &*value), (4, &b"blue"[..]));
        let (count, names) = d.run(ListXattr::new(of(), Vec::with_capacity(99))).unwrap();
        assert!(names[..count].starts_with(b"user.color\0"));
        let () = d.run(RemoveXattr::new(of(), c"user.color")).unwrap();
    }
}

fn buffers_come_back_as_they_went_in(t: &Case) {
    /// Reads 4 of the 10 bytes at 2, and gives what `bytes` sees of the buffer.
    fn reads<B: Buffer + Debug>(
        d: &mut Driver,
        file: &File,
        buffer: B,
        bytes: impl Fn(&B) -> Vec<u8>,
    ) -> Vec<u8> {
        let (count, back) = d.run(Read::at(file, 2, buffer)).unwrap();
        assert_eq!(count, 4);
        bytes(&back)
    }
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let vec = Vec::with_capacity(4);
    let address = vec.as_ptr();
    let (count, vec) = d.run(Read::at(&file, 2, vec)).unwrap();
    assert_eq!(
        (count, &*vec, vec.as_ptr()),
        (4, &b"2345"[..], address),
        "without a copy"
    );
    let boxed: Box<[u8]> = vec![0; 4].into();
    assert_eq!(reads(&mut d, &file, boxed, |b| b.to_vec()), b"2345");
    assert_eq!(
        reads(&mut d, &file, Buf::from(vec![0; 4]), |b| b.as_slice().to_vec()),
        b"2345"
    );
    let mut registered = d.register_buffers(1, 4096).unwrap().remove(0);
    registered.set_len(10);
    let (count, registered) = d.run(Read::at(&file, 0, registered)).unwrap();
    assert_eq!((count, &*registered), (10, &b"0123456789"[..]));
    let aligned = AlignedBuf::zeroed(4096, 4096);
    let (count, aligned) = d.run(Read::at(&file, 0, aligned)).unwrap();
    assert_eq!((count, &aligned[..count]), (10, &b"0123456789"[..]));

    // A part is filled, and the rest stays; of a short read too.
    let part = Slice::new(b"abcdefgh".to_vec(), 2..6);
    let (count, part) = d.run(Read::at(&file, 2, part)).unwrap();
    assert_eq!((count, part.as_slice()), (4, &b"2345"[..]));
    assert_eq!(part.into_inner(), b"ab2345gh");
    let (count, part) = d
        .run(Read::at(&file, 8, Slice::new(b"abcdefgh".to_vec(), 2..)))
        .unwrap();
    assert_eq!((count, part.into_inner()), (2, b"ab89efgh".to_vec()));
    let (count, part) = d
        .run(Read::at(&file, 8, vec![1_u8; 4].into_boxed_slice()))
        .unwrap();
    assert_eq!(
        (count, &*part),
        (2, &[b'8', b'9', 1, 1][..]),
        "a box keeps its length"
    );
    let inner = Slice::new(Slice::new(b"abcdefgh".to_vec(), 2..6), 1..=2);
    let (count, inner) = d.run(Write::at(&file, 0, inner)).unwrap();
    assert_eq!((count, inner.as_slice()), (2, &b"de"[..]));
    assert_eq!(inner.into_inner().into_inner(), b"abcdefgh");
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"de23456789");
    let memory: Box<dyn Memory> = Box::new(Constant(b"fixed"));
    let (count, memory) = d.run(Write::at(&file, 0, memory)).unwrap();
    assert_eq!((count, memory.len()), (5, 5));
    let failed = d.run(Read::at(&file, 0, Slice::new(memory, ..2))).unwrap_err();
    assert_eq!(
        failed.errno(),
        libc::EFAULT,
        "read-only memory has read-only parts"
    );
    assert_eq!(failed.into_op().unwrap().buffer.as_slice(), b"fi");
}

fn a_failed_op_comes_back(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"");
    let reader = t.open("f", libc::O_RDONLY);
    let failed = d.run(Write::at(&reader, 5, b"mine".to_vec())).unwrap_err();
    assert_eq!((failed.error().op(), failed.errno()), ("write", libc::EBADF));
    assert!(failed.to_string().contains("Bad file descriptor"));
    let Write { offset, buffer, .. } = failed.into_op().unwrap();
    assert_eq!((offset, &*buffer), (Some(5), &b"mine"[..]));
    // A refused one too.
    let failed = d.run(Write::at(&reader, u64::MAX, b"mine")).unwrap_err();
    assert_eq!(
        (failed.errno(), failed.into_op().unwrap().buffer),
        (libc::EINVAL, b"mine".to_vec())
    );
    let error: std::io::Error = d
        .run(Open::new(t.c_path("missing"), OpenFlags::READ_ONLY))
        .unwrap_err()
        .into();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("missing"));
    let mut panicked = d
        .run(Blocking::new("work", |_| panic!("words")))
        .unwrap_err()
        .into_op()
        .unwrap();
    assert!(panicked.take_panic().is_some());
    let many = d.run(Poll::multishot(&reader, Events::READABLE)).unwrap_err();
    assert_eq!(many.errno(), libc::EINVAL);
}

fn names_convert(t: &Case) {
    let mut d = t.driver();
    let path = t.path("f");
    std::fs::write(&path, b"content").unwrap();
    let text = path.to_str().unwrap();
    let names: [Name; 6] = [
        text.into(),
        text.to_owned().into(),
        path.as_path().into(),
        (&path).into(),
        path.as_os_str().into(),
        t.c_path("f").as_c_str().into(),
    ];
    for name in names {
        assert_eq!((name.as_path(), &*name), (&*path, &*t.c_path("f")));
        assert_eq!(d.run(ReadFile::new(name)).unwrap().len(), 7);
    }
}

fn what_cannot_succeed_is_refused(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"content");
    let nul = "a\0b";
    let errors = [
        d.run(Open::new(nul, OpenFlags::READ_ONLY))
            .map(drop)
            .map_err(Error::from),
        d.run(ReadFile::new(nul)).map(drop).map_err(Error::from),
        d.run(WriteFile::new(nul, "")).map(drop).map_err(Error::from),
        d.run(Statx::new(nul)).map(drop).map_err(Error::from),
        d.run(Unlink::new(nul)).map_err(Error::from),
        d.run(Mkdir::new(nul, 0)).map_err(Error::from),
        d.run(Rename::new("a", nul)).map_err(Error::from),
        d.run(Link::new("a", nul)).map_err(Error::from),
        d.run(Symlink::new(nul, "a")).map_err(Error::from),
        d.run(RemoveXattr::new(XattrTarget::Path("a".into()), nul))
            .map_err(Error::from),
        d.run(SetXattr::new(XattrTarget::Path(nul.into()), "user.x", ""))
            .map_err(Error::from),
        d.run(GetXattr::new(XattrTarget::Path("a".into()), nul, vec![0; 9]))
            .map(drop)
            .map_err(Error::from),
        d.run(ListXattr::new(XattrTarget::LinkPath(nul.into()), vec![0; 9]))
            .map(drop)
            .map_err(Error::from),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert_eq!(error.errno(), libc::EINVAL, "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("NUL")), "{error}");
    }
    let attempted = ReadFile::new(nul).attempt().unwrap().unwrap_err();
    assert_eq!(attempted.errno(), libc::EINVAL);
    // It would look like the end of the file.
    let empty = d.run(Read::at(&file, 0, Vec::new())).unwrap_err();
    assert_eq!(empty.errno(), libc::EINVAL);
    assert!(empty.error().hint().is_some_and(|hint| hint.contains("capacity")));
    let empty = ReadV::at(&file, 0, vec![Vec::new().into(), Vec::new().into()]);
    let empty = d.run(empty).unwrap_err();
    assert!(empty.error().hint().is_some_and(|hint| hint.contains("capacity")));
}

/// An op that is asked for what it does not give says so in its own name.
fn a_completion_gives_what_its_op_gives(t: &Case) {
    let mut d = t.driver();
    let (_reader, writer) = pipe();
    let ops: [(Op, [bool; 3]); 4] = [
        (Nop.into(), [true, false, false]),
        (Write::new(&writer, b"x").into(), [true, false, false]),
        (Poll::new(&writer, Events::WRITABLE).into(), [false, true, false]),
        (
            Open::new(t.c_path("."), OpenFlags::READ_ONLY).into(),
            [false, false, true],
        ),
    ];
    for (op, expected) in ops {
        let name = op.name();
        let token = d.submit(op).unwrap();
        let completion = d.completion_of(token).unwrap();
        let errors = [
            completion.count().err(),
            completion.events().err(),
            completion.into_file().err(),
        ];
        assert_eq!(errors.each_ref().map(Option::is_none), expected, "{name}");
        for error in errors.into_iter().flatten() {
            assert_eq!((error.op(), error.errno()), (name, libc::EINVAL));
            assert!(
                error.hint().is_some_and(|hint| hint.contains("`result`")),
                "{error}"
            );
        }
    }
    let poll = d.submit(Poll::multishot(&writer, Events::WRITABLE)).unwrap();
    let mut event = Vec::new();
    d.wait_for(1, &mut event).unwrap();
    assert!(event[0].more && event[0].count().is_err_and(|error| error.op() == "poll"));
    assert_eq!(event[0].events().unwrap(), Events::WRITABLE);
    d.abandon(poll);
}

fn a_chain_gives_all_results(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let ((written, _), (), stat) = d
        .chain((Write::at(&file, 0, "data"), Fsync::data(&file), Statx::of(&file)))
        .unwrap();
    assert_eq!((written, stat.stx_size), (4, 4));
    let writes: Vec<_> = (0..10_u8)
        .map(|i| Write::at(&file, i.into(), [i + b'0'].as_slice()))
        .collect();
    assert_eq!(d.chain(writes).unwrap().len(), 10);
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"0123456789");
    assert_eq!(
        d.chain((Nop, Nop, Nop, Nop, Nop, Nop, Nop, Nop)).unwrap(),
        ((), (), (), (), (), (), (), ())
    );
    assert!(d.chain(Vec::<Nop>::new()).unwrap().is_empty());
    // The length of the last one is the caller's business.
    let ((), (count, _)) = d.chain((Nop, Read::at(&file, 8, vec![0; 9]))).unwrap();
    assert_eq!(count, 2);
    assert_eq!(d.pending(), 0);
}

fn a_chain_says_which_op_has_failed(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let failed = d
        .chain((
            Write::at(&file, 0, "data"),
            Rename::new(t.c_path("missing"), t.c_path("new")),
            Unlink::new(t.c_path("f")),
        ))
        .unwrap_err();
    assert_eq!((failed.index(), failed.error().errno()), (1, libc::ENOENT));
    assert!(failed.to_string().ends_with("(op 2 of a chain of 3)"), "{failed}");
    let (wrote, renamed, unlinked) = failed.into_results();
    assert_eq!(wrote.unwrap(), (4, b"data".to_vec()));
    assert_eq!(renamed.unwrap_err().errno(), libc::ENOENT);
    let unlinked = unlinked.unwrap_err();
    assert_eq!(unlinked.errno(), libc::ECANCELED);
    assert_eq!(unlinked.into_op().unwrap().path, t.c_path("f"));
    assert!(t.path("f").exists());
}

fn a_short_transfer_ends_a_chain(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"1234");
    let failed = d
        .chain((
            Read::at(&file, 0, Vec::with_capacity(100)),
            Unlink::new(t.c_path("f")),
        ))
        .unwrap_err();
    assert_eq!(
        (failed.index(), failed.error().errno(), failed.error().op()),
        (0, libc::EIO, "read")
    );
    assert!(failed.error().hint().is_some_and(|hint| hint.contains("short")));
    let (read, unlinked) = failed.into_results();
    assert_eq!(read.unwrap(), (4, b"1234".to_vec()));
    assert_eq!(unlinked.unwrap_err().errno(), libc::ECANCELED);
    assert!(t.path("f").exists());
}

fn a_refused_chain_starts_nothing(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let failed = d
        .chain(vec![
            Write::at(&file, 0, "first"),
            Write::at(&file, u64::MAX, "second"),
        ])
        .unwrap_err();
    assert_eq!((failed.index(), failed.error().errno()), (1, libc::EINVAL));
    let ops = failed
        .into_results()
        .into_iter()
        .map(|result| result.unwrap_err().into_op().unwrap().buffer);
    assert_eq!(ops.collect::<Vec<_>>(), [b"first".to_vec(), b"second".to_vec()]);
    assert_eq!((std::fs::read(t.path("f")).unwrap().len(), d.pending()), (0, 0));
}

fn each_op_ends(t: &Case) {
    let mut d = t.driver();
    let paths: Vec<_> = (0..100).map(|i| format!("f{i}")).collect();
    for (i, path) in paths.iter().enumerate() {
        std::fs::write(t.path(path), i.to_string()).unwrap();
    }
    for depth in [0, 1, 7, 1000] {
        let mut seen = vec![false; paths.len()];
        for (at, contents) in d.each(depth, paths.iter().map(|path| ReadFile::new(t.c_path(path)))) {
            assert_eq!(contents.unwrap().as_slice(), at.to_string().as_bytes());
            assert!(!std::mem::replace(&mut seen[at], true), "{at} came twice");
        }
        assert!(seen.iter().all(|&seen| seen));
    }
    assert_eq!(d.each(4, Vec::<Nop>::new()).count(), 0);
    assert_eq!((d.pending(), d.ready()), (0, 0));
}

fn each_goes_on_after_an_error(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let offsets = [0, u64::MAX, 4];
    let reads = offsets.map(|offset| Read::at(&file, offset, Vec::with_capacity(2)));
    let mut results: Vec<_> = d
        .each(2, reads)
        .map(|(at, result)| (at, result.map(|(_, bytes)| bytes)))
        .collect();
    results.sort_by_key(|(at, _)| *at);
    let [first, refused, last] = <[_; 3]>::try_from(results).unwrap();
    assert_eq!(first.1.unwrap(), b"01");
    assert_eq!(refused.1.unwrap_err().errno(), libc::EINVAL);
    assert_eq!(last.1.unwrap(), b"45");
}

fn each_leaves_others_alone(t: &Case) {
    let mut d = t.driver();
    let before = d.submit(Nop).unwrap();
    assert_eq!(d.each(3, (0..10).map(|_| Nop)).count(), 10);
    let done = d.completion_of(before).unwrap();
    assert_eq!(outcome(&done), Ok(0));
    let again = d.completion_of(before).unwrap_err();
    assert_eq!(again.raw_os_error(), Some(libc::EINVAL), "it would wait for ever");
}

fn each_fits_a_small_queue(t: &Case) {
    let mut d = t.config().depth(2).backlog(2).build().unwrap();
    assert_eq!(
        d.each(100, (0..50).map(|_| Nop))
            .filter(|(_, result)| result.is_ok())
            .count(),
        50
    );
}

fn an_unfinished_each_leaves_nothing(t: &Case) {
    let before = descriptors();
    {
        let (reader, _writer) = pipe();
        let file = t.file("f", b"content");
        let mut d = t.driver();
        let opens = (0..10).map(|_| Open::new(t.c_path("f"), OpenFlags::READ_ONLY));
        d.each(10, opens).next().unwrap().1.unwrap();
        // All but the first would wait for ever.
        let reads = (0..10).map(|i| Read::new(if i == 0 { &file } else { &reader }, vec![0; 9]));
        let (at, result) = d.each(10, reads).next().unwrap();
        assert_eq!((at, result.unwrap().0), (0, 7));
        assert_eq!((d.pending(), d.ready()), (0, 0));
        d.run(Nop).unwrap();
    }
    assert_eq!(descriptors(), before);
}

fn a_full_queue_says_so(t: &Case) {
    let mut d = t.config().inline(false).depth(1).backlog(0).build().unwrap();
    let (reader, _writer) = pipe();
    d.submit(Read::new(&reader, vec![0; 1])).unwrap();
    let full = d.run(Nop).unwrap_err();
    assert_eq!(full.errno(), libc::EAGAIN);
    assert!(full.error().hint().is_some_and(|hint| hint.contains("collect")));
    let io: std::io::Error = full.into();
    assert_eq!(io.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(d.chain((Nop, Nop)).unwrap_err().error().errno(), libc::EAGAIN);
    assert_eq!(
        d.each(5, [Nop]).next().unwrap().1.unwrap_err().errno(),
        libc::EAGAIN
    );
}
