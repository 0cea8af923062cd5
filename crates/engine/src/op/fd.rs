//! Ops on an open file that move no data through the caller's memory.

use super::Handle;

/// `fsync(2)` or `fdatasync(2)`.
#[derive(Debug)]
pub struct Fsync {
    /// The file.
    pub file: Handle,
    /// Leave out metadata that is not needed to read the data back (`fdatasync`).
    pub data_only: bool,
}

impl Fsync {
    /// Data and metadata.
    pub fn new(file: impl Into<Handle>) -> Self {
        Fsync {
            file: file.into(),
            data_only: false,
        }
    }

    /// Data, and the metadata needed to find it.
    pub fn data(file: impl Into<Handle>) -> Self {
        Fsync {
            file: file.into(),
            data_only: true,
        }
    }
}

/// `sync_file_range(2)`.
#[derive(Debug)]
pub struct SyncRange {
    /// The file.
    pub file: Handle,
    /// Start in bytes.
    pub offset: u64,
    /// Length in bytes; 0 is to the end of the file.
    pub len: u32,
    /// `SYNC_FILE_RANGE_*`.
    pub flags: u32,
}

/// `fallocate(2)`.
#[derive(Debug)]
pub struct Allocate {
    /// The file.
    pub file: Handle,
    /// `FALLOC_FL_*`, 0 to reserve space.
    pub mode: i32,
    /// Start in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// `posix_fadvise(2)`.
#[derive(Debug)]
pub struct Advise {
    /// The file.
    pub file: Handle,
    /// Start in bytes.
    pub offset: u64,
    /// Length in bytes; 0 is to the end of the file.
    pub len: u32,
    /// `POSIX_FADV_*`.
    pub advice: i32,
}

/// `ftruncate(2)`.
#[derive(Debug)]
pub struct Truncate {
    /// The file, open for writing.
    pub file: Handle,
    /// The new length in bytes.
    pub len: u64,
}

/// `splice(2)`: move bytes between two descriptors of which one at least is a pipe.
#[derive(Debug)]
pub struct Splice {
    /// From here.
    pub from: Handle,
    /// At this offset; `None` for a pipe or the file's position.
    pub from_offset: Option<u64>,
    /// To there.
    pub to: Handle,
    /// At this offset; `None` for a pipe or the file's position.
    pub to_offset: Option<u64>,
    /// At most this many bytes.
    pub len: u32,
    /// `SPLICE_F_*`.
    pub flags: u32,
}
