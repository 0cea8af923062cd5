//! Files that are removed unless they are taken: the base of temporary files.
//!
//! This module does no I/O itself. The op does, on a worker, as no file system creates a file without
//! waiting. Invariant: a file that was created and not taken has neither a name nor a descriptor once the op
//! and the [`Creation`] are gone.

use proactor_engine::op::{Blocking, File};
use proactor_engine::Opens;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The op's name in errors.
const NAME: &str = "open";

/// Mode of the file: only its owner may use it.
const MODE: libc::c_uint = 0o600;

/// Kinds of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// Under a name that must be free.
    Named,
    /// Under a name that must be free, and which is removed at once.
    Unlinked,
    /// Without a name, in the directory that the path names (O_TMPFILE).
    Nameless,
}

/// A file between the op that creates it and the caller that takes it. Dropping it gives the file up.
#[derive(Debug, Default)]
pub struct Creation(Arc<Mutex<Slot>>);

#[derive(Debug, Default)]
struct Slot {
    created: Option<Created>,
    /// True if no caller will take the file.
    given_up: bool,
}

#[derive(Debug)]
struct Created {
    /// The file; `None` if it was taken.
    file: Option<File>,
    /// Name to remove if the file is not taken.
    path: Option<CString>,
    /// Process that made this: a forked child has a copy of it, and the file is its parent's.
    process: u32,
}

impl Creation {
    /// Creates a file for reading and writing. Waits for a descriptor, and fails with EEXIST if the name is
    /// taken.
    pub fn start(&self, path: CString, how: Create) -> Blocking {
        let slot = Arc::clone(&self.0);
        let mut op = Blocking::new(NAME, move |stop| {
            let created = Created::new(&path, how)?;
            let mut slot = locked(&slot);
            if stop.is_set() || slot.given_up {
                drop(slot);
                // On the worker, because removing a file takes a while.
                drop(created);
                return Err(io::Error::from_raw_os_error(libc::EINTR));
            }
            slot.created = Some(created);
            Ok(0)
        });
        op.opens = Some(Opens::Kept);
        op
    }

    /// Takes the open file, if it was created and not taken before. The file is kept from now on.
    pub fn take(&self) -> Option<File> {
        locked(&self.0).created.take().and_then(Created::keep)
    }

    /// Returns the descriptor of the file, until it is taken.
    pub fn fd(&self) -> Option<RawFd> {
        locked(&self.0)
            .created
            .as_ref()?
            .file
            .as_ref()
            .map(AsRawFd::as_raw_fd)
    }

    /// Removes and closes the file, now or once it has been created.
    pub fn give_up(&self) {
        let mut slot = locked(&self.0);
        slot.given_up = true;
        let created = slot.created.take();
        drop(slot);
        drop(created);
    }
}

impl Drop for Creation {
    fn drop(&mut self) {
        self.give_up();
    }
}

fn locked(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Created {
    fn new(path: &CString, how: Create) -> io::Result<Self> {
        let flags = match how {
            Create::Named | Create::Unlinked => libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW,
            Create::Nameless => libc::O_TMPFILE,
        };
        // SAFETY: the path is NUL-terminated and outlives the call; a descriptor that is returned is ours.
        let fd = unsafe {
            match libc::open(path.as_ptr(), flags | libc::O_RDWR | libc::O_CLOEXEC, MODE) {
                -1 => return Err(io::Error::last_os_error()),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        let mut created = Created {
            file: Some(File::counted(fd)),
            path: (how != Create::Nameless).then(|| path.clone()),
            process: std::process::id(),
        };
        if how == Create::Unlinked {
            created.remove()?;
        }
        Ok(created)
    }

    /// Removes the name of the file, if it has one of ours.
    fn remove(&mut self) -> io::Result<()> {
        let path = self.path.take().filter(|_| self.process == std::process::id());
        // SAFETY: the path is NUL-terminated and outlives the call.
        match path.map_or(0, |path| unsafe { libc::unlink(path.as_ptr()) }) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn keep(mut self) -> Option<File> {
        self.path = None;
        self.file.take()
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        let _ = self.remove(); // nobody is there to hear of it
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proactor_engine::Driver;
    use std::fs;
    use std::path::Path;

    fn c_path(path: &Path) -> CString {
        CString::new(path.as_os_str().as_encoded_bytes()).expect("a path")
    }

    fn create(path: &Path, how: Create) -> (Creation, Result<(), i32>) {
        let creation = Creation::default();
        let op = creation.start(c_path(path), how);
        let done = Driver::new().expect("a driver").run(op);
        (creation, done.map(drop).map_err(|e| e.errno()))
    }

    #[test]
    fn what_is_taken_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("name");
        let (creation, result) = create(&path, Create::Named);
        assert_eq!(result, Ok(()));
        let file = creation.take().expect("a file");
        assert!(creation.take().is_none());
        drop(creation);
        assert_eq!(file.size().expect("its size"), 0);
        assert!(path.exists());
        let (again, result) = create(&path, Create::Named);
        assert_eq!(result, Err(libc::EEXIST));
        drop(again);
        assert!(path.exists(), "somebody else's file was removed");
    }

    #[test]
    fn what_is_not_taken_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        for how in [Create::Named, Create::Unlinked] {
            let path = folder.path().join("name");
            let (creation, result) = create(&path, how);
            assert_eq!(result, Ok(()));
            assert_eq!(path.exists(), how == Create::Named);
            drop(creation);
            assert!(!path.exists());
        }
    }

    #[test]
    fn without_a_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let (creation, result) = create(folder.path(), Create::Nameless);
        // Some file systems cannot create such a file.
        if result == Ok(()) {
            let file = creation.take().expect("a file");
            // SAFETY: no pointers.
            let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
            assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        } else {
            assert_eq!(result, Err(libc::EOPNOTSUPP));
        }
        assert_eq!(fs::read_dir(folder.path()).expect("a listing").count(), 0);
    }

    #[test]
    fn nobody_waits_any_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut driver = Driver::new().expect("a driver");
        for number in 0..50 {
            let path = folder.path().join(number.to_string());
            let creation = Creation::default();
            let token = driver
                .submit(creation.start(c_path(&path), Create::Named))
                .expect("accepted");
            driver.flush().expect("submitted");
            drop(creation);
            driver.abandon(token);
        }
        drop(driver);
        assert_eq!(fs::read_dir(folder.path()).expect("a listing").count(), 0);
    }
}
