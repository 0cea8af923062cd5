//! What a journal says that its disk, its neighbours or a crash has spoilt.

use super::*;
use crate::sys::disk::Disks;

const A: Key = Key::TOP;

fn asked() -> (Asked, Vec<u8>) {
    let asked = Asked {
        targets: 1,
        sources: 2,
        options: 3,
    };
    (asked, b"source".into())
}

/// A journal that writes a barrier after each batch, the disk that it is on, and its directory.
fn begun(place: &std::path::Path) -> (Journal, Arc<Disk>, OwnedFd) {
    let dir = OwnedFd::from(std::fs::File::open(place).unwrap());
    let disk = Disks::default().of(dir.as_fd()).unwrap();
    let every = Durable::Every(Duration::ZERO);
    let ours = dir.try_clone().unwrap();
    let journal = Journal::new(ours, c"t.partial-00000007", 7, every, Some(disk.clone())).unwrap();
    (journal, disk, dir)
}

fn write(journal: &Journal, at: Key, file: &Stat) {
    let mut batch = Batch::default();
    batch.finished(at, file, 0, None);
    journal.append(&mut batch, &asked);
}

/// Returns what is believed of what was left, in the life of the reader or in another one.
fn left(dir: &OwnedFd, at: Key, file: &Stat, same_life: bool) -> bool {
    let found = take(dir.as_fd(), b"t").unwrap().unwrap();
    let life = life::life(&found.file) ^ u64::from(!same_life);
    let before = Before::read(found.file.as_fd(), found.head_bytes, life).unwrap();
    before.has_file(at, file, file, true)
}

#[test]
fn a_barrier_is_about_what_was_written_before_it() {
    let place = tempfile::tempdir().unwrap();
    let (journal, _, dir) = begun(place.path());
    let file = sys::stat(dir.as_fd()).unwrap();
    write(&journal, A, &file);
    let mut batch = Batch::default();
    batch.finished(A.child(c"later"), &file, 0, None);
    journal.hold(&mut batch);
    drop(journal);
    assert!(left(&dir, A, &file, true));
    assert!(left(&dir, A, &file, false));
    assert!(!left(&dir, A.child(c"later"), &file, false));
}

#[test]
fn no_barrier_is_written_before_the_disk_has_what_it_is_about() {
    let place = tempfile::tempdir().unwrap();
    let (journal, disk, dir) = begun(place.path());
    disk.fail(rustix::io::Errno::IO);
    write(&journal, A, &sys::stat(dir.as_fd()).unwrap());
    drop(journal);
    let found = take(dir.as_fd(), b"t").unwrap().unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::fs::File::from(found.file), &mut bytes).unwrap();
    let records = bytes[found.head_bytes..].chunks(format::RECORD_BYTES);
    let barriers =
        records.filter(|record| (0..9).any(|count| *record == format::record(format::BARRIER, count)));
    assert_eq!(barriers.count(), 0);
}

#[test]
fn records_after_a_torn_one_are_read() {
    let place = tempfile::tempdir().unwrap();
    let (journal, _, dir) = begun(place.path());
    let file = sys::stat(dir.as_fd()).unwrap();
    write(&journal, A, &file);
    drop(journal);
    let found = take(dir.as_fd(), b"t").unwrap().unwrap();
    sys::write_all(found.file.as_fd(), &[7; format::RECORD_BYTES / 2 + 1]).unwrap();
    let next = Journal::new(
        dir.try_clone().unwrap(),
        c"t.partial-00000007",
        7,
        Durable::Every(Duration::MAX),
        None,
    );
    let next = next.unwrap().go_on(found).unwrap();
    write(&next, A.child(c"later"), &file);
    drop(next);
    assert!(left(&dir, A, &file, true));
    assert!(left(&dir, A.child(c"later"), &file, true));
}

#[test]
fn after_a_disk_has_failed_nothing_is_believed() {
    let place = tempfile::tempdir().unwrap();
    let (journal, disk, dir) = begun(place.path());
    let file = sys::stat(dir.as_fd()).unwrap();
    write(&journal, A, &file);
    disk.fail(rustix::io::Errno::IO);
    // What another thread had in hand by then is no better.
    for name in [c"other", c"last"] {
        write(&journal, A.child(name), &file);
    }
    drop(journal);
    for key in [A, A.child(c"other"), A.child(c"last")] {
        assert!(!left(&dir, key, &file, true));
    }
}

#[test]
fn one_that_ended_early_goes_as_well() {
    let place = tempfile::tempdir().unwrap();
    let (journal, disk, dir) = begun(place.path());
    let file = sys::stat(dir.as_fd()).unwrap();
    disk.fail(rustix::io::Errno::NOSPC);
    write(&journal, A, &file);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    journal.finish(false, &asked).unwrap();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn one_that_has_gone_since_it_was_listed_is_none() {
    let place = tempfile::tempdir().unwrap();
    let dir = OwnedFd::from(std::fs::File::open(place.path()).unwrap());
    let name = name_of(c"t.partial-00000007");
    assert!(find::open(dir.as_fd(), &name).unwrap().is_none());
}
