//! Other threads that read cached files of a batch, a chunk of them at a time.
//!
//! The calling thread goes on reading what comes after the chunk. Two chunks for each thread, so that none sleeps between
//! them: waking it up takes as long as a chunk. Files that turn out not to be cached come back and go the way of all
//! others.

use super::call::file_bytes;
use super::driver::{LoopDriver, Waiter};
use super::read_many::ReadMany;
use super::request::{path_of, Target};
use crate::errors;
use crate::memory::BytesAllocator;
use crate::python_code;
use proactor_engine::op::ReadCached;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Files in a chunk, which is handed over and back in about the time that a small file takes to read.
const CHUNK: usize = 8;
/// Of the largest files there are so many in a chunk.
const SMALLEST_CHUNK: usize = 2;
/// Files that may be held, below which no chunk is ever handed over: as many as in a chunk are for the calling thread.
pub(super) const LEAST_CONCURRENCY: usize = 2 * SMALLEST_CHUNK;
/// Large files go in smaller chunks: what comes after them is held meanwhile.
const CHUNK_BYTES: usize = 512 * 1024;
/// A second copy of the contents of files from here on would cost more than the help is worth.
const LARGE_BYTES: usize = 32 * 1024;
/// So many files in a row were cached before other threads are asked to help.
const CACHED_IN_A_ROW: u32 = 16;
/// The most memory, in bytes, that is kept for other threads to read into. Fresh memory would cost a page fault for each
/// 4 KiB.
const SPARE_BYTES: usize = 8 << 20;

/// What a batch knows of its helpers.
pub(super) struct Help {
    workers: usize,
    chunks: usize,
    /// Files in the chunks that are in flight.
    pub(super) files: usize,
    cached_in_a_row: u32,
    last_bytes: usize,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    /// One for each chunk.
    through: Vec<Arc<AtomicBool>>,
}

impl Help {
    pub(super) fn new(workers: usize) -> Self {
        if workers > 0 {
            keep_heap();
        }
        Help {
            workers,
            chunks: 0,
            files: 0,
            cached_in_a_row: 0,
            last_bytes: 0,
            spare: Vec::new(),
            spare_bytes: 0,
            through: Vec::new(),
        }
    }

    /// The calling thread has found a file cached.
    pub(super) fn was_cached(&mut self, bytes: usize) {
        self.cached_in_a_row = self.cached_in_a_row.saturating_add(1);
        self.last_bytes = bytes;
    }

    pub(super) fn was_cold(&mut self) {
        self.cached_in_a_row = 0;
    }

    /// How many files an idle thread is to be given; `room`: how many more may be held.
    fn wanted(&self, room: usize) -> Option<usize> {
        if self.chunks >= 2 * self.workers || self.cached_in_a_row < CACHED_IN_A_ROW {
            return None;
        }
        let size = (CHUNK_BYTES / self.last_bytes.max(1)).clamp(SMALLEST_CHUNK, CHUNK);
        // As many again are for the calling thread.
        (2 * size <= room).then_some(size)
    }

    /// Whether a chunk is back, or about to be.
    pub(super) fn has_come(&self) -> bool {
        self.through.iter().any(|through| through.load(Ordering::Acquire))
    }

    fn chunk_ended(&mut self, files: usize) {
        self.chunks -= 1;
        self.files -= files;
        self.through.retain(|through| !through.load(Ordering::Relaxed));
    }

    fn memory(&mut self) -> Vec<u8> {
        let memory = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= memory.capacity();
        memory
    }

    fn keep(&mut self, memory: Vec<u8>) {
        if self.spare_bytes + memory.capacity() <= SPARE_BYTES {
            self.spare_bytes += memory.capacity();
            self.spare.push(memory);
        }
    }
}

impl ReadMany {
    /// Gives an idle thread the next files, if there is one and enough to do for it.
    pub(super) fn start_chunk(slf: &Bound<'_, Self>, driver: &Bound<'_, LoopDriver>) -> PyResult<()> {
        let py = slf.py();
        let Some(size) = slf.borrow().chunk_wanted() else {
            return Ok(());
        };
        // allocates: at most CHUNK files
        let (mut items, mut files) = (Vec::with_capacity(size), Vec::with_capacity(size));
        let paths = slf.borrow().paths.clone_ref(py).into_bound(py);
        let mut failure = None;
        for _ in 0..size {
            // The caller's iterator may do anything, so nothing is borrowed here.
            let path = match python_code::next(paths.as_any()).transpose() {
                Some(Ok(path)) => path,
                end => {
                    failure = end.and_then(Result::err);
                    slf.borrow_mut().exhausted = failure.is_none();
                    break;
                }
            };
            let prepared = Target::Bytes.request(&path);
            let mut this = slf.borrow_mut();
            let sequence = this.next_sequence;
            this.next_sequence += 1;
            match prepared {
                Ok(mut read) => {
                    if this.help.last_bytes < LARGE_BYTES {
                        read.data = this.help.memory();
                    } else {
                        // Opened and given its bytes object here; the other thread fills it.
                        read.allocate = Some(Box::new(BytesAllocator));
                        if let Some(Err(e)) = read.attempt_open() {
                            let e = errors::os_error(py, &e, Some(&path_of(&path)));
                            this.ready.insert(sequence, (path.unbind(), Err(e)));
                            continue;
                        }
                    }
                    files.push(read);
                    items.push((sequence, path.unbind()));
                }
                Err(e) => {
                    this.ready.insert(sequence, (path.unbind(), Err(e)));
                }
            }
        }
        if !files.is_empty() {
            let mut this = slf.borrow_mut();
            this.in_flight += files.len();
            this.help.files += files.len();
            this.help.chunks += 1;
            let mut op = ReadCached::new(files);
            op.most_threads = this.help.workers;
            this.help.through.push(Arc::clone(&op.through));
            drop(this);
            Self::submit_chunk(slf, driver, items, op)?;
        }
        failure.map_or(Ok(()), Err)
    }

    fn submit_chunk(
        slf: &Bound<'_, Self>,
        driver: &Bound<'_, LoopDriver>,
        items: Vec<(u64, Py<PyAny>)>,
        op: ReadCached,
    ) -> PyResult<()> {
        let py = slf.py();
        // allocates: at most CHUNK files
        let copies = items.iter().map(|(at, path)| (*at, path.clone_ref(py))).collect();
        let waiter = Waiter::Chunk {
            batch: Self::weak(slf)?,
            items: copies,
        };
        let refused = driver.borrow_mut().submit(py, op, waiter).err();
        match refused {
            Some(error) => Self::all_failed(slf, items, |_| error.clone_ref(py)),
            None => Ok(()),
        }
    }

    /// A chunk is lost.
    pub(super) fn chunk_failed(
        slf: &Bound<'_, Self>,
        items: Vec<(u64, Py<PyAny>)>,
        error: &proactor_engine::Error,
    ) -> PyResult<()> {
        let py = slf.py();
        Self::all_failed(slf, items, |path| {
            errors::os_error(py, error, Some(&path_of(path.bind(py))))
        })
    }

    fn all_failed(
        slf: &Bound<'_, Self>,
        items: Vec<(u64, Py<PyAny>)>,
        error_of: impl Fn(&Py<PyAny>) -> PyErr,
    ) -> PyResult<()> {
        slf.borrow_mut().help.chunk_ended(items.len());
        for (sequence, path) in items {
            let error = error_of(&path);
            ReadMany::arrived(slf, sequence, path, Err(error))?;
        }
        Ok(())
    }

    fn chunk_wanted(&self) -> Option<usize> {
        if self.exhausted {
            return None;
        }
        self.help
            .wanted(self.concurrency.saturating_sub(self.in_flight + self.ready.len()))
    }

    /// A chunk has come back.
    pub(super) fn chunk_arrived(
        slf: &Bound<'_, Self>,
        driver: &Bound<'_, LoopDriver>,
        items: Vec<(u64, Py<PyAny>)>,
        op: ReadCached,
    ) -> PyResult<()> {
        let py = slf.py();
        slf.borrow_mut().help.chunk_ended(items.len());
        let mut answers = op.answers.into_iter();
        for ((sequence, path), mut read) in items.into_iter().zip(op.files) {
            let value = match answers.next().flatten() {
                Some(Ok(_)) => {
                    let bytes = file_bytes(py, &mut read);
                    slf.borrow_mut().help.keep(std::mem::take(&mut read.data));
                    bytes
                }
                Some(Err(e)) => Err(errors::os_error(py, &e, Some(&path_of(path.bind(py))))),
                None => {
                    slf.borrow_mut().help.was_cold();
                    read.allocate = Some(Box::new(BytesAllocator));
                    Self::submit(slf, driver, sequence, path, read)?;
                    continue;
                }
            };
            ReadMany::arrived(slf, sequence, path, value)?;
        }
        // Those that were submitted: nobody else need come by before they are done.
        let unflushed = std::mem::take(&mut slf.borrow_mut().unflushed);
        if unflushed > 0 {
            driver.borrow_mut().flush_now(py)?;
        }
        Ok(())
    }
}

/// Lets the allocator keep some megabytes at the end of its heap. Several files of a batch are alive at once, and glibc
/// would give their memory back to the kernel and fetch it again for the next ones: 7 page faults for each file of 100 KB,
/// which made it take twice as long.
///
/// By glibc's own rule (mallopt(3), M_TRIM_THRESHOLD): freeing a mapped block lets it keep twice that size from then on.
/// The block is never touched. Elsewhere it does nothing.
fn keep_heap() {
    const BLOCK_BYTES: usize = 4 << 20;
    let mut block = Vec::<u8>::new();
    // Without memory for it there is none to be kept.
    let _ = block.try_reserve_exact(BLOCK_BYTES);
    drop(std::hint::black_box(block));
}
