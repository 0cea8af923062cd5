//! Extended attributes.

use crate::testkit::{finish, run, Case};
use proactor_engine::op::{
    GetXattr, Handle, ListXattr, Op, OpKind, RemoveXattr, SetXattr, XattrFlags, XattrTarget,
};
use proactor_engine::Driver;

pub const COVERS: &[OpKind] = &[
    OpKind::GetXattr,
    OpKind::SetXattr,
    OpKind::ListXattr,
    OpKind::RemoveXattr,
];

conformance! { files { by_path, by_descriptor, of_a_link, errors } }

fn get(d: &mut Driver, target: XattrTarget, capacity: usize) -> Result<(usize, Vec<u8>), i32> {
    let op = GetXattr::new(target, c"user.color", Vec::with_capacity(capacity));
    match finish(d, op) {
        (Ok(count), Some(Op::GetXattr(op))) => Ok((count, op.buffer.into_vec())),
        (res, _) => Err(res.unwrap_err()),
    }
}

fn set(d: &mut Driver, target: XattrTarget, value: &[u8], flags: i32) -> Result<usize, i32> {
    run(
        d,
        SetXattr::new(target, c"user.color", value).flags(XattrFlags::from_bits(flags)),
    )
}

fn list(d: &mut Driver, target: XattrTarget, capacity: usize) -> Result<(usize, Vec<u8>), i32> {
    match finish(d, ListXattr::new(target, Vec::with_capacity(capacity))) {
        (Ok(count), Some(Op::ListXattr(op))) => Ok((count, op.buffer.into_vec())),
        (res, _) => Err(res.unwrap_err()),
    }
}

fn round_trip(t: &Case, target: impl Fn() -> XattrTarget) {
    let mut d = t.driver();
    let d = &mut d;
    assert_eq!(set(d, target(), b"green", libc::XATTR_CREATE), Ok(0));
    assert_eq!(set(d, target(), b"red", libc::XATTR_CREATE), Err(libc::EEXIST));
    assert_eq!(get(d, target(), 64), Ok((5, b"green".to_vec())));
    assert_eq!(
        get(d, target(), 0),
        Ok((5, vec![])),
        "capacity 0 asks for the size"
    );
    assert_eq!(get(d, target(), 4), Err(libc::ERANGE));
    assert_eq!(set(d, target(), b"", 0), Ok(0));
    assert_eq!(get(d, target(), 64), Ok((0, vec![])));
    let (_, names) = list(d, target(), 256).unwrap();
    assert!(names.split(|&b| b == 0).any(|name| name == b"user.color"));
    assert_eq!(list(d, target(), 0).unwrap().0, names.len());
    assert_eq!(list(d, target(), 3), Err(libc::ERANGE));
    let remove = |target| RemoveXattr::new(target, c"user.color");
    assert_eq!(run(d, remove(target())), Ok(0));
    assert_eq!(run(d, remove(target())), Err(libc::ENODATA));
    assert_eq!(get(d, target(), 64), Err(libc::ENODATA));
    assert_eq!(set(d, target(), b"red", libc::XATTR_REPLACE), Err(libc::ENODATA));
}

fn by_path(t: &Case) {
    if t.require("user_xattr") {
        t.file("f", b"");
        round_trip(t, || XattrTarget::Path(t.c_path("f").into()));
    }
}

fn by_descriptor(t: &Case) {
    if t.require("user_xattr") {
        let file = t.file("f", b"");
        round_trip(t, || XattrTarget::File((&file).into()));
    }
}

/// The kernel allows no `user.` attributes on symbolic links, so that the two ways of naming one differ.
fn of_a_link(t: &Case) {
    if !t.require("user_xattr") {
        return;
    }
    let mut d = t.driver();
    t.file("f", b"");
    std::os::unix::fs::symlink("f", t.path("link")).unwrap();
    let link = || XattrTarget::LinkPath(t.c_path("link").into());
    assert_eq!(
        set(&mut d, XattrTarget::Path(t.c_path("link").into()), b"green", 0),
        Ok(0)
    );
    assert_eq!(set(&mut d, link(), b"green", 0), Err(libc::EPERM));
    assert_eq!(
        get(&mut d, XattrTarget::Path(t.c_path("link").into()), 9),
        Ok((5, b"green".to_vec()))
    );
    assert_eq!(get(&mut d, link(), 9), Err(libc::ENODATA));
    assert_eq!(
        run(&mut d, RemoveXattr::new(link(), c"user.color")),
        Err(libc::EPERM)
    );
    let (_, names) = list(&mut d, link(), 256).unwrap();
    assert!(!names.split(|&b| b == 0).any(|name| name == b"user.color"));
}

fn errors(t: &Case) {
    let mut d = t.driver();
    let missing = || XattrTarget::Path(t.c_path("missing").into());
    assert_eq!(get(&mut d, missing(), 9), Err(libc::ENOENT));
    assert_eq!(set(&mut d, missing(), b"x", 0), Err(libc::ENOENT));
    assert_eq!(list(&mut d, missing(), 9), Err(libc::ENOENT));
    assert_eq!(get(&mut d, XattrTarget::File(Handle::NONE), 9), Err(libc::EBADF));
    t.file("f", b"");
    let f = || XattrTarget::Path(t.c_path("f").into());
    let unknown = GetXattr::new(f(), c"nobody.knows", Vec::with_capacity(9));
    assert_eq!(run(&mut d, unknown), Err(libc::EOPNOTSUPP));
    let long = std::ffi::CString::new("user.".to_string() + &"x".repeat(256)).unwrap();
    let long = GetXattr::new(f(), long, Vec::with_capacity(9));
    assert_eq!(
        run(&mut d, long),
        Err(libc::ERANGE),
        "Linux says ERANGE for a name that is too long"
    );
    assert_eq!(set(&mut d, f(), b"x", 1 << 10), Err(libc::EINVAL));
    let huge = SetXattr::new(f(), c"user.color", vec![0; 65_537]);
    assert_eq!(run(&mut d, huge), Err(libc::E2BIG));
}
