//! Values of flags: words, whole or abbreviated, and numbers, with GNU's messages for others.

use super::usage::Misuse;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, ValueEnum};
use proactor_bench::units;
use proactor_copy::quote;
use proactor_copy::{Backup, Engine, Fsync, Reflink, Sparse, When};
use std::ffi::{OsStr, OsString};
use std::marker::PhantomData;

/// Existing files that are overwritten.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum Overwriting {
    /// All
    All,
    /// None: they are skipped
    None,
    /// None: each is an error
    NoneFail,
    /// Those that are older than the source
    Older,
}

impl From<Overwriting> for When {
    fn from(word: Overwriting) -> When {
        match word {
            Overwriting::All => When::All,
            Overwriting::None => When::None,
            Overwriting::NoneFail => When::NoneFail,
            Overwriting::Older => When::Older,
        }
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum BackupControl {
    /// Keep nothing
    #[value(alias = "off")]
    None,
    /// The name and the suffix
    #[value(alias = "never")]
    Simple,
    /// Numbered where there are numbered ones, otherwise simple
    #[value(alias = "nil")]
    Existing,
    /// NAME.~1~, NAME.~2~ and so on
    #[value(alias = "t")]
    Numbered,
}

impl From<BackupControl> for Backup {
    fn from(word: BackupControl) -> Backup {
        match word {
            BackupControl::None => Backup::None,
            BackupControl::Simple => Backup::Simple,
            BackupControl::Existing => Backup::Existing,
            BackupControl::Numbered => Backup::Numbered,
        }
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum SparseWhen {
    /// Fill holes with zeros
    Never,
    /// Keep holes (the default)
    Auto,
    /// Make holes from zeros, too
    Always,
}

impl From<SparseWhen> for Sparse {
    fn from(word: SparseWhen) -> Sparse {
        match word {
            SparseWhen::Never => Sparse::Never,
            SparseWhen::Auto => Sparse::Auto,
            SparseWhen::Always => Sparse::Always,
        }
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum ShareBlocks {
    /// Where the file system can (the default)
    Auto,
    /// An error where it cannot
    Always,
    Never,
}

impl From<ShareBlocks> for Reflink {
    fn from(word: ShareBlocks) -> Reflink {
        match word {
            ShareBlocks::Auto => Reflink::Auto,
            ShareBlocks::Always => Reflink::Always,
            ShareBlocks::Never => Reflink::Never,
        }
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum DataSync {
    /// Never: the kernel writes it later
    None,
    /// Once, before the command ends
    End,
    /// Each file before it gets its name
    Each,
}

impl From<DataSync> for Fsync {
    fn from(word: DataSync) -> Fsync {
        match word {
            DataSync::None => Fsync::None,
            DataSync::End => Fsync::End,
            DataSync::Each => Fsync::Each,
        }
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum SmallFileEngine {
    /// By what is faster: rings for --fsync=each and --verify, threads for everything else
    Auto,
    /// By threads
    Threads,
    /// By threads that have many in flight, each in its ring; an error without io_uring
    #[value(alias = "io_uring")]
    Uring,
}

impl From<SmallFileEngine> for Engine {
    fn from(word: SmallFileEngine) -> Engine {
        match word {
            SmallFileEngine::Auto => Engine::Auto,
            SmallFileEngine::Threads => Engine::Threads,
            SmallFileEngine::Uring => Engine::Uring,
        }
    }
}

/// Attributes of `--preserve` and `--no-preserve`.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum Attribute {
    Mode,
    Timestamps,
    Ownership,
    Links,
    Context,
    Xattr,
    Flags,
    All,
}

/// Tells clap the words of a flag, for its help, the man page and completions. Parses nothing: [`choose`]
/// does that, in the flags' order.
pub(super) struct Words<T>(PhantomData<fn() -> T>);

impl<T> Words<T> {
    pub fn new() -> Words<T> {
        Words(PhantomData)
    }
}

impl<T> Clone for Words<T> {
    fn clone(&self) -> Words<T> {
        Words::new()
    }
}

impl<T: ValueEnum + 'static> TypedValueParser for Words<T> {
    type Value = OsString;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, value: &OsStr) -> Result<OsString, clap::Error> {
        Ok(value.to_os_string())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            T::value_variants().iter().filter_map(T::to_possible_value),
        ))
    }
}

/// Returns the value that `word` names, alone or with other names of the same value.
pub(super) fn choose<T: ValueEnum + PartialEq + Copy>(of: &str, word: &OsStr) -> Result<T, Misuse> {
    let all: Vec<(T, PossibleValue)> = T::value_variants()
        .iter()
        .filter_map(|value| Some((*value, value.to_possible_value()?)))
        .collect();
    let word_bytes = word.as_encoded_bytes();
    let names = || {
        all.iter()
            .flat_map(|(value, names)| names.get_name_and_aliases().map(move |name| (*value, name)))
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
    for (_, names) in &all {
        let names: Vec<_> = names.get_name_and_aliases().map(quote::mark).collect();
        text += &format!("\n  - {}", names.join(", "));
    }
    Err(Misuse::with_hint(text))
}

/// Parses an integer of at least `least`.
pub(super) fn at_least(least: usize, of: &str, word: &OsStr) -> Result<usize, Misuse> {
    let parsed = word.to_str().and_then(|word| word.parse().ok());
    let number = parsed.filter(|number| *number >= least);
    number.ok_or_else(|| expected(of, word, &format!("an integer of at least {least}")))
}

/// Parses a number of bytes.
pub(super) fn bytes(of: &str, word: &OsStr) -> Result<u64, Misuse> {
    let parsed = word.to_str().and_then(units::parse_decimal_or_binary);
    parsed.ok_or_else(|| expected(of, word, "a number of bytes, such as 500000, 1.5M or 20MB"))
}

fn expected(of: &str, word: &OsStr, what: &str) -> Misuse {
    let (word, of) = (quote::mark(word), quote::mark(of));
    Misuse::with_hint(format!("invalid argument {word} for {of}: expected {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(word: &str) -> Result<BackupControl, Misuse> {
        choose("--backup", OsStr::new(word))
    }

    #[test]
    fn whole_and_abbreviated() {
        for (word, value) in [
            ("none", BackupControl::None),
            ("off", BackupControl::None),
            ("o", BackupControl::None),
            ("nu", BackupControl::Numbered),
            ("never", BackupControl::Simple),
            ("ne", BackupControl::Simple),
        ] {
            assert!(chosen(word).is_ok_and(|found| found == value), "{word}");
        }
    }

    #[test]
    fn others() {
        for (word, problem) in [("n", "ambiguous"), ("", "ambiguous"), ("nones", "invalid")] {
            let Err(misuse) = chosen(word) else {
                panic!("{word} was taken")
            };
            assert!(misuse.text.starts_with(problem), "{word}: {}", misuse.text);
        }
    }
}
