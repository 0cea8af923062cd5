//! What is in a directory: read, taken in shares, copied by one thread or with another's help.

use crate::api::error::Step;
use crate::data::DataCopier;
use crate::job::queue::{Batch, Job, SHARE};
use crate::pair::directory::own_path;
use crate::pair::directory::{Dir, Opened, Side};
use crate::pair::Entry;
use crate::sys;
use crate::sys::listing::{self, Listing};
use crate::walk::walker::Walker;
use rustix::fs::FileType;
use std::ops::Range;
use std::sync::Arc;

/// A second thread is of use from this many bytes on: 1,000 files of 4 KB took 0.79 of the time with one on ext4,
/// 0.88 on XFS and 0.91 on tmpfs, 300 the same (41 runs in turn, 2 CPUs). Without it the last directory is one
/// thread's.
const WORTH_SHARING_BYTES: u64 = 1 << 20;

/// A thread takes this much at once of large files, so that all threads are done at the same time.
const SHARE_BYTES: u64 = 4 << 20;

/// A thread takes this many files before it knows how large they are.
const FIRST_SHARE: usize = 1;

/// The cost of making a file, in bytes that could be copied meanwhile.
const FILE_BYTES: u64 = 4 << 10;

/// With smaller files the lock of the target directory is held much of the time, and only one other thread helps: 50,000
/// files of 4 KB took 0.78 of the time on ext4 then, 0.64 on XFS, 0.93 on Btrfs and 0.58 on tmpfs, and 100,000 empty ones
/// 0.77 on ext4 (5 runs in turn, 2 CPUs). While sources are cold the threads wait for the device, and all may help.
const LONG_BYTES: u64 = 16 << 10;

impl Walker<'_> {
    /// Copies a directory's entries; those that are directories become jobs.
    pub(crate) fn fill_dir(&mut self, dir: &Arc<Dir>) {
        let opened = match dir.open() {
            Ok(opened) => opened,
            Err(error) => {
                self.reporter
                    .failed(Step::ReadDirectory, own_path(dir, Side::Source), error);
                return;
            }
        };
        let mut more = true;
        let part = std::mem::take(&mut self.part);
        while more && !self.shared.context.stopped() {
            let mut listing = Listing::default();
            more = listing
                .read(opened.source(), &mut self.buffer)
                .unwrap_or_else(|error| {
                    self.reporter
                        .failed(Step::ReadDirectory, own_path(dir, Side::Source), error);
                    false
                });
            self.measure(&opened, part, listing.len(), more);
            let batch = Arc::new(Batch::new(dir.clone(), listing));
            let mut own = true;
            self.fill_from(&opened, &batch, |walker, mean_bytes| {
                // What the first files of a batch are like, the others will be.
                let left = (mean_bytes + FILE_BYTES).saturating_mul(batch.left() as u64);
                if own && left >= WORTH_SHARING_BYTES && walker.run.limits.jobs() > 1 {
                    own = false;
                    let long = mean_bytes >= LONG_BYTES
                        || walker.copier.entries.files.contents.data.readahead.is_cold();
                    let helpers = if long { usize::MAX } else { 1 };
                    walker.dispatcher.offer(&batch, helpers);
                }
            });
            self.run.queue.withdraw(&batch);
        }
    }

    /// Shares out a directory's part of the whole among its entries, when the first of them have been read.
    fn measure(&mut self, at: &Opened, part: f64, read: usize, more: bool) {
        if self.shared.context.part_of_source.is_none() || at.dir.part_of_entry.get().is_some() {
            return;
        }
        let all = match more {
            true => listing::count(at.source(), &mut self.buffer).unwrap_or(read),
            false => read,
        };
        if all == 0 {
            self.reporter.advance(part);
        }
        let _ = at.dir.part_of_entry.set(part / all.max(1) as f64);
    }

    /// Takes entries of a batch until there are none; while sources are cold, the next share before the one in hand is
    /// copied. What is cached is left to the thread that is done first: with the second thread after the first file, 200 files of
    /// 8 MB took 0.96 of the time on tmpfs, a mixture 0.94 (25 and 21 runs in turn, 2 CPUs). Calls a function after each
    /// share, with the mean length of what was written.
    fn fill_from(&mut self, at: &Opened, batch: &Batch, mut after: impl FnMut(&mut Self, u64)) {
        let mut directories = Vec::new();
        let before = self.reporter.bytes();
        let (mut taken, mut mean_bytes, mut next) = (0, 0, None);
        loop {
            let count = match SHARE_BYTES.checked_div(mean_bytes) {
                _ if taken == 0 => FIRST_SHARE,
                Some(count) => (count as usize).clamp(1, SHARE),
                None => SHARE,
            };
            let in_hand = next.take();
            let Some(share) = in_hand.or_else(|| self.take_share(at, batch, count, mean_bytes)) else {
                break;
            };
            if self.copier.entries.files.contents.data.readahead.is_cold() {
                next = self.take_share(at, batch, count, mean_bytes);
            }
            self.copier.entries.files.contents.data.readahead.look();
            taken += share.len() as u64;
            self.copy_share(at, batch, share, &mut directories);
            mean_bytes = (self.reporter.bytes() - before) / taken;
            after(self, mean_bytes);
        }
        at.dir.add(directories.len());
        if directories.len() > 1 {
            directories = apart(directories, self.run.limits.jobs());
        }
        self.dispatcher.push(&mut directories);
    }

    /// Copies a share; its directories are for later.
    fn copy_share(&mut self, at: &Opened, batch: &Batch, share: Range<usize>, directories: &mut Vec<Job>) {
        let (entries, before) = (share.len(), directories.len());
        for index in share {
            if self.shared.context.stopped() {
                break;
            }
            let (name, kind) = batch.listing.get(index);
            if !self.shared.part.reaches(&batch.dir, name) || self.run.is_own(&batch.dir, name) {
                continue;
            }
            let entry = Entry {
                at,
                source: name,
                target: name,
            };
            if kind == FileType::Directory && self.shared.context.options.recursive {
                directories.push(Job::of(&entry, kind));
            } else {
                self.begin(&entry, kind);
            }
        }
        let others = entries - (directories.len() - before);
        self.reporter.advance(at.dir.part() * others as f64);
    }

    /// Takes a share; while sources are cold, asks for its files.
    fn take_share(
        &mut self,
        at: &Opened,
        batch: &Batch,
        count: usize,
        mean_bytes: u64,
    ) -> Option<Range<usize>> {
        let share = batch.take(count)?;
        if self.copier.entries.files.contents.data.readahead.is_cold() && !self.shared.context.stopped() {
            // Whose blocks are shared need not be read.
            let asked = if self.copier.entries.files.contents.data.reflinks.work() {
                share.start..share.start + 1
            } else {
                share.clone()
            };
            self.copier
                .entries
                .files
                .contents
                .data
                .readahead
                .ask(at.source(), &batch.listing, asked);
            // Two looks, so not one file that happens to be gone from memory.
            if self.copier.entries.files.contents.data.readahead.is_cold()
                && has_use_for_more(&self.copier.entries.files.contents.data, at)
            {
                // Of what is shared, nothing is written.
                let long = mean_bytes >= LONG_BYTES;
                self.dispatcher.call_reserve(long);
            }
        }
        Some(share)
    }

    /// Helps the thread that fills a long directory.
    pub(crate) fn help(&mut self, batch: &Arc<Batch>) {
        if batch.dir.join() {
            if let Ok(opened) = batch.dir.open() {
                self.fill_from(&opened, batch, |_, _| {});
            }
            self.finisher.release(batch.dir.clone());
        }
        self.run.queue.withdraw(batch);
    }
}

/// Returns true if more threads are of use for cold sources. Where blocks are shared they wait for inodes only, and on
/// Btrfs for its trees: 50,000 files of 4 KB took 0.93 of the time with four threads on XFS, in one directory 0.88, and
/// 1.13 on Btrfs (7 and 5 runs in turn).
fn has_use_for_more(data: &DataCopier<'_>, at: &Opened) -> bool {
    let device = at.dir.target.id().0;
    !data.reflinks.work() || data.file_system.of(at.target(), device) != sys::BTRFS
}

/// The order in which threads take a directory's directories: as many rows of neighbours as there are threads, side by
/// side, so that each thread stays in a row of its own.
///
/// Neighbours share what the kernel locks: ext4's block group, and XFS's allocation group, whose reference counts each clone
/// changes. Two threads that took them in turn slept on those locks: 20,000 files of 100 KB on XFS took 2,500 context
/// switches, and take 150.
fn apart<T>(neighbours: Vec<T>, threads: usize) -> Vec<T> {
    let row = neighbours.len().div_ceil(threads.max(1)).max(1);
    let mut numbered: Vec<_> = neighbours.into_iter().enumerate().collect();
    numbered.sort_by_key(|(at, _)| at % row);
    numbered.into_iter().map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::queue::Queue;
    use crate::walk::top::open_top;

    #[test]
    fn threads_take_rows_of_neighbours() {
        assert_eq!(apart((0..7).collect(), 2), [0, 4, 1, 5, 2, 6, 3]);
        assert_eq!(apart((0..3).collect(), 8), [0, 1, 2]);
        for threads in [0, 1] {
            assert_eq!(apart((0..3).collect(), threads), [0, 1, 2]);
        }
        assert!(apart(Vec::<u8>::new(), 2).is_empty());
    }

    #[test]
    fn as_many_help_as_may() {
        let dir = open_top(std::path::Path::new("."), false).unwrap();
        let queue = Queue::default();
        for (helpers, helping) in [(1, 1), (usize::MAX, 3)] {
            let batch = Arc::new(Batch::new(dir.clone(), Listing::default()));
            let _ = queue.offer(&batch, helpers);
            assert_eq!((0..3).filter_map(|_| queue.ready()).count(), helping);
            queue.withdraw(&batch);
            assert!(queue.ready().is_none());
        }
    }
}
