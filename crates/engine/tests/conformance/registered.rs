//! Registered files and buffers: the same results as with ordinary ones, on every engine.

use crate::testkit::{bytes_of, finish, run, Case};
use proactor_engine::buffer::Buf;
use proactor_engine::op::{Events, Fsync, Op, Poll, Read, Statx, Truncate, Write, WriteV};

conformance! { files { another_drivers, files, buffers, both, foreign, a_place_used_again, a_place_used_again_while_ops_wait } inline { table_is_full, errors } }

/// A place in the table of one driver is not freed by way of another one.
fn another_drivers(t: &Case) {
    let (mut one, mut other) = (t.driver(), t.driver());
    let file = one.register_file(&t.file("f", b"one")).unwrap();
    let theirs = other.register_file(&t.file("g", b"other")).unwrap();
    let refused = one.unregister_file(theirs.clone());
    assert_eq!(
        refused.map_err(|error| error.raw_os_error()),
        match t.engine {
            proactor_engine::Engine::IoUring => Err(Some(libc::EINVAL)),
            _ => Ok(()),
        }
    );
    assert_eq!(run(&mut one, Read::at(&file, 0, Vec::with_capacity(9))), Ok(3));
    assert_eq!(
        run(&mut other, Read::at(&theirs, 0, Vec::with_capacity(9))),
        Ok(5)
    );
}

fn files(t: &Case) {
    let mut d = t.driver();
    let fixed = d.register_file(&t.file("f", b"")).unwrap();
    assert_eq!(run(&mut d, Write::at(&fixed, 0, b"content")), Ok(7));
    assert_eq!(run(&mut d, WriteV::at(&fixed, 7, vec![b"!".into()])), Ok(1));
    assert_eq!(run(&mut d, Fsync::new(&fixed)), Ok(0));
    assert_eq!(run(&mut d, Truncate::new(&fixed, 4)), Ok(0));
    assert_eq!(run(&mut d, Statx::of(&fixed)), Ok(0));
    assert!(run(&mut d, Poll::new(&fixed, Events::READABLE)).is_ok());
    let (res, op) = finish(&mut d, Read::at(&fixed, 0, Vec::with_capacity(9)));
    assert_eq!((res, bytes_of(op)), (Ok(4), b"cont".to_vec()));
    let clone = fixed.clone();
    d.unregister_file(fixed).unwrap();
    assert_eq!(
        run(&mut d, Read::at(&clone, 0, Vec::with_capacity(9))),
        Ok(4),
        "a clone is still the same file"
    );
}

fn buffers(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let mut buffers = d.register_buffers(2, 5000).unwrap();
    assert!(buffers.iter().all(|b| b.capacity() == 8192 && b.is_empty()));
    let (mut from, to) = (buffers.remove(0), buffers.remove(0));
    from.set_len(6);
    from.copy_from_slice(b"pinned");
    let (res, op) = finish(&mut d, Write::at(&file, 0, from));
    assert_eq!(res, Ok(6));
    assert!(matches!(op, Some(Op::Write(op)) if matches!(op.buffer, Buf::Registered(_))));
    let (res, op) = finish(&mut d, Read::at(&file, 1, to));
    assert_eq!(res, Ok(5));
    let Some(Op::Read(op)) = op else {
        panic!("the op comes back")
    };
    assert_eq!(op.buffer.as_slice(), b"inned");
    drop(d);
    assert_eq!(op.buffer.as_slice(), b"inned", "outlives its driver");
}

fn both(t: &Case) {
    let mut d = t.driver();
    let fixed = d.register_file(&t.file("f", b"0123456789")).unwrap();
    let buffer = d.register_buffers(1, 1).unwrap().remove(0);
    let (res, op) = finish(&mut d, Read::at(&fixed, 2, buffer));
    assert_eq!((res, bytes_of(op)), (Ok(8), b"23456789".to_vec()));
}

/// Another driver's registrations are ordinary files and memory.
fn foreign(t: &Case) {
    let (mut first, mut second) = (t.driver(), t.driver());
    let other = second.register_file(&t.file("other", b"wrong file")).unwrap();
    let fixed = first.register_file(&t.file("f", b"0123456789")).unwrap();
    let buffer = first.register_buffers(1, 1).unwrap().remove(0);
    let (res, op) = finish(&mut second, Read::at(&fixed, 0, buffer));
    assert_eq!((res, bytes_of(op)), (Ok(10), b"0123456789".to_vec()));
    second.unregister_file(other).unwrap();
}

/// A handle that has lost its place must not reach whoever has it now.
/// A long read begins in a worker, and a linked op when the one before it has ended: when the place is another file's.
fn a_place_used_again_while_ops_wait(t: &Case) {
    const LONG: usize = 1 << 20;
    for _ in 0..20 {
        let mut d = t.config().fixed_files(1).build().unwrap();
        let old = d.register_file(&t.file("old", &vec![b'o'; LONG])).unwrap();
        let reads: Vec<_> = (0..8)
            .map(|_| d.submit(Read::at(&old, 0, Vec::with_capacity(LONG))).unwrap())
            .collect();
        let (reader, writer) = crate::testkit::pipe();
        let linked = vec![
            Read::new(&reader, Vec::with_capacity(1)).into(),
            Write::at(&old, 0, b"O").into(),
        ];
        d.submit_linked(linked).unwrap();
        d.flush().unwrap();
        d.unregister_file(old).unwrap();
        d.register_file(&t.file("new", &vec![b'n'; LONG])).unwrap();
        assert_eq!(run(&mut d, Write::new(&writer, b"x")), Ok(1));
        for done in crate::testkit::collect(&mut d, 10) {
            let is_read = reads.contains(&done.token);
            assert!(done.result.is_ok());
            if is_read {
                let bytes = bytes_of(done.op);
                assert!(bytes.len() == LONG && bytes[1..].iter().all(|byte| *byte == b'o'));
            }
        }
        assert_eq!(std::fs::read(t.path("old")).unwrap()[0], b'O');
        assert_eq!(std::fs::read(t.path("new")).unwrap()[0], b'n');
    }
}

fn a_place_used_again(t: &Case) {
    let mut d = t.config().fixed_files(1).build().unwrap();
    let old = d.register_file(&t.file("old", b"old")).unwrap();
    let stale = old.clone();
    // Accepted, and not yet with the kernel.
    let token = d.submit(Read::at(&old, 0, Vec::with_capacity(9))).unwrap();
    d.unregister_file(old).unwrap();
    let new = d.register_file(&t.file("new", b"new")).unwrap();
    let done = crate::testkit::collect(&mut d, 1).remove(0);
    assert_eq!(done.token, token);
    assert_eq!(bytes_of(done.op), b"old");
    let (res, op) = finish(&mut d, Read::at(&stale, 0, Vec::with_capacity(9)));
    assert_eq!((res, bytes_of(op)), (Ok(3), b"old".to_vec()));
    let _ = d.unregister_file(stale);
    let (res, op) = finish(&mut d, Read::at(&new, 0, Vec::with_capacity(9)));
    assert_eq!((res, bytes_of(op)), (Ok(3), b"new".to_vec()));
}

/// Only a ring has a table.
fn table_is_full(t: &Case) {
    let mut d = t.config().fixed_files(2).build().unwrap();
    let file = t.file("f", b"");
    let kept: Vec<_> = (0..2).map(|_| d.register_file(&file).unwrap()).collect();
    match d.register_file(&file) {
        Ok(_) => assert_ne!(t.engine, proactor_engine::Engine::IoUring),
        Err(e) => assert_eq!(e.raw_os_error(), Some(libc::ENFILE)),
    }
    for fixed in kept {
        d.unregister_file(fixed).unwrap();
    }
    assert!(d.register_file(&file).is_ok());
}

fn errors(t: &Case) {
    let mut d = t.driver();
    assert_eq!(
        d.register_buffers(0, 1).err().and_then(|e| e.raw_os_error()),
        Some(libc::EINVAL)
    );
    assert_eq!(
        d.register_buffers(1, 0).err().and_then(|e| e.raw_os_error()),
        Some(libc::EINVAL)
    );
    // More than there is, and more than can be counted.
    for each_bytes in [1 << 62, usize::MAX] {
        let refused = d.register_buffers(2, each_bytes).err();
        assert_eq!(refused.and_then(|e| e.raw_os_error()), Some(libc::ENOMEM));
    }
    assert_eq!(d.register_buffers(2, 1).unwrap().len(), 2);
    assert_eq!(
        d.register_buffers(2, 1).err().and_then(|e| e.raw_os_error()),
        Some(libc::EBUSY)
    );
}
