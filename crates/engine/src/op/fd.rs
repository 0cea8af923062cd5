//! Ops on an open file that move no data through the caller's memory.

use super::{Advice, AllocateMode, Handle, SpliceFlags, SyncRangeFlags};

/// `fsync(2)` or `fdatasync(2)`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fsync {
    /// The file.
    pub file: Handle,
    /// Leave out metadata that is not needed to read the data back (`fdatasync`).
    pub data_only: bool,
}

impl Fsync {
    /// Data and metadata.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{File, Fsync}};
    /// # let mut driver = Driver::new()?;
    /// # let file = File::new(tempfile::tempfile()?);
    /// driver.run(Fsync::new(&file))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(file: impl Into<Handle>) -> Self {
        Fsync {
            file: file.into(),
            data_only: false,
        }
    }

    /// Data, and the metadata needed to find it.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{File, Fsync, Write}};
    /// # let mut driver = Driver::new()?;
    /// # let file = File::new(tempfile::tempfile()?);
    /// driver.chain((Write::at(&file, 0, "a record\n"), Fsync::data(&file)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn data(file: impl Into<Handle>) -> Self {
        Fsync {
            file: file.into(),
            data_only: true,
        }
    }
}

/// `sync_file_range(2)`.
#[derive(Debug)]
#[non_exhaustive]
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
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{File, SyncRange, SyncRangeFlags}};
    /// # let mut driver = Driver::new()?;
    /// # let file = File::new(tempfile::tempfile()?);
    /// // Begins to write the first MiB back, and does not wait for it.
    /// driver.run(SyncRange::new(&file, 0, 1 << 20, SyncRangeFlags::WRITE))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
#[non_exhaustive]
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
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Allocate, AllocateMode, File}};
    /// # let mut driver = Driver::new()?;
    /// # let file = File::new(tempfile::tempfile()?);
    /// driver.run(Allocate::new(&file, 0, 1 << 20).mode(AllocateMode::KEEP_SIZE))?;
    /// assert_eq!(file.size()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
#[non_exhaustive]
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
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Advice, Advise, File}};
    /// # let mut driver = Driver::new()?;
    /// # let file = File::new(tempfile::tempfile()?);
    /// driver.run(Advise::new(&file, 0, 0, Advice::Sequential))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
#[non_exhaustive]
pub struct Truncate {
    /// The file, open for writing.
    pub file: Handle,
    /// The new length in bytes.
    pub len: u64,
}

impl Truncate {
    /// Sets the length to `len` bytes; what is added reads as zeros.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{File, Truncate}};
    /// # let mut driver = Driver::new()?;
    /// # let file = File::new(tempfile::tempfile()?);
    /// driver.run(Truncate::new(&file, 100))?;
    /// assert_eq!(file.size()?, 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(file: impl Into<Handle>, len: u64) -> Self {
        Truncate {
            file: file.into(),
            len,
        }
    }
}

/// `splice(2)`: move bytes between two descriptors of which one at least is a pipe.
#[derive(Debug)]
#[non_exhaustive]
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
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{File, Splice, Write}};
    /// # let mut driver = Driver::new()?;
    /// # let file = File::new(tempfile::tempfile()?);
    /// driver.run(Write::at(&file, 0, "content"))?;
    /// let (_reader, writer) = std::io::pipe()?;
    /// let moved = driver.run(Splice::new(&file, File::new(writer), 4).from_offset(3))?;
    /// assert_eq!(moved, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    pub fn from_offset(mut self, offset: impl Into<Option<u64>>) -> Self {
        self.from_offset = offset.into();
        self
    }

    /// To this offset of a file, whose position does not move.
    pub fn to_offset(mut self, offset: impl Into<Option<u64>>) -> Self {
        self.to_offset = offset.into();
        self
    }

    /// With these flags.
    pub fn flags(mut self, flags: SpliceFlags) -> Self {
        self.flags = flags;
        self
    }
}
