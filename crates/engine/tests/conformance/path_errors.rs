//! Ops on paths that fail: the same errno everywhere, and the path in the error.

use crate::paths::open;
use crate::testkit::{c_path, collect, outcome, run, Case};
use proactor_engine::op::{Link, Mkdir, Op, Open, OpenFlags, Rename, RenameFlags, Statx, Symlink, Unlink};
use std::ffi::CString;

conformance! {
    files {
        open_errors, rename_errors, loops, names_too_long, not_a_directory, errors_name_the_path,
    }
    once { across_file_systems }
}

fn open_errors(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"");
    std::os::unix::fs::symlink("f", t.path("link")).unwrap();
    let mut errno = |name: &str, flags| open(t, &mut d, name, flags).map(drop).unwrap_err();
    assert_eq!(errno("missing", OpenFlags::READ_ONLY), libc::ENOENT);
    assert_eq!(errno("missing/f", OpenFlags::READ_ONLY), libc::ENOENT);
    assert_eq!(errno("", OpenFlags::READ_WRITE), libc::EISDIR);
    assert_eq!(errno(".", OpenFlags::WRITE_ONLY), libc::EISDIR);
    assert_eq!(errno("f/x", OpenFlags::READ_ONLY), libc::ENOTDIR);
    assert_eq!(
        errno("f", OpenFlags::READ_ONLY | OpenFlags::DIRECTORY),
        libc::ENOTDIR
    );
    assert_eq!(
        errno(
            "f",
            OpenFlags::WRITE_ONLY | OpenFlags::CREATE | OpenFlags::EXCLUSIVE
        ),
        libc::EEXIST
    );
    assert_eq!(
        errno("link", OpenFlags::READ_ONLY | OpenFlags::NOFOLLOW),
        libc::ELOOP
    );
    let empty = d.run(Open::new(c"", OpenFlags::READ_ONLY));
    assert_eq!(empty.unwrap_err().errno(), libc::ENOENT);
}

fn rename_errors(t: &Case) {
    let mut d = t.driver();
    t.file("a", b"a");
    t.file("b", b"b");
    std::fs::create_dir_all(t.path("full/sub")).unwrap();
    std::fs::create_dir(t.path("dir")).unwrap();
    let mut errno = |from: &str, to: &str, flags| {
        run(&mut d, Rename::new(t.c_path(from), t.c_path(to)).flags(flags)).unwrap_err()
    };
    assert_eq!(errno("missing", "b", RenameFlags::NONE), libc::ENOENT);
    assert_eq!(errno("a", "b", RenameFlags::NO_REPLACE), libc::EEXIST);
    assert_eq!(errno("a", "dir", RenameFlags::NONE), libc::EISDIR);
    assert_eq!(errno("dir", "a", RenameFlags::NONE), libc::ENOTDIR);
    assert_eq!(errno("dir", "full", RenameFlags::NONE), libc::ENOTEMPTY);
    assert_eq!(errno("full", "full/sub/x", RenameFlags::NONE), libc::EINVAL);
    assert_eq!(errno("a", "b", RenameFlags::from_bits(1 << 20)), libc::EINVAL);
    assert_eq!(errno("a", "missing", RenameFlags::EXCHANGE), libc::ENOENT);
}

fn loops(t: &Case) {
    let mut d = t.driver();
    std::os::unix::fs::symlink("b", t.path("a")).unwrap();
    std::os::unix::fs::symlink("a", t.path("b")).unwrap();
    assert_eq!(
        open(t, &mut d, "a", OpenFlags::READ_ONLY).map(drop).unwrap_err(),
        libc::ELOOP
    );
    assert_eq!(run(&mut d, Statx::new(t.c_path("a/x"))), Err(libc::ELOOP));
    assert_eq!(run(&mut d, Mkdir::new(t.c_path("a/x"), 0o700)), Err(libc::ELOOP));
}

fn names_too_long(t: &Case) {
    let mut d = t.driver();
    let long = "x".repeat(256);
    assert_eq!(
        open(t, &mut d, &long, OpenFlags::READ_ONLY)
            .map(drop)
            .unwrap_err(),
        libc::ENAMETOOLONG
    );
    assert_eq!(
        run(&mut d, Mkdir::new(t.c_path(&long), 0o700)),
        Err(libc::ENAMETOOLONG)
    );
    let deep = CString::new("x/".repeat(2500)).unwrap();
    assert_eq!(run(&mut d, Statx::new(deep.clone())), Err(libc::ENAMETOOLONG));
    assert_eq!(run(&mut d, Unlink::new(deep.clone())), Err(libc::ENAMETOOLONG));
    assert_eq!(
        run(&mut d, Rename::new(deep.clone(), t.c_path("x"))),
        Err(libc::ENAMETOOLONG)
    );
    assert_eq!(
        run(&mut d, Symlink::new(deep, t.c_path("x"))),
        Err(libc::ENAMETOOLONG)
    );
}

fn not_a_directory(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"");
    t.file("g", b"");
    assert_eq!(
        run(&mut d, Rename::new(t.c_path("f/x"), t.c_path("y"))),
        Err(libc::ENOTDIR)
    );
    assert_eq!(
        run(&mut d, Link::new(t.c_path("g"), t.c_path("f/x"))),
        Err(libc::ENOTDIR)
    );
    assert_eq!(
        run(&mut d, Symlink::new(c"g", t.c_path("f/x"))),
        Err(libc::ENOTDIR)
    );
    assert_eq!(run(&mut d, Unlink::new(t.c_path("f/x"))), Err(libc::ENOTDIR));
}

fn errors_name_the_path(t: &Case) {
    let mut d = t.driver();
    let path = t.c_path("missing");
    let ops: Vec<Op> = vec![
        Open::new(path.clone(), OpenFlags::READ_ONLY).into(),
        Statx::new(path.clone()).into(),
        Rename::new(path.clone(), t.c_path("x")).into(),
        Unlink::new(path.clone()).into(),
        Link::new(path.clone(), t.c_path("x")).into(),
        proactor_engine::op::ReadFile::new(path.clone()).into(),
    ];
    for op in ops {
        let name = op.name();
        d.submit(op).unwrap();
        let completion = collect(&mut d, 1).remove(0);
        assert_eq!(outcome(&completion), Err(libc::ENOENT));
        let error = completion.result.unwrap_err();
        assert_eq!((error.op(), error.path()), (name, Some(&path)));
        assert!(error.to_string().contains("missing"));
    }
}

fn across_file_systems(t: &Case) {
    if !t.require("tmpfs") {
        return;
    }
    let mut d = t.driver();
    t.file("f", b"");
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let to = c_path(&elsewhere.path().join("f"));
    assert_eq!(
        run(&mut d, Rename::new(t.c_path("f"), to.clone())),
        Err(libc::EXDEV)
    );
    assert_eq!(run(&mut d, Link::new(t.c_path("f"), to)), Err(libc::EXDEV));
}
