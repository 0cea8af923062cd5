//! What a random program rarely meets.

use crate::bytes::Bytes;
use crate::rig::Rig;
use proactor_engine::buffer::Buf;
use proactor_engine::op::{File, Op, OpenFlags};
use proactor_engine::{Driver, Error, Output};
use proactor_file::{Buffered, Options, Step, Transfer};

#[test]
fn an_error_is_told_once_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut rig = Rig::open(Driver::new().unwrap(), &path, Options::default(), OpenFlags::NONE);
    rig.until(|file| file.put(b"kept"));
    assert_eq!(rig.file.flush(), Ok(Step::Blocked));
    let op = rig.file.start().unwrap();
    rig.file.finish(Some(op), Err(Error::new(libc::ENOSPC, "write")));
    assert!(!rig.file.put_at_once(b"x"), "an error has to be told");
    assert_eq!(rig.file.put(b"x").unwrap_err().errno(), libc::ENOSPC);
    assert_eq!(rig.file.put(b" and more"), Ok(Step::Ready(())));
    rig.until(Buffered::settle);
    assert_eq!(std::fs::read(&path).unwrap(), b"kept and more");
}

#[test]
fn nothing_is_put_at_once_beside_a_large_write_or_before_its_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut rig = Rig::open(Driver::new().unwrap(), &path, Options::default(), OpenFlags::NONE);
    assert_eq!(
        rig.file.put_large(&mut Some(Buf::from(&b"large"[..]))),
        Ok(Step::Blocked)
    );
    assert!(!rig.file.put_at_once(b"x"), "it is queued");
    let op = rig.file.start().unwrap();
    assert!(!rig.file.put_at_once(b"x"), "it is in flight");
    rig.file.finish(Some(op), Err(Error::new(libc::ENOSPC, "write")));
    assert!(!rig.file.put_at_once(b"x"), "an error has to be told");
    assert_eq!(rig.file.put(b"x").unwrap_err().errno(), libc::ENOSPC);
    assert!(rig.file.put_at_once(b"x"));
}

#[test]
fn a_long_read_that_was_given_up_ends_with_its_op() {
    const LONG: usize = 16 * 1024;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, vec![7; 2 * LONG]).unwrap();
    let mut rig = Rig::open(Driver::new().unwrap(), &path, Options::default(), OpenFlags::NONE);
    let memory = Bytes::zeroed(2 * LONG);
    assert_eq!(rig.file.read_long(memory as _, 0, false), Ok(true));
    let op = rig.file.start().unwrap();
    assert!(rig.file.give_up());
    rig.file.finish(Some(op), Ok(Output::Count(1)));
    assert!(rig.file.start().is_none());
    assert_eq!(rig.file.position(), 0);
    assert!(!rig.file.give_up());
}

#[test]
fn a_closed_file_closes_its_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::open(
        Driver::new().unwrap(),
        &dir.path().join("f"),
        Options::default(),
        OpenFlags::NONE,
    );
    rig.until(|file| file.put(b"data"));
    rig.until(Buffered::settle);
    let file: File = rig.file.take_file().unwrap();
    assert!(file.into_fd().is_ok(), "nobody else has it");
}

#[test]
fn written_by_hand_when_nobody_drives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut rig = Rig::open(
        Driver::new().unwrap(),
        &path,
        Options {
            block: 4,
            ..Options::default()
        },
        OpenFlags::NONE,
    );
    for part in [b"abcd", b"efgh"] {
        assert_eq!(rig.file.put(part), Ok(Step::Ready(())));
    }
    let mut left = rig.file.take();
    left.write_now().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"abcdefgh");
}

#[test]
fn what_a_driver_leaves_of_a_write_is_written_next() {
    let dir = tempfile::tempdir().unwrap();
    let of = |errno| Error::new(errno, "write");
    // The op is not run. What it says that it has written is a hole.
    let cases: [(Result<Output, Error>, &[u8]); 3] = [
        (Err(of(libc::ECANCELED)), b"abcd"),
        (Ok(Output::Count(1)), b"\0bcd"),
        (Ok(Output::Count(4)), b""),
    ];
    for (number, (result, expected)) in cases.into_iter().enumerate() {
        let path = dir.path().join(number.to_string());
        let mut rig = Rig::open(Driver::new().unwrap(), &path, Options::default(), OpenFlags::NONE);
        rig.until(|file| file.put(b"abcd"));
        assert_eq!(rig.file.flush(), Ok(Step::Blocked));
        let op = rig.file.start();
        assert!(rig.file.is_writing());
        rig.file.finish_last(op, result);
        assert!(!rig.file.is_writing());
        assert_eq!(
            rig.file.unwritten(),
            expected.iter().filter(|byte| **byte != 0).count()
        );
        rig.file.write_now().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), expected);
    }
}

#[test]
fn an_error_that_a_driver_leaves_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut rig = Rig::open(Driver::new().unwrap(), &path, Options::default(), OpenFlags::NONE);
    rig.until(|file| file.put(b"kept"));
    assert_eq!(rig.file.flush(), Ok(Step::Blocked));
    let op = rig.file.start();
    rig.file.finish_last(op, Err(Error::new(libc::ENOSPC, "write")));
    assert_eq!(rig.file.write_now().unwrap_err().errno(), libc::ENOSPC);
    assert_eq!(rig.file.unwritten(), 4);
    rig.file.write_now().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"kept");
}

#[test]
fn the_callers_own_memory_can_be_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut rig = Rig::open(Driver::new().unwrap(), &path, Options::default(), OpenFlags::NONE);
    assert_eq!(
        rig.file.put_large(&mut Some(Buf::from(&b"large"[..]))),
        Ok(Step::Blocked)
    );
    let op = rig.file.start();
    rig.file.finish_last(op, Ok(Output::Count(2)));
    assert_eq!(rig.file.unwritten(), 3);
    assert_eq!(rig.file.drop_large(), 3);
    assert!(!rig.file.is_dirty());
    // What is in the buffer stays.
    assert!(rig.file.put_at_once(b"small"));
    assert_eq!(rig.file.flush(), Ok(Step::Blocked));
    assert_eq!(rig.file.drop_large(), 0);
    assert_eq!(rig.file.unwritten(), 5);
}

#[test]
fn a_read_in_flight_may_bring_what_is_no_longer_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, b"old bytes").unwrap();
    let mut rig = Rig::open(Driver::new().unwrap(), &path, Options::default(), OpenFlags::NONE);
    assert_eq!(rig.file.fill(3), Ok(Step::Blocked));
    let op = rig.file.start().unwrap();
    let token = rig.driver.submit(op).unwrap();
    let done = rig.driver.completion_of(token).unwrap();
    std::fs::write(&path, b"new bytes").unwrap();
    rig.file.changed(0, 3);
    // The next call begins, and then the read comes back.
    rig.file.begin();
    rig.file.finish(done.op, done.result);
    assert_eq!(rig.until(|file| file.fill(9)), 9);
    assert_eq!(rig.file.unread(), b"new bytes");
    // Elsewhere: nothing is read again.
    rig.file.changed(9, 100);
    rig.file.begin();
    assert_eq!(rig.file.unread(), b"new bytes");
}

#[test]
fn a_long_read_waits_for_what_a_cancelled_one_brings() {
    const LONG: usize = 16 * 1024;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, vec![7; 2 * LONG]).unwrap();
    let options = Options {
        block: LONG,
        ..Options::default()
    };
    let mut rig = Rig::open(Driver::new().unwrap(), &path, options, OpenFlags::NONE);
    assert_eq!(rig.file.is_long(LONG), Step::Ready(true));
    assert_eq!(rig.file.fill(1), Ok(Step::Blocked));
    rig.start();
    rig.file.give_up();
    assert_eq!(rig.file.is_long(LONG), Step::Blocked);
    assert_eq!(rig.file.is_long(LONG - 1), Step::Ready(false));
    rig.take();
    assert_eq!(rig.file.unread().len(), LONG);
    assert_eq!(rig.file.is_long(LONG), Step::Ready(false));
    assert_eq!(rig.file.is_long(2 * LONG), Step::Ready(true));
}

/// Takes one byte of each write, until there is none left to start.
fn written_byte_by_byte(file: &mut Buffered) -> Vec<u8> {
    let mut written = Vec::new();
    let mut puts_back = false;
    while let Some(op) = file.start() {
        puts_back = !puts_back;
        if puts_back {
            file.put_back(op);
            continue;
        }
        let Op::Write(write) = &op else {
            panic!("not a write: {op:?}");
        };
        written.push(write.buffer.as_slice()[0]);
        file.finish(Some(op), Ok(Output::Count(1)));
    }
    written
}

#[test]
fn a_write_may_be_taken_in_any_number_of_parts() {
    // More than a stack has room for, were each rest inside the one before.
    const LEN: usize = 300_000;
    let data: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
    for (position, block) in [(None, LEN), (None, 0), (Some(0), LEN), (Some(0), 0)] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            position,
            block,
            ..Options::default()
        };
        let mut rig = Rig::open(
            Driver::new().unwrap(),
            &dir.path().join("f"),
            options,
            OpenFlags::NONE,
        );
        let mut large = Some(Buf::from(&*data));
        if block > 0 {
            assert_eq!(rig.file.put(&data), Ok(Step::Ready(())));
            assert_eq!(rig.file.flush(), Ok(Step::Blocked));
        } else {
            assert_eq!(rig.file.put_large(&mut large), Ok(Step::Blocked));
        }
        assert!(written_byte_by_byte(&mut rig.file) == data);
        assert_eq!(rig.file.flush(), Ok(Step::Ready(())));
        assert!(position.is_none() || rig.file.position() == LEN as u64);
    }
}

#[test]
fn after_a_short_write_and_an_error_the_rest_is_the_next_to_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut rig = Rig::open(Driver::new().unwrap(), &path, Options::default(), OpenFlags::NONE);
    rig.until(|file| file.put(b"abcdef"));
    assert_eq!(rig.file.flush(), Ok(Step::Blocked));
    for count in [2, 1] {
        let op = rig.file.start().unwrap();
        rig.file.finish(Some(op), Ok(Output::Count(count)));
    }
    let op = rig.file.start().unwrap();
    rig.file.finish(Some(op), Err(Error::new(libc::ENOSPC, "write")));
    assert_eq!(rig.file.flush().unwrap_err().errno(), libc::ENOSPC);
    rig.until(Buffered::settle);
    assert_eq!(std::fs::read(&path).unwrap(), b"\0\0\0def");
}

#[test]
fn a_long_list_of_short_transfers_is_looked_through_once() {
    const PIECES: usize = 200_000;
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::open(
        Driver::new().unwrap(),
        &dir.path().join("f"),
        Options::default(),
        OpenFlags::NONE,
    );
    let pieces = (0..PIECES).map(|at| Bytes::of(&[at as u8]) as _).collect();
    let file = rig.file.file().unwrap().clone();
    let mut transfer = Transfer::write(&file, 0, pieces);
    let mut written = Vec::new();
    while let Some(op) = transfer.op() {
        let Op::WriteV(write) = &op else {
            let Op::Write(write) = &op else { panic!("{op:?}") };
            written.extend_from_slice(write.buffer.as_slice());
            transfer.took(Some(op), Ok(Output::Count(1))).unwrap();
            continue;
        };
        // Of the 1,024 that are asked for, so many.
        let taken = write.buffers.len().min(100);
        written.extend(
            write.buffers[..taken]
                .iter()
                .flat_map(|buf| buf.as_slice().to_vec()),
        );
        transfer.took(Some(op), Ok(Output::Count(taken))).unwrap();
    }
    assert!(written.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    assert_eq!(transfer.done(), PIECES);
    assert!(rig.file.flush().is_ok());
}

/// A read that may not wait ends where a page is not in memory. It has met the end of the file nowhere else.
#[test]
fn a_chunk_is_whole_after_a_read_that_ended_with_a_page() {
    const CHUNK: usize = 8192;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    for (had, then, whole) in [(4096, CHUNK - 4096, CHUNK), (4096, 0, 4096), (4095, 1, 4095)] {
        std::fs::write(&path, vec![7; CHUNK]).unwrap();
        let mut rig = Rig::open(Driver::new().unwrap(), &path, Options::default(), OpenFlags::NONE);
        let mut counts = vec![had, then].into_iter();
        let found = loop {
            match rig.file.fill_chunk(CHUNK).unwrap() {
                Step::Ready(found) => break found,
                Step::Blocked => {
                    let op = rig.file.start().unwrap();
                    let count = counts.next().expect("no third read");
                    rig.file.finish(Some(op), Ok(Output::Count(count)));
                }
            }
        };
        assert_eq!(found, whole, "{had} bytes, then {then}");
    }
}
