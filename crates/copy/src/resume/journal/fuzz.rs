//! Journals of random records, torn and damaged, against what the table in `format.rs` says about them.

use super::before::Before;
use super::format::{record, BARRIER, HEAD_BYTES, LIFE, LIFE_SYNCED, LOST, RUN};
use super::{Asked, Head};
use crate::pair::digest::RESERVED;
use crate::random::Random;
use std::io::Write;
use std::os::fd::AsFd;

const LIVES: u64 = 4;
const PLACES: u64 = 8;
const FOUND: &[u64] = &[];

fn records(random: &mut Random) -> Vec<(u64, u64)> {
    let count = random.below(60);
    let one = |random: &mut Random| match random.below(16) {
        0 => (RUN, random.below(100)),
        1 => (LIFE, random.below(LIVES)),
        2 => (LIFE_SYNCED, random.below(LIVES)),
        3 => (BARRIER, random.below(70)),
        4 if random.below(4) == 0 => (LOST, 0),
        5 => (random.below(RESERVED), random.below(100)),
        _ => (RESERVED + random.below(PLACES), random.below(9)),
    };
    (0..count).map(|_| one(random)).collect()
}

/// Returns what is believed of a place in this life: the last record about it that is true.
fn believed(records: &[(u64, u64)], place: u64, life: u64) -> Option<u64> {
    let begun = |at: usize| {
        let lives = records[..=at].iter().enumerate().rev();
        let mut lives = lives.filter(|(_, (key, _))| matches!(*key, LIFE | LIFE_SYNCED));
        lives.next().map(|(_, record)| *record)
    };
    let is_true = |at: usize| {
        let Some((kind, own)) = begun(at) else {
            return false;
        };
        // A barrier is about the life that it was written in.
        let barrier = |(later, (key, count)): (usize, &(u64, u64))| {
            *key == BARRIER && *count > at as u64 && begun(later).is_some_and(|(_, other)| other == own)
        };
        let lost = records[at..].iter().any(|(key, _)| *key == LOST);
        !lost && (kind == LIFE_SYNCED || own == life || records.iter().enumerate().any(barrier))
    };
    let about = records
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, (key, _))| *key == place);
    let mut last = about.filter(|&(at, (key, value))| *value == 0 || (key | value) % 2 == 1 || is_true(at));
    last.next()
        .map(|(_, (_, value))| *value)
        .filter(|value| *value != 0)
}

fn read(bytes: &[u8], head_bytes: usize, life: u64) -> Before {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    Before::read(file.as_fd(), head_bytes, life).unwrap()
}

fn journal_of(seed: u64) {
    let mut random = Random::new(seed);
    let source = random.bytes(40);
    // What comes behind the path fills the head up.
    let checked_bytes = HEAD_BYTES + source.len();
    let head = Head {
        id: random.next() as u32,
        ino: random.next(),
        asked: Asked {
            targets: random.next(),
            sources: random.next(),
            options: random.next(),
        },
        source,
    };
    let mut bytes = head.encode();
    let (read_back, head_bytes) = Head::decode(&bytes).expect("a head that was just written");
    assert_eq!((read_back, head_bytes), (head, bytes.len()));
    let records = records(&mut random);
    for (key, value) in &records {
        bytes.extend(record(*key, *value));
    }
    // The last one was torn.
    let torn = random.below(16) as usize;
    bytes.extend(&random.bytes(16)[..]);
    bytes.truncate(head_bytes + 16 * records.len() + torn);
    for life in 0..LIVES {
        let before = read(&bytes, head_bytes, life);
        for place in RESERVED..RESERVED + PLACES {
            let expected = believed(&records, place, life);
            assert_eq!(
                before.value(place),
                expected,
                "place {place}, life {life}: {records:?}"
            );
        }
    }
    // Damage may cost what was written down, and nothing else.
    for _ in 0..4 {
        let mut damaged = bytes.clone();
        let at = random.below(bytes.len() as u64) as usize;
        damaged[at] ^= 1 << random.below(8);
        assert!(
            at >= checked_bytes || Head::decode(&damaged).is_none(),
            "byte {at}"
        );
        read(&damaged, head_bytes, random.below(LIVES));
    }
    let noise = random.bytes(400);
    assert_eq!(Head::decode(&noise), None);
    read(&noise, 64.min(noise.len()), 1);
}

#[test]
fn seeds_that_were_found_and_some_more() {
    FOUND.iter().copied().chain(0..300).for_each(journal_of);
}

#[test]
#[ignore = "new seeds: make fuzz"]
fn fuzz_journals() {
    crate::seeds::each(journal_of);
}
