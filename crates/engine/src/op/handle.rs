//! Which file an op works on.

use crate::descriptors::Kept;
use crate::sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// What kind of file a descriptor refers to, as far as scheduling cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file or block device: always "ready", may wait for the device.
    Disk,
    /// A pipe, socket or terminal: may wait for a peer for ever.
    Stream,
    /// A directory, or something that does not matter.
    Other,
}

/// What decides how an op on a file is best done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) kind: FileKind,
    /// Opened with O_DIRECT.
    pub(crate) direct: bool,
    /// An eventfd, timerfd, epoll instance or the like.
    pub(crate) anonymous: bool,
    pub(crate) terminal: bool,
}

impl Facts {
    pub(crate) fn of(fd: RawFd) -> io::Result<Self> {
        let stat = sys::perform::fstat(fd)?;
        // SAFETY: no pointers.
        let flags = sys::check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
        let mut facts = Self::new(&stat, flags);
        // SAFETY: no pointers.
        facts.terminal = stat.st_mode & libc::S_IFMT == libc::S_IFCHR && unsafe { libc::isatty(fd) } == 1;
        Ok(facts)
    }

    /// Of a file that is no terminal.
    pub(crate) fn new(stat: &libc::stat, flags: i32) -> Self {
        let kind = match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG | libc::S_IFBLK => FileKind::Disk,
            // Anonymous descriptors (eventfd, timerfd, ...) have no type bits; they behave as streams.
            libc::S_IFIFO | libc::S_IFSOCK | libc::S_IFCHR | 0 => FileKind::Stream,
            _ => FileKind::Other,
        };
        Facts {
            kind,
            direct: flags & libc::O_DIRECT != 0,
            anonymous: stat.st_mode & libc::S_IFMT == 0,
            terminal: false,
        }
    }
}

/// An open file, shared by whoever clones it; closed when the last clone is gone.
///
/// What the engine has to know of a file (its kind, O_DIRECT) is asked once here, instead of once per op.
#[derive(Debug, Clone)]
pub struct File(Arc<FileInner>);

#[derive(Debug)]
struct FileInner {
    fd: OwnedFd,
    facts: OnceLock<Facts>,
    /// Set when the file system has refused RWF_NOWAIT once.
    nowait_refused: AtomicBool,
    /// See `Handle::may_queue`.
    may_queue: OnceLock<bool>,
    /// Last, so that the descriptor is closed when it tells of that.
    _kept: Option<Kept>,
}

/// The alignment that O_DIRECT demands of a file, in bytes. See [`File::direct_alignment`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectAlignment {
    /// The buffer's address must be a multiple of this.
    pub memory: usize,
    /// Offset and length must be multiples of this.
    pub offset: usize,
}

impl DirectAlignment {
    /// One that the caller knows.
    pub fn new(memory: usize, offset: usize) -> Self {
        DirectAlignment { memory, offset }
    }
}

impl File {
    /// Takes ownership of a descriptor.
    pub fn new(fd: impl Into<OwnedFd>) -> Self {
        Self::make(fd.into(), None)
    }

    /// Another descriptor of a file that somebody else owns, by `dup(2)`: `File::duplicate(&std_file)`.
    ///
    /// # Errors
    /// What dup says, such as EMFILE.
    pub fn duplicate(file: impl AsFd) -> io::Result<Self> {
        file.as_fd().try_clone_to_owned().map(Self::new)
    }

    /// Takes ownership of a descriptor that an op has opened, and counts it until it is closed. Beyond some such files, ops
    /// that wait for a descriptor of their own leave the last ones to the program.
    pub fn counted(fd: OwnedFd) -> Self {
        Self::make(fd, Some(Kept::new()))
    }

    fn make(fd: OwnedFd, kept: Option<Kept>) -> Self {
        File(Arc::new(FileInner {
            fd,
            facts: OnceLock::new(),
            nowait_refused: AtomicBool::new(false),
            may_queue: OnceLock::new(),
            _kept: kept,
        }))
    }

    /// As `counted`, of a file of which this is known.
    pub(crate) fn known(fd: OwnedFd, facts: Facts) -> Self {
        let file = Self::counted(fd);
        let _ = file.0.facts.set(facts);
        file
    }

    /// The alignment that O_DIRECT needs on this file: from `statx(STATX_DIOALIGN)` since Linux 6.1, before that the
    /// file system's block size, which is always enough.
    ///
    /// # Errors
    /// EINVAL if the file cannot be used with O_DIRECT at all.
    pub fn direct_alignment(&self) -> io::Result<DirectAlignment> {
        direct_alignment(self.as_fd())
    }

    /// The descriptor, if nobody else shares the file: no clone of it, and no op in flight.
    ///
    /// # Errors
    /// The file itself, if somebody does.
    pub fn into_fd(self) -> Result<OwnedFd, File> {
        Arc::try_unwrap(self.0).map(|inner| inner.fd).map_err(File)
    }

    /// The file's size in bytes, as fstat has it now.
    ///
    /// # Errors
    /// What fstat says.
    pub fn size(&self) -> io::Result<u64> {
        sys::perform::fstat(self.as_raw_fd()).map(|stat| stat.st_size as u64)
    }

    /// What kind of file it is, as far as waiting goes.
    ///
    /// # Errors
    /// What fstat says.
    pub fn kind(&self) -> io::Result<FileKind> {
        self.facts().map(|facts| facts.kind)
    }

    pub(crate) fn facts(&self) -> io::Result<Facts> {
        match self.0.facts.get() {
            Some(facts) => Ok(*facts),
            None => Facts::of(self.as_raw_fd()).inspect(|&facts| {
                let _ = self.0.facts.set(facts);
            }),
        }
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.0.fd.as_raw_fd()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

/// The alignment that O_DIRECT needs on a descriptor. See [`File::direct_alignment`].
pub fn direct_alignment(file: impl AsFd) -> io::Result<DirectAlignment> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: zero is a valid value of this plain struct.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    let mask = libc::STATX_BASIC_STATS | libc::STATX_DIOALIGN;
    match sys::perform::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, mask, &mut stat) {
        0 => {}
        e => return Err(io::Error::from_raw_os_error(-e)),
    }
    if !matches!(
        u32::from(stat.stx_mode) & libc::S_IFMT,
        libc::S_IFREG | libc::S_IFBLK
    ) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    if stat.stx_mask & libc::STATX_DIOALIGN == 0 {
        let block = (stat.stx_blksize as usize).max(512);
        return Ok(DirectAlignment {
            memory: block,
            offset: block,
        });
    }
    if stat.stx_dio_offset_align == 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(DirectAlignment {
        memory: stat.stx_dio_mem_align as usize,
        offset: stat.stx_dio_offset_align as usize,
    })
}

/// A file registered with a driver's ring. Made by [`Driver::register_file`](crate::Driver::register_file).
#[derive(Debug, Clone)]
pub struct FixedFile(Arc<FixedInner>);

#[derive(Debug)]
struct FixedInner {
    file: File,
    index: u32,
    driver_id: u64,
    /// Cleared when the place in the table is given up: another file may get it.
    registered: AtomicBool,
}

impl FixedFile {
    pub(crate) fn new(file: File, index: u32, driver_id: u64) -> Self {
        FixedFile(Arc::new(FixedInner {
            file,
            index,
            driver_id,
            registered: AtomicBool::new(true),
        }))
    }

    pub(crate) fn index(&self) -> u32 {
        self.0.index
    }

    pub(crate) fn driver_id(&self) -> u64 {
        self.0.driver_id
    }

    /// Whether it had an index until now.
    pub(crate) fn forget_index(&self) -> bool {
        self.0.registered.swap(false, Ordering::Relaxed)
    }
}

/// The file that an op names, kept open by the op.
///
/// Whatever owns a descriptor becomes one: a [`File`] or a [`FixedFile`] (shared, by reference count), a
/// [`std::fs::File`], a socket, an end of a pipe, an [`OwnedFd`]. [`File::duplicate`] serves what is only borrowed.
#[derive(Debug, Clone)]
pub struct Handle(Which);

#[derive(Debug, Clone)]
enum Which {
    /// Somebody else keeps it open.
    Raw(RawFd),
    File(File),
    /// No reference counting in the kernel per op.
    Fixed(FixedFile),
}

impl Handle {
    /// The current directory, for ops that take a directory and a path.
    pub const CWD: Handle = Handle(Which::Raw(libc::AT_FDCWD));

    /// No file. An op on it fails with EBADF.
    pub const NONE: Handle = Handle(Which::Raw(-1));

    /// The descriptor with this number, which the caller keeps open.
    ///
    /// # Safety
    /// If the number is that of an open descriptor, it must stay that of the same one until the op has completed. After a
    /// `close` the number may be given to another file, which the op would then read or write.
    pub unsafe fn from_raw(fd: RawFd) -> Self {
        Handle(Which::Raw(fd))
    }

    pub(crate) fn raw(fd: RawFd) -> Self {
        Handle(Which::Raw(fd))
    }

    pub(crate) fn fd(&self) -> RawFd {
        match &self.0 {
            Which::Raw(fd) => *fd,
            Which::File(file) => file.as_raw_fd(),
            Which::Fixed(fixed) => fixed.0.file.as_raw_fd(),
        }
    }

    pub(crate) fn fixed_index(&self, driver_id: u64) -> Option<u32> {
        match &self.0 {
            Which::Fixed(FixedFile(fixed)) if fixed.driver_id == driver_id => {
                fixed.registered.load(Ordering::Relaxed).then_some(fixed.index)
            }
            _ => None,
        }
    }

    /// The file's size in bytes, as fstat has it now.
    pub(crate) fn size(&self) -> io::Result<u64> {
        sys::perform::fstat(self.fd()).map(|stat| stat.st_size as u64)
    }

    fn file(&self) -> Option<&File> {
        match &self.0 {
            Which::Raw(_) => None,
            Which::File(file) => Some(file),
            Which::Fixed(fixed) => Some(&fixed.0.file),
        }
    }

    /// Asked per op for a bare descriptor: its number may mean another file each time.
    pub(crate) fn facts(&self) -> io::Result<Facts> {
        match self.file() {
            Some(file) => file.facts(),
            None => Facts::of(self.fd()),
        }
    }

    /// Whether the kernel's queues may transfer to and from the file, or only plain calls. (`sys::mount`)
    pub(crate) fn may_queue(&self) -> bool {
        let ask = || sys::mount::may_queue(self.fd());
        match self.file() {
            Some(file) => *file.0.may_queue.get_or_init(ask),
            None => ask(),
        }
    }

    /// Whether `may_queue` has been asked before, and the answer was yes.
    #[inline]
    pub(crate) fn is_known_to_queue(&self) -> bool {
        self.file()
            .is_some_and(|file| file.0.may_queue.get() == Some(&true))
    }

    /// Whether `facts` have been asked before, and it is no terminal.
    #[inline]
    pub(crate) fn is_known_no_terminal(&self) -> bool {
        let facts = self.file().and_then(|file| file.0.facts.get());
        facts.is_some_and(|facts| !facts.terminal)
    }

    /// Whether this file system has already refused RWF_NOWAIT on this file.
    pub(crate) fn nowait_refused(&self) -> bool {
        self.file()
            .is_some_and(|f| f.0.nowait_refused.load(Ordering::Relaxed))
    }

    pub(crate) fn refuse_nowait(&self) {
        if let Some(file) = self.file() {
            file.0.nowait_refused.store(true, Ordering::Relaxed);
        }
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.fd()
    }
}

impl<T: Into<OwnedFd>> From<T> for Handle {
    fn from(owner: T) -> Self {
        File::new(owner).into()
    }
}

impl From<File> for Handle {
    fn from(file: File) -> Self {
        Handle(Which::File(file))
    }
}

impl From<&File> for Handle {
    fn from(file: &File) -> Self {
        file.clone().into()
    }
}

impl From<&Handle> for Handle {
    fn from(handle: &Handle) -> Self {
        handle.clone()
    }
}

impl From<FixedFile> for Handle {
    fn from(fixed: FixedFile) -> Self {
        Handle(Which::Fixed(fixed))
    }
}

impl From<&FixedFile> for Handle {
    fn from(fixed: &FixedFile) -> Self {
        fixed.clone().into()
    }
}
