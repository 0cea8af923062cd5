//! Random patterns against a matcher that tries everything. The patterns are made from their meaning, so that the parser
//! is tested by what it makes of their text.

use crate::random::Random;
use crate::select::glob::{Glob, Subject};

const FOUND: &[u64] = &[];
/// Few, so that they meet. `ä` has two bytes, and the last is no text.
const CHARACTERS: [&[u8]; 5] = [b"a", b"b", b"-", "\u{e4}".as_bytes(), b"\xff"];

#[derive(Clone, Debug)]
enum Part {
    One,
    Any,
    Literal(usize),
    /// Which of `CHARACTERS` are between the brackets, and whether those are the ones that do not fit.
    OneOf {
        not: bool,
        which: Vec<usize>,
    },
}

#[derive(Clone, Debug)]
enum Step {
    AnyDepth,
    Name(Vec<Part>),
}

fn name(random: &mut Random) -> Vec<Part> {
    let count = 1 + random.below(4);
    let parts: Vec<Part> = (0..count)
        .map(|_| match random.below(6) {
            0 => Part::One,
            1 => Part::Any,
            2 => Part::OneOf {
                not: random.below(2) == 0,
                which: (0..1 + random.below(3))
                    .map(|_| random.below(5) as usize)
                    .collect(),
            },
            _ => Part::Literal(random.below(5) as usize),
        })
        .collect();
    // Stars alone mean something else between slashes.
    match parts.iter().all(|part| matches!(part, Part::Any)) {
        true => vec![Part::Any],
        false => parts,
    }
}

fn text(parts: &[Part], random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    for part in parts {
        match part {
            Part::One => text.push(b'?'),
            Part::Any => text.push(b'*'),
            Part::Literal(at) => {
                if random.below(3) == 0 {
                    text.push(b'\\');
                }
                text.extend(CHARACTERS[*at]);
            }
            Part::OneOf { not, which } => {
                text.push(b'[');
                text.extend(not.then(|| if random.below(2) == 0 { b'!' } else { b'^' }));
                for at in which {
                    // Between two others a hyphen would make a range.
                    if CHARACTERS[*at] == b"-" {
                        text.push(b'\\');
                    }
                    text.extend(CHARACTERS[*at]);
                }
                text.push(b']');
            }
        }
    }
    text
}

fn fits(parts: &[Part], name: &[usize]) -> bool {
    match (parts, name) {
        ([], _) => name.is_empty(),
        ([Part::Any, rest @ ..], _) => (0..=name.len()).any(|at| fits(rest, &name[at..])),
        ([part, rest @ ..], [first, others @ ..]) => {
            let it_is = match part {
                Part::Literal(at) => at == first,
                Part::OneOf { not, which } => *not != which.contains(first),
                Part::One | Part::Any => true,
            };
            it_is && fits(rest, others)
        }
        _ => false,
    }
}

fn reaches(steps: &[Step], names: &[Vec<usize>]) -> bool {
    match (steps, names) {
        ([], _) => names.is_empty(),
        // At the end: what is inside.
        ([Step::AnyDepth], _) => !names.is_empty(),
        ([Step::AnyDepth, rest @ ..], _) => (0..=names.len()).any(|at| reaches(rest, &names[at..])),
        ([Step::Name(parts), rest @ ..], [first, others @ ..]) => fits(parts, first) && reaches(rest, others),
        _ => false,
    }
}

fn pattern_of(seed: u64) {
    let mut random = Random::new(seed);
    let steps: Vec<Step> = (0..1 + random.below(4))
        .map(|_| match random.below(4) {
            0 => Step::AnyDepth,
            _ => Step::Name(name(&mut random)),
        })
        .collect();
    let leading = random.below(3) == 0;
    let trailing = random.below(3) == 0;
    let mut pattern = Vec::new();
    if leading {
        pattern.push(b'/');
    }
    for (at, step) in steps.iter().enumerate() {
        if at > 0 {
            pattern.push(b'/');
        }
        match step {
            Step::AnyDepth => pattern.extend(b"**"),
            Step::Name(parts) => pattern.extend(text(parts, &mut random)),
        }
    }
    pattern.extend(trailing.then_some(b'/'));
    let shown = String::from_utf8_lossy(&pattern).into_owned();
    let glob = Glob::new(&pattern).unwrap_or_else(|error| panic!("{shown:?}: {error}"));
    for _ in 0..20 {
        let path: Vec<Vec<usize>> = (0..1 + random.below(4))
            .map(|_| {
                (0..1 + random.below(4))
                    .map(|_| random.below(5) as usize)
                    .collect()
            })
            .collect();
        let names: Vec<Vec<u8>> = path
            .iter()
            .map(|name| name.iter().flat_map(|at| CHARACTERS[*at]).copied().collect())
            .collect();
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let subject = Subject {
            source: None,
            names: &names,
            is_dir: true,
        };
        let about = if leading || steps.len() > 1 {
            &path[..]
        } else {
            &path[path.len() - 1..]
        };
        assert_eq!(
            glob.matches(&subject),
            reaches(&steps, about),
            "{shown:?} {names:?}"
        );
    }
}

#[test]
fn seeds_that_were_found_and_some_more() {
    FOUND.iter().copied().chain(0..2_000).for_each(pattern_of);
}

#[test]
#[ignore = "new seeds: make fuzz"]
fn fuzz_patterns() {
    crate::seeds::each(pattern_of);
}
