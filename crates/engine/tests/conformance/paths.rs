//! Ops on paths and on descriptors as such.

use crate::testkit::{bare, finish, run, with, Case};
use proactor_engine::op::{
    AtFlags, Close, File, Handle, Link, Mkdir, Op, OpKind, Open, OpenFlags, Read, ReadFile, Rename,
    RenameFlags, ResolveFlags, Statx, StatxMask, Symlink, Unlink,
};
use std::os::fd::{AsRawFd, OwnedFd};

pub const COVERS: &[OpKind] = &[
    OpKind::Open,
    OpKind::Close,
    OpKind::Statx,
    OpKind::Rename,
    OpKind::Unlink,
    OpKind::Mkdir,
    OpKind::Link,
    OpKind::Symlink,
];

conformance! {
    files {
        open_reads_and_writes, open_modes, open_how, open_relative, close_errors, statx, statx_at_once, rename, unlink, mkdir, link, symlink,
    }
}

pub fn open(t: &Case, d: &mut proactor_engine::Driver, name: &str, flags: OpenFlags) -> Result<File, i32> {
    d.run(Open::new(t.c_path(name), flags)).map_err(|e| e.errno())
}

fn open_reads_and_writes(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"content");
    let file = open(t, &mut d, "f", OpenFlags::READ_ONLY).unwrap();
    // SAFETY: no pointers.
    let flags = unsafe {
        (
            libc::fcntl(file.as_raw_fd(), libc::F_GETFL),
            libc::fcntl(file.as_raw_fd(), libc::F_GETFD),
        )
    };
    assert_eq!(flags.0 & (libc::O_ACCMODE | libc::O_NONBLOCK), libc::O_RDONLY);
    assert_eq!(flags.1, libc::FD_CLOEXEC);
    assert_eq!(run(&mut d, Read::new(&file, Vec::with_capacity(9))), Ok(7));
    let dir = open(t, &mut d, ".", OpenFlags::READ_ONLY | OpenFlags::DIRECTORY).unwrap();
    assert_eq!(
        run(&mut d, Read::new(&dir, Vec::with_capacity(9))),
        Err(libc::EISDIR)
    );
    let append = open(t, &mut d, "f", OpenFlags::WRITE_ONLY | OpenFlags::APPEND).unwrap();
    assert_eq!(run(&mut d, proactor_engine::op::Write::new(&append, b"!")), Ok(1));
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"content!");
    let token = d.submit(Statx::of(&append)).unwrap();
    let plain = d.completion_of(token).unwrap();
    assert!(plain.into_file().is_err_and(|e| e.op() == "statx"));
}

fn open_modes(t: &Case) {
    use std::os::unix::fs::PermissionsExt;
    let mut d = t.driver();
    let created = d
        .run(
            Open::new(
                t.c_path("new"),
                OpenFlags::WRITE_ONLY | OpenFlags::CREATE | OpenFlags::EXCLUSIVE,
            )
            .mode(0o600),
        )
        .unwrap();
    drop(created);
    assert_eq!(
        std::fs::metadata(t.path("new")).unwrap().permissions().mode() & 0o7777,
        0o600
    );
    t.file("f", b"content");
    drop(open(t, &mut d, "f", OpenFlags::WRITE_ONLY | OpenFlags::TRUNCATE).unwrap());
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"");
    let unnamed = open(t, &mut d, ".", OpenFlags::READ_WRITE | OpenFlags::TMPFILE).unwrap();
    assert_eq!(
        run(&mut d, proactor_engine::op::Write::at(&unnamed, 0, b"x")),
        Ok(1)
    );
}

fn open_how(t: &Case) {
    const RESOLVE_NO_SYMLINKS: u64 = 4;
    const RESOLVE_BENEATH: u64 = 8;
    let mut d = t.driver();
    t.file("f", b"");
    std::os::unix::fs::symlink("f", t.path("link")).unwrap();
    let dir = t.open(".", libc::O_RDONLY);
    let mut errno = |open: Open| d.run(open).map(drop).map_err(|e| e.errno());
    assert_eq!(
        errno(
            Open::new(c"link", OpenFlags::READ_ONLY)
                .dir(&dir)
                .resolve(ResolveFlags::from_bits(RESOLVE_BENEATH))
        ),
        Ok(())
    );
    assert_eq!(
        errno(
            Open::new(c"link", OpenFlags::READ_ONLY)
                .dir(&dir)
                .resolve(ResolveFlags::from_bits(RESOLVE_NO_SYMLINKS))
        ),
        Err(libc::ELOOP)
    );
    assert_eq!(
        errno(
            Open::new(c"../x", OpenFlags::READ_ONLY)
                .dir(&dir)
                .resolve(ResolveFlags::from_bits(RESOLVE_BENEATH))
        ),
        Err(libc::EXDEV)
    );
    assert_eq!(
        errno(
            Open::new(c"f", OpenFlags::READ_ONLY)
                .dir(&dir)
                .resolve(ResolveFlags::from_bits(1 << 40))
        ),
        Err(libc::EINVAL)
    );
    // openat2(2): a mode where nothing is created, and flags that nobody knows.
    assert_eq!(
        errno(Open::new(c"f", OpenFlags::READ_ONLY).dir(&dir).mode(0o600)),
        Err(libc::EINVAL)
    );
    let mut unknown = Open::new(c"f", OpenFlags::READ_ONLY).dir(&dir);
    unknown.flags |= OpenFlags::from_bits(1 << 29);
    assert_eq!(errno(unknown), Err(libc::EINVAL));
}

fn open_relative(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let dir = t.open(".", libc::O_RDONLY);
    d.run(Open::new(c"f", OpenFlags::READ_ONLY).dir(&dir)).unwrap();
    let mut errno = |handle: Handle| {
        d.run(Open::new(c"f", OpenFlags::READ_ONLY).dir(handle))
            .unwrap_err()
            .errno()
    };
    assert_eq!(errno((&file).into()), libc::ENOTDIR);
    assert_eq!(errno(Handle::NONE), libc::EBADF);
    assert_eq!(run(&mut d, Mkdir::new(c"sub", 0o700).dir(&dir)), Ok(0));
    let rename = Rename::new(c"f", c"sub/g").from_dir(&dir).to_dir(&dir);
    assert_eq!(run(&mut d, rename), Ok(0));
    assert_eq!(run(&mut d, Unlink::new(c"sub/g").dir(&dir)), Ok(0));
}

fn close_errors(t: &Case) {
    let mut d = t.driver();
    let file = crate::testkit::open(&t.path("."), libc::O_RDONLY);
    let fd = file.as_raw_fd();
    let link = format!("/proc/self/fd/{fd}");
    assert_eq!(std::fs::read_link(&link).unwrap(), t.path(""));
    assert_eq!(run(&mut d, Close::new(file)), Ok(0));
    assert!(
        std::fs::read_link(&link).map_or(true, |other| other != t.path("")),
        "still open"
    );
    // Far above what any test opens meanwhile, so the number stays nobody's.
    // SAFETY: no pointers; the number is closed behind its owner's back on purpose, and nobody else has it.
    let gone = unsafe {
        let gone = libc::fcntl(
            t.open(".", libc::O_RDONLY).as_raw_fd(),
            libc::F_DUPFD_CLOEXEC,
            15_000 + fd,
        );
        libc::close(gone);
        <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(gone)
    };
    assert_eq!(run(&mut d, Close::new(gone)), Err(libc::EBADF));
}

fn statx(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    std::os::unix::fs::symlink("f", t.path("link")).unwrap();
    let mut stat = |op: Statx| match finish(&mut d, op) {
        (Ok(0), Some(Op::Statx(op))) => {
            Ok((op.stat().stx_size, u32::from(op.stat().stx_mode) & libc::S_IFMT))
        }
        (res, _) => Err(res.unwrap_err()),
    };
    assert_eq!(stat(Statx::new(t.c_path("f"))), Ok((10, libc::S_IFREG)));
    assert_eq!(stat(Statx::new(t.c_path("link"))), Ok((10, libc::S_IFREG)));
    assert_eq!(stat(Statx::of(&file)), Ok((10, libc::S_IFREG)));
    let link = with(Statx::new(t.c_path("link")), |op| {
        op.flags = AtFlags::SYMLINK_NOFOLLOW
    });
    assert_eq!(stat(link), Ok((1, libc::S_IFLNK)));
    assert_eq!(stat(Statx::new(t.c_path("missing"))), Err(libc::ENOENT));
    assert_eq!(stat(Statx::new(t.c_path("f/x"))), Err(libc::ENOTDIR));
    assert_eq!(stat(Statx::new(c"")), Err(libc::ENOENT));
    assert_eq!(
        stat(with(Statx::new(t.c_path("f")), |op| op.mask =
            StatxMask::from_bits(1 << 31))),
        Err(libc::EINVAL)
    );
    assert_eq!(
        stat(with(Statx::new(t.c_path("f")), |op| op.flags =
            AtFlags::from_bits(1 << 30))),
        Err(libc::EINVAL)
    );
    assert_eq!(stat(Statx::of(bare(1_000_000))), Err(libc::EBADF));
}

/// What needs no waiting is answered as the backend would, and what might wait is left alone.
fn statx_at_once(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    std::os::unix::fs::symlink("f", t.path("link")).unwrap();
    let no_follow = |name| {
        with(Statx::new(t.c_path(name)), |op| {
            op.flags = AtFlags::SYMLINK_NOFOLLOW
        })
    };
    let makers: [&dyn Fn() -> Statx; 7] = [
        &|| Statx::of(&file),
        &|| Statx::new(t.c_path("f")),
        &|| Statx::new(t.c_path("link")),
        &|| no_follow("link"),
        &|| Statx::new(t.c_path(".")),
        &|| Statx::new(t.c_path("missing")),
        &|| Statx::new(t.c_path("f/x")),
    ];
    let answer = |op: &Statx| {
        let stat = op.stat();
        (
            stat.stx_ino,
            stat.stx_mode,
            stat.stx_size,
            stat.stx_nlink,
            stat.stx_mtime.tv_nsec,
        )
    };
    let mut at_once = 0;
    for make in makers {
        let expected = match finish(&mut d, make()) {
            (Ok(_), Some(Op::Statx(op))) => Ok(answer(&op)),
            (res, _) => Err(res.unwrap_err()),
        };
        let mut op = Op::from(make());
        // A mount or rename anywhere may keep the kernel from answering out of its cache.
        let tried = (0..10).find_map(|_| op.attempt());
        if let (Some(result), Op::Statx(statx)) = (tried, &op) {
            assert_eq!(result.map(|_| answer(statx)).map_err(|e| e.errno()), expected);
            at_once += 1;
        }
    }
    // Paths need openat2 with RESOLVE_CACHED, as reading a cached file does.
    let cached = (0..10).any(|_| Op::from(ReadFile::new(t.c_path("f"))).attempt().is_some());
    if local(&file) {
        assert!(
            at_once >= if cached { 5 } else { 1 },
            "{at_once}, cached: {cached}"
        );
    }

    let tried = |op: Statx| Op::from(op).attempt().is_some();
    assert!(!tried(Statx::new(c"/proc/self/status")), "not local");
    assert!(
        !tried(Statx::of(bare(-1))) && !tried(Statx::of(bare(1_000_000))),
        "no such file"
    );
    assert!(
        !tried(with(Statx::new(t.c_path("f")), |op| op.flags =
            AtFlags::from_bits(1 << 30))),
        "an unknown flag"
    );
    assert!(!tried(with(Statx::new(t.c_path("f")), |op| op.flags =
        AtFlags::STATX_FORCE_SYNC)));
    assert!(!tried(Statx::new(c"")), "nothing named");
}

/// Two of the local file systems, on which tests usually run.
fn local(file: &File) -> bool {
    // SAFETY: zero is a valid initial value, and the struct outlives the call.
    let kind = unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        assert_eq!(libc::fstatfs(file.as_raw_fd(), &raw mut stat), 0);
        stat.f_type
    };
    kind == libc::EXT4_SUPER_MAGIC || kind == libc::TMPFS_MAGIC
}

fn rename(t: &Case) {
    let mut d = t.driver();
    t.file("a", b"a");
    t.file("b", b"b");
    assert_eq!(run(&mut d, Rename::new(t.c_path("a"), t.c_path("b"))), Ok(0));
    assert_eq!(std::fs::read(t.path("b")).unwrap(), b"a");
    t.file("c", b"c");
    let exchange = Rename::new(t.c_path("b"), t.c_path("c")).flags(RenameFlags::EXCHANGE);
    assert_eq!(run(&mut d, exchange), Ok(0));
    assert_eq!(std::fs::read(t.path("b")).unwrap(), b"c");
}

fn unlink(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"");
    std::fs::create_dir_all(t.path("full/sub")).unwrap();
    let mut res = |op: Unlink| run(&mut d, op);
    assert_eq!(res(Unlink::directory(t.c_path("f"))), Err(libc::ENOTDIR));
    assert_eq!(res(Unlink::new(t.c_path("f"))), Ok(0));
    assert_eq!(res(Unlink::new(t.c_path("f"))), Err(libc::ENOENT));
    assert_eq!(res(Unlink::new(t.c_path("full"))), Err(libc::EISDIR));
    assert_eq!(res(Unlink::directory(t.c_path("full"))), Err(libc::ENOTEMPTY));
    assert_eq!(res(Unlink::directory(t.c_path("full/sub"))), Ok(0));
    assert_eq!(
        res(Unlink::new(t.c_path("full")).flags(AtFlags::from_bits(1))),
        Err(libc::EINVAL)
    );
}

fn mkdir(t: &Case) {
    let mut d = t.driver();
    let mut res = |name: &str| run(&mut d, Mkdir::new(t.c_path(name), 0o700));
    assert_eq!(res("dir"), Ok(0));
    assert_eq!(res("dir"), Err(libc::EEXIST));
    assert_eq!(res("missing/dir"), Err(libc::ENOENT));
    t.file("f", b"");
    assert_eq!(res("f"), Err(libc::EEXIST));
    assert_eq!(res("f/dir"), Err(libc::ENOTDIR));
}

fn link(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"content");
    assert_eq!(run(&mut d, Link::new(t.c_path("f"), t.c_path("g"))), Ok(0));
    assert_eq!(std::fs::read(t.path("g")).unwrap(), b"content");
    assert_eq!(
        run(&mut d, Link::new(t.c_path("f"), t.c_path("g"))),
        Err(libc::EEXIST)
    );
    assert_eq!(
        run(&mut d, Link::new(t.c_path("missing"), t.c_path("h"))),
        Err(libc::ENOENT)
    );
    assert_eq!(
        run(&mut d, Link::new(t.c_path("."), t.c_path("h"))),
        Err(libc::EPERM),
        "a directory"
    );
    let bad = Link::new(t.c_path("f"), t.c_path("h")).flags(AtFlags::from_bits(1 << 20));
    assert_eq!(run(&mut d, bad), Err(libc::EINVAL));
    if t.require("root") {
        let of = Link::new(c"", t.c_path("h"))
            .from_dir(&file)
            .flags(AtFlags::EMPTY_PATH);
        assert_eq!(run(&mut d, of), Ok(0));
    }
}

fn symlink(t: &Case) {
    let mut d = t.driver();
    assert_eq!(run(&mut d, Symlink::new(c"no/where", t.c_path("link"))), Ok(0));
    assert_eq!(
        std::fs::read_link(t.path("link")).unwrap(),
        std::path::Path::new("no/where")
    );
    assert_eq!(
        run(&mut d, Symlink::new(c"no/where", t.c_path("link"))),
        Err(libc::EEXIST)
    );
    assert_eq!(
        run(&mut d, Symlink::new(c"", t.c_path("other"))),
        Err(libc::ENOENT)
    );
    assert_eq!(
        run(&mut d, Symlink::new(c"x", t.c_path("missing/link"))),
        Err(libc::ENOENT)
    );
}
