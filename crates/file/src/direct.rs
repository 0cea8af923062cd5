//! What O_DIRECT needs of a file: alignment, aligned memory, and a way to write what is not aligned.

use proactor::buffer::AlignedBuf;
use proactor::op::{DirectAlignment, File, Open};
use rustix::fs::{fcntl_getfl, fcntl_setfl, fstat, OFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The most aligned memory, in bytes, that is kept for the next transfers of a file.
const SPARE_BYTES: usize = 1 << 20;
/// Larger blocks are those of networks, whose files have none in the cache.
const MOST_BLOCK_BYTES: usize = 64 * 1024;

/// A file that is open with O_DIRECT, as its transfers see it.
#[derive(Debug)]
pub struct Direct {
    alignment: DirectAlignment,
    block: usize,
    /// The same file without O_DIRECT, opened when something unaligned is to be written. The kernel keeps its cache in
    /// step: a direct transfer writes back and drops the pages that it meets.
    plain: OnceLock<File>,
    spare: Mutex<Vec<AlignedBuf>>,
}

impl Direct {
    /// With the alignment that the kernel names for an open file.
    ///
    /// # Errors
    /// EINVAL if it cannot be used with O_DIRECT.
    pub fn of(file: &File) -> io::Result<Self> {
        let alignment = file.direct_alignment()?;
        let block = fstat(file)?.st_blksize as usize;
        // The cache writes back whole pages and whole blocks of the file system: what is written past it must not share
        // one with what is written through it at the same time.
        let whole = block
            .min(MOST_BLOCK_BYTES)
            .max(rustix::param::page_size())
            .next_multiple_of(alignment.offset);
        Ok(Self::new(alignment, whole))
    }

    /// With these; `block` is a multiple of the alignment of offsets.
    pub fn new(alignment: DirectAlignment, block: usize) -> Self {
        Direct {
            alignment,
            block,
            plain: OnceLock::new(),
            spare: Mutex::default(),
        }
    }

    /// Offsets and lengths of what goes past the cache are multiples of this.
    pub fn block(&self) -> usize {
        self.block
    }

    /// How far an offset is behind the last block's start.
    pub(crate) fn past_block(&self, at: u64) -> usize {
        (at % self.block() as u64) as usize
    }

    pub(crate) fn round_down(&self, len: usize) -> usize {
        len - len % self.block()
    }

    pub(crate) fn is_aligned(&self, ptr: *const u8) -> bool {
        ptr.addr().is_multiple_of(self.alignment.memory)
    }

    /// `len` bytes, with anything in them. `None`: there is no memory for them.
    pub(crate) fn memory(&self, len: usize) -> Option<AlignedBuf> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        match spare.iter().position(|buf| buf.capacity() == len) {
            Some(at) => {
                let mut buf = spare.swap_remove(at);
                buf.set_len(len);
                Some(buf)
            }
            None => AlignedBuf::try_zeroed(len, self.alignment.memory),
        }
    }

    pub(crate) fn keep(&self, buf: AlignedBuf) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = spare.iter().map(AlignedBuf::capacity).sum();
        if kept + buf.capacity() <= SPARE_BYTES {
            spare.push(buf);
        }
    }

    pub(crate) fn plain(&self) -> Option<&File> {
        self.plain.get()
    }

    /// The op whose descriptor `opened` takes.
    pub(crate) fn open_plain(file: &File) -> Open {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // allocates: a number of a descriptor
        Open::new(CString::new(path).expect("a number has no NUL"), libc::O_WRONLY)
    }

    /// Another transfer may have been faster: one is enough.
    pub(crate) fn opened(&self, file: File) {
        let _ = self.plain.set(file);
    }
}

/// Takes O_DIRECT off an open file, when nobody is left to align what is written to it.
pub(crate) fn make_plain(file: &File) {
    if let Ok(flags) = fcntl_getfl(file) {
        // If that fails, so does the write, and says so.
        let _ = fcntl_setfl(file, flags - OFlags::DIRECT);
    }
}
