//! Files that are lists: of names (`--files-from`), and of patterns (`--exclude-from`).

use super::usage::Misuse;
use proactor_copy::quote;
use proactor_copy::{Action, Rule};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Fails if two lists are stdin: the second would be empty.
pub(super) fn check<'a>(lists: impl Iterator<Item = &'a OsString>) -> Result<(), Misuse> {
    if lists.filter(|list| *list == "-").count() > 1 {
        return Err(Misuse::plain("standard input (-) can be one list only"));
    }
    Ok(())
}

/// Returns a list's bytes; `-` is stdin.
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

/// Returns the names in a list: separated by zeros if it has any, else by line ends, `\n` or `\r\n`.
///
/// A name that ends in a carriage return requires a list with zeros.
pub(super) fn names_in(list: &[u8]) -> impl Iterator<Item = OsString> + '_ {
    let end = if list.contains(&0) { 0 } else { b'\n' };
    let names = list
        .split(move |byte| *byte == end)
        .map(move |name| if end == 0 { name } else { without_return(name) })
        .filter(|name| !name.is_empty());
    names.map(|name| OsString::from_vec(name.to_vec()))
}

/// Returns a rule for each pattern in a list, one a line, without empty lines and those that begin with `#`.
pub(super) fn exclusions(list: &OsStr) -> Result<Vec<Rule>, Misuse> {
    let bytes = read(list)?;
    let lines = bytes.split(|byte| *byte == b'\n');
    lines
        .map(without_return)
        .filter(|line| !matches!(line, [] | [b'#', ..]))
        .map(|line| rule(Action::Exclude, OsStr::from_bytes(line)))
        .collect()
}

/// Removes the carriage return that editors of other systems put at the end of a line.
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
