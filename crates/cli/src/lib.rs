//! The `proactor` command as a library, so that the native binary and Python's entry point are one program.
//!
//! One directory per subcommand; no I/O logic lives here.

mod bench;
mod cluster;
mod config;
mod cp;
mod doctor;
mod given;
mod kernel_workers;
mod progress;
mod run;
mod serve;
mod signals;
mod streams;
mod suggestion;

pub use cluster::{Cluster, Ended, Tasks};
pub use streams::hold_streams;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};

#[derive(Parser)]
#[command(name = "proactor", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Copy files and trees: GNU cp's command line, with more care and in parallel
    #[command(
        version,
        display_name = "proactor cp",
        override_usage = "proactor cp [OPTION]... SOURCE... TARGET",
        after_help = "Exits with 0 if everything was copied, with 1 if not, with 129, 130 or 143 if a signal ended it."
    )]
    Cp(Box<cp::Cp>),
    /// Measure which way of doing I/O suits which work on this machine
    Bench(Box<bench::Bench>),
    /// Run a server on rings: echo, lines, or a key-value store
    #[command(after_help = serve::AFTER_HELP)]
    Serve(Box<serve::Serve>),
    /// Report what this machine offers, which engine is chosen on it, and why
    ///
    /// Runs a real op on each engine. Exits with 0 if the engine that would be chosen works, with 1 if not.
    Doctor(doctor::Doctor),
    /// Run an unmodified epoll server with its TCP sockets on a ring
    ///
    /// Loads a library into the program and becomes it, so that its exit status and its signals are the
    /// program's own. What cannot be done exactly as epoll does it is handed back to epoll. Exits with 2 for
    /// what cannot be done, with 126 or 127 if there is no such program.
    #[command(override_usage = "proactor run [OPTIONS] [--] COMMAND...")]
    Run(Box<run::Run>),
    /// Print a script that completes this command's words in a shell
    ///
    /// bash: proactor completions bash > ~/.local/share/bash-completion/completions/proactor
    ///
    /// zsh: proactor completions zsh > _proactor, in a directory of $fpath
    ///
    /// fish: proactor completions fish > ~/.config/fish/completions/proactor.fish
    #[command(verbatim_doc_comment)]
    Completions { shell: Shell },
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    fn script(self) -> Vec<u8> {
        let generator = match self {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Zsh => clap_complete::Shell::Zsh,
            Shell::Fish => clap_complete::Shell::Fish,
        };
        let mut script = Vec::new();
        clap_complete::generate(generator, &mut command(), "proactor", &mut script);
        script
    }
}

/// The command line, for the man pages.
#[doc(hidden)]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Environment of the command: the native binary provides none of this, Python's entry point both.
#[derive(Clone, Default)]
pub struct Host<'a> {
    /// Access to engines that run tasks on many machines.
    pub cluster: Option<&'a dyn Cluster>,
    /// Path of the interpreter.
    pub python: Option<std::path::PathBuf>,
}

/// Runs the command with `args`, the program's name first, and returns its exit status.
pub fn run<A>(args: impl IntoIterator<Item = A>, host: &Host<'_>) -> u8
where
    A: Into<OsString> + Clone,
{
    hold_streams();
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let status = run_command(&args, host);
    match UNWRITTEN.swap(false, Ordering::Relaxed) {
        true if status == 0 => 1,
        _ => status,
    }
}

fn run_command(args: &[OsString], host: &Host<'_>) -> u8 {
    match Cli::try_parse_from(args) {
        Ok(Cli { command: None }) => 0,
        Ok(Cli {
            command: Some(command),
        }) => match command {
            Command::Bench(bench) => bench::run(&bench, args, host),
            Command::Cp(args) => cp::run(&args, host.cluster),
            Command::Serve(serve) => serve::run(*serve, args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Run(run) => run::run(*run, args, host),
            Command::Completions { shell } => {
                print(&String::from_utf8_lossy(&shell.script()));
                0
            }
        },
        Err(error) if args.get(1).is_some_and(|name| name == "cp") => cp::report_usage(&error, &args[2..]),
        Err(error) => {
            print_usage(&error);
            u8::try_from(error.exit_code()).unwrap_or(2)
        }
    }
}

/// True if output to stdout was lost: the command has failed then.
static UNWRITTEN: AtomicBool = AtomicBool::new(false);

/// Writes a line to stderr.
fn complain(text: &str) {
    to_stderr(&format!("{text}\n"));
}

/// Writes to stderr. A failure cannot be reported anywhere, and the work continues: the exit status tells the
/// rest.
fn to_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes to stdout.
fn print(text: &str) {
    let mut out = io::stdout().lock();
    let written = streams::check_stdout().and_then(|()| out.write_all(text.as_bytes()));
    note(written.and_then(|()| out.flush()));
}

/// Writes clap's text: help that was asked for to stdout, everything else to stderr.
fn print_usage(error: &clap::Error) {
    let written = error.print();
    if !error.use_stderr() {
        note(streams::check_stdout().and(written));
    }
}

fn note(written: io::Result<()>) {
    let Err(error) = written else { return };
    UNWRITTEN.store(true, Ordering::Relaxed);
    // If the reader has gone, only the exit status tells.
    if error.kind() != io::ErrorKind::BrokenPipe {
        complain(&format!("proactor: cannot write to standard output: {error}"));
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
        assert_eq!(
            super::run(["proactor", "--no-such-flag"], &super::Host::default()),
            2
        );
    }

    #[test]
    fn a_cluster_is_asked_for_and_not_there() {
        let here = env!("CARGO_MANIFEST_DIR");
        let new = format!("{here}/not-made");
        let status = super::run(
            ["proactor", "cp", "-a", "--ray=auto", here, &new],
            &super::Host::default(),
        );
        assert_eq!(status, 1);
        assert!(!std::path::Path::new(&new).exists());
    }
}
