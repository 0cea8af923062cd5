//! Files that are lists: of names (`--files-from`), and of patterns (`--exclude-from`).

use super::flags::Flags;
use super::usage::Misuse;
use proactor_copy::quote;
use proactor_copy::{Action, Rule};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Of two lists that are stdin the second would be empty.
pub(super) fn check(flags: &Flags) -> Result<(), Misuse> {
    let lists = flags.files_from.iter().chain(&flags.exclude_from);
    if lists.filter(|list| *list == "-").count() > 1 {
        return Err(Misuse::plain("standard input (-) can be one list only"));
    }
    Ok(())
}

/// A list's bytes; `-` is stdin.
pub(super) fn read(list: &OsStr) -> Result<Vec<u8>, Misuse> {
    let read = if list == "-" {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(list)
    };
    read.map_err(|error| {
        Misuse::plain(format!(
            "{}: {}",
            quote::name(list),
            proactor_copy::reason(&error)
        ))
    })
}

/// The names in a list: with zeros between them if there is any, else with ends of lines, `\n` or `\r\n`.
///
/// A name may end in a carriage return: only a list with zeros can have it.
pub(super) fn names_in(list: &[u8]) -> impl Iterator<Item = OsString> + '_ {
    let end = if list.contains(&0) { 0 } else { b'\n' };
    let names = list
        .split(move |byte| *byte == end)
        .map(move |name| if end == 0 { name } else { without_return(name) })
        .filter(|name| !name.is_empty());
    names.map(|name| OsString::from_vec(name.to_vec()))
}

/// A rule for each pattern in a list: a line each, without the empty ones and those that begin with `#`.
pub(super) fn exclusions(list: &OsStr) -> Result<Vec<Rule>, Misuse> {
    let bytes = read(list)?;
    let lines = bytes.split(|byte| *byte == b'\n');
    lines
        .map(without_return)
        .filter(|line| !matches!(line, [] | [b'#', ..]))
        .map(|line| rule(Action::Exclude, OsStr::from_bytes(line)))
        .collect()
}

/// A line without the carriage return that editors of another system put at its end.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

pub(super) fn rule(action: Action, pattern: &OsStr) -> Result<Rule, Misuse> {
    Rule::new(action, pattern)
        .map_err(|problem| Misuse::with_hint(format!("invalid pattern {}: {problem}", quote::name(pattern))))
}

#[cfg(test)]
mod tests {
    use super::names_in;

    #[test]
    fn names() {
        let names = |list: &[u8]| names_in(list).collect::<Vec<_>>();
        assert_eq!(names(b"a\nb c\n"), ["a", "b c"]);
        assert_eq!(names(b"a\nb\0c\0"), ["a\nb", "c"]);
        assert_eq!(names(b"a\r\n\r\nb\r"), ["a", "b"]);
        assert_eq!(names(b"a\r\0b\r\n\0"), ["a\r", "b\r\n"]);
        assert!(names(b"").is_empty());
    }
}
