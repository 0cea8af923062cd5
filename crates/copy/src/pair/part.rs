//! What a directory is in a copy that is done in parts. In a whole copy there is none of it.

use crate::pair::digest::Digest;
use crate::pair::range::{Bounds, Reached};
use crate::pair::weight::Pieces;
use crate::pair::Entry;
use std::ffi::CStr;
use std::sync::Mutex;

/// Of a directory on the way.
#[derive(Default)]
pub(crate) struct DirPart {
    /// It is counted here, and not by the shard that has the range before.
    pub(crate) own: bool,
    pub(crate) bounds: Bounds,
    /// Of its path below the top.
    pub(crate) path: u64,
    /// Tells the file systems that a tree spans apart, and is the same on all machines.
    pub(crate) volume: u64,
    pub(crate) pieces: Mutex<Pieces>,
}

/// A number for a path, from that of its directory.
pub(crate) fn below(directory: u64, name: &CStr) -> u64 {
    Digest::new().word(directory).bytes(name.to_bytes()).value()
}

impl DirPart {
    pub(crate) fn new(reached: Reached, entry: &Entry<'_>, device: u64) -> DirPart {
        let above = entry.at.dir.part.as_deref();
        let path = above.map_or(0, |above| below(above.path, entry.source));
        let volume = match above {
            Some(above) if entry.at.dir.source.id().0 == device => above.volume,
            _ => path,
        };
        DirPart {
            own: reached.own,
            bounds: reached.bounds,
            path,
            volume,
            pieces: Mutex::default(),
        }
    }

    /// A number for an entry, by its path.
    pub(crate) fn place(&self, name: &CStr) -> u64 {
        below(self.path, name)
    }
}
