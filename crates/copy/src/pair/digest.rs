//! Numbers for paths, the same on every machine and in every run.

use std::ffi::CStr;

/// Keys below this have a meaning of their own.
pub(crate) const RESERVED: u64 = 16;

/// A number made of many, the same on every machine: 64 bits in which each bit of what went in counts.
#[derive(Clone, Copy)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) const fn new() -> Digest {
        Digest(0x9e37_79b9_7f4a_7c15)
    }

    /// The finalizer of SplitMix64.
    pub(crate) const fn word(self, word: u64) -> Digest {
        let mut x = (self.0.rotate_left(23) ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Digest(x ^ (x >> 31))
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Digest {
        let mut digest = self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            digest = digest.word(u64::from_le_bytes(word));
        }
        digest
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}

/// A place in the target: a digest of the path from the journal's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) u64);

impl Key {
    /// The journal's own directory.
    pub(crate) const TOP: Key = Key(0);

    pub(crate) fn child(self, name: &CStr) -> Key {
        Key(Digest(self.0).bytes(name.to_bytes()).value())
    }

    pub(crate) fn of_file(self) -> u64 {
        (self.0 & !1).max(RESERVED)
    }

    pub(crate) fn of_directory(self) -> u64 {
        self.of_file() | 1
    }
}
