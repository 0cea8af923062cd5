//! What the tests share: an observer that remembers, and a comparer of trees that knows nothing of the copier.

#![allow(dead_code)] // Each test uses a part of it.

use proactor_copy::{copy, Copied, Dereference, Diagnostic, Engine, Observer, Options, Report, Target};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, OsString};
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use tempfile::TempDir;

/// The same, with the engine that these tests are for: `uring.rs` has all of them for a ring.
pub fn engaged(options: &Options) -> Options {
    Options {
        engine: if in_ring() { Engine::Uring } else { options.engine },
        ..options.clone()
    }
}

/// Whether files are in flight at once. Without a ring, the tests for one are the others once more.
pub fn in_ring() -> bool {
    static HAS_RING: OnceLock<bool> = OnceLock::new();
    env!("CARGO_CRATE_NAME") == "uring"
        && *HAS_RING.get_or_init(|| {
            let report = proactor_engine::probe::report(proactor_engine::Engine::IoUring);
            require("uring", "io_uring", report.usable.is_ok())
        })
}

/// Remembers what went wrong; stops when told to.
#[derive(Default)]
pub struct Notes {
    pub told: Mutex<Vec<String>>,
    pub stop: AtomicBool,
}

impl Observer for Notes {
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.told.lock().unwrap().push(format!("{diagnostic:?}"));
    }

    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Notes {
    pub fn text(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }
}

/// Does something in the middle of a copy.
pub struct Hooks<C, P> {
    pub notes: Notes,
    pub copied: C,
    pub progress: P,
}

impl<C: Fn(&Copied<'_>) + Sync, P: Fn(u64) + Sync> Hooks<C, P> {
    pub fn run(&self, options: &Options, source: &Path, target: Target) -> Report {
        copy(&engaged(options), &[source.into()], &target, self)
    }
}

impl<C: Fn(&Copied<'_>) + Sync, P: Fn(u64) + Sync> Observer for Hooks<C, P> {
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.notes.diagnostic(diagnostic);
    }

    fn copied(&self, entry: &Copied<'_>) {
        (self.copied)(entry);
    }

    fn progress(&self, bytes: u64) {
        (self.progress)(bytes);
    }

    fn stop(&self) -> bool {
        self.notes.stop()
    }
}

pub fn on_copied<C: Fn(&Copied<'_>) + Sync>(copied: C) -> Hooks<C, fn(u64)> {
    let nothing: fn(u64) = |_| {};
    Hooks {
        notes: Notes::default(),
        copied,
        progress: nothing,
    }
}

pub fn on_progress<P: Fn(u64) + Sync>(progress: P) -> Hooks<fn(&Copied<'_>), P> {
    let nothing: fn(&Copied<'_>) = |_| {};
    Hooks {
        notes: Notes::default(),
        copied: nothing,
        progress,
    }
}

/// Copies, and returns what was told.
pub fn run(options: &Options, sources: &[&Path], target: Target) -> (Report, String) {
    let notes = Notes::default();
    let sources: Vec<PathBuf> = sources.iter().map(PathBuf::from).collect();
    let report = copy(&engaged(options), &sources, &target, &notes);
    (report, notes.text())
}

/// Copies one source to a name, and nothing may go wrong.
pub fn copy_as(options: &Options, source: &Path, target: &Path) -> Report {
    let (report, told) = run(options, &[source], Target::As(target.into()));
    assert_eq!((report.failures, told.as_str()), (0, ""), "{}", source.display());
    report
}

/// Everything about an entry that a copy keeps.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Looks {
    pub kind: String,
    pub mode: u32,
    pub owner: (u32, u32),
    pub modified: (i64, i64),
    pub accessed: (i64, i64),
    pub attributes: BTreeMap<OsString, Vec<u8>>,
    pub content: Vec<u8>,
    /// Where data is, by the file system's word.
    pub data: Vec<(i64, i64)>,
    /// The first path with the same inode.
    pub same_as: Option<PathBuf>,
}

/// A tree by path, without following anything.
pub fn look(root: &Path) -> BTreeMap<PathBuf, Looks> {
    let mut found = BTreeMap::new();
    let mut inodes = HashMap::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(path) = todo.pop() {
        let whole = root.join(&path);
        let looks = look_at(&whole);
        if fs::symlink_metadata(&whole).unwrap().is_dir() {
            todo.extend(
                fs::read_dir(&whole)
                    .unwrap()
                    .map(|entry| path.join(entry.unwrap().file_name())),
            );
        }
        found.insert(path, looks);
    }
    for (path, looks) in &mut found {
        let stat = fs::symlink_metadata(root.join(path)).unwrap();
        if !stat.is_dir() {
            looks.same_as = inodes.get(&(stat.dev(), stat.ino())).cloned();
            inodes
                .entry((stat.dev(), stat.ino()))
                .or_insert_with(|| path.clone());
        }
    }
    found
}

pub fn look_at(path: &Path) -> Looks {
    let stat = fs::symlink_metadata(path).unwrap();
    let kind = stat.file_type();
    // Before the contents are read.
    let accessed = (stat.atime(), stat.atime_nsec());
    let (mut content, mut data) = (Vec::new(), Vec::new());
    if kind.is_file() {
        let file = fs::File::open(path).unwrap();
        data = data_of(&file, stat.len() as i64);
        content = fs::read(path).unwrap();
    } else if kind.is_symlink() {
        content = fs::read_link(path).unwrap().as_os_str().as_bytes().into();
    } else if kind.is_char_device() || kind.is_block_device() {
        content = stat.rdev().to_le_bytes().into();
    }
    Looks {
        kind: format!("{:o}", stat.mode() & libc::S_IFMT),
        mode: stat.mode() & 0o7777,
        owner: (stat.uid(), stat.gid()),
        modified: (stat.mtime(), stat.mtime_nsec()),
        accessed,
        attributes: attributes_of(path),
        content,
        data,
        same_as: None,
    }
}

fn data_of(file: &fs::File, size: i64) -> Vec<(i64, i64)> {
    let mut found = Vec::new();
    let mut at = 0;
    // SAFETY: no pointers; the descriptor is open.
    let seek = |offset, whence| unsafe { libc::lseek(file.as_raw_fd(), offset, whence) };
    while at < size {
        let start = seek(at, libc::SEEK_DATA);
        if start < 0 {
            break;
        }
        at = seek(start, libc::SEEK_HOLE);
        found.push((start, at));
    }
    found
}

pub fn attributes_of(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let mut names = vec![0u8; 1 << 16];
    // SAFETY: the path ends in a zero; the buffer is ours and as long as we say.
    let length = unsafe { libc::llistxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    if length < 0 {
        return BTreeMap::new();
    }
    let names = &names[..length as usize];
    let mut found = BTreeMap::new();
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let name_z = CString::new(name).unwrap();
        let mut value = vec![0u8; 1 << 16];
        // SAFETY: as above.
        let length = unsafe {
            libc::lgetxattr(
                path.as_ptr(),
                name_z.as_ptr(),
                value.as_mut_ptr().cast(),
                value.len(),
            )
        };
        assert!(length >= 0, "{}", std::io::Error::last_os_error());
        value.truncate(length as usize);
        found.insert(std::ffi::OsStr::from_bytes(name).into(), value);
    }
    found
}

pub fn set_attribute(path: &Path, name: &str, value: &[u8]) -> std::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let name = CString::new(name).unwrap();
    // SAFETY: both strings end in a zero; the value is as long as we say.
    let done = unsafe {
        libc::lsetxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    if done < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Two trees are the same in everything that `cp -a` keeps.
pub fn assert_same(source: &Path, target: &Path) {
    assert_looks(look(source), &look(target));
}

pub fn assert_looks(source: BTreeMap<PathBuf, Looks>, target: &BTreeMap<PathBuf, Looks>) {
    let names = |tree: &BTreeMap<PathBuf, Looks>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&source), names(target));
    for (path, mut looks) in source {
        let mut other = target[&path].clone();
        // Comparing reads the source, and so did the copier.
        (looks.accessed, other.accessed) = ((0, 0), (0, 0));
        assert!(
            looks.content == other.content,
            "{}: other contents",
            path.display()
        );
        // What was allocated and never written may be data in the cache of some file systems, and a hole in a clone.
        let covered = |range: &(i64, i64)| {
            looks
                .data
                .iter()
                .any(|wide| wide.0 <= range.0 && range.1 <= wide.1)
        };
        assert!(
            other.data.iter().all(covered),
            "{}: {:?} is more data",
            path.display(),
            other.data
        );
        looks.data.clear();
        other.data.clear();
        looks.content.clear();
        other.content.clear();
        assert_eq!(looks, other, "{}", path.display());
    }
}

pub fn make_fifo(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends in a zero.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

/// Gives something a time long ago.
pub fn make_old(path: &Path) {
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_500_000_000, 123_456_789);
    fs::File::open(path).unwrap().set_modified(old).unwrap();
}

pub fn is_root() -> bool {
    // SAFETY: no pointers.
    unsafe { libc::geteuid() == 0 }
}

/// Whether `test` can run here, as far as `capability` goes. If not it says so, or fails where PROACTOR_REQUIRE names
/// it.
pub fn require(test: &str, capability: &str, is_here: bool) -> bool {
    let required = std::env::var("PROACTOR_REQUIRE").unwrap_or_default();
    let required = required.split(',').any(|name| name.trim() == capability);
    assert!(
        is_here || !required,
        "{test} needs {capability}, which is required here"
    );
    if !is_here {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: needs {capability}");
    }
    is_here
}

/// What the names of a module's tests begin with, as the test harness has them: without the crate's.
pub fn module(path: &str) -> String {
    match path.split_once("::") {
        Some((_, inner)) => format!("{inner}::"),
        None => String::new(),
    }
}

/// Names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    names
}

/// A directory, and where a source and a target are to be in it.
pub fn place() -> (TempDir, PathBuf, PathBuf) {
    let here = tempfile::tempdir().unwrap();
    let (source, target) = (here.path().join("source"), here.path().join("target"));
    (here, source, target)
}

/// `cp -r`.
pub fn recursive() -> Options {
    Options {
        recursive: true,
        dereference: Dereference::Never,
        ..Options::default()
    }
}

/// The one refusal that a copy ends with.
pub fn refusal(options: &Options, sources: &[&Path], target: Target) -> String {
    let (report, told) = run(options, sources, target);
    assert_eq!(report.failures, 1, "{told}");
    assert!(told.starts_with("Refused"), "{told}");
    told.split_whitespace().nth(3).unwrap().trim_matches(',').into()
}
