//! A directory in a copy that is done in parts. In a whole copy there is none of it.

use crate::pair::digest::Digest;
use crate::pair::range::{Bounds, Reached};
use crate::pair::weight::Pieces;
use std::ffi::CStr;
use std::sync::Mutex;

/// A directory as a run has it.
#[derive(Default)]
pub(crate) struct DirPart {
    /// It is counted here, and not by the shard that has the range before.
    pub(crate) own: bool,
    pub(crate) bounds: Bounds,
    /// A number for its path below the top.
    pub(crate) path: u64,
    /// Tells the file systems that a tree spans apart, and is the same on all machines.
    pub(crate) volume: u64,
    pub(crate) pieces: Mutex<Pieces>,
}

/// Returns a number for a path, made from that of its directory.
pub(crate) fn below(directory: u64, name: &CStr) -> u64 {
    Digest::new().word(directory).bytes(name.to_bytes()).value()
}

impl DirPart {
    /// Makes the part of a directory with this `name` in the directory `above`, which is on the same device or not.
    pub(crate) fn new(reached: Reached, above: Option<&DirPart>, name: &CStr, same_device: bool) -> DirPart {
        let path = above.map_or(0, |above| below(above.path, name));
        let volume = match above {
            Some(above) if same_device => above.volume,
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

    /// Returns a number for an entry, made from its path.
    pub(crate) fn place(&self, name: &CStr) -> u64 {
        below(self.path, name)
    }
}
