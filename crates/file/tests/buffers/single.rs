//! What a random program rarely meets.

use crate::rig::Rig;
use proactor::op::File;
use proactor::{Driver, Error};
use proactor_file::{Buffered, Options, Step};

#[test]
fn an_error_is_told_once_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let mut rig = Rig::open(Driver::new().unwrap(), &path, Options::default(), 0);
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
fn a_closed_file_closes_its_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = Rig::open(
        Driver::new().unwrap(),
        &dir.path().join("f"),
        Options::default(),
        0,
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
        0,
    );
    for part in [b"abcd", b"efgh"] {
        assert_eq!(rig.file.put(part), Ok(Step::Ready(())));
    }
    let mut left = rig.file.take();
    left.write_now().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"abcdefgh");
}

#[test]
fn a_read_in_flight_may_bring_what_is_no_longer_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, b"old bytes").unwrap();
    let mut rig = Rig::open(Driver::new().unwrap(), &path, Options::default(), 0);
    assert_eq!(rig.file.fill(3), Ok(Step::Blocked));
    let op = rig.file.start().unwrap();
    let done = rig.driver.run(op).unwrap();
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
    let mut rig = Rig::open(Driver::new().unwrap(), &path, options, 0);
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
