//! Calls on an open file that no op does, for the workers of [`fs`](crate::fs).

use super::File;
use crate::sys;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

pub(crate) use crate::sys::entries::entries;

impl File {
    /// Sets the permission bits.
    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        sys::chmod(self.as_fd(), mode)
    }

    /// Reads as many [`entries`] of a directory as there is room for; 0 bytes at the end.
    pub(crate) fn read_entries(&self, into: &mut [u8]) -> io::Result<usize> {
        sys::entries::read(self.as_raw_fd(), into)
    }

    /// The mode of a name in a directory; of a link its own.
    pub(crate) fn mode_of(&self, name: &OsStr) -> io::Result<libc::mode_t> {
        sys::entries::mode(self.as_raw_fd(), name)
    }
}
