//! Words that name a value, whole or abbreviated, and the messages for others.

use super::usage::Misuse;
use proactor_copy::quote;
use std::ffi::OsStr;

/// A table of values with their names, the usual one first.
pub(super) type Table<T> = &'static [(T, &'static [&'static str])];

/// Returns the value that `word` names, alone or with other names of the same value.
pub(super) fn choose<T: Copy + PartialEq>(of: &str, word: &OsStr, table: Table<T>) -> Result<T, Misuse> {
    let word_bytes = word.as_encoded_bytes();
    let names = || {
        table
            .iter()
            .flat_map(|(value, names)| names.iter().map(move |name| (*value, *name)))
    };
    if let Some((value, _)) = names().find(|(_, name)| name.as_bytes() == word_bytes) {
        return Ok(value);
    }
    let mut begun = names().filter(|(_, name)| name.as_bytes().starts_with(word_bytes));
    let problem = match begun.next() {
        None => "invalid",
        Some((value, _)) if begun.all(|(other, _)| other == value) => return Ok(value),
        Some(_) => "ambiguous",
    };
    let mut text = format!(
        "{problem} argument {} for {}\nValid arguments are:",
        quote::mark(word),
        quote::mark(of)
    );
    for (_, names) in table {
        let names: Vec<_> = names.iter().map(quote::mark).collect();
        text += &format!("\n  - {}", names.join(", "));
    }
    Err(Misuse::with_hint(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table<u8> = &[(0, &["none", "off"]), (1, &["numbered", "t"]), (2, &["never"])];

    #[test]
    fn whole_and_cut_short() {
        for (word, value) in [
            ("none", 0),
            ("off", 0),
            ("o", 0),
            ("nu", 1),
            ("never", 2),
            ("ne", 2),
        ] {
            assert_eq!(choose("--x", OsStr::new(word), TABLE).ok(), Some(value), "{word}");
        }
    }

    #[test]
    fn neither() {
        for (word, problem) in [("n", "ambiguous"), ("", "ambiguous"), ("nones", "invalid")] {
            let misuse = choose("--x", OsStr::new(word), TABLE).unwrap_err();
            assert!(misuse.text.starts_with(problem), "{word}: {}", misuse.text);
        }
    }
}
