//! Whether what was written has reached the disk, for each file system that a copy writes to.
//!
//! The kernel writes most of it later, and tells of a failure then: once to each open file, of what failed after it was
//! opened or was not reported yet (errseq; for `syncfs` since Linux 5.8). A file that is opened after another one has
//! reported the failure reports none. So one file of each file system is open before anything is written
//! there, every sync goes through it, and what has failed once stays failed.

use crate::sys;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::{Arc, Mutex};

/// One file system.
pub(crate) struct Disk {
    device: u64,
    file: OwnedFd,
    failed: Mutex<Option<Errno>>,
}

impl Disk {
    /// Waits until everything is on the disk. After one failure there is no other answer.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut failed = self.failed.lock().unwrap();
        if failed.is_none() {
            *failed = rustix::fs::syncfs(&self.file).err();
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    #[cfg(test)]
    pub(crate) fn fail(&self, error: Errno) {
        *self.failed.lock().unwrap() = Some(error);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.lock().unwrap().is_some()
    }
}

/// All that a run writes to.
#[derive(Default)]
pub(crate) struct Disks(Mutex<Vec<Arc<Disk>>>);

impl Disks {
    /// That of a directory, in which nothing was written yet if it is a new one.
    pub(crate) fn of(&self, dir: BorrowedFd<'_>) -> io::Result<Arc<Disk>> {
        let device = sys::stat(dir)?.id.0;
        let mut disks = self.0.lock().unwrap();
        if let Some(disk) = disks.iter().find(|disk| disk.device == device) {
            return Ok(disk.clone());
        }
        let disk = Arc::new(Disk {
            device,
            // It may be held only as a place, which cannot be synced.
            file: sys::open_dir(dir, c".", false)?,
            failed: Mutex::default(),
        });
        disks.push(disk.clone());
        Ok(disk)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Disk>> {
        self.0.lock().unwrap().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    #[test]
    fn one_for_each_file_system_and_a_failure_stays() {
        let place = tempfile::tempdir().unwrap();
        let here = std::fs::File::open(place.path()).unwrap();
        let other = std::fs::File::open("/proc").unwrap();
        let disks = Disks::default();
        let disk = disks.of(here.as_fd()).unwrap();
        assert!(Arc::ptr_eq(&disk, &disks.of(here.as_fd()).unwrap()));
        assert!(!Arc::ptr_eq(&disk, &disks.of(other.as_fd()).unwrap()));
        assert_eq!(disks.all().len(), 2);
        disk.sync().unwrap();
        assert!(!disk.has_failed());
        disk.fail(Errno::IO);
        for _ in 0..2 {
            assert_eq!(disk.sync().unwrap_err().raw_os_error(), Some(libc::EIO));
            assert!(disk.has_failed());
        }
    }
}
