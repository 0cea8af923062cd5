//! Patterns for names, as .gitignore has them. They work on bytes: neither a name nor a pattern need be text.
//!
//! Small enough to be ours: the usual crates for it want patterns that are text, and take a byte for a character.

use std::fmt;

/// A pattern, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    steps: Vec<Step>,
    /// It is about a path from the source on, and not about a name wherever that is.
    anchored: bool,
    only_directories: bool,
    /// `/***` at the end: it matches a directory, and all that is in it.
    with_contents: bool,
}

/// An entry, as a pattern sees it.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'s> {
    /// The name of the source that it is in, or is itself.
    pub(crate) source: Option<&'s [u8]>,
    /// The names that lead from there to the entry; none if it is the source.
    pub(crate) names: &'s [&'s [u8]],
    pub(crate) is_dir: bool,
}

/// The part of a pattern between two slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// `**`: any number of directories, and none too.
    AnyDepth,
    Name(Vec<Token>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Literal(u32),
    /// `?`
    One,
    /// `*`
    Any,
    /// `[...]`, with the first and the last character of each range.
    OneOf {
        not: bool,
        ranges: Vec<(u32, u32)>,
    },
}

/// Why something is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPattern {
    /// There is nothing in it that could be a name.
    Empty,
    /// A `[` without its `]`.
    Unclosed,
    /// A slash between `[` and `]`.
    SlashInBrackets,
    /// A range whose end comes before its start.
    Backwards,
    /// `[:alpha:]` and its kin, `[=a=]` and `[.a.]`.
    Class,
    /// A backslash before a slash or the end.
    Backslash,
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadPattern::Empty => "no name can match it",
            BadPattern::Unclosed => "'[' without ']'",
            BadPattern::SlashInBrackets => "'[...]' stands for a character of a name, which is never a slash",
            BadPattern::Backwards => "a range that goes backwards",
            BadPattern::Class => "classes such as [:alpha:] are not known",
            BadPattern::Backslash => "nothing to be taken literally after the last backslash",
        })
    }
}

impl std::error::Error for BadPattern {}

impl Glob {
    pub(crate) fn new(pattern: &[u8]) -> Result<Glob, BadPattern> {
        let mut path = pattern;
        while let [rest @ .., b'/'] = path {
            path = rest;
        }
        let only_directories = path.len() < pattern.len();
        let with_contents = path
            .strip_suffix(b"/***")
            .filter(|dir| dir.iter().any(|&byte| byte != b'/'));
        let with_contents = with_contents.inspect(|dir| path = dir).is_some();
        while let (true, [rest @ .., b'/']) = (with_contents, path) {
            path = rest;
        }
        let mut steps = Vec::new();
        let mut rest = path;
        loop {
            let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            match &rest[..end] {
                b"" | b"." => {}
                b"**" | b"***" => steps.push(Step::AnyDepth),
                part => steps.push(Step::Name(tokens(part).map_err(|why| {
                    match (why, tokens(rest)) {
                        (BadPattern::Unclosed, Err(BadPattern::Unclosed)) => why,
                        (BadPattern::Unclosed, _) => BadPattern::SlashInBrackets,
                        _ => why,
                    }
                })?)),
            }
            match rest.get(end + 1..) {
                Some(next) => rest = next,
                None => break,
            }
        }
        match steps.last() {
            None => return Err(BadPattern::Empty),
            // What is inside, and not the directory itself.
            Some(Step::AnyDepth) => steps.push(Step::Name(vec![Token::Any])),
            Some(Step::Name(_)) => {}
        }
        Ok(Glob {
            steps,
            anchored: path.contains(&b'/'),
            only_directories: only_directories || with_contents,
            with_contents,
        })
    }

    /// Returns true if it is about this entry.
    pub(crate) fn matches(&self, subject: &Subject<'_>) -> bool {
        let Subject {
            source,
            names,
            is_dir,
        } = *subject;
        if is_dir || !self.only_directories {
            let itself = match (names, source) {
                // Paths are told from what was named on.
                ([], Some(source)) => !self.anchored && self.takes(&[source]),
                _ => self.is_about(names),
            };
            if itself {
                return true;
            }
        }
        // All but the last are directories.
        let above = &names[..names.len().saturating_sub(1)];
        self.with_contents
            && (!self.anchored && !names.is_empty() && source.is_some_and(|source| self.takes(&[source]))
                || (1..=above.len()).any(|end| self.is_about(&above[..end])))
    }

    /// Returns true if it is about the last of these names, each of which is in the directory before it.
    fn is_about(&self, names: &[&[u8]]) -> bool {
        match names {
            [] => false,
            _ if self.anchored => self.takes(names),
            [.., last] => self.takes(&[last]),
        }
    }

    fn takes(&self, names: &[&[u8]]) -> bool {
        all_taken(
            &self.steps,
            names,
            |step| *step == Step::AnyDepth,
            |step, names| match step {
                Step::Name(tokens) => is_name(tokens, names[0]).then_some(1),
                Step::AnyDepth => unreachable!("it is a star"),
            },
            |_| 1,
        )
    }
}

fn is_name(tokens: &[Token], name: &[u8]) -> bool {
    let take = |token: &Token, rest: &[u8]| {
        let (character, width) = first(rest);
        let is_it = match token {
            Token::Literal(literal) => *literal == character,
            Token::OneOf { not, ranges } => {
                *not != ranges.iter().any(|(from, to)| (*from..=*to).contains(&character))
            }
            Token::One | Token::Any => true,
        };
        is_it.then_some(width)
    };
    all_taken(
        tokens,
        name,
        |token| *token == Token::Any,
        take,
        |rest| first(rest).1,
    )
}

/// Returns true if a pattern takes all items. A star takes any number of them, another element as many as `take`
/// says, which is the `width` of one, or fits not. Only the last star is ever tried again: what the ones before it
/// took can stay.
fn all_taken<P, T>(
    pattern: &[P],
    items: &[T],
    is_star: impl Fn(&P) -> bool,
    take: impl Fn(&P, &[T]) -> Option<usize>,
    width: impl Fn(&[T]) -> usize,
) -> bool {
    let (mut at, mut item) = (0, 0);
    // What comes after the last star, and where it was tried.
    let mut again: Option<(usize, usize)> = None;
    loop {
        let taken = match pattern.get(at) {
            Some(element) if is_star(element) => {
                again = Some((at + 1, item));
                Some(0)
            }
            Some(element) if item < items.len() => take(element, &items[item..]),
            None if item == items.len() => return true,
            _ => None,
        };
        if let Some(taken) = taken {
            (at, item) = (at + 1, item + taken);
            continue;
        }
        match &mut again {
            Some((after, tried)) if *tried < items.len() => {
                *tried += width(&items[*tried..]);
                (at, item) = (*after, *tried);
            }
            _ => return false,
        }
    }
}

/// The number behind the last character that there is.
const NO_CHARACTER: u32 = 0x11_0000;

/// The first character and how many bytes it has. A byte that begins none is one by itself, other than all others.
fn first(bytes: &[u8]) -> (u32, usize) {
    let byte = bytes[0];
    if byte.is_ascii() {
        return (byte.into(), 1);
    }
    let longest = &bytes[..bytes.len().min(4)];
    let character = longest
        .utf8_chunks()
        .next()
        .and_then(|chunk| chunk.valid().chars().next());
    match character {
        Some(character) => (character.into(), character.len_utf8()),
        None => (NO_CHARACTER + u32::from(byte), 1),
    }
}

fn tokens(mut part: &[u8]) -> Result<Vec<Token>, BadPattern> {
    let mut tokens = Vec::new();
    while !part.is_empty() {
        let token = match part[0] {
            b'*' => {
                part = &part[1..];
                Token::Any
            }
            b'?' => {
                part = &part[1..];
                Token::One
            }
            b'[' => {
                part = &part[1..];
                one_of(&mut part)?
            }
            _ => Token::Literal(literal(&mut part)?),
        };
        tokens.push(token);
    }
    Ok(tokens)
}

/// The next character, which a backslash before it makes one that means itself.
fn literal(part: &mut &[u8]) -> Result<u32, BadPattern> {
    if part[0] == b'\\' {
        *part = &part[1..];
        if part.is_empty() {
            return Err(BadPattern::Backslash);
        }
    }
    let (character, width) = first(part);
    *part = &part[width..];
    Ok(character)
}

/// Parses what is between brackets. A `]` at the beginning is one of the characters.
fn one_of(part: &mut &[u8]) -> Result<Token, BadPattern> {
    let not = matches!(part.first(), Some(b'!' | b'^'));
    *part = &part[usize::from(not)..];
    let mut ranges = Vec::new();
    loop {
        match part {
            [] => return Err(BadPattern::Unclosed),
            [b']', rest @ ..] if !ranges.is_empty() => {
                *part = rest;
                return Ok(Token::OneOf { not, ranges });
            }
            [b'[', b':' | b'=' | b'.', ..] => return Err(BadPattern::Class),
            _ => {}
        }
        let from = literal(part)?;
        let to = match part {
            [b'-', next, ..] if *next != b']' => {
                *part = &part[1..];
                literal(part)?
            }
            _ => from,
        };
        if to < from {
            return Err(BadPattern::Backwards);
        }
        ranges.push((from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::{BadPattern, Glob, Subject};
    use proptest::prelude::*;

    fn matches(pattern: &[u8], path: &[u8]) -> bool {
        matches_kind(pattern, path, true)
    }

    fn matches_kind(pattern: &[u8], path: &[u8], is_dir: bool) -> bool {
        let names: Vec<_> = path.split(|&byte| byte == b'/').collect();
        Glob::new(pattern).unwrap().matches(&Subject {
            source: Some(b"source"),
            names: &names,
            is_dir,
        })
    }

    #[test]
    fn a_directory_with_its_contents() {
        for (pattern, path, is_dir, expected) in [
            ("foo/***", "foo", true, true),
            ("foo/***", "foo", false, false),
            ("foo/***", "foo/a", false, true),
            ("foo/***", "foo/a/b", true, true),
            ("foo/***", "x/foo/a", false, true),
            ("foo/***", "foot/a", false, false),
            ("foo//***", "foo/a", false, true),
            ("/foo/***", "foo/a", false, true),
            ("/foo/***", "x/foo/a", false, false),
            ("a/f*/***", "a/foo/b/c", false, true),
            ("a/f*/***", "b/foo/b/c", false, false),
            ("**/foo/***", "x/foo/b", false, true),
            // The source itself has the name.
            ("source/***", "a/b", false, true),
            ("/source/***", "a/b", false, false),
            // What has no directory before it is about everything.
            ("***", "a/b", false, true),
            ("/***", "a/b", false, true),
            ("/***", "a", false, true),
        ] {
            let found = matches_kind(pattern.as_bytes(), path.as_bytes(), is_dir);
            assert_eq!(found, expected, "{pattern} {path}");
        }
    }

    #[test]
    fn names_at_any_depth() {
        for (pattern, path, expected) in [
            ("*.tmp", "a.tmp", true),
            ("*.tmp", "a/b/.tmp", true),
            ("*.tmp", "a.tmp/b", false),
            ("*.tmp", "a.tmp.gz", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*", ".hidden", true),
            ("**", "a/b", true),
            ("a**z", "a-z", true),
            ("?", "\u{e4}", true),
            ("??", "\u{e4}", false),
            ("[!a-c]x", "dx", true),
            ("[^a-c]x", "bx", false),
            ("[]-]", "]", true),
            ("[]-]", "-", true),
            ("[\u{e0}-\u{ef}]", "\u{e4}", true),
            ("[a-]", "-", true),
            ("[*?]", "*", true),
            ("[*?]", "a", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("{a,b}", "a", false),
            ("build/", "a/build", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), path.as_bytes()),
                expected,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn paths_from_the_source_on() {
        for (pattern, path, expected) in [
            ("/a", "a", true),
            ("/a", "b/a", false),
            ("a/b", "a/b", true),
            ("./a/b", "a/b", true),
            ("a/b", "c/a/b", false),
            ("a/b", "a/b/c", false),
            ("a/*", "a/b/c", false),
            ("a/*/c", "a/b/c", true),
            ("**/a/b", "a/b", true),
            ("**/a/b", "x/y/a/b", true),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/c/z", true),
            ("a/**/z", "a/b/c", false),
            ("a/**", "a", false),
            ("a/**", "a/b/c", true),
            ("a/**/b/**/c", "a/b/x/b/c", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), path.as_bytes()),
                expected,
                "{pattern} {path}"
            );
        }
    }

    #[test]
    fn bytes_that_are_no_text() {
        assert!(matches(b"\xff?", b"\xff\xfe"));
        assert!(!matches(b"\xff", b"\xfe"));
        assert!(matches(b"[\xf0-\xff]", b"\xfe"));
        assert!(!matches(b"[\xf0-\xff]", "\u{fe}".as_bytes()));
        // The beginning of a character is not that character.
        assert!(!matches(b"\xc3*", "\u{e4}".as_bytes()));
    }

    #[test]
    fn what_is_no_pattern() {
        for (pattern, why) in [
            ("", BadPattern::Empty),
            ("//", BadPattern::Empty),
            (".", BadPattern::Empty),
            ("[a", BadPattern::Unclosed),
            ("[a/b]", BadPattern::SlashInBrackets),
            ("x/[/U]/y", BadPattern::SlashInBrackets),
            ("[a/b", BadPattern::Unclosed),
            ("a]/[b", BadPattern::Unclosed),
            ("[]", BadPattern::Unclosed),
            ("[z-a]", BadPattern::Backwards),
            ("[[:alpha:]]", BadPattern::Class),
            ("a\\", BadPattern::Backslash),
        ] {
            assert_eq!(Glob::new(pattern.as_bytes()), Err(why), "{pattern}");
        }
    }

    /// The same by trying everything.
    fn tried(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], _) => name.is_empty(),
            ([b'*', rest @ ..], _) => (0..=name.len()).any(|at| tried(rest, &name[at..])),
            ([b'?', rest @ ..], [_, others @ ..]) => tried(rest, others),
            ([a, rest @ ..], [b, others @ ..]) => a == b && tried(rest, others),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn stars_take_what_they_have_to(pattern in "[ab*?]{1,8}", name in "[ab]{1,8}") {
            // As a component, two stars have a meaning of their own, and the same one here.
            prop_assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), tried(pattern.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn nothing_panics(pattern in any::<Vec<u8>>(), path in any::<Vec<u8>>()) {
            if let Ok(glob) = Glob::new(&pattern) {
                let names: Vec<_> = path.split(|&byte| byte == b'/').collect();
                glob.matches(&Subject { source: None, names: &names, is_dir: false });
            }
        }
    }
}
