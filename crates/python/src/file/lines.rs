//! `readlines`: all line ends are found before a line is taken.

use super::verb::Value;
use crate::memory;
use proactor_engine::Error;
use proactor_file::{Buffered, Step};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// How far `readlines` has looked at the unread bytes.
#[derive(Default)]
pub(super) struct Scan {
    lengths: Vec<usize>,
    /// Bytes in those lines.
    taken: usize,
    /// No line ends between `taken` and here: a long line is looked at once, and not again for every block.
    searched: usize,
}

impl Scan {
    /// A line ends here.
    fn found(&mut self, end: usize) -> Result<(), Error> {
        let room = self.lengths.try_reserve(1);
        room.map_err(|_| Error::out_of_memory("read"))?;
        self.lengths.push(end - self.taken);
        (self.taken, self.searched) = (end, end);
        Ok(())
    }
}

/// The lines that were found. They are taken when all of the list is made.
pub(super) fn take(py: Python<'_>, core: &mut Buffered, scan: &mut Scan) -> PyResult<Value> {
    let list = PyList::empty(py);
    let mut rest = core.unread();
    for length in &scan.lengths {
        let (line, behind) = rest.split_at(*length);
        list.append(memory::bytes(py, line)?)?;
        rest = behind;
    }
    scan.lengths.clear();
    core.consume(scan.taken);
    Ok(Some(list.into_any().unbind()))
}

/// Finds the line ends among the unread bytes, until they are enough or the file ends.
pub(super) fn find(core: &mut Buffered, hint: usize, scan: &mut Scan) -> Result<Step<()>, Error> {
    let all = hint == 0;
    loop {
        let unread = core.unread();
        while all || scan.taken <= hint {
            let Some(at) = memchr::memchr(b'\n', &unread[scan.searched..]) else {
                break;
            };
            let end = scan.searched + at + 1;
            scan.found(end)?;
        }
        let have = unread.len();
        if !all && scan.taken > hint {
            return Ok(Step::Ready(()));
        }
        scan.searched = have;
        let step = match all {
            true => core.fill_towards(have + 1, usize::MAX),
            false => core.fill(have + 1),
        };
        match step? {
            Step::Blocked => return Ok(Step::Blocked),
            Step::Ready(found) if found > have => {}
            Step::Ready(_) => {
                if have > scan.taken {
                    scan.found(have)?;
                }
                return Ok(Step::Ready(()));
            }
        }
    }
}
