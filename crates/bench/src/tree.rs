//! Trees of files: made, read, dropped from the page cache, and compared.

use crate::cache::{self, Resident};
use crate::data;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir as ReadDir, FileType, Mode, OFlags, CWD};
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, FileExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// Size of a buffer that stays in a core's second-level cache.
pub const BUFFER_BYTES: usize = 256 << 10;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A directory of a tree, by its path below the root.
#[derive(Debug)]
pub struct Dir {
    /// Path below the root.
    pub path: PathBuf,
    /// Entries, without directories: name, kind and number of the inode, sorted by that number.
    pub entries: Vec<(CString, FileType, u64)>,
}

/// Returns all directories of a tree, parents first.
///
/// # Errors
/// Those of reading a directory.
pub fn walk(root: &Path) -> io::Result<Vec<Dir>> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(path) = left.pop() {
        let mut entries = Vec::new();
        for entry in ReadDir::read_from(open_dir(&root.join(&path))?)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                entries.push((name.to_owned(), entry.file_type(), entry.ino()));
            }
        }
        entries.sort_unstable_by_key(|(_, _, ino)| *ino);
        let is_dir = |kind: &FileType| *kind == FileType::Directory;
        for (name, ..) in entries.iter().filter(|(_, kind, _)| is_dir(kind)) {
            left.push(path.join(name_of(name)));
        }
        entries.retain(|(_, kind, _)| !is_dir(kind));
        found.push(Dir { path, entries });
    }
    Ok(found)
}

/// Opens a directory to read it.
///
/// # Errors
/// Those of opening it.
pub fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Returns a name as a path.
pub fn name_of(name: &CString) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

/// Returns the regular files of a tree, sorted by their inode numbers.
///
/// # Errors
/// Those of reading a directory.
pub fn files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for dir in walk(root)? {
        let place = root.join(&dir.path);
        let regular = dir
            .entries
            .iter()
            .filter(|(_, kind, _)| *kind == FileType::RegularFile);
        files.extend(regular.map(|(name, _, ino)| (*ino, place.join(name_of(name)))));
    }
    files.sort_unstable();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// Size of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of names of regular files.
    pub files: u64,
    /// Number of other entries, the root included.
    pub others: u64,
    /// Bytes of the files, including holes; a file with many names counts as often.
    pub bytes: u64,
}

/// Measures a tree.
///
/// # Errors
/// Those of reading metadata.
pub fn size(root: &Path) -> io::Result<Size> {
    let mut size = Size {
        files: 0,
        others: 0,
        bytes: 0,
    };
    for dir in walk(root)? {
        size.others += 1;
        let place = open_dir(&root.join(&dir.path))?;
        for (name, kind, _) in &dir.entries {
            if *kind == FileType::RegularFile {
                size.files += 1;
                size.bytes += rustix::fs::statat(&place, name, AtFlags::SYMLINK_NOFOLLOW)?.st_size as u64;
            } else {
                size.others += 1;
            }
        }
    }
    Ok(size)
}

/// Reads all files, so that they are in the page cache, or some of them when `stop` becomes true.
///
/// # Errors
/// Those of reading.
pub fn warm(files: &[PathBuf], stop: &AtomicBool) -> io::Result<()> {
    let read = || {
        files.iter().try_for_each(|path| {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            cache::warm(&file, len, stop)
        })
    };
    cache::fill(read, || resident(files), stop)
}

/// Drops the files' data from the page cache. Names and inodes stay in memory.
///
/// # Errors
/// Those of writing back.
pub fn drop_data(files: &[PathBuf]) -> io::Result<()> {
    files
        .iter()
        .try_for_each(|path| cache::write_and_drop(&File::open(path)?))
}

/// Returns the share of the files that is in the page cache.
pub fn resident(files: &[PathBuf]) -> Option<Resident> {
    files.iter().try_fold(Resident { pages: 0, of: 0 }, |sum, path| {
        let file = File::open(path).ok()?;
        let len = file.metadata().ok()?.len();
        // An empty file has no page, and cachestat takes a length of 0 for the whole file.
        let one = match len {
            0 => Resident { pages: 0, of: 0 },
            _ => cache::resident(&file, len)?,
        };
        Some(Resident {
            pages: sum.pages + one.pages,
            of: sum.of + one.of,
        })
    })
}

/// A tree that can be made.
#[derive(Debug)]
pub struct Kind {
    /// Name on the command line.
    pub name: &'static str,
    /// Description, in a line.
    pub about: &'static str,
    make: fn(&Path, u64, u64) -> io::Result<()>,
    size: fn(u64, u64) -> Size,
}

/// All kinds of trees.
pub static KINDS: &[Kind] = &[
    Kind {
        name: "small",
        about: "5,000 files of 4 KiB in 50 directories",
        make: |root, seed, part| {
            let directories = 50 / part;
            (0..directories * 100).try_for_each(|number| {
                let place = root.join(format!("{:03}", number / 100));
                fs::create_dir_all(&place)?;
                file(&place.join(format!("{number:05}.bin")), seed ^ number, 4 * KIB)
            })
        },
        size: |_, part| {
            let directories = 50 / part;
            Size {
                files: directories * 100,
                others: directories + 1,
                bytes: directories * 100 * 4 * KIB,
            }
        },
    },
    Kind {
        name: "large",
        about: "4 files of 16 MiB",
        make: |root, seed, part| {
            (0..4).try_for_each(|number| {
                file(&root.join(format!("{number}.bin")), seed ^ number, 16 * MIB / part)
            })
        },
        size: |_, part| Size {
            files: 4,
            others: 1,
            bytes: 4 * (16 * MIB / part),
        },
    },
    Kind {
        name: "mixed",
        about: "a data set: 1,000 pictures of 1 to 200 KiB with labels, links, hard links, 2 shards of 4 MiB and a sparse index",
        make: mixed,
        size: size_of_mixed,
    },
];

impl Kind {
    /// Finds a kind by name.
    ///
    /// # Errors
    /// A sentence with the names there are.
    pub fn named(name: &str) -> Result<&'static Kind, String> {
        KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
            let all: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            format!("no tree is called {name:?}: choose from {}", all.join(", "))
        })
    }

    /// Makes the tree in an existing directory; `part` divides its size.
    ///
    /// # Errors
    /// Those of writing.
    pub fn make(&self, root: &Path, seed: u64, part: u64) -> io::Result<()> {
        (self.make)(root, data::mix(seed), part)?;
        age(root)
    }

    /// Returns the size of the tree that [`make`](Self::make) would make.
    pub fn size(&self, seed: u64, part: u64) -> Size {
        (self.size)(data::mix(seed), part)
    }
}

/// Apparent age of what was made. rsync leaves a directory's time as it is if that is of the same second, so
/// a tree that was made just now would be copied wrong.
const AGE: Duration = Duration::from_secs(3600);

fn age(root: &Path) -> io::Result<()> {
    let times = fs::FileTimes::new().set_modified(SystemTime::now() - AGE);
    let dirs = walk(root)?.into_iter().map(|dir| root.join(dir.path));
    files(root)?
        .into_iter()
        .chain(dirs)
        .try_for_each(|path| File::open(path)?.set_times(times))
}

fn file(path: &Path, seed: u64, len: u64) -> io::Result<()> {
    let file = File::create_new(path)?;
    let mut buffer = vec![0; MIB.min(len) as usize];
    let mut offset = 0;
    while offset < len {
        let part = buffer.len().min((len - offset) as usize);
        data::fill(&mut buffer[..part], seed, 0, offset);
        file.write_all_at(&buffer[..part], offset)?;
        offset += part as u64;
    }
    Ok(())
}

const PICTURES: u64 = 1_000;
const CLASSES: u64 = 40;
const LINK_EACH: u64 = 20;
const HARD_LINK_EACH: u64 = 50;
const SHARD_BYTES: u64 = 8 * MIB;
const INDEX_BYTES: u64 = 8 * MIB;

/// Returns the sizes of a picture and its label in bytes: from 1 to 200 KiB, small ones more often.
fn in_mixed(chance: u64) -> (u64, u64) {
    let share = (chance % 1000) as f64 / 1000.0;
    (
        KIB + (share * share * 199.0 * KIB as f64) as u64,
        300 + chance % 500,
    )
}

fn size_of_mixed(seed: u64, part: u64) -> Size {
    let pictures = PICTURES / part;
    let bytes = (0..pictures).map(|number| {
        let (picture, label) = in_mixed(data::mix(seed ^ number));
        picture * (1 + u64::from(number % HARD_LINK_EACH == 0)) + label
    });
    Size {
        files: 2 * pictures + pictures.div_ceil(HARD_LINK_EACH) + 3,
        others: pictures.min(CLASSES) + pictures.div_ceil(LINK_EACH) + 2,
        bytes: bytes.sum::<u64>() + 2 * (SHARD_BYTES / part) + INDEX_BYTES,
    }
}

fn mixed(root: &Path, seed: u64, part: u64) -> io::Result<()> {
    for number in 0..PICTURES / part {
        let place = root.join(format!("class{:02}", number % CLASSES));
        fs::create_dir_all(&place)?;
        let chance = data::mix(seed ^ number);
        let picture = place.join(format!("{number:05}.jpg"));
        let (picture_bytes, label_bytes) = in_mixed(chance);
        file(&picture, chance, picture_bytes)?;
        file(&place.join(format!("{number:05}.json")), chance ^ 1, label_bytes)?;
        if number % LINK_EACH == 0 {
            symlink(
                format!("{number:05}.jpg"),
                place.join(format!("{number:05}.link")),
            )?;
        }
        if number % HARD_LINK_EACH == 0 {
            fs::hard_link(&picture, place.join(format!("{number:05}.same")))?;
        }
    }
    let shards = root.join("shards");
    fs::create_dir(&shards)?;
    (0..2).try_for_each(|number| {
        file(
            &shards.join(format!("{number}.tar")),
            seed ^ !number,
            SHARD_BYTES / part,
        )
    })?;
    let index = File::create_new(root.join("index.bin"))?;
    let mut block = vec![0; 64 << 10];
    data::fill(&mut block, seed, 0, 0);
    (0..8).try_for_each(|number| index.write_all_at(&block, number * MIB))?;
    index.set_len(INDEX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::same::same;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn made_twice_and_compared() {
        let place = tempfile::tempdir().unwrap();
        for kind in KINDS {
            let roots = ["one", "other"].map(|name| place.path().join(kind.name).join(name));
            for root in &roots {
                fs::create_dir_all(root).unwrap();
                kind.make(root, 7, 50).unwrap();
            }
            same(&roots[0], &roots[1], false, &GO_ON).unwrap();
            let made = fs::metadata(&roots[0]).unwrap().modified().unwrap();
            assert!(made.elapsed().unwrap() >= AGE, "{}", kind.name);
            let size = size(&roots[0]).unwrap();
            assert_eq!(size, kind.size(7, 50), "{}", kind.name);
            assert!(size.files > 3 && size.bytes > 1 << 16, "{}: {size:?}", kind.name);
            let list = files(&roots[1]).unwrap();
            assert_eq!(list.len() as u64, size.files);
            // Pages may leave memory at any time.
            let is_warm = || {
                warm(&list, &GO_ON).unwrap();
                resident(&list).is_none_or(|r| r.pages == r.of)
            };
            assert!((0..100).any(|_| is_warm()), "{}", kind.name);
            // One byte, then a name.
            let victim = list
                .iter()
                .max_by_key(|path| path.metadata().unwrap().len())
                .unwrap();
            let changed = fs::OpenOptions::new().write(true).open(victim).unwrap();
            changed
                .write_all_at(b"?!", 77_777 % changed.metadata().unwrap().len())
                .unwrap();
            assert!(same(&roots[0], &roots[1], false, &GO_ON)
                .unwrap_err()
                .contains("differs"));
            fs::remove_file(victim).unwrap();
            assert!(same(&roots[0], &roots[1], false, &GO_ON)
                .unwrap_err()
                .contains("without"));
        }
    }
}
