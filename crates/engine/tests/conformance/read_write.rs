//! Reads and writes that succeed, on files.

use crate::testkit::{bytes_of, collect, finish, outcomes, run, Case};
use proactor_engine::buffer::Buf;
use proactor_engine::op::{OpKind, Read, ReadV, RwFlags, Write, WriteV};
use std::os::fd::AsRawFd;

pub const COVERS: &[OpKind] = &[OpKind::Read, OpKind::Write, OpKind::ReadV, OpKind::WriteV];

conformance! {
    files {
        round_trip, vectored_round_trip, short_read_at_eof, end_of_file_is_zero, zero_length, empty_vectors,
        offset_leaves_position_alone, append, append_flag, sync_flags, no_wait, largest_vector, sparse_hole,
        polling_flag_is_only_a_wish, large_transfer,
    }
    inline { many_at_once }
}

fn round_trip(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    assert_eq!(run(&mut d, Write::at(&file, 3, b"proactor")), Ok(8));
    let (res, op) = finish(&mut d, Read::at(&file, 0, Vec::with_capacity(64)));
    assert_eq!(res, Ok(11));
    assert_eq!(bytes_of(op), b"\0\0\0proactor");
}

fn vectored_round_trip(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let parts: Vec<Buf> = vec![b"ops ".into(), b"".into(), b"go ".into(), b"in".into()];
    assert_eq!(run(&mut d, WriteV::at(&file, 0, parts)), Ok(9));
    let into: Vec<Buf> = [2, 5, 0, 50].map(|n| Vec::with_capacity(n).into()).into();
    let (res, op) = finish(&mut d, ReadV::at(&file, 1, into));
    assert_eq!(res, Ok(8));
    assert_eq!(bytes_of(op), b"ps go in");
}

fn short_read_at_eof(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let (res, op) = finish(&mut d, Read::at(&file, 6, Vec::with_capacity(100)));
    assert_eq!((res, bytes_of(op)), (Ok(4), b"6789".to_vec()));
}

fn end_of_file_is_zero(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    for offset in [10, 11, 1 << 40] {
        let (res, op) = finish(&mut d, Read::at(&file, offset, Vec::with_capacity(100)));
        assert_eq!((res, bytes_of(op)), (Ok(0), vec![]));
    }
    let empty = t.file("empty", b"");
    assert_eq!(run(&mut d, Read::new(&empty, Vec::with_capacity(1))), Ok(0));
}

fn zero_length(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    assert_eq!(run(&mut d, Read::at(&file, 0, Box::<[u8]>::default())), Ok(0));
    assert_eq!(run(&mut d, Write::at(&file, 100, b"")), Ok(0));
    assert_eq!(
        std::fs::read(t.path("f")).unwrap().len(),
        10,
        "a write of nothing changes nothing"
    );
}

fn empty_vectors(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    assert_eq!(run(&mut d, ReadV::at(&file, 0, vec![])), Ok(0));
    assert_eq!(run(&mut d, WriteV::at(&file, 0, vec![])), Ok(0));
    assert_eq!(
        run(
            &mut d,
            ReadV::at(&file, 0, vec![Vec::new().into(), Vec::new().into()])
        ),
        Err(libc::EINVAL),
        "it would look like the end of the file"
    );
}

fn position(fd: i32) -> i64 {
    // SAFETY: no pointers.
    unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }
}

fn offset_leaves_position_alone(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let (res, op) = finish(&mut d, Read::new(&file, Vec::with_capacity(4)));
    assert_eq!((res, bytes_of(op)), (Ok(4), b"0123".to_vec()));
    assert_eq!(position(file.as_raw_fd()), 4);
    assert_eq!(run(&mut d, Read::at(&file, 8, Vec::with_capacity(4))), Ok(2));
    assert_eq!(position(file.as_raw_fd()), 4);
    assert_eq!(run(&mut d, Write::new(&file, b"XY")), Ok(2));
    assert_eq!(position(file.as_raw_fd()), 6);
    assert_eq!(run(&mut d, Write::at(&file, 0, b"A")), Ok(1));
    let (res, op) = finish(
        &mut d,
        ReadV::new(
            &file,
            vec![Vec::with_capacity(2).into(), Vec::with_capacity(9).into()],
        ),
    );
    assert_eq!((res, bytes_of(op)), (Ok(4), b"6789".to_vec()));
    assert_eq!(run(&mut d, WriteV::new(&file, vec![b"Z".into()])), Ok(1));
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"A123XY6789Z");
}

fn append(t: &Case) {
    let mut d = t.driver();
    t.file("f", b"0123456789");
    let file = t.open("f", libc::O_WRONLY | libc::O_APPEND);
    assert_eq!(run(&mut d, Write::new(&file, b"a")), Ok(1));
    // Linux: O_APPEND beats the offset of a pwrite.
    assert_eq!(run(&mut d, Write::at(&file, 0, b"b")), Ok(1));
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"0123456789ab");
}

fn append_flag(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    assert_eq!(
        run(&mut d, Write::at(&file, 2, b"a").flags(RwFlags::APPEND)),
        Ok(1)
    );
    assert_eq!(
        run(
            &mut d,
            WriteV::at(&file, 2, vec![b"b".into()]).flags(RwFlags::APPEND)
        ),
        Ok(1)
    );
    assert_eq!(std::fs::read(t.path("f")).unwrap(), b"0123456789ab");
}

fn sync_flags(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    assert_eq!(
        run(&mut d, Write::at(&file, 0, b"ab").flags(RwFlags::DSYNC)),
        Ok(2)
    );
    assert_eq!(
        run(&mut d, Write::at(&file, 2, b"cd").flags(RwFlags::SYNC)),
        Ok(2)
    );
    assert_eq!(
        run(
            &mut d,
            Read::at(&file, 0, Vec::with_capacity(9)).flags(RwFlags::DSYNC)
        ),
        Ok(4)
    );
}

/// A cached page needs no waiting. (Whether an uncached one gives EAGAIN depends on timing; streams show that.) tmpfs
/// refuses the flag with EOPNOTSUPP, on every engine.
fn no_wait(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    let mut bytes = [0u8; 10];
    let iovec = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: 10,
    };
    // SAFETY: one segment, a live local.
    let plain = match unsafe { libc::preadv2(file.as_raw_fd(), &raw const iovec, 1, 0, libc::RWF_NOWAIT) } {
        -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
        count => Ok(count as usize),
    };
    assert_eq!(
        run(
            &mut d,
            Read::at(&file, 0, Vec::with_capacity(10)).flags(RwFlags::NOWAIT)
        ),
        plain
    );
}

fn largest_vector(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let parts: Vec<Buf> = (0..1024u32).map(|i| vec![i as u8; 3].into()).collect();
    assert_eq!(run(&mut d, WriteV::at(&file, 0, parts)), Ok(3072));
    let into: Vec<Buf> = (0..1024).map(|_| Vec::with_capacity(3).into()).collect();
    let (res, op) = finish(&mut d, ReadV::at(&file, 0, into));
    assert_eq!(res, Ok(3072));
    assert!(bytes_of(op)
        .chunks(3)
        .enumerate()
        .all(|(i, chunk)| chunk == [i as u8; 3]));
}

fn sparse_hole(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    assert_eq!(run(&mut d, Write::at(&file, 1 << 33, b"far")), Ok(3));
    let (res, op) = finish(&mut d, Read::at(&file, (1 << 33) - 2, Vec::with_capacity(9)));
    assert_eq!((res, bytes_of(op)), (Ok(5), b"\0\0far".to_vec()));
}

/// RWF_HIPRI asks for polling "if the file system and device support it", says preadv2(2); a file that does not is read
/// all the same.
fn polling_flag_is_only_a_wish(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"0123456789");
    assert_eq!(
        run(
            &mut d,
            Read::at(&file, 0, Vec::with_capacity(10)).flags(RwFlags::HIPRI)
        ),
        Ok(10)
    );
    assert_eq!(
        run(&mut d, Write::at(&file, 0, b"x").flags(RwFlags::HIPRI)),
        Ok(1)
    );
}

fn large_transfer(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let data: Vec<u8> = (0..3u32 << 20)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    assert_eq!(run(&mut d, Write::at(&file, 1, data.clone())), Ok(data.len()));
    // SAFETY: no pointers. Pages that have left the cache make an inline read stop half way.
    unsafe {
        libc::fsync(file.as_raw_fd());
        libc::posix_fadvise(file.as_raw_fd(), 1 << 20, 1 << 20, libc::POSIX_FADV_DONTNEED);
    }
    let (res, op) = finish(&mut d, Read::at(&file, 1, Vec::with_capacity(data.len() + 5)));
    assert_eq!(res, Ok(data.len()));
    assert!(bytes_of(op) == data, "the bytes differ");
}

fn many_at_once(t: &Case) {
    let mut d = t.driver();
    let file = t.file("f", b"");
    let writes: Vec<_> = (0..200u64)
        .map(|i| d.submit(Write::at(&file, i * 8, &i.to_le_bytes())).unwrap())
        .collect();
    let done = outcomes(&mut d, 200);
    assert!(writes.iter().all(|token| done[token] == Ok(8)));
    let mut reads = std::collections::HashMap::new();
    for i in 0..200u64 {
        reads.insert(
            d.submit(Read::at(&file, i * 8, Vec::with_capacity(8))).unwrap(),
            i,
        );
    }
    for completion in collect(&mut d, 200) {
        let number = reads[&completion.token];
        assert_eq!(bytes_of(completion.op), number.to_le_bytes());
    }
}
