//! Files and buffers that the ring knows in advance.

use super::Driver;
use crate::buffer::{BufferTable, RegisteredBuf};
use crate::op::{File, FixedFile};
use std::io;
use std::os::fd::AsFd;

impl Driver {
    /// Registers a file with the ring, which saves a reference count per op. Elsewhere it is an ordinary shared file.
    ///
    /// # Errors
    /// ENFILE when the table ([`Config::fixed_files`](crate::Config::fixed_files)) is full.
    pub fn register_file(&mut self, file: &File) -> io::Result<FixedFile> {
        self.check_fork()?;
        let index = self.backend.register_file(file.as_fd())?;
        let driver_id = if index.is_some() { self.id } else { 0 };
        Ok(FixedFile::new(file.clone(), index.unwrap_or(0), driver_id))
    }

    /// Frees the file's place in the table. Ops in flight on it go on; its clones are ordinary shared files from now on.
    ///
    /// # Errors
    /// What the kernel says; EINVAL if it was registered with another driver's ring, or is not registered any more. Where
    /// there is no table (see [`register_file`](Self::register_file)) there is nothing to free, and no error.
    pub fn unregister_file(&mut self, file: FixedFile) -> io::Result<()> {
        self.check_fork()?;
        match file.driver_id() {
            0 => Ok(()),
            id if id == self.id && file.forget_index() => self.backend.unregister_file(file.index()),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    /// Makes `count` page-aligned buffers of `each_bytes` (rounded up to whole pages) and pins them for the ring's life.
    /// Once per driver.
    ///
    /// # Errors
    /// EBUSY the second time; ENOMEM above RLIMIT_MEMLOCK, or for more memory than there is.
    pub fn register_buffers(&mut self, count: u16, each_bytes: usize) -> io::Result<Vec<RegisteredBuf>> {
        self.check_fork()?;
        if self.buffers.is_some() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        if count == 0 || each_bytes == 0 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let table = BufferTable::new(count.into(), each_bytes, self.id)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let (iovecs, buffers) = (table.iovecs()?, table.buffers()?);
        // SAFETY: `self.buffers` keeps the table until after the backend is gone (see `shutdown.rs`).
        unsafe { self.backend.register_buffers(&iovecs)? };
        self.buffers = Some(table);
        Ok(buffers)
    }
}
