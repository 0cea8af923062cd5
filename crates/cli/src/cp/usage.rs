//! Errors in a command line, in the words of GNU cp.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::CommandFactory as _;
use proactor_copy::quote;
use std::ffi::{OsStr, OsString};

pub(super) const PROGRAM: &str = "proactor cp";

/// Exit status for a wrong command line, the same as GNU's: scripts cannot tell it from a failed copy.
pub(super) const FAILURE: u8 = 1;

/// Reason why a command line is refused.
#[derive(Debug)]
pub(super) struct Misuse {
    pub text: String,
    /// True if the message refers to `--help`.
    pub hint: bool,
}

impl Misuse {
    pub fn with_hint(text: impl Into<String>) -> Misuse {
        Misuse {
            text: text.into(),
            hint: true,
        }
    }

    pub fn plain(text: impl Into<String>) -> Misuse {
        Misuse {
            text: text.into(),
            hint: false,
        }
    }

    /// Prints the message, and returns the exit status.
    pub fn report(&self) -> u8 {
        crate::complain(&format!("{PROGRAM}: {}", self.text));
        if self.hint {
            crate::complain(&format!("Try '{PROGRAM} --help' for more information."));
        }
        FAILURE
    }
}

/// Reports what clap does not understand in `arguments`, or prints the help that was asked for.
pub(crate) fn report(error: &clap::Error, arguments: &[OsString]) -> u8 {
    if !error.use_stderr() {
        crate::print_usage(error);
        return 0;
    }
    misuse(error, arguments).report()
}

fn misuse(error: &clap::Error, arguments: &[OsString]) -> Misuse {
    let flag = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => flag.split([' ', '=']).next().unwrap_or_default(),
        _ => "",
    };
    let text = match error.kind() {
        ErrorKind::UnknownArgument => unknown(flag, arguments) + &suggestion(error),
        ErrorKind::TooManyValues => format!("option '{flag}' doesn't allow an argument"),
        ErrorKind::InvalidValue | ErrorKind::NoEquals => lacking(flag, arguments),
        _ => error.kind().as_str().unwrap_or("wrong usage").to_string(),
    };
    Misuse::with_hint(text)
}

fn unknown(flag: &str, arguments: &[OsString]) -> String {
    if flag == "--" || !flag.starts_with("--") {
        return format!("invalid option -- '{}'", &flag[1..]);
    }
    let meant = long_flags()
        .filter(|name| name.starts_with(flag))
        .collect::<Vec<_>>();
    if meant.len() > 1 {
        let names: Vec<_> = meant.iter().map(|name| format!("'{name}'")).collect();
        return format!("option '{flag}' is ambiguous; possibilities: {}", names.join(" "));
    }
    // With its value, as it was given.
    let whole = arguments
        .iter()
        .filter_map(|word| word.to_str())
        .find(|word| word.split('=').next() == Some(flag));
    format!("unrecognized option '{}'", whole.unwrap_or(flag))
}

/// Returns the flag that was probably meant, in parentheses.
fn suggestion(error: &clap::Error) -> String {
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(flag)) => format!(" (did you mean '{flag}'?)"),
        _ => String::new(),
    }
}

fn long_flags() -> impl Iterator<Item = String> {
    let mut command = crate::Cli::command();
    let copy = command.find_subcommand_mut("cp").expect("it is this one");
    let names = copy.get_arguments().filter_map(|argument| argument.get_long());
    names
        .map(|name| format!("--{name}"))
        .collect::<Vec<_>>()
        .into_iter()
}

/// Returns the message for a flag without its value, which only the last word can be.
fn lacking(flag: &str, arguments: &[OsString]) -> String {
    let last = arguments
        .last()
        .map(OsString::as_os_str)
        .unwrap_or(OsStr::new(flag));
    match last.to_string_lossy() {
        word if word.starts_with("--") => format!("option '{flag}' requires an argument"),
        word => format!(
            "option requires an argument -- '{}'",
            word.chars().last().unwrap_or('-')
        ),
    }
}

pub(super) fn missing_target(source: &OsStr) -> Misuse {
    Misuse::with_hint(format!(
        "missing destination file operand after {}",
        quote::name(source)
    ))
}
