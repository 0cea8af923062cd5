//! What is refused, what is kept of a target, and what its names mean: as in `cp`, where it has a say.

mod support;

use proactor_copy::{Dereference, Fsync, Method, Mode, Options, Preserve, Reflink, Sparse, Target};
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use support::{assert_same, copy_as, look_at, names, place, recursive, refusal, run, set_attribute};

fn tree(root: &Path) {
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(root.join("a"), "a").unwrap();
    fs::write(root.join("sub/b"), "b").unwrap();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (here, source, target) = place();
    tree(&source);
    fs::write(&target, "t").unwrap();
    let into = |path: &Path| Target::Into(path.into());
    let to = |path: PathBuf| Target::As(path);
    let plain = Options::default();
    assert_eq!(
        refusal(&plain, &[&source], to(here.path().join("x"))),
        "OmittingDirectory"
    );
    assert_eq!(refusal(&plain, &[&target], to(target.clone())), "SameFile");
    assert_eq!(refusal(&plain, &[&target], into(here.path())), "SameFile");
    assert_eq!(refusal(&recursive(), &[&source], to(source.clone())), "SameFile");
    assert_eq!(
        refusal(&recursive(), &[&source], to(target.clone())),
        "DirectoryOverFile"
    );
    assert_eq!(
        refusal(&recursive(), &[&target], to(source.clone())),
        "FileOverDirectory"
    );
    assert_eq!(fs::read(&target).unwrap(), b"t");
    assert_eq!(names(&source), ["a", "sub"]);

    let hard = here.path().join("hard");
    fs::hard_link(&target, &hard).unwrap();
    assert_eq!(refusal(&plain, &[&target], to(hard)), "SameFile");
    symlink("nowhere", here.path().join("dangling")).unwrap();
    assert_eq!(
        refusal(&plain, &[&target], to(here.path().join("dangling"))),
        "DanglingLink"
    );
    let out = here.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::create_dir(here.path().join("other")).unwrap();
    fs::write(here.path().join("other/target"), "o").unwrap();
    let both = [target.as_path(), &here.path().join("other/target")];
    assert_eq!(refusal(&plain, &both, into(&out)), "JustCreated");
    assert_eq!(fs::read(out.join("target")).unwrap(), b"t");
}

#[test]
fn a_directory_is_not_copied_into_itself_but_the_rest_is() {
    let (_here, source, _) = place();
    tree(&source);
    let inside = source.join("inside");
    let told = refusal(&recursive(), &[&source], Target::As(inside.clone()));
    assert_eq!(told, "IntoItself");
    assert_eq!(names(&inside), ["a", "sub"]);
    let (_, told) = run(
        &recursive(),
        &[&source.join(".")],
        Target::Into(source.join("sub")),
    );
    assert!(told.contains("IntoItself") && !told.contains("partial"), "{told}");
    assert_eq!(names(&source.join("sub")), ["a", "b", "inside"]);
}

/// Long enough, and of files large enough, that other threads help.
#[test]
fn a_long_directory_is_copied_by_several() {
    let (_here, source, target) = place();
    fs::create_dir(&source).unwrap();
    for number in 0..700 {
        fs::write(source.join(format!("{number}")), vec![number as u8; 20_000]).unwrap();
        if number % 7 == 0 {
            let other = source.join(format!("link{number}"));
            fs::hard_link(source.join(format!("{number}")), other).unwrap();
        }
        if number % 50 == 0 {
            tree(&source.join(format!("tree{number}")));
        }
    }
    let options = Options {
        jobs: 4,
        ..Options::archive()
    };
    let report = copy_as(&options, &source, &target);
    assert_eq!(
        (report.files, report.hard_links, report.directories),
        (728, 100, 29)
    );
    assert_same(&source, &target);
    // Over what is there.
    copy_as(&options, &source, &target);
    assert_same(&source, &target);
}

#[test]
fn two_directories_of_one_name_become_one() {
    let (here, _, target) = place();
    for (parent, file) in [("x", "1"), ("y", "2")] {
        fs::create_dir_all(here.path().join(parent).join("d/sub")).unwrap();
        fs::write(here.path().join(parent).join("d/sub").join(file), file).unwrap();
    }
    fs::create_dir(&target).unwrap();
    let (x, y) = (here.path().join("x/d"), here.path().join("y/d"));
    let (report, told) = run(&recursive(), &[&x, &y], Target::Into(target.clone()));
    assert_eq!((report.failures, told.as_str()), (0, ""));
    assert_eq!(names(&target.join("d/sub")), ["1", "2"]);
    let (report, told) = run(&recursive(), &[&x, &x], Target::Into(target.clone()));
    assert_eq!(report.failures, 0);
    assert!(told.contains("NamedTwice"), "{told}");
}

#[test]
fn a_link_that_leads_back_is_not_followed_for_ever() {
    let (_here, source, target) = place();
    tree(&source);
    symlink("..", source.join("sub/up")).unwrap();
    let options = Options {
        recursive: true,
        ..Options::default()
    };
    assert_eq!(refusal(&options, &[&source], Target::As(target.clone())), "Cycle");
    assert_eq!(names(&target), ["a", "sub"]);
}

#[test]
fn links_are_followed_as_asked() {
    let (here, source, target) = place();
    tree(&source);
    symlink("a", source.join("link")).unwrap();
    symlink(&source, here.path().join("named")).unwrap();
    let named = here.path().join("named");
    copy_as(&recursive(), &named, &target);
    assert!(target.is_symlink());
    fs::remove_file(&target).unwrap();
    let options = Options {
        dereference: Dereference::CommandLine,
        ..recursive()
    };
    copy_as(&options, &named, &target);
    assert!(target.is_dir() && target.join("link").is_symlink());
    fs::remove_dir_all(&target).unwrap();
    let options = Options {
        dereference: Dereference::Always,
        ..recursive()
    };
    copy_as(&options, &named, &target);
    assert!(target.join("link").symlink_metadata().unwrap().is_file());
}

#[test]
fn a_list_that_is_handed_down_decides_about_new_files() {
    let (here, source, _) = place();
    tree(&source);
    fs::set_permissions(source.join("sub"), fs::Permissions::from_mode(0o500)).unwrap();
    fs::set_permissions(source.join("a"), fs::Permissions::from_mode(0o640)).unwrap();
    let target = here.path().join("listed");
    fs::create_dir(&target).unwrap();
    // user::rwx user:1234:rwx group::r-x mask::rwx other::---
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in [
        (1u16, 7u16, u32::MAX),
        (2, 7, 1234),
        (4, 5, u32::MAX),
        (16, 7, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        list.extend([tag.to_le_bytes(), bits.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    if !support::require(
        "a_list_is_handed_down",
        "acl",
        set_attribute(&target, "system.posix_acl_default", &list).is_ok(),
    ) {
        return;
    }
    let (ours, theirs) = (target.join("ours"), target.join("theirs"));
    copy_as(&recursive(), &source, &ours);
    let cp = std::process::Command::new("cp")
        .arg("-r")
        .arg(&source)
        .arg(&theirs)
        .status()
        .unwrap();
    assert!(cp.success());
    for name in ["", "a", "sub", "sub/b"] {
        let (our, their) = (look_at(&ours.join(name)), look_at(&theirs.join(name)));
        assert_eq!(
            (our.mode, our.attributes),
            (their.mode, their.attributes),
            "{name}"
        );
    }
    // Preserved permissions know no such list.
    copy_as(&Options::archive(), &source, &target.join("same"));
    assert_same(&source, &target.join("same"));
}

#[test]
fn links_instead_of_copies() {
    let (here, source, target) = place();
    tree(&source);
    let hard = Options {
        method: Method::HardLink,
        ..recursive()
    };
    copy_as(&hard, &source, &target);
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&source.join("sub/b")), inode(&target.join("sub/b")));
    // Again: it is there already.
    copy_as(&hard, &source, &target);

    let soft = Options {
        method: Method::SymbolicLink,
        ..recursive()
    };
    let third = here.path().join("third");
    copy_as(&soft, &source, &third);
    assert_eq!(fs::read_link(third.join("sub/b")).unwrap(), source.join("sub/b"));
    let relative = Path::new("Cargo.toml");
    assert_eq!(refusal(&soft, &[relative], Target::Into(third)), "RelativeLink");
}

#[test]
fn holes_as_asked() {
    let (_here, source, target) = place();
    let file = fs::File::create(&source).unwrap();
    file.set_len(10 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 1 << 20], 1 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"data", 5 << 20).unwrap();
    file.sync_all().unwrap();
    let holes = |sparse| {
        let options = Options {
            sparse,
            reflink: Reflink::Never,
            ..Options::default()
        };
        let report = copy_as(&options, &source, &target);
        assert!(fs::read(&source).unwrap() == fs::read(&target).unwrap());
        let held = fs::metadata(&target).unwrap().blocks() * 512;
        fs::remove_file(&target).unwrap();
        assert_eq!(report.bytes + report.hole_bytes, 10 << 20);
        held
    };
    let (auto, always, never) = (holes(Sparse::Auto), holes(Sparse::Always), holes(Sparse::Never));
    // XFS allocates some more than is written, for what may come.
    assert!(always <= 128 << 10, "{always}");
    assert!(auto > 1 << 20 && auto < 4 << 20, "{auto}");
    assert!(never >= 10 << 20, "{never}");
}

#[test]
fn parents_are_made_and_dressed() {
    let (here, source, target) = place();
    tree(&source);
    fs::set_permissions(source.join("sub"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::create_dir(&target).unwrap();
    let options = Options {
        parents: true,
        ..Options::archive()
    };
    let (b, a) = (source.join("sub/b"), source.join("sub/../a"));
    let (report, told) = run(&options, &[&b, &a], Target::Into(target.clone()));
    assert_eq!((report.failures, told.as_str()), (0, ""));
    let below = target.join(source.strip_prefix("/").unwrap());
    assert_eq!(names(&below), ["a", "sub"]);
    assert_eq!(names(&below.join("sub")), ["b"]);
    assert_eq!(look_at(&below.join("sub")).mode, 0o750);
    assert_eq!(
        look_at(&below.join("sub")).modified,
        look_at(&source.join("sub")).modified
    );
    assert_eq!(names(here.path()), ["source", "target"]);
}

#[test]
fn a_directory_named_by_a_dot_is_merged() {
    let (_here, source, target) = place();
    tree(&source);
    fs::create_dir(&target).unwrap();
    let (report, told) = run(&recursive(), &[&source.join(".")], Target::Into(target.clone()));
    assert_eq!((report.failures, told.as_str()), (0, ""));
    assert_eq!(names(&target), ["a", "sub"]);
    copy_as(&Options::archive(), &source, &target.join("./"));
    assert_same(&source, &target);
}

#[test]
fn a_slash_at_the_end_asks_for_a_directory() {
    let (here, source, _) = place();
    fs::write(&source, "s").unwrap();
    let (report, told) = run(
        &Options::default(),
        &[&source],
        Target::As(here.path().join("new/")),
    );
    assert_eq!(report.failures, 1);
    assert!(
        told.contains("CreateFile") && told.contains("NotADirectory"),
        "{told}"
    );
}

#[test]
fn without_preserving_new_files_are_as_any_program_makes_them() {
    let (here, source, target) = place();
    tree(&source);
    fs::set_permissions(source.join("a"), fs::Permissions::from_mode(0o6775)).unwrap();
    fs::set_permissions(source.join("sub"), fs::Permissions::from_mode(0o555)).unwrap();
    copy_as(&recursive(), &source, &target);
    // SAFETY: no pointers. Set back at once; the other tests make nothing that depends on it.
    let umask = unsafe {
        let umask = libc::umask(0);
        libc::umask(umask);
        umask
    };
    assert_eq!(look_at(&target.join("a")).mode, 0o775 & !umask);
    assert_eq!(look_at(&target.join("sub")).mode, 0o555 & !umask);
    let fresh = Options {
        preserve: Preserve {
            mode: Mode::Fresh,
            ..Preserve::default()
        },
        ..recursive()
    };
    let other = here.path().join("other");
    copy_as(&fresh, &source, &other);
    assert_eq!(look_at(&other.join("a")).mode, 0o666 & !umask);
    fs::set_permissions(source.join("sub"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn everything_is_on_the_disk_when_asked() {
    let (here, source, target) = place();
    tree(&source);
    for fsync in [Fsync::End, Fsync::Each] {
        let options = Options {
            fsync,
            ..Options::archive()
        };
        copy_as(&options, &source, &target);
        assert_same(&source, &target);
        fs::rename(&target, here.path().join(format!("{fsync:?}"))).unwrap();
    }
}
