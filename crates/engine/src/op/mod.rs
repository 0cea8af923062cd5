//! Ops: what can be asked of the kernel, each an owned type with everything it needs inside.
//!
//! One file per family. Ops know no backend and no driver. Invariant: whatever the kernel is given a pointer to
//! (buffers, paths, `iovec` arrays, `statx` results) is on the heap behind the op or inside the op's slab slot, so that
//! it stays put until the completion.

mod blocking;
mod check;
pub(crate) mod directory;
mod event;
mod fd;
mod file;
mod flags;
mod handle;
mod name;
mod operation;
mod path;
mod read_cached;
mod read_file;
mod read_write;
mod write_file;
mod xattr;

pub use blocking::{Blocking, Stop};
pub(crate) use event::KernelTimespec;
pub use event::{Nop, Poll, Timeout};
pub use fd::{Advise, Allocate, Fsync, Splice, SyncRange, Truncate};
pub use file::{Close, Open};
pub use flags::{
    Advice, AllocateMode, AtFlags, Events, OpenFlags, RenameFlags, ResolveFlags, RwFlags, SpliceFlags,
    StatxMask, SyncRangeFlags, XattrFlags,
};
pub(crate) use handle::Facts;
pub use handle::{direct_alignment, DirectAlignment, File, FileKind, FixedFile, Handle};
pub use name::Name;
pub use operation::Operation;
pub use path::{Link, Mkdir, Rename, Statx, Symlink, Unlink};
pub use read_cached::ReadCached;
pub use read_file::{Allocator, ReadFile};
pub(crate) use read_file::{Call, Step};
pub use read_write::{Read, ReadV, Write, WriteV};
pub use write_file::WriteFile;
pub use xattr::{GetXattr, ListXattr, RemoveXattr, SetXattr, XattrTarget};

use crate::descriptors::Opens;
use crate::error::Error;
use crate::memory;
use std::collections::TryReserveError;
use std::os::fd::OwnedFd;
use std::sync::Arc;

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident($type:ty) => $text:literal),* $(,)?) => {
        /// One thing to do.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Op { $($(#[$doc])* $name($type)),* }

        /// The kind of an op, without its contents: the row of a capability table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum OpKind { $($(#[$doc])* $name),* }

        impl OpKind {
            /// Every kind, in the order of the capability table.
            pub const ALL: &'static [OpKind] = &[$(OpKind::$name),*];

            /// The op's name in errors and tables.
            pub fn name(self) -> &'static str {
                match self { $(OpKind::$name => $text),* }
            }
        }

        impl Op {
            /// Which kind of op this is.
            pub fn kind(&self) -> OpKind {
                match self { $(Op::$name(_) => OpKind::$name),* }
            }
        }

    };
}

/// Ops without a type parameter. Those with one convert themselves, where they are defined.
macro_rules! into_op {
    ($($name:ident),* $(,)?) => {
        $(impl From<$name> for Op {
            fn from(op: $name) -> Op { Op::$name(op) }
        })*
    };
}

into_op!(
    ReadV,
    WriteV,
    Fsync,
    SyncRange,
    Allocate,
    Advise,
    Truncate,
    Open,
    Close,
    Statx,
    Rename,
    Unlink,
    Mkdir,
    Link,
    Symlink,
    RemoveXattr,
    Splice,
    Poll,
    Timeout,
    Nop,
    ReadCached,
    Blocking
);

impl From<ReadFile> for Op {
    fn from(op: ReadFile) -> Op {
        Op::ReadFile(Box::new(op))
    }
}

/// An op moves from the caller to its slot and back: by as many instructions as it has words.
const _: () = assert!(size_of::<Op>() <= 88);

ops! {
    /// Read into one buffer.
    Read(Read) => "read",
    /// Write one buffer.
    Write(Write) => "write",
    /// Read into several buffers.
    ReadV(ReadV) => "readv",
    /// Write several buffers.
    WriteV(WriteV) => "writev",
    /// Bring data (and metadata) to the device.
    Fsync(Fsync) => "fsync",
    /// Start or await write-back of a range.
    SyncRange(SyncRange) => "sync_file_range",
    /// Reserve, punch or move space.
    Allocate(Allocate) => "fallocate",
    /// Announce an access pattern.
    Advise(Advise) => "fadvise",
    /// Set a file's length.
    Truncate(Truncate) => "ftruncate",
    /// Open a file.
    Open(Open) => "open",
    /// Close a descriptor.
    Close(Close) => "close",
    /// Ask for metadata.
    Statx(Statx) => "statx",
    /// Rename.
    Rename(Rename) => "rename",
    /// Remove a file or directory.
    Unlink(Unlink) => "unlink",
    /// Make a directory.
    Mkdir(Mkdir) => "mkdir",
    /// Make a hard link.
    Link(Link) => "link",
    /// Make a symbolic link.
    Symlink(Symlink) => "symlink",
    /// Read an extended attribute.
    GetXattr(GetXattr) => "getxattr",
    /// Set an extended attribute.
    SetXattr(SetXattr) => "setxattr",
    /// List extended attributes.
    ListXattr(ListXattr) => "listxattr",
    /// Remove an extended attribute.
    RemoveXattr(RemoveXattr) => "removexattr",
    /// Move bytes through a pipe.
    Splice(Splice) => "splice",
    /// Wait until a descriptor is ready.
    Poll(Poll) => "poll",
    /// Wait until a time has passed.
    Timeout(Timeout) => "timeout",
    /// Do nothing, by way of the backend.
    Nop(Nop) => "nop",
    /// Open, size, read and close one whole file.
    ReadFile(Box<ReadFile>) => "read_file",
    /// Open, write and close one whole file.
    WriteFile(WriteFile) => "write_file",
    /// Read those of several whole files that are cached.
    ReadCached(ReadCached) => "read_cached",
    /// Run a function on a worker.
    Blocking(Blocking) => "blocking",
}

impl Op {
    /// The op's name, as in errors.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Blocking(o) => o.name(),
            _ => self.kind().name(),
        }
    }

    /// The error that `errno` means for this op, with the path it named.
    pub(crate) fn error(&self, errno: i32) -> Error {
        let lacks_memory = match self {
            Op::ReadFile(read) => read.lacks_memory,
            Op::Blocking(blocking) => blocking.lacks_memory,
            _ => false,
        };
        Error::new(errno, self.name())
            .with_path(self.path().and_then(|path| memory::c_string(path).ok()))
            .lacking_memory(lacks_memory)
    }

    fn path(&self) -> Option<&Name> {
        match self {
            Op::Open(o) => Some(&o.path),
            Op::Statx(o) => Some(&o.path),
            Op::Rename(o) => Some(&o.from),
            Op::Unlink(o) => Some(&o.path),
            Op::Mkdir(o) => Some(&o.path),
            Op::Link(o) => Some(&o.from),
            Op::Symlink(o) => Some(&o.path),
            Op::GetXattr(o) => o.target.path(),
            Op::SetXattr(o) => o.target.path(),
            Op::ListXattr(o) => o.target.path(),
            Op::RemoveXattr(o) => o.target.path(),
            Op::ReadFile(o) => Some(&o.path),
            Op::WriteFile(o) => Some(&o.path),
            _ => None,
        }
    }

    /// Every name that it gives to the kernel.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Name> {
        let second = match self {
            Op::Rename(o) => Some(&o.to),
            Op::Link(o) => Some(&o.to),
            Op::Symlink(o) => Some(&o.target),
            Op::GetXattr(o) => Some(&o.name),
            Op::SetXattr(o) => Some(&o.name),
            Op::RemoveXattr(o) => Some(&o.name),
            _ => None,
        };
        self.path().into_iter().chain(second)
    }

    /// Makes room for what the kernel is told of it.
    pub(crate) fn make_room(&mut self) -> Result<(), TryReserveError> {
        match self {
            Op::ReadV(o) => o.make_room(),
            Op::WriteV(o) => o.make_room(),
            _ => Ok(()),
        }
    }

    /// What it does with the descriptor that it will open, if it opens one.
    pub(crate) fn opens(&self) -> Option<Opens> {
        match self {
            Op::Open(_) => Some(Opens::Kept),
            Op::ReadFile(o) if o.reading().is_some() => None,
            Op::ReadFile(_) | Op::WriteFile(_) => Some(Opens::Passing),
            Op::Blocking(o) => o.opens,
            _ => None,
        }
    }

    /// How many descriptors it has open at once, if it opens any.
    pub(crate) fn descriptors(&self) -> i64 {
        match self {
            Op::Blocking(o) => o.descriptors.into(),
            _ => 1,
        }
    }

    /// Whether closing a driver lets this op run to its end: it changes something, and does so in finite time.
    pub(crate) fn mutates(&self) -> bool {
        if let Op::Blocking(o) = self {
            return !o.waits;
        }
        !matches!(
            self.kind(),
            OpKind::Read
                | OpKind::ReadV
                | OpKind::Poll
                | OpKind::Timeout
                | OpKind::Nop
                | OpKind::Statx
                | OpKind::GetXattr
                | OpKind::ListXattr
                | OpKind::Advise
                | OpKind::ReadFile
                | OpKind::ReadCached
                // These may wait for a peer for ever.
                | OpKind::Open
                | OpKind::Splice
        )
    }
}

/// I/O priority, as in `ioprio_set(2)`: class in the top three bits, value below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Priority(u16);

/// Scheduling class of a [`Priority`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorityClass {
    /// First access to the device always. Needs CAP_SYS_NICE or CAP_SYS_ADMIN.
    RealTime = 1,
    /// The default class.
    BestEffort = 2,
    /// Only when nobody else wants the device.
    Idle = 3,
}

impl Priority {
    /// The submitting thread's own priority.
    pub const INHERIT: Priority = Priority(0);

    /// A class and a value from 0 (first) to 7 (last). `None` if the value is above 7, or not 0 for the idle class.
    pub fn new(class: PriorityClass, value: u8) -> Option<Self> {
        let valid = match class {
            PriorityClass::Idle => value == 0,
            _ => value <= 7,
        };
        valid.then_some(Priority(((class as u16) << 13) | u16::from(value)))
    }

    pub(crate) fn is_real_time(self) -> bool {
        self.0 >> 13 == PriorityClass::RealTime as u16
    }

    /// The value that the kernel's `ioprio` fields hold.
    pub fn raw(self) -> u16 {
        self.0
    }
}

/// How one op is to be submitted, by [`Driver::submit_with`](crate::Driver::submit_with).
///
/// ```
/// # use proactor_engine::{Options, Priority, PriorityClass};
/// let idle = Priority::new(PriorityClass::Idle, 0).expect("it has no other value");
/// let options = Options::default().priority(idle).data(7);
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// I/O priority, for reads, writes and syncs.
    pub priority: Priority,
    /// An eventfd to which one is added when this op completes. Not for linked or multishot ops.
    pub notify: Option<Arc<OwnedFd>>,
    /// Send it to the backend even if it could be finished at once.
    pub no_inline: bool,
    /// A number of the caller's, which comes back in each [`Completion::data`](crate::Completion::data) of this op.
    pub data: u64,
}

impl Options {
    /// With this I/O priority.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Adds one to this eventfd when the op completes.
    pub fn notify(mut self, eventfd: impl Into<Arc<OwnedFd>>) -> Self {
        self.notify = Some(eventfd.into());
        self
    }

    /// Whether it goes to the backend even if it could be finished at once.
    pub fn no_inline(mut self, no_inline: bool) -> Self {
        self.no_inline = no_inline;
        self
    }

    /// With a number that comes back in its completions.
    pub fn data(mut self, data: u64) -> Self {
        self.data = data;
        self
    }
}
