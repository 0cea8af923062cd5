//! Options from a TOML file. Each key is the name of an option, and its value is parsed as the option's own
//! would be: every option is described once.

use crate::suggestion;
use clap::error::ErrorKind;
use clap::Command;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Options that have no meaning in a file.
const NOT_HERE: [&str; 3] = ["config", "import", "help"];

/// Returns the options of `command` in a file as a command line has them. `words` are those that the command
/// needs beside options.
pub(crate) fn arguments(command: &Command, words: &[&str], file: &Path) -> Result<Vec<OsString>, String> {
    let text = fs::read_to_string(file)
        .map_err(|e| format!("--config {}: it cannot be read ({e})", file.display()))?;
    parse(command, words, &text).map_err(|(line, why)| format!("{}:{line}: {why}", file.display()))
}

/// Puts options of a file after the names of the command and before its own options, which come later and
/// take precedence.
pub(crate) fn before_own(command: &[OsString], more: Vec<OsString>) -> Vec<OsString> {
    let (name, own) = command.split_at(2);
    name.iter()
        .cloned()
        .chain(more)
        .chain(own.iter().cloned())
        .collect()
}

/// Parses the options of a text, or returns the line of a wrong one and the reason.
fn parse(command: &Command, words: &[&str], text: &str) -> Result<Vec<OsString>, (usize, String)> {
    let line = |at: usize| 1 + text[..at.min(text.len())].matches('\n').count();
    let table = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(text.len(), |span| span.start);
        (line(at), format!("this is no TOML: {}", e.message()))
    })?;
    let command = command.clone().disable_help_flag(true);
    let mut keys: Vec<_> = table.get_ref().iter().collect();
    keys.sort_by_key(|(key, _)| key.span().start);
    let mut arguments = Vec::new();
    for (key, value) in keys {
        let at = line(key.span().start);
        let name: &str = key.get_ref();
        check_name(&command, name).map_err(|why| (at, why))?;
        let source = &text[value.span()];
        let Some(value) = written(value.get_ref(), source).map_err(|why| (at, format!("{name}: {why}")))?
        else {
            continue;
        };
        let argument = match value.as_str() {
            "" => format!("--{name}"),
            value => format!("--{name}={value}"),
        };
        check_value(&command, words, &argument).map_err(|why| (at, why))?;
        arguments.push(argument.into());
    }
    Ok(arguments)
}

fn check_name(command: &Command, name: &str) -> Result<(), String> {
    let mut names: Vec<&str> = command.get_arguments().filter_map(|arg| arg.get_long()).collect();
    names.retain(|name| !NOT_HERE.contains(name));
    let is_alias = command.get_arguments().any(|arg| {
        let aliases = arg.get_visible_aliases().unwrap_or_default();
        aliases.contains(&name)
    });
    if names.contains(&name) || is_alias {
        return Ok(());
    }
    names.sort_unstable();
    Err(format!(
        "no option is called {name:?}{}; there are {}",
        suggestion::like(command, name, &NOT_HERE),
        names.join(", ")
    ))
}

/// Returns a value as it is written on a command line. `None` for an option that is not set; empty for an
/// option without a value.
fn written(value: &DeValue<'_>, source: &str) -> Result<Option<String>, String> {
    Ok(Some(match value {
        DeValue::String(text) if text.is_empty() => return Err("write a value".into()),
        DeValue::String(text) => text.clone().into_owned(),
        DeValue::Integer(_) | DeValue::Float(_) => source.replace('_', ""),
        DeValue::Boolean(true) => String::new(),
        DeValue::Boolean(false) => return Ok(None),
        DeValue::Array(parts) => {
            let parts = parts.iter().map(|part| match part.get_ref() {
                DeValue::Integer(number) => Ok(number.to_string()),
                DeValue::String(text) => Ok(text.clone().into_owned()),
                _ => Err("a list has numbers, or words"),
            });
            parts.collect::<Result<Vec<String>, _>>()?.join(",")
        }
        _ => return Err("write a number, a word in quotes, true, false or a list".into()),
    }))
}

/// Checks an option's value, without the options that it requires.
fn check_value(command: &Command, words: &[&str], argument: &str) -> Result<(), String> {
    let line = [command.get_name()]
        .into_iter()
        .chain(words.iter().copied())
        .chain([argument]);
    match command.clone().try_get_matches_from(line) {
        Err(e) if e.kind() != ErrorKind::MissingRequiredArgument => {
            let text = e.to_string();
            let first = text.lines().next().unwrap_or_default();
            Err(first.trim_start_matches("error: ").to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

    fn parse(text: &str) -> Result<Vec<OsString>, (usize, String)> {
        let serve = crate::serve::Serve::augment_args(Command::new("serve"));
        super::parse(&serve, &["echo"], text)
    }

    #[test]
    fn options_are_read() {
        let text = "port = 0\nuser-workers = 2 # threads\n\nkernel-cpus = [1, 3]\nidle-timeout = \"5s\"\nstats = true\nqueue = 4_096\n";
        let read = parse(text).unwrap();
        let expected = [
            "--port=0",
            "--user-workers=2",
            "--kernel-cpus=1,3",
            "--idle-timeout=5s",
            "--stats",
            "--queue=4096",
        ];
        assert_eq!(read, expected);
        assert!(parse("stats = false\n").unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, at, why) in [
            (
                "port = 0\nwrokers = 2\n",
                2,
                "no option is called \"wrokers\" (did you mean '--workers'?); there are",
            ),
            ("nothing = 2\n", 1, "no option is called \"nothing\"; there are"),
            ("config = 'x'\n", 1, "no option is called \"config\""),
            ("\n\nworkers = 0\n", 3, "from 1 to 1024"),
            ("workers = [[1]]\n", 1, "a list has numbers"),
            ("workers = {a = 1}\n", 1, "write a number"),
            ("host = ''\n", 1, "write a value"),
            ("port = 1\nport = 2\n", 2, "this is no TOML"),
            ("port\n", 1, "this is no TOML"),
        ] {
            let (line, said) = parse(text).unwrap_err();
            assert!(line == at && said.contains(why), "{text:?}: {line}: {said}");
        }
    }
}
