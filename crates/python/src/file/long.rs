//! Reads that are longer than the buffer: straight into a new bytes object, or into the caller's memory.

use super::binary::BinaryFile;
use super::verb::{int, map, Value};
use crate::memory::{Exported, Unseen};
use proactor_engine::buffer::Memory;
use proactor_file::{Buffered, Step};
use pyo3::prelude::*;
use std::sync::Arc;

/// Above this, room for what a read asks for is made only as far as the file has bytes.
pub(super) const LARGE_READ: usize = 1 << 20;

/// A bytes object that is being read.
pub(super) struct Reading {
    bytes: Arc<Unseen>,
    /// Bytes that are there already.
    have: usize,
    begun: bool,
}

impl Reading {
    fn of(bytes: Unseen, have: usize) -> Self {
        Reading {
            bytes: Arc::new(bytes),
            have,
            begun: false,
        }
    }

    /// Makes the bytes object, if the buffer would only be in the way. `once`: of one read.
    fn new(py: Python<'_>, core: &Buffered, most: usize, once: bool) -> PyResult<Step<Option<Self>>> {
        match is_long(core, most, once) {
            Step::Blocked => return Ok(Step::Blocked),
            Step::Ready(false) => return Ok(Step::Ready(None)),
            Step::Ready(true) => {}
        }
        let size = match room(core, most) {
            Some(size) if once => size,
            // As long as the reads are not short, it goes on.
            None if once => most.min(LARGE_READ),
            Some(size) if core.is_long(size) == Step::Ready(true) => size,
            _ => return Ok(Step::Ready(None)),
        };
        Unseen::new(py, size).map(|bytes| Step::Ready(Some(Self::of(bytes, 0))))
    }
}

/// Whether the buffer would only be in the way.
fn is_long(core: &Buffered, most: usize, once: bool) -> Step<bool> {
    if once && core.coming() > 0 {
        return Step::Ready(false);
    }
    core.is_long(most)
}

/// No memory for bytes that are not there: as much as the file has, and one more to see whether it has grown. None if it
/// does not say (`/proc`, devices).
fn room(core: &Buffered, most: usize) -> Option<usize> {
    if most <= LARGE_READ {
        return Some(most);
    }
    match left_in_file(core) {
        None | Some(0) => None,
        Some(left) => Some(most.min(left + 1)),
    }
}

/// What a disk file has from the caller's place on.
pub(super) fn left_in_file(core: &Buffered) -> Option<usize> {
    let size = core.file().and_then(|file| file.size().ok())?;
    usize::try_from(size.saturating_sub(core.position())).ok()
}

/// Goes on with a read of `most` bytes, or up to the end; of what one read brings, if `once`. None: the buffer does it.
pub(super) fn read(
    py: Python<'_>,
    file: &mut BinaryFile,
    most: usize,
    once: bool,
    reading: &mut Option<Reading>,
) -> PyResult<Option<Step<Value>>> {
    if reading.is_none() {
        match Reading::new(py, &file.core, most, once)? {
            Step::Blocked => return Ok(Some(Step::Blocked)),
            Step::Ready(None) => return Ok(None),
            Step::Ready(new) => *reading = new,
        }
    }
    while let Some(Reading { bytes, have, begun }) = reading {
        if !*begun {
            let begin = file.core.read_long(Arc::clone(bytes) as _, *have, once);
            *begun = begin.map_err(|e| file.error(py, &e))?;
            break;
        }
        let Step::Ready(found) = file.core.long_read().map_err(|e| file.error(py, &e))? else {
            break;
        };
        let (all, bytes) = (found == bytes.len(), Arc::clone(bytes));
        *reading = None;
        if !all || found == most {
            let bytes = Unseen::shared_into_bytes(bytes, py, found)?;
            file.core.take_long(found);
            return Ok(Some(Step::Ready(Some(bytes.into_any()))));
        }
        // The file has grown, or it does not say how long it is.
        let more = left_in_file(&file.core).map_or(0, |left| left.saturating_sub(found));
        let size = most.min(found + more.max(LARGE_READ));
        *reading = Some(Reading::of(Unseen::shared_resized(bytes, py, size)?, found));
    }
    Ok(Some(Step::Blocked))
}

/// Goes on with a read into the caller's memory. None: the buffer does it.
pub(super) fn read_into(
    py: Python<'_>,
    file: &mut BinaryFile,
    target: &Arc<Exported>,
    once: bool,
    begun: &mut bool,
) -> PyResult<Option<Step<Value>>> {
    if *begun {
        let found = file.core.long_read().map_err(|e| file.error(py, &e))?;
        return Ok(Some(map(found, |found| {
            file.core.take_long(found);
            int(py, found)
        })));
    }
    match is_long(&file.core, target.len(), once) {
        Step::Blocked => return Ok(Some(Step::Blocked)),
        Step::Ready(false) => return Ok(None),
        Step::Ready(true) => {}
    }
    let begin = file.core.read_long(Arc::clone(target) as _, 0, once);
    *begun = begin.map_err(|e| file.error(py, &e))?;
    Ok(Some(Step::Blocked))
}
