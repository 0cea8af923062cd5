//! Runs that are killed, and others that go on: with `kill -9` at any point, a loss of power as it looks afterwards, and
//! whatever happens to the source, the tree and the journal in between.

mod interrupted;
mod support;

use interrupted::{archive, killed_after, killed_at, place, Left};
use proactor_copy::{Backup, Fsync, Options, Target, When};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use support::{assert_same, copy_as, names, recursive, run};

/// What threads had finished and not written down, at most: 64 files each, and those in hand.
fn most_redone() -> usize {
    2 * if support::in_ring() { 64 + 64 } else { 65 }
}

fn resumed(options: &Options) -> Options {
    Options {
        resume: true,
        ..options.clone()
    }
}

/// Files in directories, with links, holes and modes.
fn tree(root: &Path) {
    for directory in 0..6 {
        let here = root.join(format!("d{directory}/sub"));
        fs::create_dir_all(&here).unwrap();
        for file in 0..80 {
            let path = here.join(format!("f{file}"));
            fs::write(&path, vec![file as u8; file * 300]).unwrap();
            if file % 20 == 0 {
                fs::hard_link(&path, root.join(format!("hard {directory} {file}"))).unwrap();
                symlink("f1", here.join(format!("l{file}"))).unwrap();
            }
        }
        fs::set_permissions(&here, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let holes = fs::File::create(root.join("holes")).unwrap();
    holes.set_len(1 << 20).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::set_permissions(root.join("d1"), fs::Permissions::from_mode(0o2750)).unwrap();
}

/// The inode of each file below, and when it was touched last: a number alone may be given again.
type Inodes = BTreeMap<PathBuf, (u64, i64, i64)>;

fn inodes(root: &Path) -> Inodes {
    let mut found = Inodes::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            if stat.is_dir() {
                todo.push(path);
            } else if stat.is_file() {
                let name = path.strip_prefix(root).unwrap().to_path_buf();
                found.insert(name, (stat.ino(), stat.ctime(), stat.ctime_nsec()));
            }
        }
    }
    found
}

/// Files, of which some have two names.
fn redone(before: &Inodes, after: &Inodes) -> usize {
    let changed = before.iter().filter(|(path, ino)| after.get(*path) != Some(ino));
    changed.map(|(_, ino)| ino.0).collect::<BTreeSet<_>>().len()
}

#[test]
fn killed_again_and_again_it_ends_as_if_never() {
    let (here, source, target) = place();
    fs::create_dir(&source).unwrap();
    tree(&source);
    for seed in 0..2u64 {
        let mut point = seed * 37 + 20;
        let mut runs = 0;
        let mut before = BTreeMap::new();
        while killed_after(point, &resumed(&archive()), &source, &target) {
            assert!(target.symlink_metadata().is_err());
            let left = Left::beside(&target);
            let now = inodes(&left.tree);
            assert!(
                redone(&before, &now) <= most_redone(),
                "{} of {}",
                redone(&before, &now),
                before.len()
            );
            before = now;
            // Further each time, or it would never end where the last 64 are always lost.
            point = (point * 7 + 3) % 150 + 130;
            runs += 1;
            assert!(runs < 50);
        }
        assert!(runs > 1);
        assert!(redone(&before, &inodes(&target)) <= most_redone());
        assert_same(&source, &target);
        assert_eq!(names(here.path()), ["source", "target"]);
        interrupted::remove(&target);
    }
    interrupted::remove(&source);
}

#[test]
fn killed_anywhere_it_ends_as_if_never() {
    let (here, source, target) = place();
    fs::create_dir(&source).unwrap();
    tree(&source);
    let mut microseconds = 1000;
    while killed_at(microseconds, &resumed(&recursive()), &source, &target) {
        assert!(target.symlink_metadata().is_err() || Left::is_whole(&source, &target));
        microseconds = microseconds * 3 / 2;
    }
    let found = |root: &Path| {
        support::look(root)
            .into_iter()
            .map(|(path, looks)| (path, looks.content))
    };
    assert!(found(&source).eq(found(&target)));
    assert!(names(here.path()).len() <= 3, "{:?}", names(here.path()));
    interrupted::remove(&target);
    interrupted::remove(&source);
}

/// Killed when it was nearly done, with these options.
fn nearly_done(options: &Options, source: &Path, target: &Path) -> Left {
    fs::create_dir(source).unwrap();
    for number in 0..400 {
        fs::write(source.join(format!("f{number}")), vec![7; 500]).unwrap();
    }
    assert!(killed_after(390, options, source, target));
    Left::beside(target)
}

#[test]
fn what_was_not_on_the_disk_when_power_was_lost_is_copied_again() {
    let unsynced = Options {
        fsync: Fsync::End,
        ..recursive()
    };
    let each = Options {
        fsync: Fsync::Each,
        ..recursive()
    };
    for (options, barrier, kept) in [
        (&unsynced, None, 0),
        (&unsynced, Some(130), 120),
        (&each, None, 250),
    ] {
        let (_here, source, target) = place();
        let left = nearly_done(&resumed(options), &source, &target);
        // Only what was synced kept its contents.
        for number in 0..400 {
            let path = left.tree.join(format!("f{number}"));
            if kept == 0 && path.exists() {
                fs::File::create(path).unwrap().set_len(500).unwrap();
            }
        }
        left.barrier(barrier);
        left.another_boot();
        let before = inodes(&left.tree);
        let report = copy_as(&resumed(options), &source, &target);
        assert!(report.resumed >= kept, "{} of {kept}", report.resumed);
        assert!(kept > 0 || report.resumed == 0);
        assert!(barrier.is_none_or(|barrier| report.resumed <= barrier));
        assert_eq!(report.files + report.resumed, 400);
        let after = inodes(&target);
        assert_eq!(before.len() - redone(&before, &after), report.resumed as usize);
        for number in 0..400 {
            assert_eq!(fs::read(target.join(format!("f{number}"))).unwrap(), [7; 500]);
        }
    }
}

#[test]
fn a_journal_that_was_torn_is_believed_as_far_as_it_is_whole() {
    let (here, source, target) = place();
    let left = nearly_done(&archive(), &source, &target);
    left.append(&[0; 64]);
    left.append(&[0xff; 32]);
    left.append(&[1; 7]);
    let report = copy_as(&resumed(&archive()), &source, &target);
    assert!(report.resumed >= 400 - most_redone() as u64);
    assert_same(&source, &target);
    assert_eq!(names(here.path()), ["source", "target"]);
}

#[test]
fn a_file_that_is_shorter_than_it_was_is_copied_again() {
    let (_here, source, target) = place();
    let left = nearly_done(&recursive(), &source, &target);
    fs::write(left.tree.join("f0"), "").unwrap();
    fs::remove_file(left.tree.join("f1")).unwrap();
    fs::write(left.tree.join("what nobody copied"), "").unwrap();
    fs::create_dir_all(left.tree.join("nor/this/one")).unwrap();
    copy_as(&resumed(&recursive()), &source, &target);
    assert_eq!(fs::read(target.join("f0")).unwrap(), [7; 500]);
    assert_eq!(names(&source), names(&target));
}

#[test]
fn what_changed_in_the_source_is_copied_as_it_is_now() {
    let (_here, source, target) = place();
    let left = nearly_done(&archive(), &source, &target);
    let done: Vec<_> = names(&left.tree);
    let [changed, gone, directory, mode, ..] = &done[..] else {
        panic!()
    };
    fs::write(source.join(changed), vec![8; 500]).unwrap();
    fs::remove_file(source.join(gone)).unwrap();
    fs::remove_file(source.join(directory)).unwrap();
    fs::create_dir(source.join(directory)).unwrap();
    fs::write(source.join(directory).join("inside"), "new").unwrap();
    // Only the time of the change tells.
    fs::set_permissions(source.join(mode), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(left.tree.join("f_dir")).unwrap();
    symlink("nowhere", source.join("f_dir")).unwrap();
    let report = copy_as(&resumed(&archive()), &source, &target);
    assert!(report.resumed > 200);
    assert_same(&source, &target);
}

#[test]
fn only_the_same_copy_is_resumed() {
    let (here, source, target) = place();
    let left = nearly_done(&archive(), &source, &target);
    let refused = |options: &Options, source: &Path, why: &str| {
        let (report, told) = run(&resumed(options), &[source], Target::As(target.clone()));
        assert_eq!((report.failures, report.files), (1, 0), "{told}");
        assert!(told.contains(why), "{told}");
        assert!(left.tree.is_dir() && target.symlink_metadata().is_err());
    };
    refused(&recursive(), &source, "ResumeOtherOptions");
    let other = here.path().join("other");
    fs::create_dir(&other).unwrap();
    refused(&archive(), &other, "ResumeOtherSource");
    // Another directory with the same name.
    let moved = here.path().join("moved");
    fs::rename(&source, &moved).unwrap();
    fs::create_dir(&source).unwrap();
    refused(&archive(), &source, "ResumeOtherSource");
    fs::remove_dir(&source).unwrap();
    fs::rename(&moved, &source).unwrap();
    // Somebody is at it.
    let journal = fs::File::open(&left.journal).unwrap();
    // SAFETY: no pointers; the descriptor is open.
    assert_eq!(unsafe { libc::flock(journal.as_raw_fd(), libc::LOCK_EX) }, 0);
    refused(&archive(), &source, "ResumeBusy");
    drop(journal);
    // What does not decide what comes out may differ, and so may how the source is written.
    let options = Options {
        jobs: 1,
        fsync: Fsync::End,
        ..resumed(&archive())
    };
    let report = copy_as(&options, &source.join("."), &target);
    assert!(report.resumed > 200);
    assert_same(&source, &target);
}

#[test]
fn of_two_that_fit_neither_is_taken() {
    let (_here, source, target) = place();
    nearly_done(&archive(), &source, &target);
    let first = Left::beside(&target);
    assert!(killed_after(390, &archive(), &source, &target));
    let (report, told) = run(&resumed(&archive()), &[&source], Target::As(target.clone()));
    assert_eq!(report.failures, 1);
    assert!(told.contains("ResumeAmbiguous"), "{told}");
    fs::remove_file(&first.journal).unwrap();
    fs::remove_dir_all(&first.tree).unwrap();
    assert!(copy_as(&resumed(&archive()), &source, &target).resumed > 200);
    assert_same(&source, &target);
}

#[test]
fn without_resume_it_says_what_is_left_and_copies() {
    let (here, source, target) = place();
    let left = nearly_done(&archive(), &source, &target);
    let (report, told) = run(&archive(), &[&source], Target::As(target.clone()));
    assert_eq!((report.failures, report.files), (0, 400), "{told}");
    assert_eq!(told.matches("LeftJournal").count(), 1, "{told}");
    assert!(told.contains(left.journal.to_str().unwrap()), "{told}");
    assert!(left.tree.is_dir() && left.journal.is_file());
    // Another target has nothing to do with it, and a tree without its journal is told of, too.
    let other = here.path().join("tar");
    copy_as(&archive(), &source, &other);
    fs::remove_file(&left.journal).unwrap();
    interrupted::remove(&target);
    let (_, told) = run(&resumed(&archive()), &[&source], Target::As(target.clone()));
    assert!(told.contains("LeftTree"), "{told}");
    assert_same(&source, &target);
}

#[test]
fn a_tree_that_has_its_name_already_is_finished() {
    for into in [false, true] {
        let (here, source, target) = place();
        let left = nearly_done(&archive(), &source, &target);
        fs::rename(&left.tree, &target).unwrap();
        let goal = if into {
            Target::Into(target.clone())
        } else {
            Target::As(target.clone())
        };
        let (report, told) = run(&resumed(&archive()), &[&source], goal);
        assert_eq!(report.failures, 0, "{told}");
        assert!(report.resumed > 200);
        assert_same(&source, &target);
        assert_eq!(names(here.path()), ["source", "target"]);
    }
}

#[test]
fn into_a_tree_that_exists() {
    let options = Options {
        backup: Backup::Simple,
        ..recursive()
    };
    let fails = Options {
        backup: Backup::None,
        ..recursive()
    };
    let fails = Options {
        overwrite: proactor_copy::Overwrite {
            when: When::NoneFail,
            ..fails.overwrite
        },
        ..fails
    };
    for (options, old) in [(recursive(), 100), (options, 100), (fails, 0)] {
        let (_here, source, target) = place();
        fs::create_dir(&target).unwrap();
        for number in 0..old {
            fs::write(target.join(format!("f{number}")), "old").unwrap();
        }
        fs::create_dir(&source).unwrap();
        for number in 0..300 {
            fs::write(source.join(format!("f{number}")), vec![7; 500]).unwrap();
        }
        assert!(killed_after(250, &options, &source, &target));
        // As if it had been killed in the middle of a file, too.
        let left = Left::beside(&target);
        fs::write(target.join(format!("f299.partial-{}", left.id)), "half").unwrap();
        let before = inodes(&target);
        let report = copy_as(&resumed(&options), &source, &target);
        assert!(report.resumed > 100, "{report:?}");
        assert_eq!(report.files + report.resumed, 300);
        let kept = before.len() - redone(&before, &inodes(&target));
        assert!(kept >= report.resumed as usize);
        for number in 0..300 {
            assert_eq!(fs::read(target.join(format!("f{number}"))).unwrap(), [7; 500]);
        }
        for number in 0..old {
            if options.backup == Backup::Simple {
                assert_eq!(fs::read(target.join(format!("f{number}~"))).unwrap(), b"old");
            }
        }
        let partial = |name: &std::ffi::OsString| name.to_string_lossy().contains(".partial-");
        assert!(!names(&target).iter().any(partial), "{:?}", names(&target));
    }
}

#[test]
fn what_somebody_else_wrote_since_is_not_taken_for_ours() {
    let (_here, source, target) = place();
    fs::create_dir(&target).unwrap();
    fs::create_dir(&source).unwrap();
    for number in 0..300 {
        fs::write(source.join(format!("f{number}")), vec![7; 500]).unwrap();
    }
    assert!(killed_after(250, &recursive(), &source, &target));
    for number in 0..300 {
        let path = target.join(format!("f{number}"));
        if path.exists() {
            // Of the same length, as what comes back after a rename that was lost.
            fs::remove_file(&path).unwrap();
            fs::write(&path, vec![6; 500]).unwrap();
        }
    }
    let report = copy_as(&resumed(&recursive()), &source, &target);
    assert_eq!((report.resumed, report.files), (0, 300));
}

#[test]
fn several_sources_go_on_with_the_one_that_was_in_hand() {
    let (here, _, target) = place();
    fs::create_dir(&target).unwrap();
    let sources: Vec<PathBuf> = (0..3)
        .map(|number| here.path().join(format!("s{number}")))
        .collect();
    for source in &sources {
        fs::create_dir(source).unwrap();
        for number in 0..200 {
            fs::write(source.join(format!("f{number}")), vec![7; 500]).unwrap();
        }
    }
    assert!(interrupted::several_killed_after(
        450,
        &archive(),
        &sources,
        &target
    ));
    let paths: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let (report, told) = run(&resumed(&archive()), &paths, Target::Into(target.clone()));
    assert_eq!(report.failures, 0, "{told}");
    assert!(report.resumed > 250, "{report:?}");
    for source in &sources {
        assert_same(source, &target.join(source.file_name().unwrap()));
    }
    assert_eq!(names(&target), ["s0", "s1", "s2"]);
}

#[test]
fn parents_are_finished_by_the_run_that_goes_on() {
    let (_here, source, target) = place();
    let sources = ["a/b", "a/c"].map(|path| source.join(path));
    for source in &sources {
        fs::create_dir_all(source).unwrap();
        for number in 0..200 {
            fs::write(source.join(format!("f{number}")), vec![7; 500]).unwrap();
        }
    }
    fs::set_permissions(source.join("a"), fs::Permissions::from_mode(0o751)).unwrap();
    support::make_old(&source.join("a"));
    fs::create_dir(&target).unwrap();
    let options = Options {
        parents: true,
        ..archive()
    };
    assert!(interrupted::several_killed_after(
        350, &options, &sources, &target
    ));
    let copy = target.join(source.strip_prefix("/").unwrap());
    assert_eq!(support::look_at(&copy.join("a")).mode, 0o700);
    let paths: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let (report, told) = run(&resumed(&options), &paths, Target::Into(target.clone()));
    assert_eq!(report.failures, 0, "{told}");
    assert!(report.resumed > 150, "{report:?}");
    assert_same(&source, &copy);
}
