//! What a journal looks like: a head, then records of 16 bytes each. Plain data: nothing here reads or writes a file.
//!
//! Numbers are little-endian. The head has 64 bytes and the path of the first source, filled up with zeros to a multiple
//! of 16. A record is a key and a value; a later one takes the place of an earlier one with the same key.
//!
//! | key | value | meaning |
//! | --- | --- | --- |
//! | 0 | any | nothing: what a crash may leave in a file |
//! | 1 | life | a run begins, in this life of the page cache |
//! | 2 | life | the same, and what it writes down is on the disk by then |
//! | 3 | number | all records before this one are on the disk, if they are of the same life as this one |
//! | 4 | id | the run that begins has this id: its partial names end in it |
//! | 5 | any | what was written before this may not be on the disk, in no life: writing it back has failed |
//! | even | even digest | the file at this place is finished ([`finished`]) |
//! | even | odd digest | a file is being written under its final name at this place ([`Begun::value`]) |
//! | odd | digest | the directory at this place was made by us ([`made`]), or is merged into ([`entered`]) |
//! | either | 0 | not any more |

use crate::pair::digest::{Digest, Key};
use crate::sys::Stat;

pub(crate) const RECORD_BYTES: usize = 16;
pub(crate) const HEAD_BYTES: usize = 64;

const MAGIC: &[u8; 12] = b"proactor cp\n";
/// Another one for each change of what records mean.
const VERSION: u32 = 3;
/// Longer ones are cut: the path is there to be shown.
const SHOWN_BYTES: usize = 4096;

pub(crate) const LIFE: u64 = 1;
pub(crate) const LIFE_SYNCED: u64 = 2;
pub(crate) const BARRIER: u64 = 3;
pub(crate) const RUN: u64 = 4;
pub(crate) const LOST: u64 = 5;
/// The value for a file that is finished at this place: what its source was, and what it is itself where others may
/// have put another one there.
pub(crate) fn finished(at: Key, source: &Stat, there: Option<&Stat>) -> u64 {
    let digest = Digest::new()
        .word(at.0)
        .word(source.id.1)
        .word(source.size)
        .word(source.mtime.tv_sec as u64)
        .word(source.mtime.tv_nsec as u64)
        .word(source.ctime.tv_sec as u64)
        .word(source.ctime.tv_nsec as u64);
    let digest = match there {
        None => digest,
        Some(there) => digest
            .word(there.id.1)
            .word(there.size)
            .word(there.mtime.tv_sec as u64)
            .word(there.mtime.tv_nsec as u64),
    };
    (digest.value() & !1).max(2)
}

/// A file that has its final name while it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Nothing has this name, and a file is about to be made.
    ToBeMade,
    /// We have made this inode.
    Made(u64),
    /// The contents of this inode are overwritten.
    Over(u64),
}

impl Begun {
    pub(super) fn value(self, at: Key) -> u64 {
        let (kind, ino) = match self {
            Begun::ToBeMade => (1, 0),
            Begun::Made(ino) => (2, ino),
            Begun::Over(ino) => (3, ino),
        };
        Digest::new().word(at.0).word(kind).word(ino).value() | 1
    }
}

/// The value for a directory that we have made at this place.
pub(crate) fn made(at: Key, there: &Stat) -> u64 {
    Digest::new().word(at.0).word(there.id.1).value().max(1)
}

/// The value for a directory at this place that was there.
pub(crate) fn entered(at: Key, there: &Stat) -> u64 {
    Digest::new().word(there.id.1).word(at.0).value().max(1)
}

pub(crate) fn record(key: u64, value: u64) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    bytes[8..].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// Key and value.
pub(crate) fn parse(record: &[u8; RECORD_BYTES]) -> (u64, u64) {
    (number(record, 0), number(record, 8))
}

/// Whose journal it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) id: u32,
    /// The journal's own inode: a copy of a journal is none.
    pub(crate) ino: u64,
    /// Digests of what was asked for.
    pub(crate) asked: Asked,
    /// The path of the first source.
    pub(crate) source: Vec<u8>,
}

/// The request of a run, so that another one can tell whether it has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) targets: u64,
    pub(crate) sources: u64,
    pub(crate) options: u64,
}

impl Head {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let path = &self.source[..self.source.len().min(SHOWN_BYTES)];
        let mut bytes = MAGIC.to_vec();
        for number in [VERSION, self.id, path.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        let Asked {
            targets,
            sources,
            options,
        } = self.asked;
        for number in [self.ino, targets, sources, options] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(check(&bytes, path).to_le_bytes());
        debug_assert_eq!(bytes.len(), HEAD_BYTES);
        bytes.extend(path);
        bytes.resize(bytes.len().next_multiple_of(RECORD_BYTES), 0);
        bytes
    }

    /// The head and its length. `None` if it is none, or one of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Head, usize)> {
        let fixed = bytes.get(..HEAD_BYTES)?;
        let small = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        if &fixed[..12] != MAGIC || small(12) != VERSION {
            return None;
        }
        let length = small(20) as usize;
        let path = bytes.get(HEAD_BYTES..HEAD_BYTES.checked_add(length)?)?;
        if number(fixed, 56) != check(&fixed[..56], path) {
            return None;
        }
        let head = Head {
            id: small(16),
            ino: number(fixed, 24),
            asked: Asked {
                targets: number(fixed, 32),
                sources: number(fixed, 40),
                options: number(fixed, 48),
            },
            source: path.to_vec(),
        };
        Some((head, (HEAD_BYTES + length).next_multiple_of(RECORD_BYTES)))
    }

    /// Long enough for every head.
    pub(crate) const MOST_BYTES: usize = HEAD_BYTES + SHOWN_BYTES;
}

fn check(fixed: &[u8], path: &[u8]) -> u64 {
    Digest::new().bytes(fixed).bytes(path).value()
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::digest::RESERVED;
    use rustix::fd::AsFd;
    use std::ffi::CStr;

    fn head(source: &[u8]) -> Head {
        Head {
            id: 0xfeed,
            ino: 7,
            asked: Asked {
                targets: 1,
                sources: 2,
                options: 3,
            },
            source: source.into(),
        }
    }

    #[test]
    fn a_file_that_has_changed_in_any_way_is_another() {
        let stat = crate::sys::stat(std::fs::File::open("/").unwrap().as_fd()).unwrap();
        let of_both: [fn(&mut Stat); 4] = [
            |stat| stat.id.1 ^= 1,
            |stat| stat.size ^= 1,
            |stat| stat.mtime.tv_sec ^= 1,
            |stat| stat.mtime.tv_nsec ^= 1,
        ];
        let of_sources: [fn(&mut Stat); 2] = [|stat| stat.ctime.tv_sec ^= 1, |stat| stat.ctime.tv_nsec ^= 1];
        let at = Key::TOP;
        let value = finished(at, &stat, Some(&stat));
        assert_eq!(value, finished(at, &stat, Some(&stat)));
        for change in of_both.iter().chain(&of_sources) {
            let mut other = stat;
            change(&mut other);
            assert_ne!(finished(at, &other, Some(&stat)), value);
        }
        for change in of_both {
            let mut other = stat;
            change(&mut other);
            assert_ne!(finished(at, &stat, Some(&other)), value);
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        for length in [0, 1, 15, 16, 17, SHOWN_BYTES] {
            let head = head(&vec![b'x'; length]);
            let bytes = head.encode();
            assert_eq!(Head::decode(&bytes), Some((head, bytes.len())));
        }
        let (cut, _) = Head::decode(&head(&vec![b'x'; 2 * SHOWN_BYTES]).encode()).unwrap();
        assert_eq!(cut.source.len(), SHOWN_BYTES);
    }

    #[test]
    fn a_head_of_which_any_byte_is_another_is_none() {
        let bytes = head(b"/a/path").encode();
        for at in 0..HEAD_BYTES + 7 {
            let mut other = bytes.clone();
            other[at] ^= 0x10;
            assert_eq!(Head::decode(&other), None, "{at}");
        }
        for length in 0..HEAD_BYTES + 7 {
            assert_eq!(Head::decode(&bytes[..length]), None, "{length}");
        }
    }

    #[test]
    fn places_are_told_apart() {
        let place = |names: &[&CStr]| names.iter().fold(Key::TOP, |key, name| key.child(name));
        let places = [
            place(&[]),
            place(&[c"a"]),
            place(&[c"b"]),
            place(&[c"a", c"b"]),
            place(&[c"b", c"a"]),
            place(&[c"ab"]),
            place(&[c"a", c"a"]),
            place(&[c"aaaaaaaa", c"a"]),
            place(&[c"aaaaaaaaa"]),
        ];
        for (at, one) in places.iter().enumerate() {
            assert!(places[..at].iter().all(|other| one.of_file() != other.of_file()));
            assert!(one.of_file() >= RESERVED && one.of_file() % 2 == 0);
            assert_eq!(one.of_directory(), one.of_file() | 1);
        }
    }

    #[test]
    fn the_digest_is_the_same_on_every_machine() {
        // A journal outlives the program that wrote it.
        assert_eq!(
            Digest::new().bytes(b"proactor").word(1).value(),
            10_506_978_617_091_839_481
        );
    }
}
