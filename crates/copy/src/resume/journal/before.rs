//! What earlier runs have written down, as far as it can be believed.

use super::format::{self, Begun, RECORD_BYTES};
use crate::pair::digest::{Key, RESERVED};
use crate::sys::memory;
use crate::sys::{self, Stat};
use rustix::fd::BorrowedFd;
use rustix::fs::Timespec;
use std::io;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// The records of earlier runs: 16 bytes of memory for each file that they have finished.
#[derive(Default)]
pub(crate) struct Before {
    /// Keys and values, sorted.
    known: Vec<(u64, u64)>,
    /// The ids of the runs, the newest first.
    runs: Vec<u32>,
    /// The time of the last record, if there was one run only. What has changed since then was not changed by us.
    ended: Option<Timespec>,
}

/// Records from `start` on were written in one life of the page cache.
struct Segment {
    start: u64,
    life: u64,
    synced: bool,
}

impl Before {
    /// Reads the records of a journal, those behind its head. In the life `life`, records of the same life are true.
    pub(super) fn read(file: BorrowedFd<'_>, head_bytes: usize, life: u64) -> io::Result<Before> {
        let (mut runs, mut segments, mut barriers, mut lost) = (Vec::new(), Vec::new(), Vec::new(), 0);
        scan(file, head_bytes, |index, key, value| match key {
            format::RUN => runs.insert(0, value as u32),
            format::LIFE | format::LIFE_SYNCED => segments.push(Segment {
                start: index,
                life: value,
                synced: key == format::LIFE_SYNCED,
            }),
            format::BARRIER => barriers.extend(segments.last().map(|own: &Segment| (own.life, value))),
            format::LOST => lost = index,
            _ => {}
        })?;
        let mut known = Vec::new();
        let mut current = 0;
        scan(file, head_bytes, |index, key, value| {
            while segments.get(current + 1).is_some_and(|next| next.start <= index) {
                current += 1;
            }
            let is_true = segments.get(current).is_some_and(|own| {
                let covered = |&(life, end): &(u64, u64)| life == own.life && index < end;
                lost <= index
                    && own.start <= index
                    && (own.synced || own.life == life || barriers.iter().any(covered))
            });
            // Where a directory is ours, its inode says so, whenever that was written down. To take something back is
            // always believed, and so is that it was begun.
            if key >= RESERVED && (is_true || value == 0 || (key | value) & 1 == 1) {
                known.push((key, value));
            }
        })?;
        // The last word about each place.
        known.reverse();
        known.sort_by_key(|(key, _)| *key);
        known.dedup_by_key(|(key, _)| *key);
        known.retain(|(_, value)| *value != 0);
        known.shrink_to_fit();
        let ended = match runs[..] {
            [_] => Some(sys::stat(file)?.mtime),
            _ => None,
        };
        Ok(Before { known, runs, ended })
    }

    /// Returns true if there was a run before this one.
    pub(crate) fn is_any(&self) -> bool {
        !self.runs.is_empty()
    }

    pub(crate) fn runs(&self) -> &[u32] {
        &self.runs
    }

    /// Returns true if a file at this place is finished: made from this source, and still the one that we made.
    pub(crate) fn has_file(&self, at: Key, source: &Stat, there: &Stat, private: bool) -> bool {
        let Some(value) = self.value(at.of_file()) else {
            return false;
        };
        // The tree of a run that was killed at its very end has its name, and may have been changed since.
        let untouched = || self.ended.is_some_and(|ended| there.ctime <= ended);
        value == format::finished(at, source, Some(there))
            || (value == format::finished(at, source, None) && (private || untouched()))
    }

    /// Returns true if a file at this place was finished, whatever it is now.
    pub(crate) fn knows_file(&self, at: Key) -> bool {
        self.value(at.of_file()).is_some_and(|value| value & 1 == 0)
    }

    /// Returns what was begun at this place, if it is this file. One that was about to be made is empty.
    pub(crate) fn has_begun(&self, at: Key, there: &Stat) -> Option<Begun> {
        let value = self.value(at.of_file()).filter(|_| there.is_file())?;
        let made = (there.size == 0).then_some(Begun::ToBeMade);
        let begun = [Begun::Made(there.id.1), Begun::Over(there.id.1)];
        made.into_iter()
            .chain(begun)
            .find(|begun| begun.value(at) == value)
    }

    /// Returns true if this directory at this place was made by us.
    pub(crate) fn has_made(&self, at: Key, there: &Stat) -> bool {
        self.value(at.of_directory()) == Some(format::made(at, there))
    }

    /// Returns true if this directory at this place was made by us, or merged into. It is examined only if
    /// something is known.
    pub(crate) fn was_in(&self, at: Key, look: impl FnOnce() -> io::Result<Stat>) -> bool {
        self.value(at.of_directory()).is_some_and(|value| {
            look().is_ok_and(|there| [format::made(at, &there), format::entered(at, &there)].contains(&value))
        })
    }

    pub(super) fn value(&self, key: u64) -> Option<u64> {
        let found = self.known.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(self.known[found].1)
    }
}

/// Calls a function with the number, key and value of each whole record.
fn scan(file: BorrowedFd<'_>, start: usize, mut visit: impl FnMut(u64, u64, u64)) -> io::Result<()> {
    let mut buffer = memory::zeroed(READ_BYTES)?;
    let (mut offset, mut index) = (start as u64, 0);
    loop {
        let length = sys::read_at(file, &mut buffer, offset)?;
        for record in buffer[..length].chunks_exact(RECORD_BYTES) {
            let (key, value) = format::parse(record.try_into().expect("chunks are exact"));
            visit(index, key, value);
            index += 1;
        }
        if length < buffer.len() {
            return Ok(());
        }
        offset += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{record, BARRIER, LIFE, LIFE_SYNCED, LOST, RUN};
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    const A: u64 = 100;
    const B: u64 = 102;
    const MADE: u64 = 101;

    fn read(records: &[(u64, u64)], tail: &[u8], life: u64) -> Before {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[0; 64]).unwrap();
        for (key, value) in records {
            file.write_all(&record(*key, *value)).unwrap();
        }
        file.write_all(tail).unwrap();
        Before::read(file.as_fd(), 64, life).unwrap()
    }

    #[test]
    fn records_of_this_life_are_true_and_others_are_not() {
        let records = [(RUN, 7), (LIFE, 1), (A, 10), (MADE, 6)];
        let same = read(&records, b"", 1);
        assert_eq!((same.value(A), same.value(MADE)), (Some(10), Some(6)));
        let other = read(&records, b"", 2);
        assert_eq!((other.value(A), other.value(MADE)), (None, Some(6)));
        assert_eq!(other.runs(), [7]);
    }

    #[test]
    fn a_barrier_makes_those_before_it_true() {
        let records = [(RUN, 7), (LIFE, 1), (A, 10), (B, 12), (BARRIER, 3)];
        let other = read(&records, b"", 2);
        assert_eq!((other.value(A), other.value(B)), (Some(10), None));
    }

    #[test]
    fn a_barrier_says_nothing_about_another_life() {
        let records = [(LIFE, 1), (A, 10), (LIFE, 2), (B, 12), (BARRIER, 4)];
        let other = read(&records, b"", 3);
        assert_eq!((other.value(A), other.value(B)), (None, Some(12)));
        // Two runs in one life, of which the second has synced.
        let records = [(LIFE, 1), (A, 10), (LIFE, 1), (B, 12), (BARRIER, 4)];
        assert_eq!(read(&records, b"", 3).value(A), Some(10));
    }

    #[test]
    fn what_is_synced_one_by_one_is_always_true() {
        assert_eq!(read(&[(LIFE_SYNCED, 1), (A, 10)], b"", 2).value(A), Some(10));
    }

    #[test]
    fn what_could_not_be_written_back_is_not_true() {
        let records = [(LIFE, 1), (A, 10), (MADE, 6), (BARRIER, 3), (LOST, 0), (B, 14)];
        let found = read(&records, b"", 1);
        assert_eq!((found.value(A), found.value(B)), (None, Some(14)));
        assert_eq!(found.value(MADE), Some(6));
        assert_eq!(
            read(&[(LIFE_SYNCED, 1), (A, 10), (LOST, 0)], b"", 2).value(A),
            None
        );
    }

    #[test]
    fn the_last_word_counts() {
        let records = [(LIFE, 1), (A, 10), (B, 12), (A, 14), (B, 0)];
        let found = read(&records, b"", 1);
        assert_eq!((found.value(A), found.value(B)), (Some(14), None));
        // It is taken back even by a record that would not be believed otherwise.
        let records = [(LIFE_SYNCED, 1), (A, 10), (LIFE, 2), (A, 0)];
        assert_eq!(read(&records, b"", 3).value(A), None);
    }

    #[test]
    fn what_was_begun_is_believed_in_every_life() {
        let at = Key::TOP.child(c"file");
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut there = sys::stat(file.as_file().as_fd()).unwrap();
        for begun in [Begun::ToBeMade, Begun::Made(there.id.1), Begun::Over(there.id.1)] {
            let records = [(LIFE, 1), (at.of_file(), begun.value(at))];
            for life in [1, 2] {
                let found = read(&records, b"", life);
                assert_eq!(found.has_begun(at, &there), Some(begun));
                assert!(!found.knows_file(at));
            }
            // Finished in this life, and not for sure in another one.
            let done = format::finished(at, &there, Some(&there));
            let records = [records.as_slice(), &[(at.of_file(), done)]].concat();
            assert!(read(&records, b"", 1).has_file(at, &there, &there, false));
            assert_eq!(read(&records, b"", 2).has_begun(at, &there), Some(begun));
        }
        // What was about to be made and has something in it belongs to another program, and so does another inode.
        let to_be_made = read(&[(LIFE, 1), (at.of_file(), Begun::ToBeMade.value(at))], b"", 1);
        let made = read(
            &[(LIFE, 1), (at.of_file(), Begun::Made(there.id.1).value(at))],
            b"",
            1,
        );
        there.size = 1;
        assert_eq!(to_be_made.has_begun(at, &there), None);
        there.id.1 += 1;
        assert_eq!(made.has_begun(at, &there), None);
    }

    #[test]
    fn what_a_crash_leaves_says_nothing() {
        let found = read(&[(LIFE, 1), (A, 10), (0, 9), (0, 0)], &[1; 15], 1);
        assert_eq!(found.known, [(A, 10)]);
        // Without a life there is no truth.
        assert_eq!(read(&[(A, 10)], b"", 1).known, []);
        assert!(!read(&[], b"", 1).is_any());
    }

    #[test]
    fn long_ones_are_read_to_their_end() {
        let mut records = vec![(LIFE, 1)];
        records.extend((0..10_000).map(|number| (100 + 2 * number, number + 1)));
        let found = read(&records, b"", 1);
        assert_eq!(found.value(100 + 2 * 9_999), Some(10_000));
        assert_eq!(found.known.len(), 10_000);
    }
}
