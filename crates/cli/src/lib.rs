//! The `proactor` command as a library, so that the native binary and Python's entry point are one program.
//!
//! One file per subcommand; no I/O logic lives here.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "proactor", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {}

/// Runs the command with `args`, the program's name first, and returns its exit status.
pub fn run<A>(args: impl IntoIterator<Item = A>) -> u8
where
    A: Into<OsString> + Clone,
{
    match Cli::try_parse_from(args) {
        Ok(Cli { command: None }) => 0,
        Ok(Cli {
            command: Some(command),
        }) => match command {},
        Err(error) => {
            // A closed stdout is the reader's choice, not an error to report.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn flags_are_consistent() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn unknown_flag_is_a_usage_error() {
        assert_eq!(super::run(["proactor", "--no-such-flag"]), 2);
    }
}
