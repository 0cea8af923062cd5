//! What was written is read back and compared; and a copy that goes at a given rate.

mod support;

use proactor_copy::{Options, Sparse, Target};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{assert_same, copy_as, on_progress, place, run};

fn verified() -> Options {
    Options {
        verify: true,
        ..Options::archive()
    }
}

/// What grows in a directory under a name that is not final.
fn growing(dir: &Path, name: &str) -> PathBuf {
    let mut entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let partial = entries.find(|entry| {
        entry
            .file_name()
            .to_str()
            .unwrap()
            .starts_with(&format!("{name}.partial-"))
    });
    partial.unwrap().path()
}

/// Copies 300,000 bytes while somebody else writes to the copy; returns how many failed and what was told.
fn spoiled(options: &Options, spoil: impl Fn(&fs::File) + Sync) -> String {
    let (here, source, target) = place();
    fs::write(&source, vec![7; 300_000]).unwrap();
    let bytes = AtomicU64::new(0);
    let hooks = on_progress(|now| {
        // After the last write, and before anything is read back.
        if bytes.fetch_add(now, Ordering::Relaxed) + now == 300_000 {
            let copy = growing(here.path(), "target");
            spoil(&fs::File::options().write(true).open(copy).unwrap());
        }
    });
    let report = hooks.run(options, &source, Target::As(target.clone()));
    assert_eq!((report.files, report.verified, report.failures), (0, 0, 1));
    assert_eq!(support::names(here.path()), ["source"]);
    hooks.notes.text()
}

#[test]
fn a_file_that_differs_gets_no_name() {
    let plain = Options {
        reflink: proactor_copy::Reflink::Never,
        ..verified()
    };
    for (offset, bytes) in [(0, &b"x"[..]), (299_999, b"x"), (131_072, b"\x07\x07x")] {
        let first = offset + bytes.iter().take_while(|&&byte| byte == 7).count() as u64;
        let told = spoiled(&plain, |copy| copy.write_all_at(bytes, offset).unwrap());
        assert!(told.starts_with("Differs"), "{told}");
        assert!(told.contains(&format!("offset: {first}")), "{told}");
    }
    let told = spoiled(&plain, |copy| copy.set_len(299_000).unwrap());
    assert!(told.contains("offset: 299000"), "{told}");
    let told = spoiled(&plain, |copy| copy.set_len(300_001).unwrap());
    assert!(told.contains("offset: 300000"), "{told}");
}

#[test]
fn a_hole_is_to_be_a_hole() {
    for sparse in [Sparse::Auto, Sparse::Always, Sparse::Never] {
        let (here, source, target) = place();
        let file = fs::File::create(&source).unwrap();
        file.write_all_at(b"data", 1 << 20).unwrap();
        file.set_len(4 << 20).unwrap();
        let options = Options { sparse, ..verified() };
        let report = copy_as(&options, &source, &target);
        assert_eq!((report.files, report.verified), (1, 1));
        fs::remove_file(&target).unwrap();
        let bytes = AtomicU64::new(0);
        let hooks = on_progress(|now| {
            if bytes.fetch_add(now, Ordering::Relaxed) + now == 4 << 20 {
                let copy = fs::File::options()
                    .write(true)
                    .open(growing(here.path(), "target"));
                copy.unwrap().write_all_at(b"x", 3 << 20).unwrap();
            }
        });
        let report = hooks.run(&options, &source, Target::As(target.clone()));
        assert_eq!(
            (report.verified, report.failures),
            (0, 1),
            "{}",
            hooks.notes.text()
        );
        assert!(hooks.notes.text().contains(&format!("offset: {}", 3 << 20)));
    }
}

#[test]
fn the_rest_of_a_tree_is_copied() {
    let (here, source, target) = place();
    fs::create_dir(&source).unwrap();
    for name in ["a", "b", "empty"] {
        fs::write(source.join(name), name.repeat(1000)).unwrap();
    }
    fs::write(source.join("empty"), "").unwrap();
    fs::hard_link(source.join("b"), source.join("c")).unwrap();
    let hooks = on_progress(|_| {
        let copy = growing(here.path(), "target").join("a");
        if let Ok(copy) = fs::File::options().write(true).open(copy) {
            copy.write_all_at(b"x", 0).unwrap();
        }
    });
    let options = Options {
        jobs: 1,
        ..verified()
    };
    let report = hooks.run(&options, &source, Target::As(target.clone()));
    assert_eq!((report.files, report.verified, report.failures), (2, 2, 1));
    assert_eq!(support::names(&target), ["b", "c", "empty"]);
    fs::remove_dir_all(&target).unwrap();
    let report = copy_as(&verified(), &source, &target);
    assert_eq!((report.files, report.verified), (3, 3));
    assert_same(&source, &target);
}

#[test]
fn a_short_copy_of_another_length_differs() {
    for length in [2000, 3001] {
        let (here, source, target) = place();
        fs::create_dir(&source).unwrap();
        fs::write(source.join("a"), [7; 3000]).unwrap();
        let hooks = on_progress(|_| {
            let copy = growing(here.path(), "target").join("a");
            let copy = fs::File::options().write(true).open(copy).unwrap();
            copy.set_len(length).unwrap();
        });
        let report = hooks.run(&verified(), &source, Target::As(target.clone()));
        assert_eq!((report.verified, report.failures), (0, 1), "{length}");
        let told = hooks.notes.text();
        assert!(told.contains(&format!("offset: {}", length.min(3000))), "{told}");
    }
}

#[test]
fn a_source_that_changes_is_read_again_before_anything_is_said() {
    let (_here, source, target) = place();
    fs::write(&source, "before").unwrap();
    let once = AtomicBool::new(true);
    let hooks = on_progress(|_| {
        if once.swap(false, Ordering::Relaxed) {
            fs::write(&source, "after!").unwrap();
        }
    });
    let report = hooks.run(&verified(), &source, Target::As(target.clone()));
    assert_eq!(
        (report.verified, report.failures),
        (1, 0),
        "{}",
        hooks.notes.text()
    );
    assert_eq!(fs::read(&target).unwrap(), b"after!");
}

#[test]
fn in_place_and_what_cannot_be_verified() {
    let (_here, source, target) = place();
    fs::write(&source, vec![1; 5000]).unwrap();
    fs::write(&target, "was there").unwrap();
    let options = Options {
        in_place: true,
        ..verified()
    };
    assert_eq!(copy_as(&options, &source, &target).verified, 1);
    // It says that it is empty, and tells something else each time.
    let (report, told) = run(&verified(), &[Path::new("/proc/self/stat")], Target::As(target));
    assert_eq!((report.files, report.verified, told.as_str()), (1, 0, ""));
}

#[test]
fn so_many_bytes_a_second() {
    let (_here, source, target) = place();
    fs::create_dir(&source).unwrap();
    for number in 0..4 {
        fs::write(source.join(format!("{number}")), vec![number; 100_000]).unwrap();
    }
    let options = Options {
        bwlimit: 1_000_000,
        jobs: 4,
        reflink: proactor_copy::Reflink::Never,
        ..Options::archive()
    };
    let begin = Instant::now();
    copy_as(&options, &source, &target);
    // The last of them waits for the others' turns, and not for its own end.
    assert!(
        begin.elapsed() >= Duration::from_millis(300),
        "{:?}",
        begin.elapsed()
    );
    assert_same(&source, &target);
}

#[test]
fn a_slow_copy_ends_at_once() {
    let (_here, source, target) = place();
    fs::write(&source, vec![1; 1 << 20]).unwrap();
    let options = Options {
        bwlimit: 1,
        reflink: proactor_copy::Reflink::Never,
        ..Options::default()
    };
    let begun = AtomicBool::new(false);
    let hooks = on_progress(|_| begun.store(true, Ordering::Relaxed));
    let report = std::thread::scope(|scope| {
        let copy = scope.spawn(|| hooks.run(&options, &source, Target::As(target.clone())));
        while !begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        // The next turn is in more than an hour.
        hooks.notes.stop.store(true, Ordering::Relaxed);
        copy.join().unwrap()
    });
    assert!(report.stopped && report.duration < Duration::from_secs(600));
    assert!(!target.exists());
}
