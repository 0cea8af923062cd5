//! Reads and writes that fail: the same errno everywhere.

use crate::testkit::{bare, finish, pipe, run, Case};
use proactor_engine::buffer::{Buf, Memory};
use proactor_engine::op::{Fsync, Handle, Op, Read, ReadV, RwFlags, Write, WriteV};
use proactor_engine::Refusal;
use std::os::fd::AsRawFd;

conformance! {
    inline { bad_descriptor, wrong_access_mode, directory, impossible_offset, too_many_buffers, read_only_memory, unknown_flag }
    files { beyond_the_largest_file, buffer_survives_an_error }
    isolated { file_size_limit }
}

/// A number that no descriptor of this process has.
const NOBODY: i32 = 1_000_000;

fn bad_descriptor(t: &Case) {
    let mut d = t.driver();
    for fd in [NOBODY, -1, -7] {
        assert_eq!(
            run(&mut d, Read::at(bare(fd), 0, Vec::with_capacity(1))),
            Err(libc::EBADF),
            "fd {fd}"
        );
        assert_eq!(
            run(&mut d, Read::new(bare(fd), Vec::with_capacity(1))),
            Err(libc::EBADF),
            "fd {fd}"
        );
        assert_eq!(
            run(&mut d, Write::at(bare(fd), 0, b"x")),
            Err(libc::EBADF),
            "fd {fd}"
        );
        assert_eq!(
            run(&mut d, ReadV::at(bare(fd), 0, vec![Vec::with_capacity(1).into()])),
            Err(libc::EBADF)
        );
        assert_eq!(
            run(&mut d, WriteV::at(bare(fd), 0, vec![b"x".into()])),
            Err(libc::EBADF)
        );
    }
    assert_eq!(
        run(&mut d, Read::at(Handle::CWD, 0, Vec::with_capacity(1))),
        Err(libc::EBADF)
    );
    let path_only = t.open(".", libc::O_PATH);
    assert_eq!(
        run(&mut d, Read::at(&path_only, 0, Vec::with_capacity(1))),
        Err(libc::EBADF)
    );
}

fn wrong_access_mode(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"0123456789");
    let read_only = t.open("f", libc::O_RDONLY);
    let write_only = t.open("f", libc::O_WRONLY);
    assert_eq!(run(&mut d, Write::at(&read_only, 0, b"x")), Err(libc::EBADF));
    assert_eq!(
        run(&mut d, WriteV::at(&read_only, 0, vec![b"x".into()])),
        Err(libc::EBADF)
    );
    assert_eq!(
        run(&mut d, Read::at(&write_only, 0, Vec::with_capacity(1))),
        Err(libc::EBADF)
    );
    assert_eq!(
        run(
            &mut d,
            ReadV::new(&write_only, vec![Vec::with_capacity(1).into()])
        ),
        Err(libc::EBADF)
    );
    let (reader, writer) = pipe();
    assert_eq!(run(&mut d, Write::new(&reader, b"x")), Err(libc::EBADF));
    assert_eq!(
        run(&mut d, Read::new(&writer, Vec::with_capacity(1))),
        Err(libc::EBADF)
    );
}

fn directory(t: &Case) {
    let mut d = t.driver();
    let dir = t.open(".", libc::O_RDONLY);
    assert_eq!(
        run(&mut d, Read::at(&dir, 0, Vec::with_capacity(1))),
        Err(libc::EISDIR)
    );
    assert_eq!(
        run(&mut d, Read::new(&dir, Vec::with_capacity(1))),
        Err(libc::EISDIR)
    );
    assert_eq!(run(&mut d, Write::at(&dir, 0, b"x")), Err(libc::EBADF));
}

fn impossible_offset(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    for offset in [u64::MAX, 1 << 63, i64::MAX as u64] {
        assert_eq!(
            run(&mut d, Read::at(&file, offset, Vec::with_capacity(1))),
            Err(libc::EINVAL)
        );
        assert_eq!(run(&mut d, Write::at(&file, offset, b"x")), Err(libc::EINVAL));
    }
    let refused = d.submit(Write::at(&file, u64::MAX, b"mine")).unwrap_err();
    assert!(matches!(&refused.refusal, Refusal::Invalid(e) if e.hint().is_some()));
    assert!(
        matches!(*refused.op, Op::Write(op) if op.buffer.as_slice() == b"mine"),
        "the op comes back"
    );
    assert_eq!(d.pending(), 0);
}

fn too_many_buffers(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let parts = |count| (0..count).map(|_| Buf::from(b"x")).collect::<Vec<_>>();
    assert_eq!(run(&mut d, WriteV::at(&file, 0, parts(1025))), Err(libc::EINVAL));
    assert_eq!(run(&mut d, ReadV::at(&file, 0, parts(1025))), Err(libc::EINVAL));
    assert_eq!(run(&mut d, WriteV::at(&file, 0, parts(1024))), Ok(1024));
}

pub struct Constant(pub &'static [u8]);

// SAFETY: static memory, never written: it says that it is not writable.
unsafe impl Memory for Constant {
    fn ptr(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn writable(&self) -> bool {
        false
    }
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

fn read_only_memory(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let constant = || Buf::Shared(Box::new(Constant(b"constant")));
    assert_eq!(run(&mut d, Read::at(&file, 0, constant())), Err(libc::EFAULT));
    let mixed = vec![Vec::with_capacity(1).into(), constant()];
    assert_eq!(run(&mut d, ReadV::at(&file, 0, mixed)), Err(libc::EFAULT));
    assert_eq!(run(&mut d, Write::at(&file, 0, constant())), Ok(8));
}

fn unknown_flag(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let unknown = RwFlags::from_bits(0x4000_0000);
    assert_eq!(
        run(&mut d, Read::at(&file, 0, Vec::with_capacity(1)).flags(unknown)),
        Err(libc::EOPNOTSUPP)
    );
    assert_eq!(
        run(&mut d, Write::at(&file, 0, b"x").flags(unknown)),
        Err(libc::EOPNOTSUPP)
    );
    assert_eq!(
        run(&mut d, WriteV::at(&file, 0, vec![b"x".into()]).flags(unknown)),
        Err(libc::EOPNOTSUPP)
    );
    let (reader, _writer) = pipe();
    assert_eq!(
        run(&mut d, Read::new(&reader, Vec::with_capacity(1)).flags(unknown)),
        Err(libc::EOPNOTSUPP)
    );
}

fn beyond_the_largest_file(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    // ext4 ends at 16 TiB, tmpfs at 2^63 - 1, where the offset alone is one too many.
    let offset = i64::MAX as u64 - 1;
    let res = run(&mut d, Write::at(&file, offset, b"x"));
    // SAFETY: the buffer is a live constant.
    let plain = unsafe { libc::pwrite(file.as_raw_fd(), b"x".as_ptr().cast(), 1, offset as i64) };
    let plain = if plain < 0 {
        Err(std::io::Error::last_os_error().raw_os_error().unwrap())
    } else {
        Ok(1)
    };
    assert_eq!(res, plain);
}

fn buffer_survives_an_error(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"");
    let read_only = t.open("f", libc::O_RDONLY);
    let (res, op) = finish(&mut d, Write::at(&read_only, 0, b"mine"));
    assert_eq!(res, Err(libc::EBADF));
    assert!(matches!(op, Some(Op::Write(op)) if op.buffer.as_slice() == b"mine"));
    let (res, op) = finish(&mut d, Read::at(bare(NOBODY), 0, Vec::with_capacity(100)));
    assert_eq!(res, Err(libc::EBADF));
    assert!(matches!(op, Some(Op::Read(op)) if op.buffer.is_empty() && op.buffer.capacity() >= 100));
    let failed = d.run(Fsync::new(bare(NOBODY))).unwrap_err();
    let error = failed.error();
    assert_eq!((error.op(), error.errno()), ("fsync", libc::EBADF));
}

fn file_size_limit(t: &Case) {
    // The default action of SIGXFSZ would end the process.
    // SAFETY: plain constants and a live struct; the process is this test's own.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit {
            rlim_cur: 4096,
            rlim_max: libc::RLIM_INFINITY,
        };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
    let mut d = t.driver();
    let file = t.file("f", b"");
    assert_eq!(
        run(&mut d, Write::at(&file, 4000, vec![1; 200])),
        Ok(96),
        "short up to the limit"
    );
    assert_eq!(run(&mut d, Write::at(&file, 4096, b"x")), Err(libc::EFBIG));
    assert_eq!(
        run(&mut d, proactor_engine::op::Truncate::new(&file, 5000)),
        Err(libc::EFBIG)
    );
}
