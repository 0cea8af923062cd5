//! What becomes of a target that exists: replaced, written in place, backed up or left alone.

mod support;

use proactor_copy::{Backup, Options, Overwrite, Target, When};
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use support::{copy_as, look_at, names, place, recursive, refusal, set_attribute};

#[test]
fn the_target_named_by_the_user_is_written_through_a_link() {
    let (here, source, target) = place();
    fs::write(&source, "new").unwrap();
    fs::write(&target, "old").unwrap();
    let link = here.path().join("link");
    symlink("target", &link).unwrap();
    let inode = fs::metadata(&target).unwrap().ino();
    copy_as(&Options::default(), &source, &link);
    assert!(link.is_symlink());
    assert_eq!(fs::read(&target).unwrap(), b"new");
    assert_eq!(fs::metadata(&target).unwrap().ino(), inode);
    assert_eq!(
        refusal(&Options::default(), &[&target], Target::As(link)),
        "SameFile"
    );
}

#[test]
fn what_is_replaced_lends_its_permissions_owner_and_attributes() {
    let (_here, source, target) = place();
    fs::write(&source, "new").unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(&target, "old").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    let attributes = set_attribute(&target, "user.mine", b"1").is_ok();
    if support::is_root() {
        std::os::unix::fs::lchown(&target, Some(12), Some(34)).unwrap();
    }
    let before = look_at(&target);
    copy_as(&Options::default(), &source, &target);
    let after = look_at(&target);
    assert_eq!((after.mode, after.owner), (before.mode, before.owner));
    assert_eq!(after.attributes, before.attributes);
    assert!(!attributes || !after.attributes.is_empty());
    assert_eq!(after.content, b"new");
    copy_as(&Options::archive(), &source, &target);
    assert_eq!(look_at(&target).mode, 0o777);
}

#[test]
fn what_goes_lends_nothing() {
    let (here, source, target) = place();
    fs::write(&source, "new").unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o600)).unwrap();
    let old = || {
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o666)).unwrap();
    };
    let removing = Options {
        overwrite: Overwrite {
            remove: true,
            ..Overwrite::default()
        },
        ..Options::default()
    };
    let backing_up = Options {
        backup: Backup::Simple,
        ..Options::default()
    };
    for options in [removing, backing_up] {
        old();
        copy_as(&options, &source, &target);
        assert_eq!(look_at(&target).mode, 0o600);
    }
    // A link in a tree is replaced by the file, not lent from.
    fs::create_dir_all(here.path().join("from")).unwrap();
    fs::create_dir_all(here.path().join("to")).unwrap();
    fs::rename(&source, here.path().join("from/file")).unwrap();
    symlink("x", here.path().join("to/file")).unwrap();
    copy_as(&recursive(), &here.path().join("from"), &here.path().join("to"));
    let file = look_at(&here.path().join("to/file"));
    assert_eq!((file.mode, file.content.as_slice()), (0o600, b"new".as_slice()));
}

#[test]
fn a_file_of_several_names_is_written_in_place() {
    let (here, source, target) = place();
    fs::write(&source, "new").unwrap();
    fs::write(&target, "old").unwrap();
    let other = here.path().join("other");
    fs::hard_link(&target, &other).unwrap();
    copy_as(&Options::default(), &source, &target);
    assert_eq!(fs::read(&other).unwrap(), b"new");
    fs::write(&target, "old").unwrap();
    // Where links are preserved, they are the source's.
    copy_as(&Options::archive(), &source, &target);
    assert_eq!(fs::read(&other).unwrap(), b"old");
    assert_eq!(fs::read(&target).unwrap(), b"new");
    let inode = fs::metadata(&other).unwrap().ino();
    let options = Options {
        in_place: true,
        ..Options::default()
    };
    copy_as(&options, &source, &other);
    assert_eq!(fs::metadata(&other).unwrap().ino(), inode);
}

#[test]
fn existing_targets_are_replaced_when_asked() {
    let (_here, source, target) = place();
    fs::write(&source, "new").unwrap();
    fs::write(&target, "old").unwrap();
    let with = |when| Options {
        overwrite: Overwrite {
            when,
            ..Overwrite::default()
        },
        ..Options::default()
    };
    let report = copy_as(&with(When::None), &source, &target);
    assert_eq!((report.skipped, report.files), (1, 0));
    assert_eq!(
        refusal(&with(When::NoneFail), &[&source], Target::As(target.clone())),
        "TargetExists"
    );
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1 << 33);
    fs::File::options()
        .write(true)
        .open(&target)
        .unwrap()
        .set_modified(time)
        .unwrap();
    assert_eq!(copy_as(&with(When::Older), &source, &target).skipped, 1);
    assert_eq!(fs::read(&target).unwrap(), b"old");
}

#[test]
fn backups_keep_what_was_there() {
    let (here, source, target) = place();
    fs::write(&source, "new").unwrap();
    let with = |backup| Options {
        backup,
        ..Options::default()
    };
    for (backup, content) in [
        (Backup::Simple, "1"),
        (Backup::Existing, "2"),
        (Backup::Numbered, "3"),
        (Backup::Existing, "4"),
    ] {
        fs::write(&target, content).unwrap();
        copy_as(&with(backup), &source, &target);
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }
    assert_eq!(
        names(here.path()),
        ["source", "target", "target.~1~", "target.~2~", "target~"]
    );
    let read = |name: &str| fs::read_to_string(here.path().join(name)).unwrap();
    assert_eq!(
        (read("target~"), read("target.~1~"), read("target.~2~")),
        ("2".into(), "3".into(), "4".into())
    );
}

/// Far enough down that the directory behind the link has been closed, and is opened through the link again.
#[test]
fn a_link_to_a_directory_stays_if_asked() {
    let (here, source, target) = place();
    let deep: PathBuf = std::iter::repeat_n("d", 70).collect();
    for end in ["1", "2"] {
        fs::create_dir_all(source.join("sub").join(&deep).join(end)).unwrap();
    }
    fs::write(source.join("sub/file"), "new").unwrap();
    let elsewhere = here.path().join("elsewhere");
    fs::create_dir_all(elsewhere.join(&deep)).unwrap();
    fs::create_dir(&target).unwrap();
    symlink(&elsewhere, target.join("sub")).unwrap();
    let options = Options {
        keep_directory_symlink: true,
        jobs: 1,
        ..Options::archive()
    };
    copy_as(&options, &source, &target);
    assert!(target.join("sub").is_symlink());
    support::assert_same(&source.join("sub"), &elsewhere);
}

/// SELinux need not be there for its attribute to be.
#[test]
fn a_context_that_is_named() {
    let (_here, source, target) = place();
    if !support::require("a_context_that_is_named", "root", support::is_root()) {
        return;
    }
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "").unwrap();
    symlink("file", source.join("link")).unwrap();
    let options = Options {
        context: Some("system_u:object_r:tmp_t:s0".into()),
        ..Options::archive()
    };
    copy_as(&options, &source, &target);
    for name in ["", "file", "link"] {
        let attributes = support::attributes_of(&target.join(name));
        let context = attributes.get(std::ffi::OsStr::new("security.selinux"));
        assert_eq!(
            context.map(Vec::as_slice),
            Some(&b"system_u:object_r:tmp_t:s0\0"[..]),
            "{name}"
        );
    }
}
