//! Somebody works on the source or the target while we copy.

mod support;

use proactor_copy::{Kind, Options, Reflink, Target};
use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{symlink, FileExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use support::{engaged, in_ring, names, on_copied, on_progress, place, run};

/// More than one buffer, so that there is a middle.
const LARGE: usize = 3 << 20;

/// Without clones, which are done before anybody can do anything in between.
fn one_job() -> Options {
    Options {
        jobs: 1,
        reflink: Reflink::Never,
        ..Options::archive()
    }
}

fn tree(root: &Path) {
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    for name in ["a", "b", "sub/c", "sub/d", "sub/deep/e"] {
        fs::write(root.join(name), name).unwrap();
    }
}

/// The first time an entry of this name is copied, do something.
fn once(name: &'static str, act: impl Fn() + Sync) -> impl Fn(&proactor_copy::Copied<'_>) + Sync {
    let done = AtomicBool::new(false);
    move |entry| {
        if entry.target().ends_with(name) && !done.swap(true, Ordering::Relaxed) {
            act();
        }
    }
}

#[test]
fn a_target_directory_that_becomes_a_link_is_not_followed() {
    let (here, source, target) = place();
    let outside = here.path().join("outside");
    fs::create_dir(&outside).unwrap();
    tree(&source);
    fs::create_dir_all(target.join("sub/deep")).unwrap();
    let swap = || {
        fs::rename(target.join("sub"), target.join("away")).unwrap();
        symlink(&outside, target.join("sub")).unwrap();
    };
    let hooks = on_copied(once("sub", swap));
    hooks.run(&one_job(), &source, Target::As(target.clone()));
    assert!(names(&outside).is_empty());
    assert_eq!(
        names(&target.join("away")),
        ["c", "d", "deep"],
        "{}",
        hooks.notes.text()
    );
}

#[test]
fn a_link_in_an_existing_tree_is_replaced_and_not_followed() {
    let (here, source, target) = place();
    tree(&source);
    fs::create_dir_all(&target).unwrap();
    let outside = here.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    symlink(&outside, target.join("a")).unwrap();
    symlink(here.path(), target.join("sub")).unwrap();
    let (report, told) = run(&one_job(), &[&source], Target::As(target.clone()));
    assert_eq!(report.failures, 1, "{told}");
    assert!(told.contains("DirectoryOverFile"), "{told}");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    assert!(target.join("a").symlink_metadata().unwrap().is_file());
    assert_eq!(names(here.path()), ["outside", "source", "target"]);
}

#[test]
fn a_source_directory_that_becomes_a_link_is_not_followed() {
    if in_ring() {
        return; // It is open by then; `uring.rs` has this for many.
    }
    let (here, source, target) = place();
    tree(&source);
    let secret = here.path().join("secret");
    tree(&secret);
    let swap = || {
        fs::rename(source.join("sub"), here.path().join("away")).unwrap();
        symlink(&secret, source.join("sub")).unwrap();
    };
    // Files come before directories, so `sub` has been listed but not opened.
    let hooks = on_copied(once("a", swap));
    let report = hooks.run(&one_job(), &source, Target::As(target.clone()));
    assert_eq!(report.failures, 1, "{}", hooks.notes.text());
    assert!(hooks.notes.text().contains("ReadDirectory"));
    assert_eq!(names(&target), ["a", "b"]);
}

#[test]
fn a_file_that_becomes_a_link_or_a_fifo_is_copied_as_one() {
    if in_ring() {
        return; // It is open by then; `uring.rs` has this for many.
    }
    let (here, source, target) = place();
    fs::create_dir(&source).unwrap();
    for name in ["1", "2", "3"] {
        fs::write(source.join(name), name).unwrap();
    }
    fs::write(here.path().join("secret"), "secret").unwrap();
    let swapped = Cell::new(PathBuf::new());
    let swapped = std::sync::Mutex::new(swapped);
    let swap = |entry: &proactor_copy::Copied<'_>| {
        let swapped = swapped.lock().unwrap();
        if entry.kind != Kind::File || swapped.take() != Path::new("") {
            return;
        }
        swapped.set(entry.source());
        // Whichever was first: the others are swapped.
        let mut others: Vec<_> = ["1", "2", "3"].map(|name| source.join(name)).into();
        others.retain(|other| *other != entry.source());
        for other in &others {
            fs::remove_file(other).unwrap();
        }
        symlink(here.path().join("secret"), &others[0]).unwrap();
        let fifo = std::ffi::CString::new(others[1].to_str().unwrap()).unwrap();
        // SAFETY: the path ends in a zero.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    };
    let hooks = on_copied(swap);
    let report = hooks.run(&one_job(), &source, Target::As(target));
    assert_eq!(
        (report.files, report.symlinks, report.specials, report.failures),
        (1, 1, 1, 0),
        "{}",
        hooks.notes.text()
    );
}

#[test]
fn what_vanishes_is_told_and_the_rest_is_copied() {
    if in_ring() {
        return; // It is open by then; `uring.rs` has this for many.
    }
    let (_here, source, target) = place();
    tree(&source);
    let hooks = on_copied(once("sub", || {
        for name in ["sub/c", "sub/d"] {
            fs::remove_file(source.join(name)).unwrap();
        }
    }));
    let report = hooks.run(&one_job(), &source, Target::As(target.clone()));
    // It was not listed yet when it vanished.
    assert_eq!((report.files, report.failures), (3, 0));
    assert_eq!(names(&target.join("sub")), ["deep"]);

    let (_here, source, target) = place();
    fs::create_dir(&source).unwrap();
    for name in ["1", "2", "3"] {
        fs::write(source.join(name), name).unwrap();
    }
    let first = AtomicBool::new(true);
    let hooks = on_copied(|entry| {
        if entry.kind == Kind::File && first.swap(false, Ordering::Relaxed) {
            for name in ["1", "2", "3"].map(|name| source.join(name)) {
                if name != entry.source() {
                    fs::remove_file(name).unwrap();
                }
            }
        }
    });
    let report = hooks.run(&one_job(), &source, Target::As(target.clone()));
    assert_eq!((report.files, report.failures), (1, 2));
    assert_eq!(
        hooks.notes.text().matches("OpenSource").count(),
        2,
        "{}",
        hooks.notes.text()
    );
    assert_eq!(names(&target).len(), 1);
}

#[test]
fn a_source_that_changes_is_read_again() {
    let (_here, source, target) = place();
    fs::write(&source, vec![b'a'; LARGE]).unwrap();
    let first = AtomicBool::new(true);
    let hooks = on_progress(|_| {
        if first.swap(false, Ordering::Relaxed) {
            fs::write(&source, vec![b'b'; LARGE - 5]).unwrap();
        }
    });
    let report = hooks.run(&one_job(), &source, Target::As(target.clone()));
    assert_eq!((report.failures, hooks.notes.text().as_str()), (0, ""));
    assert!(fs::read(&target).unwrap() == vec![b'b'; LARGE - 5]);
}

#[test]
fn a_small_source_that_changes_in_place_is_read_again() {
    let (_here, source, target) = place();
    fs::write(&source, b"before").unwrap();
    let first = AtomicBool::new(true);
    let hooks = on_progress(|_| {
        if first.swap(false, Ordering::Relaxed) {
            let file = fs::OpenOptions::new().write(true).open(&source).unwrap();
            file.write_all_at(b"behind", 0).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
    });
    let report = hooks.run(&one_job(), &source, Target::As(target.clone()));
    assert_eq!((report.failures, hooks.notes.text().as_str()), (0, ""));
    assert_eq!(fs::read(&target).unwrap(), b"behind");
}

#[test]
fn a_source_that_never_rests_is_told_of() {
    let (_here, source, target) = place();
    fs::write(&source, vec![b'a'; LARGE]).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&source).unwrap();
    let calls = AtomicUsize::new(0);
    let hooks = on_progress(|_| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        file.write_all_at(&[call as u8], 0).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(call as u64);
        file.set_modified(time).unwrap();
    });
    let report = hooks.run(&one_job(), &source, Target::As(target.clone()));
    assert_eq!(report.failures, 1);
    assert!(
        hooks.notes.text().starts_with("Changed("),
        "{}",
        hooks.notes.text()
    );
    assert_eq!(fs::metadata(&target).unwrap().len(), LARGE as u64);
}

#[test]
fn a_file_that_grows_has_the_length_it_had() {
    for size in [5000, LARGE] {
        let (_here, source, target) = place();
        fs::write(&source, vec![b'a'; size]).unwrap();
        let hooks = on_progress(|_| {
            let mut file = fs::OpenOptions::new().append(true).open(&source).unwrap();
            file.write_all(b"more").unwrap();
        });
        let report = hooks.run(&one_job(), &source, Target::As(target.clone()));
        assert_eq!(report.failures, 0, "{}", hooks.notes.text());
        assert!(fs::read(&target).unwrap() == vec![b'a'; size]);
        assert!(hooks.notes.text().contains("Grew"), "{}", hooks.notes.text());
    }
}

#[test]
fn a_reader_sees_the_old_file_or_the_new_one() {
    let (here, source, target) = place();
    fs::write(&source, vec![b'n'; LARGE]).unwrap();
    fs::write(&target, "old").unwrap();
    let seen = AtomicUsize::new(0);
    let hooks = on_progress(|_| {
        assert_eq!(fs::read(&target).unwrap(), b"old");
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let options = Options {
        reflink: Reflink::Never,
        ..Options::default()
    };
    hooks.run(&options, &source, Target::As(target.clone()));
    assert!(seen.into_inner() > 1);
    assert!(fs::read(&target).unwrap() == vec![b'n'; LARGE]);
    assert_eq!(names(here.path()), ["source", "target"]);
}

#[test]
fn a_new_tree_appears_when_it_is_whole_and_replaces_nothing() {
    let (here, source, target) = place();
    tree(&source);
    let hooks = on_copied(once("e", || assert!(target.symlink_metadata().is_err())));
    hooks.run(&one_job(), &source, Target::As(target.clone()));
    assert_eq!(hooks.notes.text(), "");
    assert_eq!(names(here.path()), ["source", "target"]);

    let other = here.path().join("other");
    let hooks = on_copied(once("e", || fs::write(&other, "somebody else's").unwrap()));
    let report = hooks.run(&one_job(), &source, Target::As(other.clone()));
    assert_eq!(report.failures, 1, "{}", hooks.notes.text());
    assert!(hooks.notes.text().contains("Rename"));
    assert_eq!(fs::read(&other).unwrap(), b"somebody else's");
    assert_eq!(report.partial.len(), 1);
    assert_eq!(names(&report.partial[0]), ["a", "b", "sub"]);
}

#[test]
fn a_stop_takes_back_the_file_in_hand_and_gives_no_tree_its_name() {
    let (here, source, target) = place();
    tree(&source);
    fs::write(source.join("large"), vec![1; LARGE]).unwrap();
    let hooks = on_progress(|bytes| {
        if bytes > 1000 {
            STOP.store(true, Ordering::Relaxed);
        }
    });
    static STOP: AtomicBool = AtomicBool::new(false);
    struct Stopping<'a>(&'a dyn proactor_copy::Observer);
    impl proactor_copy::Observer for Stopping<'_> {
        fn diagnostic(&self, diagnostic: &proactor_copy::Diagnostic) {
            self.0.diagnostic(diagnostic);
        }
        fn progress(&self, bytes: u64) {
            self.0.progress(bytes);
        }
        fn stop(&self) -> bool {
            STOP.load(Ordering::Relaxed)
        }
    }
    let report = proactor_copy::copy(
        &engaged(&one_job()),
        std::slice::from_ref(&source),
        &Target::As(target.clone()),
        &Stopping(&hooks),
    );
    assert!(report.stopped);
    assert_eq!(report.failures, 0, "{}", hooks.notes.text());
    assert!(target.symlink_metadata().is_err());
    assert_eq!(report.partial.len(), 1);
    assert!(!report.partial[0].join("large").exists());
    let journal = format!("{}.journal", report.partial[0].display());
    assert!(Path::new(&journal).is_file());
    assert_eq!(names(here.path()).len(), 3);
}

#[test]
fn an_observer_that_panics_ends_the_copy() {
    let (_here, source, target) = place();
    tree(&source);
    for number in 0..50 {
        tree(&source.join(format!("{number}")));
    }
    let options = Options {
        jobs: 3,
        ..Options::archive()
    };
    let hooks = on_copied(|entry| assert!(!entry.source().ends_with("25/sub")));
    let run = std::panic::AssertUnwindSafe(|| hooks.run(&options, &source, Target::As(target.clone())));
    assert!(std::panic::catch_unwind(run).is_err());
    assert!(target.symlink_metadata().is_err());
}

#[test]
fn files_without_a_length_are_read_to_their_end() {
    let (_here, _, target) = place();
    for file in ["/proc/self/limits", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        let file = Path::new(file);
        if !file.exists() {
            continue;
        }
        let (report, told) = run(&Options::default(), &[file], Target::As(target.clone()));
        assert_eq!(report.failures, 0, "{told}");
        let copied = fs::read_to_string(&target).unwrap();
        assert!(!copied.is_empty() && copied == fs::read_to_string(file).unwrap());
        // It is as protected as its source.
        fs::remove_file(&target).unwrap();
    }
    // In a tree too, and those that cannot be read do no harm.
    let tree = Path::new("/proc/self/net/stat");
    if tree.exists() {
        let target = target.with_file_name("tree");
        let (report, told) = run(&Options::archive(), &[tree], Target::As(target.clone()));
        assert!(report.files > 0 && target.exists(), "{told}");
    }
}
