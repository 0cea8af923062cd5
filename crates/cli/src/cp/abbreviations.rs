//! Abbreviations of GNU cp's options that our options would make ambiguous: they mean GNU's.

use clap::Command;

/// Long options of GNU cp (coreutils 9.6).
const GNU: &[&str] = &[
    "archive",
    "attributes-only",
    "backup",
    "context",
    "copy-contents",
    "debug",
    "dereference",
    "force",
    "help",
    "interactive",
    "keep-directory-symlink",
    "link",
    "no-clobber",
    "no-dereference",
    "no-preserve",
    "no-target-directory",
    "one-file-system",
    "parents",
    "preserve",
    "recursive",
    "reflink",
    "remove-destination",
    "sparse",
    "strip-trailing-slashes",
    "suffix",
    "symbolic-link",
    "target-directory",
    "update",
    "verbose",
    "version",
];

/// Gives GNU's options as aliases the abbreviations that are unambiguous among them and ambiguous with ours.
pub(super) fn of_gnu(command: Command) -> Command {
    let all: Vec<String> = command
        .get_arguments()
        .filter_map(|argument| argument.get_long().map(String::from))
        .collect();
    command.mut_args(|argument| {
        let Some(long) = argument
            .get_long()
            .and_then(|long| GNU.iter().find(|name| **name == long))
        else {
            return argument;
        };
        let aliases: Vec<&'static str> = (1..long.len())
            .map(|end| &long[..end])
            .filter(|prefix| GNU.iter().filter(|name| name.starts_with(prefix)).count() == 1)
            .filter(|prefix| all.iter().filter(|name| name.starts_with(prefix)).count() > 1)
            // The full name of one of our options means that option.
            .filter(|prefix| !all.iter().any(|name| name == prefix))
            .collect();
        argument.aliases(aliases)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn all_of_gnu_are_ours() {
        let mut command = crate::Cli::command();
        let copy = command.find_subcommand_mut("cp").expect("it is there");
        let ours: Vec<_> = copy
            .get_arguments()
            .filter_map(|argument| argument.get_long())
            .collect();
        let lacking: Vec<_> = GNU.iter().filter(|name| !ours.contains(name)).collect();
        assert!(lacking.is_empty(), "{lacking:?}");
    }

    #[test]
    fn an_abbreviation_of_gnu_is_that_of_one_option() {
        for (word, long) in [
            ("--b", "backup"),
            ("--i", "interactive"),
            ("--in", "interactive"),
            ("--f", "force"),
            ("--in-p", "in_place"),
            ("--bw=5", "bwlimit"),
        ] {
            let matches = crate::Cli::command().get_matches_from(["proactor", "cp", word, "a", "b"]);
            let (_, copy) = matches.subcommand().expect("cp");
            let id = long.replace('-', "_");
            let source = copy.value_source(&id);
            assert_eq!(source, Some(clap::parser::ValueSource::CommandLine), "{word}");
        }
        for word in ["--re", "--p", "--ver"] {
            let parsed = crate::Cli::command().try_get_matches_from(["proactor", "cp", word, "a", "b"]);
            assert!(parsed.is_err(), "{word} is ambiguous for GNU's cp, too");
        }
    }
}
