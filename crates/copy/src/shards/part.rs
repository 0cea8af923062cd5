//! What a copy is a part of, and what that means for a directory and an entry: the only things that the copier itself
//! asks. A whole copy is part of nothing, and pays for none of this.

use super::farm::Farm;
use crate::api::error::Step;
use crate::api::observer::Paths as _;
use crate::context::outcome::{End, Outcome};
use crate::job::worker::Worker;
use crate::pair::digest::Digest;
use crate::pair::directory::Dir;
use crate::pair::part::{below, DirPart};
use crate::pair::range::{Bounds, Range, Reached};
use crate::pair::weight::{Pieces, Weight};
use crate::pair::Entry;
use crate::sys::{self, Stat};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

/// What this run does of a copy.
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// It makes the directories, and weighs what is in them.
    Plan { top: Top, scales: Scales },
    /// It copies what is in a range.
    Shard { top: Top, shard: Box<Shard> },
    /// It gives the directories their metadata, and the tree its name.
    Finish { top: Top },
}

/// The new tree's name until it is finished.
pub(crate) struct Top {
    pub(crate) partial: CString,
}

/// What is weighed together.
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
    pub(crate) farm: Farm,
}

/// A sum over all entries, the same in any order and in any parts: another one means that something has changed.
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

    /// The name of a directory in the target until it is finished.
    pub(crate) fn partial(&self, entry: &Entry<'_>) -> Option<&CStr> {
        let top = self.top().filter(|_| entry.at.dir.is_top())?;
        Some(&top.partial)
    }

    /// What the run has of an entry, if anything.
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

    /// Whether there is anything to be done about a name: most of what is not ours goes here, without a look at it.
    pub(crate) fn reaches(&self, dir: &Dir, name: &CStr) -> bool {
        match (self, &dir.part) {
            (Part::Shard { .. }, Some(part)) => part.bounds.enter(name).is_some(),
            _ => true,
        }
    }
}

impl Worker<'_> {
    /// What a directory is in this part of a copy.
    pub(crate) fn dir_part(&self, entry: &Entry<'_>, stat: &Stat) -> Outcome<Option<Box<DirPart>>> {
        let part = &self.run.part;
        if part.is_whole() {
            return Ok(None);
        }
        let reached = part.reached(entry).ok_or(End::Skipped)?;
        let dir = DirPart::new(reached, entry, stat.id.0);
        if let Some(checksum) = part.checksum().filter(|_| dir.own) {
            let above = entry.at.dir.part.as_ref();
            let name = if above.is_some() { entry.source } else { c"" };
            checksum.add(above.map_or(0, |above| above.path), name, stat);
        }
        Ok(Some(dir.into()))
    }

    /// An entry that is no directory: whether it is this run's to copy.
    pub(crate) fn is_to_be_copied(&mut self, entry: &Entry<'_>) -> Outcome<bool> {
        match &self.run.part {
            Part::Whole => Ok(true),
            part @ Part::Shard { .. } => Ok(part.reached(entry).is_some_and(|reached| reached.own)),
            Part::Plan { scales, .. } => self.weigh(entry, scales).map(|()| false),
            Part::Finish { .. } => Ok(false),
        }
    }

    fn weigh(&self, entry: &Entry<'_>, scales: &Scales) -> Outcome<()> {
        // What cannot be looked at weighs nothing, and is told of by its shard.
        let follow = self.run.follows(&entry.at.dir);
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

    /// An entry is being dealt with.
    pub(crate) fn saw(&self, entry: &Entry<'_>, stat: &Stat) {
        if let (Some(checksum), Some(part)) = (self.run.part.checksum(), &entry.at.dir.part) {
            checksum.add(part.path, entry.source, stat);
        }
    }

    /// A directory is done. Says whether anything else is to be done about it.
    pub(crate) fn is_to_be_finished(&mut self, dir: &Dir) -> bool {
        let Part::Plan { scales, .. } = &self.run.part else {
            return self.run.part.shard().is_none();
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

    /// What the directory has under a name by now: nothing, as far as is known, at the first attempt.
    pub(crate) fn shared_existing(&mut self, entry: &Entry<'_>) -> Outcome<Option<Stat>> {
        match self.run.part.shard() {
            Some(shard) if !shard.again => Ok(None),
            _ => self.existing(entry),
        }
    }

    /// For a failure that another part tells of as well.
    pub(crate) fn fails_silently(&self, entry: &Entry<'_>) -> bool {
        !self.run.part.is_whole() && !self.run.part.reached(entry).is_some_and(|reached| reached.own)
    }

    /// Where a link in the farm is shown as: never to a user who has no trouble with it.
    pub(crate) fn farm_failed(&mut self, entry: &Entry<'_>, error: std::io::Error) -> End {
        self.reporter
            .failed_with(Step::CreateHardLink, entry.target(), Some(entry.source()), error)
    }
}
