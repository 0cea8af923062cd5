//! Comparison of two trees of files.

use crate::tree::{walk, Dir, BUFFER_BYTES};
use rustix::fd::AsFd;
use rustix::fs::FileType;
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Number of files that are compared at once: those that are not in memory are waited for together.
const THREADS: usize = 4;

/// Fails unless both have the same names, kinds, contents and targets of links; with `attributes` also the
/// same permissions and times of modification.
///
/// # Errors
/// A sentence about the first difference by path.
pub fn same(left: &Path, right: &Path, attributes: bool, stop: &AtomicBool) -> Result<(), String> {
    let (here, there) = (names(left)?, names(right)?);
    if here != there {
        let missing = here.iter().find(|name| {
            let at = there.binary_search_by(|other| other.0.cmp(&name.0));
            !at.is_ok_and(|at| there[at].1 == name.1)
        });
        let missing = missing.map_or(String::new(), |(name, _)| format!(", without {}", name.display()));
        return Err(format!(
            "{} names instead of {}{missing}",
            there.len(),
            here.len()
        ));
    }
    let pair = Pair {
        left,
        right,
        attributes,
    };
    // Each thread takes the next; entries after a difference need not be compared.
    let (next, end) = (AtomicUsize::new(0), AtomicUsize::new(here.len()));
    let look = || {
        let mut buffers = [vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            // After a stop, the result is not used any more.
            if index >= end.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed) {
                return None;
            }
            let (name, kind) = &here[index];
            if let Err(difference) = pair.compare(name, *kind, &mut buffers) {
                end.fetch_min(index, Ordering::Relaxed);
                return Some((index, difference));
            }
        }
    };
    let differences = thread::scope(|scope| {
        let lookers: Vec<_> = (0..THREADS).map(|_| scope.spawn(look)).collect();
        let ended = lookers
            .into_iter()
            .map(|looker| looker.join().expect("it does not panic"));
        ended.flatten().min()
    });
    differences.map_or(Ok(()), |(_, difference)| Err(difference))
}

/// Returns everything below a root, and the root itself, in order.
fn names(root: &Path) -> Result<Vec<(PathBuf, FileType)>, String> {
    let in_dir = |dir: &Dir| {
        let name = |name: &CString| dir.path.join(OsStr::from_bytes(name.as_bytes()));
        let own = std::iter::once((dir.path.clone(), FileType::Directory));
        let entries = dir.entries.iter().map(|(entry, kind, _)| (name(entry), *kind));
        own.chain(entries).collect::<Vec<_>>()
    };
    let dirs = walk(root).map_err(|e| with_path(root, &e))?;
    let mut names: Vec<_> = dirs.iter().flat_map(in_dir).collect();
    names.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(names)
}

fn with_path(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

struct Pair<'a> {
    left: &'a Path,
    right: &'a Path,
    attributes: bool,
}

impl Pair<'_> {
    fn compare(&self, name: &Path, kind: FileType, buffers: &mut [Vec<u8>; 2]) -> Result<(), String> {
        let (one, other) = (self.left.join(name), self.right.join(name));
        let equal = match kind {
            FileType::Symlink => fs::read_link(&one).and_then(|a| Ok(a == fs::read_link(&other)?)),
            FileType::RegularFile => same_file(&one, &other, buffers),
            _ => Ok(true),
        };
        if !equal.map_err(|e| with_path(&other, &e))? {
            return Err(format!("{} differs", name.display()));
        }
        if self.attributes && kind != FileType::Symlink {
            let facts = |path: &Path| {
                let found = path.metadata().map_err(|e| with_path(path, &e))?;
                Ok::<_, String>((found.mode(), found.mtime(), found.mtime_nsec()))
            };
            if facts(&one)? != facts(&other)? {
                let is_root = name.as_os_str().is_empty();
                let name = if is_root { Path::new(".") } else { name };
                return Err(format!("{} has another mode or time", name.display()));
            }
        }
        Ok(())
    }
}

fn same_file(one: &Path, other: &Path, [left, right]: &mut [Vec<u8>; 2]) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    loop {
        let length = rustix::io::read(one.as_fd(), &mut *left)?;
        let mut rest = &mut right[..length];
        while !rest.is_empty() {
            match rustix::io::read(other.as_fd(), &mut *rest)? {
                0 => return Ok(false),
                read => rest = &mut rest[read..],
            }
        }
        if left[..length] != right[..length] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn the_first_difference_is_told() {
        let place = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| place.path().join(name));
        for root in [&a, &b] {
            fs::create_dir(root).unwrap();
            for number in 0..500 {
                fs::write(root.join(format!("{number:03}")), [1; 100]).unwrap();
            }
        }
        same(&a, &b, false, &GO_ON).unwrap();
        for number in (77..500).rev() {
            fs::write(b.join(format!("{number:03}")), [2; 100]).unwrap();
        }
        assert_eq!(same(&a, &b, false, &GO_ON).unwrap_err(), "077 differs");
        fs::write(b.join("100"), [1; 99]).unwrap();
        fs::write(b.join("077"), [1; 100]).unwrap();
        assert_eq!(same(&a, &b, false, &GO_ON).unwrap_err(), "078 differs");
        same(&a, &b, false, &AtomicBool::new(true)).unwrap();
    }

    #[test]
    fn attributes() {
        let place = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| place.path().join(name));
        for root in [&a, &b] {
            fs::create_dir(root).unwrap();
            fs::write(root.join("file"), "text").unwrap();
        }
        let times = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        File::options()
            .write(true)
            .open(b.join("file"))
            .unwrap()
            .set_times(times)
            .unwrap();
        same(&a, &b, false, &GO_ON).unwrap();
        assert!(same(&a, &b, true, &GO_ON).unwrap_err().contains("mode or time"));
    }
}
