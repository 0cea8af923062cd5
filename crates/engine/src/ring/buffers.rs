//! Provided buffers: the kernel takes one when data arrives, so that an idle socket holds no memory.
//!
//! Invariant: a buffer is either the kernel's (offered) or the borrower's (named by an event and not given back). Both
//! memories, the ring of offers and the buffers, live until the io_uring is gone.

use super::Ring;
use crate::sys;
use io_uring::types::BufRingEntry;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// The most buffers in one group (Linux, `io_register_pbuf_ring`).
const MAX_BUFFERS: u16 = 1 << 15;

/// Names one group of provided buffers of one driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferGroup(pub(crate) u16);

impl BufferGroup {
    /// The number by which an entry selects the group (`buf_group`).
    pub fn id(self) -> u16 {
        self.0
    }
}

/// A private anonymous mapping.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn new(len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Mapping { start, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's alone.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// One group of provided buffers.
pub(crate) struct BufferRing {
    offers: Mapping,
    memory: Mapping,
    each_bytes: u32,
    /// A power of two.
    bound: u16,
    /// Buffers that have been offered at least once: ids below it are in use.
    made: u16,
    tail: u16,
}

impl BufferRing {
    fn slot(&self, at: u16) -> *mut BufRingEntry {
        let at = usize::from(at & (self.bound - 1));
        // SAFETY: the mapping has room for `bound` entries.
        unsafe { self.offers.start.as_ptr().cast::<BufRingEntry>().add(at) }
    }

    fn address(&self, id: u16) -> *mut u8 {
        assert!(
            id < self.made,
            "buffer {id} does not exist: the group has {}",
            self.made
        );
        // SAFETY: the mapping has room for `bound` buffers, and `id` is below `made`, which is at most `bound`.
        unsafe {
            self.memory
                .start
                .as_ptr()
                .add(usize::from(id) * self.each_bytes as usize)
        }
    }

    /// Hands buffer `id` to the kernel.
    pub(crate) fn offer(&mut self, id: u16) {
        let address = self.address(id) as u64;
        let slot = self.slot(self.tail);
        // SAFETY: the slot is within the mapping, and the kernel reads it only after the tail has passed it. Its fields are
        // written one by one, for the first slot's last field is the tail.
        unsafe {
            (*slot).set_addr(address);
            (*slot).set_len(self.each_bytes);
            (*slot).set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry, which is aligned for it; the kernel reads it atomically.
        unsafe {
            let tail = BufRingEntry::tail(self.slot(0)).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    /// Offers more buffers, up to `count` in all, and returns how many there are.
    pub(crate) fn grow(&mut self, count: u16) -> u16 {
        while self.made < count.min(self.bound) {
            self.made += 1;
            self.offer(self.made - 1);
        }
        self.made
    }

    /// The first `len` bytes of a buffer.
    ///
    /// # Safety
    /// The buffer is the borrower's, and not given back while the slice lives.
    pub(crate) unsafe fn bytes(&self, id: u16, len: usize) -> &[u8] {
        assert!(len <= self.each_bytes as usize);
        // SAFETY: within the mapping (`address` checks the id), which is zeroed memory that nobody writes to: the buffer is the
        // borrower's.
        unsafe { std::slice::from_raw_parts(self.address(id), len) }
    }
}

impl Ring {
    /// Makes a group of at most `bound` buffers (a power of two) of `each_bytes`, of which `count` are offered now.
    pub(crate) fn make_buffers(
        &mut self,
        bound: u16,
        count: u16,
        each_bytes: u32,
    ) -> io::Result<BufferGroup> {
        if !bound.is_power_of_two() || bound > MAX_BUFFERS || count == 0 || count > bound || each_bytes == 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{count} of at most {bound} buffers of {each_bytes} bytes: the bound must be a power of two up to \
                     {MAX_BUFFERS}, the others at least 1"
                ),
            ));
        }
        let group =
            u16::try_from(self.buffers.len()).map_err(|_| io::Error::from_raw_os_error(libc::ENOSPC))?;
        let offers = Mapping::new(usize::from(bound) * size_of::<BufRingEntry>())?;
        // The kernel pins the offers. In a forked child they would be copied for nothing.
        // SAFETY: the mapping is ours.
        sys::check(unsafe { libc::madvise(offers.start.as_ptr().cast(), offers.len, libc::MADV_DONTFORK) })?;
        let memory = Mapping::new(usize::from(bound) * each_bytes as usize)?;
        // SAFETY: the mapping has `bound` entries and lives in `self.buffers` until the ring is gone.
        unsafe {
            self.ring
                .submitter()
                .register_buf_ring_with_flags(offers.start.as_ptr() as u64, bound, group, 0)
        }?;
        let mut ring = BufferRing {
            offers,
            memory,
            each_bytes,
            bound,
            made: 0,
            tail: 0,
        };
        ring.grow(count);
        self.buffers.push(ring);
        Ok(BufferGroup(group))
    }

    pub(crate) fn buffers(&self, group: BufferGroup) -> &BufferRing {
        &self.buffers[usize::from(group.0)]
    }

    pub(crate) fn buffers_mut(&mut self, group: BufferGroup) -> &mut BufferRing {
        &mut self.buffers[usize::from(group.0)]
    }
}
