//! What is done only to be quicker: cold sources, long files in parts, shares of a directory. The copies are the same.

mod support;

use proactor_copy::{Options, Reflink, Target};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use support::{assert_same, copy_as, on_progress, place};

/// A file from which on several threads copy it, as `content.rs` has it.
const LONG_BYTES: u64 = 64 << 20;

fn options(jobs: usize) -> Options {
    Options {
        jobs,
        reflink: Reflink::Never,
        ..Options::archive()
    }
}

/// Bytes of which no two pages are alike.
fn bytes(length: u64) -> Vec<u8> {
    (0..length.div_ceil(8))
        .flat_map(|word| (word ^ length).to_le_bytes())
        .take(length as usize)
        .collect()
}

/// Takes a file out of the page cache, where it has one to itself.
fn forget(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    // SAFETY: the descriptor is open until after the call, and no memory is handed over.
    let done = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(done, 0);
}

#[test]
fn sources_that_are_not_in_memory() {
    let (_here, source, target) = place();
    for directory in ["one", "two"] {
        fs::create_dir_all(source.join(directory)).unwrap();
        for number in 0..150 {
            let path = source.join(directory).join(number.to_string());
            fs::write(&path, bytes(number * number * 20)).unwrap();
            // Some stay: each share of a directory may have both.
            if !(20..=80).contains(&number) {
                forget(&path);
            }
        }
    }
    copy_as(&options(2), &source, &target);
    assert_same(&source, &target);
}

/// Threads in reserve help with them, unless the user has said how many there are to be.
#[test]
fn long_directories_that_are_not_in_memory() {
    let (_here, source, target) = place();
    for directory in 0..8 {
        let directory = source.join(directory.to_string());
        fs::create_dir_all(&directory).unwrap();
        for number in 0..200 {
            let path = directory.join(number.to_string());
            fs::write(&path, bytes(number * 300)).unwrap();
            forget(&path);
        }
    }
    let report = copy_as(&options(0), &source, &target);
    assert_eq!((report.files, report.directories), (8 * 200, 9));
    assert_same(&source, &target);
}

#[test]
fn a_long_file() {
    let (_here, source, target) = place();
    for (jobs, length) in [(2, LONG_BYTES), (5, LONG_BYTES + 12_345), (0, LONG_BYTES + 1)] {
        fs::write(&source, bytes(length)).unwrap();
        let told = AtomicU64::new(0);
        let hooks = on_progress(|bytes| {
            told.fetch_add(bytes, Ordering::Relaxed);
        });
        let report = hooks.run(&options(jobs), &source, Target::As(target.clone()));
        assert_eq!((report.files, report.failures, report.bytes), (1, 0, length));
        assert_eq!(told.into_inner(), length);
        assert!(fs::read(&source).unwrap() == fs::read(&target).unwrap());
    }
}

#[test]
fn a_long_file_that_gets_short() {
    let (_here, source, target) = place();
    fs::write(&source, bytes(LONG_BYTES)).unwrap();
    let cut = AtomicBool::new(false);
    let hooks = on_progress(|_| {
        if !cut.swap(true, Ordering::Relaxed) {
            let file = fs::File::options().write(true).open(&source).unwrap();
            file.set_len(1_000).unwrap();
        }
    });
    let report = hooks.run(&options(2), &source, Target::As(target.clone()));
    assert_eq!((report.files, report.failures), (1, 0));
    assert!(fs::read(&source).unwrap() == fs::read(&target).unwrap());
}

#[test]
fn long_files_beside_short_ones() {
    let (_here, source, target) = place();
    fs::create_dir(&source).unwrap();
    for number in 0..100 {
        let length = if number % 3 == 0 { 1 << 20 } else { number * 1_000 };
        fs::write(source.join(number.to_string()), bytes(length)).unwrap();
    }
    for jobs in [1, 3] {
        let target = target.with_extension(jobs.to_string());
        let report = copy_as(&options(jobs), &source, &target);
        assert_eq!((report.files, report.directories), (100, 1));
        assert_same(&source, &target);
    }
}
