//! O_DIRECT facts of a file: alignment, aligned memory, and a way to write unaligned bytes.

use proactor_engine::buffer::AlignedBuf;
use proactor_engine::op::{DirectAlignment, File, Open, OpenFlags};
use rustix::fs::{fcntl_getfl, fcntl_setfl, fstat, OFlags};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Upper bound on aligned memory, in bytes, that is kept for the next transfers of a file.
const SPARE_BYTES: usize = 1 << 20;
/// Upper bound on a block: larger ones are reported by network file systems, whose files have no blocks in
/// the cache.
const MOST_BLOCK_BYTES: usize = 64 * 1024;

/// O_DIRECT facts of an open file that its transfers need.
#[derive(Debug)]
pub struct Direct {
    alignment: DirectAlignment,
    block: usize,
    /// The same file without O_DIRECT, opened on the first unaligned write. The kernel keeps its cache
    /// coherent: a direct transfer writes back and drops the pages that it meets.
    plain: OnceLock<File>,
    spare: Mutex<Vec<AlignedBuf>>,
}

impl Direct {
    /// Reads the alignment that the kernel names for an open file.
    ///
    /// # Errors
    /// EINVAL if it cannot be used with O_DIRECT.
    pub fn of(file: &File) -> io::Result<Self> {
        let alignment = file.direct_alignment()?;
        let block = fstat(file)?.st_blksize as usize;
        // The cache writes back whole pages and whole file-system blocks: bytes written past it must not
        // share one with bytes written through it at the same time.
        let whole = block
            .min(MOST_BLOCK_BYTES)
            .max(rustix::param::page_size())
            .next_multiple_of(alignment.offset);
        Ok(Self::new(alignment, whole))
    }

    /// Uses the given facts; `block` is a multiple of the alignment of offsets.
    pub fn new(alignment: DirectAlignment, block: usize) -> Self {
        Direct {
            alignment,
            block,
            plain: OnceLock::new(),
            spare: Mutex::default(),
        }
    }

    /// Returns the block size: offsets and lengths that bypass the cache are multiples of it.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Returns the distance of an offset from the start of its block.
    pub(crate) fn past_block(&self, at: u64) -> usize {
        (at % self.block() as u64) as usize
    }

    pub(crate) fn round_down(&self, len: usize) -> usize {
        len - len % self.block()
    }

    pub(crate) fn is_aligned(&self, ptr: *const u8) -> bool {
        ptr.addr().is_multiple_of(self.alignment.memory)
    }

    /// Allocates `len` bytes of arbitrary content. `None` if there is no memory.
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

    /// Returns the op whose descriptor `opened` takes.
    pub(crate) fn open_plain(file: &File) -> Open {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Open::new(path, OpenFlags::WRITE_ONLY)
    }

    /// Stores the descriptor, unless another transfer was faster: one is enough.
    pub(crate) fn opened(&self, file: File) {
        let _ = self.plain.set(file);
    }
}

/// Clears O_DIRECT on an open file, once nothing aligns its writes any more.
pub(crate) fn make_plain(file: &File) {
    if let Ok(flags) = fcntl_getfl(file) {
        // If that fails, the write fails too, and reports it.
        let _ = fcntl_setfl(file, flags - OFlags::DIRECT);
    }
}
