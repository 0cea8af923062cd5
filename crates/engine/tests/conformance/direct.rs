//! O_DIRECT.

use crate::testkit::{bytes_of, finish, outcomes, run, Case};
use proactor_engine::buffer::{AlignedBuf, Buf};
use proactor_engine::op::{File, Read, ReadV, Write, WriteV};

conformance! { inline { aligned, unaligned, end_of_file, many } once { dropped_in_flight } }

/// A file of this size, open with O_DIRECT, and its alignment.
fn direct(t: &Case, size: usize) -> Option<(File, usize, usize)> {
    if !t.require("o_direct") {
        return None;
    }
    let content: Vec<u8> = (0..size).map(|i| (i / 512) as u8).collect();
    t.file("f", &content);
    let file = t.open("f", libc::O_RDWR | libc::O_DIRECT);
    let alignment = file.direct_alignment().expect("it opens with O_DIRECT");
    Some((file, alignment.memory.max(512), alignment.offset))
}

fn aligned(t: &Case) {
    let Some((file, memory, offset)) = direct(t, 1 << 16) else {
        return;
    };
    let mut d = t.driver();
    let mut buffer = AlignedBuf::zeroed(offset, memory);
    buffer.fill(b'x');
    assert_eq!(run(&mut d, Write::at(&file, offset as u64, buffer)), Ok(offset));
    let (res, op) = finish(&mut d, Read::at(&file, 0, AlignedBuf::new(2 * offset, memory)));
    assert_eq!(res, Ok(2 * offset));
    assert!(bytes_of(op)[offset..] == vec![b'x'; offset]);
    let parts = || {
        vec![
            Buf::from(AlignedBuf::zeroed(offset, memory)),
            AlignedBuf::zeroed(2 * offset, memory).into(),
        ]
    };
    assert_eq!(run(&mut d, WriteV::at(&file, 0, parts())), Ok(3 * offset));
    assert_eq!(run(&mut d, ReadV::at(&file, 0, parts())), Ok(3 * offset));
}

fn unaligned(t: &Case) {
    let Some((file, memory, offset)) = direct(t, 1 << 16) else {
        return;
    };
    let mut d = t.driver();
    let buffer = || AlignedBuf::zeroed(offset, memory);
    let refused = proactor_engine::Error::from(d.run(Read::at(&file, 1, buffer())).unwrap_err());
    assert_eq!(refused.errno(), libc::EINVAL);
    assert!(refused.hint().is_some_and(|hint| hint.contains("aligned")));
    assert_eq!(run(&mut d, Write::at(&file, 1, buffer())), Err(libc::EINVAL));
    let mut short = buffer();
    short.set_len(offset - 1);
    assert_eq!(run(&mut d, Write::at(&file, 0, short)), Err(libc::EINVAL));
}

fn end_of_file(t: &Case) {
    let Some((file, memory, offset)) = direct(t, 5000) else {
        return;
    };
    let mut d = t.driver();
    let buffer = || AlignedBuf::new(16 * offset.max(512), memory);
    assert_eq!(run(&mut d, Read::at(&file, 0, buffer())), Ok(5000));
    assert_eq!(run(&mut d, Read::at(&file, 16 * offset as u64, buffer())), Ok(0));
}

fn many(t: &Case) {
    let Some((file, memory, offset)) = direct(t, 1 << 18) else {
        return;
    };
    let mut d = t.config().depth(16).build().unwrap();
    let blocks = (1 << 18) / offset;
    for i in 0..blocks {
        d.submit(Read::at(
            &file,
            (i * offset) as u64,
            AlignedBuf::new(offset, memory),
        ))
        .unwrap();
    }
    assert!(outcomes(&mut d, blocks).values().all(|res| *res == Ok(offset)));
}

/// The device writes into memory that must outlive the driver's wish to be gone. (A sanitizer or a guard page would see
/// it; here the allocator gets the memory back and hands it out again at once.)
fn dropped_in_flight(t: &Case) {
    let Some((file, memory, offset)) = direct(t, 1 << 20) else {
        return;
    };
    for _ in 0..20 {
        let mut d = t.driver();
        for i in 0..64 {
            d.submit(Read::at(
                &file,
                (i * offset) as u64,
                AlignedBuf::new(offset, memory),
            ))
            .unwrap();
        }
        d.flush().unwrap();
        drop(d);
        let fresh: Vec<AlignedBuf> = (0..64).map(|_| AlignedBuf::zeroed(offset, memory)).collect();
        assert!(
            fresh.iter().all(|b| b.iter().all(|&byte| byte == 0)),
            "somebody writes into freed memory"
        );
    }
}
