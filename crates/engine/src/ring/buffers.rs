//! Provided buffers: the kernel takes one when data arrives, so that an idle socket holds no memory.
//!
//! Invariant: a buffer is either the kernel's (offered) or the borrower's (named by an event and not given back). Both
//! memories, the ring of offers and the buffers, live until the io_uring and the borrower's [`BufferRing`] are gone.

use super::Ring;
use crate::sys;
use io_uring::types::BufRingEntry;
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::Arc;

/// The most buffers in one group (Linux, `io_register_pbuf_ring`).
const MAX_BUFFERS: u16 = 1 << 15;

/// A private anonymous mapping.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// The process that it belongs to.
    generation: u32,
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
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Mapping {
                start,
                len,
                generation: sys::fork::generation(),
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.generation != sys::fork::current() {
            // The offers were never mapped here (MADV_DONTFORK). Whatever lies at their address now is not ours to unmap.
            return;
        }
        // SAFETY: the mapping is this value's alone.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The memory of one group.
pub(crate) struct Memory {
    offers: Mapping,
    buffers: Mapping,
}

// SAFETY: the mappings are reached only through the group's one `BufferRing`; the ring keeps them alive and nothing else.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// One group of provided buffers of one driver.
///
/// It may outlive the driver: the buffers are then nobody's but its own.
pub struct BufferRing {
    memory: Arc<Memory>,
    group: u16,
    each_bytes: u32,
    /// A power of two.
    bound: u16,
    /// Buffers that have been offered at least once: ids below it are in use.
    made: u16,
    tail: u16,
    /// Buffers that are kept from the kernel, without memory.
    withheld: Vec<u16>,
    generation: u32,
}

impl fmt::Debug for BufferRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferRing")
            .field("group", &self.group)
            .field("buffers", &self.made)
            .field("bound", &self.bound)
            .field("each_bytes", &self.each_bytes)
            .finish_non_exhaustive()
    }
}

impl BufferRing {
    /// The number by which an entry selects the group (`buf_group`).
    pub fn id(&self) -> u16 {
        self.group
    }

    /// Bytes of one buffer.
    #[inline]
    pub fn each_bytes(&self) -> usize {
        self.each_bytes as usize
    }

    /// Buffers that the kernel has or that events have named.
    #[inline]
    pub fn count(&self) -> u16 {
        self.made - self.withheld.len() as u16
    }

    #[inline]
    fn slot(&self, at: u16) -> *mut BufRingEntry {
        let at = usize::from(at & (self.bound - 1));
        // SAFETY: the mapping has room for `bound` entries.
        unsafe { self.memory.offers.start.as_ptr().cast::<BufRingEntry>().add(at) }
    }

    #[inline]
    fn address(&self, id: u16) -> *mut u8 {
        assert!(
            id < self.made,
            "buffer {id} does not exist: the group has {}",
            self.made
        );
        // SAFETY: the mapping has room for `bound` buffers, and `id` is below `made`, which is at most `bound`.
        unsafe {
            self.memory
                .buffers
                .start
                .as_ptr()
                .add(usize::from(id) * self.each_bytes as usize)
        }
    }

    #[inline]
    fn offer(&mut self, id: u16) {
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

    #[inline]
    fn is_forked(&self) -> bool {
        self.generation != sys::fork::current()
    }

    /// Hands a buffer back to the kernel. Does nothing in a forked child, where the offers are not mapped.
    ///
    /// # Panics
    /// If there is no such buffer.
    ///
    /// # Safety
    /// As [`bytes`](Self::bytes). The caller does not use its bytes any more.
    #[inline]
    pub unsafe fn give_back(&mut self, id: u16) {
        if !self.is_forked() {
            self.offer(id);
        }
    }

    /// Keeps a buffer from the kernel instead of handing it back, and frees its memory, until [`grow`](Self::grow) needs it.
    ///
    /// # Panics
    /// If there is no such buffer.
    ///
    /// # Safety
    /// As [`give_back`](Self::give_back).
    pub unsafe fn withhold(&mut self, id: u16) {
        if self.is_forked() {
            return;
        }
        let (start, len) = (self.address(id) as usize, self.each_bytes as usize);
        let page = sys::page_size();
        let first = start.next_multiple_of(page);
        let last = (start + len) / page * page;
        if first < last {
            // SAFETY: whole pages of this buffer, which nobody uses. Reading them gives zeroes from now on.
            unsafe { libc::madvise(first as *mut libc::c_void, last - first, libc::MADV_DONTNEED) };
        }
        // allocates: at most `bound` numbers
        self.withheld.push(id);
    }

    /// Offers more buffers to the kernel, up to `count` in all and never more than the bound. Returns how many there are.
    pub fn grow(&mut self, count: u16) -> u16 {
        while self.count() < count && !self.is_forked() {
            let Some(id) = self.withheld.pop() else { break };
            self.offer(id);
        }
        let count = count.saturating_add(self.withheld.len() as u16);
        while self.made < count.min(self.bound) && !self.is_forked() {
            self.made += 1;
            self.offer(self.made - 1);
        }
        self.count()
    }

    /// The bytes that the kernel has received into a buffer.
    ///
    /// # Panics
    /// If there is no such buffer, or `len` is more than a buffer has.
    ///
    /// # Safety
    /// The id comes from an event of this group whose buffer has not been given back.
    #[inline]
    pub unsafe fn bytes(&self, id: u16, len: usize) -> &[u8] {
        assert!(len <= self.each_bytes as usize);
        // SAFETY: within the mapping (`address` checks the id), which is zeroed memory that nobody writes to: the buffer is the
        // borrower's, and `give_back` needs this value for itself.
        unsafe { std::slice::from_raw_parts(self.address(id), len) }
    }
}

impl Ring {
    /// Makes a group of at most `bound` buffers (a power of two) of `each_bytes`, of which `count` are offered now.
    pub(crate) fn make_buffers(&mut self, bound: u16, count: u16, each_bytes: u32) -> io::Result<BufferRing> {
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
        let buffers = Mapping::new(usize::from(bound) * each_bytes as usize)?;
        // SAFETY: the mapping has `bound` entries and lives in `self.buffers` until the ring is gone.
        unsafe {
            self.ring
                .submitter()
                .register_buf_ring_with_flags(offers.start.as_ptr() as u64, bound, group, 0)
        }?;
        let memory = Arc::new(Memory { offers, buffers });
        self.buffers.push(Arc::clone(&memory));
        let mut ring = BufferRing {
            memory,
            group,
            each_bytes,
            bound,
            made: 0,
            tail: 0,
            withheld: Vec::new(),
            generation: sys::fork::generation(),
        };
        ring.grow(count);
        Ok(ring)
    }
}
