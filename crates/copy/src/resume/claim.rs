//! Which process makes a new tree: a lock file beside it, held as long as the tree has no name.
//!
//! Two copies to one new name would each make a whole tree, and only one of them could get the name. The second one
//! is refused before it copies anything. A process that is killed loses its lock; the file that it leaves is taken over
//! and removed by the next copy to that name.
//!
//! Where there are no locks there is no claim, and the copies meet when the tree is to get its name (`walk/finish.rs`).

use crate::pair::digest::Digest;
use crate::sys::{self, FileId, NAME_MAX};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The end of the lock's name, after that of the tree.
const END: &[u8] = b".partial.lock";

/// A process that was killed has its lock until the kernel has taken it apart, after `kill` has returned.
const WAIT: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(5);

/// A lock file may vanish this often between a look at it and the lock: each time another copy has ended.
const ATTEMPTS: usize = 100;

/// A lock that is held.
pub(crate) struct Claim {
    dir: OwnedFd,
    dir_id: FileId,
    name: CString,
    file: OwnedFd,
}

pub(crate) enum Claimed {
    /// By us, or by no process where there are no locks.
    Ours(Option<Claim>),
    /// By this process, if it says so.
    Others(Option<u32>),
}

/// Claims the name of a new tree in this directory.
pub(crate) fn take(dir: BorrowedFd<'_>, name: &CStr) -> Claimed {
    let name = lock_name(name);
    let held_dir = || {
        let dir = dir.try_clone_to_owned()?;
        let id = sys::stat(dir.as_fd())?.id;
        io::Result::Ok((dir, id))
    };
    // Before anything is made that a failure would leave.
    let Ok((held, dir_id)) = twice(held_dir) else {
        return Claimed::Ours(None);
    };
    for _ in 0..ATTEMPTS {
        let file = match twice(|| open(dir, &name)) {
            Ok(file) => file,
            Err(error) if sys::is(&error, &[Errno::NOENT, Errno::EXIST]) => continue,
            Err(_) => return Claimed::Ours(None),
        };
        if !twice(|| sys::stat(file.as_fd())).is_ok_and(|stat| stat.is_file()) {
            return Claimed::Ours(None);
        }
        match lock(&file) {
            Ok(true) => {}
            Ok(false) => return Claimed::Others(holder(&file)),
            Err(_) => {
                remove(dir, &name, &file);
                return Claimed::Ours(None);
            }
        }
        if !is_named(dir, &name, &file).unwrap_or(false) {
            // The process that held it has removed it.
            continue;
        }
        // One of another user's cannot be written to: then its holder stays unknown.
        let _ = rustix::fs::ftruncate(&file, 0);
        let _ = sys::write_all_at(file.as_fd(), std::process::id().to_string().as_bytes(), 0);
        return Claimed::Ours(Some(Claim {
            dir: held,
            dir_id,
            name,
            file,
        }));
    }
    Claimed::Ours(None)
}

fn lock_name(name: &CStr) -> CString {
    let name = name.to_bytes();
    if name.len() + END.len() <= NAME_MAX {
        return CString::new([name, END].concat()).expect("a name has no zero in it");
    }
    let rest = format!("-{:016x}", Digest::new().bytes(name).value());
    let kept = &name[..NAME_MAX - rest.len() - END.len()];
    CString::new([kept, rest.as_bytes(), END].concat()).expect("a name has no zero in it")
}

/// Opens the lock file, or makes it. One that may not be written to can be locked all the same.
fn open(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let safe = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = |flags, mode| rustix::fs::openat(dir, name, flags | safe, Mode::from_raw_mode(mode));
    let opened = match open(OFlags::RDWR, 0) {
        Err(Errno::NOENT) => open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, 0o644),
        Err(Errno::ACCESS | Errno::PERM) => open(OFlags::RDONLY, 0),
        opened => opened,
    };
    Ok(opened?)
}

/// Takes the lock, as soon as it can be had.
fn lock(file: &OwnedFd) -> io::Result<bool> {
    let begin = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if begin.elapsed() < WAIT => std::thread::sleep(STEP),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The process that has written its number there.
fn holder(file: &OwnedFd) -> Option<u32> {
    let mut digits = [0; 16];
    let length = sys::read_at(file.as_fd(), &mut digits, 0).ok()?;
    std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}

fn is_named(dir: BorrowedFd<'_>, name: &CStr, file: &OwnedFd) -> io::Result<bool> {
    match sys::stat_at(dir, name, false) {
        Ok(named) => Ok(named.id == sys::stat(file.as_fd())?.id),
        Err(error) if sys::is(&error, &[Errno::NOENT]) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tries once more what has failed: an error that passes must not leave a lock file behind.
fn twice<T>(call: impl Fn() -> io::Result<T>) -> io::Result<T> {
    call().or_else(|_| call())
}

/// Removes a lock file. If that fails, the next copy takes it over.
fn remove(dir: BorrowedFd<'_>, name: &CStr, file: &OwnedFd) {
    let _ = twice(|| match is_named(dir, name, file)? {
        true => Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?),
        false => Ok(()),
    });
}

impl Drop for Claim {
    fn drop(&mut self) {
        remove(self.dir.as_fd(), &self.name, &self.file);
    }
}

/// The claims of a run, by the tree that each is for.
#[derive(Default)]
pub(crate) struct Claims(Mutex<HashMap<FileId, Claim>>);

impl Claims {
    pub(crate) fn add(&self, tree: FileId, claim: Claim) {
        self.0.lock().unwrap().insert(tree, claim);
    }

    /// The tree has its name, or never will.
    pub(crate) fn release(&self, tree: FileId) {
        self.0.lock().unwrap().remove(&tree);
    }

    /// Returns true for an entry of a source that is a lock of ours, as one is if the target is in the source.
    pub(crate) fn is_lock(&self, name: &CStr, dir: FileId) -> bool {
        let is_ours = || {
            let claims = self.0.lock().unwrap();
            claims
                .values()
                .any(|claim| claim.dir_id == dir && claim.name.as_c_str() == name)
        };
        // This is called for each entry, and most names end otherwise.
        name.to_bytes().ends_with(END) && is_ours()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(claimed: Claimed) -> Claim {
        match claimed {
            Claimed::Ours(claim) => claim.expect("there are locks"),
            Claimed::Others(_) => panic!("no other process has it"),
        }
    }

    #[test]
    fn one_at_a_time_and_nothing_is_left() {
        let place = tempfile::tempdir().unwrap();
        let dir = OwnedFd::from(std::fs::File::open(place.path()).unwrap());
        let names = || std::fs::read_dir(place.path()).unwrap().count();
        let claim = ours(take(dir.as_fd(), c"t"));
        let other = ours(take(dir.as_fd(), c"u"));
        assert!(matches!(take(dir.as_fd(), c"t"), Claimed::Others(Some(pid)) if pid == std::process::id()));
        drop(claim);
        let again = ours(take(dir.as_fd(), c"t"));
        assert_eq!(names(), 2);
        drop((again, other));
        assert_eq!(names(), 0);
    }

    #[test]
    fn what_a_killed_process_has_left_is_taken_over() {
        let place = tempfile::tempdir().unwrap();
        let dir = OwnedFd::from(std::fs::File::open(place.path()).unwrap());
        std::fs::write(place.path().join("t.partial.lock"), "4194305").unwrap();
        drop(ours(take(dir.as_fd(), c"t")));
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn names_that_are_too_long_are_told_apart() {
        let long = |end: char| CString::new("x".repeat(254) + &end.to_string()).unwrap();
        let (one, other) = (lock_name(&long('a')), lock_name(&long('b')));
        assert!(one != other && one.to_bytes().len() <= NAME_MAX);
    }
}
