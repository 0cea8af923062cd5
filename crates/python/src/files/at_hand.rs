//! Cached files of a batch that are read a few at a time: opened one after the other, then read, then closed together.
//!
//! That takes the kernel a tenth less time than one file after the other. Only paths whose look ahead nobody can notice are
//! taken so: those of a list or a tuple, and not the last of them. Invariant: what is at hand comes before all else that the
//! batch has, and no descriptor is open when a file is handed out, for to close one gives up its process's locks on the file.

use super::call::file_bytes;
use super::driver::LoopDriver;
use super::read_many::{Item, ReadMany};
use super::request::{path_of, Target};
use crate::coroutine::bytes_len;
use crate::errors;
use crate::memory::BytesAllocator;
use crate::python_code;
use proactor_engine::op::ReadFile;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use std::collections::VecDeque;

/// The most files that are open at once. Twice as many gain nothing.
const MOST_FILES: usize = 16;
/// The most bytes of them. Beyond 128 KiB glibc would give the memory back to the kernel and fetch it again.
const MOST_BYTES: usize = 64 << 10;
/// So many files in a row were cached and small before several are read at once.
const CACHED_IN_A_ROW: u32 = 16;

/// What has been read and comes next.
pub(super) struct AtHand {
    items: VecDeque<Item>,
    /// Whether nobody notices that paths are taken from the iterator early.
    is_quiet: bool,
    cached_in_a_row: u32,
    last_bytes: usize,
}

impl AtHand {
    pub(super) fn new(paths: &Bound<'_, PyIterator>, is_off: bool) -> Self {
        // SAFETY: the addresses of CPython's own types.
        let is_quiet = unsafe {
            let kind = ffi::Py_TYPE(paths.as_ptr());
            std::ptr::eq(kind, &raw const ffi::PyListIter_Type)
                || std::ptr::eq(kind, &raw const ffi::PyTupleIter_Type)
        };
        AtHand {
            items: VecDeque::new(),
            is_quiet: is_quiet && !is_off,
            cached_in_a_row: 0,
            last_bytes: 0,
        }
    }

    /// A file was found cached.
    pub(super) fn was_cached(&mut self, bytes: usize) {
        self.cached_in_a_row = self.cached_in_a_row.saturating_add(1);
        self.last_bytes = bytes;
    }

    pub(super) fn was_cold(&mut self) {
        self.cached_in_a_row = 0;
    }

    pub(super) fn next(&mut self) -> Option<Item> {
        self.items.pop_front()
    }

    pub(super) fn take_all(&mut self) -> VecDeque<Item> {
        std::mem::take(&mut self.items)
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    fn is_due(&self) -> bool {
        self.is_quiet && self.cached_in_a_row >= CACHED_IN_A_ROW && self.last_bytes <= MOST_BYTES / 2
    }
}

/// A file on its way into the hand.
enum File {
    Open(ReadFile),
    Failed(PyErr),
    /// To be submitted.
    Cold(ReadFile),
}

impl ReadMany {
    /// The next file, if it has been read already or it is time to read some more.
    pub(super) fn at_hand(slf: &Bound<'_, Self>, driver: &Bound<'_, LoopDriver>) -> PyResult<Option<Item>> {
        let mut this = slf.borrow_mut();
        if this.at_hand.is_empty() {
            let is_idle = this.in_flight == 0 && this.ready.is_empty() && !this.exhausted;
            if !is_idle || !this.at_hand.is_due() {
                return Ok(None);
            }
            let most = this.concurrency.min(MOST_FILES);
            drop(this);
            Self::read_some(slf, driver, most)?;
            this = slf.borrow_mut();
        }
        let item = this.at_hand.next();
        this.next_out += u64::from(item.is_some());
        Ok(item)
    }

    fn read_some(slf: &Bound<'_, Self>, driver: &Bound<'_, LoopDriver>, most: usize) -> PyResult<()> {
        let py = slf.py();
        let mut files = Self::open_some(slf, most)?;
        let mut answers = Vec::with_capacity(files.len()); // allocates: at most MOST_FILES
        for (_, file) in &mut files {
            answers.push(match file {
                File::Open(read) => read.attempt_closed_later(),
                File::Failed(_) | File::Cold(_) => None,
            });
        }
        ReadFile::close_together(files.iter_mut().filter_map(|(_, file)| match file {
            File::Open(read) => Some(read),
            File::Failed(_) | File::Cold(_) => None,
        }));
        for ((path, file), answer) in files.into_iter().zip(answers) {
            let value = match (file, answer) {
                (File::Open(mut read), Some(Ok(_))) => file_bytes(py, &mut read),
                (File::Open(_), Some(Err(e))) => Err(errors::os_error(py, &e, Some(&path_of(path.bind(py))))),
                (File::Failed(e), _) => Err(e),
                (File::Open(read) | File::Cold(read), None) | (File::Cold(read), _) => {
                    Self::keep_cold(slf, driver, path, read)?;
                    continue;
                }
            };
            slf.borrow_mut().keep(driver, (path, value), py);
        }
        Ok(())
    }

    /// Takes the next paths and opens their files, as far as they are cached.
    fn open_some(slf: &Bound<'_, Self>, most: usize) -> PyResult<Vec<(Py<PyAny>, File)>> {
        let py = slf.py();
        let paths = slf.borrow().paths.clone_ref(py).into_bound(py);
        // SAFETY: a live iterator; -1 would come with an exception, which these two types do not raise.
        let left = unsafe { ffi::PyObject_LengthHint(paths.as_ptr(), 0) };
        // Not the last: a list may still grow while the files before that are looked at.
        let most = most.min(usize::try_from(left).unwrap_or(0).saturating_sub(1));
        let mut files = Vec::with_capacity(most); // allocates: at most MOST_FILES
        let mut bytes = 0;
        while files.len() < most && bytes < MOST_BYTES {
            let Some(path) = python_code::next(paths.as_any())? else {
                break;
            };
            let file = Self::open_one(&path);
            let is_cold = matches!(file, File::Cold(_));
            if let File::Open(read) = &file {
                bytes += read.size().unwrap_or(0);
            }
            files.push((path.unbind(), file));
            if is_cold {
                break;
            }
        }
        Ok(files)
    }

    fn open_one(path: &Bound<'_, PyAny>) -> File {
        let mut read = match Target::Bytes.request(path) {
            Ok(read) => read,
            Err(e) => return File::Failed(e),
        };
        read.allocate = Some(Box::new(BytesAllocator));
        match read.attempt_open() {
            Some(Ok(_)) => File::Open(read),
            Some(Err(e)) => File::Failed(errors::os_error(path.py(), &e, Some(&path_of(path)))),
            None => File::Cold(read),
        }
    }

    /// One that has been read, in its place.
    fn keep(&mut self, driver: &Bound<'_, LoopDriver>, item: Item, py: Python<'_>) {
        let bytes = item.1.as_ref().map_or(0, |value| bytes_len(py, value));
        driver.borrow_mut().turn.used(bytes);
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        if self.in_flight == 0 && self.ready.is_empty() {
            self.at_hand.was_cached(bytes);
            self.at_hand.items.push_back(item);
        } else {
            self.ready.insert(sequence, item);
        }
    }

    fn keep_cold(
        slf: &Bound<'_, Self>,
        driver: &Bound<'_, LoopDriver>,
        path: Py<PyAny>,
        read: ReadFile,
    ) -> PyResult<()> {
        let mut this = slf.borrow_mut();
        let sequence = this.next_sequence;
        this.next_sequence += 1;
        this.at_hand.was_cold();
        this.in_flight += 1;
        drop(this);
        Self::submit(slf, driver, sequence, path, read)
    }
}
