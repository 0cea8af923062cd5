//! Ops on open files that carry no data.

use crate::testkit::{bare, pipe, run, Case};
use proactor_engine::op::{
    Advice, Advise, Allocate, AllocateMode, Fsync, Handle, Op, OpKind, SyncRange, SyncRangeFlags, Truncate,
};

pub const COVERS: &[OpKind] = &[
    OpKind::Fsync,
    OpKind::SyncRange,
    OpKind::Allocate,
    OpKind::Advise,
    OpKind::Truncate,
];

conformance! {
    files { sync, truncate, allocate, advise }
    inline { bad_descriptors, pipes }
}

fn sync(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"content");
    assert_eq!(run(&mut d, Fsync::new(&file)), Ok(0));
    assert_eq!(run(&mut d, Fsync::data(&file)), Ok(0));
    assert_eq!(
        run(&mut d, Fsync::new(t.open(".", libc::O_RDONLY))),
        Ok(0),
        "a directory"
    );
    let range = |offset, flags| SyncRange::new(&file, offset, 4, flags);
    assert_eq!(run(&mut d, range(0, SyncRangeFlags::WRITE)), Ok(0));
    assert_eq!(
        run(&mut d, range(0, SyncRangeFlags::from_bits(1 << 20))),
        Err(libc::EINVAL)
    );
    assert_eq!(
        run(&mut d, range(u64::MAX, SyncRangeFlags::NONE)),
        Err(libc::EINVAL)
    );
}

fn truncate(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let mut to = |file: &proactor_engine::op::File, len| run(&mut d, Truncate::new(file, len));
    assert_eq!(to(&file, 4), Ok(0));
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"0123");
    assert_eq!(to(&file, 6), Ok(0));
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"0123\0\0");
    assert_eq!(to(&file, u64::MAX), Err(libc::EINVAL));
    assert_eq!(
        to(&t.open("f", libc::O_RDONLY), 0),
        Err(libc::EINVAL),
        "not open for writing"
    );
    assert_eq!(
        to(&t.open(".", libc::O_RDONLY), 0),
        Err(libc::EINVAL),
        "a directory"
    );
}

fn allocate(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let op = |mode, offset, len| Allocate::new(&file, offset, len).mode(mode);
    assert_eq!(run(&mut d, op(AllocateMode::NONE, 0, 100)), Ok(0));
    assert_eq!(std::fs::metadata(t.path("f")).unwrap().len(), 100);
    assert_eq!(run(&mut d, op(AllocateMode::KEEP_SIZE, 0, 1 << 16)), Ok(0));
    assert_eq!(std::fs::metadata(t.path("f")).unwrap().len(), 100);
    assert_eq!(
        run(
            &mut d,
            op(AllocateMode::KEEP_SIZE | AllocateMode::PUNCH_HOLE, 2, 3)
        ),
        Ok(0)
    );
    assert_eq!(&std::fs::read(t.path("f")).unwrap()[..10], b"01\0\0\x0056789");
    assert_eq!(run(&mut d, op(AllocateMode::NONE, 0, 0)), Err(libc::EINVAL));
    assert_eq!(
        run(&mut d, op(AllocateMode::NONE, u64::MAX, 1)),
        Err(libc::EINVAL)
    );
    assert_eq!(
        run(&mut d, op(AllocateMode::PUNCH_HOLE, 0, 1)),
        Err(libc::EOPNOTSUPP),
        "needs KEEP_SIZE"
    );
    let read_only = t.open("f", libc::O_RDONLY);
    assert_eq!(run(&mut d, Allocate::new(&read_only, 0, 1)), Err(libc::EBADF));
}

fn advise(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    for advice in [
        Advice::Normal,
        Advice::Random,
        Advice::Sequential,
        Advice::WillNeed,
        Advice::DontNeed,
        Advice::NoReuse,
    ] {
        assert_eq!(run(&mut d, Advise::new(&file, 0, 0, advice)), Ok(0), "{advice:?}");
    }
}

fn each_on(handle: &Handle) -> Vec<Op> {
    let file = || handle.clone();
    vec![
        Fsync::new(file()).into(),
        Fsync::data(file()).into(),
        SyncRange::new(file(), 0, 1, SyncRangeFlags::NONE).into(),
        Allocate::new(file(), 0, 1).into(),
        Advise::new(file(), 0, 0, Advice::Normal).into(),
        Truncate::new(file(), 1).into(),
    ]
}

fn bad_descriptors(t: &Case) {
    let mut d = t.driver();
    for op in each_on(&bare(1_000_000)) {
        let name = op.name();
        assert_eq!(run(&mut d, op), Err(libc::EBADF), "{name}");
    }
}

fn pipes(t: &Case) {
    let mut d = t.driver();
    let (_reader, writer) = pipe();
    let expected = [
        libc::EINVAL,
        libc::EINVAL,
        libc::ESPIPE,
        libc::ESPIPE,
        libc::ESPIPE,
        libc::EINVAL,
    ];
    for (op, errno) in each_on(&(&writer).into()).into_iter().zip(expected) {
        let name = op.name();
        assert_eq!(run(&mut d, op), Err(errno), "{name}");
    }
}
