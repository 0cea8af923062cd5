//! The files that a benchmark works on: made, allocated, filled, and removed afterwards.
//!
//! Invariant: nothing is left behind. Files have no name (O_TMPFILE, or unlinked at once where the file
//! system has no such thing), unless the user has given one. That one is removed when the target is dropped,
//! and only if it was made here and is still the one that has this name.

pub(crate) mod space;

use crate::cache;
use crate::data;
use crate::units;
use proactor_engine::op::direct_alignment;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Place of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Unnamed files in this directory, one for each job.
    Directory(PathBuf),
    /// This file or block device, which all jobs share.
    File {
        /// Path of the file.
        path: PathBuf,
        /// True if it may exist. Its contents are then read, and overwritten where the work writes.
        existing: bool,
    },
}

/// Requirements on the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Size of each file in bytes.
    pub size: u64,
    /// Number of jobs that run at once.
    pub jobs: u32,
    /// True if anything is copied, so that there is a second file for each job.
    pub copies: bool,
    /// True if an existing file is overwritten.
    pub writes: bool,
    /// True if contents are checked.
    pub verify: bool,
    /// Power of two that divides each block of the cells that bypass the page cache; `None` if none does.
    pub direct: Option<u64>,
}

/// Files of a benchmark.
#[derive(Debug)]
pub struct Target {
    sources: Vec<File>,
    destinations: Vec<File>,
    /// Location, for messages.
    pub place: PathBuf,
    /// Name of a file of ours to remove: the first source.
    remove: Option<PathBuf>,
}

/// Number of bytes that are written together while a file is filled.
const FILL_BYTES: usize = 1 << 20;

impl Target {
    /// Checks place and requirements before anything is made: see [`Place`] and [`Needs`].
    ///
    /// # Errors
    /// A sentence that says what is not possible.
    pub fn check(place: &Place, needs: &Needs) -> Result<(), String> {
        match place {
            Place::Directory(directory) => {
                let facts = fs::metadata(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
                if !facts.is_dir() {
                    return Err(format!(
                        "{}: no directory (a file is named by --filename)",
                        directory.display()
                    ));
                }
                let files = u64::from(needs.jobs) * (1 + u64::from(needs.copies));
                space::check(directory, needs.size.saturating_mul(files))
            }
            Place::File { path, existing } => match fs::metadata(path) {
                Ok(facts) => check_existing(path, &facts, *existing, needs),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    let files = 1 + u64::from(needs.copies) * u64::from(needs.jobs);
                    space::check(parent(path), needs.size.saturating_mul(files))
                }
                Err(e) => Err(format!("{}: {e}", path.display())),
            },
        }
    }

    /// Makes and fills the files. `on_bytes` is called with the bytes done and the bytes in all.
    ///
    /// # Errors
    /// A sentence that says what failed; `interrupted` if `stop` became true. Nothing is left then.
    pub fn make(
        place: &Place,
        needs: &Needs,
        seed: u64,
        stop: &AtomicBool,
        on_bytes: &mut dyn FnMut(u64, u64),
    ) -> Result<Target, String> {
        Target::check(place, needs)?;
        let mut target = Target {
            sources: Vec::new(),
            destinations: Vec::new(),
            place: PathBuf::new(),
            remove: None,
        };
        let mut filled = true;
        let directory = match place {
            Place::Directory(directory) => {
                for _ in 0..needs.jobs {
                    target.sources.push(nameless(directory)?);
                }
                target.place = directory.clone();
                directory.as_path()
            }
            Place::File { path, existing } => {
                let (file, made) = open_named(path, *existing, needs)?;
                filled = made;
                target.sources.push(file);
                target.remove = made.then(|| path.clone());
                target.place = path.clone();
                parent(path)
            }
        };
        if needs.copies {
            for _ in 0..needs.jobs {
                target.destinations.push(nameless(directory)?);
            }
        }
        if let Some(granule) = needs.direct {
            target
                .files()
                .try_for_each(|file| check_direct(file, granule, &target.place))?;
        }
        let sources = target.sources.iter().filter(|_| filled);
        let all: Vec<&File> = sources.chain(&target.destinations).collect();
        let total = needs.size * all.len() as u64;
        for (i, file) in all.iter().enumerate() {
            let before = needs.size * i as u64;
            fill(file, needs.size, seed, stop, &mut |done| {
                on_bytes(before + done, total)
            })
            .map_err(|e| format!("{}: filling the file: {e}", target.place.display()))?;
        }
        Ok(target)
    }

    /// Opens the file that a job reads from or writes to anew.
    ///
    /// # Errors
    /// EINVAL where the file system has no O_DIRECT.
    pub fn source(&self, job: u32, direct: bool, write: bool) -> io::Result<File> {
        reopen(&self.sources[job as usize % self.sources.len()], direct, write)
    }

    /// Opens the file that a job copies to anew.
    ///
    /// # Errors
    /// As [`source`](Self::source).
    pub fn destination(&self, job: u32, direct: bool) -> io::Result<File> {
        reopen(
            &self.destinations[job as usize % self.destinations.len()],
            direct,
            true,
        )
    }

    /// Returns every file.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.sources.iter().chain(&self.destinations)
    }

    /// Writes the files to stable storage, and drops them from the page cache as far as possible.
    ///
    /// # Errors
    /// A write-back that failed.
    pub fn settle(&self) -> io::Result<()> {
        self.files().try_for_each(cache::write_and_drop)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(path) = &self.remove {
            let number = |facts: fs::Metadata| (facts.dev(), facts.ino());
            let ours = self.sources[0].metadata().map(number);
            // A file that another program has put in its place is kept.
            if ours.is_ok_and(|ours| fs::symlink_metadata(path).is_ok_and(|there| number(there) == ours)) {
                // A failure cannot be reported any more: whatever has removed the file before us was right
                // to.
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn check_existing(path: &Path, facts: &fs::Metadata, allowed: bool, needs: &Needs) -> Result<(), String> {
    let name = path.display();
    let device = facts.file_type().is_block_device();
    if !device && !facts.is_file() {
        return Err(format!("{name}: neither a regular file nor a block device"));
    }
    if !allowed {
        let what = if device { "a block device" } else { "it exists" };
        let risk = if needs.writes {
            "its contents would be OVERWRITTEN; --use-existing allows that"
        } else {
            "--use-existing allows reading it"
        };
        return Err(format!("{name}: {what}: {risk}"));
    }
    if needs.verify {
        return Err(format!(
            "{name}: --verify needs contents that the benchmark has written: name a new file"
        ));
    }
    let size = if device {
        let mut file = File::open(path).map_err(|e| format!("{name}: {e}"))?;
        file.seek(SeekFrom::End(0)).map_err(|e| format!("{name}: {e}"))?
    } else {
        facts.len()
    };
    if size < needs.size {
        return Err(format!(
            "{name}: has {size} bytes, fewer than --size {}",
            units::bytes(needs.size)
        ));
    }
    if needs.copies {
        return space::check(parent(path), needs.size.saturating_mul(needs.jobs.into()));
    }
    Ok(())
}

/// Opens the file, and returns true with it if it was created: opening decides that, because the file may
/// come and go meanwhile.
fn open_named(path: &Path, existing: bool, needs: &Needs) -> Result<(File, bool), String> {
    let failed = |e: io::Error| match e.raw_os_error() {
        Some(libc::EBUSY) => format!("{}: mounted or otherwise in use: not overwritten", path.display()),
        _ => format!("{}: {e}", path.display()),
    };
    if existing {
        let mut options = OpenOptions::new();
        options.read(true).write(needs.writes);
        // On a block device, O_EXCL is refused while it is mounted or otherwise in use.
        if needs.writes && fs::metadata(path).is_ok_and(|facts| facts.file_type().is_block_device()) {
            options.custom_flags(libc::O_EXCL);
        }
        match options.open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            opened => {
                let file = opened.map_err(failed)?;
                check_existing(path, &file.metadata().map_err(failed)?, true, needs)?;
                return Ok((file, false));
            }
        }
    }
    let mut options = OpenOptions::new();
    let made = options.read(true).write(true).create_new(true).open(path);
    Ok((made.map_err(failed)?, true))
}

fn nameless(directory: &Path) -> Result<File, String> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(directory) {
        Ok(file) => Ok(file),
        // The error of a file system without it; EISDIR comes from kernels that do not know the flag.
        Err(e)
            if matches!(
                e.raw_os_error(),
                Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)
            ) =>
        {
            let name = format!(
                ".proactor-bench-{}-{:016x}",
                std::process::id(),
                data::mix(unique())
            );
            let path = directory.join(name);
            let file = options.create_new(true).open(&path);
            let file = file.map_err(|e| format!("{}: {e}", path.display()))?;
            fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            Ok(file)
        }
        Err(e) => Err(format!("{}: {e}", directory.display())),
    }
}

/// Returns a number that differs at each call.
fn unique() -> u64 {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |t| t.as_nanos() as u64) ^ COUNT.fetch_add(1, Ordering::Relaxed)
}

/// Opens the file again: flags such as O_DIRECT belong to the new descriptor. Works for files without a name.
fn reopen(file: &File, direct: bool, write: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(write)
        .custom_flags(if direct { libc::O_DIRECT } else { 0 })
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn check_direct(file: &File, granule: u64, place: &Path) -> Result<(), String> {
    let place = place.display();
    let reopened = reopen(file, true, false).map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL) => format!("{place}: this file system has no O_DIRECT: --direct 0"),
        _ => format!("{place}: {e}"),
    })?;
    let alignment = direct_alignment(&reopened).map_err(|e| format!("{place}: O_DIRECT: {e}"))?;
    if granule.is_multiple_of(alignment.offset as u64) {
        return Ok(());
    }
    Err(format!(
        "{place}: with O_DIRECT --bs is a multiple of {} here",
        alignment.offset
    ))
}

fn fill(
    file: &File,
    size: u64,
    seed: u64,
    stop: &AtomicBool,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), String> {
    allocate(file, size).map_err(|e| e.to_string())?;
    let mut buffer = vec![0; FILL_BYTES.min(size as usize)];
    let mut offset = 0;
    while offset < size {
        if stop.load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
        let part = &mut buffer[..FILL_BYTES.min((size - offset) as usize)];
        data::fill(part, seed, 0, offset);
        file.write_all_at(part, offset).map_err(|e| e.to_string())?;
        offset += part.len() as u64;
        on_bytes(offset);
    }
    cache::write_and_drop(file).map_err(|e| e.to_string())
}

/// Allocates blocks next to each other where the file system can, so that no op has to.
fn allocate(file: &File, size: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size) {
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(size),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: Needs = Needs {
        size: 1 << 20,
        jobs: 2,
        copies: true,
        writes: true,
        verify: false,
        direct: None,
    };

    fn make(place: &Place, needs: &Needs) -> Result<Target, String> {
        Target::make(place, needs, 1, &AtomicBool::new(false), &mut |_, _| {})
    }

    #[test]
    fn nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::Directory(directory.path().into());
        let target = make(&place, &NEEDS).unwrap();
        assert_eq!(target.files().count(), 4);
        let mut buffer = vec![0; 4096];
        target
            .source(1, false, false)
            .unwrap()
            .read_exact_at(&mut buffer, 8192)
            .unwrap();
        assert_eq!(data::check(&buffer, 1, 0..=0, 8192), Ok(()));
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            0,
            "they have no names"
        );

        let path = directory.path().join("named");
        let place = Place::File {
            path: path.clone(),
            existing: false,
        };
        let target = make(&place, &NEEDS).unwrap();
        assert!(path.exists());
        drop(target);
        assert!(!path.exists());

        let target = make(&place, &NEEDS).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "of somebody else").unwrap();
        drop(target);
        assert!(path.exists());
    }

    #[test]
    fn what_is_there_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("precious");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        let place = |existing| Place::File {
            path: path.clone(),
            existing,
        };
        assert!(make(&place(false), &NEEDS).unwrap_err().contains("OVERWRITTEN"));
        let small = Needs {
            size: 2 << 20,
            ..NEEDS
        };
        assert!(make(&place(true), &small).unwrap_err().contains("fewer than"));
        let checked = Needs {
            verify: true,
            ..NEEDS
        };
        assert!(make(&place(true), &checked).unwrap_err().contains("--verify"));
        // As if it had been created after the first check.
        let late = open_named(&path, false, &NEEDS).unwrap_err();
        assert!(late.contains("exists"), "{late}");
        let target = make(&place(true), &NEEDS).unwrap();
        drop(target);
        assert_eq!(
            fs::read(&path).unwrap(),
            vec![7; 1 << 20],
            "neither removed nor filled"
        );
    }

    #[test]
    fn refused() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::Directory(directory.path().into());
        let huge = Needs {
            size: 1 << 60,
            jobs: 1,
            ..NEEDS
        };
        assert!(make(&place, &huge).unwrap_err().contains("free"));
        let wraps = Needs {
            size: 1 << 63,
            jobs: 2,
            ..NEEDS
        };
        assert!(make(&place, &wraps).unwrap_err().contains("free"));
        let nowhere = Place::Directory(directory.path().join("nowhere"));
        assert!(make(&nowhere, &NEEDS).unwrap_err().contains("nowhere"));
        let stopped = Target::make(&place, &NEEDS, 1, &AtomicBool::new(true), &mut |_, _| {});
        assert!(stopped.unwrap_err().contains("interrupted"));
        let odd = Needs {
            direct: Some(1),
            ..NEEDS
        };
        assert!(make(&place, &odd).unwrap_err().contains("O_DIRECT"));
    }
}
