//! Bounds of the machine: deep paths, few descriptors, a full disk, a size limit, and being nobody. Each case is a process
//! of its own, because limits and users belong to processes.

mod support;

use proactor_copy::{Options, Target};
use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{copy_as, is_root, module, names, require, run};

/// Which case a process is to run, and in which directory.
const CASE: &str = "PROACTOR_COPY_CASE";
const HERE: &str = "PROACTOR_COPY_HERE";

/// Runs the test of this name in another process, as this user. Says whether this is that process.
fn alone(name: &str, uid: u32, here: &Path) -> bool {
    if std::env::var(CASE).is_ok_and(|case| case == name) {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = module(module_path!()) + name;
    command
        .args(["--exact", &test, "--nocapture"])
        .env(CASE, name)
        .env(HERE, here);
    if is_root() {
        command.uid(uid).gid(uid);
    }
    let done = command.output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{text}");
    false
}

/// A directory for the case: made by the first process, found by the second.
fn place() -> (Option<tempfile::TempDir>, std::path::PathBuf) {
    if let Ok(here) = std::env::var(HERE) {
        return (None, here.into());
    }
    let made = tempfile::tempdir().unwrap();
    fs::set_permissions(made.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = made.path().into();
    (Some(made), path)
}

fn limit(resource: u32, value: u64) {
    // Asked now, for it takes descriptors of its own.
    support::in_ring();
    let limit = libc::rlimit {
        rlim_cur: value,
        rlim_max: value,
    };
    // SAFETY: the struct is live.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn open_dir(dir: RawFd, name: &CStr) -> OwnedFd {
    // SAFETY: the name ends in a zero; the descriptor is fresh.
    unsafe {
        let fd = libc::openat(
            dir,
            name.as_ptr(),
            libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW,
        );
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

/// Many times what the descriptors are enough for, and with names of 100 bytes ten times the longest path.
const LEVELS: usize = 400;

fn level() -> CString {
    CString::new("d".repeat(100)).unwrap()
}

/// Calls a function for each level of a chain of directories.
fn each_level(root: &Path, make: bool, mut visit: impl FnMut(usize, RawFd)) {
    let name = level();
    let mut fd = open_dir(libc::AT_FDCWD, &c(root));
    for number in 0..LEVELS {
        if make {
            // SAFETY: the name ends in a zero.
            assert_eq!(unsafe { libc::mkdirat(fd.as_raw_fd(), name.as_ptr(), 0o755) }, 0);
        }
        fd = open_dir(fd.as_raw_fd(), &name);
        visit(number, fd.as_raw_fd());
    }
}

fn put(dir: RawFd, name: &CStr) {
    // SAFETY: the name ends in a zero; what is written is a live local.
    unsafe {
        let fd = libc::openat(
            dir,
            name.as_ptr(),
            libc::O_CREAT | libc::O_WRONLY | libc::O_EXCL,
            0o644,
        );
        assert!(fd >= 0);
        assert_eq!(libc::write(fd, c"file".as_ptr().cast(), 4), 4);
        libc::close(fd);
    }
}

fn size(dir: RawFd, name: &CStr) -> (i64, i64) {
    // SAFETY: the name ends in a zero; all zeros is a valid stat, which the kernel fills.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        assert_eq!(
            libc::fstatat(dir, name.as_ptr(), &raw mut stat, libc::AT_SYMLINK_NOFOLLOW),
            0
        );
        (stat.st_size, stat.st_mtime)
    }
}

/// Removes what `rm -r` by path could not.
fn remove_chain(root: &Path) {
    assert!(Command::new("rm")
        .arg("-rf")
        .arg(root)
        .status()
        .unwrap()
        .success());
}

#[test]
fn deeper_than_any_path_with_few_descriptors() {
    let (_made, here) = place();
    if !alone("deeper_than_any_path_with_few_descriptors", 0, &here) {
        return;
    }
    let (source, target) = (here.join("source"), here.join("target"));
    fs::create_dir(&source).unwrap();
    each_level(&source, true, |number, dir| {
        put(dir, c"file");
        // A directory beside the chain, to come back to from below.
        if number % 100 == 0 {
            // SAFETY: the name ends in a zero.
            assert_eq!(unsafe { libc::mkdirat(dir, c"beside".as_ptr(), 0o755) }, 0);
            put(open_dir(dir, c"beside").as_raw_fd(), c"file");
        }
    });
    limit(libc::RLIMIT_NOFILE, 100);
    for jobs in [1, 3] {
        let options = Options {
            jobs,
            ..Options::archive()
        };
        let report = copy_as(&options, &source, &target);
        assert_eq!(report.directories, LEVELS as u64 + LEVELS as u64 / 100 + 1);
        assert_eq!(report.files, LEVELS as u64 + LEVELS as u64 / 100);
        let mut times = Vec::new();
        each_level(&source, false, |_, dir| times.push(size(dir, c"file")));
        each_level(&target, false, |number, dir| {
            assert_eq!(size(dir, c"file"), times[number])
        });
        remove_chain(&target);
    }
    remove_chain(&source);
}

#[test]
fn a_full_disk_leaves_nothing_half_done() {
    let (_made, here) = place();
    let name = "a_full_disk_leaves_nothing_half_done";
    if !require(name, "root", is_root()) || !alone(name, 0, &here) {
        return;
    }
    let disk = here.join("disk");
    fs::create_dir(&disk).unwrap();
    // SAFETY: all strings end in a zero.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(
                c"none".as_ptr(),
                c(&disk).as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                c"size=1m".as_ptr().cast(),
            ) == 0
    };
    if !require(name, "tmpfs mount", mounted) {
        return;
    }
    let source = here.join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("large"), vec![1; 3 << 20]).unwrap();
    for name in ["1", "2", "3"] {
        fs::write(source.join(name), name).unwrap();
    }
    let (report, told) = run(&Options::archive(), &[&source], Target::As(disk.join("target")));
    assert_eq!((report.files, report.failures), (3, 1), "{told}");
    assert!(told.contains("Write") && told.contains("StorageFull"), "{told}");
    assert_eq!(names(&disk.join("target")), ["1", "2", "3"]);
    // What is there stays whole.
    fs::write(disk.join("old"), "old").unwrap();
    let (report, _) = run(
        &Options::default(),
        &[&source.join("large")],
        Target::As(disk.join("old")),
    );
    assert_eq!(report.failures, 1);
    assert_eq!(fs::read(disk.join("old")).unwrap(), b"old");
    assert_eq!(names(&disk), ["old", "target"]);
    // There is no space for a journal, and what was written of it goes.
    fs::remove_dir_all(disk.join("target")).unwrap();
    let many = here.join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..400 {
        fs::write(many.join(format!("f{number}")), vec![1; 4096]).unwrap();
    }
    let (report, told) = run(&Options::archive(), &[&many], Target::As(disk.join("target")));
    assert!(report.files > 64 && report.failures > 0, "{told}");
    assert_eq!(names(&disk), ["old", "target"]);
}

#[test]
fn a_limit_of_size_is_an_error_like_others() {
    let (_made, here) = place();
    if !alone("a_limit_of_size_is_an_error_like_others", 0, &here) {
        return;
    }
    let source = here.join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("large"), vec![1; 1 << 20]).unwrap();
    fs::write(source.join("small"), "s").unwrap();
    // SAFETY: to ignore a signal calls nothing of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    limit(libc::RLIMIT_FSIZE, 1 << 19);
    let (report, told) = run(&Options::archive(), &[&source], Target::As(here.join("target")));
    assert_eq!((report.files, report.failures), (1, 1), "{told}");
    assert_eq!(names(&here.join("target")), ["small"]);
}

#[test]
fn the_parents_of_sources_are_not_held_open() {
    let (_made, here) = place();
    if !alone("the_parents_of_sources_are_not_held_open", 0, &here) {
        return;
    }
    let (source, target) = (here.join("source"), here.join("target"));
    let sources: Vec<PathBuf> = (0..400).map(|at| source.join(format!("{at}/sub/file"))).collect();
    for path in &sources {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "f").unwrap();
    }
    fs::create_dir(&target).unwrap();
    let options = Options {
        parents: true,
        ..Options::archive()
    };
    limit(libc::RLIMIT_NOFILE, 256);
    let paths: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let (report, told) = run(&options, &paths, Target::Into(target.clone()));
    assert_eq!((report.files, report.failures, told.as_str()), (400, 0, ""));
    support::assert_same(&source, &target.join(source.strip_prefix("/").unwrap()));
}

#[test]
fn too_few_descriptors_are_told_of() {
    let (_made, here) = place();
    if !alone("too_few_descriptors_are_told_of", 0, &here) {
        return;
    }
    let source = here.join("source");
    fs::create_dir_all(source.join("sub")).unwrap();
    fs::write(source.join("sub/file"), "f").unwrap();
    let held: Vec<_> = (0..10).map(|_| fs::File::open("/dev/null").unwrap()).collect();
    limit(libc::RLIMIT_NOFILE, held.last().unwrap().as_raw_fd() as u64 + 4);
    let (report, told) = run(&Options::archive(), &[&source], Target::As(here.join("target")));
    assert!(report.failures > 0);
    assert!(told.contains("code: 24") || told.contains("errno: 24"), "{told}");
    drop(held);
}

#[test]
fn what_somebody_may_not_do_is_told_and_the_rest_is_done() {
    let (_made, here) = place();
    let name = "what_somebody_may_not_do_is_told_and_the_rest_is_done";
    if !require(name, "root", is_root() || std::env::var(CASE).is_ok()) {
        return;
    }
    if std::env::var(CASE).is_err() {
        let source = here.join("source");
        fs::create_dir_all(source.join("closed/inside")).unwrap();
        fs::set_permissions(source.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        for (file, mode) in [("secret", 0o600), ("program", 0o4755), ("open", 0o644)] {
            fs::write(source.join(file), file).unwrap();
            fs::set_permissions(source.join(file), fs::Permissions::from_mode(mode)).unwrap();
        }
        // A file that may be written to, in a directory where nothing may be created; and one that is protected.
        fs::create_dir(here.join("fixed")).unwrap();
        for (file, mode) in [("writable", 0o666), ("protected", 0o644)] {
            fs::write(here.join("fixed").join(file), "old").unwrap();
            fs::set_permissions(here.join("fixed").join(file), fs::Permissions::from_mode(mode)).unwrap();
        }
    }
    if !alone(name, 4321, &here) {
        return;
    }
    let (source, target, fixed) = (here.join("source"), here.join("target"), here.join("fixed"));
    let (report, told) = run(&Options::archive(), &[&source], Target::As(target.clone()));
    assert_eq!((report.files, report.failures), (2, 2), "{told}");
    assert!(
        told.contains("OpenSource") && told.contains("ReadDirectory"),
        "{told}"
    );
    assert_eq!(names(&target), ["closed", "open", "program"]);
    assert_eq!(
        fs::metadata(target.join("closed")).unwrap().mode() & 0o7777,
        0o700
    );
    // It would run as somebody else than before.
    let program = fs::metadata(target.join("program")).unwrap();
    assert_eq!((program.mode() & 0o7777, program.uid()), (0o755, 4321));

    let open = source.join("open");
    copy_as(&Options::default(), &open, &fixed.join("writable"));
    assert_eq!(fs::read(fixed.join("writable")).unwrap(), b"open");
    let (report, told) = run(&Options::default(), &[&open], Target::As(fixed.join("protected")));
    assert_eq!(report.failures, 1, "{told}");
    let (report, told) = run(&Options::default(), &[&open], Target::Into(fixed.clone()));
    assert_eq!(report.failures, 1);
    assert!(told.contains("CreateFile"), "{told}");
    assert_eq!(names(&fixed), ["protected", "writable"]);
}
