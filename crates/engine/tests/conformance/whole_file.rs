//! Whole files in one op.

use crate::testkit::{bytes_of, collect, finish, outcome, run, with, writer_that_waits, Case};
use proactor_engine::op::{Handle, Op, OpKind, Open, OpenFlags, ReadCached, ReadFile, WriteFile};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

pub const COVERS: &[OpKind] = &[OpKind::ReadFile, OpKind::WriteFile, OpKind::ReadCached];

conformance! {
    files { round_trip, sizes, empty, limit, range, errors, relative, spent_vector, write_flags, sync, after_a_short_write, cached, cached_cancelled }
    inline { proc_files, endless_and_special, fifo_that_a_writer_waits_at }
}

fn read(t: &Case, name: &str) -> Result<Vec<u8>, i32> {
    let (res, op) = finish(&mut t.driver(), ReadFile::new(t.c_path(name)));
    let data = bytes_of(op);
    res.map(|count| {
        assert_eq!(count, data.len());
        data
    })
}

fn round_trip(t: &Case) {
    let mut d = t.driver();
    assert_eq!(run(&mut d, WriteFile::new(t.c_path("f"), b"content")), Ok(7));
    assert_eq!(read(t, "f"), Ok(b"content".to_vec()));
    assert_eq!(
        run(&mut d, WriteFile::new(t.c_path("f"), b"new")),
        Ok(3),
        "replaces"
    );
    assert_eq!(read(t, "f"), Ok(b"new".to_vec()));
}

fn sizes(t: &Case) {
    let mut d = t.driver();
    for size in [1, 4095, 4096, 4097, 65_535, 65_536, 65_537, 3 << 20] {
        let data: Vec<u8> = (0..size)
            .map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        assert_eq!(
            run(&mut d, WriteFile::new(t.c_path("f"), data.clone())),
            Ok(data.len())
        );
        assert!(read(t, "f").unwrap() == data, "{size} bytes");
    }
}

fn empty(t: &Case) {
    assert_eq!(run(&mut t.driver(), WriteFile::new(t.c_path("f"), b"")), Ok(0));
    assert_eq!(read(t, "f"), Ok(vec![]));
}

fn limit(t: &Case) {
    let mut d = t.driver();
    t.file("f", &[1; 100]);
    let limited = |limit| with(ReadFile::new(t.c_path("f")), |op| op.limit = limit);
    assert_eq!(run(&mut d, limited(100)), Ok(100));
    assert_eq!(run(&mut d, limited(99)), Err(libc::EFBIG));
    assert_eq!(run(&mut d, limited(0)), Err(libc::EFBIG));
    // A file that states no size is measured as it is read.
    let status = with(ReadFile::new(c"/proc/self/status"), |op| op.limit = 10);
    assert_eq!(run(&mut d, status), Err(libc::EFBIG));
}

fn range(t: &Case) {
    let data: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
    t.file("f", &data);
    let part = |path: &std::ffi::CStr, offset: u64, length: usize| {
        let op = with(ReadFile::new(path), |op| {
            (op.offset, op.length) = (offset, length)
        });
        let (res, op) = finish(&mut t.driver(), op);
        res.map(|_| bytes_of(op))
    };
    for (offset, length) in [
        (0, 10),
        (10, 0),
        (100_000, 99_999),
        (100_000, 100_000),
        (7, 70_000),
    ] {
        let wanted = &data[offset as usize..offset as usize + length];
        assert!(
            part(&t.c_path("f"), offset, length).unwrap() == wanted,
            "{length} bytes at {offset}"
        );
    }
    // Up to the end, and nothing behind it.
    assert!(part(&t.c_path("f"), 150_000, 100_000).unwrap() == data[150_000..]);
    assert!(part(&t.c_path("f"), 199_999, usize::MAX).unwrap() == data[199_999..]);
    assert_eq!(part(&t.c_path("f"), 200_000, 10), Ok(vec![]));
    assert_eq!(part(&t.c_path("f"), 300_000, usize::MAX), Ok(vec![]));
    t.file("empty", b"");
    assert_eq!(part(&t.c_path("empty"), 5, 10), Ok(vec![]));
    // A file that states no size.
    let status = std::fs::read("/proc/sys/kernel/ostype").unwrap();
    assert_eq!(part(c"/proc/sys/kernel/ostype", 0, 3).unwrap(), status[..3]);
    let limited = |limit| {
        with(ReadFile::new(t.c_path("f")), |op| {
            (op.limit, op.length) = (limit, 100)
        })
    };
    assert_eq!(run(&mut t.driver(), limited(100)), Ok(100));
    assert_eq!(run(&mut t.driver(), limited(99)), Err(libc::EFBIG));
}

fn errors(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"");
    assert_eq!(run(&mut d, ReadFile::new(t.c_path("missing"))), Err(libc::ENOENT));
    assert_eq!(run(&mut d, ReadFile::new(t.c_path("."))), Err(libc::EISDIR));
    assert_eq!(run(&mut d, ReadFile::new(t.c_path("f/x"))), Err(libc::ENOTDIR));
    assert_eq!(
        run(&mut d, WriteFile::new(t.c_path("."), b"x")),
        Err(libc::EISDIR)
    );
    assert_eq!(
        run(&mut d, WriteFile::new(t.c_path("missing/f"), b"x")),
        Err(libc::ENOENT)
    );
    assert_eq!(
        run(&mut d, WriteFile::new(c"f", b"x").dir(Handle::NONE)),
        Err(libc::EBADF)
    );
    assert_eq!(
        run(&mut d, with(ReadFile::new(c"f"), |op| op.dir = Handle::NONE)),
        Err(libc::EBADF)
    );
    let full = WriteFile::new(c"/dev/full", b"x").flags(OpenFlags::WRITE_ONLY);
    assert_eq!(run(&mut d, full), Err(libc::ENOSPC));
}

fn relative(t: &Case) {
    let mut d = t.driver();
    let dir = t.open(".", libc::O_RDONLY);
    assert_eq!(run(&mut d, WriteFile::new(c"f", b"content").dir(&dir)), Ok(7));
    assert_eq!(
        run(&mut d, with(ReadFile::new(c"f"), |op| op.dir = (&dir).into())),
        Ok(7)
    );
}

fn spent_vector(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"new");
    let spent = with(ReadFile::new(t.c_path("f")), |op| {
        op.data = b"left over from before".to_vec()
    });
    let (res, op) = finish(&mut d, spent);
    assert_eq!((res, bytes_of(op)), (Ok(3), b"new".to_vec()));
}

fn write_flags(t: &Case) {
    use std::os::unix::fs::PermissionsExt;
    let mut d = t.driver();
    let flags = |flags| WriteFile::new(t.c_path("f"), b"ab").flags(flags).mode(0o600);
    assert_eq!(
        run(
            &mut d,
            flags(OpenFlags::WRITE_ONLY | OpenFlags::CREATE | OpenFlags::EXCLUSIVE)
        ),
        Ok(2)
    );
    assert_eq!(
        run(
            &mut d,
            flags(OpenFlags::WRITE_ONLY | OpenFlags::CREATE | OpenFlags::EXCLUSIVE)
        ),
        Err(libc::EEXIST)
    );
    assert_eq!(
        run(&mut d, flags(OpenFlags::WRITE_ONLY | OpenFlags::APPEND)),
        Ok(2)
    );
    assert_eq!(read(t, "f"), Ok(b"abab".to_vec()));
    assert_eq!(
        std::fs::metadata(t.path("f")).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

/// A write that is done in part goes on, and what keeps it from going on is told.
fn after_a_short_write(t: &Case) {
    let mut d = t.driver();
    let path = t.fifo("fifo");
    let flags = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .clone();
    let mut reader = flags.open(t.path("fifo")).unwrap();
    // More than a pipe holds, so that the first write is short and the second finds no room.
    let write = WriteFile::new(path, vec![7; 3 << 20]).flags(OpenFlags::WRITE_ONLY | OpenFlags::NONBLOCK);
    assert_eq!(run(&mut d, write), Err(libc::EAGAIN));
    let mut there = Vec::new();
    let _ = reader.read_to_end(&mut there);
    assert!(!there.is_empty() && there.iter().all(|&byte| byte == 7));
}

fn sync(t: &Case) {
    let op = WriteFile::new(t.c_path("f"), b"safe").sync(true);
    assert_eq!(run(&mut t.driver(), op), Ok(4));
}

fn cached(t: &Case) {
    let mut d = t.driver();
    let large = vec![7; (1 << 20) + 1];
    t.file("f", b"content");
    t.file("empty", b"");
    t.file("large", &large);
    let fifo = t.fifo("fifo");
    let paths = [
        t.c_path("f"),
        t.c_path("missing"),
        t.c_path("large"),
        t.c_path("empty"),
        fifo,
        t.c_path("f"),
    ];
    let expected = [
        Ok(b"content".to_vec()),
        Err(libc::ENOENT),
        Ok(large),
        Ok(vec![]),
        Err(0),
        Ok(b"content".to_vec()),
    ];
    // What needs no waiting here, by the same rule.
    let ready: Vec<bool> = paths
        .iter()
        .map(|path| ReadFile::new(path.clone()).attempt().is_some())
        .collect();
    let files = paths.iter().map(|path| ReadFile::new(path.clone())).collect();
    let (res, op) = finish(&mut d, ReadCached::new(files));
    let Some(Op::ReadCached(op)) = op else {
        panic!("not the op that was submitted: {op:?}");
    };
    assert_eq!(res, Ok(ready.iter().filter(|ready| **ready).count()));
    assert_eq!(op.answers.iter().map(Option::is_some).collect::<Vec<_>>(), ready);
    assert_eq!((ready[2], ready[4]), (false, false), "a large file and a FIFO");
    for (i, (file, answer)) in op.files.into_iter().zip(op.answers).enumerate() {
        match answer {
            Some(answer) => {
                let found = answer.map(|_| file.data).map_err(|e| e.errno());
                assert_eq!(found, expected[i], "{i}");
            }
            // It is as good as new. (The FIFO has no writer.)
            None if i != 4 => {
                let (res, op) = finish(&mut d, file);
                assert_eq!(res.map(|_| bytes_of(op)), expected[i], "{i}");
            }
            None => {}
        }
    }
}

fn cached_cancelled(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"content");
    let files = (0..1000).map(|_| ReadFile::new(t.c_path("f"))).collect();
    let token = d.submit(ReadCached::new(files)).unwrap();
    d.cancel(token);
    let done = collect(&mut d, 1).remove(0);
    let answered = match outcome(&done) {
        Ok(count) => count,
        Err(errno) => {
            assert_eq!(errno, libc::ECANCELED);
            0
        }
    };
    let Some(Op::ReadCached(op)) = done.op else {
        panic!("not the op that was submitted");
    };
    // Wherever it was stopped, every file is answered or untouched.
    assert_eq!(op.files.len(), 1000);
    assert!(op.answers.iter().flatten().count() >= answered);
    for (file, answer) in op.files.iter().zip(&op.answers) {
        assert_eq!(matches!(answer, Some(Ok(7))), file.data == b"content");
    }
}

/// They state a size of 0 and hold more; some give out a page at a time.
fn proc_files(t: &Case) {
    let mut d = t.driver();
    for path in [
        c"/proc/self/status",
        c"/proc/self/maps",
        c"/proc/filesystems",
        c"/proc/self/mountinfo",
    ] {
        let (res, op) = finish(&mut d, ReadFile::new(path));
        let data = bytes_of(op);
        assert_eq!(res, Ok(data.len()));
        assert!(data.len() > 50 && data.ends_with(b"\n"), "{path:?}");
    }
    let (_, op) = finish(&mut d, ReadFile::new(c"/proc/filesystems"));
    assert_eq!(bytes_of(op), std::fs::read("/proc/filesystems").unwrap());
}

fn endless_and_special(t: &Case) {
    let mut d = t.driver();
    let zero = with(ReadFile::new(c"/dev/zero"), |op| op.limit = 200_000);
    assert_eq!(run(&mut d, zero), Err(libc::EFBIG));
    assert_eq!(run(&mut d, ReadFile::new(c"/dev/null")), Ok(0));
}

/// It has been let in by whoever looks what the path is, and must not find itself alone when it writes.
fn fifo_that_a_writer_waits_at(t: &Case) {
    let mut d = t.driver();
    let (whole, opened) = (t.fifo("whole"), t.fifo("opened"));

    let writer = writer_that_waits(t.path("whole"), b"through");
    d.submit(ReadFile::new(whole)).unwrap();
    let done = collect(&mut d, 1).remove(0);
    assert_eq!((outcome(&done), bytes_of(done.op)), (Ok(7), b"through".to_vec()));
    writer.join().unwrap().expect("a reader until the end");

    let writer = writer_that_waits(t.path("opened"), b"through");
    d.submit(Open::new(opened, OpenFlags::READ_ONLY | OpenFlags::CLOEXEC))
        .unwrap();
    let file = collect(&mut d, 1).remove(0).into_file().unwrap();
    let fd = file.into_fd().expect("nobody else has it");
    let mut found = Vec::new();
    std::fs::File::from(fd).read_to_end(&mut found).unwrap();
    assert_eq!(found, b"through");
    writer.join().unwrap().expect("a reader until the end");
}
