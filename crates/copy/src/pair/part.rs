//! The part of a copy that one run does, and what a directory is in it. A whole copy is part of nothing.

use crate::api::options::Options;
use crate::context::outcome::{End, Outcome};
use crate::pair::digest::Digest;
use crate::pair::dir_part::{below, DirPart};
use crate::pair::directory::Dir;
use crate::pair::range::{Bounds, Range, Reached};
use crate::pair::weight::{Pieces, Weight};
use crate::pair::Entry;
use crate::sys::{self, Stat};
use rustix::fd::OwnedFd;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

/// The part of a copy that one run does. A whole copy is part of nothing, and pays for none of this.
pub(crate) enum Part {
    /// It copies everything.
    Whole,
    /// It makes the directories, and weighs what is in them.
    Plan { top: Top, scales: Scales },
    /// It copies what is in a range.
    Shard { top: Top, shard: Box<Shard> },
    /// It gives the directories their metadata, and the tree its name.
    Finish { top: Top },
}

/// The name of the new tree until it is finished.
pub(crate) struct Top {
    pub(crate) partial: CString,
}

/// The weights of a tree that is to be cut into shards.
pub(crate) struct Scales {
    pub(crate) shards: usize,
    pub(crate) checksum: Checksum,
    all: AtomicWeight,
    /// The whole tree, when its top is done.
    pub(crate) pieces: Mutex<Pieces>,
}

impl Scales {
    pub(crate) fn of(shards: usize) -> Scales {
        Scales {
            shards,
            checksum: Checksum::default(),
            all: AtomicWeight::default(),
            pieces: Mutex::default(),
        }
    }
}

#[derive(Default)]
struct AtomicWeight {
    entries: AtomicU64,
    bytes: AtomicU64,
}

/// One attempt at a shard.
pub(crate) struct Shard {
    pub(crate) range: Range,
    /// Another attempt may have left something.
    pub(crate) again: bool,
    pub(crate) checksum: Checksum,
    /// The directory of hard links across shards (`entry/farm.rs`).
    pub(crate) farm: OwnedFd,
}

/// A sum over all entries, the same in any order and in any parts. If it differs, the source has changed.
#[derive(Default)]
pub(crate) struct Checksum(AtomicU64);

impl Checksum {
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn add(&self, directory: u64, name: &CStr, stat: &Stat) {
        // Of a directory, what is in it is counted itself; its length is the file system's own business.
        let (size, seconds, nanoseconds) = match stat.is_dir() {
            true => (0, 0, 0),
            false => (stat.size, stat.mtime.tv_sec as u64, stat.mtime.tv_nsec as u64),
        };
        let digest = Digest::new()
            .word(below(directory, name))
            .word(stat.mode.into())
            .word(size)
            .word(seconds)
            .word(nanoseconds);
        self.0.fetch_add(digest.value(), Relaxed);
    }
}

impl Part {
    fn top(&self) -> Option<&Top> {
        match self {
            Part::Whole => None,
            Part::Plan { top, .. } | Part::Shard { top, .. } | Part::Finish { top } => Some(top),
        }
    }

    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Part::Whole)
    }

    pub(crate) fn is_finish(&self) -> bool {
        matches!(self, Part::Finish { .. })
    }

    pub(crate) fn shard(&self) -> Option<&Shard> {
        match self {
            Part::Shard { shard, .. } => Some(shard),
            _ => None,
        }
    }

    fn checksum(&self) -> Option<&Checksum> {
        match self {
            Part::Plan { scales, .. } => Some(&scales.checksum),
            Part::Shard { shard, .. } => Some(&shard.checksum),
            Part::Whole | Part::Finish { .. } => None,
        }
    }

    /// Returns the name of a directory in the target until it is finished.
    pub(crate) fn partial(&self, entry: &Entry<'_>) -> Option<&CStr> {
        let top = self.top().filter(|_| entry.at.dir.is_top())?;
        Some(&top.partial)
    }

    /// Returns what the run has of an entry, if anything.
    fn reached(&self, entry: &Entry<'_>) -> Option<Reached> {
        let all = Reached {
            own: !self.is_finish(),
            bounds: Bounds::default(),
        };
        match (self, &entry.at.dir.part) {
            (Part::Shard { shard, .. }, None) => Some(shard.range.top()),
            (Part::Shard { .. }, Some(above)) => above.bounds.enter(entry.source),
            _ => Some(all),
        }
    }

    /// Returns false for a name of which the run has nothing. No system call is made for it.
    pub(crate) fn reaches(&self, dir: &Dir, name: &CStr) -> bool {
        match (self, &dir.part) {
            (Part::Shard { .. }, Some(part)) => part.bounds.enter(name).is_some(),
            _ => true,
        }
    }

    /// Returns what a directory is in this part of a copy, and counts it if it is this run's own.
    pub(crate) fn of_directory(&self, entry: &Entry<'_>, stat: &Stat) -> Outcome<Option<Box<DirPart>>> {
        if self.is_whole() {
            return Ok(None);
        }
        let reached = self.reached(entry).ok_or(End::Skipped)?;
        let above = entry.at.dir.part.as_deref();
        let same_device = entry.at.dir.source.id().0 == stat.id.0;
        let dir = DirPart::new(reached, above, entry.source, same_device);
        if let Some(checksum) = self.checksum().filter(|_| dir.own) {
            let name = if above.is_some() { entry.source } else { c"" };
            checksum.add(above.map_or(0, |above| above.path), name, stat);
        }
        Ok(Some(dir.into()))
    }

    /// Returns true if an entry that is not a directory is this run's to copy.
    pub(crate) fn is_to_be_copied(&self, entry: &Entry<'_>, options: &Options) -> Outcome<bool> {
        match self {
            Part::Whole => Ok(true),
            Part::Shard { .. } => Ok(self.reached(entry).is_some_and(|reached| reached.own)),
            Part::Plan { scales, .. } => self.weigh(entry, options, scales).map(|()| false),
            Part::Finish { .. } => Ok(false),
        }
    }

    fn weigh(&self, entry: &Entry<'_>, options: &Options, scales: &Scales) -> Outcome<()> {
        // An entry that cannot be examined weighs nothing. Its shard reports the failure.
        let follow = entry.at.dir.follows(options);
        let stat = sys::stat_at(entry.at.source(), entry.source, follow).map_err(|_| End::Failed)?;
        let bytes = if stat.is_file() { stat.size } else { 0 };
        scales.all.entries.fetch_add(1, Relaxed);
        scales.all.bytes.fetch_add(bytes, Relaxed);
        self.saw(entry, &stat);
        if let Some(part) = &entry.at.dir.part {
            let mut pieces = part.pieces.lock().unwrap();
            pieces.add(entry.source, Weight { entries: 1, bytes });
        }
        Ok(())
    }

    /// Counts an entry that is being copied or weighed.
    pub(crate) fn saw(&self, entry: &Entry<'_>, stat: &Stat) {
        if let (Some(checksum), Some(part)) = (self.checksum(), &entry.at.dir.part) {
            checksum.add(part.path, entry.source, stat);
        }
    }

    /// Ends a directory of which everything is done. Returns true if it is to get its metadata and name from this run.
    pub(crate) fn is_to_be_finished(&self, dir: &Dir) -> bool {
        let Part::Plan { scales, .. } = self else {
            return self.shard().is_none();
        };
        let (Some(part), Some(parent)) = (&dir.part, dir.parent()) else {
            return false;
        };
        let pieces = std::mem::take(&mut *part.pieces.lock().unwrap());
        let Some(above) = &parent.part else {
            *scales.pieces.lock().unwrap() = pieces;
            return false;
        };
        scales.all.entries.fetch_add(1, Relaxed);
        let all = Weight {
            entries: scales.all.entries.load(Relaxed),
            bytes: scales.all.bytes.load(Relaxed),
        };
        let mut into = above.pieces.lock().unwrap();
        into.add_directory(dir.source.name(), pieces, all, scales.shards);
        false
    }

    /// Returns true for an entry whose failure another part reports as well.
    pub(crate) fn fails_silently(&self, entry: &Entry<'_>) -> bool {
        !self.is_whole() && !self.reached(entry).is_some_and(|reached| reached.own)
    }
}
