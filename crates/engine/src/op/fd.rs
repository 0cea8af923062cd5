//! Ops on an open file that move no data through the caller's memory.

use super::{Advice, AllocateMode, Handle, SpliceFlags, SyncRangeFlags};

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
    /// What it does.
    pub flags: SyncRangeFlags,
}

impl SyncRange {
    /// Starts or awaits the write-back of `len` bytes from `offset` (0: to the end of the file), as `flags` say.
    pub fn new(file: impl Into<Handle>, offset: u64, len: u32, flags: SyncRangeFlags) -> Self {
        SyncRange {
            file: file.into(),
            offset,
            len,
            flags,
        }
    }
}

/// `fallocate(2)`.
#[derive(Debug)]
pub struct Allocate {
    /// The file.
    pub file: Handle,
    /// What it does with the range; none to reserve space.
    pub mode: AllocateMode,
    /// Start in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Allocate {
    /// Reserves `len` bytes from `offset`; the file grows if they reach beyond its end.
    pub fn new(file: impl Into<Handle>, offset: u64, len: u64) -> Self {
        Allocate {
            file: file.into(),
            mode: AllocateMode::NONE,
            offset,
            len,
        }
    }

    /// Does this with the range.
    pub fn mode(mut self, mode: AllocateMode) -> Self {
        self.mode = mode;
        self
    }
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
    /// What it announces.
    pub advice: Advice,
}

impl Advise {
    /// Announces `advice` for `len` bytes from `offset` (0: to the end of the file).
    pub fn new(file: impl Into<Handle>, offset: u64, len: u32, advice: Advice) -> Self {
        Advise {
            file: file.into(),
            offset,
            len,
            advice,
        }
    }
}

/// `ftruncate(2)`.
#[derive(Debug)]
pub struct Truncate {
    /// The file, open for writing.
    pub file: Handle,
    /// The new length in bytes.
    pub len: u64,
}

impl Truncate {
    /// Sets the length to `len` bytes; what is added reads as zeros.
    pub fn new(file: impl Into<Handle>, len: u64) -> Self {
        Truncate {
            file: file.into(),
            len,
        }
    }
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
    /// How.
    pub flags: SpliceFlags,
}

impl Splice {
    /// Moves at most `len` bytes from one to the other, each at its own position.
    pub fn new(from: impl Into<Handle>, to: impl Into<Handle>, len: u32) -> Self {
        Splice {
            from: from.into(),
            from_offset: None,
            to: to.into(),
            to_offset: None,
            len,
            flags: SpliceFlags::NONE,
        }
    }

    /// From this offset of a file, whose position does not move.
    pub fn from_offset(mut self, offset: u64) -> Self {
        self.from_offset = Some(offset);
        self
    }

    /// To this offset of a file, whose position does not move.
    pub fn to_offset(mut self, offset: u64) -> Self {
        self.to_offset = Some(offset);
        self
    }

    /// With these flags.
    pub fn flags(mut self, flags: SpliceFlags) -> Self {
        self.flags = flags;
        self
    }
}
