//! What is read ahead with O_DIRECT, op by op.

use crate::rig::Rig;
use crate::{direct, Bytes};
use proactor_engine::op::{Op, OpenFlags};
use proactor_engine::{Driver, Error};
use proactor_file::{Buffered, Options, Step};
use std::sync::Arc;
use tempfile::TempDir;

const BLOCK: usize = 16;

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| at as u8).collect()
}

fn opened(len: usize, reads_ahead: bool) -> (TempDir, Rig) {
    opened_by(BLOCK, len, reads_ahead)
}

fn opened_by(block: usize, len: usize, reads_ahead: bool) -> (TempDir, Rig) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, content(len)).unwrap();
    let options = Options {
        block,
        direct: direct(),
        reads_ahead,
        ..Options::default()
    };
    (
        dir,
        Rig::open(Driver::new().unwrap(), &path, options, OpenFlags::NONE),
    )
}

fn read(rig: &mut Rig, count: usize) -> Vec<u8> {
    rig.file.begin();
    let found = rig.until(|file| file.fill(count));
    let data = rig.file.unread()[..found].to_vec();
    rig.file.consume(found);
    data
}

/// The place and the length of the next op, which is in flight from now on.
fn next_read(rig: &mut Rig) -> Option<(u64, usize, Op)> {
    match rig.file.start() {
        Some(Op::Read(read)) => Some((read.offset.unwrap(), read.buffer.len(), Op::Read(read))),
        _ => None,
    }
}

fn done(rig: &mut Rig, op: Op) {
    let token = rig.driver.submit(op).unwrap();
    let done = rig.driver.completion_of(token).unwrap();
    rig.file.finish(done.op, done.result);
}

#[test]
fn the_second_read_in_a_row_begins_it() {
    let (_dir, mut rig) = opened(100, true);
    assert_eq!(read(&mut rig, BLOCK), content(16));
    assert!(!rig.file.wants_op(), "one read is no sequence");
    assert_eq!(read(&mut rig, 4), content(20)[16..]);
    assert!(rig.file.is_reading_ahead(), "the rig has started what was wanted");
    rig.take();
    assert_eq!((rig.file.unread().len(), rig.file.coming()), (12, 28));
    assert!(!rig.file.wants_op(), "one block is enough");
    assert_eq!(rig.file.unread(), &content(32)[20..]);
    // The next one goes out as soon as this one is used.
    assert_eq!(rig.file.fill(14), Ok(Step::Ready(14)));
    let (at, len, op) = next_read(&mut rig).unwrap();
    assert_eq!((at, len), (48, BLOCK));
    done(&mut rig, op);
    assert_eq!(read(&mut rig, 100), content(100)[20..]);
}

#[test]
fn a_longer_read_is_followed_by_one_as_long() {
    let (_dir, mut rig) = opened(200, true);
    assert_eq!(read(&mut rig, BLOCK), content(16));
    let memory = Bytes::zeroed(50);
    let begun = rig.until(|file| match file.read_long(Arc::clone(&memory) as _, 0, false)? {
        true => Ok(Step::Ready(true)),
        false => Ok(Step::Blocked),
    });
    assert!(begun);
    let found = rig.until(Buffered::long_read);
    rig.file.take_long(found);
    // 66 is at no block: nothing is read ahead from there.
    assert_eq!((found, next_read(&mut rig).is_none()), (50, true));
    assert_eq!(read(&mut rig, 46), content(112)[66..]);
    assert!(rig.file.is_reading_ahead());
    rig.take();
    assert_eq!(rig.file.coming(), 48, "46 in whole blocks");
    assert_eq!(read(&mut rig, 100), content(200)[112..]);
}

#[test]
fn a_long_read_begins_with_all_that_was_read_ahead() {
    let (_dir, mut rig) = opened(100, true);
    assert_eq!(read(&mut rig, BLOCK), content(16));
    assert_eq!(read(&mut rig, 4), content(20)[16..]);
    rig.take();
    assert_eq!((rig.file.unread().len(), rig.file.coming()), (12, 28));
    let memory = Bytes::zeroed(60);
    assert_eq!(rig.file.read_long(Arc::clone(&memory) as _, 0, false), Ok(true));
    let (at, _, op) = next_read(&mut rig).unwrap();
    assert_eq!(at, 48, "none of it is read again");
    done(&mut rig, op);
    assert_eq!(rig.until(Buffered::long_read), 60);
    assert_eq!(memory.to_vec(), content(80)[20..]);
}

#[test]
fn a_long_read_waits_until_it_is_known_what_comes_before_it() {
    const LONG: usize = 16 * 1024;
    let (_dir, mut rig) = opened_by(LONG, 5 * LONG, true);
    assert_eq!(read(&mut rig, LONG), content(LONG));
    // A cancelled call's, which is the second in a row.
    assert_eq!(rig.file.fill(1), Ok(Step::Blocked));
    rig.start();
    rig.file.give_up();
    assert_eq!(rig.file.is_long(3 * LONG), Step::Blocked);
    rig.take();
    rig.start();
    assert!(rig.file.is_reading_ahead());
    assert_eq!(rig.file.is_long(3 * LONG), Step::Blocked);
    assert_eq!(rig.file.is_long(2 * LONG), Step::Ready(false), "all of it comes");
    rig.take();
    assert_eq!(rig.file.is_long(3 * LONG), Step::Ready(true));
    assert_eq!(read(&mut rig, 4 * LONG), content(5 * LONG)[LONG..]);
}

#[test]
fn nothing_beyond_the_end() {
    let (_dir, mut rig) = opened(37, true);
    for at in [0, 16] {
        assert_eq!(read(&mut rig, BLOCK), content(32)[at..at + BLOCK]);
    }
    // Whole blocks, of which the file has a part.
    rig.take();
    assert_eq!(rig.file.coming(), 5);
    assert_eq!(read(&mut rig, BLOCK), content(37)[32..]);
    assert_eq!(read(&mut rig, BLOCK), b"");
    assert!(!rig.file.wants_op());
}

#[test]
fn its_error_is_told_to_nobody() {
    let (_dir, mut rig) = opened(100, true);
    for _ in 0..2 {
        read(&mut rig, BLOCK);
    }
    assert!(rig.file.is_reading_ahead());
    let mut late = Vec::new();
    rig.driver.wait(1, 1, None, &mut late).unwrap();
    rig.file
        .finish(late.remove(0).op, Err(Error::new(libc::EIO, "read")));
    assert_eq!(rig.file.coming(), 0);
    // Who gets there reads again, and that one's error is theirs.
    assert_eq!(rig.file.fill(1), Ok(Step::Blocked));
    let (at, _, op) = next_read(&mut rig).unwrap();
    assert_eq!(at, 32);
    rig.file.finish(Some(op), Err(Error::new(libc::EIO, "read")));
    assert_eq!(rig.file.fill(1).unwrap_err().errno(), libc::EIO);
    assert_eq!(read(&mut rig, 100), content(100)[32..]);
}

#[test]
fn what_was_changed_meanwhile_is_read_again() {
    for landed in [false, true] {
        let (dir, mut rig) = opened(100, true);
        for _ in 0..2 {
            read(&mut rig, BLOCK);
        }
        assert!(rig.file.is_reading_ahead());
        let mut done = Vec::new();
        rig.driver.wait(1, 1, None, &mut done).unwrap();
        let done = done.remove(0);
        let mut new = content(100);
        new[40] = 255;
        std::fs::write(dir.path().join("f"), &new).unwrap();
        if landed {
            rig.file.finish(done.op, done.result);
            rig.file.changed(40, 1);
        } else {
            rig.file.changed(40, 1);
            rig.file.begin();
            rig.file.finish(done.op, done.result);
        }
        assert_eq!(read(&mut rig, 100), new[32..], "landed: {landed}");
    }
}

#[test]
fn it_is_thrown_away_elsewhere() {
    let (_dir, mut rig) = opened(100, true);
    for _ in 0..2 {
        read(&mut rig, BLOCK);
    }
    rig.take();
    assert_eq!(rig.file.coming(), BLOCK);
    rig.until(Buffered::settle);
    rig.file.seek(3);
    assert_eq!(rig.file.coming(), 0);
    assert_eq!(read(&mut rig, 5), content(8)[3..]);
    assert!(!rig.file.wants_op());
}

#[test]
fn only_if_it_may() {
    let (_dir, mut rig) = opened(100, false);
    for _ in 0..3 {
        read(&mut rig, BLOCK);
        assert!(!rig.file.wants_op());
    }
}
