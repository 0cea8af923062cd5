//! Somebody has been at what a killed run left: nothing outside is read, written or removed when another one goes on. And
//! what cannot be done is told.

mod interrupted;
mod support;

use interrupted::{killed_after, Left};
use proactor_copy::{Options, Target};
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::Path;
use support::{assert_same, names, place, run};

fn resume() -> Options {
    Options {
        resume: true,
        ..Options::archive()
    }
}

/// A run that was killed in the middle of a directory, and a place that nobody may touch.
fn left(source: &Path, target: &Path, outside: &Path) -> Left {
    fs::create_dir_all(source.join("sub")).unwrap();
    for number in 0..150 {
        fs::write(source.join(format!("f{number}")), "file").unwrap();
        fs::write(source.join(format!("sub/f{number}")), "file").unwrap();
    }
    fs::create_dir_all(outside.join("kept")).unwrap();
    fs::write(outside.join("kept/f0"), "mine").unwrap();
    fs::write(outside.join("f0"), "mine").unwrap();
    assert!(killed_after(290, &resume(), source, target));
    Left::beside(target)
}

fn untouched(outside: &Path) {
    assert_eq!(names(outside), ["f0", "kept"]);
    assert_eq!(names(&outside.join("kept")), ["f0"]);
    for file in ["f0", "kept/f0"] {
        assert_eq!(fs::read(outside.join(file)).unwrap(), b"mine");
        assert_eq!(fs::metadata(outside.join(file)).unwrap().nlink(), 1);
    }
}

#[test]
fn links_in_the_tree_lead_nowhere() {
    let (here, source, target) = place();
    let outside = here.path().join("outside");
    let left = left(&source, &target, &outside);
    for name in ["f0", "f1"] {
        let _ = fs::remove_file(left.tree.join(name));
        symlink(outside.join("f0"), left.tree.join(name)).unwrap();
    }
    fs::remove_dir_all(left.tree.join("sub")).unwrap();
    symlink(&outside, left.tree.join("sub")).unwrap();
    symlink(&outside, left.tree.join("not in the source")).unwrap();
    fs::create_dir(left.tree.join("nor this")).unwrap();
    symlink(&outside, left.tree.join("nor this/link")).unwrap();
    let (report, told) = run(&resume(), &[&source], Target::As(target.clone()));
    assert_eq!(report.failures, 0, "{told}");
    untouched(&outside);
    assert_same(&source, &target);
}

#[test]
fn a_tree_that_is_another_one_is_not_entered() {
    for link in [true, false] {
        let (here, source, target) = place();
        let outside = here.path().join("outside");
        let left = left(&source, &target, &outside);
        fs::rename(&left.tree, here.path().join("the tree")).unwrap();
        if link {
            symlink(&outside, &left.tree).unwrap();
        } else {
            // A directory of ours, but not the one that we made.
            fs::rename(&outside, &left.tree).unwrap();
        }
        let (report, told) = run(&resume(), &[&source], Target::As(target.clone()));
        assert_eq!((report.failures, report.resumed), (0, 0), "{told}");
        untouched(if link { &outside } else { &left.tree });
        assert_same(&source, &target);
    }
}

#[test]
fn what_is_no_journal_of_ours_is_passed_over() {
    let (here, source, target) = place();
    let outside = here.path().join("outside");
    let left = left(&source, &target, &outside);
    let moved = here.path().join("moved");
    fs::rename(&left.journal, &moved).unwrap();
    let bytes = fs::read(&moved).unwrap();
    let plant: [&dyn Fn(); 7] = [
        &|| symlink(&moved, &left.journal).unwrap(),
        &|| fs::hard_link(&moved, &left.journal).unwrap(),
        // A copy has another inode.
        &|| fs::write(&left.journal, &bytes).unwrap(),
        &|| fs::write(&left.journal, &bytes[..70]).unwrap(),
        &|| fs::write(&left.journal, vec![0xff; 4096]).unwrap(),
        &|| fs::create_dir(&left.journal).unwrap(),
        &|| {
            let path = std::ffi::CString::new(left.journal.to_str().unwrap()).unwrap();
            // SAFETY: the path ends in a zero.
            assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        },
    ];
    for plant in plant {
        plant();
        let (report, told) = run(&resume(), &[&source], Target::As(target.clone()));
        assert_eq!(
            (report.failures, report.resumed, report.files),
            (0, 0, 300),
            "{told}"
        );
        interrupted::remove(&target);
        if left.journal.is_dir() {
            fs::remove_dir(&left.journal).unwrap();
        } else {
            fs::remove_file(&left.journal).unwrap();
        }
    }
    // One that others could write to says nothing either.
    fs::rename(&moved, &left.journal).unwrap();
    fs::set_permissions(&left.journal, fs::Permissions::from_mode(0o622)).unwrap();
    let (report, _) = run(&resume(), &[&source], Target::As(target.clone()));
    assert_eq!(report.resumed, 0);
    interrupted::remove(&target);
    // An empty one was killed before it said anything, and goes.
    fs::set_permissions(&left.journal, fs::Permissions::from_mode(0o600)).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(&left.journal)
        .unwrap()
        .set_len(0)
        .unwrap();
    let (report, _) = run(&resume(), &[&source], Target::As(target.clone()));
    assert_eq!((report.failures, report.resumed), (0, 0));
    assert!(!left.journal.exists());
    untouched(&outside);
}

#[test]
fn what_may_not_be_written_to_is_ours_again() {
    let (here, source, target) = place();
    let left = left(&source, &target, &here.path().join("outside"));
    for directory in [left.tree.join("sub"), left.tree.clone()] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o000)).unwrap();
    }
    let (report, told) = run(&resume(), &[&source], Target::As(target.clone()));
    assert_eq!(report.failures, 0, "{told}");
    assert!(report.resumed > 150);
    assert_same(&source, &target);
}
